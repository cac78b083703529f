//! Known field names: header and trailer fields as one byte.
//!
//! Owns the list of names, their canonical spelling, and which of them are hop-by-hop or forbidden
//! in a trailer section. Lookup is case-insensitive (RFC 9110 5.1), allocates nothing and compares
//! with one candidate. An unknown name is not an error here: it is `None`.

macro_rules! known {
    ($($variant:ident = $text:literal,)*) => {
        /// A field name with a number.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        #[repr(u8)]
        pub enum Known { $($variant,)* }

        impl Known {
            /// Every known name, in the order of its number.
            pub const ALL: &'static [Known] = &[$(Known::$variant,)*];
            /// Number of known names: the size of a table indexed by `index()`.
            pub const COUNT: usize = Self::ALL.len();
        }

        const TEXT: [&str; Known::COUNT] = [$($text,)*];
    };
}

known! {
    // The fields that frame a message come first, so that one comparison distinguishes them.
    Connection = "Connection",
    ContentLength = "Content-Length",
    Expect = "Expect",
    Host = "Host",
    TransferEncoding = "Transfer-Encoding",
    Upgrade = "Upgrade",
    // Then the fields in which a proxy describes the client and its request. `is_forwarding` relies
    // on the first and the last of them.
    Forwarded = "Forwarded",
    CfConnectingIp = "CF-Connecting-IP",
    CfConnectingIpv6 = "CF-Connecting-IPv6",
    CfPseudoIpv4 = "CF-Pseudo-IPv4",
    CfVisitor = "CF-Visitor",
    ClientCert = "Client-Cert",
    ClientCertChain = "Client-Cert-Chain",
    ClientIp = "Client-IP",
    FastlyClientIp = "Fastly-Client-IP",
    FastlySsl = "Fastly-SSL",
    FlyClientIp = "Fly-Client-IP",
    FrontEndHttps = "Front-End-Https",
    PathInfo = "Path-Info",
    Proxy = "Proxy",
    ProxyClientIp = "Proxy-Client-IP",
    ScriptName = "Script-Name",
    TrueClientIp = "True-Client-IP",
    WlProxyClientIp = "WL-Proxy-Client-IP",
    WlProxySsl = "WL-Proxy-SSL",
    XArrSsl = "X-ARR-SSL",
    XAzureClientIp = "X-Azure-ClientIP",
    XAzureSocketIp = "X-Azure-SocketIP",
    XClientIp = "X-Client-IP",
    XClusterClientIp = "X-Cluster-Client-IP",
    XEnvoyExternalAddress = "X-Envoy-External-Address",
    XEnvoyInternal = "X-Envoy-Internal",
    XEnvoyOriginalHost = "X-Envoy-Original-Host",
    XEnvoyOriginalPath = "X-Envoy-Original-Path",
    // Every other name that begins with `X-Forwarded-` belongs here too: see `alias`.
    XForwardedBy = "X-Forwarded-By",
    XForwardedFor = "X-Forwarded-For",
    XForwardedHost = "X-Forwarded-Host",
    XForwardedPort = "X-Forwarded-Port",
    XForwardedProto = "X-Forwarded-Proto",
    XOriginalFor = "X-Original-For",
    XOriginalForwardedFor = "X-Original-Forwarded-For",
    XOriginalHost = "X-Original-Host",
    XOriginalProto = "X-Original-Proto",
    XOriginalUri = "X-Original-URI",
    XOriginalUrl = "X-Original-URL",
    XProxyuserIp = "X-ProxyUser-IP",
    XRealIp = "X-Real-IP",
    XRealPort = "X-Real-Port",
    XRewriteUrl = "X-Rewrite-URL",
    XScheme = "X-Scheme",
    XScriptName = "X-Script-Name",
    XUrlScheme = "X-Url-Scheme",
    // The others in alphabetical order.
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
    CacheGroupInvalidation = "Cache-Group-Invalidation",
    CacheGroups = "Cache-Groups",
    CacheStatus = "Cache-Status",
    CacheTag = "Cache-Tag",
    CdnCacheControl = "CDN-Cache-Control",
    ClearSiteData = "Clear-Site-Data",
    ContentDigest = "Content-Digest",
    ContentDisposition = "Content-Disposition",
    ContentEncoding = "Content-Encoding",
    ContentLanguage = "Content-Language",
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
    Expires = "Expires",
    From = "From",
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
    NoVarySearch = "No-Vary-Search",
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
    TidegateCacheControl = "Tidegate-Cache-Control",
    TimingAllowOrigin = "Timing-Allow-Origin",
    Traceparent = "Traceparent",
    Tracestate = "Tracestate",
    Trailer = "Trailer",
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
    XFrameOptions = "X-Frame-Options",
    XPoweredBy = "X-Powered-By",
    XRequestId = "X-Request-ID",
    XRequestedWith = "X-Requested-With",
    XRobotsTag = "X-Robots-Tag",
    XXssProtection = "X-XSS-Protection",
}

const SLOT_BITS: u32 = 10;
// Found by trying: with it no two of the names above share a slot. `SLOTS` fails to compile if two
// do; after adding a name, try other odd numbers here.
const MULTIPLIER: u64 = 0x7bb6_ef0f_14c8_c0c1;
static SLOTS: [Option<Known>; 1 << SLOT_BITS] = slots();

/// The patterns that names are compared with.
static PATTERNS: [Pattern; Known::COUNT] = patterns();

/// The case bit of every letter in a word.
const CASE: u64 = 0x2020_2020_2020_2020;

/// The first and the last bytes of a name as words, which overlap in names shorter than two words:
/// all of a name of up to sixteen bytes.
#[derive(Clone, Copy)]
struct EdgeWords {
    first: u64,
    last: u64,
    len: usize,
}

impl EdgeWords {
    /// Returns `None` for names too short to be known.
    #[inline(always)]
    const fn of(name: &[u8]) -> Option<EdgeWords> {
        let len = name.len();
        if let (Some(first), Some(last)) = (name.first_chunk(), name.last_chunk()) {
            let (first, last) = (u64::from_le_bytes(*first), u64::from_le_bytes(*last));
            return Some(EdgeWords { first, last, len });
        }
        if let (Some(first), Some(last)) = (name.first_chunk(), name.last_chunk()) {
            let (first, last) = (u32::from_le_bytes(*first), u32::from_le_bytes(*last));
            return Some(EdgeWords { first: first as u64, last: last as u64, len });
        }
        if let (Some(first), Some(last)) = (name.first_chunk(), name.last_chunk()) {
            let (first, last) = (u16::from_le_bytes(*first), u16::from_le_bytes(*last));
            return Some(EdgeWords { first: first as u64, last: last as u64, len });
        }
        None
    }

    /// The slot of a name with these ends. Whole bytes are rotated, so that the case of letters
    /// stays in the bits of `CASE`.
    #[inline(always)]
    const fn slot(self) -> usize {
        let key = (self.first ^ self.last.rotate_left(24)) | CASE;
        let mixed = key.wrapping_add(self.len as u64).wrapping_mul(MULTIPLIER);
        (mixed >> (64 - SLOT_BITS)) as usize
    }
}

/// The ends of a known name in lower case, and the case bits of the letters in them.
#[derive(Clone, Copy)]
struct Pattern {
    lower: EdgeWords,
    first_case: u64,
    last_case: u64,
}

impl Pattern {
    /// True if these are the ends of the name, in any case. Bytes other than letters must be equal
    /// in all bits.
    #[inline(always)]
    fn fits(&self, ends: EdgeWords) -> bool {
        let first = (ends.first | self.first_case) ^ self.lower.first;
        let last = (ends.last | self.last_case) ^ self.lower.last;
        first | last | (ends.len ^ self.lower.len) as u64 == 0
    }
}

const fn patterns() -> [Pattern; Known::COUNT] {
    let empty = EdgeWords { first: 0, last: 0, len: 0 };
    let mut table = [Pattern { lower: empty, first_case: 0, last_case: 0 }; Known::COUNT];
    let mut i = 0;
    while i < TEXT.len() {
        let mut text = [0; 64];
        let name = text.split_at_mut(TEXT[i].len()).0;
        name.copy_from_slice(TEXT[i].as_bytes());
        name.make_ascii_lowercase();
        let mut at = 0;
        while at < name.len() {
            assert!(matches!(name[at], b'a'..=b'z' | b'0'..=b'9' | b'-'), "see `letters`");
            at += 1;
        }
        match EdgeWords::of(name) {
            Some(lower) => {
                let (first_case, last_case) = (letters(lower.first), letters(lower.last));
                table[i] = Pattern { lower, first_case, last_case };
            }
            None => panic!("a known name has at least two bytes"),
        }
        i += 1;
    }
    table
}

/// The case bits of the letters among bytes of known names in lower case: the bit above
/// distinguishes letters from digits and hyphens.
const fn letters(word: u64) -> u64 {
    (word & (CASE << 1)) >> 1
}

const fn slots() -> [Option<Known>; 1 << SLOT_BITS] {
    let mut table = [None; 1 << SLOT_BITS];
    let patterns = patterns();
    let mut i = 0;
    while i < patterns.len() {
        let slot = patterns[i].lower.slot();
        assert!(table[slot].is_none(), "two known names share a slot: choose another MULTIPLIER");
        table[slot] = Some(Known::ALL[i]);
        i += 1;
    }
    table
}

impl Known {
    /// Returns the known name with this spelling in any case.
    #[inline]
    pub fn from_bytes(name: &[u8]) -> Option<Known> {
        let ends = EdgeWords::of(name)?;
        let candidate = SLOTS[ends.slot()]?;
        let same = PATTERNS[candidate.index()].fits(ends)
            && (name.len() <= 16 || name.eq_ignore_ascii_case(candidate.as_str().as_bytes()));
        same.then_some(candidate)
    }

    /// The canonical spelling, as registered: `Content-Type`.
    #[inline]
    pub fn as_str(self) -> &'static str {
        TEXT[self as usize]
    }

    /// The number of the name, below `COUNT`.
    #[inline]
    pub fn index(self) -> usize {
        self as usize
    }

    /// True if the field is hop-by-hop and never forwarded (RFC 9110 7.6.1), in addition to fields
    /// named by `Connection`. `TE` is included: an intermediary generates its own. So is `Trailer`,
    /// which is forwarded only where trailers are.
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

    /// True if the field decides where a message ends or what happens to its connection: the
    /// hop-by-hop fields, Content-Length, Host and Expect.
    #[inline]
    pub fn is_framing(self) -> bool {
        self.is_hop_by_hop() || matches!(self, Known::ContentLength | Known::Expect | Known::Host)
    }

    /// True if the field is a proxy's statement about the client or about the request as the client
    /// sent it. Applications trust such fields, so they count only from `trusted_proxies`.
    #[inline]
    pub fn is_forwarding(self) -> bool {
        (Known::Forwarded..=Known::XUrlScheme).contains(&self)
    }

    /// True if the field states the client's address: different for every client.
    pub fn is_client_address(self) -> bool {
        matches!(
            self,
            Known::Forwarded
                | Known::CfConnectingIp
                | Known::CfConnectingIpv6
                | Known::CfPseudoIpv4
                | Known::ClientIp
                | Known::FastlyClientIp
                | Known::FlyClientIp
                | Known::ProxyClientIp
                | Known::TrueClientIp
                | Known::WlProxyClientIp
                | Known::XAzureClientIp
                | Known::XAzureSocketIp
                | Known::XClientIp
                | Known::XClusterClientIp
                | Known::XEnvoyExternalAddress
                | Known::XForwardedBy
                | Known::XForwardedFor
                | Known::XOriginalFor
                | Known::XOriginalForwardedFor
                | Known::XProxyuserIp
                | Known::XRealIp
                | Known::XRealPort
        )
    }

    /// True if a trailer section must not carry the field, because framing, routing,
    /// authentication, request modifiers, response control or content format depend on it (RFC 9110
    /// 6.5.1).
    pub fn is_forbidden_in_trailers(self) -> bool {
        self.is_framing()
            || self.is_forwarding()
            || matches!(
                self,
                Known::ContentEncoding
                    | Known::ContentType
                    | Known::ContentRange
                    | Known::ContentLocation
                    | Known::ContentLanguage
                    | Known::ContentDisposition
                    | Known::MaxForwards
                    | Known::Via
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
    fn every_name_is_found_in_every_case_and_similar_names_are_not() {
        for &known in Known::ALL {
            let name = known.as_str();
            assert_eq!(Known::from_bytes(name.as_bytes()), Some(known));
            assert_eq!(Known::from_bytes(name.to_ascii_lowercase().as_bytes()), Some(known));
            assert_eq!(Known::from_bytes(name.to_ascii_uppercase().as_bytes()), Some(known));
            for at in 0..name.len() {
                let mut near = name.as_bytes().to_vec();
                for byte in 0..=255u8 {
                    near[at] = byte;
                    let same = near.eq_ignore_ascii_case(name.as_bytes());
                    let found = Known::from_bytes(&near);
                    assert!(found != Some(known) || same, "{name} with {byte:#x} at {at}");
                    assert!(found.is_none_or(|found| found.as_str().len() == near.len()));
                }
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
