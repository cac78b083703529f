//! Opens files beneath a directory and nowhere else.
//!
//! Owns the system calls of `files`. Guarantees that nothing outside the directory is opened,
//! whatever the path contains and whatever symbolic links it crosses, and that no pipe, device or
//! socket is opened: a path is inspected without opening it (O_PATH) first. On kernels with openat2
//! the kernel confines the lookup to the directory; elsewhere resolved paths are compared before
//! and after. Every function may block on the disk and belongs on the blocking pool, except
//! [`is_resident`].

use std::fs::{File, Metadata};
use std::io::{self, IoSliceMut};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Component, Path};

use rustix::io::Errno;

mod checked;
#[cfg(target_os = "linux")]
mod openat2;

/// Distance between samples of the page cache; the kernel reads ahead in windows of metadata this
/// size.
const RESIDENT_STEP_BYTES: u64 = 128 * 1024;
/// Bytes per read when warming a file.
const WARM_STEP_BYTES: usize = 64 * 1024;

/// How symbolic links are treated.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum SymlinkPolicy {
    /// Followed while they stay beneath the directory.
    Beneath,
    /// A path through a symbolic link counts as missing.
    Refused,
}

/// A path that was opened.
#[derive(Debug)]
pub enum OpenedPath {
    File(File, Metadata),
    Directory(Directory),
}

/// An open directory.
#[derive(Debug)]
pub struct Directory(File);

/// Why nothing was opened.
#[derive(Debug)]
pub enum OpenError {
    /// Nothing exists there, or it lies outside the directory.
    Missing,
    /// The file system denies access.
    Denied,
    /// A pipe, a device or a socket.
    Special,
    Failed(io::Error),
}

impl From<io::Error> for OpenError {
    fn from(error: io::Error) -> OpenError {
        match Errno::from_io_error(&error) {
            // openat2 returns EXDEV for a path that leaves the directory.
            Some(Errno::NOENT | Errno::NOTDIR | Errno::NAMETOOLONG | Errno::LOOP | Errno::XDEV) => {
                OpenError::Missing
            }
            Some(Errno::ACCESS | Errno::PERM) => OpenError::Denied,
            Some(Errno::NXIO) => OpenError::Special,
            _ => OpenError::Failed(error),
        }
    }
}

/// Opens `relative` beneath `root`. The root is resolved on every call, so that a replaced
/// directory takes effect.
pub fn open_beneath(
    root: &Path,
    relative: &Path,
    links: SymlinkPolicy,
) -> Result<OpenedPath, OpenError> {
    let relative = only_names(relative)?;
    #[cfg(target_os = "linux")]
    if openat2::available() {
        return openat2::open(root, relative, links);
    }
    checked::open(root, relative, links)
}

/// Returns the metadata of what [`open_beneath`] would open, without opening it.
pub fn metadata_beneath(
    root: &Path,
    relative: &Path,
    links: SymlinkPolicy,
) -> Result<Metadata, OpenError> {
    let relative = only_names(relative)?;
    #[cfg(target_os = "linux")]
    if openat2::available() {
        return openat2::metadata(root, relative, links);
    }
    checked::metadata(root, relative, links)
}

/// Accepts names only: no `..`, no leading `/`, no NUL.
fn only_names(relative: &Path) -> Result<&Path, OpenError> {
    let names_only = relative.components().all(|part| matches!(part, Component::Normal(_)));
    if !names_only || relative.as_os_str().as_encoded_bytes().contains(&0) {
        return Err(OpenError::Missing);
    }
    Ok(if relative.as_os_str().is_empty() { Path::new(".") } else { relative })
}

/// True if both describe the same content of the same file.
pub fn is_same(one: &Metadata, other: &Metadata) -> bool {
    let of = |metadata: &Metadata| {
        (
            (metadata.dev(), metadata.ino(), metadata.size()),
            (metadata.mtime(), metadata.mtime_nsec(), metadata.ctime(), metadata.ctime_nsec()),
        )
    };
    of(one) == of(other)
}

impl Directory {
    /// Returns the names in the directory with their metadata, at most `limit`, in no order.
    /// Symbolic links are not followed.
    pub fn entries(&self, limit: usize) -> io::Result<Vec<(std::ffi::OsString, Metadata)>> {
        use std::os::fd::AsRawFd;
        // Through the descriptor: by now the directory's name may refer to another one.
        let entries = std::fs::read_dir(format!("/proc/self/fd/{}", self.0.as_raw_fd()))?;
        let mut found = Vec::new();
        for entry in entries.take(limit) {
            let entry = entry?;
            // An entry that has disappeared since is skipped.
            if let Ok(metadata) = entry.metadata() {
                found.push((entry.file_name(), metadata));
            }
        }
        Ok(found)
    }

    pub fn metadata(&self) -> io::Result<Metadata> {
        self.0.metadata()
    }
}

/// True if a part of a file can be read without waiting for a disk. Checks samples; a file system
/// that cannot tell counts as fast. False if the file has become shorter than the part, or cannot
/// be read.
#[cfg(target_os = "linux")]
pub fn is_resident(file: &File, offset: u64, length: u64) -> bool {
    use rustix::io::{ReadWriteFlags, preadv2};
    let Some(last) = length.checked_sub(1) else { return true };
    let mut samples = (0..length).step_by(RESIDENT_STEP_BYTES as usize).chain([last]);
    samples.all(|at| {
        let mut byte = [0];
        let mut parts = [IoSliceMut::new(&mut byte)];
        let read = preadv2(file, &mut parts, offset + at, ReadWriteFlags::NOWAIT);
        match read {
            Ok(length) => length > 0,
            // EINVAL and ENOSYS: kernels that do not know the call or its flag.
            Err(error) => matches!(error, Errno::OPNOTSUPP | Errno::INVAL | Errno::NOSYS),
        }
    })
}

#[cfg(not(target_os = "linux"))]
pub fn is_resident(_file: &File, _offset: u64, _length: u64) -> bool {
    true
}

/// Reads a part of a file into the page cache, so that [`is_resident`] is true afterwards. A file
/// that is shorter is read to its end.
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
