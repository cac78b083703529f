//! The object that is stored under a key.
//!
//! An object never changes once it is stored: a new one replaces it (a 304 makes an object that
//! shares the old one's content). Only its [`ObjectState`] and its [`Hits`] are written, as single
//! atomic words, by lookups, purges and evictions. An object that has been removed can still be
//! read.

use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, Ordering};

use coding::Coding;
/// The content of a stored response. A `File` belongs to the disk tier and takes no memory; a
/// `MemoryFile` is an anonymous file (memfd) and takes what it holds.
pub use message::Content;
use message::SharedHeaders;
use net::FileRange;

use crate::rules::{Meta, SearchRule, UncachedReason, Vary};
use crate::{Key, Parts};

/// An object and its key.
pub struct Object {
    pub key: Key,
    pub kind: ObjectKind,
    pub state: ObjectState,
}

impl Object {
    /// The response, or that of the parts.
    pub fn response(&self) -> Option<&StoredResponse> {
        match &self.kind {
            ObjectKind::Response(response) => Some(response),
            ObjectKind::Parts(parts) => Some(&parts.response),
            _ => None,
        }
    }

    /// Where its content is on disk, if it is sent from there.
    pub(crate) fn file(&self) -> Option<&FileRange> {
        match self.response().map(|response| &response.content) {
            Some(Content::File(range)) => Some(range),
            _ => None,
        }
    }

    /// True if its content can be sent without waiting for a disk.
    pub(crate) fn is_ready(&self) -> bool {
        let is_resident = |at: &FileRange| net::files::is_resident(&at.file, at.offset, at.length);
        self.file().is_none_or(is_resident)
    }

    /// Adds lookups that found it.
    pub fn add_hits(&self, count: u32) {
        if let Some(response) = self.response() {
            response.hits.add(count);
        }
    }

    /// The lookups that found it, or a response that it replaced; 0 for markers. A worker adds
    /// those of an object that it uses often in steps.
    pub fn hits(&self) -> u32 {
        self.response().map_or(0, |response| response.hits.get())
    }
}

/// The kind of an object.
pub enum ObjectKind {
    /// A response in one coding: the canonical one, as the origin sent it, or one transcoded from
    /// it.
    Response(StoredResponse),
    /// Parts of a response that is too long to be stored whole.
    Parts(Box<Parts>),
    /// Responses under this key vary: the keys of variants begin with this one.
    Varies(Vary),
    /// The parameters of the query that do not matter (No-Vary-Search), under the key of the URL
    /// without a query.
    NoVarySearch(SearchRule),
    /// The last response could not be stored: requests do not wait for each other (hit-for-miss).
    Uncacheable {
        /// Until then, in seconds since 1970.
        until_secs: u64,
        /// Why the response could not be stored.
        why: UncachedReason,
    },
}

/// A stored response.
#[derive(Clone)]
pub struct StoredResponse {
    /// Connects transcoded responses to their canonical response: both have the same.
    pub version: u64,
    pub meta: Meta,
    /// The headers to send, without those of each use (Age, Cache-Status, Connection,
    /// Content-Length).
    pub head: SharedHeaders,
    /// Headers for caches only: never sent, stored for the next merge with a 304.
    pub hidden: Option<Box<SharedHeaders>>,
    pub content: Content,
    /// The coding of `content`; `None` is identity or an unknown coding.
    pub coding: Option<Coding>,
    /// Whether it was transcoded from the canonical response.
    pub derived: bool,
    pub hits: Hits,
    /// Hashes of the tags and groups that purge it.
    pub tags: Box<[u64]>,
}

/// A count of lookups, in four bytes that the response has room for. A copy begins at 0.
#[derive(Default)]
pub struct Hits(AtomicU32);

impl Hits {
    /// Adds, up to about three billion.
    fn add(&self, count: u32) {
        if self.get() < u32::MAX / 2 + u32::MAX / 4 {
            self.0.fetch_add(count, Ordering::Relaxed);
        }
    }

    fn get(&self) -> u32 {
        self.0.load(Ordering::Relaxed)
    }
}

impl Clone for Hits {
    fn clone(&self) -> Hits {
        Hits::default()
    }
}

/// The mutable state of a stored object.
#[derive(Default)]
pub struct ObjectState {
    /// Whether it was removed from the store: tables of workers drop it then.
    gone: AtomicBool,
    /// Whether it was purged softly: it is stale whatever its lifetime.
    stale: AtomicBool,
    /// Uses since eviction last considered it, up to [`ObjectState::USES_MAX`].
    uses: AtomicU8,
    /// Until then, in seconds since 1970, the origin is not requested again, because it has just
    /// failed.
    rest_until_secs: AtomicU32,
    /// Codings that are not tried again, a bit for each.
    tried: AtomicU8,
}

impl ObjectState {
    /// The highest number of uses that counts (S3-FIFO's two bits).
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

    /// Counts a use. Writes nothing at the maximum, so that an object that all workers read stays
    /// in their CPU caches.
    pub fn count_use(&self) {
        let uses = self.uses.load(Ordering::Relaxed);
        if uses < Self::USES_MAX {
            self.uses.store(uses + 1, Ordering::Relaxed);
        }
    }

    /// Lets the origin rest after a failed revalidation.
    pub fn back_off_until(&self, until_secs: u64) {
        let until_secs = u32::try_from(until_secs).unwrap_or(u32::MAX);
        self.rest_until_secs.store(until_secs, Ordering::Relaxed);
    }

    pub fn is_backing_off(&self, now_secs: u64) -> bool {
        u64::from(self.rest_until_secs.load(Ordering::Relaxed)) > now_secs
    }

    /// Notes that a coding was tried; true if it had been before.
    pub fn mark_tried(&self, coding: u8) -> bool {
        self.tried.fetch_or(1 << coding, Ordering::Relaxed) & (1 << coding) != 0
    }

    /// The codings that were tried, a bit for each.
    pub fn tried_codings(&self) -> u8 {
        self.tried.load(Ordering::Relaxed)
    }

    pub fn was_tried(&self, coding: u8) -> bool {
        self.tried.load(Ordering::Relaxed) & (1 << coding) != 0
    }

    /// Notes that it decodes to more than is allowed: requests without its coding are forwarded.
    pub fn set_too_long_decoded(&self) {
        self.mark_tried(Self::TOO_LONG_DECODED);
    }

    pub fn is_too_long_decoded(&self) -> bool {
        self.was_tried(Self::TOO_LONG_DECODED)
    }

    /// Notes that it does not decode: it has been removed and is fetched again.
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
