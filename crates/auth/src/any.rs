//! `auth`: several methods of authentication, tried in their order.

use std::sync::Arc;

use plugin::{FilterKind, FilterPlan};
use settings::{Node, Reader, Setting, Spanned};

use crate::auth_plan::AuthPlan;
use crate::basic_auth::BasicAuth;
use crate::cert_auth::CertAuth;
use crate::forward_auth::{self, ForwardAuth};
use crate::hmac_auth::HmacAuth;
use crate::introspection::Introspection;
use crate::jwt::Jwt;
use crate::key_auth::KeyAuth;
use crate::oidc::{self, Oidc};

pub(crate) const KIND: FilterKind = FilterKind { name: "auth", schema: AnyAuth::schema, read };

/// Tries several methods of authentication, in their order.
///
/// The first method that accepts the request decides. If none does, the response is 401 with the
/// challenges of all methods, or 403 if none has a challenge. `oidc` and `forward_auth` respond
/// themselves to requests that they do not allow, so each can only be the last method.
#[derive(Clone, Debug, Setting)]
#[setting(check = check)]
struct AnyAuth {
    /// The methods, each with the settings of the filter of that name.
    #[setting(example = [{ "cert_auth": {} }, { "key_auth": {} }])]
    any: Vec<Spanned<MethodSettings>>,
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
    /// The decision of another server; as the last method.
    ForwardAuth(Box<ForwardAuth>),
    /// A session of a browser, which is sent to a login without one; as the last method.
    Oidc(Box<Oidc>),
}

fn check(settings: &AnyAuth, node: &Node, reader: &mut Reader<'_>) {
    let Some((_, before)) = settings.any.split_last() else {
        reader.error(node.span, "without a method no request is allowed");
        return;
    };
    for method in before {
        let name = match method.value {
            MethodSettings::ForwardAuth(_) => forward_auth::KIND.name,
            MethodSettings::Oidc(_) => oidc::KIND.name,
            _ => continue,
        };
        let why = format!("{name} responds to the requests that it rejects: no method is after it");
        reader.error(method.span, why).help(format!("put {name} at the end of the list"));
    }
}

fn read(node: &Node, reader: &mut Reader<'_>) -> Option<Arc<dyn FilterPlan>> {
    let settings = AnyAuth::read(node, reader)?;
    let mut plan = AuthPlan { name: KIND.name, methods: Vec::new(), last: None };
    for Spanned { value, span, .. } in settings.any {
        match value {
            MethodSettings::KeyAuth(settings) => plan.methods.push(Box::new(settings.plan())),
            MethodSettings::BasicAuth(settings) => plan.methods.push(Box::new(settings.plan())),
            MethodSettings::Jwt(settings) => plan.methods.push(Box::new(settings.plan())),
            MethodSettings::Introspection(settings) => plan.methods.push(Box::new(settings)),
            MethodSettings::CertAuth(settings) => plan.methods.push(Box::new(settings.plan())),
            MethodSettings::HmacAuth(settings) => plan.methods.push(Box::new(settings.plan())),
            MethodSettings::ForwardAuth(settings) => {
                plan.last = Some(Box::new(settings.plan(span, reader)?));
            }
            MethodSettings::Oidc(settings) => {
                plan.last = Some(Box::new(settings.plan(span, reader)?));
            }
        }
    }
    Some(Arc::new(plan))
}

#[cfg(test)]
mod tests {
    use aws_lc_rs::hmac::{HMAC_SHA256, Key, sign};
    use base64::Engine as _;
    use base64::engine::general_purpose::URL_SAFE_NO_PAD;
    use message::{Body, HandlerResult, Request, Response};
    use plugin::testing::{errors, filter, get, passed, plan, route_with};
    use plugin::{MaybeFuture, WorkerContext};
    use settings::{Value, node};
    use wire::Known;

    use super::*;
    use crate::method::rejections;

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

    /// Allows requests with the cookie `s=1`, and reports the credentials that it sees.
    fn decide(question: &mut Request) -> MaybeFuture<'_, HandlerResult> {
        let field = |name: &str| question.headers.get_str(name).unwrap_or("-").to_owned();
        let is_allowed = field("cookie") == "s=1";
        let mut response = Response::new(if is_allowed { 200 } else { 401 });
        response.headers.append("remote-user", "ann");
        response.headers.append("x-asked", format!("{} {}", field("x-api-key"), field("x-other")));
        response.headers.append("www-authenticate", "Form realm=\"login\"");
        Ok(response).into()
    }

    /// Responds with what reaches the upstream.
    fn upstream(request: &mut Request) -> MaybeFuture<'_, HandlerResult> {
        let field = |name: &str| request.headers.get_str(name).unwrap_or("-").to_owned();
        let consumer = request.consumer_name().unwrap_or("-").to_owned();
        let (key, user, asked) = (field("x-api-key"), field("remote-user"), field("x-asked"));
        Ok(Response::text(200, format!("{consumer} {key} {user} {asked}"))).into()
    }

    fn before_forward_auth(hide: bool, copied: &str) -> Node {
        node!({ "any": [
            { "key_auth": { "keys": [{ "consumer": "alice", "key": "sesame" }], "hide": hide } },
            { "forward_auth": {
                "to": { "upstream": "auth" }, "consumer": "remote-user",
                "copy": ["remote-user", copied], "to_client": ["x-asked"],
            } },
        ] })
    }

    #[test]
    fn the_last_method_decides_about_what_no_other_one_accepts() {
        let context = WorkerContext::default();
        let settings = before_forward_auth(true, "x-asked");
        let route = route_with(&KIND, &settings, &context, upstream, decide);
        let run = |fields: &[(&str, &str)]| {
            let mut request = get("/", fields);
            let response = net::worker::block_on_local(route.run(&mut request)).unwrap();
            assert!(!request.headers.contains("x-api-key"));
            response
        };
        let forged = [("remote-user", "root"), ("x-asked", "forged"), ("x-other", "1")];
        let with = |more: &[(&'static str, &'static str)]| [&forged[..], more].concat();
        let text = |response: Response| match response.body {
            Body::Bytes(bytes) => String::from_utf8(bytes.to_vec()).unwrap(),
            _ => panic!("no text"),
        };
        // Neither a credential nor a header of the last method comes from a client with a key.
        let of_key = run(&with(&[("x-api-key", "sesame"), ("cookie", "s=1")]));
        assert!(!of_key.headers.contains("x-asked"));
        assert_eq!(text(of_key), "alice - - -");
        // The server sees the key that nothing has accepted; the upstream does not.
        let of_server = run(&with(&[("x-api-key", "wrong"), ("cookie", "s=1")]));
        assert_eq!(of_server.headers.get_str("x-asked"), Some("wrong 1"));
        assert_eq!(text(of_server), "ann - ann wrong 1");
        // The response of the server is the rejection, with the challenges of all methods.
        for fields in [with(&[("x-api-key", "wrong")]), with(&[])] {
            let rejected = run(&fields);
            let challenges: Vec<_> = rejected.headers.get_all("www-authenticate").collect();
            let expected = [&b"Form realm=\"login\""[..], b"ApiKey realm=\"tidegate\""];
            assert_eq!((rejected.status, challenges.as_slice()), (401, &expected[..]));
        }
        let count = |filter, reason| rejections(&context, filter, reason).get();
        assert_eq!((count("key_auth", "invalid"), count("key_auth", "missing")), (1, 0));
        assert_eq!(context.policy_rejections("forward_auth", "denied").get(), 2);
    }

    #[test]
    fn a_verified_credential_is_forwarded_where_the_last_method_sets_its_header() {
        let settings = before_forward_auth(false, "x-api-key");
        let route = route_with(&KIND, &settings, &WorkerContext::default(), upstream, decide);
        let mut request = get("/", &[("x-api-key", "sesame"), ("remote-user", "root")]);
        net::worker::block_on_local(route.run(&mut request)).unwrap();
        assert_eq!(request.headers.get_str("x-api-key"), Some("sesame"));
        assert!(!request.headers.contains("remote-user"));
    }

    #[test]
    fn a_method_that_responds_itself_is_the_last() {
        let oidc = || {
            node!({ "oidc": {
                "issuer": "https://id.example.com", "client_id": "shop", "cookie_secrets": SECRET,
            } })
        };
        let server = || node!({ "forward_auth": { "to": { "upstream": "auth" } } });
        let key = || node!({ "key_auth": {} });
        let any = |methods: [Node; 2]| {
            let mut settings = node!({ "any": [] });
            let Value::Map(entries) = &mut settings.value else { panic!("a map") };
            entries[0].1 = Node::made(Value::List(methods.into()));
            settings
        };
        for (methods, name) in [
            ([oidc(), key()], "oidc"),
            ([server(), key()], "forward_auth"),
            ([oidc(), server()], "oidc"),
        ] {
            let report = errors(&KIND, &any(methods));
            assert!(report.contains(&format!("put {name} at the end of the list")), "{report}");
        }
        let described = plan(&KIND, &any([key(), oidc()])).unwrap().describe();
        assert_eq!(
            described,
            "any of key_auth (keys of consumers), \
             oidc (https://id.example.com as shop, callback /oidc/callback)"
        );
    }
}
