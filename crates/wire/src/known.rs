//! Known field names: the vocabulary of header and trailer fields as one byte.
//!
//! Owns the list of names, their canonical spelling, and which of them belong to one hop only or
//! may not stand in a trailer section. Look-up is case-insensitive (RFC 9110 5.1), allocates
//! nothing and compares against one candidate. An unknown name is not an error here: it is `None`.

macro_rules! known {
    ($($variant:ident = $text:literal,)*) => {
        /// A field name that Tidegate knows by number.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        #[repr(u8)]
        pub enum Known { $($variant,)* }

        impl Known {
            /// Every known name, in the order of its number.
            pub const ALL: &'static [Known] = &[$(Known::$variant,)*];
            /// How many there are: the size of a table indexed by `index()`.
            pub const COUNT: usize = Self::ALL.len();
        }

        const TEXT: [&str; Known::COUNT] = [$($text,)*];
    };
}

known! {
    Accept = "Accept",
    AcceptCh = "Accept-CH",
    AcceptCharset = "Accept-Charset",
    AcceptEncoding = "Accept-Encoding",
    AcceptLanguage = "Accept-Language",
    AcceptPatch = "Accept-Patch",
    AcceptPost = "Accept-Post",
    AcceptRanges = "Accept-Ranges",
    AccessControlAllowCredentials = "Access-Control-Allow-Credentials",
    AccessControlAllowHeaders = "Access-Control-Allow-Headers",
    AccessControlAllowMethods = "Access-Control-Allow-Methods",
    AccessControlAllowOrigin = "Access-Control-Allow-Origin",
    AccessControlExposeHeaders = "Access-Control-Expose-Headers",
    AccessControlMaxAge = "Access-Control-Max-Age",
    AccessControlRequestHeaders = "Access-Control-Request-Headers",
    AccessControlRequestMethod = "Access-Control-Request-Method",
    Age = "Age",
    Allow = "Allow",
    AltSvc = "Alt-Svc",
    AltUsed = "Alt-Used",
    AuthenticationInfo = "Authentication-Info",
    Authorization = "Authorization",
    CacheControl = "Cache-Control",
    CacheStatus = "Cache-Status",
    CacheTag = "Cache-Tag",
    CdnCacheControl = "CDN-Cache-Control",
    ClearSiteData = "Clear-Site-Data",
    Connection = "Connection",
    ContentDigest = "Content-Digest",
    ContentDisposition = "Content-Disposition",
    ContentEncoding = "Content-Encoding",
    ContentLanguage = "Content-Language",
    ContentLength = "Content-Length",
    ContentLocation = "Content-Location",
    ContentMd5 = "Content-MD5",
    ContentRange = "Content-Range",
    ContentSecurityPolicy = "Content-Security-Policy",
    ContentSecurityPolicyReportOnly = "Content-Security-Policy-Report-Only",
    ContentType = "Content-Type",
    Cookie = "Cookie",
    CrossOriginEmbedderPolicy = "Cross-Origin-Embedder-Policy",
    CrossOriginOpenerPolicy = "Cross-Origin-Opener-Policy",
    CrossOriginResourcePolicy = "Cross-Origin-Resource-Policy",
    Date = "Date",
    DeviceMemory = "Device-Memory",
    Dnt = "DNT",
    EarlyData = "Early-Data",
    Etag = "ETag",
    Expect = "Expect",
    Expires = "Expires",
    Forwarded = "Forwarded",
    From = "From",
    Host = "Host",
    Http2Settings = "HTTP2-Settings",
    IfMatch = "If-Match",
    IfModifiedSince = "If-Modified-Since",
    IfNoneMatch = "If-None-Match",
    IfRange = "If-Range",
    IfUnmodifiedSince = "If-Unmodified-Since",
    KeepAlive = "Keep-Alive",
    LastEventId = "Last-Event-ID",
    LastModified = "Last-Modified",
    Link = "Link",
    Location = "Location",
    MaxForwards = "Max-Forwards",
    Nel = "NEL",
    Origin = "Origin",
    PermissionsPolicy = "Permissions-Policy",
    Pragma = "Pragma",
    Prefer = "Prefer",
    PreferenceApplied = "Preference-Applied",
    Priority = "Priority",
    ProxyAuthenticate = "Proxy-Authenticate",
    ProxyAuthenticationInfo = "Proxy-Authentication-Info",
    ProxyAuthorization = "Proxy-Authorization",
    ProxyConnection = "Proxy-Connection",
    ProxyStatus = "Proxy-Status",
    Range = "Range",
    RateLimit = "RateLimit",
    RateLimitLimit = "RateLimit-Limit",
    RateLimitPolicy = "RateLimit-Policy",
    RateLimitRemaining = "RateLimit-Remaining",
    RateLimitReset = "RateLimit-Reset",
    Referer = "Referer",
    ReferrerPolicy = "Referrer-Policy",
    Refresh = "Refresh",
    ReportTo = "Report-To",
    ReprDigest = "Repr-Digest",
    RetryAfter = "Retry-After",
    SaveData = "Save-Data",
    SecChUa = "Sec-CH-UA",
    SecChUaMobile = "Sec-CH-UA-Mobile",
    SecChUaPlatform = "Sec-CH-UA-Platform",
    SecFetchDest = "Sec-Fetch-Dest",
    SecFetchMode = "Sec-Fetch-Mode",
    SecFetchSite = "Sec-Fetch-Site",
    SecFetchUser = "Sec-Fetch-User",
    SecGpc = "Sec-GPC",
    SecWebSocketAccept = "Sec-WebSocket-Accept",
    SecWebSocketExtensions = "Sec-WebSocket-Extensions",
    SecWebSocketKey = "Sec-WebSocket-Key",
    SecWebSocketProtocol = "Sec-WebSocket-Protocol",
    SecWebSocketVersion = "Sec-WebSocket-Version",
    Server = "Server",
    ServerTiming = "Server-Timing",
    ServiceWorkerAllowed = "Service-Worker-Allowed",
    SetCookie = "Set-Cookie",
    SourceMap = "SourceMap",
    StrictTransportSecurity = "Strict-Transport-Security",
    SurrogateControl = "Surrogate-Control",
    SurrogateKey = "Surrogate-Key",
    Te = "TE",
    TimingAllowOrigin = "Timing-Allow-Origin",
    Traceparent = "Traceparent",
    Tracestate = "Tracestate",
    Trailer = "Trailer",
    TransferEncoding = "Transfer-Encoding",
    Upgrade = "Upgrade",
    UpgradeInsecureRequests = "Upgrade-Insecure-Requests",
    UserAgent = "User-Agent",
    Vary = "Vary",
    Via = "Via",
    WantContentDigest = "Want-Content-Digest",
    WantReprDigest = "Want-Repr-Digest",
    Warning = "Warning",
    WwwAuthenticate = "WWW-Authenticate",
    XAccelBuffering = "X-Accel-Buffering",
    XAccelRedirect = "X-Accel-Redirect",
    XApiKey = "X-API-Key",
    XCache = "X-Cache",
    XContentTypeOptions = "X-Content-Type-Options",
    XCorrelationId = "X-Correlation-ID",
    XForwardedBy = "X-Forwarded-By",
    XForwardedFor = "X-Forwarded-For",
    XForwardedHost = "X-Forwarded-Host",
    XForwardedPort = "X-Forwarded-Port",
    XForwardedProto = "X-Forwarded-Proto",
    XFrameOptions = "X-Frame-Options",
    XPoweredBy = "X-Powered-By",
    XRealIp = "X-Real-IP",
    XRequestId = "X-Request-ID",
    XRequestedWith = "X-Requested-With",
    XRobotsTag = "X-Robots-Tag",
    XXssProtection = "X-XSS-Protection",
}

const SLOT_BITS: u32 = 10;
// Found by search: no two of the names above share a slot. `SLOTS` fails to compile if one does;
// after adding a name, try other odd numbers here.
const MULTIPLIER: u32 = 0x4e87_d73b;
const LONGEST: usize = longest();
static SLOTS: [Option<Known>; 1 << SLOT_BITS] = slots();

/// The names in lower case, as clients that also speak HTTP/2 send them.
static LOWER: [[u8; LONGEST]; Known::COUNT] = lower();

const fn lower() -> [[u8; LONGEST]; Known::COUNT] {
    let mut table = [[0; LONGEST]; Known::COUNT];
    let mut i = 0;
    while i < TEXT.len() {
        let text = TEXT[i].as_bytes();
        let mut at = 0;
        while at < text.len() {
            table[i][at] = text[at].to_ascii_lowercase();
            at += 1;
        }
        i += 1;
    }
    table
}

const fn longest() -> usize {
    let (mut i, mut most) = (0, 0);
    while i < TEXT.len() {
        if TEXT[i].len() > most {
            most = TEXT[i].len();
        }
        i += 1;
    }
    most
}

const fn slots() -> [Option<Known>; 1 << SLOT_BITS] {
    let mut table = [None; 1 << SLOT_BITS];
    let mut i = 0;
    while i < TEXT.len() {
        let slot = slot_of(TEXT[i].as_bytes());
        assert!(table[slot].is_none(), "two known names share a slot: choose another MULTIPLIER");
        table[slot] = Some(Known::ALL[i]);
        i += 1;
    }
    table
}

/// First, middle and last-but-one byte without their case bit, and the length, mixed by one
/// product.
#[inline]
const fn slot_of(name: &[u8]) -> usize {
    let n = name.len();
    let key = (name[0] | 0x20) as u32
        | ((name[n - 2] | 0x20) as u32) << 8
        | ((name[n / 2] | 0x20) as u32) << 16
        | (n as u32) << 24;
    (key.wrapping_mul(MULTIPLIER) >> (32 - SLOT_BITS)) as usize
}

impl Known {
    /// The known name with this spelling in any case.
    #[inline]
    pub fn from_bytes(name: &[u8]) -> Option<Known> {
        if name.len() < 2 || name.len() > LONGEST {
            return None;
        }
        let candidate = SLOTS[slot_of(name)]?;
        let text = candidate.as_str().as_bytes();
        // Nearly all senders use one of two spellings, and comparing memory is the cheaper test.
        let same = text == name
            || LOWER[candidate.index()][..text.len()] == *name
            || text.eq_ignore_ascii_case(name);
        same.then_some(candidate)
    }

    /// The canonical spelling, as in the registry: `Content-Type`.
    #[inline]
    pub fn as_str(self) -> &'static str {
        TEXT[self as usize]
    }

    /// The number of the name, below `COUNT`.
    #[inline]
    pub fn index(self) -> usize {
        self as usize
    }

    /// Whether the field means something between two neighbours only and is never passed on (RFC
    /// 9110 7.6.1). Fields named by `Connection` come on top of these. `TE` and `Trailer` are here
    /// too: an intermediary that re-frames bodies writes its own.
    #[inline]
    pub fn is_hop_by_hop(self) -> bool {
        matches!(
            self,
            Known::Connection
                | Known::KeepAlive
                | Known::ProxyConnection
                | Known::Te
                | Known::Trailer
                | Known::TransferEncoding
                | Known::Upgrade
                | Known::Http2Settings
        )
    }

    /// Whether a trailer section may not carry the field, because framing, routing, authentication,
    /// request modifiers, response control or content format depend on it (RFC 9110 6.5.1).
    pub fn is_forbidden_in_trailers(self) -> bool {
        self.is_hop_by_hop()
            || matches!(
                self,
                Known::ContentLength
                    | Known::ContentEncoding
                    | Known::ContentType
                    | Known::ContentRange
                    | Known::ContentLocation
                    | Known::ContentLanguage
                    | Known::ContentDisposition
                    | Known::Host
                    | Known::Forwarded
                    | Known::XForwardedBy
                    | Known::XForwardedFor
                    | Known::XForwardedHost
                    | Known::XForwardedPort
                    | Known::XForwardedProto
                    | Known::XRealIp
                    | Known::MaxForwards
                    | Known::Via
                    | Known::Expect
                    | Known::Range
                    | Known::IfMatch
                    | Known::IfNoneMatch
                    | Known::IfModifiedSince
                    | Known::IfUnmodifiedSince
                    | Known::IfRange
                    | Known::Authorization
                    | Known::ProxyAuthorization
                    | Known::ProxyAuthenticate
                    | Known::WwwAuthenticate
                    | Known::Cookie
                    | Known::SetCookie
                    | Known::CacheControl
                    | Known::Pragma
                    | Known::Age
                    | Known::Date
                    | Known::Expires
                    | Known::Location
                    | Known::RetryAfter
                    | Known::Vary
                    | Known::Warning
            )
    }
}

#[cfg(test)]
mod tests {
    use super::Known;

    #[test]
    fn every_name_is_found_in_every_case_and_nothing_near_it_is() {
        for &known in Known::ALL {
            let name = known.as_str();
            assert_eq!(Known::from_bytes(name.as_bytes()), Some(known));
            assert_eq!(Known::from_bytes(name.to_ascii_lowercase().as_bytes()), Some(known));
            assert_eq!(Known::from_bytes(name.to_ascii_uppercase().as_bytes()), Some(known));
            for at in 0..name.len() {
                let mut near = name.as_bytes().to_vec();
                near[at] = b'_';
                assert_eq!(Known::from_bytes(&near), None, "{name} with _ at {at}");
            }
            assert_eq!(Known::from_bytes(format!("{name}x").as_bytes()), None);
        }
    }

    #[test]
    fn short_and_long_names_are_unknown() {
        assert_eq!(Known::from_bytes(b""), None);
        assert_eq!(Known::from_bytes(b"T"), None);
        assert_eq!(Known::from_bytes(&[b'a'; 400]), None);
    }

    #[test]
    fn one_byte_each() {
        assert_eq!(size_of::<Option<Known>>(), 1);
        for (i, known) in Known::ALL.iter().enumerate() {
            assert_eq!(known.index(), i);
        }
    }
}
