//! Encrypted cookies: state that a client stores for the server and can neither read nor change.
//!
//! Promises that a cookie opens only under the name and for the purpose it was sealed for, with one
//! of the keys; that a value larger than one cookie is spread over several, of a bounded number;
//! and that every cookie has the prefix `__Host-`, so that no other host and no page in clear text
//! can set it (RFC 6265bis 4.1.3.2).

use aws_lc_rs::aead::{AES_256_GCM_SIV, Aad, NONCE_LEN, Nonce, RandomizedNonceKey};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use message::Request;
use plugin::variables::cookies;

use crate::credential::digest;
use crate::method::remove_cookies;

/// The longest value of one cookie: browsers store 4096 bytes with the name and the attributes.
const CHUNK_BYTES: usize = 3800;
/// Cookies that one value may be spread over.
const CHUNKS_MAX: usize = 5;
/// The shortest secret that keys are derived from.
pub(super) const SECRET_BYTES_MIN: usize = 32;

/// The keys of the cookies of one purpose. The first seals; all open.
pub(super) struct CookieKeys {
    keys: Vec<RandomizedNonceKey>,
    /// The purpose of the cookies: cookies sealed for one filter do not open for another.
    purpose: Box<str>,
}

impl CookieKeys {
    /// Derives keys from secrets that were checked to be long enough.
    pub(super) fn new<'s>(secrets: impl Iterator<Item = &'s [u8]>, purpose: String) -> CookieKeys {
        // Another digest of the same secret is of no use to find this one.
        let derived = secrets.map(|secret| digest(&[b"tidegate oidc cookie\0", secret].concat()));
        let keys = derived.filter_map(|key| RandomizedNonceKey::new(&AES_256_GCM_SIV, &key).ok());
        CookieKeys { keys: keys.collect(), purpose: purpose.into() }
    }

    fn context(&self, name: &str) -> Aad<Vec<u8>> {
        Aad::from([self.purpose.as_bytes(), b"\0", name.as_bytes()].concat())
    }

    /// The value of the cookie of this name; `None` if the system has no random numbers.
    pub(super) fn seal(&self, name: &str, plain: Vec<u8>) -> Option<String> {
        let mut sealed = plain;
        let key = self.keys.first()?;
        let nonce = key.seal_in_place_append_tag(self.context(name), &mut sealed).ok()?;
        Some(URL_SAFE_NO_PAD.encode([&nonce.as_ref()[..], &sealed].concat()))
    }

    /// Returns the content that was sealed under this name.
    pub(super) fn open(&self, name: &str, value: &[u8]) -> Option<Vec<u8>> {
        let sealed = URL_SAFE_NO_PAD.decode(value).ok()?;
        let (nonce, sealed) = sealed.split_at_checked(NONCE_LEN)?;
        self.keys.iter().find_map(|key| {
            let nonce = Nonce::try_assume_unique_for_key(nonce).ok()?;
            let mut sealed = sealed.to_vec();
            let plain = key.open_in_place(nonce, self.context(name), &mut sealed).ok()?;
            Some(plain.to_vec())
        })
    }
}

/// The name of a part of a value; the first has the name itself.
fn chunk_name(name: &str, at: usize) -> String {
    if at == 0 { name.to_owned() } else { format!("{name}.{at}") }
}

/// The value that cookies of a request hold together.
pub(super) fn joined(request: &Request, name: &str) -> Option<Vec<u8>> {
    let first = cookies(request, name).next()?;
    let (count, first) = (first.first()?, first.get(1..)?);
    let count = usize::from(count.checked_sub(b'0')?);
    if count == 0 || count > CHUNKS_MAX {
        return None;
    }
    let mut value = first.to_vec();
    for at in 1..count {
        value.extend_from_slice(cookies(request, &chunk_name(name, at)).next()?);
    }
    Some(value)
}

/// Which of the cookies of a value a request has.
#[derive(Clone, Copy)]
pub(super) struct HeldCookies([bool; CHUNKS_MAX]);

impl HeldCookies {
    pub(super) fn of(request: &Request, name: &str) -> HeldCookies {
        let held = |at| cookies(request, &chunk_name(name, at)).next().is_some();
        HeldCookies(std::array::from_fn(held))
    }

    /// Set-Cookie fields that store a value, and expire the cookies that a longer one had; `None`
    /// if it is too long.
    pub(super) fn replaced(self, name: &str, value: &str, max_age_s: u64) -> Option<Vec<String>> {
        let chunks: Vec<&[u8]> = value.as_bytes().chunks(CHUNK_BYTES).collect();
        if chunks.len() > CHUNKS_MAX {
            return None;
        }
        let mut fields = self.expired_from(name, chunks.len());
        for (at, chunk) in chunks.iter().enumerate() {
            let count = if at == 0 { chunks.len().to_string() } else { String::new() };
            let chunk = String::from_utf8_lossy(chunk);
            fields.push(set(&chunk_name(name, at), &format!("{count}{chunk}"), max_age_s));
        }
        Some(fields)
    }

    /// Set-Cookie fields that expire the value.
    pub(super) fn expired(self, name: &str) -> Vec<String> {
        self.expired_from(name, 0)
    }

    fn expired_from(self, name: &str, first: usize) -> Vec<String> {
        let held = (first..CHUNKS_MAX).filter(|at| self.0[*at]);
        held.map(|at| set(&chunk_name(name, at), "", 0)).collect()
    }
}

/// Removes the cookies of this name, and those whose name continues it with a dot, from a request.
pub(super) fn hide(request: &mut Request, name: &str) {
    let ours = |cookie: &[u8]| {
        let rest = cookie.strip_prefix(name.as_bytes());
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(b"."))
    };
    remove_cookies(request, ours);
}

/// A Set-Cookie field.
pub(super) fn set(name: &str, value: &str, max_age_s: u64) -> String {
    format!("{name}={value}; Path=/; Max-Age={max_age_s}; Secure; HttpOnly; SameSite=Lax")
}

#[cfg(test)]
mod tests {
    use plugin::testing::get;
    use wire::Known;

    use super::*;

    const SECRETS: [&[u8]; 2] = [&[1; 32], &[2; 32]];

    fn keys(secrets: &[&'static [u8]], purpose: &str) -> CookieKeys {
        CookieKeys::new(secrets.iter().copied(), purpose.to_owned())
    }

    #[test]
    fn a_cookie_opens_with_its_keys_name_and_purpose_only() {
        let shop = keys(&SECRETS, "shop");
        let sealed = shop.seal("a", b"plain".to_vec()).unwrap();
        assert!(sealed != shop.seal("a", b"plain".to_vec()).unwrap(), "a nonce is used twice");
        assert_eq!(shop.open("a", sealed.as_bytes()).as_deref(), Some(&b"plain"[..]));
        // The keys in rotation: the new one in front of the old one, then alone.
        let rotated = keys(&[SECRETS[1], SECRETS[0]], "shop");
        assert_eq!(rotated.open("a", sealed.as_bytes()).as_deref(), Some(&b"plain"[..]));
        let resealed = rotated.seal("a", b"plain".to_vec()).unwrap();
        let alone = keys(&SECRETS[1..], "shop");
        assert!(alone.open("a", resealed.as_bytes()).is_some());
        assert!(alone.open("a", sealed.as_bytes()).is_none());
        assert!(shop.open("b", sealed.as_bytes()).is_none());
        assert!(keys(&SECRETS, "docs").open("a", sealed.as_bytes()).is_none());
        for at in 0..sealed.len() {
            let mut altered = sealed.clone().into_bytes();
            altered[at] = if altered[at] == b'A' { b'B' } else { b'A' };
            assert_ne!(shop.open("a", &altered).as_deref(), Some(&b"other"[..]));
            // The last character has bits that belong to no byte.
            assert!(shop.open("a", &altered).is_none(), "byte {at}");
        }
        for odd in [&b""[..], b"AAAA", b"%%%", &[b'A'; 16], &[b'A'; 64]] {
            assert!(shop.open("a", odd).is_none());
        }
    }

    /// The request of a client that received these fields.
    fn client(fields: &[String]) -> Request {
        let pairs: Vec<&str> =
            fields.iter().filter_map(|field| field.split_once(';')).map(|(pair, _)| pair).collect();
        get("/", &[("cookie", &pairs.join("; "))])
    }

    #[test]
    fn a_long_value_takes_several_cookies_and_a_short_one_expires_the_others() {
        let long = "x".repeat(3 * CHUNK_BYTES - 1) + "y";
        let held = |request: &Request| HeldCookies::of(request, "__Host-s");
        let nothing = held(&get("/", &[]));
        let fields = nothing.replaced("__Host-s", &long, 60).unwrap();
        assert_eq!(fields.len(), 3);
        assert!(fields.iter().all(|field| field.len() < 4096));
        let mut browser = client(&fields);
        assert_eq!(joined(&browser, "__Host-s"), Some(long.into_bytes()));
        let fields = held(&browser).replaced("__Host-s", "short", 60).unwrap();
        let mut names: Vec<_> =
            fields.iter().map(|field| field.split('=').next().unwrap()).collect();
        names.sort_unstable();
        assert_eq!(names, ["__Host-s", "__Host-s.1", "__Host-s.2"]);
        let gone = fields.iter().filter(|field| field.contains("=; Path=/; Max-Age=0; Secure;"));
        assert_eq!(gone.count(), 2);
        assert_eq!(held(&browser).expired("__Host-s").len(), 3);
        assert!(nothing.expired("__Host-s").is_empty());
        let longer = "x".repeat(CHUNKS_MAX * CHUNK_BYTES + 1);
        assert!(nothing.replaced("__Host-s", &longer, 60).is_none());
        browser
            .headers
            .append("cookie", "__Host-s.login.x=1; __Host-sx=2;a=\"3\" ; b; =c; __Host-s");
        hide(&mut browser, "__Host-s");
        // Cookies of the application stay as they are.
        assert_eq!(
            browser.headers.joined(Known::Cookie).as_deref(),
            Some(&b"__Host-sx=2; a=\"3\"; b; =c; __Host-s"[..])
        );
        // A part is missing, or the count is odd.
        for cookie in
            ["__Host-s=2abc", "__Host-s=0abc", "__Host-s=9abc", "__Host-s=xabc", "__Host-s="]
        {
            assert_eq!(joined(&get("/", &[("cookie", cookie)]), "__Host-s"), None, "{cookie}");
        }
    }
}
