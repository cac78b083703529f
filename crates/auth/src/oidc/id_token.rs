//! Rules for ID tokens in addition to those for all tokens (OpenID Connect Core 3.1.3.7).

use aws_lc_rs::digest::{SHA256, SHA384, SHA512, digest};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;

use crate::token::{ClaimPairs, Invalid, json_object};

/// The only value of a claim.
pub(super) fn only<'c>(claims: &'c ClaimPairs, name: &str) -> Option<&'c str> {
    let mut values = claims.iter().filter(|(claim, _)| **claim == *name);
    match (values.next(), values.next()) {
        (Some((_, value)), None) => Some(value),
        _ => None,
    }
}

fn has(claims: &ClaimPairs, name: &str) -> bool {
    claims.iter().any(|(claim, _)| **claim == *name)
}

/// The values that an ID token must match.
pub(super) struct Expected<'a> {
    pub(super) client_id: &'a str,
    /// The nonce of the login; tokens of a refresh have none.
    pub(super) nonce: Option<&'a str>,
    pub(super) access_token: Option<&'a str>,
}

/// Checks the claims of a token whose signature, issuer, audience and time are right.
pub(super) fn check(
    token: &[u8],
    claims: &ClaimPairs,
    expected: &Expected<'_>,
) -> Result<(), Invalid> {
    if only(claims, "sub").is_none_or(str::is_empty) {
        return Err("the ID token has no subject");
    }
    if expected.nonce.is_some() && only(claims, "nonce") != expected.nonce {
        return Err("the ID token is of another login: its nonce is wrong");
    }
    let parties = claims.iter().filter(|(name, _)| **name == *"aud").count();
    match only(claims, "azp") {
        Some(party) if party == expected.client_id => {}
        None if parties == 1 && !has(claims, "azp") => {}
        _ => return Err("the ID token was issued to another client"),
    }
    match (has(claims, "at_hash"), expected.access_token) {
        (true, Some(access_token))
            if only(claims, "at_hash") != hash(token, access_token).as_deref() =>
        {
            Err("the access token is not the one of the ID token")
        }
        _ => Ok(()),
    }
}

/// The left half of the digest of an access token (OpenID Connect Core 3.1.3.6), by the algorithm
/// of the ID token.
fn hash(token: &[u8], access_token: &str) -> Option<String> {
    let header = URL_SAFE_NO_PAD.decode(token.split(|byte| *byte == b'.').next()?).ok()?;
    let header = json_object(&header)?;
    let name = header.get("alg")?.as_str()?;
    let algorithm = match name.get(2..) {
        Some("256") => &SHA256,
        Some("384") => &SHA384,
        // EdDSA is Ed25519 here, which hashes with SHA-512.
        _ => &SHA512,
    };
    let digest = digest(algorithm, access_token.as_bytes());
    let digest = digest.as_ref();
    Some(URL_SAFE_NO_PAD.encode(&digest[..digest.len() / 2]))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn claims(pairs: &[(&str, &str)]) -> ClaimPairs {
        pairs.iter().map(|(name, value)| ((*name).into(), (*value).into())).collect()
    }

    #[test]
    fn a_token_is_for_this_login_of_this_client() {
        let expected = Expected { client_id: "shop", nonce: Some("n"), access_token: None };
        for (pairs, is_valid) in [
            (&[("sub", "a"), ("aud", "shop"), ("nonce", "n")][..], true),
            (&[("sub", "a"), ("aud", "shop"), ("nonce", "n"), ("azp", "shop")], true),
            (&[("sub", "a"), ("aud", "shop"), ("aud", "x"), ("nonce", "n"), ("azp", "shop")], true),
            (&[("sub", "a"), ("aud", "shop"), ("aud", "x"), ("nonce", "n")], false),
            (&[("sub", "a"), ("aud", "shop"), ("nonce", "n"), ("azp", "x")], false),
            (
                &[("sub", "a"), ("aud", "shop"), ("nonce", "n"), ("azp", "shop"), ("azp", "x")],
                false,
            ),
            (&[("sub", "a"), ("aud", "shop"), ("nonce", "m")], false),
            (&[("sub", "a"), ("aud", "shop"), ("nonce", "n"), ("nonce", "m")], false),
            (&[("sub", "a"), ("aud", "shop")], false),
            (&[("sub", ""), ("aud", "shop"), ("nonce", "n")], false),
            (&[("aud", "shop"), ("nonce", "n")], false),
        ] {
            assert_eq!(check(b"", &claims(pairs), &expected).is_ok(), is_valid, "{pairs:?}");
        }
    }

    /// OpenID Connect Core A.3.
    #[test]
    fn an_access_token_of_another_response_is_rejected() {
        let token = URL_SAFE_NO_PAD.encode(br#"{"alg":"RS256"}"#) + "..";
        let claims = claims(&[("sub", "a"), ("aud", "c"), ("at_hash", "77QmUPtjPfzWtF2AnpK9RQ")]);
        let expected = |access_token| Expected {
            client_id: "c",
            nonce: None,
            access_token: Some(access_token),
        };
        let right = expected("jHkWEdUXMU1BwAsC4vtUsZwnNvTIxEl0z9K3vx5KF0Y");
        assert!(check(token.as_bytes(), &claims, &right).is_ok());
        assert!(check(token.as_bytes(), &claims, &expected("another")).is_err());
    }
}
