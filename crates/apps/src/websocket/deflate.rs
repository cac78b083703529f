//! Compression of messages (RFC 7692), with one compressor per worker: without context takeover,
//! connections can share it.

use std::cell::RefCell;

use coding::{DecodeError, Deflater, Inflater};
use wire::websocket::{Inflate, PerMessageDeflate, Violation};

use crate::limits::{DEFLATE_BYTES_MAX, DEFLATE_BYTES_MIN, DEFLATE_LEVEL};

/// The window if the client sets no limit.
const WINDOW_BITS: u8 = 15;

thread_local! {
    /// By window bits; usually there is one.
    static DEFLATERS: RefCell<Vec<(u8, Deflater)>> = const { RefCell::new(Vec::new()) };
    static INFLATER: RefCell<Option<Inflater>> = const { RefCell::new(None) };
}

/// Decompresses the client's messages.
pub(super) struct Inflating;

impl Inflate for Inflating {
    fn inflate(&mut self, payload: &[u8], limit: usize) -> Result<Vec<u8>, Violation> {
        let inflated = INFLATER.with_borrow_mut(|inflater| {
            inflater.get_or_insert_with(Inflater::new).message(payload, limit)
        });
        inflated.map_err(|error| match error {
            DecodeError::TooLarge | DecodeError::TooDense => Violation::TOO_LARGE,
            DecodeError::Corrupt | DecodeError::Truncated => {
                Violation { code: 1007, text: "a message that cannot be decompressed" }
            }
        })
    }
}

/// Compresses a message if that makes it smaller.
pub(super) fn deflated(message: &[u8], agreed: PerMessageDeflate) -> Option<Vec<u8>> {
    if !(DEFLATE_BYTES_MIN..=DEFLATE_BYTES_MAX).contains(&message.len()) {
        return None;
    }
    let bits = agreed.server_window_bits.unwrap_or(WINDOW_BITS);
    DEFLATERS.with_borrow_mut(|deflaters| {
        let known = deflaters.iter().position(|(known, _)| *known == bits);
        let at = known.unwrap_or_else(|| {
            deflaters.push((bits, Deflater::new(DEFLATE_LEVEL, bits)));
            deflaters.len() - 1
        });
        let mut out = Vec::new();
        deflaters.get_mut(at)?.1.message(message, &mut out)?;
        (out.len() < message.len()).then_some(out)
    })
}
