//! `apps.NAME.websocket`: bounds of sessions, and what is spoken.

use exchange::offload::Limits;
use settings::{Duration, Setting, Size};

/// Sessions of WebSocket.
#[derive(Clone, Debug, PartialEq, Setting)]
#[setting(default)]
pub struct WebSocketSettings {
    /// The largest message a client may send, after decompression; past it the session is
    /// closed with 1009.
    #[setting(default = "16MiB", range = "1KiB"..="1GiB")]
    pub message_size: Size,
    /// How many messages may wait between a client and the application, each way. A client
    /// whose messages wait is read no further; an application that sends to a slow client waits
    /// in `send`.
    #[setting(default = 32, range = 1..=65536)]
    pub queue: u32,
    /// How many bytes may wait; the message that goes beyond is the last one taken.
    #[setting(default = "256KiB", range = "1KiB"..="1GiB")]
    pub queue_size: Size,
    /// A client that was silent for so long is sent a ping. 0s for none.
    #[setting(default = "20s", range = "0s"..="1d")]
    pub ping_every: Duration,
    /// A client that stays silent for so long after a ping, or takes none of what is sent to
    /// it, is gone.
    #[setting(default = "20s", range = "1ms"..="1d")]
    pub ping_timeout: Duration,
    /// How long the application may take to accept or deny; then the client gets 504.
    #[setting(default = "30s", range = "1ms"..="1d")]
    pub accept_timeout: Duration,
    /// How long a client may take to answer a goodbye.
    #[setting(default = "10s", range = "1ms"..="1h")]
    pub close_timeout: Duration,
    /// Whether messages may be compressed (permessage-deflate, RFC 7692), where the client
    /// offers it. No context is taken over from one message to the next.
    #[setting(default = false)]
    pub compression: bool,
}

impl WebSocketSettings {
    /// Bounds of what lies between the connection and the application.
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
    fn the_declarations_hold() {
        settings::verify::<super::WebSocketSettings>().unwrap();
    }
}
