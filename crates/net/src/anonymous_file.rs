//! A file without a name: it is gone when nobody has it open.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

/// Who may read and write it, had it a name.
const MODE: u32 = 0o600;

/// Opens one in a folder, to be written and read. It may wait for a disk.
pub fn anonymous_file(folder: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.read(true).write(true).mode(MODE);
    #[cfg(target_os = "linux")]
    if let Ok(file) = options.clone().custom_flags(libc::O_TMPFILE).open(folder) {
        return Ok(file);
    }
    // Some file systems know no such files: then it has a name for a moment, which nobody has made
    // before.
    static NUMBER: AtomicU64 = AtomicU64::new(0);
    let number = NUMBER.fetch_add(1, Ordering::Relaxed);
    let path = folder.join(format!(".tidegate-{}-{number}", std::process::id()));
    let file = options.create_new(true).open(&path)?;
    std::fs::remove_file(&path)?;
    Ok(file)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::FileExt;

    use super::anonymous_file;

    #[test]
    fn it_can_be_written_and_read_and_the_folder_stays_empty() {
        let folder = tempfile::tempdir().unwrap();
        let file = anonymous_file(folder.path()).unwrap();
        file.write_all_at(b"text", 2).unwrap();
        let mut text = [0; 4];
        file.read_exact_at(&mut text, 2).unwrap();
        assert_eq!(&text, b"text");
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
    }
}
