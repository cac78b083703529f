//! `apps.NAME.websocket`: bounds of sessions, and what is spoken.

use exchange::offload::Limits;
use settings::{Duration, Size};

settings::record! {
    /// Sessions of WebSocket.
    pub struct WebSocketSettings {
        /// The largest message a client may send, after decompression; past it the session is
        /// closed with 1009.
        pub message_size: Size = "16MiB" { in "1KiB"..="1GiB" },
        /// How many messages may wait between a client and the application, each way. A client
        /// whose messages wait is read no further; an application that sends to a slow client waits
        /// in `send`.
        pub queue: u32 = 32 { in 1..=65536 },
        /// How many bytes may wait; the message that goes beyond is the last one taken.
        pub queue_size: Size = "256KiB" { in "1KiB"..="1GiB" },
        /// A client that was silent for so long is sent a ping. 0s for none.
        pub ping_every: Duration = "20s" { in "0s"..="1d" },
        /// A client that stays silent for so long after a ping, or takes none of what is sent to
        /// it, is gone.
        pub ping_timeout: Duration = "20s" { in "1ms"..="1d" },
        /// How long the application may take to accept or deny; then the client gets 504.
        pub accept_timeout: Duration = "30s" { in "1ms"..="1d" },
        /// How long a client may take to answer a goodbye.
        pub close_timeout: Duration = "10s" { in "1ms"..="1h" },
        /// Whether messages may be compressed (permessage-deflate, RFC 7692), where the client
        /// offers it. No context is taken over from one message to the next.
        pub compression: bool = false,
    }
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
