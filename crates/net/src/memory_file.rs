//! Files that are memory: content that is sent again and again without being copied.
//!
//! `sendfile` hands the kernel references to their pages, where a buffer is copied for every
//! client. Promises that such a file has no name, is known to nobody else and never changes once it
//! is made; and that all of them leave half of the descriptors that the process may have to others.
//! Linux only: elsewhere there are none, and who asks keeps a buffer.

use std::fs::File;
use std::io;

/// A file of what `write` writes. Fails where there are none, and where descriptors become scarce.
#[cfg(target_os = "linux")]
pub fn memory_file(write: impl FnOnce(&mut File) -> io::Result<()>) -> io::Result<File> {
    use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

    let flags = libc::MFD_CLOEXEC | libc::MFD_ALLOW_SEALING;
    // SAFETY: the name is a constant that ends with NUL.
    let descriptor = unsafe { libc::memfd_create(c"tidegate".as_ptr(), flags) };
    if descriptor < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the call has just given it to us.
    let mut file = File::from(unsafe { OwnedFd::from_raw_fd(descriptor) });
    // The kernel gives the lowest number that is free: as many descriptors are taken at least.
    let scarce = crate::process::descriptor_limit() / 2;
    if u64::try_from(descriptor).is_ok_and(|taken| taken >= scarce) {
        return Err(io::Error::other("descriptors are scarce"));
    }
    write(&mut file)?;
    let seals = libc::F_SEAL_WRITE | libc::F_SEAL_GROW | libc::F_SEAL_SHRINK | libc::F_SEAL_SEAL;
    // SAFETY: the descriptor is open, and the command takes a number.
    if unsafe { libc::fcntl(file.as_raw_fd(), libc::F_ADD_SEALS, seals) } < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(file)
}

#[cfg(not(target_os = "linux"))]
pub fn memory_file(_write: impl FnOnce(&mut File) -> io::Result<()>) -> io::Result<File> {
    Err(io::ErrorKind::Unsupported.into())
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use std::io::Write;
    use std::os::unix::fs::FileExt;
    use std::sync::Arc;

    use super::*;
    use crate::{FileRange, Outgoing, Stream};

    #[test]
    fn what_was_written_stays_and_nothing_changes_it() {
        let content: Vec<u8> = (0..200_000u32).map(|at| at as u8).collect();
        let file = memory_file(|file| file.write_all(&content)).unwrap();
        assert_eq!(file.metadata().unwrap().len(), 200_000);
        assert!(file.write_at(b"x", 0).is_err() && file.set_len(1).is_err());
        let mut read = vec![0; content.len()];
        file.read_exact_at(&mut read, 0).unwrap();
        assert!(read == content);
        assert!(memory_file(|_| Err(io::Error::other("why not"))).is_err());
    }

    #[test]
    fn it_is_sent_like_any_file() {
        crate::worker::block_on_local(async {
            let file = memory_file(|file| file.write_all(&[b'x'; 100_000])).unwrap();
            let (one, other) = Stream::pair().unwrap();
            let sends = async {
                let mut outgoing = Outgoing::default();
                outgoing.push_file(FileRange { file: Arc::new(file), offset: 1, length: 99_999 });
                one.send_all(&mut outgoing).await.unwrap();
                one.finish();
            };
            let receives = async {
                let mut count = 0;
                loop {
                    match other.receive().await.unwrap() {
                        end if end.is_empty() => break count,
                        piece => count += piece.len(),
                    }
                }
            };
            assert_eq!(tokio::join!(sends, receives).1, 99_999);
        });
    }
}
