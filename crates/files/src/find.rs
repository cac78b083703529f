//! Finds the file for the path of a request. Waits for the disk: runs on the blocking pool.

use std::ffi::OsStr;
use std::fs::{File, Metadata};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use coding::Coding;
use net::files::{Directory, OpenError, OpenedPath, open_beneath};

use crate::record::Files;
use crate::resource::{Probes, Resource};

/// A compressed file may be this much older than its source: archives and network file systems
/// round times.
const OLDER_SECS: i64 = 2;

/// What was found at a path.
#[derive(Debug)]
pub(crate) enum Located {
    Resource(Box<Resource>),
    /// A directory, requested without its final slash.
    NeedsSlash,
    /// A directory without an index, to be listed. The path is relative to the root.
    Listing(Directory, PathBuf),
}

/// Finds what is at `path`, which is in the normal form of `wire::target`.
pub(crate) fn find(files: &Files, path: &str) -> Result<Located, OpenError> {
    let relative = relative(path, files.dotfiles).ok_or(OpenError::Missing)?;
    if path.ends_with('/') {
        return find_in_directory(files, relative);
    }
    let name = relative.to_string_lossy();
    match open_beneath(&files.root, &relative, files.links())? {
        OpenedPath::Directory(_) => Ok(Located::NeedsSlash),
        OpenedPath::File(file, about) => {
            let mut probes = Probes::default();
            probes.record_path(&relative, Some(about.clone()));
            resource(files, &name, &relative, (file, about), probes)
        }
    }
}

/// Finds the file that is served for missing paths.
pub(crate) fn find_fallback(files: &Files) -> Result<Located, OpenError> {
    let spa = files.spa.as_deref().ok_or(OpenError::Missing)?;
    let relative = Path::new(spa);
    match open_beneath(&files.root, relative, files.links())? {
        OpenedPath::Directory(_) => Err(OpenError::Missing),
        OpenedPath::File(file, about) => {
            let mut probes = Probes::default();
            probes.record_path(relative, Some(about.clone()));
            resource(files, spa, relative, (file, about), probes)
        }
    }
}

fn find_in_directory(files: &Files, directory: PathBuf) -> Result<Located, OpenError> {
    let mut probes = Probes::default();
    for name in &files.index {
        let relative = directory.join(name);
        match open_beneath(&files.root, &relative, files.links()) {
            Ok(OpenedPath::File(file, about)) => {
                probes.record_path(&relative, Some(about.clone()));
                return resource(files, name, &relative, (file, about), probes);
            }
            Ok(OpenedPath::Directory(_)) | Err(OpenError::Missing) => {
                probes.record_path(&relative, None)
            }
            Err(refusal) => return Err(refusal),
        }
    }
    if !files.listing {
        return Err(OpenError::Missing);
    }
    match open_beneath(&files.root, &directory, files.links())? {
        OpenedPath::Directory(open) => Ok(Located::Listing(open, directory)),
        OpenedPath::File(..) => Err(OpenError::Missing),
    }
}

fn resource(
    files: &Files,
    name: &str,
    relative: &Path,
    found: (File, Metadata),
    mut probes: Probes,
) -> Result<Located, OpenError> {
    let mut coded = Vec::new();
    for precompressed in &files.precompressed {
        let coding = precompressed.coding();
        if let Some(neighbour) = precompressed_file(files, relative, &found.1, coding, &mut probes)
        {
            coded.push((coding, neighbour));
        }
    }
    let resource = Resource::new(name, found, coded, probes, files)?;
    Ok(Located::Resource(Box::new(resource)))
}

/// The same file in a content coding: `app.js.br` next to `app.js`.
fn precompressed_file(
    files: &Files,
    relative: &Path,
    source: &Metadata,
    coding: Coding,
    probes: &mut Probes,
) -> Option<(File, Metadata)> {
    let mut path = relative.as_os_str().to_owned();
    path.push(".");
    path.push(coding.extension());
    let path = Path::new(&path);
    match open_beneath(&files.root, path, files.links()) {
        Ok(OpenedPath::File(file, about)) => {
            probes.record_path(path, Some(about.clone()));
            // Left over from an older version of the file.
            let is_current = about.mtime() + OLDER_SECS >= source.mtime();
            is_current.then_some((file, about))
        }
        // Anything else in its place is not a reason not to send the file itself.
        _ => {
            probes.record_path(path, None);
            None
        }
    }
}

/// The path relative to the root; `None` if it names a hidden file or cannot be a name.
pub(crate) fn relative(path: &str, dotfiles: bool) -> Option<PathBuf> {
    // An encoded slash is not a separator in the path but would be one to the file system.
    let decoded = wire::target::decode_for_files(path.as_bytes()).ok()?;
    let mut relative = PathBuf::new();
    for name in decoded.split(|byte| *byte == b'/').filter(|name| !name.is_empty()) {
        let hidden = name[0] == b'.' && !dotfiles && name != b".well-known";
        if hidden || name == b"." || name == b".." || name.contains(&0) {
            return None;
        }
        relative.push(OsStr::from_bytes(name));
    }
    decoded.starts_with(b"/").then_some(relative)
}

#[cfg(test)]
mod tests {
    use super::relative;
    use std::path::Path;

    #[test]
    fn paths_are_names_beneath_the_root() {
        for (path, wanted) in [
            ("/", Some("")),
            ("/a/b.txt", Some("a/b.txt")),
            ("/a/b/", Some("a/b")),
            ("/a//b", Some("a/b")),
            ("/100%25", Some("100%")),
            ("/a\\..\\b", Some("a\\..\\b")),
            ("/.well-known/x", Some(".well-known/x")),
            ("/...", None),
            ("/.env", None),
            ("/a/.git/config", None),
            ("/..", None),
            ("/a/../b", None),
            ("/a%2Fb", None),
            ("/a%2f..%2fb", None),
            ("/a%00", None),
            ("/a\0", None),
            ("*", None),
            ("", None),
        ] {
            assert_eq!(relative(path, false).as_deref(), wanted.map(Path::new), "{path}");
        }
        assert_eq!(relative("/.env", true).as_deref(), Some(Path::new(".env")));
        assert_eq!(relative("/..", true), None);
    }
}
