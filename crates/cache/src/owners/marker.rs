//! The fields by which servers of a fleet recognise one another: of a request to the owner of a
//! key, and of its response.
//!
//! Both are authenticated with the secret that the servers share, which is never sent. The field of
//! a request says which server asks, when, for which key and by which scheme; that of a response
//! belongs to one such request. Whatever else they say is not trusted.

use hmac::{Hmac, KeyInit, Mac};
use message::Scheme;
use sha2::{Digest, Sha256};

use crate::shared_purges::PositionDigest;

/// The field of requests.
pub(crate) const ASK: &str = "Tidegate-Ask";
/// The field of responses.
pub(crate) const OWNER: &str = "Tidegate-Owner";

/// Hexadecimal digits of a number, of a digest of a key and of a code.
const NUMBER_DIGITS: usize = 16;
const DIGEST_DIGITS: usize = 32;
/// The process, a random number, the time, the scheme and the key.
const ASK_TEXT: usize = 3 * NUMBER_DIGITS + 1 + DIGEST_DIGITS;

/// The digest of the text of a key.
pub(crate) type KeyDigest = [u8; 16];

pub(crate) fn key_digest(key: &[u8]) -> KeyDigest {
    let digest: [u8; 32] = Sha256::digest(key).into();
    first_half(&digest)
}

fn first_half(digest: &[u8; 32]) -> [u8; 16] {
    digest.first_chunk().copied().unwrap_or_default()
}

fn hex(bytes: [u8; 16]) -> String {
    format!("{:032x}", u128::from_be_bytes(bytes))
}

/// Reads a number; `None` for anything but so many digits, which have one spelling.
fn read_number(text: &str, digits: usize) -> Option<u128> {
    let is_digit = |byte: u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
    let is_number = text.len() == digits && text.bytes().all(is_digit);
    u128::from_str_radix(text, 16).ok().filter(|_| is_number)
}

/// The secret that the servers of a fleet share.
#[derive(Clone)]
pub(crate) struct FleetSecret(Hmac<Sha256>);

impl FleetSecret {
    /// A secret of any length; `None` only if that were not so.
    pub(crate) fn new(secret: &[u8]) -> Option<FleetSecret> {
        Some(FleetSecret(Hmac::new_from_slice(secret).ok()?))
    }

    fn code(&self, parts: [&str; 2]) -> Hmac<Sha256> {
        let mut code = self.0.clone();
        for part in parts {
            code.update(part.as_bytes());
            code.update(b"\n");
        }
        code
    }

    fn sign(&self, parts: [&str; 2]) -> String {
        let code: [u8; 32] = self.code(parts).finalize().into_bytes().into();
        hex(first_half(&code))
    }

    /// Compares in constant time.
    fn verifies(&self, parts: [&str; 2], code: &str) -> bool {
        let code = read_number(code, DIGEST_DIGITS).map(u128::to_be_bytes);
        code.is_some_and(|code| self.code(parts).verify_truncated_left(&code).is_ok())
    }
}

/// The marker of a request to the owner of its key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct AskMarker {
    /// The process that asks.
    pub(crate) process: u64,
    /// Distinguishes the request from others.
    pub(crate) nonce: u64,
    /// When it was written, in seconds since 1970.
    pub(crate) time_s: u64,
    pub(crate) scheme: Scheme,
    pub(crate) key: KeyDigest,
}

impl AskMarker {
    fn text(&self) -> String {
        let AskMarker { process, nonce, time_s, scheme, key } = self;
        let scheme = if *scheme == Scheme::Https { 's' } else { 'p' };
        format!("{process:016x}{nonce:016x}{time_s:016x}{scheme}{}", hex(*key))
    }

    /// The value of the field.
    pub(crate) fn encode(&self, secret: &FleetSecret) -> String {
        let text = self.text();
        let code = secret.sign(["ask", &text]);
        text + &code
    }

    /// Reads the value of the field; `None` unless a server that knows the secret has written it.
    pub(crate) fn decode(value: &[u8], secret: &FleetSecret) -> Option<AskMarker> {
        let (text, code) = AskMarker::split(value)?;
        if !secret.verifies(["ask", text], code) {
            return None;
        }
        AskMarker::read(value)
    }

    /// The text of the marker, which the code is of, and the code.
    fn split(value: &[u8]) -> Option<(&str, &str)> {
        std::str::from_utf8(value).ok()?.split_at_checked(ASK_TEXT)
    }

    /// Reads the value of the field without its code. The text of a marker has one spelling.
    pub(crate) fn read(value: &[u8]) -> Option<AskMarker> {
        let (text, _) = AskMarker::split(value)?;
        let (process, rest) = text.split_at_checked(NUMBER_DIGITS)?;
        let (nonce, rest) = rest.split_at_checked(NUMBER_DIGITS)?;
        let (time, rest) = rest.split_at_checked(NUMBER_DIGITS)?;
        let (scheme, key) = rest.split_at_checked(1)?;
        let number = |text| u64::try_from(read_number(text, NUMBER_DIGITS)?).ok();
        let scheme = match scheme {
            "s" => Scheme::Https,
            "p" => Scheme::Http,
            _ => return None,
        };
        let key = read_number(key, DIGEST_DIGITS)?.to_be_bytes();
        let (process, nonce, time_s) = (number(process)?, number(nonce)?, number(time)?);
        Some(AskMarker { process, nonce, time_s, scheme, key })
    }
}

/// What the owner of a key says about its response.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum OwnerReply {
    /// The response was stored there, or is fetched there for all servers.
    Response {
        was_stored: bool,
        /// The purges that it takes into account, if purges are shared.
        applied: Option<PositionDigest>,
    },
    /// The server that was asked is the one that asks.
    Own,
    /// The server that asks has to request the response from the origin.
    Declined,
}

impl OwnerReply {
    fn text(&self) -> String {
        match self {
            OwnerReply::Own => "own".to_owned(),
            OwnerReply::Declined => "declined".to_owned(),
            OwnerReply::Response { was_stored, applied } => {
                let how = if *was_stored { "stored" } else { "fetched" };
                match applied {
                    None => how.to_owned(),
                    Some(PositionDigest { log, number, mark }) => {
                        format!("{how} {log:x} {number:x} {mark:x}")
                    }
                }
            }
        }
    }

    /// The value of the field, in the response to a request.
    pub(crate) fn encode(&self, ask: &AskMarker, secret: &FleetSecret) -> String {
        let text = self.text();
        let code = secret.sign([&ask.text(), &text]);
        format!("{text} {code}")
    }

    /// Reads the value of the field; `None` unless a server that knows the secret has written it
    /// for this request.
    pub(crate) fn decode(
        value: &[u8],
        ask: &AskMarker,
        secret: &FleetSecret,
    ) -> Option<OwnerReply> {
        let (text, code) = std::str::from_utf8(value).ok()?.rsplit_once(' ')?;
        secret.verifies([&ask.text(), text], code).then(|| OwnerReply::read(text))
    }

    fn read(text: &str) -> OwnerReply {
        let mut words = text.split(' ');
        let was_stored = match words.next() {
            Some("own") => return OwnerReply::Own,
            Some("stored") => true,
            Some("fetched") => false,
            _ => return OwnerReply::Declined,
        };
        let mut number = || u64::from_str_radix(words.next()?, 16).ok();
        let applied = match (number(), number(), number()) {
            (Some(log), Some(number), Some(mark)) => Some(PositionDigest { log, number, mark }),
            _ => None,
        };
        OwnerReply::Response { was_stored, applied }
    }
}

/// For the fuzz target: reads a marker without its code, and writes it as a server with this secret
/// does. True if such a server accepts the marker as it is.
#[doc(hidden)]
pub fn signed_ask(value: &[u8], secret: &[u8]) -> Option<(String, bool)> {
    let secret = FleetSecret::new(secret)?;
    let marker = AskMarker::read(value)?;
    let is_accepted = AskMarker::decode(value, &secret) == Some(marker);
    Some((marker.encode(&secret), is_accepted))
}

/// The same for the reply to a request with the marker `ask`.
#[doc(hidden)]
pub fn signed_reply(value: &[u8], ask: &[u8], secret: &[u8]) -> Option<(String, bool)> {
    let secret = FleetSecret::new(secret)?;
    let ask = AskMarker::read(ask)?;
    let (text, _) = std::str::from_utf8(value).ok()?.rsplit_once(' ')?;
    let reply = OwnerReply::read(text);
    let is_accepted = OwnerReply::decode(value, &ask, &secret) == Some(reply);
    Some((reply.encode(&ask, &secret), is_accepted))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn secret(text: &str) -> FleetSecret {
        FleetSecret::new(text.as_bytes()).unwrap()
    }

    fn ask() -> AskMarker {
        let key = key_digest(b"http://a/\0route");
        AskMarker { process: 7, nonce: u64::MAX, time_s: 1, scheme: Scheme::Https, key }
    }

    #[test]
    fn a_request_is_recognised_by_its_secret() {
        let (ours, other) = (secret("ours"), secret("other"));
        let value = ask().encode(&ours);
        assert_eq!(AskMarker::decode(value.as_bytes(), &ours), Some(ask()));
        assert_eq!(AskMarker::decode(value.as_bytes(), &other), None);
        assert_ne!(value, AskMarker { nonce: 1, ..ask() }.encode(&ours));
    }

    #[test]
    fn a_changed_marker_is_none() {
        let ours = secret("ours");
        let value = ask().encode(&ours);
        for at in 0..value.len() {
            let mut changed = value.clone().into_bytes();
            changed[at] ^= 1;
            assert_eq!(AskMarker::decode(&changed, &ours), None, "byte {at}");
        }
        for odd in [&b""[..], b"\xff", &value.as_bytes()[1..], &value.as_bytes()[..90]] {
            assert_eq!(AskMarker::decode(odd, &ours), None);
        }
        let spelled = value.to_uppercase();
        assert_eq!(AskMarker::decode(spelled.as_bytes(), &ours), None);
        let multibyte = "é".repeat(60);
        assert_eq!(AskMarker::decode(multibyte.as_bytes(), &ours), None);
    }

    #[test]
    fn a_reply_belongs_to_one_request() {
        let ours = secret("ours");
        let applied = Some(PositionDigest { log: 1, number: u64::MAX, mark: 0 });
        for reply in [
            OwnerReply::Own,
            OwnerReply::Declined,
            OwnerReply::Response { was_stored: true, applied },
            OwnerReply::Response { was_stored: false, applied: None },
        ] {
            let value = reply.encode(&ask(), &ours);
            assert_eq!(OwnerReply::decode(value.as_bytes(), &ask(), &ours), Some(reply));
            let other = AskMarker { nonce: 1, ..ask() };
            assert_eq!(OwnerReply::decode(value.as_bytes(), &other, &ours), None);
            assert_eq!(OwnerReply::decode(value.as_bytes(), &ask(), &secret("other")), None);
        }
        assert_eq!(OwnerReply::decode(b"stored", &ask(), &ours), None);
    }
}
