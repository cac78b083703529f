//! URLs of requests: server and target.
//!
//! Promises that a malformed URL is rejected with the reason, and that no part of a URL can inject
//! into the request: white space and control bytes are rejected.

use message::Target;
use wire::authority::Authority;

#[derive(Debug)]
pub(crate) struct Url {
    pub(crate) host: String,
    pub(crate) port: u16,
    /// The value of Host: without the port if it is the scheme's default.
    pub(crate) authority: String,
    pub(crate) target: Target,
}

/// Reads `SCHEME://host[:port][/path][?query][#fragment]`, where `scheme` is supported and `later`
/// needs TLS.
pub(crate) fn parse(text: &str, scheme: &str, later: &str) -> Result<Url, String> {
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

/// The URL of the redirect `location` in the response to `from` (RFC 9110 10.2.2, RFC 3986 5.2),
/// and whether it is of the same origin.
pub(crate) fn follow(
    from: &str,
    location: &str,
    scheme: &str,
    later: &str,
) -> Result<(String, bool), String> {
    let base = parse(from, scheme, later)?;
    let location = location.split('#').next().unwrap_or_default();
    let names_scheme = location.split_once("://").is_some_and(|(scheme, _)| {
        !scheme.is_empty() && scheme.bytes().all(|byte| byte.is_ascii_alphanumeric())
    });
    let to = if names_scheme {
        location.to_owned()
    } else if location.starts_with("//") {
        format!("{scheme}:{location}")
    } else {
        let path = String::from_utf8_lossy(base.target.raw_path()).into_owned();
        let query = base.target.query().map(|query| String::from_utf8_lossy(query).into_owned());
        let raw = match location.bytes().next() {
            None => [path, query.map(|query| format!("?{query}")).unwrap_or_default()].concat(),
            Some(b'?') => path + location,
            Some(b'/') => without_dots(location),
            Some(_) => {
                let folder = path.rfind('/').map_or("/", |end| &path[..=end]);
                without_dots(&[folder, location].concat())
            }
        };
        format!("{scheme}://{}{raw}", base.authority)
    };
    let led = parse(&to, scheme, later)?;
    let same = led.host.eq_ignore_ascii_case(&base.host) && led.port == base.port;
    Ok((to, same))
}

/// RFC 3986 5.2.4, of a path that begins with a slash; a query must have been removed.
fn without_dots(target: &str) -> String {
    let (path, query) = target.split_at(target.find('?').unwrap_or(target.len()));
    let mut kept: Vec<&str> = Vec::new();
    let mut segments = path.split('/').skip(1).peekable();
    while let Some(segment) = segments.next() {
        let last = segments.peek().is_none();
        match segment {
            ".." | "." => {
                if segment == ".." {
                    kept.pop();
                }
                if last {
                    kept.push("");
                }
            }
            _ => kept.push(segment),
        }
    }
    format!("/{}{query}", kept.join("/"))
}

#[cfg(test)]
mod tests {
    use super::{follow, parse};

    #[test]
    fn locations_lead_where_they_say() {
        for (location, to, same) in [
            ("http://b/x", "http://b/x", false),
            ("HTTP://A.example:80/x", "HTTP://A.example:80/x", true),
            ("http://a.example:81/", "http://a.example:81/", false),
            ("//b", "http://b", false),
            ("/y?z#f", "http://a.example/y?z", true),
            ("c", "http://a.example/one/c", true),
            ("../c/./d/..", "http://a.example/c/", true),
            ("../../../c", "http://a.example/c", true),
            ("?r", "http://a.example/one/two?r", true),
            ("", "http://a.example/one/two?q=://", true),
            ("c?d=http://e", "http://a.example/one/c?d=http://e", true),
        ] {
            let led = follow("http://a.example/one/two?q=://", location, "http", "https");
            assert_eq!(led, Ok((to.to_owned(), same)), "{location}");
        }
        for location in ["https://a/", "ftp://a/", "http://", "/a b"] {
            assert!(follow("http://a/", location, "http", "https").is_err(), "{location}");
        }
    }

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
