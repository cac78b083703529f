//! The facts of a stored response that the rules need: small, because millions are stored.

/// Facts of a stored response.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Meta {
    pub status: u16,
    pub flags: Flags,
    /// When the response was received or last validated, in seconds since 1970 (`response_time`,
    /// RFC 9111 4.2.3).
    pub received_secs: u64,
    /// `corrected_initial_age` (RFC 9111 4.2.3).
    pub initial_age_s: u32,
    /// `freshness_lifetime` (RFC 9111 4.2.1), after the policy's floors and ceilings.
    pub lifetime_s: u32,
    /// How long it may be served stale during a revalidation (RFC 5861 3, or the policy).
    pub while_revalidate_s: u32,
    /// How long it may be served stale when the origin fails (RFC 5861 4, or the policy).
    pub if_error_s: u32,
}

/// Flags of a stored response.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Flags(u8);

impl Flags {
    /// Never served stale: must-revalidate, proxy-revalidate or s-maxage (RFC 9111 5.2.2.2,
    /// 5.2.2.8, 5.2.2.10).
    pub const MUST_REVALIDATE: Flags = Flags(1);
    /// Revalidated before each use: no-cache (RFC 9111 5.2.2.4).
    pub const NO_CACHE: Flags = Flags(2);
    /// Not transcoded: no-transform (RFC 9111 5.2.2.6).
    pub const NO_TRANSFORM: Flags = Flags(4);
    /// Not revalidated while fresh: immutable (RFC 8246).
    pub const IMMUTABLE: Flags = Flags(8);
    /// The lifetime is heuristic (RFC 9111 4.2.2).
    pub const HEURISTIC: Flags = Flags(16);
    /// It has a validator: an ETag or a Last-Modified.
    pub const VALIDATOR: Flags = Flags(32);
    /// Other codings of it may be made: the route compresses its media type, and nothing forbids
    /// it.
    pub const CODABLE: Flags = Flags(64);

    /// The byte that is stored: see [`Flags::from_bits`].
    pub(crate) fn bits(self) -> u8 {
        self.0
    }

    pub(crate) fn from_bits(bits: u8) -> Flags {
        Flags(bits)
    }

    pub fn has(self, flag: Flags) -> bool {
        self.0 & flag.0 == flag.0
    }

    #[must_use]
    pub fn with(self, flag: Flags) -> Flags {
        Flags(self.0 | flag.0)
    }
}

/// The request fields that select a variant (RFC 9111 4.1), in lower case, sorted, without
/// Accept-Encoding where the cache transcodes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Vary {
    pub fields: Box<[Box<[u8]>]>,
}

/// The content of No-Vary-Search (draft-ietf-httpbis-no-vary-search).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SearchRule {
    /// Whether the order of parameters is ignored.
    pub key_order: bool,
    /// The ignored parameters, decoded; with `all` set, the significant ones.
    pub params: Box<[Box<[u8]>]>,
    /// Whether all parameters but `params` are ignored.
    pub all: bool,
}
