//! What can go wrong with a server, as [`Fault`]s with the error types of RFC 9209 2.3.

use std::borrow::Cow;
use std::io;

use wire::Reject;

use crate::{Fault, Retry};

/// What an exchange waited for when its time ran out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Wait {
    Nothing,
    /// The client's next piece of the request body: its own bound applies, not ours.
    Client,
    /// Room to send.
    Write,
    /// The head of the answer.
    Response,
    /// More of the answer's body.
    Read,
}

/// Connecting failed; nothing was sent.
pub(super) fn connect(error: &io::Error) -> Fault {
    let (status, slug) = match error.kind() {
        io::ErrorKind::ConnectionRefused | io::ErrorKind::NotFound => (502, "connection_refused"),
        io::ErrorKind::TimedOut => (504, "connection_timeout"),
        io::ErrorKind::ConnectionReset | io::ErrorKind::ConnectionAborted => {
            (502, "connection_terminated")
        }
        io::ErrorKind::HostUnreachable
        | io::ErrorKind::NetworkUnreachable
        | io::ErrorKind::AddrNotAvailable => (502, "destination_ip_unroutable"),
        // Out of descriptors, a Unix socket without permission, a full backlog.
        _ => (503, "destination_unavailable"),
    };
    Fault::upstream(status, slug, Retry::Unsent, format!("cannot connect: {error}"))
}

pub(super) fn connect_timeout() -> Fault {
    Fault::upstream(504, "connection_timeout", Retry::Unsent, "no connection within `connect`")
}

/// What arrived on a fresh connection before anything was sent; `None` if nothing did. An answer to
/// no request would be taken for the answer to the first one.
pub(super) fn early(has_bytes: io::Result<bool>) -> Option<Fault> {
    match has_bytes {
        Ok(true) => Some(Fault::upstream(
            502,
            "http_protocol_error",
            Retry::Unsent,
            "the server sent bytes before it was sent a request",
        )),
        Ok(false) => Some(no_answer(None, false)),
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => None,
        Err(error) => Some(no_answer(Some(&error), false)),
    }
}

/// The time for `wait` is up.
pub(super) fn timeout(wait: Wait) -> Fault {
    let (slug, detail) = match wait {
        Wait::Write => ("connection_write_timeout", "the request was not taken within `write`"),
        Wait::Read => ("connection_read_timeout", "the answer paused for longer than `read`"),
        Wait::Response | Wait::Client | Wait::Nothing => {
            ("http_response_timeout", "no head of an answer within `response`")
        }
    };
    Fault::upstream(504, slug, Retry::IfIdempotent, detail)
}

/// The connection ended or failed before the first byte of an answer. `sent` tells whether any byte
/// of the request had been taken.
pub(super) fn no_answer(error: Option<&io::Error>, sent: bool) -> Fault {
    let retry = if sent { Retry::IfIdempotent } else { Retry::Unsent };
    let detail: Cow<'static, str> = match error {
        Some(error) => format!("the connection failed before an answer: {error}").into(),
        None => "the connection was closed before an answer".into(),
    };
    Fault::upstream(502, "connection_terminated", retry, detail)
}

/// The connection ended or failed within an answer.
pub(super) fn cut_short(error: Option<&io::Error>, within: &str) -> Fault {
    let detail = match error {
        Some(error) => format!("the connection failed within the {within}: {error}"),
        None => format!("the connection was closed within the {within}"),
    };
    Fault::upstream(502, "http_response_incomplete", Retry::IfIdempotent, detail)
}

/// The head of the answer is not HTTP, or too large.
pub(super) fn bad_head(reject: Reject) -> Fault {
    let slug = match reject {
        Reject::HeadersTooLarge | Reject::TooManyFields | Reject::FieldNameTooLong => {
            "http_response_header_section_size"
        }
        Reject::UnknownTransferCoding
        | Reject::UnsupportedTransferCoding
        | Reject::RepeatedTransferCoding => "http_response_transfer_coding",
        _ => "http_protocol_error",
    };
    Fault::upstream(502, slug, Retry::Never, reject.text())
}

/// The chunked coding of the answer's body is broken.
pub(super) fn bad_body(reject: Reject) -> Fault {
    let slug = match reject {
        Reject::TrailersTooLarge => "http_response_trailer_section_size",
        _ => "http_response_transfer_coding",
    };
    Fault::upstream(502, slug, Retry::Never, reject.text())
}

pub(super) fn protocol(detail: &'static str) -> Fault {
    Fault::upstream(502, "http_protocol_error", Retry::Never, detail)
}
