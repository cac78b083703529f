//! A provider of OpenID Connect that does what a test says, and a browser with its cookies.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use rcgen::{KeyPair, PKCS_ED25519, SigningKey};
use scenarios::{Connection, HttpResponse, Tidegate, Upstream};
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

/// What the provider does wrong.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Lie {
    None,
    Nonce,
    Issuer,
    Audience,
    Party,
    Expired,
    Unsigned,
    OtherKey,
    NoIdToken,
    AccessTokenHash,
    NoSubject,
    InvalidGrant,
    Status500,
    NoJson,
    TooLong,
    Hangs,
    NoUserinfo,
}

/// What the provider knows, and what it was asked.
struct ProviderState {
    issuer: String,
    lie: Lie,
    /// The nonces and challenges of codes that were not used yet.
    codes: BTreeMap<String, (String, String)>,
    /// The client has no secret.
    is_public: bool,
    /// The length of the user's name.
    name_length: usize,
    expires_in: u64,
    /// The forms that the token end point received.
    forms: Vec<String>,
}

pub(super) struct Provider {
    pub(super) upstream: Upstream,
    state: Arc<Mutex<ProviderState>>,
}

impl Provider {
    pub(super) fn start() -> Provider {
        let key = KeyPair::generate_for(&PKCS_ED25519).expect("a key");
        let other = KeyPair::generate_for(&PKCS_ED25519).expect("a key");
        let state = Arc::new(Mutex::new(ProviderState {
            issuer: String::new(),
            lie: Lie::None,
            codes: BTreeMap::new(),
            is_public: false,
            name_length: 3,
            expires_in: 3600,
            forms: Vec::new(),
        }));
        let of_script = Arc::clone(&state);
        let upstream = Upstream::start(move |peer| {
            while !peer.at_end() {
                serve(peer, &of_script, &key, &other);
            }
        });
        let provider = Provider { upstream, state };
        provider.change(|state| state.issuer = format!("http://{}", provider.address()));
        provider
    }

    pub(super) fn address(&self) -> SocketAddr {
        self.upstream.address()
    }

    fn change<R>(&self, change: impl FnOnce(&mut ProviderState) -> R) -> R {
        change(&mut self.state.lock().unwrap_or_else(PoisonError::into_inner))
    }

    pub(super) fn lie(&self, lie: Lie) {
        self.change(|state| state.lie = lie);
    }

    pub(super) fn expires_in(&self, seconds: u64) {
        self.change(|state| state.expires_in = seconds);
    }

    /// How often tokens were refreshed.
    pub(super) fn refreshes(&self) -> usize {
        let is_refresh = |form: &&String| form.contains("grant_type=refresh_token");
        self.change(|state| state.forms.iter().filter(is_refresh).count())
    }

    /// The refresh tokens that were sent, the oldest first.
    pub(super) fn refresh_tokens(&self) -> Vec<String> {
        let tokens = |state: &mut ProviderState| {
            let forms = state.forms.iter().map(|form| field(form, "refresh_token"));
            forms.filter(|token| !token.is_empty()).collect()
        };
        self.change(tokens)
    }

    /// The client has no secret from now on.
    pub(super) fn is_for_a_public_client(&self) {
        self.change(|state| state.is_public = true);
    }

    /// Tokens name a user with a name of this length.
    pub(super) fn name_length(&self, length: usize) {
        self.change(|state| state.name_length = length);
    }

    /// Browsers and tokens have this address of the provider, whatever the server uses.
    pub(super) fn is_known_as(&self, issuer: &str) {
        self.change(|state| issuer.clone_into(&mut state.issuer));
    }

    pub(super) fn issuer(&self) -> String {
        self.change(|state| state.issuer.clone())
    }

    /// Lets the user log in, and returns the code.
    fn log_in(&self, nonce: &str, challenge: &str) -> String {
        self.change(|state| {
            let code = format!("code-{}-{nonce}", state.forms.len());
            state.codes.insert(code.clone(), (nonce.to_owned(), challenge.to_owned()));
            code
        })
    }
}

fn serve(peer: &mut Connection, state: &Mutex<ProviderState>, key: &KeyPair, other: &KeyPair) {
    let head = peer.read_head();
    let state = || state.lock().unwrap_or_else(PoisonError::into_inner);
    let path = head.split(' ').nth(1).unwrap_or_default();
    let (status, body) = match path {
        "/.well-known/openid-configuration" => (200, metadata(&state().issuer).to_string()),
        "/keys" => {
            let x = URL_SAFE_NO_PAD.encode(key.public_key_raw());
            let jwk = json!({ "kty": "OKP", "crv": "Ed25519", "alg": "EdDSA", "kid": "1", "x": x });
            (200, json!({ "keys": [jwk] }).to_string())
        }
        "/userinfo" if state().lie == Lie::NoUserinfo => (503, "{}".to_owned()),
        "/userinfo" => (200, json!({ "sub": "a-17", "email": "ann@example.com" }).to_string()),
        "/token" => {
            let length = head.to_lowercase();
            let length = length.split("content-length: ").nth(1).expect("a length");
            let length = length.split("\r\n").next().expect("a line").parse().expect("a number");
            let form = String::from_utf8(peer.read_exactly(length)).expect("text");
            let basic = format!("Basic {}", STANDARD.encode("shop:sesame%20open"));
            let mut state = state();
            assert_eq!(head.contains(&basic), !state.is_public, "{head}");
            let lower = head.to_lowercase();
            assert_eq!(lower.contains("\r\nauthorization:"), !state.is_public, "{head}");
            assert_eq!(form.contains("client_id=shop"), state.is_public, "{form}");
            assert!(!form.contains("client_secret"), "{form}");
            state.forms.push(form.clone());
            if state.lie == Lie::Hangs {
                drop(state);
                // The client closes the connection.
                peer.read_until_gone();
                return;
            }
            tokens(&mut state, &form, key, other)
        }
        _ => (404, "{}".to_owned()),
    };
    let length = body.len();
    let fields = format!("content-type: application/json\r\ncontent-length: {length}\r\n");
    peer.send(format!("HTTP/1.1 {status} X\r\n{fields}\r\n{body}"));
}

fn metadata(issuer: &str) -> Value {
    json!({
        "issuer": issuer,
        "authorization_endpoint": format!("{issuer}/auth"),
        "token_endpoint": format!("{issuer}/token"),
        "jwks_uri": format!("{issuer}/keys"),
        "userinfo_endpoint": format!("{issuer}/userinfo"),
        "end_session_endpoint": format!("{issuer}/end"),
    })
}

fn tokens(state: &mut ProviderState, form: &str, key: &KeyPair, other: &KeyPair) -> (u16, String) {
    let refused = (400, json!({ "error": "invalid_grant" }).to_string());
    let nonce = match form.contains("grant_type=refresh_token") {
        true => None,
        false => match state.codes.remove(&field(form, "code")) {
            // RFC 7636 4.6.
            Some((nonce, challenge)) => {
                let verifier = field(form, "code_verifier");
                let hashed = URL_SAFE_NO_PAD.encode(Sha256::digest(verifier.as_bytes()));
                if hashed != challenge || verifier.len() < 43 {
                    return refused;
                }
                Some(nonce)
            }
            // Used before, or of no login.
            None => return refused,
        },
    };
    match state.lie {
        Lie::InvalidGrant => return refused,
        Lie::Status500 => return (500, "{}".to_owned()),
        Lie::NoJson => return (200, "<html>".to_owned()),
        Lie::TooLong => return (200, format!("{{\"x\":\"{}\"}}", "x".repeat(300_000))),
        _ => {}
    }
    let access_token = "access-1";
    let mut tokens = json!({
        "access_token": access_token,
        "token_type": "Bearer",
        "expires_in": state.expires_in,
        "refresh_token": format!("refresh-{}", state.forms.len()),
    });
    if state.lie != Lie::NoIdToken {
        let claims = claims(state, nonce.as_deref());
        let key = if state.lie == Lie::OtherKey { other } else { key };
        tokens["id_token"] = signed(&claims, key, state.lie == Lie::Unsigned).into();
    }
    (200, tokens.to_string())
}

fn claims(state: &ProviderState, nonce: Option<&str>) -> Value {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970").as_secs();
    let mut claims = json!({
        "iss": state.issuer, "aud": "shop", "sub": "a-17", "iat": now, "exp": now + 300,
        "name": "x".repeat(state.name_length),
    });
    if let Some(nonce) = nonce {
        claims["nonce"] = nonce.into();
    }
    match state.lie {
        Lie::Nonce => claims["nonce"] = "another".into(),
        Lie::Issuer => claims["iss"] = "https://evil.example".into(),
        Lie::Audience => claims["aud"] = "another".into(),
        Lie::Party => claims["azp"] = "another".into(),
        Lie::Expired => claims["exp"] = (now - 3600).into(),
        Lie::AccessTokenHash => claims["at_hash"] = "AAAAAAAAAAAAAAAAAAAAAA".into(),
        Lie::NoSubject => claims["sub"] = Value::Null,
        _ => {}
    }
    claims
}

fn signed(claims: &Value, key: &KeyPair, unsigned: bool) -> String {
    let algorithm = if unsigned { "none" } else { "EdDSA" };
    let header = json!({ "alg": algorithm, "kid": "1" }).to_string();
    let encode = |text: &str| URL_SAFE_NO_PAD.encode(text);
    let signed = format!("{}.{}", encode(&header), encode(&claims.to_string()));
    let signature = match unsigned {
        true => Vec::new(),
        false => key.sign(signed.as_bytes()).expect("a signature"),
    };
    format!("{signed}.{}", URL_SAFE_NO_PAD.encode(signature))
}

/// A field of a form or a query, decoded where it has escapes of ASCII.
pub(super) fn field(form: &str, name: &str) -> String {
    let value = form.split(['?', '&']).find_map(|pair| pair.strip_prefix(&format!("{name}=")));
    let mut parts = value.unwrap_or_default().split('%');
    let first = parts.next().unwrap_or_default().to_owned();
    parts.fold(first, |text, part| {
        let byte = u8::from_str_radix(&part[..2], 16).expect("an escape");
        text + &char::from(byte).to_string() + &part[2..]
    })
}

/// A browser: it stores cookies and sends them.
#[derive(Clone, Default)]
pub(super) struct Browser {
    pub(super) cookies: BTreeMap<String, String>,
}

impl Browser {
    pub(super) fn get(&mut self, server: &Tidegate, target: &str) -> HttpResponse {
        self.send(server, &format!("GET {target}"), "accept: text/html\r\n")
    }

    pub(super) fn send(&mut self, server: &Tidegate, line: &str, fields: &str) -> HttpResponse {
        let cookies: Vec<String> =
            self.cookies.iter().map(|(name, value)| format!("{name}={value}")).collect();
        let cookie = match cookies.is_empty() {
            true => String::new(),
            false => format!("cookie: {}\r\n", cookies.join("; ")),
        };
        let head = format!("{line} HTTP/1.1\r\nhost: shop.test\r\ncontent-length: 0\r\n");
        let response = server.exchange("web", format!("{head}{cookie}{fields}\r\n"));
        for field in response.all("set-cookie") {
            let (pair, attributes) = field.split_once("; ").expect("attributes");
            let (name, value) = pair.split_once('=').expect("a value");
            assert!(name.starts_with("__Host-"), "{field}");
            assert!(attributes.starts_with("Path=/; Max-Age="), "{field}");
            assert!(attributes.ends_with("; Secure; HttpOnly; SameSite=Lax"), "{field}");
            match attributes.starts_with("Path=/; Max-Age=0;") {
                true => self.cookies.remove(name),
                false => self.cookies.insert(name.to_owned(), value.to_owned()),
            };
        }
        response
    }

    /// The page that a login leads to, and the target of the callback that the provider makes of
    /// it.
    pub(super) fn begin(&mut self, server: &Tidegate, provider: &Provider, target: &str) -> String {
        let response = self.get(server, target);
        assert_eq!(response.status, 302, "{}", response.text());
        assert_eq!(response.header("cache-control"), Some("no-store"));
        let location = response.header("location").expect("a location").to_owned();
        assert!(location.starts_with(&format!("{}/auth?", provider.issuer())), "{location}");
        assert_eq!(field(&location, "redirect_uri"), "http://shop.test/oidc/callback");
        assert_eq!(field(&location, "code_challenge_method"), "S256");
        assert_eq!(field(&location, "code_challenge").len(), 43);
        let (nonce, challenge) = (field(&location, "nonce"), field(&location, "code_challenge"));
        let code = provider.log_in(&nonce, &challenge);
        format!("/oidc/callback?code={code}&state={}", field(&location, "state"))
    }

    /// Logs in, and returns the response to the callback.
    pub(super) fn log_in(
        &mut self,
        server: &Tidegate,
        provider: &Provider,
        target: &str,
    ) -> HttpResponse {
        let callback = self.begin(server, provider, target);
        self.get(server, &callback)
    }
}
