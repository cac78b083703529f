//! `auth`: several methods of authentication, tried in their order.

use std::sync::Arc;

use plugin::{FilterKind, FilterPlan};
use settings::{Node, Reader, Setting};

use crate::basic_auth::BasicAuth;
use crate::cert_auth::CertAuth;
use crate::hmac_auth::HmacAuth;
use crate::introspection::Introspection;
use crate::jwt::Jwt;
use crate::key_auth::KeyAuth;
use crate::method::{AuthPlan, MethodPlan};

pub(crate) const KIND: FilterKind = FilterKind { name: "auth", schema: AnyAuth::schema, read };

/// Tries several methods of authentication, in their order.
///
/// The first method that accepts the request decides. If none does, the response is 401 with the
/// challenges of all methods, or 403 if none has a challenge.
#[derive(Clone, Debug, Setting)]
#[setting(check = check)]
struct AnyAuth {
    /// The methods, each with the settings of the filter of that name.
    #[setting(example = [{ "cert_auth": {} }, { "key_auth": {} }])]
    any: Vec<MethodSettings>,
}

/// A method of authentication.
#[derive(Clone, Debug, Setting)]
enum MethodSettings {
    /// An API key.
    KeyAuth(KeyAuth),
    /// A name and a password.
    BasicAuth(BasicAuth),
    /// A signed token.
    Jwt(Jwt),
    /// A token that its issuer verifies.
    Introspection(Introspection),
    /// A client certificate.
    CertAuth(CertAuth),
    /// A signature of the request.
    HmacAuth(HmacAuth),
}

fn check(settings: &AnyAuth, node: &Node, reader: &mut Reader<'_>) {
    if settings.any.is_empty() {
        reader.error(node.span, "without a method no request is allowed");
    }
}

fn read(node: &Node, reader: &mut Reader<'_>) -> Option<Arc<dyn FilterPlan>> {
    let settings = AnyAuth::read(node, reader)?;
    let methods = settings.any.into_iter().map(MethodSettings::plan).collect();
    Some(Arc::new(AuthPlan { name: KIND.name, methods }))
}

impl MethodSettings {
    fn plan(self) -> Box<dyn MethodPlan> {
        match self {
            MethodSettings::KeyAuth(settings) => Box::new(settings.plan()),
            MethodSettings::BasicAuth(settings) => Box::new(settings.plan()),
            MethodSettings::Jwt(settings) => Box::new(settings.plan()),
            MethodSettings::Introspection(settings) => Box::new(settings),
            MethodSettings::CertAuth(settings) => Box::new(settings.plan()),
            MethodSettings::HmacAuth(settings) => Box::new(settings.plan()),
        }
    }
}

#[cfg(test)]
mod tests {
    use aws_lc_rs::hmac::{HMAC_SHA256, Key, sign};
    use base64::Engine as _;
    use base64::engine::general_purpose::URL_SAFE_NO_PAD;
    use plugin::testing::{filter, get, passed};
    use settings::node;
    use wire::Known;

    use super::*;

    const SECRET: &str = "0123456789abcdef0123456789abcdef";

    fn token() -> String {
        let parts = [r#"{"alg":"HS256"}"#, r#"{"sub":"bob","exp":4000000000}"#];
        let signed = parts.map(|part| URL_SAFE_NO_PAD.encode(part)).join(".");
        let signature = sign(&Key::new(HMAC_SHA256, SECRET.as_bytes()), signed.as_bytes());
        format!("Bearer {signed}.{}", URL_SAFE_NO_PAD.encode(signature))
    }

    #[test]
    fn a_credential_that_nothing_has_verified_is_not_forwarded() {
        let methods = node!({ "any": [
            { "key_auth": { "keys": [{ "consumer": "alice", "key": "sesame" }] } },
            { "jwt": { "keys": [{ "algorithm": "HS256", "secret": SECRET }], "hide": false } },
            { "basic_auth": {} },
        ] });
        let any = filter(&KIND, &methods);
        net::clock::refresh();
        let (forged, known) = (format!("{}x", token()), token());
        for (key, authorization, consumer, is_forwarded) in [
            ("sesame", forged.as_str(), "alice", false),
            ("sesame", known.as_str(), "alice", false),
            ("wrong", known.as_str(), "bob", true),
        ] {
            let mut request = get("/", &[("x-api-key", key), ("authorization", authorization)]);
            passed(any.on_request(&mut request)).unwrap();
            assert_eq!(request.consumer_name(), Some(consumer));
            assert!(!request.headers.contains("x-api-key"));
            assert_eq!(request.headers.contains(Known::Authorization), is_forwarded, "{key}");
        }
    }

    #[test]
    fn a_method_that_shares_a_place_forwards_no_credential_of_another_one() {
        let methods = node!({ "any": [
            { "key_auth": {
                "from": [{ "header": "x-api-key" }, "bearer"],
                "keys": [{ "consumer": "alice", "key": "sesame" }],
            } },
            { "jwt": { "keys": [{ "algorithm": "HS256", "secret": SECRET }], "hide": false } },
        ] });
        let any = filter(&KIND, &methods);
        net::clock::refresh();
        let mut request = get("/", &[("x-api-key", "wrong"), ("authorization", &token())]);
        passed(any.on_request(&mut request)).unwrap();
        assert_eq!(request.consumer_name(), Some("bob"));
        assert!(!request.headers.contains("x-api-key"));
    }
}
