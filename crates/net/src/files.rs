//! Opening files beneath a folder and nowhere else.
//!
//! Owns the system calls of `files`. Promises that nothing outside the folder is ever opened,
//! whatever the path says and whatever symbolic links lie in it, and that neither a pipe nor a
//! device nor a socket is opened at all: a path is looked at without opening it (O_PATH) first. On
//! kernels with openat2 the kernel itself keeps the walk beneath the folder; elsewhere resolved
//! paths are compared before and after. Everything here may wait for a disk, so it runs on the
//! blocking pool, except [`is_resident`].

use std::fs::{File, Metadata};
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Component, Path};

mod checked;
#[cfg(target_os = "linux")]
mod openat2;

/// Bytes between two looks at the page cache; the kernel reads ahead in windows of about this size.
const RESIDENT_STEP_BYTES: u64 = 128 * 1024;
/// Bytes read at once to warm a file up.
const WARM_STEP_BYTES: usize = 64 * 1024;

/// What becomes of symbolic links.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum SymlinkPolicy {
    /// Followed while they stay beneath the folder.
    Beneath,
    /// A path through one is missing.
    Refused,
}

/// What lies at a path.
#[derive(Debug)]
pub enum OpenedPath {
    File(File, Metadata),
    Directory(Directory),
}

/// An open folder.
#[derive(Debug)]
pub struct Directory(File);

/// Why nothing was opened.
#[derive(Debug)]
pub enum OpenError {
    /// There is nothing, or it lies outside the folder.
    Missing,
    /// The file system does not let us.
    Denied,
    /// A pipe, a device or a socket.
    Special,
    Failed(io::Error),
}

impl From<io::Error> for OpenError {
    fn from(error: io::Error) -> OpenError {
        match error.raw_os_error() {
            // EXDEV is openat2's word for a path that leaves the folder.
            Some(libc::ENOENT | libc::ENOTDIR | libc::ENAMETOOLONG | libc::ELOOP | libc::EXDEV) => {
                OpenError::Missing
            }
            Some(libc::EACCES | libc::EPERM) => OpenError::Denied,
            Some(libc::ENXIO) => OpenError::Special,
            _ => OpenError::Failed(error),
        }
    }
}

/// Opens what lies at `relative` beneath `root`. The root itself is looked up anew each time, so
/// that a folder which was replaced as a whole is the new one.
pub fn open_beneath(
    root: &Path,
    relative: &Path,
    links: SymlinkPolicy,
) -> Result<OpenedPath, OpenError> {
    let relative = plain(relative)?;
    #[cfg(target_os = "linux")]
    if openat2::available() {
        return openat2::open(root, relative, links);
    }
    checked::open(root, relative, links)
}

/// What [`open_beneath`] would find, without opening it.
pub fn metadata_beneath(
    root: &Path,
    relative: &Path,
    links: SymlinkPolicy,
) -> Result<Metadata, OpenError> {
    let relative = plain(relative)?;
    #[cfg(target_os = "linux")]
    if openat2::available() {
        return openat2::look(root, relative, links);
    }
    checked::look(root, relative, links)
}

/// Only names: no `..`, no `/` in front, no NUL.
fn plain(relative: &Path) -> Result<&Path, OpenError> {
    let names_only = relative.components().all(|part| matches!(part, Component::Normal(_)));
    if !names_only || relative.as_os_str().as_encoded_bytes().contains(&0) {
        return Err(OpenError::Missing);
    }
    Ok(if relative.as_os_str().is_empty() { Path::new(".") } else { relative })
}

/// Whether two looks saw the same content of the same file.
pub fn is_same(one: &Metadata, other: &Metadata) -> bool {
    let of = |about: &Metadata| {
        (
            (about.dev(), about.ino(), about.size()),
            (about.mtime(), about.mtime_nsec(), about.ctime(), about.ctime_nsec()),
        )
    };
    of(one) == of(other)
}

impl Directory {
    /// The names in it, and what each is; `limit` at most, in no order. Symbolic links count as
    /// what they are, not as what they lead to.
    pub fn entries(&self, limit: usize) -> io::Result<Vec<(std::ffi::OsString, Metadata)>> {
        use std::os::fd::AsRawFd;
        // Through the descriptor: the folder's name may mean another one by now.
        let entries = std::fs::read_dir(format!("/proc/self/fd/{}", self.0.as_raw_fd()))?;
        let mut found = Vec::new();
        for entry in entries.take(limit) {
            let entry = entry?;
            // What has gone since is no entry.
            if let Ok(about) = entry.metadata() {
                found.push((entry.file_name(), about));
            }
        }
        Ok(found)
    }

    pub fn metadata(&self) -> io::Result<Metadata> {
        self.0.metadata()
    }
}

/// Whether a part of a file can be read without waiting for a disk. Looks at samples; a file system
/// that cannot tell counts as fast.
#[cfg(target_os = "linux")]
pub fn is_resident(file: &File, offset: u64, length: u64) -> bool {
    use std::os::fd::AsRawFd;
    let Some(last) = length.checked_sub(1) else { return true };
    let mut samples = (0..length).step_by(RESIDENT_STEP_BYTES as usize).chain([last]);
    samples.all(|at| {
        let mut byte = 0u8;
        let place = libc::iovec { iov_base: (&raw mut byte).cast(), iov_len: 1 };
        let at = i64::try_from(offset + at).unwrap_or(i64::MAX);
        // SAFETY: the descriptor is open, the vector names one byte on this stack frame.
        let read =
            unsafe { libc::preadv2(file.as_raw_fd(), &raw const place, 1, at, libc::RWF_NOWAIT) };
        read >= 0 || io::Error::last_os_error().raw_os_error() != Some(libc::EAGAIN)
    })
}

#[cfg(not(target_os = "linux"))]
pub fn is_resident(_file: &File, _offset: u64, _length: u64) -> bool {
    true
}

/// Reads a part of a file so that [`is_resident`] holds afterwards.
pub fn warm(file: &File, offset: u64, length: u64) -> io::Result<()> {
    let mut scratch = vec![0u8; WARM_STEP_BYTES.min(usize::try_from(length).unwrap_or(usize::MAX))];
    let mut at = offset;
    while at < offset + length {
        match file.read_at(&mut scratch, at)? {
            0 => break,
            read => at += read as u64,
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests;
