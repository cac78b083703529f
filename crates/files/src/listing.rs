//! Directory listings, as HTML and JSON.
//!
//! Everything from the file system is escaped: file names may come from uploads.

use std::fmt::Write;
use std::fs::Metadata;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use message::{Headers, Response};
use net::files::{Directory, metadata_beneath};
use plugin::variables::escape_markup;
use wire::date::format_http_date;
use wire::{Known, negotiate, target};

use crate::limits::LISTED_NAMES;
use crate::record::Files;

/// An entry of a listing.
#[derive(Debug)]
pub(crate) struct Item {
    name: String,
    is_directory: bool,
    size: u64,
    modified_secs: u64,
}

/// The entries of the directory at `path` relative to the root; directories first, by name. Blocks.
pub(crate) fn items(files: &Files, directory: &Directory, path: &Path) -> io::Result<Vec<Item>> {
    let mut items = Vec::new();
    for (name, about) in directory.entries(LISTED_NAMES)? {
        // A name that is not UTF-8 cannot be requested.
        let Ok(name) = name.into_string() else { continue };
        if name.starts_with('.') && !files.dotfiles {
            continue;
        }
        // What a link leads to, if following it is allowed.
        let about = match about.is_symlink() {
            true => metadata_beneath(&files.root, &path.join(&name), files.links()).ok(),
            false => Some(about),
        };
        items.extend(about.and_then(|about| Item::new(name, &about)));
    }
    items.sort_by(|a, b| (!a.is_directory, &a.name).cmp(&(!b.is_directory, &b.name)));
    Ok(items)
}

impl Item {
    fn new(name: String, about: &Metadata) -> Option<Item> {
        let is_directory = about.is_dir();
        let modified_secs = u64::try_from(about.mtime()).unwrap_or(0);
        let shown = is_directory || about.is_file();
        let size = if is_directory { 0 } else { about.len() };
        shown.then_some(Item { name, is_directory, size, modified_secs })
    }

    /// A relative reference that can only mean this name: after `./` a colon begins no scheme.
    fn href(&self) -> String {
        let mut href = b"./".to_vec();
        target::encode_path(self.name.replace('%', "%25").as_bytes(), &mut href);
        if self.is_directory {
            href.push(b'/');
        }
        String::from_utf8_lossy(&href).into_owned()
    }

    fn modified(&self) -> String {
        String::from_utf8_lossy(&format_http_date(self.modified_secs)).into_owned()
    }
}

/// The listing in the media type that Accept prefers.
pub(crate) fn response(path: &str, items: &[Item], headers: &Headers) -> Response {
    let accept = headers.joined(Known::Accept);
    let offers = ["text/html", "application/json"];
    let mut response = match negotiate::choose_media_type(accept.as_deref(), &offers) {
        Some(1) => Response::json(200, json(items)),
        _ => Response::with_body(200, "text/html; charset=utf-8", html(path, items)),
    };
    response.headers.append(Known::Vary, "Accept");
    response.headers.append(Known::CacheControl, "no-cache");
    response
}

fn json(items: &[Item]) -> String {
    let items = items.iter().map(|item| {
        serde_json::json!({
            "name": item.name,
            "type": if item.is_directory { "directory" } else { "file" },
            "size": item.size,
            "modified": item.modified(),
        })
    });
    serde_json::Value::from_iter(items).to_string()
}

fn html(path: &str, items: &[Item]) -> String {
    let title = escaped(path);
    let mut page = format!(
        "<!doctype html>\n<html lang=\"en\"><meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width\">\n<title>{title}</title>\n\
         <h1>{title}</h1>\n<table>\n"
    );
    if path != "/" {
        page.push_str("<tr><td><a href=\"../\">../</a></td></tr>\n");
    }
    for item in items {
        let slash = if item.is_directory { "/" } else { "" };
        let size = if item.is_directory { String::new() } else { item.size.to_string() };
        // Writing to a String does not fail.
        let _ = writeln!(
            page,
            "<tr><td><a href=\"{}\">{}{slash}</a></td><td>{size}</td><td>{}</td></tr>",
            escaped(&item.href()),
            escaped(&item.name),
            item.modified(),
        );
    }
    page.push_str("</table></html>\n");
    page
}

fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    escape_markup(text, &mut out);
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn item(name: &str, is_directory: bool) -> Item {
        Item { name: name.to_owned(), is_directory, size: 3, modified_secs: 0 }
    }

    #[test]
    fn names_are_escaped() {
        let page = html("/<up>/", &[item("\"><script>alert('x')</script>", false)]);
        assert!(!page.contains("<script") && !page.contains("<up>"), "{page}");
        assert!(page.contains("&quot;&gt;&lt;script&gt;alert(&#39;x&#39;)&lt;/script&gt;"));
        for (name, is_directory, href) in [
            ("a b", false, "./a%20b"),
            ("javascript:x", false, "./javascript:x"),
            ("100%", false, "./100%25"),
            ("a?b#c", true, "./a%3Fb%23c/"),
            ("\u{e9}", false, "./%C3%A9"),
        ] {
            assert_eq!(item(name, is_directory).href(), href);
        }
    }

    #[test]
    fn accept_chooses_the_media_type() {
        let items = [item("a", true), item("b", false)];
        let as_type = |accept: &str| {
            let mut headers = Headers::new();
            headers.append(Known::Accept, accept);
            let response = response("/", &items, &headers);
            response.headers.get_str(Known::ContentType).unwrap().to_owned()
        };
        assert_eq!(as_type("*/*"), "text/html; charset=utf-8");
        assert_eq!(as_type("application/json"), "application/json");
        assert_eq!(as_type("application/json;q=0.1, text/html"), "text/html; charset=utf-8");
        let parsed: serde_json::Value = serde_json::from_str(&json(&items)).unwrap();
        assert_eq!(parsed[0]["type"], "directory");
        assert_eq!(parsed[1]["size"], 3);
    }
}
