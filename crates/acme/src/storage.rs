//! Files of accounts and certificates: readable by this user only, replaced as a whole.

use std::fs::{DirBuilder, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use net::tls::CertificateKey;

/// A certificate that was issued before and is valid today.
pub(crate) struct StoredCertificate {
    pub(crate) pair: CertificateKey,
}

impl StoredCertificate {
    /// Returns `None` if there is none, or none that can be used.
    pub(crate) async fn read(file: &Path) -> Option<StoredCertificate> {
        let content = read(file).await.ok()?;
        let now = net::clock::wall_secs();
        let pair = CertificateKey::load(&content, &content, None, now).ok()?;
        Some(StoredCertificate { pair })
    }

    /// A number from 0 to 1 that depends on the certificate.
    pub(crate) fn random(&self) -> f64 {
        let digits = self.pair.details.fingerprint.get(..8).unwrap_or_default();
        f64::from(u32::from_str_radix(digits, 16).unwrap_or_default()) / f64::from(u32::MAX)
    }
}

/// Reads a file on another thread.
pub(crate) async fn read(file: &Path) -> io::Result<Vec<u8>> {
    let file = file.to_owned();
    net::blocking(move || std::fs::read(file)).await?
}

/// Writes a file that only this user can read, and puts it in place as a whole. The error names the
/// file.
pub(crate) async fn write(file: &Path, content: Vec<u8>) -> io::Result<()> {
    let file = file.to_owned();
    let named = |file: &Path, error: io::Error| {
        io::Error::new(error.kind(), format!("cannot write {}: {error}", file.display()))
    };
    net::blocking(move || replace(&file, &content).map_err(|error| named(&file, error))).await?
}

/// Like [`write`], on this thread.
pub(crate) fn replace(file: &Path, content: &[u8]) -> io::Result<()> {
    create_directory(file)?;
    // Not yet seen by a server that reads certificates.
    let new = with_suffix(file, "new");
    let mut options = OpenOptions::new();
    let mut open = options.create(true).truncate(true).write(true).mode(0o600).open(&new)?;
    open.write_all(content)?;
    open.sync_all()?;
    std::fs::rename(new, file)
}

/// Creates the directory of a file, for this user only.
pub(crate) fn create_directory(file: &Path) -> io::Result<()> {
    let directory = file.parent().unwrap_or(Path::new("."));
    DirBuilder::new().recursive(true).mode(0o700).create(directory)
}

fn with_suffix(file: &Path, extension: &str) -> PathBuf {
    let mut name = file.as_os_str().to_owned();
    name.push(".");
    name.push(extension);
    name.into()
}

/// Held by the one process that obtains a certificate; released when it is dropped or the process
/// ends.
#[derive(Debug)]
pub(crate) struct StorageLock {
    _file: File,
}

impl StorageLock {
    /// Returns `None` while another process holds it.
    pub(crate) async fn acquire(certificate: &Path) -> io::Result<Option<StorageLock>> {
        let file = certificate.to_owned();
        net::blocking(move || {
            create_directory(&file)?;
            let lock = with_suffix(&file, "lock");
            let mut options = OpenOptions::new();
            let file = options.create(true).truncate(false).write(true).mode(0o600).open(lock)?;
            match file.try_lock() {
                Ok(()) => Ok(Some(StorageLock { _file: file })),
                Err(std::fs::TryLockError::WouldBlock) => Ok(None),
                Err(std::fs::TryLockError::Error(error)) => Err(error),
            }
        })
        .await?
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn a_file_is_private_and_replaced_as_a_whole() {
        net::worker::block_on_local(async {
            let directory = tempfile::tempdir().unwrap();
            let file = directory.path().join("a/b/site.pem");
            for content in [&b"first"[..], b"2"] {
                write(&file, content.to_vec()).await.unwrap();
                assert_eq!(read(&file).await.unwrap(), content);
            }
            let mode = |path: &Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
            assert_eq!((mode(&file), mode(file.parent().unwrap())), (0o600, 0o700));
            assert_eq!(std::fs::read_dir(file.parent().unwrap()).unwrap().count(), 1);
            let error = write(Path::new("/dev/null/x.pem"), Vec::new()).await.unwrap_err();
            assert!(error.to_string().starts_with("cannot write /dev/null/x.pem: "), "{error}");
        });
    }

    #[test]
    fn one_process_at_a_time_obtains_a_certificate() {
        net::worker::block_on_local(async {
            let directory = tempfile::tempdir().unwrap();
            let file = directory.path().join("site.pem");
            let first = StorageLock::acquire(&file).await.unwrap();
            assert!(first.is_some() && StorageLock::acquire(&file).await.unwrap().is_none());
            drop(first);
            assert!(StorageLock::acquire(&file).await.unwrap().is_some());
        });
    }
}
