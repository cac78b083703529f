//! The store as its users see it.

use bytes::Bytes;
use message::{Headers, SharedHeaders};

use super::*;
use crate::ObjectKind;
use crate::rules::{Flags, Meta, Vary};
use crate::{Content, Key, StoredResponse};

mod accounting;
mod hit_ratio;
mod lifecycle;
mod model;
mod previewing;
mod purging;
mod races;
mod top;

pub(super) const MIB: u64 = 1024 * 1024;
const ROUTE: &str = "\0route";

/// An object that a test stores.
#[derive(Clone, Debug)]
pub(super) struct Sample<'a> {
    pub(super) url: &'a str,
    pub(super) rest: String,
    pub(super) body: usize,
    pub(super) tags: Vec<u64>,
    /// The version of the canonical response, for a transcoded one.
    pub(super) derived_of: Option<u64>,
    pub(super) lifetime_s: u32,
    pub(super) flags: Flags,
}

pub(super) fn sample(url: &str) -> Sample<'_> {
    Sample {
        url,
        rest: ROUTE.to_owned(),
        body: 100,
        tags: Vec::new(),
        derived_of: None,
        lifetime_s: 60,
        flags: Flags::default(),
    }
}

impl Sample<'_> {
    pub(super) fn variant(mut self, name: &str) -> Self {
        self.rest = format!("{ROUTE}\0v:{name}");
        self
    }

    pub(super) fn derived(mut self, coding: &str, version: u64) -> Self {
        self.rest = format!("{}\0c:{coding}", self.rest);
        self.derived_of = Some(version);
        self
    }

    pub(super) fn tagged(mut self, tags: &[u64]) -> Self {
        self.tags = tags.to_vec();
        self
    }

    pub(super) fn key(&self) -> Key {
        Key::new(format!("{}{}", self.url, self.rest).into_bytes(), self.url.len())
    }

    pub(super) fn object(&self, store: &Store) -> Object {
        let mut head = Headers::new();
        head.append("content-type", "text/html");
        let meta = Meta {
            status: 200,
            flags: self.flags,
            received_secs: net::clock::wall_secs(),
            initial_age_s: 0,
            lifetime_s: self.lifetime_s,
            while_revalidate_s: 0,
            if_error_s: 0,
        };
        let response = StoredResponse {
            version: self.derived_of.unwrap_or_else(|| store.next_version()),
            meta,
            head: SharedHeaders::from(&head),
            hidden: None,
            content: Content::Memory(Bytes::from(vec![b'x'; self.body])),
            coding: None,
            derived: self.derived_of.is_some(),
            hits: Default::default(),
            tags: self.tags.clone().into(),
        };
        let kind = ObjectKind::Response(response);
        Object { key: self.key(), kind, state: Default::default() }
    }

    /// Stores it, as fetched just now.
    pub(super) fn put(&self, store: &Store) -> Result<Arc<Object>, InsertError> {
        self.put_since(store, store.purge_epoch())
    }

    pub(super) fn put_since(
        &self,
        store: &Store,
        begun: PurgeEpoch,
    ) -> Result<Arc<Object>, InsertError> {
        let object = self.object(store);
        match self.derived_of {
            Some(_) => store.insert_derived(object),
            None => store.insert(object, begun, 32),
        }
    }

    pub(super) fn found(&self, store: &Store) -> Option<Arc<Object>> {
        let key = self.key();
        store.get(key.hash(), key.text())
    }
}

pub(super) fn version(object: &Object) -> u64 {
    match &object.kind {
        ObjectKind::Response(response) => response.version,
        _ => 0,
    }
}

pub(super) fn marker(url: &str, kind: ObjectKind) -> Object {
    let key = Key::new(format!("{url}{ROUTE}").into_bytes(), url.len());
    Object { key, kind, state: Default::default() }
}

pub(super) fn varies() -> ObjectKind {
    ObjectKind::Varies(Vary { fields: vec![b"accept-language"[..].into()].into() })
}

pub(super) fn removed_count(store: &Store, reason: RemovalReason) -> u64 {
    store.stats().left[RemovalReason::ALL.iter().position(|one| *one == reason).unwrap()]
}
