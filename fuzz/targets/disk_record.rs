//! What a cache on disk reads back: rubbish is nothing, and what is read is what was written.

#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let Some((form, description)) = bytes.split_first() else { return };
    if let Some(again) = cache::store::reencoded(*form, description) {
        assert_eq!(again, description);
    }
});
