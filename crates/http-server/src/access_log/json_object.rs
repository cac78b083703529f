//! A line of the access log in JSON, written member by member.

use message::{AiCall, Request};
use telemetry::escape::json_string;
use telemetry::timestamp::{now_ms, rfc3339};

use super::write_to;

/// A flat JSON object written field by field.
pub(super) struct JsonObject<'a> {
    pub(super) line: &'a mut Vec<u8>,
    /// True before the first member.
    pub(super) empty: bool,
}

impl<'a> JsonObject<'a> {
    pub(super) fn begin(line: &'a mut Vec<u8>) -> JsonObject<'a> {
        line.push(b'{');
        JsonObject { line, empty: true }
    }

    fn name(&mut self, name: &str) {
        if !std::mem::take(&mut self.empty) {
            self.line.push(b',');
        }
        write_to(self.line, format_args!("\"{name}\":"));
    }

    pub(super) fn time(&mut self) {
        self.name("time");
        self.line.push(b'"');
        rfc3339(now_ms(), self.line);
        self.line.push(b'"');
    }

    pub(super) fn number(&mut self, name: &str, value: u64) {
        self.name(name);
        write_to(self.line, format_args!("{value}"));
    }

    pub(super) fn text(&mut self, name: &str, value: &[u8]) {
        self.name(name);
        json_string(value, self.line);
    }

    /// What the handshake of the connection has agreed on.
    pub(super) fn tls(&mut self, request: &Request) {
        if let Some(tls) = &request.facts.tls {
            self.text("tls_version", tls.version_name().as_bytes());
            self.text("tls_cipher", tls.cipher_name().as_bytes());
            if let Some(name) = &tls.server_name {
                self.text("tls_server_name", name.as_bytes());
            }
            if let Some(peer) = &tls.peer {
                self.text("tls_client_subject", peer.details.subject.as_bytes());
                let names: Vec<_> = plugin::variables::client_names(request).collect();
                self.text("tls_client_name", names.join(",").as_bytes());
                self.text("tls_client_fingerprint", peer.details.fingerprint.as_bytes());
            }
        }
    }

    /// A member whose name the operator has written.
    pub(super) fn operators_text(&mut self, name: &str, value: &[u8]) {
        if !std::mem::take(&mut self.empty) {
            self.line.push(b',');
        }
        json_string(name.as_bytes(), self.line);
        self.line.push(b':');
        json_string(value, self.line);
    }

    pub(super) fn ai_call(&mut self, call: &AiCall) {
        self.text("ai_model", call.model.as_bytes());
        self.text("ai_provider", call.provider.as_bytes());
        if let Some(tokens) = call.tokens() {
            self.number("ai_input_tokens", u64::from(tokens.input));
            self.number("ai_output_tokens", u64::from(tokens.output));
            let source = if tokens.is_estimate { "estimate" } else { "provider" };
            self.text("ai_tokens_from", source.as_bytes());
        }
    }

    pub(super) fn end(self) {
        self.line.push(b'}');
    }
}
