//! Content codings (gzip, br, zstd) and the DEFLATE of single messages.
//!
//! Owns the names of the codings and the streams that encode and decode them, whole or piece by
//! piece. Guarantees bounded memory per stream, that a flush makes everything so far decodable at
//! the receiver, and that decoding stops at a limit. Never negotiates (that is `wire`), does no
//! I/O, and does not decide what is worth compressing.

mod decoder;
mod deflate;
mod encoder;
pub mod limits;
mod messages;

pub use decoder::{Decode, DecodeError, Decoder, Step, decode_all};
pub use deflate::decode_deflate;
pub use encoder::{EncodeError, Encoder, encode_all};
pub use messages::{DEFLATE_WINDOW_BITS, Deflater, Inflater};

use std::ops::RangeInclusive;

/// A supported content coding (RFC 9110 section 8.4.1, RFC 7932, RFC 8878).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Coding {
    Gzip,
    Br,
    Zstd,
}

impl Coding {
    pub const ALL: [Coding; 3] = [Self::Gzip, Self::Br, Self::Zstd];

    /// The name in Content-Encoding and Accept-Encoding.
    pub const fn token(self) -> &'static str {
        match self {
            Self::Gzip => "gzip",
            Self::Br => "br",
            Self::Zstd => "zstd",
        }
    }

    /// The usual extension of a file with this coding.
    pub const fn extension(self) -> &'static str {
        match self {
            Self::Gzip => "gz",
            Self::Br => "br",
            Self::Zstd => "zst",
        }
    }

    /// Parses a name: case-insensitive, and `x-gzip` means gzip (RFC 9110 section 8.4.1.3).
    pub fn parse(token: &str) -> Option<Self> {
        if token.eq_ignore_ascii_case("x-gzip") {
            return Some(Self::Gzip);
        }
        Self::ALL.into_iter().find(|coding| token.eq_ignore_ascii_case(coding.token()))
    }

    /// The levels that are useful for dynamic responses.
    pub const fn levels(self) -> RangeInclusive<u32> {
        match self {
            Self::Gzip => 1..=9,
            Self::Br => 0..=11,
            Self::Zstd => 1..=19,
        }
    }

    /// The level for dynamic responses: most of the gain for little time.
    pub const fn default_level(self) -> u32 {
        match self {
            Self::Gzip => 5,
            Self::Br => 4,
            Self::Zstd => 3,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Coding;

    #[test]
    fn tokens_parse_back() {
        for coding in Coding::ALL {
            assert_eq!(Coding::parse(coding.token()), Some(coding));
            assert_eq!(Coding::parse(&coding.token().to_uppercase()), Some(coding));
            assert!(coding.levels().contains(&coding.default_level()));
        }
        assert_eq!(Coding::parse("X-Gzip"), Some(Coding::Gzip));
        assert_eq!(Coding::parse("deflate"), None);
        assert_eq!(Coding::parse(""), None);
    }
}
