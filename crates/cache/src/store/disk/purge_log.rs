//! Purges that records on disk are compared with.
//!
//! Purged URLs leave the index at once. Tags and prefixes are not indexed: they are compared when a
//! record is read. Memory is bounded: a record that is older than a forgotten purge counts as
//! purged. Every purge is also written as a record, for the next start.

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::{PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use crate::Key;
use crate::limits::{DISK_PURGED_PREFIXES_MAX, DISK_PURGED_TAGS_MAX};
use crate::store::Purge;

/// The purges so far, by epoch.
pub(super) struct PurgeLog(RwLock<LoggedPurges>);

struct LoggedPurges {
    all: u64,
    tags: HashMap<u64, u64>,
    /// Records with tags older than this may be covered by a forgotten purge.
    tags_forgotten: u64,
    prefixes: VecDeque<(u64, Box<[u8]>)>,
    prefixes_forgotten: u64,
    /// While segments are loaded: purged URLs that the index did not have yet.
    urls: Option<HashSet<Box<[u8]>>>,
}

impl PurgeLog {
    /// Makes the log of a tier whose segments are not loaded yet.
    pub(super) fn new() -> PurgeLog {
        PurgeLog(RwLock::new(LoggedPurges {
            all: 0,
            tags: HashMap::new(),
            tags_forgotten: 0,
            prefixes: VecDeque::new(),
            prefixes_forgotten: 0,
            urls: Some(HashSet::new()),
        }))
    }

    fn read(&self) -> RwLockReadGuard<'_, LoggedPurges> {
        self.0.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, LoggedPurges> {
        self.0.write().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn note(&self, purge: &Purge<'_>, time: u64) {
        let known = &mut *self.write();
        match purge {
            Purge::All => known.all = known.all.max(time),
            Purge::Url(url) => {
                if let Some(urls) = &mut known.urls {
                    urls.insert((*url).into());
                }
            }
            Purge::Tags(tags) => {
                for tag in *tags {
                    let last = known.tags.entry(*tag).or_default();
                    *last = time.max(*last);
                }
                if known.tags.len() > DISK_PURGED_TAGS_MAX {
                    known.tags.clear();
                    known.tags_forgotten = known.tags_forgotten.max(time);
                }
            }
            Purge::Prefix(prefix) => {
                known.prefixes.push_back((time, (*prefix).into()));
                if known.prefixes.len() > DISK_PURGED_PREFIXES_MAX
                    && let Some((time, _)) = known.prefixes.pop_front()
                {
                    known.prefixes_forgotten = known.prefixes_forgotten.max(time);
                }
            }
        }
    }

    /// Ends loading: from now on the index has all records.
    pub(super) fn loaded(&self) {
        self.write().urls = None;
    }

    /// True if a URL was purged while segments were loaded.
    pub(super) fn url_is_gone(&self, url: &[u8]) -> bool {
        self.read().urls.as_ref().is_some_and(|urls| urls.contains(url))
    }

    /// True if a response fetched since `time` was purged by tag, prefix or with everything.
    pub(super) fn is_gone(&self, url: &[u8], tags: &[u64], time: u64) -> bool {
        let known = self.read();
        known.all > time
            || known.prefixes_forgotten > time
            || !tags.is_empty() && known.tags_forgotten > time
            || tags.iter().any(|tag| known.tags.get(tag).is_some_and(|last| *last > time))
            || known.prefixes.iter().any(|(last, prefix)| *last > time && url.starts_with(prefix))
    }
}

/// Encodes a purge as the description of its record.
pub(super) fn encode(purge: &Purge<'_>) -> Vec<u8> {
    match purge {
        Purge::Url(url) => [b"u", *url].concat(),
        Purge::Prefix(prefix) => [b"p", *prefix].concat(),
        Purge::Tags(tags) => {
            let tags = tags.iter().flat_map(|tag| tag.to_le_bytes());
            std::iter::once(b't').chain(tags).collect()
        }
        Purge::All => b"a".to_vec(),
    }
}

/// Encodes the removal of one key as the description of its record.
pub(super) fn encode_key(key: &Key) -> Vec<u8> {
    let url_len = (key.url().len() as u32).to_le_bytes();
    [b"k", &url_len[..], key.text()].concat()
}

/// A decoded description.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum StatusHeaders<'a> {
    Purge(Purge<'a>),
    /// The text of a key, and the length of its URL.
    Key(&'a [u8], usize),
}

/// Decodes a description.
pub(super) fn decode<R>(head: &[u8], take: impl FnOnce(&StatusHeaders<'_>) -> R) -> Option<R> {
    let (kind, rest) = head.split_first()?;
    match kind {
        b'k' => {
            let (url_len, text) = rest.split_first_chunk()?;
            let url_len = u32::from_le_bytes(*url_len) as usize;
            (url_len <= text.len()).then(|| take(&StatusHeaders::Key(text, url_len)))
        }
        b'u' => Some(take(&StatusHeaders::Purge(Purge::Url(rest)))),
        b'p' => Some(take(&StatusHeaders::Purge(Purge::Prefix(rest)))),
        b'a' if rest.is_empty() => Some(take(&StatusHeaders::Purge(Purge::All))),
        b't' if rest.len() % 8 == 0 => {
            let tags: Vec<u64> = rest
                .chunks_exact(8)
                .filter_map(|tag| tag.try_into().ok().map(u64::from_le_bytes))
                .collect();
            Some(take(&StatusHeaders::Purge(Purge::Tags(&tags))))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_older_than_its_purge_is_gone() {
        let purged = PurgeLog::new();
        purged.note(&Purge::Tags(&[7, 8]), 5);
        purged.note(&Purge::Prefix(b"http://a/x"), 6);
        assert!(purged.is_gone(b"http://a/", &[1, 8], 4) && !purged.is_gone(b"", &[8], 5));
        assert!(!purged.is_gone(b"http://a/", &[1], 0));
        assert!(purged.is_gone(b"http://a/xy", &[], 5) && !purged.is_gone(b"http://a/xy", &[], 6));
        purged.note(&Purge::All, 9);
        assert!(purged.is_gone(b"http://b/", &[], 8) && !purged.is_gone(b"http://b/", &[], 9));
    }

    #[test]
    fn what_is_not_known_any_more_counts_as_purged() {
        let purged = PurgeLog::new();
        for time in 1..=DISK_PURGED_PREFIXES_MAX as u64 + 1 {
            purged.note(&Purge::Prefix(b"http://never/"), time);
        }
        assert!(purged.is_gone(b"http://a/", &[], 0) && !purged.is_gone(b"http://a/", &[], 1));
        let tags: Vec<u64> = (0..=DISK_PURGED_TAGS_MAX as u64).collect();
        purged.note(&Purge::Tags(&tags), 900);
        assert!(purged.is_gone(b"http://a/", &[u64::MAX], 899));
        assert!(!purged.is_gone(b"http://a/", &[], 899), "it has no tag");
    }

    #[test]
    fn a_purge_reads_back() {
        for purge in
            [Purge::Url(b"http://a/"), Purge::Prefix(b""), Purge::Tags(&[1, u64::MAX]), Purge::All]
        {
            let same = |read: &StatusHeaders<'_>| assert_eq!(*read, StatusHeaders::Purge(purge));
            assert!(decode(&encode(&purge), same).is_some());
        }
        let key = Key::new(&b"http://a/\0r"[..], 9);
        let same = |read: &StatusHeaders<'_>| assert_eq!(*read, StatusHeaders::Key(key.text(), 9));
        assert!(decode(&encode_key(&key), same).is_some());
        for wrong in [&b""[..], b"a ", b"t1234", b"x", b"k12", b"k\xff\0\0\0short"] {
            assert!(decode(wrong, |_| ()).is_none());
        }
    }
}
