//! Purges that records on disk are compared with.
//!
//! Purged URLs leave the index at once. Tags and prefixes are not indexed: they are compared when a
//! record is read, and so is all that was purged softly. Memory is bounded: a record that is older
//! than a forgotten purge counts as purged. Every purge is also written as a record, for the next
//! start.

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::{PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use crate::Key;
use crate::key::url_hash;
use crate::limits::{DISK_PURGED_PREFIXES_MAX, DISK_PURGED_TAGS_MAX};
use crate::store::Purge;

/// The purges so far, by epoch.
pub(super) struct PurgeLog(RwLock<LoggedPurges>);

struct LoggedPurges {
    /// Without URLs, which leave the index.
    hard: PurgeTimes,
    soft: PurgeTimes,
    /// While segments are loaded: purged URLs that the index did not have yet.
    urls: Option<HashSet<Box<[u8]>>>,
}

/// The epochs of purges.
#[derive(Default)]
struct PurgeTimes {
    all: u64,
    tags: HashMap<u64, u64>,
    /// Records with tags older than this may be covered by a forgotten purge.
    tags_forgotten: u64,
    /// By hash.
    urls: HashMap<u64, u64>,
    urls_forgotten: u64,
    prefixes: VecDeque<(u64, Box<[u8]>)>,
    prefixes_forgotten: u64,
}

impl PurgeTimes {
    fn note(&mut self, purge: &Purge<'_>, time: u64) {
        match purge {
            Purge::All => self.all = self.all.max(time),
            Purge::Url(url) => {
                note_each(&mut self.urls, &mut self.urls_forgotten, &[url_hash(url)], time);
            }
            Purge::Tags(tags) => note_each(&mut self.tags, &mut self.tags_forgotten, tags, time),
            Purge::Prefix(prefix) => {
                self.prefixes.push_back((time, (*prefix).into()));
                if self.prefixes.len() > DISK_PURGED_PREFIXES_MAX
                    && let Some((time, _)) = self.prefixes.pop_front()
                {
                    self.prefixes_forgotten = self.prefixes_forgotten.max(time);
                }
            }
        }
    }

    /// True if a purge covers a response fetched since `time`.
    fn cover(&self, url: &[u8], tags: &[u64], time: u64) -> bool {
        let later = |known: &HashMap<u64, u64>, what| known.get(what).is_some_and(|at| *at > time);
        let forgotten = self.prefixes_forgotten.max(self.urls_forgotten);
        self.all.max(forgotten) > time
            || !tags.is_empty() && self.tags_forgotten > time
            || tags.iter().any(|tag| later(&self.tags, tag))
            || !self.urls.is_empty() && later(&self.urls, &url_hash(url))
            || self.prefixes.iter().any(|(last, prefix)| *last > time && url.starts_with(prefix))
    }
}

fn note_each(known: &mut HashMap<u64, u64>, forgotten: &mut u64, what: &[u64], time: u64) {
    for one in what {
        let last = known.entry(*one).or_default();
        *last = time.max(*last);
    }
    if known.len() > DISK_PURGED_TAGS_MAX {
        known.clear();
        *forgotten = time.max(*forgotten);
    }
}

impl PurgeLog {
    /// Makes the log of a tier whose segments are not loaded yet.
    pub(super) fn new() -> PurgeLog {
        PurgeLog(RwLock::new(LoggedPurges {
            hard: PurgeTimes::default(),
            soft: PurgeTimes::default(),
            urls: Some(HashSet::new()),
        }))
    }

    fn read(&self) -> RwLockReadGuard<'_, LoggedPurges> {
        self.0.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, LoggedPurges> {
        self.0.write().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn note(&self, purge: &Purge<'_>, soft: bool, time: u64) {
        let known = &mut *self.write();
        match purge {
            _ if soft => known.soft.note(purge, time),
            Purge::Url(url) => {
                if let Some(urls) = &mut known.urls {
                    urls.insert((*url).into());
                }
            }
            _ => known.hard.note(purge, time),
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
        self.read().hard.cover(url, tags, time)
    }

    /// True if a response fetched since `time` was purged softly.
    pub(super) fn is_stale(&self, url: &[u8], tags: &[u64], time: u64) -> bool {
        self.read().soft.cover(url, tags, time)
    }
}

/// Encodes a purge as the description of its record.
pub(super) fn encode(purge: &Purge<'_>, soft: bool) -> Vec<u8> {
    if soft {
        return [b"s", &*encode(purge, false)].concat();
    }
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
    SoftPurge(Purge<'a>),
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
        b's' => decode_purge(rest, |purge| take(&StatusHeaders::SoftPurge(purge))),
        _ => decode_purge(head, |purge| take(&StatusHeaders::Purge(purge))),
    }
}

fn decode_purge<R>(head: &[u8], take: impl FnOnce(Purge<'_>) -> R) -> Option<R> {
    let (kind, rest) = head.split_first()?;
    match kind {
        b'u' => Some(take(Purge::Url(rest))),
        b'p' => Some(take(Purge::Prefix(rest))),
        b'a' if rest.is_empty() => Some(take(Purge::All)),
        b't' if rest.len() % 8 == 0 => {
            let tags: Vec<u64> = rest
                .chunks_exact(8)
                .filter_map(|tag| tag.try_into().ok().map(u64::from_le_bytes))
                .collect();
            Some(take(Purge::Tags(&tags)))
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
        purged.note(&Purge::Tags(&[7, 8]), false, 5);
        purged.note(&Purge::Prefix(b"http://a/x"), false, 6);
        assert!(purged.is_gone(b"http://a/", &[1, 8], 4) && !purged.is_gone(b"", &[8], 5));
        assert!(!purged.is_gone(b"http://a/", &[1], 0));
        assert!(purged.is_gone(b"http://a/xy", &[], 5) && !purged.is_gone(b"http://a/xy", &[], 6));
        purged.note(&Purge::All, false, 9);
        assert!(purged.is_gone(b"http://b/", &[], 8) && !purged.is_gone(b"http://b/", &[], 9));
    }

    #[test]
    fn what_is_not_known_any_more_counts_as_purged() {
        let purged = PurgeLog::new();
        for time in 1..=DISK_PURGED_PREFIXES_MAX as u64 + 1 {
            purged.note(&Purge::Prefix(b"http://never/"), false, time);
        }
        assert!(purged.is_gone(b"http://a/", &[], 0) && !purged.is_gone(b"http://a/", &[], 1));
        let tags: Vec<u64> = (0..=DISK_PURGED_TAGS_MAX as u64).collect();
        purged.note(&Purge::Tags(&tags), false, 900);
        assert!(purged.is_gone(b"http://a/", &[u64::MAX], 899));
        assert!(!purged.is_gone(b"http://a/", &[], 899), "it has no tag");
    }

    #[test]
    fn what_is_older_than_a_soft_purge_is_stale() {
        let purged = PurgeLog::new();
        purged.note(&Purge::Url(b"http://a/"), true, 5);
        purged.note(&Purge::Tags(&[7]), true, 6);
        assert!(purged.is_stale(b"http://a/", &[], 4) && !purged.is_stale(b"http://a/", &[], 5));
        assert!(purged.is_stale(b"http://b/", &[7], 5) && !purged.is_stale(b"http://b/", &[], 0));
        assert!(!purged.is_gone(b"http://a/", &[7], 0));
        for at in 0..=DISK_PURGED_TAGS_MAX {
            purged.note(&Purge::Url(format!("http://c/{at}").as_bytes()), true, 7);
        }
        assert!(purged.is_stale(b"http://d/", &[], 6) && !purged.is_stale(b"http://d/", &[], 7));
    }

    #[test]
    fn a_purge_reads_back() {
        for purge in
            [Purge::Url(b"http://a/"), Purge::Prefix(b""), Purge::Tags(&[1, u64::MAX]), Purge::All]
        {
            let same = |read: &StatusHeaders<'_>| assert_eq!(*read, StatusHeaders::Purge(purge));
            assert!(decode(&encode(&purge, false), same).is_some());
            let soft = |read: &StatusHeaders<'_>| {
                assert_eq!(*read, StatusHeaders::SoftPurge(purge));
            };
            assert!(decode(&encode(&purge, true), soft).is_some());
        }
        let key = Key::new(&b"http://a/\0r"[..], 9);
        let same = |read: &StatusHeaders<'_>| assert_eq!(*read, StatusHeaders::Key(key.text(), 9));
        assert!(decode(&encode_key(&key), same).is_some());
        for wrong in [
            &b""[..],
            b"a ",
            b"t1234",
            b"s",
            b"ss",
            b"sk\0\0\0\0",
            b"x",
            b"k12",
            b"k\xff\0\0\0short",
        ] {
            assert!(decode(wrong, |_| ()).is_none());
        }
    }
}
