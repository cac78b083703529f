//! Content-Range of a 206: what is read lies within the whole, and reads the same once written.

use crate::{FuzzTarget, owned};
use wire::range::{read_content_range, write_content_range};

pub(crate) const TARGET: FuzzTarget = FuzzTarget {
    check: content_range,
    seeds: || owned(&["bytes 0-499/1234", "bytes 5-5/6", "bytes */9", "bytes 0-1/*"]),
    dictionary: &["bytes ", "-", "/", "*", "0", "18446744073709551615", " "],
    cases: 5000,
};

fn content_range(value: &[u8]) {
    let Some((range, length)) = read_content_range(value) else { return };
    assert!(range.first <= range.last && range.last < length);
    let mut written = Vec::new();
    write_content_range(range, length, &mut written);
    assert_eq!(read_content_range(&written), Some((range, length)));
}
