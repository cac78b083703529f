//! Why a response did not come from the cache, or was not stored.

/// Why a request is forwarded without the cache, or its response is not stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum UncachedReason {
    /// Neither GET nor HEAD.
    Method,
    /// A GET or HEAD with content, whose meaning is undefined (RFC 9110 9.3.1).
    Content,
    /// The request upgrades to another protocol.
    Upgrade,
    /// If-Match or If-Unmodified-Since: only an origin server evaluates them (RFC 9111 4.3.2).
    Precondition,
    /// The key is too long.
    Key,
    /// The request has no-store (RFC 9111 5.2.1.5).
    RequestNoStore,
    /// The response to a HEAD has no content to store.
    Head,
    /// A status that is never stored: interim, 206, 304, or unknown (RFC 9111 3).
    Status,
    /// Partial content (RFC 9111 3.3).
    Partial,
    /// no-store (RFC 9111 5.2.2.5).
    NoStore,
    /// private (RFC 9111 5.2.2.7).
    Private,
    /// The request was authenticated and the response does not allow sharing (RFC 9111 3.5).
    Authorization,
    /// The response sets a cookie.
    SetCookie,
    /// The response has no lifetime.
    NoLifetime,
    /// The response was stale when it arrived, and has no validator.
    Stale,
    /// The policy's maximum lifetime for the status is 0.
    Ceiling,
    /// Vary: * (RFC 9111 4.1).
    VaryAny,
    /// The response varies by too many fields.
    VaryFields,
    /// The response varies by Accept-Encoding and has a coding that cannot be decoded here.
    Coding,
    /// The response has too many tags and groups.
    Tags,
    /// The response head is too long.
    HeadLength,
    /// The content is too long.
    ContentLength,
    /// The response was cut off, or the fetch failed.
    Failed,
    /// The URL has too many variants.
    Variants,
    /// The client does not accept the coding, and decoded the response is longer than
    /// `max_decoded`.
    DecodedSize,
    /// The client does not accept the coding, and no memory is left for decoding.
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

    /// The name in metrics and in the `detail` of Cache-Status.
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

    /// The `fwd` of Cache-Status for a request that was forwarded for this reason (RFC 9211 2.2).
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

/// Why a request was forwarded to the origin (RFC 9211 2.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Forward {
    /// The cache was configured not to handle the request.
    Bypass,
    /// The method's semantics require it.
    Method,
    /// No response is stored for the URL.
    UriMiss,
    /// A response is stored for the URL, but not for these header fields.
    VaryMiss,
    /// No stored response can be used.
    Miss,
    /// The stored response is fresh, but the request did not allow its use.
    Request,
    /// The stored response is stale.
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

    /// The token in Cache-Status.
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
