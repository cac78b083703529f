//! The filter around tokens: consumers, places, keys, settings.

mod provider;
mod rfc;
mod tokens;

use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, KeyPair};
use aws_lc_rs::{encoding, hmac};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use message::Request;
use plugin::WorkerContext;
use plugin::testing::{errors, filter, filter_in, get, passed, plan, rendered};
use serde_json::{Value as Json, json};
use settings::{Node, node};
use wire::Known;

use super::{Jwt, KIND};
use crate::registry::Registry;

const SECRET: &[u8] = b"0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";

fn encode(bytes: impl AsRef<[u8]>) -> String {
    URL_SAFE_NO_PAD.encode(bytes)
}

/// A signature with the secret.
fn mac(data: &[u8]) -> Vec<u8> {
    hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, SECRET), data).as_ref().to_vec()
}

/// A token of these texts.
fn signed(header: &str, payload: &str, sign: impl Fn(&[u8]) -> Vec<u8>) -> String {
    let data = format!("{}.{}", encode(header), encode(payload));
    let signature = encode(sign(data.as_bytes()));
    format!("{data}.{signature}")
}

const HS256: &str = r#"{"alg":"HS256"}"#;

#[test]
fn the_declaration_is_valid() {
    settings::verify::<Jwt>().unwrap();
}

/// A point of a public key as the members `x` and `y`.
fn point(bytes: &[u8]) -> (String, String) {
    let (x, y) = bytes[1..].split_at(bytes.len() / 2);
    (encode(x), encode(y))
}

/// Settings with the secret, and what else is given.
fn with_secret(other: &[(&str, Node)]) -> Node {
    let secret = String::from_utf8(SECRET.to_vec()).unwrap();
    let mut settings = node!({
        "keys": [{ "algorithm": "HS256", "secret": secret }], "issuer": "us", "audience": "shop"
    });
    if let settings::Value::Map(entries) = &mut settings.value {
        for (name, value) in other {
            let key = settings::MapKey { name: (*name).to_owned(), span: value.span };
            entries.push((key, value.clone()));
        }
    }
    settings
}

/// A token that is valid now.
fn current(claims: &[(&str, Json)]) -> String {
    let exp = net::clock::wall_secs() + 60;
    let mut payload = json!({ "sub": "a-17", "iss": "us", "aud": "shop", "exp": exp });
    for (name, value) in claims {
        payload[name] = value.clone();
    }
    signed(HS256, &payload.to_string(), mac)
}

fn bearing(token: &str) -> Request {
    get("/", &[("authorization", &format!("Bearer {token}")), ("cookie", "t=1")])
}

#[test]
fn a_token_names_its_consumer_and_has_claims() {
    let filter = filter(&KIND, &with_secret(&[]));
    let token = current(&[("realm", json!({ "roles": ["admin", "dev"] })), ("n", json!(1.5))]);
    // The second is one that was seen before.
    for _ in 0..2 {
        let mut request = bearing(&token);
        passed(filter.on_request(&mut request)).unwrap();
        assert_eq!(request.consumer_name(), Some("a-17"));
        assert!(!request.headers.contains(Known::Authorization));
        let roles: Vec<_> = plugin::variables::claims(&request, "realm.roles").collect();
        assert_eq!(roles, ["admin", "dev"]);
        let number: Vec<_> = plugin::variables::claims(&request, "n").collect();
        assert_eq!(number, ["1.5"]);
    }
    for (token, challenge) in [
        ("", "Bearer realm=\"tidegate\""),
        ("x.y.z", "Bearer realm=\"tidegate\", error=\"invalid_token\""),
        (&current(&[("sub", json!(""))]), "Bearer realm=\"tidegate\", error=\"invalid_token\""),
        (&current(&[("sub", json!("a\nb"))]), "Bearer realm=\"tidegate\", error=\"invalid_token\""),
        (&current(&[("sub", json!(null))]), "Bearer realm=\"tidegate\", error=\"invalid_token\""),
    ] {
        let mut request = bearing(token);
        let response = rendered(&passed(filter.on_request(&mut request)).unwrap_err());
        assert_eq!(response.status, 401);
        assert_eq!(response.headers.get_str(Known::WwwAuthenticate), Some(challenge), "{token}");
        assert!(request.consumer.is_none() && !request.headers.contains(Known::Authorization));
    }
    let twice = format!("Bearer {token}");
    let mut request = get("/", &[("authorization", &twice), ("authorization", &twice)]);
    assert!(passed(filter.on_request(&mut request)).is_err());
}

#[test]
fn entries_of_consumers_name_subjects() {
    let worker = WorkerContext::default();
    let registry = worker.shared.get((), Registry::default);
    let put = |entry: Node| registry.put(settings::read(&entry).unwrap(), |_| true).unwrap();
    put(node!({ "name": "alice", "groups": ["g"], "jwt": { "subject": "a-17" } }));
    put(node!({ "name": "admin" }));
    let lax = filter_in(&KIND, &with_secret(&[]), &worker);
    let strict = filter_in(&KIND, &with_secret(&[("consumers_only", node!(true))]), &worker);
    let name = |filter: &std::rc::Rc<dyn plugin::Filter>, subject: &str| {
        let mut request = bearing(&current(&[("sub", json!(subject))]));
        let passed = passed(filter.on_request(&mut request));
        passed.ok().and_then(|()| request.consumer_name().map(str::to_owned))
    };
    for filter in [&lax, &strict] {
        assert_eq!(name(filter, "a-17").as_deref(), Some("alice"));
        // The issuer cannot name a consumer that it does not authenticate.
        assert_eq!(name(filter, "admin"), None);
        assert_eq!(name(filter, "alice"), None);
    }
    assert_eq!(name(&lax, "b-18").as_deref(), Some("b-18"));
    assert_eq!(name(&strict, "b-18"), None);
    // A token that is remembered follows a change of the entry.
    registry.delete("alice", |_| true).unwrap();
    assert_eq!(name(&strict, "a-17"), None);
    assert_eq!(name(&lax, "a-17").as_deref(), Some("a-17"));
}

#[test]
fn tokens_come_from_the_places_that_are_named() {
    let from = node!([{ "header": "x-token" }, { "cookie": "session" }]);
    let settings = with_secret(&[("from", from), ("hide", node!(false))]);
    assert_eq!(plan(&KIND, &settings).unwrap().describe(), "1 key, passed on");
    let filter = filter(&KIND, &settings);
    let token = current(&[]);
    let cookie = format!("session={token}");
    for (name, value) in [("x-token", &token), ("cookie", &cookie)] {
        let mut request = get("/", &[(name, value)]);
        passed(filter.on_request(&mut request)).unwrap();
        assert_eq!(request.headers.get_str(name), Some(value.as_str()));
    }
    let mut both = get("/", &[("x-token", &token), ("cookie", &cookie)]);
    assert!(passed(filter.on_request(&mut both)).is_err());
    assert!(passed(filter.on_request(&mut bearing(&token))).is_err());
}

#[test]
fn a_second_authorization_makes_a_token_ambiguous() {
    let filter = filter(&KIND, &with_secret(&[("hide", node!(false))]));
    let token = format!("Bearer {}", current(&[]));
    for other in [&token, "Basic YTpi", "Bearer", ""] {
        for fields in [[&*token, other], [other, &*token]] {
            let fields = fields.map(|value| ("authorization", value));
            let rejected = passed(filter.on_request(&mut get("/", &fields))).unwrap_err();
            assert_eq!(rejected.detail, "there are several tokens", "{other:?}");
        }
    }
}

#[test]
fn a_cookie_with_a_token_is_hidden_and_others_are_not() {
    let filter = filter(&KIND, &with_secret(&[("from", node!({ "cookie": "session" }))]));
    let cookies = format!("a=1; session={}; sessions=2", current(&[]));
    let mut request = get("/", &[("cookie", &cookies)]);
    passed(filter.on_request(&mut request)).unwrap();
    assert_eq!(request.headers.get_str("cookie"), Some("a=1; sessions=2"));
    let mut alone = get("/", &[("cookie", &format!("session={}", current(&[])))]);
    passed(filter.on_request(&mut alone)).unwrap();
    assert_eq!(alone.headers.get_str("cookie"), None);
}

#[test]
fn keys_come_from_files() {
    let dir = tempfile::tempdir().unwrap();
    let (pem, set) = (dir.path().join("key.pem"), dir.path().join("set.json"));
    let pair = EcdsaKeyPair::generate(&ECDSA_P256_SHA256_FIXED_SIGNING).unwrap();
    let der: encoding::PublicKeyX509Der<'_> = encoding::AsDer::as_der(pair.public_key()).unwrap();
    let body = base64::engine::general_purpose::STANDARD.encode(der.as_ref());
    let text = format!("-----BEGIN PUBLIC KEY-----\n{body}\n-----END PUBLIC KEY-----\n");
    std::fs::write(&pem, text).unwrap();
    let (x, y) = point(pair.public_key().as_ref());
    let key = json!({ "keys": [{ "kty": "EC", "crv": "P-256", "kid": "k", "x": x, "y": y }] });
    std::fs::write(&set, key.to_string()).unwrap();
    let random = SystemRandom::new();
    let exp = net::clock::wall_secs() + 60;
    let payload = json!({ "sub": "a", "exp": exp }).to_string();
    let sign = |data: &[u8]| pair.sign(&random, data).unwrap().as_ref().to_vec();
    let token = signed(r#"{"alg":"ES256","kid":"k"}"#, &payload, sign);
    let (pem, set) = (pem.to_str().unwrap(), set.to_str().unwrap());
    for settings in [
        node!({ "keys": [{ "algorithm": "ES256", "public_key": pem }] }),
        node!({ "keys": [{ "algorithm": "ES256", "id": "k", "public_key": pem }] }),
        node!({ "key_set": set }),
    ] {
        passed(filter(&KIND, &settings).on_request(&mut bearing(&token))).unwrap();
    }
    let other = node!({ "keys": [{ "algorithm": "ES256", "id": "other", "public_key": pem }] });
    assert!(passed(filter(&KIND, &other).on_request(&mut bearing(&token))).is_err());
    let wrong = errors(&KIND, &node!({ "keys": [{ "algorithm": "RS256", "public_key": pem }] }));
    assert!(wrong.contains("not one of its algorithm"), "{wrong}");
    let wrong = errors(&KIND, &node!({ "keys": [{ "algorithm": "ES256", "public_key": set }] }));
    assert!(wrong.contains("no public key in PEM"), "{wrong}");
    let wrong = errors(&KIND, &node!({ "key_set": pem }));
    assert!(wrong.contains("the key set is not a JSON object"), "{wrong}");
}

#[test]
fn errors_are_named_and_show_no_secret() {
    let key = |algorithm: &str, secret: &str| {
        let key = node!({ "algorithm": algorithm, "secret": secret });
        Node::made(settings::Value::Map(vec![(
            settings::MapKey { name: "keys".to_owned(), span: key.span },
            Node::made(settings::Value::List(vec![key])),
        )]))
    };
    let long = "topsecret-topsecret-topsecret-tops";
    for (settings, why) in [
        (node!({}), "without a key no token is valid"),
        (key("HS256", "topsecret"), "shorter than the digest"),
        (key("HS512", long), "shorter than the digest"),
        (key("RS256", long), "not one of its algorithm"),
        (key("none", long), "HS256"),
        (node!({ "keys": [{ "algorithm": "HS256" }] }), "either secret or public_key"),
        (with_secret(&[("from", node!([]))]), "no place"),
        (with_secret(&[("leeway", node!("1h"))]), "leeway"),
        (with_secret(&[("consumer_claim", node!(""))]), "claim is empty"),
        (with_secret(&[("realm", node!("a\"b"))]), "the realm"),
    ] {
        let report = errors(&KIND, &settings);
        assert!(report.contains(why), "{report}\nwanted {why}");
        assert!(!report.contains("topsecret") && !report.contains("012345"), "{report}");
    }
}
