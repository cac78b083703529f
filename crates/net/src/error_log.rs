//! Standard error in a file, and standard output too if wanted.
//!
//! Owns the redirection of the process: its children inherit it, and after a rotation each process
//! opens the file again. A failure leaves everything as it was.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, AsRawFd, RawFd};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

/// Where the standard streams of a process go.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ErrorLog {
    pub path: PathBuf,
    /// Standard output goes there as well.
    pub captures_output: bool,
}

static CURRENT: Mutex<Option<ErrorLog>> = Mutex::new(None);

impl ErrorLog {
    /// Redirects this process and the children that it starts from now on.
    pub fn redirect(&self) -> io::Result<()> {
        self.open()?;
        self.inherited();
        Ok(())
    }

    /// Records that the parent of this process has redirected it. The file is opened again if it
    /// has been rotated since: a preloader is not told of that.
    pub fn inherited(&self) {
        *CURRENT.lock().unwrap_or_else(PoisonError::into_inner) = Some(self.clone());
        if !self.is_current() {
            // On failure the log continues in the file that was rotated.
            let _ = self.open();
        }
    }

    /// True if standard error is the file that has the name now.
    fn is_current(&self) -> bool {
        let stream = io::stderr().as_fd().try_clone_to_owned().map(File::from);
        let stream = stream.and_then(|stream| stream.metadata());
        match (stream, std::fs::metadata(&self.path)) {
            (Ok(one), Ok(other)) => (one.dev(), one.ino()) == (other.dev(), other.ino()),
            _ => false,
        }
    }

    fn open(&self) -> io::Result<()> {
        let file = open(&self.path)?;
        replace(&file, libc::STDERR_FILENO)?;
        match self.captures_output {
            true => replace(&file, libc::STDOUT_FILENO),
            false => Ok(()),
        }
    }
}

/// Opens the file of this process again, as after a rotation. Does nothing without one.
pub fn reopen_error_log() -> io::Result<()> {
    let current = CURRENT.lock().unwrap_or_else(PoisonError::into_inner).clone();
    current.map_or(Ok(()), |log| log.open())
}

fn open(path: &Path) -> io::Result<File> {
    File::options().append(true).create(true).open(path)
}

fn replace(file: &File, stream: RawFd) -> io::Result<()> {
    // SAFETY: standard streams have no owner in Rust that would notice, and the file is open.
    match unsafe { libc::dup2(file.as_raw_fd(), stream) } {
        -1 => Err(io::Error::last_os_error()),
        _ => Ok(()),
    }
}
