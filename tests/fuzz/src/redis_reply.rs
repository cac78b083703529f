//! Replies of Redis: RESP2 and RESP3.

use crate::{FuzzTarget, owned};
use wire::resp::reply::{Item, Limits, Reader};

pub(crate) const TARGET: FuzzTarget = FuzzTarget {
    check: reply,
    seeds: || {
        owned(&[
            "*3\r\n$3\r\na\r\n\r\n*1\r\n:-1\r\n$-1\r\n+OK\r\n",
            "%1\r\n=5\r\ntxt:a\r\n|1\r\n+b\r\n,1.5\r\n~2\r\n#t\r\n_\r\n",
        ])
    },
    dictionary: &[
        "\r\n",
        "*2\r\n",
        "$1\r\n",
        ":",
        "-",
        "9999999999999999999",
        "0",
        "%",
        "_\r\n",
        ",inf\r\n",
    ],
    cases: 5500,
};

/// Any bytes as replies of Redis. A reader that gets them one by one returns the same as one that
/// gets all at once.
fn reply(data: &[u8]) {
    let small = Limits { line: 12, bytes: 40, items: 6, depth: 2 };
    for limits in [Limits::default(), small] {
        let mut whole = Reader::default();
        let verdict = whole.read(data, &limits);
        if let Ok(Some(len)) = verdict {
            assert!(
                len <= data.len() && len <= limits.bytes && whole.items().len() <= limits.items
            );
            for item in whole.items() {
                if let Item::Text(range) | Item::Error(range) = item {
                    assert!(range.start <= range.end && range.end < len);
                }
            }
        }
        let mut grown = Reader::default();
        let ends = (0..=data.len()).map(|end| (end, grown.read(&data[..end], &limits)));
        let decided = ends.into_iter().find(|(_, found)| *found != Ok(None));
        assert_eq!(decided.map_or(Ok(None), |(_, found)| found), verdict);
        if verdict.is_ok_and(|len| len.is_some()) {
            // NaN is not equal to itself, so they are compared as text.
            assert_eq!(format!("{:?}", grown.items()), format!("{:?}", whole.items()));
        }
    }
}
