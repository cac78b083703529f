//! Parts of a response that is too long to be stored whole (RFC 9111 3.3, 3.4; RFC 9110 15.3.7.3).
//!
//! All parts of one list have the same strong validator. The list is bounded in number and bytes:
//! the oldest parts are dropped first.

use bytes::Bytes;
use wire::range::ByteRange;

use crate::key::with_key_buffer;
use crate::limits::PARTS_MAX;
use crate::{Key, StoredResponse};

/// The key of the parts of what is under a key.
pub(crate) fn parts_key(key: &Key) -> Key {
    with_key_buffer(|buffer| {
        buffer.resume(key);
        buffer.parts().key()
    })
}

/// Bytes of the content from one offset on.
#[derive(Clone)]
pub struct Part {
    pub first: u64,
    pub content: Bytes,
}

impl Part {
    fn end(&self) -> u64 {
        self.first + self.content.len() as u64
    }

    fn holds(&self, other: &Part) -> bool {
        self.first <= other.first && other.end() <= self.end()
    }
}

/// The stored parts of one response, which may overlap.
pub struct Parts {
    /// The response that the newest part came with, without content.
    pub response: StoredResponse,
    /// Length of the whole content.
    pub length: u64,
    /// How many parts the bounds have dropped.
    pub dropped: u64,
    /// The oldest first.
    all: Box<[Part]>,
}

impl Parts {
    pub fn new(response: StoredResponse, length: u64, part: Part) -> Parts {
        Parts { response, length, dropped: 0, all: Box::new([part]) }
    }

    pub fn all(&self) -> &[Part] {
        &self.all
    }

    /// The bytes of all parts.
    pub fn bytes(&self) -> u64 {
        self.all.iter().map(|part| part.content.len() as u64).sum()
    }

    /// These parts and another one of the same response, at most `bytes_max` together; `response`
    /// came with it.
    pub fn with(&self, response: StoredResponse, part: Part, bytes_max: u64) -> Parts {
        let mut all = Vec::with_capacity(self.all.len() + 1);
        match self.all.iter().find(|known| known.holds(&part)) {
            Some(known) => {
                let others = self.all.iter().filter(|other| !std::ptr::eq(*other, known));
                all.extend(others.chain([known]).cloned());
            }
            None => {
                all.extend(self.all.iter().filter(|known| !part.holds(known)).cloned());
                all.push(part);
            }
        }
        let mut left = bytes_max;
        let fits = |part: &&Part| {
            let rest = left.checked_sub(part.content.len() as u64);
            left = rest.unwrap_or(0);
            rest.is_some()
        };
        let kept = all.iter().rev().take(PARTS_MAX).take_while(fits).count();
        let excess = all.len() - kept;
        let (length, dropped) = (self.length, self.dropped + excess as u64);
        Parts { response, length, dropped, all: all.split_off(excess).into() }
    }

    /// The same parts after a revalidation; `response` has the updated headers.
    pub fn revalidated(&self, response: StoredResponse) -> Parts {
        Parts { response, length: self.length, dropped: self.dropped, all: self.all.clone() }
    }

    /// The bytes of a range in order; `None` if some of them are not stored.
    pub fn cut(&self, range: ByteRange) -> Option<Vec<Bytes>> {
        let (mut at, end) = (range.first, range.last + 1);
        let mut found = Vec::new();
        while at < end {
            let here = self.all.iter().filter(|part| part.first <= at && at < part.end());
            let part = here.max_by_key(|part| part.end())?;
            let upto = part.end().min(end);
            let (from, to) = ((at - part.first) as usize, (upto - part.first) as usize);
            found.push(part.content.slice(from..to));
            at = upto;
        }
        Some(found)
    }
}

#[cfg(test)]
mod tests {
    use message::{Headers, SharedHeaders};

    use super::*;
    use crate::Content;
    use crate::rules::{Flags, Meta};

    const CONTENT: &[u8] = b"0123456789";

    fn part(first: usize, end: usize) -> Part {
        Part { first: first as u64, content: Bytes::from_static(&CONTENT[first..end]) }
    }

    fn empty() -> StoredResponse {
        let meta = Meta {
            status: 200,
            flags: Flags::default(),
            received_secs: 0,
            initial_age_s: 0,
            lifetime_s: 60,
            while_revalidate_s: 0,
            if_error_s: 0,
        };
        StoredResponse {
            version: 0,
            meta,
            head: SharedHeaders::from(&Headers::new()),
            hidden: None,
            content: Content::Memory(Bytes::new()),
            coding: None,
            derived: false,
            hits: Default::default(),
            tags: Box::default(),
        }
    }

    fn cut(parts: &Parts, first: u64, last: u64) -> Option<Vec<u8>> {
        parts.cut(ByteRange { first, last }).map(|found| found.concat())
    }

    #[test]
    fn a_range_is_put_together_of_all_parts_or_not_at_all() {
        let parts = Parts::new(empty(), 10, part(0, 3)).with(empty(), part(2, 5), 100).with(
            empty(),
            part(7, 9),
            100,
        );
        for first in 0..10 {
            for last in first..10 {
                let there = last < 5 || (first >= 7 && last < 9);
                let wanted = there.then(|| CONTENT[first..=last].to_vec());
                assert_eq!(cut(&parts, first as u64, last as u64), wanted, "{first}-{last}");
            }
        }
    }

    #[test]
    fn what_another_part_holds_is_not_kept_twice() {
        let parts = Parts::new(empty(), 10, part(2, 4)).with(empty(), part(5, 6), 100).with(
            empty(),
            part(1, 5),
            100,
        );
        assert_eq!((parts.all().len(), parts.bytes(), parts.dropped), (2, 5, 0));
        let parts = parts.with(empty(), part(2, 3), 100);
        assert_eq!((parts.all().len(), parts.bytes()), (2, 5));
        // The part that was requested again is dropped last.
        assert!(cut(&parts.with(empty(), part(6, 8), 6), 1, 4).is_some());
    }

    #[test]
    fn the_oldest_parts_go_first() {
        let parts = Parts::new(empty(), 10, part(0, 4)).with(empty(), part(4, 6), 6).with(
            empty(),
            part(8, 9),
            6,
        );
        assert_eq!((cut(&parts, 0, 0), parts.bytes(), parts.dropped), (None, 3, 1));
        let one = |at: u64| Part { first: 2 * at, content: Bytes::from_static(b"x") };
        let many = (1..40)
            .fold(Parts::new(empty(), 100, one(0)), |parts, at| parts.with(empty(), one(at), 100));
        assert_eq!((many.all().len(), many.dropped), (PARTS_MAX, 40 - PARTS_MAX as u64));
        assert!(cut(&many, 78, 78).is_some() && cut(&many, 0, 0).is_none());
    }
}
