//! Proactive negotiation (RFC 9110 12): Accept-Encoding and Accept against the server's offers.
//!
//! Owns q-values and the rules of precedence. The client's weights take precedence over the
//! server's order. A member that cannot be parsed is ignored. Never allocates.

use crate::token;

/// A weight in thousandths: 0 excludes, 1000 is the default.
type Weight = u16;
const FULL: Weight = 1000;

/// The coding to send, out of the offered ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Coding {
    /// The offered coding with this index.
    Offered(usize),
    /// No content coding.
    Identity,
    /// The client accepts neither an offered coding nor identity: 406, or identity all the same
    /// (RFC 9110 12.5.3 allows both).
    NotAcceptable,
}

/// Chooses among `offered` codings, in the server's order of preference, for this Accept-Encoding.
/// Without the field, identity is chosen: the client requested nothing else.
pub fn choose_coding(accept_encoding: Option<&[u8]>, offered: &[&str]) -> Coding {
    let Some(value) = accept_encoding else {
        return Coding::Identity;
    };
    let any = coding_weight(value, "*");
    let mut best: Option<(usize, Weight)> = None;
    for (index, coding) in offered.iter().enumerate() {
        let weight = coding_weight(value, coding).or(any).unwrap_or(0);
        if weight > best.map_or(0, |(_, weight)| weight) {
            best = Some((index, weight));
        }
    }
    // Unlisted, identity is acceptable as a last resort; listed, it competes.
    let identity = coding_weight(value, "identity").or(any);
    match (best, identity) {
        (Some((_, weight)), Some(plain)) if plain > weight => Coding::Identity,
        (Some((index, _)), _) => Coding::Offered(index),
        (None, Some(0)) => Coding::NotAcceptable,
        (None, _) => Coding::Identity,
    }
}

/// True if the client accepts a coding, with any weight. Without the field it has not declared so.
pub fn accepts_coding(accept_encoding: Option<&[u8]>, coding: &str) -> bool {
    accept_encoding.is_some_and(|value| {
        coding_weight(value, coding).or_else(|| coding_weight(value, "*")).unwrap_or(0) > 0
    })
}

/// The weight of a coding listed in the value; `x-gzip` is `gzip` (RFC 9110 8.4.1.3).
fn coding_weight(value: &[u8], coding: &str) -> Option<Weight> {
    token::list(value).find_map(|member| {
        let (name, weight) = weighted(member)?;
        let same = name.eq_ignore_ascii_case(coding.as_bytes())
            || (coding == "gzip" && name.eq_ignore_ascii_case(b"x-gzip"));
        same.then_some(weight)
    })
}

/// Chooses among `offered` media types (`type/subtype`), in the server's order of preference.
/// Without the field the first; `None` if the client accepts none of them.
pub fn choose_media_type(accept: Option<&[u8]>, offered: &[&str]) -> Option<usize> {
    let Some(value) = accept else {
        return (!offered.is_empty()).then_some(0);
    };
    let mut best: Option<(usize, Weight)> = None;
    for (index, media_type) in offered.iter().enumerate() {
        let weight = media_weight(value, media_type.as_bytes());
        if weight > best.map_or(0, |(_, weight)| weight) {
            best = Some((index, weight));
        }
    }
    best.map(|(index, _)| index)
}

/// The weight of the most specific range that matches (RFC 9110 12.5.1). Parameters of a range are
/// not compared: offered types have none.
fn media_weight(accept: &[u8], media_type: &[u8]) -> Weight {
    let mut found: (u8, Weight) = (0, 0);
    for member in token::list(accept) {
        let Some((range, weight)) = weighted(member) else {
            continue;
        };
        let specificity = match_media(range, media_type);
        if specificity > found.0 {
            found = (specificity, weight);
        }
    }
    found.1
}

/// 3 the type itself, 2 `type/*`, 1 `*/*`, 0 no match.
fn match_media(range: &[u8], media_type: &[u8]) -> u8 {
    if range == b"*/*" {
        return 1;
    }
    if range.eq_ignore_ascii_case(media_type) {
        return 3;
    }
    let slash = media_type.iter().position(|&b| b == b'/').unwrap_or(media_type.len());
    match range.strip_suffix(b"/*") {
        Some(kind) if kind.eq_ignore_ascii_case(&media_type[..slash]) => 2,
        _ => 0,
    }
}

/// Splits `name [;parameter…] [;q=weight]` into name and weight in thousandths; `None` if the
/// weight is invalid.
pub fn weighted(member: &[u8]) -> Option<(&[u8], u16)> {
    let mut parts = token::split(member, b';');
    let name = parts.next()?;
    let mut weight = FULL;
    for parameter in parts {
        if let [b'q' | b'Q', b'=', value @ ..] = parameter {
            weight = qvalue(value)?;
        }
    }
    Some((name, weight))
}

/// `( "0" [ "." 0*3DIGIT ] ) / ( "1" [ "." 0*3("0") ] )` (RFC 9110 12.4.2).
fn qvalue(text: &[u8]) -> Option<Weight> {
    let (whole, decimals) = match text {
        [whole] => (*whole, &b""[..]),
        [whole, b'.', decimals @ ..] if decimals.len() <= 3 => (*whole, decimals),
        _ => return None,
    };
    if !decimals.iter().all(u8::is_ascii_digit) {
        return None;
    }
    let mut thousandths = 0;
    for place in 0..3 {
        thousandths =
            thousandths * 10 + Weight::from(decimals.get(place).map_or(0, |digit| digit - b'0'));
    }
    match (whole, thousandths) {
        (b'0', _) => Some(thousandths),
        (b'1', 0) => Some(FULL),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::{Coding, accepts_coding, choose_coding, choose_media_type, qvalue};

    #[test]
    fn a_coding_is_accepted_if_its_weight_is_not_zero() {
        for (value, taken) in [
            ("gzip", true),
            ("identity, gzip;q=0.001", true),
            ("gzip;q=0, *", false),
            ("br, *;q=0.1", true),
            ("br, *;q=0", false),
            ("", false),
        ] {
            assert_eq!(accepts_coding(Some(value.as_bytes()), "gzip"), taken, "{value}");
        }
        assert!(!accepts_coding(None, "gzip"));
    }

    #[test]
    fn codings() {
        const OFFERED: [&str; 3] = ["zstd", "br", "gzip"];
        let (zstd, br, gzip) = (Coding::Offered(0), Coding::Offered(1), Coding::Offered(2));
        let table = [
            ("gzip, deflate, br, zstd", zstd),
            ("gzip, deflate, br", br),
            ("gzip", gzip),
            ("x-gzip", gzip),
            ("GZIP;Q=0.5", gzip),
            ("gzip;q=1.0, br;q=0.9, zstd;q=0.8", gzip),
            ("gzip;q=0, br;q=0.001", br),
            ("*", zstd),
            ("zstd;q=0, *", br),
            ("*;q=0", Coding::NotAcceptable),
            ("identity;q=0", Coding::NotAcceptable),
            ("identity;q=0, gzip", gzip),
            ("*;q=0, identity", Coding::Identity),
            ("identity, gzip;q=0.5", Coding::Identity),
            ("identity;q=0.5, gzip;q=0.5", gzip),
            ("*;q=0.5", zstd),
            ("gzip;q=0", Coding::Identity),
            ("deflate", Coding::Identity),
            ("", Coding::Identity),
            ("gzip;q=2", Coding::Identity),
            ("gzip;q=", Coding::Identity),
            ("gzip ; q=0.7 , br;q=0.6", gzip),
            ("gzippy", Coding::Identity),
        ];
        for (value, expected) in table {
            assert_eq!(choose_coding(Some(value.as_bytes()), &OFFERED), expected, "{value}");
        }
        assert_eq!(choose_coding(None, &OFFERED), Coding::Identity);
    }

    #[test]
    fn media_types() {
        const OFFERED: [&str; 3] = ["application/problem+json", "text/html", "text/plain"];
        let table = [
            ("*/*", Some(0)),
            ("text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8", Some(1)),
            ("text/*", Some(1)),
            ("text/*, text/html;q=0.5", Some(2)),
            ("application/problem+json;charset=utf-8", Some(0)),
            ("application/json", None),
            ("application/*;q=0.1, */*;q=0", Some(0)),
            ("*/*;q=0", None),
            ("text/plain;q=0.9, TEXT/HTML;q=0.8", Some(2)),
            ("", None),
        ];
        for (value, expected) in table {
            assert_eq!(choose_media_type(Some(value.as_bytes()), &OFFERED), expected, "{value}");
        }
        assert_eq!(choose_media_type(None, &OFFERED), Some(0));
    }

    #[test]
    fn weights() {
        assert_eq!(qvalue(b"0.5"), Some(500));
        assert_eq!(qvalue(b"0.123"), Some(123));
        assert_eq!(qvalue(b"1."), Some(1000));
        for bad in ["", "0.1234", "1.001", "2", "-0", ".5", "0,5", "0.a"] {
            assert_eq!(qvalue(bad.as_bytes()), None, "{bad}");
        }
    }
}
