//! WebSocket (RFC 6455): frames, and the messages that they carry.
//!
//! Owns the syntax of frames and what a receiver must refuse: reserved bits and opcodes, control
//! frames that are long or in pieces, a mask on the wrong side, text that is no UTF-8, close codes
//! that nobody may send. Promises that no more than one message of the allowed size is kept, known
//! from the length a frame announces and not from what arrives; that lengths are written in their
//! shortest form; and the same messages however the bytes were split. Answers nothing by itself.

mod frame;
mod message;

pub use frame::{FrameHead, HEAD_BYTES_MAX, Opcode, parse_head, unmask, write_frame};
pub use message::{Decoder, Message};

/// What the key of a handshake is joined to before it is hashed (section 1.3).
pub const HANDSHAKE_SUFFIX: &[u8] = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11";
/// The longest payload of a control frame (section 5.5).
pub const CONTROL_BYTES_MAX: usize = 125;

/// Why a connection fails (section 7.4.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Violation {
    pub code: u16,
    pub text: &'static str,
}

impl Violation {
    const fn protocol(text: &'static str) -> Violation {
        Violation { code: 1002, text }
    }
}

/// Whether an endpoint may send this close code (sections 7.4.1 and 7.4.2).
pub fn is_close_code(code: u16) -> bool {
    matches!(code, 1000..=1003 | 1007..=1014 | 3000..=4999)
}
