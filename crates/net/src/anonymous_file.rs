//! A file without a name: the kernel deletes it once it is closed everywhere.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

/// Permissions of the file while it has a name.
const MODE: u32 = 0o600;

/// Opens an anonymous file in a directory for writing and reading. May block on the disk.
pub fn anonymous_file(directory: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.read(true).write(true).mode(MODE);
    #[cfg(target_os = "linux")]
    if let Ok(file) =
        options.clone().custom_flags(rustix::fs::OFlags::TMPFILE.bits() as i32).open(directory)
    {
        return Ok(file);
    }
    // The file system does not support O_TMPFILE: create the file under a unique name and remove
    // it.
    static NUMBER: AtomicU64 = AtomicU64::new(0);
    let number = NUMBER.fetch_add(1, Ordering::Relaxed);
    let path = directory.join(format!(".tidegate-{}-{number}", std::process::id()));
    let file = options.create_new(true).open(&path)?;
    std::fs::remove_file(&path)?;
    Ok(file)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::FileExt;

    use super::anonymous_file;

    #[test]
    fn is_writable_and_readable_and_leaves_no_directory_entry() {
        let directory = tempfile::tempdir().unwrap();
        let file = anonymous_file(directory.path()).unwrap();
        file.write_all_at(b"text", 2).unwrap();
        let mut text = [0; 4];
        file.read_exact_at(&mut text, 2).unwrap();
        assert_eq!(&text, b"text");
        assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 0);
    }
}
