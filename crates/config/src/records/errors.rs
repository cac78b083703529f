//! `errors`: what clients are shown instead of the plain answer to a fault.

use std::collections::BTreeMap;

use settings::{Node, Reader, Schema, SchemaBuilder, Setting, Value, quote};

use crate::limits::ERROR_PAGE_BYTES;

/// Pages by status.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ErrorSettings(pub BTreeMap<u16, ErrorPageSettings>);

/// The body of an error's response, read from its file when the configuration is.
#[derive(Clone, Debug, PartialEq)]
pub struct ErrorPageSettings {
    pub content_type: String,
    pub body: Vec<u8>,
}

/// An error page.
#[derive(Clone, Debug, PartialEq, Setting)]
#[setting(short = file)]
struct ErrorPageFile {
    /// The file that holds the body.
    #[setting(example = "sorry.html")]
    pub file: settings::Spanned<String>,
    /// Its media type; by default that of the file extension.
    #[setting(example = "text/html; charset=utf-8")]
    pub content_type: Option<String>,
}

impl Setting for ErrorSettings {
    fn schema(defs: &mut SchemaBuilder) -> Schema {
        Schema::Map(Box::new(ErrorPageFile::schema(defs)))
    }

    fn read(node: &Node, reader: &mut Reader<'_>) -> Option<Self> {
        let entries: &[_] = match &node.value {
            Value::Map(entries) => entries,
            Value::Null => &[],
            _ => {
                reader.expected(node, "a map from statuses to pages");
                return None;
            }
        };
        let mut pages = BTreeMap::new();
        for (key, node) in entries {
            let page = page(node, reader);
            match key.name.parse::<u16>() {
                Ok(status @ 400..=599) if key.name.len() == 3 => {
                    pages.extend(page.map(|page| (status, page)));
                }
                _ => {
                    let shown = quote(&key.name);
                    reader
                        .error(key.span, format!("{shown} is not the status of an error"))
                        .help("statuses of errors are 400 to 599");
                }
            }
        }
        Some(ErrorSettings(pages))
    }
}

fn page(node: &Node, reader: &mut Reader<'_>) -> Option<ErrorPageSettings> {
    let settings = ErrorPageFile::read(node, reader)?;
    let path = std::path::Path::new(&settings.file.value);
    let Some(content_type) = settings.content_type.or_else(|| media_type(path)) else {
        reader
            .error(settings.file.span, "the ending of this file says no media type")
            .help("add content_type");
        return None;
    };
    let valid = |c: char| c == ' ' || c.is_ascii_graphic();
    if content_type.is_empty() || !content_type.chars().all(valid) {
        reader.error(node.span, "content_type is not a media type");
        return None;
    }
    let body = reader.read_file(settings.file.span, path)?;
    if body.len() > ERROR_PAGE_BYTES {
        reader
            .error(settings.file.span, format!("the page is larger than {ERROR_PAGE_BYTES} bytes"));
        return None;
    }
    Some(ErrorPageSettings { content_type, body })
}

/// The few that error pages are made of.
fn media_type(path: &std::path::Path) -> Option<String> {
    let ending = path.extension()?.to_str()?;
    Some(match ending {
        "html" | "htm" => "text/html; charset=utf-8".to_owned(),
        "txt" => "text/plain; charset=utf-8".to_owned(),
        "json" => "application/json".to_owned(),
        "xml" => "application/xml".to_owned(),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use settings::{node, read};

    use super::ErrorSettings;

    #[test]
    fn pages_are_read_with_the_configuration() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("sorry.html");
        std::fs::write(&path, "<p>sorry").unwrap();
        let file = path.to_str().unwrap();
        let errors: ErrorSettings = read(&node!({ "502": { "file": file }, "404": file })).unwrap();
        assert_eq!(errors.0[&502], errors.0[&404]);
        assert_eq!(errors.0[&502].body, b"<p>sorry");
        assert_eq!(errors.0[&502].content_type, "text/html; charset=utf-8");
    }

    #[test]
    fn errors() {
        for (node, expected) in [
            (node!({ "200": "x.html" }), "\"200\" is not the status of an error"),
            (node!({ "5xx": "x.html" }), "is not the status of an error"),
            (node!({ "502": "none.html" }), "cannot read none.html"),
            (node!({ "502": "x.bin" }), "says no media type"),
            (node!({ "502": { "flie": "x.html" } }), "did you mean \"file\"?"),
            (node!([]), "expected a map from statuses"),
        ] {
            let out = read::<ErrorSettings>(&node).unwrap_err();
            assert!(out.contains(expected), "{out}\nwanted {expected}");
        }
    }
}
