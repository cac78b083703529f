//! WebSocket (RFC 6455): frames, the messages that they carry, and the key of the handshake.
//!
//! Owns the syntax of frames and what a receiver must reject: reserved bits and opcodes, control
//! frames that are long or fragmented, a mask on the wrong side, text that is not UTF-8, reserved
//! close codes. Guarantees: no more than one message of the allowed size is buffered, judged by the
//! length a frame declares; lengths are written in their shortest form; the messages do not depend
//! on how the bytes were split. Sends nothing by itself.

mod extension;
mod frame;
mod frame_counter;
mod handshake;
mod message;

pub use extension::PerMessageDeflate;
pub use frame::{FrameHead, HEAD_BYTES_MAX, Opcode, parse_head, unmask, write_frame};
pub use frame_counter::FrameCounter;
pub use handshake::{accept_key, encode_key};
pub use message::{Decoder, Inflate, Message};

/// The longest payload of a control frame (section 5.5).
pub const CONTROL_BYTES_MAX: usize = 125;

/// Why a connection fails (section 7.4.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Violation {
    pub code: u16,
    pub text: &'static str,
}

impl Violation {
    /// A message is larger than allowed.
    pub const TOO_LARGE: Violation =
        Violation { code: 1009, text: "the message is larger than allowed" };

    const fn protocol(text: &'static str) -> Violation {
        Violation { code: 1002, text }
    }
}

/// True if an endpoint may send this close code (sections 7.4.1 and 7.4.2).
pub fn is_close_code(code: u16) -> bool {
    matches!(code, 1000..=1003 | 1007..=1014 | 3000..=4999)
}
