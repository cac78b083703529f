//! A file with the id of this process.

use std::fs::File;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

/// A file with the process id. It is locked while the process runs, so that a second one cannot
/// claim it; one that a killed process has left is not locked, and is replaced. Dropping it removes
/// the file.
#[derive(Debug)]
pub struct PidFile {
    path: PathBuf,
    _locked: File,
}

impl PidFile {
    /// Writes the process id into the file.
    pub fn claim(path: &Path) -> io::Result<PidFile> {
        let mut file = File::options().create(true).truncate(false).write(true).open(path)?;
        file.try_lock().map_err(|_| io::Error::other("another process holds it"))?;
        file.set_len(0)?;
        writeln!(file, "{}", std::process::id())?;
        Ok(PidFile { path: path.to_owned(), _locked: file })
    }
}

impl Drop for PidFile {
    fn drop(&mut self) {
        // A file that is gone already was removed by its operator.
        let _ = std::fs::remove_file(&self.path);
    }
}

#[cfg(test)]
mod tests {
    use super::PidFile;

    #[test]
    fn one_process_holds_it_and_removes_it() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("a.pid");
        std::fs::write(&path, "1234567890 left by a killed process").unwrap();
        let held = PidFile::claim(&path).unwrap();
        assert_eq!(std::fs::read_to_string(&path).unwrap(), format!("{}\n", std::process::id()));
        let why = PidFile::claim(&path).unwrap_err().to_string();
        assert_eq!(why, "another process holds it");
        drop(held);
        assert!(!path.exists());
        assert!(PidFile::claim(&directory.path().join("no/such")).is_err());
    }
}
