//! `apps.NAME.websocket`: limits of WebSocket sessions.

use offload::Limits;
use settings::{Duration, Setting, Size};

/// WebSocket sessions.
#[derive(Clone, Debug, PartialEq, Setting)]
#[setting(default)]
pub struct WebSocketSettings {
    /// The largest message a client may send, after decompression; beyond it the session is closed
    /// with 1009.
    #[setting(default = "16MiB", range = "1KiB"..="1GiB")]
    pub message_size: Size,
    /// Number of messages queued between a client and the application, in each direction. When the
    /// queue is full, the client is not read from, and an application that sends waits in `send`.
    #[setting(default = 32, range = 1..=65536)]
    pub queue: u32,
    /// Bytes queued; the message that exceeds the limit is the last one taken.
    #[setting(default = "256KiB", range = "1KiB"..="1GiB")]
    pub queue_size: Size,
    /// A client that is silent for this long gets a ping. 0s disables it.
    #[setting(default = "20s", range = "0s"..="1d")]
    pub ping_every: Duration,
    /// A client that stays silent for this long after a ping, or accepts no data, is disconnected.
    #[setting(default = "20s", range = "1ms"..="1d")]
    pub ping_timeout: Duration,
    /// Time-out for the application to accept or deny; then the client gets 504.
    #[setting(default = "30s", range = "1ms"..="1d")]
    pub accept_timeout: Duration,
    /// Time-out for the client's close frame.
    #[setting(default = "10s", range = "1ms"..="1h")]
    pub close_timeout: Duration,
    /// Compresses messages (permessage-deflate, RFC 7692) if the client offers it.
    #[setting(default = true)]
    pub compression: bool,
    /// Memory in each worker for connections whose compressed messages refer to earlier ones
    /// (context takeover), 216 KiB for each. Messages of further connections are compressed each by
    /// itself. 0B excludes it.
    #[setting(default = "32MiB", range = "0B"..="64GiB")]
    pub compression_memory: Size,
}

impl WebSocketSettings {
    /// The limits of the queues between the connection and the application.
    pub(super) fn limits(&self) -> Limits {
        Limits {
            chunks: self.queue as usize,
            bytes: self.queue_size.bytes(),
            answer: self.accept_timeout.get(),
            ..Limits::default()
        }
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_declarations_are_valid() {
        settings::verify::<super::WebSocketSettings>().unwrap();
    }
}
