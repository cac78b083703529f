//! The lookup of Linux 5.6 and later: openat2 with RESOLVE_BENEATH, one call without a race.

use std::fs::{File, Metadata};
use std::io;
use std::os::fd::AsFd;
use std::path::Path;
use std::sync::OnceLock;

use rustix::fs::{CWD, Mode, OFlags, ResolveFlags, openat, openat2};
use rustix::io::Errno;

use super::{Directory, OpenError, OpenedPath, SymlinkPolicy};

/// Attempts of a lookup that races with a rename (EAGAIN, openat2(2)).
const ATTEMPTS: usize = 8;

/// Inspects without opening: activates no device and does not wait for the other end of a pipe.
const INSPECT: OFlags = OFlags::PATH.union(OFlags::CLOEXEC);
/// O_NONBLOCK in case the regular file has been replaced in between.
const READ: OFlags =
    OFlags::RDONLY.union(OFlags::CLOEXEC).union(OFlags::NONBLOCK).union(OFlags::NOCTTY);

/// True if the kernel has the call and no sandbox forbids it.
pub(super) fn available() -> bool {
    static AVAILABLE: OnceLock<bool> = OnceLock::new();
    *AVAILABLE.get_or_init(|| lookup(CWD, Path::new("."), INSPECT, SymlinkPolicy::Beneath).is_ok())
}

pub(super) fn open(
    root: &Path,
    relative: &Path,
    links: SymlinkPolicy,
) -> Result<OpenedPath, OpenError> {
    let root = directory(root)?;
    let metadata = lookup(&root, relative, INSPECT, links)?.metadata()?;
    if !metadata.is_file() && !metadata.is_dir() {
        return Err(OpenError::Special);
    }
    let file = lookup(&root, relative, READ, links)?;
    let metadata = file.metadata()?;
    match (metadata.is_file(), metadata.is_dir()) {
        (true, _) => Ok(OpenedPath::File(file, metadata)),
        (_, true) => Ok(OpenedPath::Directory(Directory(file))),
        _ => Err(OpenError::Special),
    }
}

pub(super) fn metadata(
    root: &Path,
    relative: &Path,
    links: SymlinkPolicy,
) -> Result<Metadata, OpenError> {
    Ok(lookup(&directory(root)?, relative, INSPECT, links)?.metadata()?)
}

fn directory(root: &Path) -> io::Result<File> {
    Ok(openat(CWD, root, INSPECT | OFlags::DIRECTORY, Mode::empty())?.into())
}

fn lookup(
    root: impl AsFd,
    relative: &Path,
    flags: OFlags,
    links: SymlinkPolicy,
) -> io::Result<File> {
    let mut resolve = ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS;
    if links == SymlinkPolicy::Refused {
        resolve |= ResolveFlags::NO_SYMLINKS;
    }
    for _ in 0..ATTEMPTS {
        match openat2(&root, relative, flags, Mode::empty(), resolve) {
            Ok(file) => return Ok(file.into()),
            Err(Errno::AGAIN | Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Err(Errno::NOENT.into())
}
