//! The places of tokens in requests.

use message::Request;
use plugin::{CredentialPlace, HeaderName};
use settings::{Node, Reader, Setting};
use wire::Known;
use wire::authorization::bearer;

use crate::method::{AuthResult, remove_cookies};

/// Where a token is looked for.
#[derive(Clone, Debug, PartialEq, Setting)]
pub(crate) enum TokenSource {
    /// In `Authorization: Bearer TOKEN` (RFC 6750).
    Bearer,
    /// In a header of this name.
    Header(HeaderName),
    /// In a cookie of this name.
    Cookie(String),
}

/// Reports settings without which no token is accepted.
pub(crate) fn check(
    sources: &[TokenSource],
    consumer_claim: &str,
    node: &Node,
    reader: &mut Reader<'_>,
) {
    if sources.is_empty() {
        reader.error(node.span, "there is no place to look for a token");
    }
    if consumer_claim.is_empty() {
        reader.error(node.span, "the name of the claim is empty");
    }
}

/// The token of a request, or why there is not exactly one.
pub(crate) fn only_token<'r>(
    sources: &'r [TokenSource],
    request: &'r Request,
) -> Result<&'r [u8], AuthResult> {
    let (mut token, mut are_several) = (None, false);
    for source in sources {
        source.each_token(request, |found| are_several |= token.replace(found).is_some());
    }
    match are_several {
        false => token.ok_or(AuthResult::Missing("there is no token")),
        true => Err(AuthResult::Invalid("there are several tokens")),
    }
}

/// Removes the token from a request.
pub(crate) fn hide(sources: &[TokenSource], request: &mut Request) {
    for source in sources {
        match source {
            TokenSource::Bearer => {
                request.headers.remove(Known::Authorization);
            }
            TokenSource::Header(name) => {
                request.headers.remove(name);
            }
            TokenSource::Cookie(name) => {
                remove_cookies(request, |cookie| cookie == name.as_bytes());
            }
        }
    }
}

/// Names of the places.
pub(crate) fn places(sources: &[TokenSource]) -> Vec<CredentialPlace> {
    let place = |source: &TokenSource| match source {
        TokenSource::Bearer => CredentialPlace::Header("authorization".to_owned()),
        TokenSource::Header(name) => CredentialPlace::Header(name.to_string()),
        TokenSource::Cookie(name) => CredentialPlace::Cookie(name.clone()),
    };
    sources.iter().map(place).collect()
}

/// The challenge of RFC 6750 3.1.
pub(crate) fn challenge(realm: &str, invalid: bool) -> String {
    let error = if invalid { ", error=\"invalid_token\"" } else { "" };
    format!("Bearer realm=\"{realm}\"{error}")
}

impl TokenSource {
    /// Calls `found` with each token at this place. An iterator of either kind would be boxed.
    fn each_token<'r>(&'r self, request: &'r Request, found: impl FnMut(&'r [u8])) {
        match self {
            // Any second field counts as well: which of the two would the upstream use?
            TokenSource::Bearer => {
                let fields = || request.headers.get_all(Known::Authorization);
                if fields().any(|field| bearer(field).is_some()) {
                    fields().map(|field| bearer(field).unwrap_or(field)).for_each(found);
                }
            }
            TokenSource::Header(name) => request.headers.get_all(name).for_each(found),
            TokenSource::Cookie(name) => plugin::variables::cookies(request, name).for_each(found),
        }
    }
}
