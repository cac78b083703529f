//! The walk as Linux 5.6 and later does it: RESOLVE_BENEATH, one call, no race.

use std::ffi::CString;
use std::fs::{File, Metadata};
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, RawFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::OnceLock;

use super::{Directory, OpenError, OpenedPath, SymlinkPolicy};

/// How often a walk that raced with a rename is begun again (EAGAIN, openat2(2)).
const ATTEMPTS: usize = 8;

/// Looks, without opening: no device is woken, no pipe waits for its other end.
const LOOK: libc::c_int = libc::O_PATH | libc::O_CLOEXEC;
/// O_NONBLOCK for what replaced the regular file in between.
const READ: libc::c_int = libc::O_RDONLY | libc::O_CLOEXEC | libc::O_NONBLOCK | libc::O_NOCTTY;

/// Whether the kernel has the call and no sandbox forbids it.
pub(super) fn available() -> bool {
    static AVAILABLE: OnceLock<bool> = OnceLock::new();
    *AVAILABLE
        .get_or_init(|| call(libc::AT_FDCWD, Path::new("."), LOOK, SymlinkPolicy::Beneath).is_ok())
}

pub(super) fn open(
    root: &Path,
    relative: &Path,
    links: SymlinkPolicy,
) -> Result<OpenedPath, OpenError> {
    let root = folder(root)?;
    let about = call(root.as_raw_fd(), relative, LOOK, links)?.metadata()?;
    if !about.is_file() && !about.is_dir() {
        return Err(OpenError::Special);
    }
    let file = call(root.as_raw_fd(), relative, READ, links)?;
    let about = file.metadata()?;
    match (about.is_file(), about.is_dir()) {
        (true, _) => Ok(OpenedPath::File(file, about)),
        (_, true) => Ok(OpenedPath::Directory(Directory(file))),
        _ => Err(OpenError::Special),
    }
}

pub(super) fn metadata(
    root: &Path,
    relative: &Path,
    links: SymlinkPolicy,
) -> Result<Metadata, OpenError> {
    Ok(call(folder(root)?.as_raw_fd(), relative, LOOK, links)?.metadata()?)
}

fn folder(root: &Path) -> io::Result<File> {
    use std::os::unix::fs::OpenOptionsExt;
    std::fs::OpenOptions::new().read(true).custom_flags(libc::O_PATH | libc::O_DIRECTORY).open(root)
}

fn call(
    root: RawFd,
    relative: &Path,
    flags: libc::c_int,
    links: SymlinkPolicy,
) -> io::Result<File> {
    let path = CString::new(relative.as_os_str().as_bytes())
        .map_err(|_| io::Error::from_raw_os_error(libc::ENOENT))?;
    // SAFETY: open_how is three integers; all zero is a valid value and asks for nothing.
    let mut how: libc::open_how = unsafe { std::mem::zeroed() };
    how.flags = flags as u64;
    how.resolve = libc::RESOLVE_BENEATH | libc::RESOLVE_NO_MAGICLINKS;
    if links == SymlinkPolicy::Refused {
        how.resolve |= libc::RESOLVE_NO_SYMLINKS;
    }
    for _ in 0..ATTEMPTS {
        // SAFETY: the path ends in NUL and the structure's own size is passed with it; the kernel
        // reads both and keeps neither.
        let opened = unsafe {
            libc::syscall(
                libc::SYS_openat2,
                root,
                path.as_ptr(),
                &raw const how,
                size_of::<libc::open_how>(),
            )
        };
        if let Ok(opened) = RawFd::try_from(opened)
            && opened >= 0
        {
            // SAFETY: a descriptor the kernel has just made, which nobody else owns.
            return Ok(unsafe { File::from_raw_fd(opened) });
        }
        let error = io::Error::last_os_error();
        if !matches!(error.raw_os_error(), Some(libc::EAGAIN | libc::EINTR)) {
            return Err(error);
        }
    }
    Err(io::Error::from_raw_os_error(libc::ENOENT))
}
