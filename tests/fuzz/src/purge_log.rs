//! Entries of the log of purges that servers share, and positions in it: what is read means one
//! thing, and is written as something that reads back the same.

use crate::FuzzTarget;
use cache::shared_purges::{LogPosition, PurgeEntry};

pub(crate) const TARGET: FuzzTarget = FuzzTarget {
    check: purge_log,
    seeds: || {
        [
            &br#"{"cache":"pages","purge":{"url":"http://a/b?c"}}"#[..],
            br#"{"cache":"pages","purge":{"soft":true,"tags":["a","\u00e9"]}}"#,
            br#"{"cache":"","purge":{"groups":"g"}}"#,
            br#"{"cache":"pages","purge":{"prefix":"http://a/"}}"#,
            br#"{"cache":"pages","purge":{"all":true,"soft":false}}"#,
            b"etcd:cdf818194e3a8c32:/shop/purges/log/ 1042 \n",
            b"redis:tidegate:00ff 1700000000000001 00112233\n",
        ]
        .map(<[u8]>::to_vec)
        .to_vec()
    },
    dictionary: &[
        "\"cache\":",
        "\"purge\":{",
        "\"tags\":[",
        "\"soft\":true",
        " 18446744073709551615 ",
    ],
    cases: 4500,
};

fn purge_log(bytes: &[u8]) {
    if let Some(entry) = PurgeEntry::decode(bytes) {
        // What is nearly as long as an entry may be is longer with all its escapes.
        if let Ok(text) = entry.encode() {
            assert_eq!(PurgeEntry::decode(text.as_bytes()), Some(entry));
        }
    }
    if let Some(position) = LogPosition::decode(bytes) {
        assert_eq!(position.encode().as_bytes(), bytes);
    }
}

#[test]
fn seeds_are_read() {
    for seed in (TARGET.seeds)() {
        assert!(PurgeEntry::decode(&seed).is_some() || LogPosition::decode(&seed).is_some());
    }
}
