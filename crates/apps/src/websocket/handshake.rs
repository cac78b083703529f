//! The opening handshake (RFC 6455 4.2).

use message::{Fault, FaultKind, Request, Response};
use offload::session::Accepted;
use wire::websocket::{PerMessageDeflate, accept_key};
use wire::{Known, Method, token};

use super::deflate::AgreedDeflate;
use super::settings::WebSocketSettings;

/// The only version.
const VERSION: &str = "13";

/// Headers of a 101 that the server sets; the application's own are dropped.
const OURS: [Known; 7] = [
    Known::Connection,
    Known::Upgrade,
    Known::ContentLength,
    Known::TransferEncoding,
    Known::SecWebSocketAccept,
    Known::SecWebSocketExtensions,
    Known::SecWebSocketProtocol,
];

pub(super) fn asks(request: &Request) -> bool {
    request.method == Method::Get && request.headers.lists_token(Known::Upgrade, "websocket")
}

/// The parts of the request that the response needs.
pub(super) struct Handshake {
    accept: String,
    /// The subprotocols that the client offers, as one list.
    offered: Box<[u8]>,
    pub(super) deflate: Option<AgreedDeflate>,
}

impl Handshake {
    pub(super) fn read(
        request: &Request,
        settings: &WebSocketSettings,
    ) -> Result<Handshake, Fault> {
        let headers = &request.headers;
        if headers.get(Known::SecWebSocketVersion) != Some(VERSION.as_bytes()) {
            // RFC 6455 4.4 and RFC 9110 15.5.22.
            return Err(Fault::new(FaultKind::WebSocketVersion, "a version other than 13")
                .with_field(Known::SecWebSocketVersion, VERSION)
                .with_field(Known::Upgrade, "websocket"));
        }
        let key = headers.get(Known::SecWebSocketKey).unwrap_or_default();
        let accept = accept_key(key).ok_or_else(|| {
            Fault::new(FaultKind::WebSocketKey, "the key is not 16 bytes in Base64")
        })?;
        let list = |name: Known| headers.joined(name).unwrap_or_default();
        let memory_max = settings.compression_memory.bytes_usize();
        let deflate = settings
            .compression
            .then(|| list(Known::SecWebSocketExtensions))
            .and_then(|offers| PerMessageDeflate::choose(&offers, &coding::DEFLATE_WINDOW_BITS))
            .map(|parameters| AgreedDeflate::reserve(parameters, memory_max));
        let offered = list(Known::SecWebSocketProtocol).into();
        Ok(Handshake { accept, offered, deflate })
    }

    /// The 101, or a fault of the application.
    pub(super) fn answer(&self, accepted: Accepted) -> Result<Response, Fault> {
        let mut response = Response::new(101);
        let headers = &mut response.headers;
        headers.append(Known::Upgrade, "websocket");
        headers.append(Known::SecWebSocketAccept, &self.accept);
        if let Some(deflate) = &self.deflate {
            headers.append(Known::SecWebSocketExtensions, deflate.parameters.answer());
        }
        if let Some(chosen) = accepted.subprotocol.as_deref() {
            // A client must fail a connection that it did not offer (RFC 6455 4.1).
            if !token::list(&self.offered).any(|offer| offer == chosen.as_bytes()) {
                let detail = "the application chose a subprotocol that the client does not offer";
                return Err(Fault::new(FaultKind::WebSocketSubprotocol, detail));
            }
            headers.append(Known::SecWebSocketProtocol, chosen);
        }
        for field in accepted.headers.iter() {
            if !field.known.is_some_and(|known| OURS.contains(&known)) {
                headers.append(field.name, field.value);
            }
        }
        Ok(response)
    }
}
