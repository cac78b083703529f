//! Failures of servers, as [`Fault`]s with the error types of RFC 9209 2.3.

use std::borrow::Cow;
use std::io;

use net::tls;
use wire::Reject;

use crate::connection::Endpoint;
use message::{Fault, FaultKind, Retry};

/// The event that an exchange was waiting for when it timed out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Wait {
    Nothing,
    /// The client's next piece of the request body: its own bound applies, not ours.
    Client,
    /// Room to send.
    Write,
    /// The head of the response.
    Response,
    /// More of the response's body.
    Read,
}

/// Connecting failed; nothing was sent.
pub(super) fn connect(error: &io::Error, endpoint: &Endpoint) -> Fault {
    if let (Some(kind), Some(identity)) = (tls_kind(error), &endpoint.tls) {
        let detail = format!("TLS with {} failed: {error}", identity.name);
        return Fault::new(kind, detail).with_retry(Retry::Unsent);
    }
    let kind = match error.kind() {
        io::ErrorKind::ConnectionRefused | io::ErrorKind::NotFound => FaultKind::ConnectionRefused,
        io::ErrorKind::TimedOut => FaultKind::ConnectionTimeout,
        io::ErrorKind::ConnectionReset
        | io::ErrorKind::ConnectionAborted
        | io::ErrorKind::UnexpectedEof => FaultKind::ConnectionTerminated,
        io::ErrorKind::HostUnreachable
        | io::ErrorKind::NetworkUnreachable
        | io::ErrorKind::AddrNotAvailable => FaultKind::DestinationUnroutable,
        // Out of descriptors, a Unix socket without permission, a full backlog.
        _ => FaultKind::DestinationUnavailable,
    };
    Fault::new(kind, format!("cannot connect: {error}")).with_retry(Retry::Unsent)
}

/// The kind of a failure of TLS, `None` of one of the network.
fn tls_kind(error: &io::Error) -> Option<FaultKind> {
    if tls::is_certificate_error(error) {
        Some(FaultKind::TlsCertificateError)
    } else if tls::is_alert(error) {
        Some(FaultKind::TlsAlertReceived)
    } else {
        tls::is_tls_error(error).then_some(FaultKind::TlsProtocolError)
    }
}

pub(super) fn connect_timeout() -> Fault {
    Fault::new(FaultKind::ConnectionTimeout, "no connection within `connect`")
}

/// The server is configured to speak HTTP/2 only, without tunnels: this is not a failure.
pub(super) fn no_websocket() -> Fault {
    let detail = "WebSocket needs a server with HTTP/1.1, or one that announces extended CONNECT";
    Fault::new(FaultKind::WebSocketUnsupported, detail)
}

/// Data that arrived on a new connection before a request was sent; `None` if there is none. It
/// would be taken for the response to the first request.
pub(super) fn early(has_bytes: io::Result<bool>) -> Option<Fault> {
    match has_bytes {
        Ok(true) => Some(
            Fault::new(
                FaultKind::ProtocolError,
                "the server sent bytes before it was sent a request",
            )
            .with_retry(Retry::Unsent),
        ),
        Ok(false) => Some(no_answer(None, false)),
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => None,
        Err(error) => Some(no_answer(Some(&error), false)),
    }
}

/// The time for `wait` is up.
pub(super) fn timeout(wait: Wait) -> Fault {
    let (kind, detail) = match wait {
        Wait::Write => {
            (FaultKind::ConnectionWriteTimeout, "the request was not taken within `write`")
        }
        Wait::Read => {
            (FaultKind::ConnectionReadTimeout, "the response paused for longer than `read`")
        }
        Wait::Response | Wait::Client | Wait::Nothing => {
            (FaultKind::ResponseTimeout, "no head of a response within `response`")
        }
    };
    Fault::new(kind, detail)
}

/// The connection ended or failed before the first byte of a response. `sent` is true if any byte
/// of the request was sent.
pub(super) fn no_answer(error: Option<&io::Error>, sent: bool) -> Fault {
    let retry = if sent { Retry::IfIdempotent } else { Retry::Unsent };
    let detail: Cow<'static, str> = match error {
        Some(error) => format!("the connection failed before a response: {error}").into(),
        None => "the connection was closed before a response".into(),
    };
    let kind = error.and_then(tls_kind).unwrap_or(FaultKind::ConnectionTerminated);
    Fault::new(kind, detail).with_retry(retry)
}

/// The server did not acknowledge a PING: it, or the path to it, is gone.
pub(super) fn no_acknowledgement() -> Fault {
    let detail = "the server has not acknowledged a PING";
    Fault::new(FaultKind::ConnectionTerminated, detail)
}

/// The connection ended or failed within a response.
pub(super) fn cut_short(error: Option<&io::Error>, within: &str) -> Fault {
    let detail = match error {
        Some(error) => format!("the connection failed within the {within}: {error}"),
        None => format!("the connection was closed within the {within}"),
    };
    Fault::new(FaultKind::ResponseIncomplete, detail)
}

/// The response headers are not HTTP, or too large.
pub(super) fn bad_head(reject: Reject) -> Fault {
    let kind = match reject {
        Reject::HeadersTooLarge | Reject::TooManyFields | Reject::FieldNameTooLong => {
            FaultKind::ResponseHeadersSize
        }
        Reject::UnknownTransferCoding
        | Reject::UnsupportedTransferCoding
        | Reject::RepeatedTransferCoding => FaultKind::ResponseTransferCoding,
        _ => FaultKind::ProtocolError,
    };
    Fault::new(kind, reject.text())
}

/// The chunked coding of the response's body is broken.
pub(super) fn bad_body(reject: Reject) -> Fault {
    let kind = match reject {
        Reject::TrailersTooLarge => FaultKind::ResponseTrailersSize,
        _ => FaultKind::ResponseTransferCoding,
    };
    Fault::new(kind, reject.text())
}

pub(super) fn protocol(detail: &'static str) -> Fault {
    Fault::new(FaultKind::ProtocolError, detail)
}
