//! Why something did not come from the cache, or did not go into it.

/// Why a request goes past the cache or its answer is not stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum UncachedReason {
    /// Neither GET nor HEAD.
    Method,
    /// A GET or HEAD with content (RFC 9110 9.3.1: it has no meaning that a cache knows).
    Content,
    /// It asks for another protocol.
    Upgrade,
    /// If-Match or If-Unmodified-Since: only an origin server evaluates them (RFC 9111 4.3.2).
    Precondition,
    /// The key is too long.
    Key,
    /// The request says no-store (RFC 9111 5.2.1.5).
    RequestNoStore,
    /// The answer to a HEAD has no content to store.
    Head,
    /// A status that is never stored: interim, 206, 304, or not understood (RFC 9111 3).
    Status,
    /// Content-Range: a part is not the whole (RFC 9111 3.3).
    Partial,
    /// no-store (RFC 9111 5.2.2.5).
    NoStore,
    /// private (RFC 9111 5.2.2.7).
    Private,
    /// The request was authenticated and nothing allows to share the answer (RFC 9111 3.5).
    Authorization,
    /// It sets a cookie.
    SetCookie,
    /// Nothing says how long it is fresh.
    NoLifetime,
    /// It was stale when it came, and has no validator.
    Stale,
    /// The policy's ceiling for its status is 0.
    Ceiling,
    /// Vary: * (RFC 9111 4.1).
    VaryAny,
    /// It varies by more fields than are compared.
    VaryFields,
    /// It varies by Accept-Encoding and has a coding that cannot be undone here.
    Coding,
    /// More tags and groups than are kept.
    Tags,
    /// Its head is too long.
    HeadLength,
    /// Its content is too long.
    ContentLength,
    /// It was cut off, or the run failed.
    Failed,
    /// The URL has as many variants as may be kept.
    Variants,
    /// The client does not accept its encoding, and decoded it is longer than `max_decoded`.
    DecodedSize,
    /// The client does not accept its encoding, and no memory is left for decoding.
    DecodingFull,
}

impl UncachedReason {
    pub const ALL: [UncachedReason; 26] = [
        UncachedReason::Method,
        UncachedReason::Content,
        UncachedReason::Upgrade,
        UncachedReason::Precondition,
        UncachedReason::Key,
        UncachedReason::RequestNoStore,
        UncachedReason::Head,
        UncachedReason::Status,
        UncachedReason::Partial,
        UncachedReason::NoStore,
        UncachedReason::Private,
        UncachedReason::Authorization,
        UncachedReason::SetCookie,
        UncachedReason::NoLifetime,
        UncachedReason::Stale,
        UncachedReason::Ceiling,
        UncachedReason::VaryAny,
        UncachedReason::VaryFields,
        UncachedReason::Coding,
        UncachedReason::Tags,
        UncachedReason::HeadLength,
        UncachedReason::ContentLength,
        UncachedReason::Failed,
        UncachedReason::Variants,
        UncachedReason::DecodedSize,
        UncachedReason::DecodingFull,
    ];

    /// A token for metrics and the `detail` of Cache-Status.
    pub const fn slug(self) -> &'static str {
        match self {
            UncachedReason::Method => "method",
            UncachedReason::Content => "content",
            UncachedReason::Upgrade => "upgrade",
            UncachedReason::Precondition => "precondition",
            UncachedReason::Key => "key_too_long",
            UncachedReason::RequestNoStore => "request_no_store",
            UncachedReason::Head => "head",
            UncachedReason::Status => "status",
            UncachedReason::Partial => "partial",
            UncachedReason::NoStore => "no_store",
            UncachedReason::Private => "private",
            UncachedReason::Authorization => "authorization",
            UncachedReason::SetCookie => "set_cookie",
            UncachedReason::NoLifetime => "no_lifetime",
            UncachedReason::Stale => "stale",
            UncachedReason::Ceiling => "ceiling",
            UncachedReason::VaryAny => "vary_any",
            UncachedReason::VaryFields => "vary_fields",
            UncachedReason::Coding => "coding",
            UncachedReason::Tags => "too_many_tags",
            UncachedReason::HeadLength => "head_too_long",
            UncachedReason::ContentLength => "content_too_long",
            UncachedReason::Failed => "failed",
            UncachedReason::Variants => "too_many_variants",
            UncachedReason::DecodedSize => "decoded_size",
            UncachedReason::DecodingFull => "decoding_full",
        }
    }

    /// What Cache-Status says of a request that was passed for this reason (RFC 9211 2.2).
    pub const fn forward(self) -> Forward {
        match self {
            UncachedReason::Method => Forward::Method,
            UncachedReason::Content
            | UncachedReason::Precondition
            | UncachedReason::RequestNoStore => Forward::Request,
            _ => Forward::Bypass,
        }
    }
}

/// Why a request went to the origin (RFC 9211 2.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Forward {
    /// The cache was configured not to handle it.
    Bypass,
    /// The method's semantics require it.
    Method,
    /// Nothing is stored for the URL.
    UriMiss,
    /// Something is stored for the URL, but not for these header fields.
    VaryMiss,
    /// Nothing is stored that could be used.
    Miss,
    /// What is stored is fresh, but the request did not allow to use it.
    Request,
    /// What is stored is stale.
    Stale,
    /// Only parts are stored.
    Partial,
}

impl Forward {
    pub const ALL: [Forward; 8] = [
        Forward::Bypass,
        Forward::Method,
        Forward::UriMiss,
        Forward::VaryMiss,
        Forward::Miss,
        Forward::Request,
        Forward::Stale,
        Forward::Partial,
    ];

    /// The token of Cache-Status's `fwd`.
    pub const fn token(self) -> &'static str {
        match self {
            Forward::Bypass => "bypass",
            Forward::Method => "method",
            Forward::UriMiss => "uri-miss",
            Forward::VaryMiss => "vary-miss",
            Forward::Miss => "miss",
            Forward::Request => "request",
            Forward::Stale => "stale",
            Forward::Partial => "partial",
        }
    }
}
