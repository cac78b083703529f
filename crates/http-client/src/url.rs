//! URLs of servers: where to connect to, and what to request there.
//!
//! Promises that a malformed URL is rejected with the reason, and that no part of a URL can inject
//! into the request: white space and control bytes are rejected.

use std::fmt;
use std::str::FromStr;

use message::Target;
use settings::{Node, Reader, Schema, SchemaBuilder, Setting};
use wire::authority::Authority;

/// An absolute URL, without its fragment.
#[derive(Clone, Debug)]
pub struct Url {
    /// True if its scheme is the one with TLS.
    pub is_secure: bool,
    /// The host, an IPv6 address without its brackets.
    pub host: String,
    pub port: u16,
    /// The value of `Host`: without the port if it is the default of the scheme.
    pub authority: String,
    pub target: Target,
}

impl Url {
    /// Reads `SCHEME://host[:port][/path][?query][#fragment]` with one of two schemes, of which
    /// `secure` is the one with TLS. The error is a sentence.
    pub fn parse(text: &str, plain: &str, secure: &str) -> Result<Url, String> {
        let (scheme, rest) =
            text.split_once("://").ok_or_else(|| format!("\"{text}\" is not a URL"))?;
        let is_secure = scheme.eq_ignore_ascii_case(secure);
        if !is_secure && !scheme.eq_ignore_ascii_case(plain) {
            return Err(format!("{plain}://… expected, not {scheme}://…"));
        }
        if text.bytes().any(|byte| byte <= b' ' || byte == 0x7f) {
            return Err("a URL holds no spaces and control characters".to_owned());
        }
        let rest = rest.split('#').next().unwrap_or_default();
        let end = rest.find(['/', '?']).unwrap_or(rest.len());
        let (authority, path) = rest.split_at(end);
        if authority.contains('@') {
            return Err("a user in a URL is not sent: set the authorization field".to_owned());
        }
        let parsed = Authority::parse(authority.as_bytes());
        let parsed = parsed.ok_or_else(|| flaw(authority))?;
        let host = String::from_utf8_lossy(parsed.bare_host()).into_owned();
        let default = if is_secure { 443 } else { 80 };
        let port = parsed.port.unwrap_or(default);
        let own = String::from_utf8_lossy(parsed.host).into_owned();
        let slash = if path.starts_with('/') { "" } else { "/" };
        let target = Target::new(format!("{slash}{path}").into())
            .map_err(|_| "the path of the URL is malformed".to_owned())?;
        let authority = if port == default { own } else { format!("{own}:{port}") };
        Ok(Url { is_secure, host, port, authority, target })
    }
}

/// Why an authority is malformed.
fn flaw(authority: &str) -> String {
    match authority.rsplit_once(':') {
        Some((host, port)) if Authority::parse(host.as_bytes()).is_some() => {
            format!("\"{port}\" is not a port")
        }
        _ => format!("\"{authority}\" is not a host"),
    }
}

/// A URL of `http` or `https`.
impl FromStr for Url {
    type Err = String;

    fn from_str(text: &str) -> Result<Url, String> {
        Url::parse(text, "http", "https")
    }
}

impl fmt::Display for Url {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scheme = if self.is_secure { "https" } else { "http" };
        let target = String::from_utf8_lossy(self.target.raw());
        write!(f, "{scheme}://{}{target}", self.authority)
    }
}

impl PartialEq for Url {
    fn eq(&self, other: &Url) -> bool {
        self.is_secure == other.is_secure
            && self.authority == other.authority
            && self.target.raw() == other.target.raw()
    }
}

impl Eq for Url {}

impl Setting for Url {
    fn schema(_: &mut SchemaBuilder) -> Schema {
        Schema::pattern("URL", "^[Hh][Tt][Tt][Pp][Ss]?://.+$")
    }

    fn read(node: &Node, reader: &mut Reader<'_>) -> Option<Self> {
        let what = "a URL such as https://id.example.com/keys";
        let scalar = reader.scalar(node, what)?;
        match scalar.text.parse() {
            Ok(url) => Some(url),
            Err(why) => {
                // A text from the environment is not shown.
                let why = if scalar.typed.is_some() { "it is not a URL".to_owned() } else { why };
                reader.error(node.span, why).help(format!("expected {what}"));
                None
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Url;

    #[test]
    fn parts_of_urls() {
        for (text, host, port, authority, target) in [
            ("http://a", "a", 80, "a", "/"),
            ("HTTP://a.example:80/x?y=1#z", "a.example", 80, "a.example", "/x?y=1"),
            ("http://[::1]:8080?q", "::1", 8080, "[::1]:8080", "/?q"),
            ("https://a", "a", 443, "a", "/"),
            ("https://a:80/", "a", 80, "a:80", "/"),
        ] {
            let url: Url = text.parse().unwrap();
            assert_eq!((&*url.host, url.port, &*url.authority), (host, port, authority));
            assert_eq!(url.target.raw(), target.as_bytes());
            assert_eq!(url.is_secure, text.starts_with("https"));
            let again = url.to_string().parse::<Url>();
            assert_eq!(again, Ok(url), "{text}");
        }
        assert_ne!("http://a".parse::<Url>(), "https://a".parse());
    }

    #[test]
    fn what_is_not_a_url_is_rejected() {
        for text in ["a", "/a", "ftp://a", "http://", "http://a b/", "http://a/\r\nx", "http://u@a"]
        {
            assert!(text.parse::<Url>().is_err(), "{text}");
        }
        for (text, why) in [
            ("http://a:99999/x", "\"99999\" is not a port"),
            ("http://[::1]:x", "\"x\" is not a port"),
            ("http://[::1", "\"[::1\" is not a host"),
            ("http://:80", "\":80\" is not a host"),
        ] {
            assert_eq!(text.parse::<Url>().unwrap_err(), why);
        }
    }
}
