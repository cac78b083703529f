//! The media type of a file name.
//!
//! Owns the table. Text is declared as UTF-8; the type of an unknown extension is
//! `application/octet-stream`, which a browser saves and never runs.

/// Extensions and types as the IANA registry and browsers have them, sorted by extension.
const TYPES: &[(&str, &str)] = &[
    ("7z", "application/x-7z-compressed"),
    ("aac", "audio/aac"),
    ("apng", "image/apng"),
    ("atom", "application/atom+xml"),
    ("avif", "image/avif"),
    ("avi", "video/x-msvideo"),
    ("bin", "application/octet-stream"),
    ("bmp", "image/bmp"),
    ("br", "application/octet-stream"),
    ("bz2", "application/x-bzip2"),
    ("cjs", "text/javascript"),
    ("css", "text/css"),
    ("csv", "text/csv"),
    ("doc", "application/msword"),
    ("docx", "application/vnd.openxmlformats-officedocument.wordprocessingml.document"),
    ("eot", "application/vnd.ms-fontobject"),
    ("epub", "application/epub+zip"),
    ("flac", "audio/flac"),
    ("gif", "image/gif"),
    ("glb", "model/gltf-binary"),
    ("gltf", "model/gltf+json"),
    ("gz", "application/gzip"),
    ("heic", "image/heic"),
    ("htm", "text/html"),
    ("html", "text/html"),
    ("ico", "image/vnd.microsoft.icon"),
    ("ics", "text/calendar"),
    ("jar", "application/java-archive"),
    ("jpeg", "image/jpeg"),
    ("jpg", "image/jpeg"),
    ("js", "text/javascript"),
    ("json", "application/json"),
    ("jsonld", "application/ld+json"),
    ("jxl", "image/jxl"),
    ("log", "text/plain"),
    ("m3u8", "application/vnd.apple.mpegurl"),
    ("m4a", "audio/mp4"),
    ("m4v", "video/mp4"),
    ("map", "application/json"),
    ("markdown", "text/markdown"),
    ("md", "text/markdown"),
    ("mjs", "text/javascript"),
    ("mkv", "video/matroska"),
    ("mov", "video/quicktime"),
    ("mp3", "audio/mpeg"),
    ("mp4", "video/mp4"),
    ("mpd", "application/dash+xml"),
    ("mpeg", "video/mpeg"),
    ("odp", "application/vnd.oasis.opendocument.presentation"),
    ("ods", "application/vnd.oasis.opendocument.spreadsheet"),
    ("odt", "application/vnd.oasis.opendocument.text"),
    ("oga", "audio/ogg"),
    ("ogg", "audio/ogg"),
    ("ogv", "video/ogg"),
    ("opus", "audio/ogg"),
    ("otf", "font/otf"),
    ("pdf", "application/pdf"),
    ("png", "image/png"),
    ("ppt", "application/vnd.ms-powerpoint"),
    ("pptx", "application/vnd.openxmlformats-officedocument.presentationml.presentation"),
    ("rar", "application/vnd.rar"),
    ("rss", "application/rss+xml"),
    ("rtf", "application/rtf"),
    ("sh", "text/plain"),
    ("svg", "image/svg+xml"),
    ("svgz", "image/svg+xml"),
    ("tar", "application/x-tar"),
    ("tif", "image/tiff"),
    ("tiff", "image/tiff"),
    ("toml", "application/toml"),
    ("ts", "video/mp2t"),
    ("ttf", "font/ttf"),
    ("txt", "text/plain"),
    ("vtt", "text/vtt"),
    ("wasm", "application/wasm"),
    ("wav", "audio/wav"),
    ("weba", "audio/webm"),
    ("webm", "video/webm"),
    ("webmanifest", "application/manifest+json"),
    ("webp", "image/webp"),
    ("woff", "font/woff"),
    ("woff2", "font/woff2"),
    ("xhtml", "application/xhtml+xml"),
    ("xls", "application/vnd.ms-excel"),
    ("xlsx", "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet"),
    ("xml", "application/xml"),
    ("xz", "application/x-xz"),
    ("yaml", "application/yaml"),
    ("yml", "application/yaml"),
    ("zip", "application/zip"),
    ("zst", "application/zstd"),
];

const UNKNOWN: &str = "application/octet-stream";

/// The extension of a file name, in lower case; a name with its only dot in front has none.
pub(crate) fn ending(name: &str) -> Option<String> {
    let (stem, ending) = name.rsplit('/').next()?.rsplit_once('.')?;
    (!stem.is_empty() && !ending.is_empty()).then(|| ending.to_ascii_lowercase())
}

/// The type of a file with this name.
pub(crate) fn of(name: &str) -> &'static str {
    let Some(ending) = ending(name) else { return UNKNOWN };
    TYPES.iter().find(|(known, _)| *known == ending).map_or(UNKNOWN, |(_, media_type)| media_type)
}

/// The value of Content-Type: text without a charset is declared as UTF-8.
pub(crate) fn content_type(media_type: &str) -> String {
    match media_type.starts_with("text/") && !media_type.contains(';') {
        true => format!("{media_type}; charset=utf-8"),
        false => media_type.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::{TYPES, content_type, of};

    #[test]
    fn the_table_names_each_ending_once() {
        let mut endings: Vec<_> = TYPES.iter().map(|(ending, _)| *ending).collect();
        endings.sort_unstable();
        endings.dedup();
        assert_eq!(endings.len(), TYPES.len());
        for (ending, media_type) in TYPES {
            assert!(ending.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit()));
            assert_eq!(media_type.matches('/').count(), 1, "{media_type}");
        }
    }

    #[test]
    fn names_have_types() {
        for (name, media_type) in [
            ("index.html", "text/html"),
            ("a/b.min.JS", "text/javascript"),
            ("a.tar.gz", "application/gzip"),
            ("dir.css/README", "application/octet-stream"),
            (".html", "application/octet-stream"),
            ("a.", "application/octet-stream"),
            ("a.unheard-of", "application/octet-stream"),
        ] {
            assert_eq!(of(name), media_type, "{name}");
        }
        assert_eq!(content_type("text/css"), "text/css; charset=utf-8");
        assert_eq!(content_type("text/css; charset=latin1"), "text/css; charset=latin1");
        assert_eq!(content_type("image/svg+xml"), "image/svg+xml");
    }
}
