//! Verification of a token in the compact form (RFC 7515 7.1, RFC 7519): pure functions of the
//! token, the keys, the rules and the time.
//!
//! Promises that nothing of the payload is read before the signature is verified; that a header
//! with critical extensions, a name that is written twice, padding or a character outside of the
//! alphabet makes a token invalid; that no key in a header is used.

mod keys;
mod strict_json;

use std::cell::RefCell;

use base64_simd::URL_SAFE_NO_PAD;
use memchr::memchr_iter;
use serde_json::Value as Json;

#[cfg(test)]
pub(crate) use keys::key_set;
pub(crate) use keys::{Algorithm, Key, KeySetFile, KeySettings, PublicKey, provided_key_set};
pub(crate) use strict_json::{Object, object as json_object};

/// The longest token.
pub(crate) const TOKEN_BYTES_MAX: usize = 16 * 1024;
/// Claims that a token may have, counting the items of lists and the members of objects.
const CLAIMS_MAX: usize = 256;

/// The required claims of a token.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Rules {
    /// The accepted issuers; any if there are none.
    pub(crate) issuers: Vec<String>,
    /// The names of this audience. Without any, a token that names its audience is for another one
    /// (RFC 7519 4.1.3).
    pub(crate) audiences: Vec<String>,
    /// How far the clocks may be apart.
    pub(crate) leeway_s: u64,
    /// A token without `exp` is valid for ever.
    pub(crate) allow_without_expiry: bool,
    /// Without `audiences` a token may name any.
    pub(crate) allow_any_audience: bool,
}

/// The claims of a verified token.
#[derive(Debug, PartialEq)]
pub(crate) struct VerifiedToken {
    /// As pairs: see [`message::Claims`].
    pub(crate) claims: ClaimPairs,
    /// The second, since 1970, from which it is invalid.
    pub(crate) expires_s: u64,
}

/// Why a token is invalid.
pub(crate) type Invalid = &'static str;

/// The reason that a newer key set may remove.
pub(crate) const NO_KEY: Invalid = "no key fits the token";

/// Keys that are tried for one token, so that a token without a key's name does not cost as many
/// verifications as its issuer has keys.
const TRIED_KEYS_MAX: usize = 8;

/// Verifies a token at a time, in seconds since 1970, with the keys of a set, as the filter does
/// without an issuer and an audience. `None` if the token or the set is invalid.
pub fn verify_token(token: &[u8], key_set: &[u8], now_s: u64) -> Option<ClaimPairs> {
    let keys = keys::key_set(key_set).ok()?;
    verify(token, &keys, &Rules::default(), now_s).ok().map(|verified| verified.claims)
}

/// Verifies a token at a time, in seconds since 1970.
pub(crate) fn verify(
    token: &[u8],
    keys: &[Key],
    rules: &Rules,
    now_s: u64,
) -> Result<VerifiedToken, Invalid> {
    TokenVerifier::default().verify(token, keys, rules, now_s)
}

/// Verifies tokens. Remembers the header of the last one, because the tokens of an issuer have the
/// same: reading it takes longer than all rules for the claims.
#[derive(Default)]
pub(crate) struct TokenVerifier {
    last_header: RefCell<Option<(Box<[u8]>, TokenHeader)>>,
}

/// What the header of a token says about its signature.
struct TokenHeader {
    algorithm: Algorithm,
    key_id: Option<String>,
}

impl TokenVerifier {
    /// Verifies a token at a time, in seconds since 1970.
    pub(crate) fn verify(
        &self,
        token: &[u8],
        keys: &[Key],
        rules: &Rules,
        now_s: u64,
    ) -> Result<VerifiedToken, Invalid> {
        let payload = self.verify_signature(token, keys)?;
        let claims = strict_json::object(&payload)
            .ok_or("the payload of the token is not a JSON object with unique names")?;
        let expires_s = check_claims(&claims, rules, now_s)?;
        Ok(VerifiedToken { claims: claim_pairs(claims)?, expires_s })
    }

    /// Verifies the signature and returns the payload.
    pub(crate) fn verify_signature(&self, token: &[u8], keys: &[Key]) -> Result<Vec<u8>, Invalid> {
        if token.len() > TOKEN_BYTES_MAX {
            return Err("the token is too long");
        }
        let mut dots = memchr_iter(b'.', token);
        let (Some(first), Some(second), None) = (dots.next(), dots.next(), dots.next()) else {
            return Err("the token has not three parts");
        };
        let (signed, signature) = (&token[..second], &token[second + 1..]);
        let (header, payload) = (&signed[..first], &signed[first + 1..]);
        let mut last_header = self.last_header.borrow_mut();
        let TokenHeader { algorithm, key_id } = match &mut *last_header {
            Some((text, read)) if **text == *header => read,
            other => &other.insert((header.into(), TokenHeader::of(header)?)).1,
        };
        let signature = decode(signature)?;
        let fits = |key: &&Key| key.fits(*algorithm, key_id.as_deref());
        let mut candidates = keys.iter().filter(fits).peekable();
        if candidates.peek().is_none() {
            return Err(NO_KEY);
        }
        if !candidates.take(TRIED_KEYS_MAX).any(|key| key.verify(signed, &signature)) {
            return Err("the signature of the token is wrong");
        }
        decode(payload)
    }
}

/// Decodes a part, as strictly as `base64` does, which takes three times as long: of what a token
/// costs in addition to its signature that was a fifth.
fn decode(part: &[u8]) -> Result<Vec<u8>, Invalid> {
    URL_SAFE_NO_PAD.decode_to_vec(part).map_err(|_| "the token is not base64url")
}

impl TokenHeader {
    fn of(encoded: &[u8]) -> Result<TokenHeader, Invalid> {
        let fields = strict_json::object(&decode(encoded)?)
            .ok_or("the header of the token is not a JSON object with unique names")?;
        // Extensions that must be understood and are not: none is (RFC 7515 4.1.11, RFC 7797).
        if ["crit", "b64", "zip"].iter().any(|extension| fields.get(extension).is_some()) {
            return Err("the header of the token demands an extension");
        }
        let algorithm = fields.get("alg").and_then(Json::as_str).and_then(Algorithm::named);
        let algorithm = algorithm.ok_or("the token names no algorithm that is supported")?;
        let key_id = match fields.get("kid") {
            None => None,
            Some(Json::String(id)) => Some(id.clone()),
            Some(_) => return Err("the key of the token has no name"),
        };
        Ok(TokenHeader { algorithm, key_id })
    }
}

/// Checks the claims of a token; returns the second, since 1970, from which it is invalid.
pub(crate) fn check_claims(claims: &Object, rules: &Rules, now_s: u64) -> Result<u64, Invalid> {
    let expires_s = check_time(claims, rules, now_s)?;
    check_parties(claims, rules)?;
    Ok(expires_s)
}

/// The consumer that a claim names.
pub(crate) fn subject(claims: &ClaimPairs, consumer_claim: &str) -> Result<Box<str>, Invalid> {
    let named = claims.iter().find(|(name, value)| {
        **name == *consumer_claim && !value.is_empty() && !value.contains(char::is_control)
    });
    named.map(|(_, value)| value.clone()).ok_or("the token names no consumer")
}

/// Claims as pairs of name and text: see [`message::Claims`].
pub(crate) type ClaimPairs = Vec<(Box<str>, Box<str>)>;

/// Claims as pairs.
pub(crate) fn claim_pairs(claims: Object) -> Result<ClaimPairs, Invalid> {
    let mut pairs = Vec::with_capacity(claims.len());
    for (name, value) in claims {
        flatten(name, value, &mut pairs)?;
    }
    Ok(pairs)
}

/// A time of RFC 7519 2: seconds since 1970, perhaps with a fraction.
fn time(claims: &Object, name: &str) -> Result<Option<f64>, Invalid> {
    let Some(value) = claims.get(name) else { return Ok(None) };
    let seconds = value.as_f64().filter(|seconds| seconds.is_finite() && *seconds >= 0.0);
    seconds.map(Some).ok_or("a time of the token is not a number")
}

/// Checks `exp` and `nbf`; returns when the token expires.
fn check_time(claims: &Object, rules: &Rules, now_s: u64) -> Result<u64, Invalid> {
    let (now, leeway) = (now_s as f64, rules.leeway_s as f64);
    // Read for its type alone (RFC 7519 4.1.6).
    time(claims, "iat")?;
    if time(claims, "nbf")?.is_some_and(|from| now + leeway < from) {
        return Err("the token is not valid yet");
    }
    match time(claims, "exp")? {
        Some(until) if now >= until + leeway => Err("the token has expired"),
        Some(until) => Ok((until + leeway).ceil() as u64),
        None if rules.allow_without_expiry => Ok(u64::MAX),
        None => Err("the token does not expire"),
    }
}

/// Checks `iss` and `aud`.
fn check_parties(claims: &Object, rules: &Rules) -> Result<(), Invalid> {
    let listed = |list: &[String], name: &Json| list.iter().any(|known| name == known);
    let issuer = claims.get("iss");
    let wrong_issuer = !issuer.is_some_and(|issuer| listed(&rules.issuers, issuer));
    if !rules.issuers.is_empty() && wrong_issuer {
        return Err("the token is of another issuer");
    }
    let for_us = match claims.get("aud") {
        _ if rules.audiences.is_empty() && rules.allow_any_audience => true,
        None => rules.audiences.is_empty(),
        Some(Json::Array(names)) => names.iter().any(|name| listed(&rules.audiences, name)),
        Some(name) => listed(&rules.audiences, name),
    };
    if for_us { Ok(()) } else { Err("the token is for another audience") }
}

/// Adds a claim as pairs of name and text.
fn flatten(name: String, value: Json, pairs: &mut ClaimPairs) -> Result<(), Invalid> {
    let text = match value {
        Json::Null => return Ok(()),
        Json::String(text) => text,
        Json::Bool(flag) => flag.to_string(),
        Json::Number(number) => number.to_string(),
        Json::Array(items) => {
            return items.into_iter().try_for_each(|item| flatten(name.clone(), item, pairs));
        }
        Json::Object(members) => {
            return members
                .into_iter()
                .try_for_each(|(member, value)| flatten(format!("{name}.{member}"), value, pairs));
        }
    };
    if pairs.len() >= CLAIMS_MAX {
        return Err("the token has too many claims");
    }
    pairs.push((name.into(), text.into()));
    Ok(())
}

#[cfg(test)]
mod tests {
    use base64::Engine as _;
    use base64::engine::general_purpose::URL_SAFE_NO_PAD;

    use super::decode;

    #[test]
    fn parts_are_decoded_as_strictly_as_by_base64() {
        let alphabet = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
        for length in 0..100 {
            let part: Vec<u8> =
                alphabet.iter().cycle().skip(length).take(length).copied().collect();
            for at in 0..length {
                for byte in [b'=', b'+', b'/', b'.', b' ', b'\n', b'~', 0, 0xff, b'A', b'B', b'_'] {
                    let mut part = part.clone();
                    part[at] = byte;
                    assert_eq!(decode(&part).ok(), URL_SAFE_NO_PAD.decode(&part).ok(), "{part:?}");
                }
            }
        }
    }
}
