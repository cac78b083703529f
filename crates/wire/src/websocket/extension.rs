//! The permessage-deflate extension (RFC 7692), negotiated by a server.
//!
//! Context takeover, where messages refer to earlier ones, needs a compressor for each connection:
//! the caller decides, and the client may exclude it. An offer that cannot be met in full is
//! declined (7.1); nothing is accepted that was not offered.

use std::ops::RangeInclusive;

use crate::token;

/// Windows that an offer may specify, as a power of two (RFC 7692 7.1.2).
const WINDOW_BITS: RangeInclusive<u8> = 8..=15;

/// The negotiated parameters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PerMessageDeflate {
    /// The largest window the server may use, if the client has set a bound.
    pub server_window_bits: Option<u8>,
    /// Messages of the server may refer to its earlier ones.
    pub server_takeover: bool,
    /// Messages of the client may refer to its earlier ones.
    pub client_takeover: bool,
}

impl PerMessageDeflate {
    /// Returns the first offer of Sec-WebSocket-Extensions that can be met, with windows of
    /// `possible` bits, and with context takeover unless the client excludes it.
    pub fn choose(offers: &[u8], possible: &RangeInclusive<u8>) -> Option<PerMessageDeflate> {
        token::list(offers).find_map(|offer| read(offer, possible))
    }

    /// The same without context takeover, which a server may always exclude (7.1.1).
    pub fn without_takeover(self) -> PerMessageDeflate {
        PerMessageDeflate { server_takeover: false, client_takeover: false, ..self }
    }

    /// The value of Sec-WebSocket-Extensions in the response.
    pub fn answer(self) -> String {
        let mut answer = String::from("permessage-deflate");
        if !self.server_takeover {
            answer.push_str("; server_no_context_takeover");
        }
        if !self.client_takeover {
            answer.push_str("; client_no_context_takeover");
        }
        if let Some(bits) = self.server_window_bits {
            answer.push_str(&format!("; server_max_window_bits={bits}"));
        }
        answer
    }
}

fn read(offer: &[u8], possible: &RangeInclusive<u8>) -> Option<PerMessageDeflate> {
    const PARAMETERS: [&[u8]; 4] = [
        b"server_no_context_takeover",
        b"client_no_context_takeover",
        b"server_max_window_bits",
        b"client_max_window_bits",
    ];
    let mut parts = token::split(offer, b';');
    if !parts.next()?.eq_ignore_ascii_case(b"permessage-deflate") {
        return None;
    }
    let mut agreed = PerMessageDeflate {
        server_window_bits: None,
        server_takeover: true,
        client_takeover: true,
    };
    let mut seen = [false; PARAMETERS.len()];
    for part in parts {
        let mut halves = part.splitn(2, |byte| *byte == b'=');
        let (name, value) = (token::trim(halves.next()?), halves.next().map(token::trim));
        let which = PARAMETERS.iter().position(|known| name.eq_ignore_ascii_case(known))?;
        if std::mem::replace(&mut seen[which], true) {
            return None;
        }
        match (which, value) {
            (0, None) => agreed.server_takeover = false,
            (1, None) => agreed.client_takeover = false,
            (3, None) => {}
            (2, Some(value)) => {
                agreed.server_window_bits = Some(bits(value).filter(|n| possible.contains(n))?);
            }
            // The size of the client's window does not matter to the receiver.
            (3, Some(value)) => {
                bits(value)?;
            }
            _ => return None,
        }
    }
    Some(agreed)
}

fn bits(value: &[u8]) -> Option<u8> {
    let unquoted = value.strip_prefix(b"\"").and_then(|value| value.strip_suffix(b"\""));
    let value = unquoted.unwrap_or(value);
    if value.first() == Some(&b'0') {
        return None;
    }
    u8::try_from(token::decimal(value)?).ok().filter(|bits| WINDOW_BITS.contains(bits))
}

#[cfg(test)]
mod tests {
    use super::PerMessageDeflate;

    fn choose(offers: &str) -> Option<Option<u8>> {
        let chosen = PerMessageDeflate::choose(offers.as_bytes(), &(9..=15));
        chosen.map(|chosen| chosen.server_window_bits)
    }

    #[test]
    fn the_first_offer_that_can_be_met_is_accepted() {
        for (offers, chosen) in [
            ("permessage-deflate", Some(None)),
            ("x-else, Permessage-Deflate; client_max_window_bits", Some(None)),
            (
                "permessage-deflate; client_max_window_bits=8; server_no_context_takeover",
                Some(None),
            ),
            ("permessage-deflate; server_max_window_bits=10", Some(Some(10))),
            ("permessage-deflate; server_max_window_bits=\"10\"", Some(Some(10))),
            ("permessage-deflate; server_max_window_bits=8, permessage-deflate", Some(None)),
            ("permessage-deflate; server_max_window_bits=8", None),
            ("permessage-deflate; server_max_window_bits=16", None),
            ("permessage-deflate; server_max_window_bits=09", None),
            ("permessage-deflate; server_max_window_bits", None),
            ("permessage-deflate; client_max_window_bits=99", None),
            ("permessage-deflate; server_no_context_takeover=1", None),
            ("permessage-deflate; client_no_context_takeover; client_no_context_takeover", None),
            ("permessage-deflate; surprise", None),
            ("permessage-deflate-bzip2", None),
            ("", None),
        ] {
            assert_eq!(choose(offers), chosen, "{offers}");
        }
        for (offer, answer) in [
            ("permessage-deflate", "permessage-deflate"),
            (
                "permessage-deflate; server_no_context_takeover; server_max_window_bits=10",
                "permessage-deflate; server_no_context_takeover; server_max_window_bits=10",
            ),
            (
                "permessage-deflate; client_no_context_takeover",
                "permessage-deflate; client_no_context_takeover",
            ),
        ] {
            let chosen = PerMessageDeflate::choose(offer.as_bytes(), &(9..=15)).unwrap();
            assert_eq!(chosen.answer(), answer);
            assert_eq!(
                chosen.without_takeover().answer().matches("no_context_takeover").count(),
                2,
                "{offer}"
            );
        }
    }
}
