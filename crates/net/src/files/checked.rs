//! The lookup without openat2: resolve, compare, open, and compare again.
//!
//! A process that may rename directories inside the served one can still win a race between two
//! checks; hence only the fallback.

use std::fs::{Metadata, OpenOptions};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use rustix::fs::OFlags;

use super::{Directory, OpenError, OpenedPath, SymlinkPolicy, is_same};

pub(super) fn open(
    root: &Path,
    relative: &Path,
    links: SymlinkPolicy,
) -> Result<OpenedPath, OpenError> {
    let path = resolve(root, relative, links)?;
    let expected = std::fs::symlink_metadata(&path)?;
    if !expected.is_file() && !expected.is_dir() {
        return Err(OpenError::Special);
    }
    let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY;
    let file = OpenOptions::new().read(true).custom_flags(flags.bits() as i32).open(&path)?;
    let metadata = file.metadata()?;
    if !is_same(&expected, &metadata) || resolve(root, relative, links)? != path {
        return Err(OpenError::Missing);
    }
    Ok(match metadata.is_dir() {
        true => OpenedPath::Directory(Directory(file)),
        false => OpenedPath::File(file, metadata),
    })
}

pub(super) fn metadata(
    root: &Path,
    relative: &Path,
    links: SymlinkPolicy,
) -> Result<Metadata, OpenError> {
    Ok(std::fs::symlink_metadata(resolve(root, relative, links)?)?)
}

fn resolve(root: &Path, relative: &Path, links: SymlinkPolicy) -> Result<PathBuf, OpenError> {
    let root = root.canonicalize()?;
    let straight = match relative == Path::new(".") {
        true => root.clone(),
        false => root.join(relative),
    };
    let path = straight.canonicalize()?;
    let allowed = match links {
        SymlinkPolicy::Beneath => path.starts_with(&root),
        SymlinkPolicy::Refused => path == straight,
    };
    if allowed { Ok(path) } else { Err(OpenError::Missing) }
}
