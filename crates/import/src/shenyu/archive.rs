//! The documents of an export: the files of the admin's ZIP archive, or the JSON that the admin
//! serves to gateways.
//!
//! Reads the central directory of the archive (APPNOTE 4.3), because Java writes sizes after the
//! content. Promises to read no more than [`FILE_BYTES`] per file, whatever the archive claims.

use coding::Inflater;
use serde_json::Value;

/// The largest file of an archive, decompressed.
const FILE_BYTES: usize = 64 << 20;
/// The most files in an archive.
const FILES: usize = 64;

const END_OF_DIRECTORY: &[u8] = b"PK\x05\x06";
const DIRECTORY_ENTRY: &[u8] = b"PK\x01\x02";
const STORED: usize = 0;
const DEFLATED: usize = 8;

/// A list of objects with the file that it comes from.
pub(super) struct Document {
    pub(super) file: String,
    pub(super) objects: Vec<Value>,
}

/// Returns the documents of an export.
pub(super) fn documents(content: &[u8], from: &str) -> Result<Vec<Document>, String> {
    if content.starts_with(b"PK") {
        let files = files(content).map_err(|error| format!("{from}: {error}"))?;
        return files.into_iter().map(|(name, content)| document(&name, &content)).collect();
    }
    let root: Value =
        serde_json::from_slice(content).map_err(|error| format!("{from}: {error}"))?;
    // `/configs/fetch` of the admin: `data` has a group for each kind of object.
    let groups = match &root["data"] {
        Value::Object(groups) => groups,
        _ => root
            .as_object()
            .ok_or_else(|| format!("{from} is not a map of configuration groups"))?,
    };
    let documents = groups.iter().filter_map(|(group, content)| {
        let objects = content.get("data").unwrap_or(content).as_array()?;
        let file = match &**group {
            "APP_AUTH" => "auth.json".to_owned(),
            "META_DATA" => "meta.json".to_owned(),
            "DISCOVER_UPSTREAM" => "discovery_upstream.json".to_owned(),
            group => format!("{}.json", group.to_lowercase()),
        };
        Some(Document { file, objects: objects.clone() })
    });
    Ok(documents.collect())
}

fn document(name: &str, content: &[u8]) -> Result<Document, String> {
    let value: Value =
        serde_json::from_slice(content).map_err(|error| format!("{name}: {error}"))?;
    let Value::Array(objects) = value else { return Err(format!("{name} is not a list")) };
    Ok(Document { file: name.to_owned(), objects })
}

/// The files of an archive, with their names.
fn files(archive: &[u8]) -> Result<Vec<(String, Vec<u8>)>, String> {
    let end = archive.windows(4).rposition(|bytes| bytes == END_OF_DIRECTORY);
    let end = end.ok_or("the archive has no directory: it is cut off or not a ZIP file")?;
    let damaged = || "the directory of the archive is damaged".to_owned();
    let count = number(archive, end + 10, 2).ok_or_else(damaged)?;
    let mut at = number(archive, end + 16, 4).ok_or_else(damaged)?;
    if count > FILES {
        return Err(format!("the archive has more than {FILES} files"));
    }
    let mut files = Vec::new();
    for _ in 0..count {
        let field = |offset, length| number(archive, at + offset, length).ok_or_else(damaged);
        if archive.get(at..at + 4) != Some(DIRECTORY_ENTRY) {
            return Err(damaged());
        }
        let (name, extra, comment) = (field(28, 2)?, field(30, 2)?, field(32, 2)?);
        let file_name = archive.get(at + 46..at + 46 + name).ok_or_else(damaged)?;
        let file_name = String::from_utf8_lossy(file_name).into_owned();
        if file_name.ends_with(".json") {
            let content = content(archive, field(42, 4)?, field(20, 4)?, field(10, 2)?)
                .map_err(|error| format!("{file_name}: {error}"))?;
            files.push((file_name, content));
        }
        at += 46 + name + extra + comment;
    }
    Ok(files)
}

/// The content of the file whose local header begins at `at`.
fn content(archive: &[u8], at: usize, length: usize, method: usize) -> Result<Vec<u8>, String> {
    let header = |offset| number(archive, at + offset, 2).ok_or("the file is damaged");
    let begin = at + 30 + header(26)? + header(28)?;
    let packed = archive.get(begin..begin + length).ok_or("the file is damaged")?;
    match method {
        STORED if length <= FILE_BYTES => Ok(packed.to_vec()),
        DEFLATED => Inflater::new()
            .message(packed, FILE_BYTES)
            .map_err(|error| format!("the file cannot be decompressed: {error}")),
        STORED => Err("the file is too large".to_owned()),
        _ => Err(format!("the compression method {method} is not supported")),
    }
}

/// A little-endian number of the archive.
fn number(archive: &[u8], at: usize, length: usize) -> Option<usize> {
    let bytes = archive.get(at..at.checked_add(length)?)?;
    Some(bytes.iter().rev().fold(0, |sum, byte| sum << 8 | usize::from(*byte)))
}
