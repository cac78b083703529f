//! A login in progress: what is remembered between sending a browser to the provider and its
//! return.
//!
//! Owns the parameters of the authorization request and the checks of the response to it (RFC 6749
//! 4.1, RFC 7636, RFC 9207, OpenID Connect Core 3.1.2). Promises that each login has a state, a
//! nonce and a verifier of its own, in a cookie of its own, so that several tabs log in at a time;
//! and that a return URL leads to this origin.

use aws_lc_rs::rand;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use message::{Fault, FaultKind, Request};
use plugin::variables::query;
use serde::{Deserialize, Serialize};
use subtle::ConstantTimeEq;
use wire::Known;

use super::cookie::{self, CookieKeys};
use super::provider::Metadata;
use crate::credential::digest;
use crate::form_client::form_of;

/// How long a user may take to log in.
const LOGIN_S: u64 = 600;
/// Logins that a browser may have in progress.
const LOGINS_MAX: usize = 8;
/// The longest URL that a login returns to.
const RETURN_BYTES_MAX: usize = 2048;
/// Characters of the state that the name of its cookie has.
const ID_CHARS: usize = 12;
/// Logins within a minute after which the next one is an error: the browser does not send the
/// session back.
const ATTEMPTS_MAX: u32 = 5;
const ATTEMPTS_S: u64 = 60;

/// A login in progress, as its cookie holds it.
#[derive(Serialize, Deserialize)]
pub(super) struct Login {
    state: String,
    pub(super) nonce: String,
    pub(super) verifier: String,
    pub(super) return_to: String,
    begun_s: u64,
}

/// The logins of a browser within the last minute.
#[derive(Default, Serialize, Deserialize)]
struct Attempts {
    since_s: u64,
    count: u32,
}

/// Random text of 256 bits.
pub(super) fn random() -> Result<String, Fault> {
    let mut bytes = [0; 32];
    rand::fill(&mut bytes).map_err(|_| Fault::internal("the system has no random numbers"))?;
    Ok(URL_SAFE_NO_PAD.encode(bytes))
}

impl Login {
    pub(super) fn begin(request: &Request, now_s: u64) -> Result<Login, Fault> {
        let (state, nonce, verifier) = (random()?, random()?, random()?);
        Ok(Login { state, nonce, verifier, return_to: return_to(request), begun_s: now_s })
    }

    /// The URL at the provider to which the browser is sent.
    pub(super) fn url(
        &self,
        metadata: &Metadata,
        client_id: &str,
        redirect_uri: &str,
        scope: &str,
    ) -> String {
        let challenge = URL_SAFE_NO_PAD.encode(digest(self.verifier.as_bytes()));
        let form = form_of(&[
            ("response_type", "code"),
            ("client_id", client_id),
            ("redirect_uri", redirect_uri),
            ("scope", scope),
            ("state", &self.state),
            ("nonce", &self.nonce),
            ("code_challenge", &challenge),
            ("code_challenge_method", "S256"),
        ]);
        let joint = if metadata.authorization.contains('?') { '&' } else { '?' };
        format!("{}{joint}{form}", metadata.authorization)
    }

    /// Set-Cookie fields that remember it. The oldest of too many others is forgotten.
    pub(super) fn remember(
        &self,
        request: &Request,
        name: &str,
        keys: &CookieKeys,
    ) -> Option<Vec<String>> {
        let mut fields = Vec::new();
        let others = logins(request, name);
        if others.len() >= LOGINS_MAX {
            let begun = |other: &String| {
                let login = open(request, other, keys);
                login.map_or(0, |login| login.begun_s)
            };
            fields.extend(
                others.iter().min_by_key(|other| begun(other)).map(|oldest| expire(oldest)),
            );
        }
        let name = cookie_name(name, &self.state)?;
        let sealed = keys.seal(&name, serde_json::to_vec(self).ok()?)?;
        fields.push(cookie::set(&name, &sealed, LOGIN_S));
        Some(fields)
    }

    /// The login that a response of the provider belongs to, and the name of its cookie.
    pub(super) fn returned(
        request: &Request,
        name: &str,
        keys: &CookieKeys,
        now_s: u64,
    ) -> Option<(Login, String)> {
        let state = parameter(request, "state")?;
        let name = cookie_name(name, &state)?;
        let login = open(request, &name, keys)?;
        let is_same: bool = login.state.as_bytes().ct_eq(state.as_bytes()).into();
        (is_same && now_s < login.begun_s + LOGIN_S).then_some((login, name))
    }
}

/// A Set-Cookie field that forgets a login.
pub(super) fn expire(cookie_name: &str) -> String {
    cookie::set(cookie_name, "", 0)
}

/// The code of a response of the provider.
pub(super) fn code(request: &Request, issuer: &str, names_issuer: bool) -> Result<String, Fault> {
    let fail = |why: &'static str| Fault::new(FaultKind::Forbidden, why);
    match parameter(request, "iss") {
        // RFC 9207 2.4: the response of another provider is not for the token end point of this.
        Some(named) if named != issuer => Err(fail("the response is of another provider")),
        None if names_issuer => Err(fail("the response does not name its provider")),
        _ if parameter(request, "error").is_some() => {
            Err(fail("the identity provider refused the login"))
        }
        _ => parameter(request, "code").ok_or_else(|| fail("the response has no code")),
    }
}

/// A query parameter that is there once.
pub(super) fn parameter(request: &Request, name: &str) -> Option<String> {
    let mut values = query(request, name);
    let (Some(value), None) = (values.next(), values.next()) else { return None };
    String::from_utf8(value.into_owned()).ok()
}

/// The cookie of a login; a state that was not made here has none.
fn cookie_name(name: &str, state: &str) -> Option<String> {
    let id = state.get(..ID_CHARS)?;
    let is_ours = id.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_".contains(&byte));
    is_ours.then(|| format!("{name}.login.{id}"))
}

/// The names of the cookies of logins in progress.
fn logins(request: &Request, name: &str) -> Vec<String> {
    let prefix = format!("{name}.login.");
    let pairs = request.headers.get_all(Known::Cookie).flat_map(wire::cookie::pairs);
    let names = pairs.filter(|(name, _)| name.starts_with(prefix.as_bytes()));
    names.filter_map(|(name, _)| String::from_utf8(name.to_vec()).ok()).collect()
}

fn open(request: &Request, name: &str, keys: &CookieKeys) -> Option<Login> {
    let value = plugin::variables::cookies(request, name).next()?;
    serde_json::from_slice(&keys.open(name, value)?).ok()
}

/// The path and the query of the request, as a reference that stays on this origin: one that begins
/// with two slashes would name a host, and browsers take a backslash for a slash.
fn return_to(request: &Request) -> String {
    let target = String::from_utf8_lossy(request.target.raw());
    let names_host = target[1..].starts_with(['/', '\\']);
    let is_ours = target.starts_with('/') && !names_host && target.len() <= RETURN_BYTES_MAX;
    if is_ours { target.into_owned() } else { "/".to_owned() }
}

fn attempts_name(name: &str) -> String {
    format!("{name}.attempts")
}

fn attempts(request: &Request, name: &str, keys: &CookieKeys, now_s: u64) -> Attempts {
    let name = attempts_name(name);
    let value = plugin::variables::cookies(request, &name).next();
    let opened = value.and_then(|value| keys.open(&name, value));
    let attempts = opened.and_then(|plain| serde_json::from_slice(&plain).ok());
    let recent = attempts.filter(|known: &Attempts| now_s < known.since_s + ATTEMPTS_S);
    recent.unwrap_or(Attempts { since_s: now_s, count: 0 })
}

/// True if the browser has logged in repeatedly: it does not return its session cookie.
pub(super) fn is_loop(request: &Request, name: &str, keys: &CookieKeys, now_s: u64) -> bool {
    attempts(request, name, keys, now_s).count >= ATTEMPTS_MAX
}

/// A Set-Cookie field that counts a login.
pub(super) fn count_attempt(
    request: &Request,
    name: &str,
    keys: &CookieKeys,
    now_s: u64,
) -> Option<String> {
    let mut attempts = attempts(request, name, keys, now_s);
    attempts.count += 1;
    let name = attempts_name(name);
    let sealed = keys.seal(&name, serde_json::to_vec(&attempts).ok()?)?;
    Some(cookie::set(&name, &sealed, ATTEMPTS_S))
}

#[cfg(test)]
mod tests {
    use plugin::testing::get;

    use super::*;

    const NAME: &str = "__Host-s";

    fn keys() -> CookieKeys {
        CookieKeys::new([&[1_u8; 32][..]].into_iter(), "p".to_owned())
    }

    /// A request with the cookies of these fields.
    fn with(target: &str, fields: &[String]) -> Request {
        let pairs: Vec<&str> =
            fields.iter().filter_map(|field| field.split_once(';')).map(|(pair, _)| pair).collect();
        get(target, &[("cookie", &pairs.join("; "))])
    }

    #[test]
    fn a_login_returns_with_its_state_and_its_cookie_within_ten_minutes() {
        let (keys, request) = (keys(), get("/page?x=1", &[]));
        let one = Login::begin(&request, 0).unwrap();
        let other = Login::begin(&request, 0).unwrap();
        let mut fields = one.remember(&request, NAME, &keys).unwrap();
        fields.extend(other.remember(&request, NAME, &keys).unwrap());
        let callback = |state: &str| with(&format!("/callback?state={state}&code=c"), &fields);
        for login in [&one, &other] {
            let request = callback(&login.state);
            let (found, _) = Login::returned(&request, NAME, &keys, LOGIN_S - 1).unwrap();
            assert_eq!((found.nonce, found.return_to.as_str()), (login.nonce.clone(), "/page?x=1"));
            assert!(Login::returned(&request, NAME, &keys, LOGIN_S).is_none());
        }
        let mixed = format!("{}{}", &one.state[..ID_CHARS], &other.state[ID_CHARS..]);
        for state in
            [mixed.as_str(), "", "x", "%C3%A4%C3%A4%C3%A4%C3%A4%C3%A4%C3%A4", ";;;;;;;;;;;;;;"]
        {
            assert!(Login::returned(&callback(state), NAME, &keys, 1).is_none(), "{state}");
        }
        let twice = with(&format!("/callback?state={0}&state={0}", one.state), &fields);
        assert!(Login::returned(&twice, NAME, &keys, 1).is_none());
        let without = get(&format!("/callback?state={}", one.state), &[]);
        assert!(Login::returned(&without, NAME, &keys, 1).is_none());
    }

    #[test]
    fn the_oldest_of_too_many_logins_is_forgotten() {
        let keys = keys();
        let mut fields: Vec<String> = Vec::new();
        for second in 1..=LOGINS_MAX as u64 {
            let login = Login::begin(&get("/", &[]), second).unwrap();
            fields.extend(login.remember(&with("/", &fields), NAME, &keys).unwrap());
        }
        assert_eq!(fields.len(), LOGINS_MAX);
        let more = Login::begin(&get("/", &[]), 99).unwrap();
        let set = more.remember(&with("/", &fields), NAME, &keys).unwrap();
        assert_eq!(set.len(), 2);
        let oldest = fields[0].split('=').next().unwrap();
        assert!(set[0].starts_with(&format!("{oldest}=; Path=/; Max-Age=0;")), "{set:?}");
    }

    #[test]
    fn a_return_url_stays_on_this_origin() {
        for (target, expected) in [
            ("/", "/"),
            ("/a/b?next=//evil.example", "/a/b?next=//evil.example"),
            // A path has no empty first part.
            ("//evil.example/", "/evil.example/"),
            ("/\\evil.example/", "/"),
        ] {
            let Ok(target) = message::Target::new(target.into()) else { continue };
            let mut request = get("/", &[]);
            request.target = target;
            assert_eq!(return_to(&request), expected);
        }
        let long = format!("/{}", "x".repeat(RETURN_BYTES_MAX));
        assert_eq!(return_to(&get(&long, &[])), "/");
    }

    #[test]
    fn the_response_of_another_provider_is_rejected() {
        let issuer = "https://id.example";
        for (query, names_issuer, accepted) in [
            ("code=c", false, true),
            ("code=c&iss=https%3A%2F%2Fid.example", false, true),
            ("code=c&iss=https%3A%2F%2Fid.example", true, true),
            ("code=c", true, false),
            ("code=c&iss=https%3A%2F%2Fevil.example", false, false),
            ("error=access_denied&iss=https%3A%2F%2Fid.example", true, false),
            ("code=c&error=access_denied", false, false),
            ("code=c&code=d", false, false),
            ("", false, false),
        ] {
            let request = get(&format!("/callback?{query}"), &[]);
            let code = code(&request, issuer, names_issuer);
            assert_eq!(code.is_ok(), accepted, "{query}");
        }
    }

    #[test]
    fn logins_again_and_again_are_a_loop() {
        let keys = keys();
        let mut request = get("/", &[]);
        for _ in 0..ATTEMPTS_MAX {
            assert!(!is_loop(&request, NAME, &keys, 0));
            request = with("/", &[count_attempt(&request, NAME, &keys, 0).unwrap()]);
        }
        assert!(is_loop(&request, NAME, &keys, ATTEMPTS_S - 1));
        assert!(!is_loop(&request, NAME, &keys, ATTEMPTS_S));
    }
}
