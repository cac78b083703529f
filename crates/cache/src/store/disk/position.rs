//! The file with the position in the log of purges that servers share.

use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

const FILE: &str = "purges";

pub(super) fn path(directory: &Path) -> PathBuf {
    directory.join(FILE)
}

/// Replaces the file. A crash leaves the old one or the new one.
pub(super) fn write(directory: &Path, text: &str) -> io::Result<()> {
    let temporary = directory.join(format!("{FILE}.new"));
    let mut options = OpenOptions::new();
    let mut file = options.write(true).create(true).truncate(true).mode(0o600).open(&temporary)?;
    file.write_all(text.as_bytes())?;
    file.sync_all()?;
    fs::rename(&temporary, path(directory))
}
