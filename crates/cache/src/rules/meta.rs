//! What is remembered of a stored response for the rules: small, because a million of them are
//! kept.

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
    /// How long it may be served stale while it is fetched anew (RFC 5861 3, or the policy).
    pub while_revalidate_s: u32,
    /// How long it may be served stale when the origin fails (RFC 5861 4, or the policy).
    pub if_error_s: u32,
}

/// What the response said of its use.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Flags(u8);

impl Flags {
    /// Stale it is never served: must-revalidate, proxy-revalidate or s-maxage (RFC 9111 5.2.2.2,
    /// 5.2.2.8, 5.2.2.10).
    pub const MUST_REVALIDATE: Flags = Flags(1);
    /// Never without asking: no-cache (RFC 9111 5.2.2.4).
    pub const NO_CACHE: Flags = Flags(2);
    /// Not transformed: no-transform (RFC 9111 5.2.2.6).
    pub const NO_TRANSFORM: Flags = Flags(4);
    /// Not asked for again while fresh: immutable (RFC 8246).
    pub const IMMUTABLE: Flags = Flags(8);
    /// The lifetime is a guess (RFC 9111 4.2.2).
    pub const HEURISTIC: Flags = Flags(16);
    /// It has a validator: an ETag or a Last-Modified.
    pub const VALIDATOR: Flags = Flags(32);
    /// Other codings of it may be made: its route codes what is of its type, and nobody forbids it.
    pub const CODABLE: Flags = Flags(64);

    /// As a byte that is kept: see [`Flags::from_bits`].
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

/// Which request fields a response was chosen by (RFC 9111 4.1), in lower case, sorted, without
/// Accept-Encoding where we derive codings ourselves.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Vary {
    pub fields: Box<[Box<[u8]>]>,
}

/// What No-Vary-Search says (buffer-ietf-httpbis-no-vary-search).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SearchRule {
    /// Whether the order of parameters does not matter.
    pub key_order: bool,
    /// Parameters that do not matter; with `all` set, those that do. Decoded.
    pub params: Box<[Box<[u8]>]>,
    /// Whether none is_significant but `params`.
    pub all: bool,
}
