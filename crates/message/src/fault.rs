//! The failure of an exchange: its origin, whether a retry is allowed, its text for the log.
//!
//! A fault becomes a response in exactly one place (`problem`). Its detail is logged and never sent
//! to the client.

use std::borrow::Cow;
use std::fmt;

use telemetry::{CloseReason, LimitHit};
use wire::Reject;

use crate::Headers;

/// The origin of a fault.
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
    /// Nothing of the request was sent: any request may be repeated.
    Unsent,
    /// Something may have been done with it: only an idempotent request (RFC 9110 9.2.2).
    IfIdempotent,
}

/// The status in logs of a request that got no response, as nginx has it; it is never sent.
const UNANSWERED: u16 = 444;

/// Why the connection ends where a row does not say so.
macro_rules! close_reason {
    () => {
        CloseReason::InternalError
    };
    ($close:path) => {
        $close
    };
}

macro_rules! fault_kinds {
    ($(
        $variant:ident = $slug:literal $side:ident $status:literal $retry:ident $($close:path)?;
    )*) => {
        /// The kinds of faults. The table has, for each kind, the name for logs, counters and
        /// scripts, the origin, the status, whether the request may be sent again, and the reason
        /// for closing the client's connection, if it is closed.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum FaultKind {
            /// The bytes are not a request.
            Rejected(Reject),
            $(#[doc = concat!("`", $slug, "`: ", stringify!($status))] $variant,)*
        }

        impl FaultKind {
            /// Every kind but [`FaultKind::Rejected`].
            const ALL: &[FaultKind] = &[$(FaultKind::$variant,)*];

            fn row(self) -> (&'static str, Side, u16, Retry, CloseReason) {
                match self {
                    FaultKind::Rejected(reject) => {
                        let (slug, status) = (reject.slug(), reject.status());
                        (slug, Side::Client, status, Retry::Never, close_of_rejected(reject))
                    }
                    $(FaultKind::$variant => {
                        ($slug, Side::$side, $status, Retry::$retry, close_reason!($($close)?))
                    })*
                }
            }
        }
    };
}

fault_kinds! {
    // The client, or what it asks for.
    NotFound = "not_found" Client 404 Never CloseReason::Malformed;
    MethodNotAllowed = "method_not_allowed" Client 405 Never CloseReason::Malformed;
    Unauthorized = "unauthorized" Client 401 Never CloseReason::Malformed;
    Forbidden = "forbidden" Client 403 Never CloseReason::Malformed;
    RateLimited = "rate_limited" Client 429 Never CloseReason::Malformed;
    InvalidContent = "invalid_content" Client 400 Never CloseReason::Malformed;
    UnsupportedContent = "unsupported_content" Client 415 Never CloseReason::Malformed;
    PreconditionFailed = "precondition_failed" Client 412 Never CloseReason::Malformed;
    RangeNotSatisfiable = "range_not_satisfiable" Client 416 Never CloseReason::Malformed;
    InvalidTarget = "invalid_target" Client 400 Never CloseReason::Malformed;
    ConnectRefused = "connect_refused" Client 501 Never CloseReason::CloseByAnswer;
    EncodedSlash = "encoded_slash" Client 400 Never CloseReason::Malformed;
    TooManyFields = "too_many_fields" Client 431 Never CloseReason::HeadersTooLarge;
    HeadTooLarge = "head_too_large" Client 431 Never CloseReason::Malformed;
    HeadTimeout = "head_timeout" Client 408 Never CloseReason::HeadTimeout;
    BodyTimeout = "body_timeout" Client 408 Never CloseReason::BodyTimeout;
    BodyTooLarge = "body_too_large" Client 413 Never CloseReason::BodyTooLarge;
    SlowClient = "slow_client" Client 408 Never CloseReason::SlowClient;
    UnknownHost = "unknown_host" Client 421 Never CloseReason::UnknownHost;
    GrpcMalformed = "grpc_malformed" Client 400 Never CloseReason::Malformed;
    Misdirected = "misdirected" Client 421 Never CloseReason::Malformed;
    PlainHttp = "plain_http" Client 400 Never CloseReason::Malformed;
    ClientGone = "client_gone" Client 400 Never CloseReason::ClientGone;
    OnlyIfCached = "only_if_cached" Client 504 Never CloseReason::Malformed;
    PurgeNotAllowed = "purge_not_allowed" Client 403 Never CloseReason::Malformed;
    WebSocketKey = "websocket_key" Client 400 Never CloseReason::Malformed;
    WebSocketVersion = "websocket_version" Client 426 Never CloseReason::Malformed;
    WebSocketUnknown = "websocket_unknown" Client 426 Never CloseReason::Malformed;
    WebSocketRefused = "websocket_refused" Client 403 Never CloseReason::Malformed;
    // The upstream: error types of RFC 9209 2.3.
    DnsError = "dns_error" Upstream 503 Unsent;
    DestinationUnavailable = "destination_unavailable" Upstream 503 Unsent;
    DestinationUnroutable = "destination_ip_unroutable" Upstream 502 Unsent;
    ConnectionLimit = "connection_limit_reached" Upstream 503 Unsent;
    ConnectionRefused = "connection_refused" Upstream 502 Unsent;
    ConnectionTimeout = "connection_timeout" Upstream 504 Unsent;
    ConnectionTerminated = "connection_terminated" Upstream 502 IfIdempotent;
    ConnectionReadTimeout = "connection_read_timeout" Upstream 504 IfIdempotent;
    ConnectionWriteTimeout = "connection_write_timeout" Upstream 504 IfIdempotent;
    ResponseTimeout = "http_response_timeout" Upstream 504 IfIdempotent;
    ResponseIncomplete = "http_response_incomplete" Upstream 502 IfIdempotent;
    ResponseHeadersSize = "http_response_header_section_size" Upstream 502 Never;
    ResponseBodySize = "http_response_body_size" Upstream 502 Never;
    ResponseTrailersSize = "http_response_trailer_section_size" Upstream 502 Never;
    ResponseTransferCoding = "http_response_transfer_coding" Upstream 502 Never;
    ResponseContentCoding = "http_response_content_coding" Upstream 502 Never;
    ResponseStatus = "http_response_status" Upstream 502 Never;
    UpgradeFailed = "http_upgrade_failed" Upstream 502 Never;
    ProtocolError = "http_protocol_error" Upstream 502 Never;
    TlsProtocolError = "tls_protocol_error" Upstream 502 Unsent;
    TlsCertificateError = "tls_certificate_error" Upstream 502 Unsent;
    TlsAlertReceived = "tls_alert_received" Upstream 502 IfIdempotent;
    // This server and its applications.
    Internal = "internal_error" Us 500 Never;
    Deadline = "deadline" Us 504 Never;
    LoopDetected = "loop_detected" Us 508 Never;
    NoRoutes = "no_routes" Us 503 Never;
    FaultInjected = "fault_injected" Us 503 Never;
    ConcurrencyLimited = "concurrency_limited" Us 503 Never;
    CircuitOpen = "circuit_open" Us 503 Never;
    Unavailable = "unavailable" Us 503 Never;
    SharedBodyFull = "growing_full" Us 500 Never;
    SharedBodyLate = "growing_late" Us 500 Never;
    SharedBodyDropped = "growing_dropped" Us 500 Never;
    DecodingFull = "cache_decoding_full" Us 503 Never;
    OffloadDropped = "handover_dropped" Us 500 Never;
    OffloadFull = "handover_full" Us 503 Never;
    OffloadClosed = "handover_closed" Us 500 Never;
    OffloadTimeout = "handover_timeout" Us 504 Never;
    AppFull = "app_full" Us 503 Never;
    AppAbsent = "app_absent" Us 503 Never;
    AppFailed = "app_failed" Us 500 Never;
    WebSocketUnsupported = "websocket_unsupported" Us 502 Never;
    WebSocketSubprotocol = "websocket_subprotocol" Us 500 Never;
}

impl FaultKind {
    /// The kind that this word names: what another process of ours reports.
    pub fn from_slug(slug: &str) -> Option<FaultKind> {
        let rejected = || Reject::ALL.iter().map(|reject| FaultKind::Rejected(*reject));
        FaultKind::ALL.iter().copied().chain(rejected()).find(|kind| kind.slug() == slug)
    }

    /// A word of a fixed vocabulary, for counters and, for upstream faults, the `error` parameter
    /// of Proxy-Status (RFC 9209 2.3).
    pub fn slug(self) -> &'static str {
        self.row().0
    }

    /// Returns the origin.
    pub fn side(self) -> Side {
        self.row().1
    }

    /// Why the client's connection ends, where it does.
    pub fn close_reason(self) -> CloseReason {
        self.row().4
    }

    /// The limit that the client has run into, where it is not counted where it is found.
    pub fn limit(self) -> Option<LimitHit> {
        match self {
            FaultKind::Rejected(Reject::RequestLineTooLong) => Some(LimitHit::RequestLine),
            FaultKind::Rejected(Reject::HeadersTooLarge | Reject::FieldNameTooLong) => {
                Some(LimitHit::Headers)
            }
            FaultKind::Rejected(Reject::TooManyFields) | FaultKind::TooManyFields => {
                Some(LimitHit::HeaderCount)
            }
            FaultKind::Rejected(Reject::TrailersTooLarge) => Some(LimitHit::Trailers),
            _ => None,
        }
    }
}

fn close_of_rejected(reject: Reject) -> CloseReason {
    match reject {
        Reject::RequestLineTooLong => CloseReason::RequestLineTooLong,
        Reject::HeadersTooLarge
        | Reject::FieldNameTooLong
        | Reject::TooManyFields
        | Reject::TrailersTooLarge => CloseReason::HeadersTooLarge,
        Reject::BodyTooLarge => CloseReason::BodyTooLarge,
        _ => CloseReason::Malformed,
    }
}

/// A failure.
#[derive(Clone, Debug)]
pub struct Fault {
    pub kind: FaultKind,
    /// The status it becomes.
    pub status: u16,
    pub retry: Retry,
    /// The detail, for the log only.
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
    /// A fault with the status and the retry of its kind.
    pub fn new(kind: FaultKind, detail: impl Into<Cow<'static, str>>) -> Fault {
        let (_, _, status, retry, _) = kind.row();
        Fault {
            kind,
            status,
            retry,
            detail: detail.into(),
            close: false,
            allow: None,
            retry_after_s: None,
            fields: None,
            next_hop: None,
            server: None,
        }
    }

    /// The word for its kind: see [`FaultKind::slug`].
    pub fn slug(&self) -> &'static str {
        self.kind.slug()
    }

    /// Returns the origin.
    pub fn side(&self) -> Side {
        self.kind.side()
    }

    /// Returns the fault with another status than its kind's.
    pub fn with_status(self, status: u16) -> Fault {
        Fault { status, ..self }
    }

    /// Returns the fault with another retry rule than its kind's.
    pub fn with_retry(self, retry: Retry) -> Fault {
        Fault { retry, ..self }
    }

    pub fn internal(detail: impl Into<Cow<'static, str>>) -> Fault {
        Fault::new(FaultKind::Internal, detail)
    }

    pub fn not_found() -> Fault {
        Fault::new(FaultKind::NotFound, "")
    }

    pub fn method_not_allowed(allow: impl Into<Box<str>>) -> Fault {
        Fault { allow: Some(allow.into()), ..Fault::new(FaultKind::MethodNotAllowed, "") }
    }

    /// The exchange took longer than it may.
    pub fn deadline() -> Fault {
        Fault::new(FaultKind::Deadline, "the exchange took too long")
    }

    pub fn body_too_large() -> Fault {
        Fault { close: true, ..Fault::new(FaultKind::BodyTooLarge, "") }
    }

    /// The client closed or reset its connection: no response can be sent.
    pub fn client_gone(detail: impl Into<Cow<'static, str>>) -> Fault {
        Fault { close: true, ..Fault::new(FaultKind::ClientGone, detail) }
    }

    /// The request gets no response: its connection is closed. Logged with nginx's status 444.
    pub fn unanswered(kind: FaultKind, detail: impl Into<Cow<'static, str>>) -> Fault {
        Fault::new(kind, detail).with_status(UNANSWERED).closing()
    }

    pub fn is_unanswered(&self) -> bool {
        self.status == UNANSWERED
    }

    /// The bytes that should have been a request are none.
    pub fn rejected(reject: Reject) -> Fault {
        Fault::new(FaultKind::Rejected(reject), reject.text()).closing()
    }

    /// Returns the fault with an additional field for its response.
    pub fn with_field<'n>(
        mut self,
        name: impl Into<crate::Name<'n>>,
        value: impl AsRef<[u8]>,
    ) -> Fault {
        self.fields.get_or_insert_default().append(name, value);
        self
    }

    /// Returns the fault; the connection closes after its response.
    pub fn closing(self) -> Fault {
        Fault { close: true, ..self }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.status, self.slug())?;
        if !self.detail.is_empty() {
            write!(f, ": {}", self.detail)?;
        }
        Ok(())
    }
}

impl std::error::Error for Fault {}
