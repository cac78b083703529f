//! Settings of both sides (RFC 9113 6.5, RFC 8441 3, RFC 9218 2.1).

use super::code::Violation;
use super::frame;
use crate::h1::HeadLimits;

const HEADER_TABLE_SIZE: u16 = 0x1;
const ENABLE_PUSH: u16 = 0x2;
const MAX_CONCURRENT_STREAMS: u16 = 0x3;
const INITIAL_WINDOW_SIZE: u16 = 0x4;
const MAX_FRAME_SIZE: u16 = 0x5;
const MAX_HEADER_LIST_SIZE: u16 = 0x6;
const ENABLE_CONNECT_PROTOCOL: u16 = 0x8;
const NO_RFC7540_PRIORITIES: u16 = 0x9;

/// The largest frame that is accepted, which is the protocol's smallest maximum: larger ones would
/// only delay the frames of other streams.
pub const FRAME_SIZE: usize = 16 * 1024;
/// The flow-control window before any setting or update (RFC 9113 6.9.2).
pub(super) const DEFAULT_WINDOW: u32 = 65_535;
/// RFC 9113 6.9.1.
pub(super) const WINDOW_MAX: i64 = (1 << 31) - 1;

/// What this side allows the peer.
#[derive(Clone, Debug)]
pub struct Config {
    /// Streams that the peer may have open at once: each can occupy a handler.
    pub max_streams: u32,
    /// Bytes of a body that the peer may send before the application has read them, at least
    /// 65,535: smaller windows would only count once the peer has read the settings.
    pub stream_window: u32,
    /// The same for all bodies of the connection together: its memory.
    pub connection_window: u32,
    /// Limits of field sections, as for HTTP/1.1; `request_line` bounds `:path`.
    pub head: HeadLimits,
    /// Extended CONNECT is accepted (RFC 8441).
    pub extended_connect: bool,
}

impl Default for Config {
    fn default() -> Config {
        Config {
            max_streams: 128,
            stream_window: 256 * 1024,
            connection_window: 1024 * 1024,
            head: HeadLimits::default(),
            extended_connect: false,
        }
    }
}

impl Config {
    pub(super) fn stream_window(&self) -> u32 {
        self.stream_window.clamp(DEFAULT_WINDOW, WINDOW_MAX as u32)
    }

    pub(super) fn connection_window(&self) -> u32 {
        self.connection_window.clamp(DEFAULT_WINDOW, WINDOW_MAX as u32)
    }

    /// Appends the SETTINGS frame that opens a connection, and the update of its window.
    pub(super) fn write(&self, is_server: bool, out: &mut Vec<u8>) {
        let at = out.len();
        frame::write_header(out, 0, frame::SETTINGS, 0, 0);
        let mut setting = |id: u16, value: u32| {
            out.extend_from_slice(&id.to_be_bytes());
            out.extend_from_slice(&value.to_be_bytes());
        };
        if is_server {
            setting(MAX_CONCURRENT_STREAMS, self.max_streams);
            setting(ENABLE_CONNECT_PROTOCOL, u32::from(self.extended_connect));
            setting(NO_RFC7540_PRIORITIES, 1);
        } else {
            setting(ENABLE_PUSH, 0);
        }
        setting(INITIAL_WINDOW_SIZE, self.stream_window());
        setting(MAX_HEADER_LIST_SIZE, u32::try_from(self.head.headers).unwrap_or(u32::MAX));
        frame::set_length(out, at);
        let update = self.connection_window() - DEFAULT_WINDOW;
        if update > 0 {
            frame::write(out, frame::WINDOW_UPDATE, 0, 0, &update.to_be_bytes());
        }
    }
}

/// What the peer allows this side.
#[derive(Clone, Debug)]
pub(super) struct PeerSettings {
    pub(super) max_streams: u32,
    pub(super) stream_window: u32,
    pub(super) frame_size: usize,
    pub(super) header_table: usize,
    pub(super) extended_connect: bool,
}

impl Default for PeerSettings {
    fn default() -> PeerSettings {
        PeerSettings {
            // Without a limit until it sets one; this side does not open more than this.
            max_streams: 100,
            stream_window: DEFAULT_WINDOW,
            frame_size: FRAME_SIZE,
            header_table: super::TABLE_SIZE,
            extended_connect: false,
        }
    }
}

impl PeerSettings {
    /// Applies the payload of SETTINGS in order (RFC 9113 6.5.3).
    pub(super) fn apply(&mut self, payload: &[u8], from_server: bool) -> Result<(), Violation> {
        let (settings, []) = payload.as_chunks::<6>() else {
            return Err(Violation::InvalidFrameSize);
        };
        for &[i0, i1, v0, v1, v2, v3] in settings {
            let value = u32::from_be_bytes([v0, v1, v2, v3]);
            let is_switch = value <= 1;
            match u16::from_be_bytes([i0, i1]) {
                HEADER_TABLE_SIZE => self.header_table = value as usize,
                // RFC 9113 6.5.2: a server never sets it to 1.
                ENABLE_PUSH if !is_switch || (from_server && value == 1) => {
                    return Err(Violation::InvalidSetting);
                }
                MAX_CONCURRENT_STREAMS => self.max_streams = value,
                INITIAL_WINDOW_SIZE => {
                    if i64::from(value) > WINDOW_MAX {
                        return Err(Violation::InvalidWindowSetting);
                    }
                    self.stream_window = value;
                }
                MAX_FRAME_SIZE => {
                    if !(16_384..=16_777_215).contains(&value) {
                        return Err(Violation::InvalidSetting);
                    }
                    self.frame_size = value as usize;
                }
                ENABLE_CONNECT_PROTOCOL => {
                    // RFC 8441 3: it is never taken back.
                    if !is_switch || (self.extended_connect && value == 0) {
                        return Err(Violation::InvalidSetting);
                    }
                    self.extended_connect = value == 1;
                }
                NO_RFC7540_PRIORITIES if !is_switch => return Err(Violation::InvalidSetting),
                // Unknown settings are ignored (RFC 9113 6.5.2), and MAX_HEADER_LIST_SIZE, which is
                // advice.
                _ => {}
            }
        }
        Ok(())
    }
}
