//! What a store holds under one key.
//!
//! An object never changes once it is stored: a new one takes its place (a 304 makes an object that
//! shares the old one's content). Only its life is written to, by whoever finds, purges or evicts
//! it, with single atomic words. Anybody may go on reading an object that has left the store.

use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, Ordering};

use coding::Coding;
/// The content of a stored response, whole. A `File` is of the disk tier and weighs nothing in
/// memory; a `MemoryFile` is memory that only we know (memfd) and weighs what it holds.
pub use exchange::Content;
use exchange::SharedHeaders;

use crate::rules::{Meta, SearchRule, UncachedReason, Vary};
use crate::{Key, Parts};

/// One thing under one key.
pub struct Object {
    pub key: Key,
    pub kind: ObjectKind,
    pub state: ObjectState,
}

impl Object {
    /// The response, if it is one or parts of one.
    pub fn response(&self) -> Option<&StoredResponse> {
        match &self.kind {
            ObjectKind::Response(response) => Some(response),
            ObjectKind::Parts(parts) => Some(&parts.response),
            _ => None,
        }
    }
}

/// What an object is.
pub enum ObjectKind {
    /// A stored response in one coding: the canonical one, as the origin sent it, or one derived
    /// from it.
    Response(StoredResponse),
    /// Parts of a response that is too long to be stored whole.
    Parts(Box<Parts>),
    /// What is stored under this key varies: the variants are under keys that begin with this one.
    Varies(Vary),
    /// The origin says which parameters of the query do not matter (No-Vary-Search): stands under
    /// the URL without a query.
    NoVarySearch(SearchRule),
    /// The last answer could not be stored: requests need not wait for each other (hit-for-miss).
    Uncacheable {
        /// Until then, in seconds since 1970.
        until_secs: u64,
        /// What was in the way, for whoever asks.
        why: UncachedReason,
    },
}

/// A stored response.
#[derive(Clone)]
pub struct StoredResponse {
    /// Ties derived codings to the canonical response they were made from: both have the same.
    pub version: u64,
    pub meta: Meta,
    /// The fields to send, without what is said anew for each answer (Age, Date stays the origin's,
    /// Cache-Status, Connection, Content-Length).
    pub head: SharedHeaders,
    /// What the origin said to us alone: never sent, kept for the next merge with a 304.
    pub hidden: Option<Box<SharedHeaders>>,
    pub content: Content,
    /// The coding of `content`; `None` is identity, or one that we do not know.
    pub coding: Option<Coding>,
    /// Whether it was derived here from the canonical response.
    pub derived: bool,
    /// Hashes of tags and groups it can be purged by.
    pub tags: Box<[u64]>,
}

/// What changes of a stored object.
#[derive(Default)]
pub struct ObjectState {
    /// Whether it has left the store: tables of workers let go of it.
    gone: AtomicBool,
    /// Whether it was purged softly: it is stale from then on, whatever its lifetime.
    stale: AtomicBool,
    /// Uses since it was last looked at by eviction, up to [`ObjectState::USES_MAX`].
    uses: AtomicU8,
    /// Until then, in seconds since 1970, the origin is not asked again: it has just failed.
    rest_until_secs: AtomicU32,
    /// Codings that need not be tried again, a bit for each.
    tried: AtomicU8,
}

impl ObjectState {
    /// More uses than this count as this (S3-FIFO's two bits).
    pub const USES_MAX: u8 = 3;
    /// Bits of `tried` above those of the codings.
    const TOO_LONG_DECODED: u8 = 6;
    const DAMAGED: u8 = 7;

    pub fn is_removed(&self) -> bool {
        self.gone.load(Ordering::Relaxed)
    }

    pub fn set_removed(&self) {
        self.gone.store(true, Ordering::Relaxed);
    }

    pub fn is_stale(&self) -> bool {
        self.stale.load(Ordering::Relaxed)
    }

    pub fn make_stale(&self) {
        self.stale.store(true, Ordering::Relaxed);
    }

    /// Counts a use. Writes nothing once there are enough, so that what everybody reads stays in
    /// everybody's cache.
    pub fn count_use(&self) {
        let uses = self.uses.load(Ordering::Relaxed);
        if uses < Self::USES_MAX {
            self.uses.store(uses + 1, Ordering::Relaxed);
        }
    }

    /// The origin has failed to confirm it, and is left alone for a moment.
    pub fn back_off_until(&self, until_secs: u64) {
        let until_secs = u32::try_from(until_secs).unwrap_or(u32::MAX);
        self.rest_until_secs.store(until_secs, Ordering::Relaxed);
    }

    pub fn is_backing_off(&self, now_secs: u64) -> bool {
        u64::from(self.rest_until_secs.load(Ordering::Relaxed)) > now_secs
    }

    /// Notes that making a coding of it was tried; whether it had been before.
    pub fn mark_tried(&self, coding: u8) -> bool {
        self.tried.fetch_or(1 << coding, Ordering::Relaxed) & (1 << coding) != 0
    }

    /// Which codings were tried, a bit for each.
    pub fn tried(&self) -> u8 {
        self.tried.load(Ordering::Relaxed)
    }

    pub fn was_tried(&self, coding: u8) -> bool {
        self.tried.load(Ordering::Relaxed) & (1 << coding) != 0
    }

    /// Decoded, it is longer than a response may be: clients that do not take its coding are sent
    /// to the origin.
    pub fn set_too_long_decoded(&self) {
        self.mark_tried(Self::TOO_LONG_DECODED);
    }

    pub fn is_too_long_decoded(&self) -> bool {
        self.was_tried(Self::TOO_LONG_DECODED)
    }

    /// It does not decode: it has been taken out, and is to be fetched again.
    pub fn set_damaged(&self) {
        self.mark_tried(Self::DAMAGED);
    }

    pub fn is_damaged(&self) -> bool {
        self.was_tried(Self::DAMAGED)
    }

    pub fn uses(&self) -> u8 {
        self.uses.load(Ordering::Relaxed)
    }

    pub fn set_uses(&self, uses: u8) {
        self.uses.store(uses, Ordering::Relaxed);
    }
}
