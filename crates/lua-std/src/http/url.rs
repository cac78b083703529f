//! URLs of scripts' requests, and where a redirect leads.

use http_client::Url;

/// The URL of the redirect `location` in the response to `from` (RFC 9110 10.2.2, RFC 3986 5.2),
/// and whether it is of the same origin.
pub(crate) fn follow(from: &str, location: &str) -> Result<(String, bool), String> {
    let base: Url = from.parse()?;
    let scheme = if base.is_secure { "https" } else { "http" };
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
    let led: Url = to.parse()?;
    let same = led.host.eq_ignore_ascii_case(&base.host)
        && (led.is_secure, led.port) == (base.is_secure, base.port);
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
    use super::follow;

    #[test]
    fn locations_lead_where_they_say() {
        for (location, to, same) in [
            ("http://b/x", "http://b/x", false),
            ("HTTP://A.example:80/x", "HTTP://A.example:80/x", true),
            ("http://a.example:81/", "http://a.example:81/", false),
            ("https://a.example:80/", "https://a.example:80/", false),
            ("//b", "http://b", false),
            ("/y?z#f", "http://a.example/y?z", true),
            ("c", "http://a.example/one/c", true),
            ("../c/./d/..", "http://a.example/c/", true),
            ("../../../c", "http://a.example/c", true),
            ("?r", "http://a.example/one/two?r", true),
            ("", "http://a.example/one/two?q=://", true),
            ("c?d=http://e", "http://a.example/one/c?d=http://e", true),
        ] {
            let led = follow("http://a.example/one/two?q=://", location);
            assert_eq!(led, Ok((to.to_owned(), same)), "{location}");
        }
        let secure = follow("https://a.example/one", "//a.example/two");
        assert_eq!(secure, Ok(("https://a.example/two".to_owned(), true)));
        for location in ["ftp://a/", "http://", "/a b"] {
            assert!(follow("http://a/", location).is_err(), "{location}");
        }
    }
}
