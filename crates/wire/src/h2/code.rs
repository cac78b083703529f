//! Error codes (RFC 9113 7) and the violations that end a connection.
//!
//! Owns the code that the peer is sent for each violation, its slug for metrics (bounded: it comes
//! from this table) and its text for the log.

use std::fmt;

/// The reason of RST_STREAM or GOAWAY. Unknown codes of a peer are kept as they are.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct ErrorCode(pub u32);

macro_rules! codes {
    ($($name:ident = $number:literal,)*) => {
        impl ErrorCode {
            $(pub const $name: ErrorCode = ErrorCode($number);)*

            /// The registered name; `unknown` for other codes.
            pub fn as_str(self) -> &'static str {
                match self {
                    $(ErrorCode::$name => stringify!($name),)*
                    _ => "unknown",
                }
            }
        }
    };
}

codes! {
    NO_ERROR = 0x0,
    PROTOCOL_ERROR = 0x1,
    INTERNAL_ERROR = 0x2,
    FLOW_CONTROL_ERROR = 0x3,
    SETTINGS_TIMEOUT = 0x4,
    STREAM_CLOSED = 0x5,
    FRAME_SIZE_ERROR = 0x6,
    REFUSED_STREAM = 0x7,
    CANCEL = 0x8,
    COMPRESSION_ERROR = 0x9,
    CONNECT_ERROR = 0xa,
    ENHANCE_YOUR_CALM = 0xb,
    INADEQUATE_SECURITY = 0xc,
    HTTP_1_1_REQUIRED = 0xd,
}

impl fmt::Debug for ErrorCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}({:#x})", self.as_str(), self.0)
    }
}

macro_rules! violations {
    ($($variant:ident = $code:ident $slug:literal $text:literal,)*) => {
        /// Why a connection ends: what the peer did that the protocol or a limit forbids.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[repr(u8)]
        pub enum Violation { $($variant,)* }

        impl Violation {
            /// Every violation, in the order of its number.
            pub const ALL: &'static [Violation] = &[$(Violation::$variant,)*];
            /// Number of violations: the size of a table of counters indexed by `index()`.
            pub const COUNT: usize = Self::ALL.len();
        }

        const TABLE: [(ErrorCode, &str, &str); Violation::COUNT] =
            [$((ErrorCode::$code, $slug, $text),)*];
    };
}

violations! {
    // The order and form of frames.
    InvalidPreface = PROTOCOL_ERROR "invalid_preface" "the connection preface is malformed",
    FrameTooLarge = FRAME_SIZE_ERROR "frame_too_large" "a frame is larger than announced",
    InvalidFrameSize =
        FRAME_SIZE_ERROR "invalid_frame_size" "a frame has a length its type forbids",
    InvalidPadding = PROTOCOL_ERROR "invalid_padding" "the padding is longer than the frame",
    InvalidStream = PROTOCOL_ERROR "invalid_stream" "a frame is on a stream its type forbids",
    IdleStream = PROTOCOL_ERROR "idle_stream" "a frame is on a stream that was never opened",
    ClosedStream = STREAM_CLOSED "closed_stream" "a frame is on a stream that was closed",
    StreamIdNotNew = PROTOCOL_ERROR "stream_id_not_new" "a stream is opened with a used number",
    ContinuationExpected =
        PROTOCOL_ERROR "continuation_expected" "a frame interrupts a field section",
    UnexpectedContinuation =
        PROTOCOL_ERROR "unexpected_continuation" "CONTINUATION does not follow HEADERS",
    PushPromise = PROTOCOL_ERROR "push_promise" "PUSH_PROMISE, which is switched off",
    InvalidSetting = PROTOCOL_ERROR "invalid_setting" "a setting has a forbidden value",
    InvalidPriority = PROTOCOL_ERROR "invalid_priority" "PRIORITY_UPDATE is malformed",
    // Flow control.
    InvalidWindowSetting =
        FLOW_CONTROL_ERROR "invalid_window_setting" "INITIAL_WINDOW_SIZE above the maximum",
    WindowOverflow = FLOW_CONTROL_ERROR "window_overflow" "a window exceeds the maximum",
    WindowExceeded = FLOW_CONTROL_ERROR "window_exceeded" "more data than the window allows",
    ZeroWindowUpdate = PROTOCOL_ERROR "zero_window_update" "WINDOW_UPDATE without an increment",
    // Field compression.
    InvalidFieldBlock = COMPRESSION_ERROR "invalid_field_block" "a field block is not HPACK",
    // Limits: each bounds work that costs the peer less than this side.
    FieldBlockTooLarge =
        ENHANCE_YOUR_CALM "field_block_too_large" "a field section far above the limit",
    ContinuationFlood = ENHANCE_YOUR_CALM "continuation_flood" "too many CONTINUATION frames",
    RapidReset = ENHANCE_YOUR_CALM "rapid_reset" "too many requests were cancelled",
    ProvokedResets = ENHANCE_YOUR_CALM "provoked_resets" "too many streams had to be reset",
    SettingsFlood = ENHANCE_YOUR_CALM "settings_flood" "too many SETTINGS frames",
    PingFlood = ENHANCE_YOUR_CALM "ping_flood" "too many PING frames",
    PriorityFlood = ENHANCE_YOUR_CALM "priority_flood" "too many priority frames",
    WindowFlood = ENHANCE_YOUR_CALM "window_flood" "too many WINDOW_UPDATE frames for the data",
    ResetFlood = ENHANCE_YOUR_CALM "reset_flood" "too many frames on closed streams",
    GoawayFlood = ENHANCE_YOUR_CALM "goaway_flood" "too many GOAWAY frames",
    UnknownFrames = ENHANCE_YOUR_CALM "unknown_frames" "too many frames of unknown types",
    EmptyFrames = ENHANCE_YOUR_CALM "empty_frames" "too many DATA frames without data",
}

impl Violation {
    /// The code of the GOAWAY that reports it.
    pub fn code(self) -> ErrorCode {
        TABLE[self as usize].0
    }

    /// The violation as a metrics label.
    pub fn slug(self) -> &'static str {
        TABLE[self as usize].1
    }

    /// The violation as a phrase for the log.
    pub fn text(self) -> &'static str {
        TABLE[self as usize].2
    }

    /// The number of the violation, below `COUNT`.
    pub fn index(self) -> usize {
        self as usize
    }
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.text())
    }
}

impl std::error::Error for Violation {}

#[cfg(test)]
mod tests {
    use super::{ErrorCode, Violation};
    use std::collections::HashSet;

    #[test]
    fn rows_have_distinct_slugs_and_a_code_that_is_an_error() {
        let mut seen = HashSet::new();
        for violation in Violation::ALL {
            assert!(seen.insert(violation.slug()), "{violation:?}: slug used twice");
            assert_ne!(violation.code(), ErrorCode::NO_ERROR, "{violation:?}");
        }
        assert_eq!(ErrorCode(0xb).as_str(), "ENHANCE_YOUR_CALM");
        assert_eq!(ErrorCode(0x77).as_str(), "unknown");
    }
}
