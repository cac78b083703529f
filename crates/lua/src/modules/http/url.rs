//! URLs of requests: where to, and what to ask for.
//!
//! Promises that what is not understood is refused with the reason, and that nothing of a URL can
//! become anything but the target it stands for: white space and control bytes are refused.

use exchange::Target;
use wire::authority::Authority;

#[derive(Debug)]
pub(in crate::modules) struct Url {
    pub(in crate::modules) host: String,
    pub(in crate::modules) port: u16,
    /// What Host says: without the port where it is the scheme's own.
    pub(in crate::modules) authority: String,
    pub(in crate::modules) target: Target,
}

/// Reads `SCHEME://host[:port][/path][?query][#fragment]`, where `scheme` is the one that is served
/// and `later` the one that needs TLS.
pub(in crate::modules) fn parse(text: &str, scheme: &str, later: &str) -> Result<Url, String> {
    let (given, rest) = text.split_once("://").ok_or_else(|| format!("\"{text}\" is no URL"))?;
    if given.eq_ignore_ascii_case(later) {
        return Err(format!("{later} comes in a later version: TLS is not built in yet"));
    }
    if !given.eq_ignore_ascii_case(scheme) {
        return Err(format!("{scheme}://… expected, not {given}://…"));
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
    let parsed = parsed.ok_or_else(|| format!("\"{authority}\" is no host"))?;
    let host = String::from_utf8_lossy(parsed.bare_host()).into_owned();
    let port = parsed.port.unwrap_or(80);
    let own = String::from_utf8_lossy(parsed.host).into_owned();
    let slash = if path.starts_with('/') { "" } else { "/" };
    let target = Target::new(format!("{slash}{path}").into())
        .map_err(|_| "the path of the URL is malformed".to_owned())?;
    let authority = if port == 80 { own } else { format!("{own}:{port}") };
    Ok(Url { host, port, authority, target })
}

#[cfg(test)]
mod tests {
    use super::parse;

    fn parts(text: &str) -> (String, u16, String, Vec<u8>) {
        let url = parse(text, "http", "https").unwrap();
        (url.host, url.port, url.authority, url.target.raw().to_vec())
    }

    #[test]
    fn parts_of_urls() {
        for (text, host, port, authority, target) in [
            ("http://a", "a", 80, "a", "/"),
            ("HTTP://a.example:80/x?y=1#z", "a.example", 80, "a.example", "/x?y=1"),
            ("http://[::1]:8080?q", "::1", 8080, "[::1]:8080", "/?q"),
        ] {
            let expected = (host.into(), port, authority.into(), target.as_bytes().to_vec());
            assert_eq!(parts(text), expected);
        }
    }

    #[test]
    fn what_is_no_url_is_refused() {
        for text in ["a", "/a", "ftp://a", "http://", "http://a b/", "http://a/\r\nx", "http://u@a"]
        {
            assert!(parse(text, "http", "https").is_err(), "{text}");
        }
        assert!(parse("https://a", "http", "https").unwrap_err().contains("later"));
    }
}
