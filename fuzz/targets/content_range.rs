//! Content-Range of a 206: what is read lies within the whole, and reads the same once written.

#![no_main]

use libfuzzer_sys::fuzz_target;
use wire::range::{read_content_range, write_content_range};

fuzz_target!(|value: &[u8]| {
    let Some((range, length)) = read_content_range(value) else { return };
    assert!(range.first <= range.last && range.last < length);
    let mut written = Vec::new();
    write_content_range(range, length, &mut written);
    assert_eq!(read_content_range(&written), Some((range, length)));
});
