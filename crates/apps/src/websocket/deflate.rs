//! Compression of messages (RFC 7692). A connection whose messages refer to earlier ones has a
//! compressor and a decompressor of its own, within a bound of memory for each worker; all others
//! share one of each.

use std::cell::{Cell, RefCell};

use coding::{DecodeError, Deflater, Inflater};
use wire::websocket::{Inflate, PerMessageDeflate, Violation};

use crate::limits::{
    DEFLATE_BYTES_MAX, DEFLATE_BYTES_MIN, DEFLATE_LEVEL, TAKEOVER_DEFLATE_BYTES,
    TAKEOVER_INFLATE_BYTES, TAKEOVER_WINDOW_BITS,
};

/// The window if the client sets no limit.
const WINDOW_BITS: u8 = 15;

thread_local! {
    /// By window bits; usually there is one.
    static DEFLATERS: RefCell<Vec<(u8, Deflater)>> = const { RefCell::new(Vec::new()) };
    static INFLATER: RefCell<Option<Inflater>> = const { RefCell::new(None) };
    /// Memory that connections of this worker have reserved.
    static RESERVED: Cell<usize> = const { Cell::new(0) };
}

/// The agreed compression of a connection, and the memory reserved for it.
pub(super) struct AgreedDeflate {
    pub(super) parameters: PerMessageDeflate,
    reserved: usize,
}

impl AgreedDeflate {
    /// Excludes context takeover if its memory is not within `memory_max` of this worker.
    pub(super) fn reserve(parameters: PerMessageDeflate, memory_max: usize) -> AgreedDeflate {
        let bytes = |takeover: bool, bytes: usize| if takeover { bytes } else { 0 };
        let wanted = bytes(parameters.server_takeover, TAKEOVER_DEFLATE_BYTES)
            + bytes(parameters.client_takeover, TAKEOVER_INFLATE_BYTES);
        let total = RESERVED.get().saturating_add(wanted);
        if total > memory_max {
            return AgreedDeflate { parameters: parameters.without_takeover(), reserved: 0 };
        }
        RESERVED.set(total);
        AgreedDeflate { parameters, reserved: wanted }
    }

    /// Decompresses the client's messages.
    pub(super) fn inflating(&self) -> Inflating {
        Inflating(self.parameters.client_takeover.then(Inflater::with_context))
    }
}

impl Drop for AgreedDeflate {
    fn drop(&mut self) {
        RESERVED.set(RESERVED.get() - self.reserved);
    }
}

/// Decompresses the client's messages, with a decompressor of its own if they refer to each other.
pub(super) struct Inflating(Option<Inflater>);

impl Inflate for Inflating {
    fn inflate(&mut self, payload: &[u8], limit: usize) -> Result<Vec<u8>, Violation> {
        let inflated = match &mut self.0 {
            Some(own) => own.message(payload, limit),
            None => INFLATER.with_borrow_mut(|inflater| {
                inflater.get_or_insert_with(Inflater::new).message(payload, limit)
            }),
        };
        inflated.map_err(|error| match error {
            DecodeError::TooLarge | DecodeError::TooDense => Violation::TOO_LARGE,
            DecodeError::Corrupt | DecodeError::Truncated => {
                Violation { code: 1007, text: "a message that cannot be decompressed" }
            }
        })
    }
}

/// Compresses the messages of a connection.
pub(super) struct Deflating {
    agreed: AgreedDeflate,
    /// The connection's own compressor, from the first message on.
    own: Option<Deflater>,
    has_failed: bool,
}

impl Deflating {
    pub(super) fn new(agreed: AgreedDeflate) -> Deflating {
        Deflating { agreed, own: None, has_failed: false }
    }

    /// Compresses a message; `None` if it is better sent as it is.
    pub(super) fn message(&mut self, message: &[u8]) -> Option<Vec<u8>> {
        if !(DEFLATE_BYTES_MIN..=DEFLATE_BYTES_MAX).contains(&message.len()) || self.has_failed {
            return None;
        }
        let bits = self.agreed.parameters.server_window_bits.unwrap_or(WINDOW_BITS);
        if !self.agreed.parameters.server_takeover {
            return deflated(message, bits);
        }
        let bits = bits.min(TAKEOVER_WINDOW_BITS);
        let own = self.own.get_or_insert_with(|| Deflater::with_context(DEFLATE_LEVEL, bits));
        let mut out = Vec::new();
        // What was compressed must be sent, although it may be longer: later messages refer to it.
        let compressed = own.message(message, &mut out);
        self.has_failed = compressed.is_none();
        compressed.map(|()| out)
    }
}

/// Compresses a message by itself if that makes it smaller.
fn deflated(message: &[u8], bits: u8) -> Option<Vec<u8>> {
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
