//! Files in memory: content that is sent repeatedly without being copied.
//!
//! `sendfile` passes references to their pages, where a buffer would be copied for every client.
//! Such a file has no name, is unknown to other processes and never changes once written. Together
//! they leave half of the process's descriptors to others. Linux only: elsewhere creation fails,
//! and the caller uses a buffer.

use std::fs::File;
use std::io;

/// Creates a file with what `write` writes. Fails if the system has no such files or descriptors
/// become scarce.
#[cfg(target_os = "linux")]
pub fn memory_file(write: impl FnOnce(&mut File) -> io::Result<()>) -> io::Result<File> {
    use std::os::fd::AsRawFd;

    use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, memfd_create};

    let descriptor = memfd_create("tidegate", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING)?;
    // The kernel assigns the lowest free number, so at least that many descriptors are open.
    let scarce = crate::process::descriptor_limit() / 2;
    if u64::try_from(descriptor.as_raw_fd()).is_ok_and(|open| open >= scarce) {
        return Err(io::Error::other("descriptors are scarce"));
    }
    let mut file = File::from(descriptor);
    write(&mut file)?;
    fcntl_add_seals(
        &file,
        SealFlags::WRITE | SealFlags::GROW | SealFlags::SHRINK | SealFlags::SEAL,
    )?;
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
    fn content_can_be_read_and_not_changed() {
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
    fn is_sent_like_any_file() {
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
