//! The line of a stream (layer 4).

use message::ConnectionFacts;
use telemetry::{CloseReason, Severity};
use wire::IpText;

use super::json_object::JsonObject;

/// The end of a stream.
pub struct StreamEntry<'a> {
    /// The listener is the name of the stream.
    pub facts: &'a ConnectionFacts,
    /// The name in the ClientHello.
    pub server_name: Option<&'a str>,
    /// The server that was chosen.
    pub server: Option<&'a str>,
    pub received: u64,
    pub sent: u64,
    pub duration_us: u64,
    pub reason: CloseReason,
}

impl StreamEntry<'_> {
    /// The status of a response that ended for a like reason, for the combined format and for the
    /// sample.
    pub(super) fn status(&self) -> u16 {
        match self.reason.severity() {
            Severity::Normal => 200,
            Severity::Client => 400,
            Severity::Upstream => 502,
            Severity::Ours => 503,
        }
    }

    pub(super) fn json(&self, line: &mut Vec<u8>) {
        let mut object = JsonObject::begin(line);
        object.time();
        object.text("client_ip", IpText::new(self.facts.peer_ip()).as_bytes());
        object.text("stream", self.facts.listener.as_bytes());
        if let Some(name) = self.server_name {
            object.text("tls_server_name", name.as_bytes());
        }
        if let Some(server) = self.server {
            object.text("upstream", server.as_bytes());
        }
        object.number("received_bytes", self.received);
        object.number("sent_bytes", self.sent);
        object.number("duration_us", self.duration_us);
        object.text("reason", self.reason.slug().as_bytes());
        object.end();
    }
}
