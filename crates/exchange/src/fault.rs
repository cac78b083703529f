//! What went wrong with one exchange: whose fault, may it be tried again, what the log says.
//!
//! A fault becomes a response in exactly one place (`problem`). Its detail goes to the log and
//! never to the client.

use std::borrow::Cow;
use std::fmt;

use wire::Reject;

use crate::Headers;

/// Whose fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Side {
    Client,
    Upstream,
    Us,
}

/// Whether the same request may be sent again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Retry {
    Never,
    /// Nothing of the request was sent: any request may be.
    Unsent,
    /// Something may have been done with it: only an idempotent request (RFC 9110 9.2.2).
    IfIdempotent,
}

/// The status in logs of a request that got no response, as nginx has it; it is never sent.
const UNANSWERED: u16 = 444;

/// One failure.
#[derive(Clone, Debug)]
pub struct Fault {
    pub side: Side,
    /// The status it becomes.
    pub status: u16,
    /// A word of a fixed vocabulary, for counters and, for upstream faults, the `error` parameter
    /// of Proxy-Status (RFC 9209 2.3).
    pub slug: &'static str,
    pub retry: Retry,
    /// For the log only.
    pub detail: Cow<'static, str>,
    /// The client's connection cannot be used any more.
    pub close: bool,
    /// Methods for the Allow field of a 405.
    pub allow: Option<Box<str>>,
    /// Seconds for Retry-After.
    pub retry_after_s: Option<u32>,
    /// The server that failed, for Proxy-Status.
    pub next_hop: Option<Box<str>>,
    /// The address of the server that failed, for the log, where the request's own notes do not
    /// have it: another request's fetch broke off.
    pub server: Option<Box<str>>,
    /// More fields for the response: WWW-Authenticate of a 401, Content-Range of a 416, ...
    pub fields: Option<Box<Headers>>,
}

impl Fault {
    pub fn new(
        side: Side,
        status: u16,
        slug: &'static str,
        detail: impl Into<Cow<'static, str>>,
    ) -> Fault {
        Fault {
            side,
            status,
            slug,
            retry: Retry::Never,
            detail: detail.into(),
            close: false,
            allow: None,
            retry_after_s: None,
            fields: None,
            next_hop: None,
            server: None,
        }
    }

    pub fn client(status: u16, slug: &'static str, detail: impl Into<Cow<'static, str>>) -> Fault {
        Fault::new(Side::Client, status, slug, detail)
    }

    /// `slug` is an error type of RFC 9209.
    pub fn upstream(
        status: u16,
        slug: &'static str,
        retry: Retry,
        detail: impl Into<Cow<'static, str>>,
    ) -> Fault {
        Fault { retry, ..Fault::new(Side::Upstream, status, slug, detail) }
    }

    pub fn internal(detail: impl Into<Cow<'static, str>>) -> Fault {
        Fault::new(Side::Us, 500, "internal_error", detail)
    }

    pub fn not_found() -> Fault {
        Fault::client(404, "not_found", "")
    }

    pub fn method_not_allowed(allow: impl Into<Box<str>>) -> Fault {
        Fault { allow: Some(allow.into()), ..Fault::client(405, "method_not_allowed", "") }
    }

    pub fn body_too_large() -> Fault {
        Fault { close: true, ..Fault::client(413, "body_too_large", "") }
    }

    /// The client went away or broke off: there is nobody to answer.
    pub fn client_gone(detail: impl Into<Cow<'static, str>>) -> Fault {
        Fault { close: true, ..Fault::client(400, "client_gone", detail) }
    }

    /// The request gets no response: its connection is closed. Logged with nginx's status 444.
    pub fn unanswered(slug: &'static str, detail: impl Into<Cow<'static, str>>) -> Fault {
        Fault::client(UNANSWERED, slug, detail).closing()
    }

    pub(crate) fn is_unanswered(&self) -> bool {
        self.status == UNANSWERED
    }

    /// The bytes that should have been a request are none.
    pub fn rejected(reject: Reject) -> Fault {
        Fault { close: true, ..Fault::client(reject.status(), reject.slug(), reject.text()) }
    }

    /// The same fault with one more field for its response.
    pub fn with_field<'n>(
        mut self,
        name: impl Into<crate::Name<'n>>,
        value: impl AsRef<[u8]>,
    ) -> Fault {
        self.fields.get_or_insert_default().append(name, value);
        self
    }

    /// The same fault, after which the connection ends.
    pub fn closing(self) -> Fault {
        Fault { close: true, ..self }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.status, self.slug)?;
        if !self.detail.is_empty() {
            write!(f, ": {}", self.detail)?;
        }
        Ok(())
    }
}

impl std::error::Error for Fault {}
