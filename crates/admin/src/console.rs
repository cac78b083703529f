//! The console: a page for browsers over the admin API.
//!
//! Owns the files of the page, which `make console` writes from `console/`, and the policy under
//! which a browser runs them: no other script, no style and no resource of another origin. Promises
//! that a response holds nothing that a client has sent.

use std::sync::OnceLock;

use coding::Coding;
use message::{Request, Response};
use settings::nearest;
use wire::Known;
use wire::negotiate::accepts_coding;

use crate::messages::ApiResult;
use crate::problem::Problem;

const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; \
                      connect-src 'self'; base-uri 'none'; form-action 'none'; \
                      frame-ancestors 'none'; require-trusted-types-for 'script'; \
                      trusted-types 'none'";
const GZIP_LEVEL: u32 = 9;

/// A file of the console.
struct ConsoleFile {
    name: &'static str,
    media_type: &'static str,
    content: &'static str,
    /// Compressed at the first request.
    gzip: OnceLock<Option<Vec<u8>>>,
}

impl ConsoleFile {
    const fn new(name: &'static str, media_type: &'static str, content: &'static str) -> Self {
        Self { name, media_type, content, gzip: OnceLock::new() }
    }

    fn response(&'static self, request: &Request) -> Response {
        let gzip = || coding::encode_all(Coding::Gzip, GZIP_LEVEL, self.content.as_bytes()).ok();
        let accepted = accepts_coding(request.headers.get(Known::AcceptEncoding), "gzip");
        let compressed = accepted.then(|| self.gzip.get_or_init(gzip).as_deref()).flatten();
        let mut response = Response::new(200);
        let headers = &mut response.headers;
        headers.append(Known::ContentType, self.media_type);
        headers.append(Known::Vary, "Accept-Encoding");
        headers.append(Known::ContentSecurityPolicy, POLICY);
        headers.append("cross-origin-opener-policy", "same-origin");
        headers.append("cross-origin-resource-policy", "same-origin");
        headers.append("referrer-policy", "no-referrer");
        response.body = match compressed {
            Some(bytes) => {
                headers.append(Known::ContentEncoding, "gzip");
                bytes::Bytes::from_static(bytes).into()
            }
            None => self.content.into(),
        };
        response
    }
}

static PAGE: ConsoleFile =
    ConsoleFile::new("", "text/html; charset=utf-8", include_str!("console/index.html"));

static FILES: [ConsoleFile; 4] = [
    ConsoleFile::new(
        "console.js",
        "text/javascript; charset=utf-8",
        include_str!("console/console.js"),
    ),
    ConsoleFile::new("console.css", "text/css; charset=utf-8", include_str!("console/console.css")),
    ConsoleFile::new("icon.svg", "image/svg+xml", include_str!("console/icon.svg")),
    ConsoleFile::new(
        "licenses.txt",
        "text/plain; charset=utf-8",
        include_str!("console/licenses.txt"),
    ),
];

/// The page; a path without the slash at its end is redirected, because the page names its files
/// relative to it. `/` is too, but not for ever: another program may have this port later.
pub(crate) fn page(request: &Request) -> Response {
    let status = match request.target.path() {
        "/" => 307,
        "/console" => 308,
        _ => return PAGE.response(request),
    };
    let mut response = Response::new(status);
    response.headers.append(Known::Location, "/console/");
    response
}

pub(crate) fn file(name: &str, request: &Request) -> ApiResult {
    match FILES.iter().find(|file| file.name == name) {
        Some(file) => Ok(file.response(request)),
        None => {
            let problem = Problem::new(404, "the console has no such file");
            Err(match nearest(name, FILES.iter().map(|file| file.name)) {
                Some(near) => problem.advice(format!("did you mean /console/{near}?")),
                None => problem,
            })
        }
    }
}

pub(crate) fn off() -> Problem {
    Problem::new(404, "the console is off").advice("set `admin.console: true`")
}

#[cfg(test)]
mod tests {
    use super::{FILES, PAGE};

    #[test]
    fn the_page_has_no_script_and_no_style_of_its_own_and_names_only_files_that_exist() {
        let page = PAGE.content;
        for word in ["<style", "style=", "onload=", "onclick=", "javascript:", "http:", "https:"] {
            assert!(!page.contains(word), "{word}");
        }
        assert_eq!(page.matches("<script").count(), page.matches("<script src=\"").count());
        let quoted = |attribute: &str| {
            let parts = page.split(attribute).skip(1);
            parts.map(|part| part.split('"').next().unwrap()).collect::<Vec<_>>()
        };
        let named = [quoted("src=\""), quoted("href=\"")].concat();
        assert!(named.len() >= 3, "{named:?}");
        for name in named {
            assert!(FILES.iter().any(|file| file.name == name), "{name}");
        }
    }

    #[test]
    fn the_files_are_small_enough_for_a_first_view() {
        let files = FILES.iter().filter(|file| file.name != "licenses.txt").chain([&PAGE]);
        let bytes: usize = files
            .map(|file| {
                let gzip = coding::encode_all(coding::Coding::Gzip, 9, file.content.as_bytes());
                gzip.unwrap().len()
            })
            .sum();
        assert!(bytes <= 150 * 1024, "{bytes} bytes with gzip");
    }
}
