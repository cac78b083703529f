//! Descriptors that are passed over a Unix socket together with bytes (SCM_RIGHTS).

use std::fs::File;
use std::future::poll_fn;
use std::io::{self, IoSlice};
use std::mem::MaybeUninit;
use std::os::fd::BorrowedFd;

use rustix::io::Errno;
use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, sendmsg};

use super::Stream;
use crate::readiness::Side;
use crate::receive::{RecvChunk, lend_with_file};

impl Stream {
    /// Sends as much of these bytes as a Unix socket takes, together with descriptors: the receiver
    /// gets duplicates with the first byte. Returns the number of bytes, at least one.
    /// `QuotaExceeded` says that too many descriptors are in flight (RLIMIT_NOFILE).
    pub async fn send_with_descriptors(
        &self,
        bytes: &[u8],
        descriptors: &[BorrowedFd<'_>],
    ) -> io::Result<usize> {
        loop {
            match self.try_send_with_descriptors(bytes, descriptors) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    poll_fn(|cx| self.poll_writable(cx)).await?;
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                result => return result,
            }
        }
    }

    /// Like [`Stream::send_with_descriptors`]; `WouldBlock` if the socket takes nothing now.
    pub fn try_send_with_descriptors(
        &self,
        bytes: &[u8],
        descriptors: &[BorrowedFd<'_>],
    ) -> io::Result<usize> {
        let message = SendAncillaryMessage::ScmRights(descriptors);
        let mut space = vec![MaybeUninit::uninit(); message.size()];
        let mut ancillary = SendAncillaryBuffer::new(&mut space);
        if !ancillary.push(message) {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        let parts = [IoSlice::new(bytes)];
        self.source.try_io(Side::Write, || {
            match sendmsg(self.socket(), &parts, &mut ancillary, SendFlags::NOSIGNAL) {
                Err(Errno::TOOMANYREFS) => Err(io::ErrorKind::QuotaExceeded.into()),
                sent => Ok(sent?),
            }
        })
    }

    /// Like [`Stream::try_receive_with`], from a Unix socket over which files are passed: lends the
    /// file that came with the last of these bytes as well, or the error that prevented it.
    pub fn try_receive_with_file(
        &self,
        borrower: impl FnOnce(&[u8], Option<io::Result<File>>) -> usize,
    ) -> io::Result<RecvChunk> {
        self.receive_once(|socket| lend_with_file(socket, borrower))
    }
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;
    use std::io::{self, Read, Write};
    use std::os::fd::AsFd;

    use crate::stream::Stream;
    use crate::worker::block_on_local;

    /// Bytes, and the content of the files that came with them, until the end of the stream.
    async fn received(stream: &Stream) -> (Vec<u8>, Vec<Option<String>>) {
        let (mut bytes, mut files) = (Vec::new(), Vec::new());
        loop {
            let received = stream.try_receive_with_file(|part, file| {
                bytes.extend_from_slice(part);
                files.extend(file.map(|file| {
                    let mut text = String::new();
                    file.ok()?.read_to_string(&mut text).unwrap();
                    Some(text)
                }));
                part.len()
            });
            match received {
                Ok(chunk) if chunk.length == 0 => return (bytes, files),
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    poll_fn(|cx| stream.poll_readable(cx)).await.unwrap();
                }
                Err(error) => panic!("{error}"),
            }
        }
    }

    #[test]
    fn files_arrive_in_order_and_nothing_behind_them_is_forgotten() {
        block_on_local(async {
            let (one, other) = Stream::pair().unwrap();
            let mut named = [tempfile::tempfile().unwrap(), tempfile::tempfile().unwrap()];
            for (file, text) in named.iter_mut().zip(["first", "second"]) {
                file.write_all(text.as_bytes()).unwrap();
                io::Seek::rewind(file).unwrap();
            }
            assert_eq!(one.try_send_slice(b"before, ").unwrap(), 8);
            for file in &named {
                let sent = one.send_with_descriptors(b"with, ", &[file.as_fd()]).await;
                assert_eq!(sent.unwrap(), 6);
            }
            assert_eq!(one.try_send_slice(b"after").unwrap(), 5);
            one.finish();
            let (bytes, files) = received(&other).await;
            assert_eq!(bytes, b"before, with, with, after");
            assert_eq!(files, [Some("first".to_owned()), Some("second".to_owned())]);
        });
    }
}
