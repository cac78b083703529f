//! A byte stream: TCP or Unix, later TLS, behind one type.
//!
//! All methods take `&self`, so one task may read while it writes. A dropped receive loses nothing:
//! bytes are taken from the kernel only when they are handed out. One task at a time may wait for
//! each direction; a later waiter replaces the earlier one.

use std::future::poll_fn;
use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::path::Path;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use tokio::io::Interest;
use tokio::net::{TcpStream, UnixStream};

use crate::outgoing::Outgoing;
use crate::platform;
use crate::receive::{Lent, ROOM_MAX, lend};

/// Whether a connection is made over TCP or a Unix socket, and to whom.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Peer {
    Tcp(SocketAddr),
    Unix,
}

#[derive(Debug)]
enum Io {
    Tcp(TcpStream),
    Unix(UnixStream),
}

/// A connected stream, registered with this worker's event loop.
#[derive(Debug)]
pub struct Stream {
    io: Io,
}

/// A connected stream that belongs to no event loop: it may be sent to another worker (seam 13).
#[derive(Debug)]
pub struct Parked {
    socket: OwnedFd,
    tcp: bool,
}

impl Stream {
    pub(crate) fn from_tcp(stream: TcpStream) -> Stream {
        Stream { io: Io::Tcp(stream) }
    }

    pub(crate) fn from_unix(stream: UnixStream) -> Stream {
        Stream { io: Io::Unix(stream) }
    }

    /// Connects over TCP, with Nagle's algorithm off.
    pub async fn connect_tcp(address: SocketAddr) -> io::Result<Stream> {
        let stream = TcpStream::connect(address).await?;
        stream.set_nodelay(true)?;
        Ok(Stream::from_tcp(stream))
    }

    /// [`Stream::connect_tcp`] from an address of our own.
    pub async fn connect_tcp_from(from: SocketAddr, address: SocketAddr) -> io::Result<Stream> {
        let socket = match from {
            SocketAddr::V4(_) => tokio::net::TcpSocket::new_v4()?,
            SocketAddr::V6(_) => tokio::net::TcpSocket::new_v6()?,
        };
        socket.bind(from)?;
        let stream = socket.connect(address).await?;
        stream.set_nodelay(true)?;
        Ok(Stream::from_tcp(stream))
    }

    /// Connects to a Unix socket.
    pub async fn connect_unix(path: &Path) -> io::Result<Stream> {
        Ok(Stream::from_unix(UnixStream::connect(path).await?))
    }

    /// Two streams that talk to each other: for tests, and for handlers that live behind a stream.
    pub fn pair() -> io::Result<(Stream, Stream)> {
        let (one, other) = UnixStream::pair()?;
        Ok((Stream::from_unix(one), Stream::from_unix(other)))
    }

    fn socket(&self) -> RawFd {
        match &self.io {
            Io::Tcp(stream) => stream.as_raw_fd(),
            Io::Unix(stream) => stream.as_raw_fd(),
        }
    }

    fn try_io<R>(
        &self,
        interest: Interest,
        operation: impl FnOnce() -> io::Result<R>,
    ) -> io::Result<R> {
        match &self.io {
            Io::Tcp(stream) => stream.try_io(interest, operation),
            Io::Unix(stream) => stream.try_io(interest, operation),
        }
    }

    /// Ready when the stream may have bytes, has ended or has failed.
    pub fn poll_readable(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &self.io {
            Io::Tcp(stream) => stream.poll_read_ready(cx),
            Io::Unix(stream) => stream.poll_read_ready(cx),
        }
    }

    /// Ends once the connection has failed (a reset, a peer that cannot be reached any more),
    /// however much there is to be read of it. Others may wait for its directions meanwhile.
    pub async fn failed(&self) {
        // An error of the call means that the event loop ends.
        let _ = match &self.io {
            Io::Tcp(stream) => stream.ready(Interest::ERROR).await,
            Io::Unix(stream) => stream.ready(Interest::ERROR).await,
        };
    }

    /// Ready when the stream may take bytes.
    pub fn poll_writable(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &self.io {
            Io::Tcp(stream) => stream.poll_write_ready(cx),
            Io::Unix(stream) => stream.poll_write_ready(cx),
        }
    }

    /// Bytes that are there now, `WouldBlock` if none are; an empty chunk is the end of the stream.
    pub fn try_receive(&self) -> io::Result<Bytes> {
        self.try_receive_up_to(ROOM_MAX)
    }

    /// [`Stream::try_receive`] with a bound on the chunk.
    pub fn try_receive_up_to(&self, at_most: usize) -> io::Result<Bytes> {
        self.read_once(at_most, |_| 0).map(|lent| lent.rest)
    }

    /// Lends `borrower` the bytes that are there now, `WouldBlock` if none are; it says how many of
    /// them, from the front, it is done with. It must not receive itself.
    pub fn try_lend(&self, borrower: impl FnOnce(&[u8]) -> usize) -> io::Result<Lent> {
        self.read_once(ROOM_MAX, borrower)
    }

    fn read_once(&self, at_most: usize, borrower: impl FnOnce(&[u8]) -> usize) -> io::Result<Lent> {
        let mut lent = None;
        let outcome = self.try_io(Interest::READABLE, || {
            let drained = lent.insert(lend(self.socket(), at_most, borrower)?).drained;
            if drained {
                // Tokio forgets the readiness on WouldBlock: the next look then costs no call.
                return Err(io::ErrorKind::WouldBlock.into());
            }
            Ok(())
        });
        match (lent, outcome) {
            (Some(lent), _) => Ok(lent),
            (None, Err(error)) => Err(error),
            (None, Ok(())) => Err(io::ErrorKind::WouldBlock.into()),
        }
    }

    /// Bytes that are there now, into the owner's room; zero is the end of the stream, `WouldBlock`
    /// that there are none: for an owner of many streams that looks at what came before it receives
    /// from the next.
    pub fn try_receive_into(&self, room: &mut [u8]) -> io::Result<usize> {
        let mut taken = None;
        let outcome = self.try_io(Interest::READABLE, || {
            // SAFETY: the pointer and length are those of a slice that lives across the call.
            let got = unsafe {
                crate::platform::receive(self.socket(), room.as_mut_ptr().cast(), room.len())
            };
            let got = usize::try_from(got).map_err(|_| io::Error::last_os_error())?;
            taken = Some(got);
            if 0 < got && got < room.len() {
                // As in `try_receive_up_to`: the socket has no more for now.
                return Err(io::ErrorKind::WouldBlock.into());
            }
            Ok(())
        });
        match (taken, outcome) {
            (Some(got), _) => Ok(got),
            (None, Err(error)) => Err(error),
            (None, Ok(())) => Err(io::ErrorKind::WouldBlock.into()),
        }
    }

    /// The next bytes; an empty chunk is the end of the stream.
    pub fn poll_receive(&self, cx: &mut Context<'_>) -> Poll<io::Result<Bytes>> {
        loop {
            match self.try_receive() {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    ready!(self.poll_readable(cx))?;
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                result => return Poll::Ready(result),
            }
        }
    }

    /// The next bytes; an empty chunk is the end of the stream. Dropping this future loses nothing.
    pub async fn receive(&self) -> io::Result<Bytes> {
        poll_fn(|cx| self.poll_receive(cx)).await
    }

    /// Sends what the socket takes now; `WouldBlock` once it is full.
    pub fn try_send(&self, outgoing: &mut Outgoing) -> io::Result<usize> {
        let mut total = 0;
        while !outgoing.is_empty() {
            let mut taken = None;
            let outcome = self.try_io(Interest::WRITABLE, || {
                let sent = outgoing.send_once(self.socket())?;
                taken = Some(sent.taken);
                if sent.full {
                    return Err(io::ErrorKind::WouldBlock.into());
                }
                Ok(())
            });
            match (taken, outcome) {
                (Some(taken), _) => total += taken,
                (None, Err(error)) if error.kind() == io::ErrorKind::Interrupted => {}
                (None, Err(_)) if total > 0 => return Ok(total),
                (None, Err(error)) => return Err(error),
                (None, Ok(())) => {}
            }
        }
        Ok(total)
    }

    /// Sends from borrowed bytes what the socket takes now, `WouldBlock` if nothing: for a message
    /// that was just written into a buffer of the worker and most often leaves in this one call.
    pub fn try_send_slice(&self, bytes: &[u8]) -> io::Result<usize> {
        let mut taken = None;
        let outcome = self.try_io(Interest::WRITABLE, || {
            // SAFETY: the kernel only reads the bytes of the slice, which lives across the call.
            let sent = unsafe { platform::send(self.socket(), bytes.as_ptr(), bytes.len()) };
            let sent = usize::try_from(sent).map_err(|_| io::Error::last_os_error())?;
            taken = Some(sent);
            if sent < bytes.len() {
                return Err(io::ErrorKind::WouldBlock.into());
            }
            Ok(())
        });
        match (taken, outcome) {
            (Some(sent), _) => Ok(sent),
            (None, Err(error)) => Err(error),
            (None, Ok(())) => Err(io::ErrorKind::WouldBlock.into()),
        }
    }

    /// Ready with the number of bytes taken, at least one unless nothing waits.
    pub fn poll_send(
        &self,
        cx: &mut Context<'_>,
        outgoing: &mut Outgoing,
    ) -> Poll<io::Result<usize>> {
        loop {
            match self.try_send(outgoing) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    ready!(self.poll_writable(cx))?;
                }
                result => return Poll::Ready(result),
            }
        }
    }

    /// Sends everything.
    pub async fn send_all(&self, outgoing: &mut Outgoing) -> io::Result<()> {
        while !outgoing.is_empty() {
            poll_fn(|cx| self.poll_send(cx, outgoing)).await?;
        }
        Ok(())
    }

    /// True while the event loop knows of nothing to read: no bytes, no end, no error. Costs no
    /// system call in that case, which is what a pool asks of a connection before using it again.
    pub fn is_quiet(&self) -> bool {
        let peek = self.try_io(Interest::READABLE, || {
            let mut byte = 0u8;
            // SAFETY: one byte of a local is offered, and the call only peeks.
            let got =
                unsafe { libc::recv(self.socket(), (&raw mut byte).cast(), 1, libc::MSG_PEEK) };
            if got < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
        });
        matches!(peek, Err(error) if error.kind() == io::ErrorKind::WouldBlock)
    }

    /// Bytes that were sent and that the peer's kernel has not confirmed yet: with a peer that does
    /// not read they stay the same. Zero where the system does not say.
    pub fn unconfirmed(&self) -> usize {
        platform::unconfirmed(self.socket())
    }

    /// Says that we send nothing more; what was sent is still delivered.
    pub fn finish(&self) {
        // SAFETY: the descriptor is open as long as `self` lives.
        unsafe { libc::shutdown(self.socket(), libc::SHUT_WR) };
    }

    /// Closes with a reset: the peer learns that what it got is not whole.
    pub fn abort(self) {
        if let Io::Tcp(stream) = &self.io {
            // A failure leaves an ordinary close, which is all that is left to do anyway.
            let _ = socket2::SockRef::from(stream).set_linger(Some(std::time::Duration::ZERO));
        }
    }

    /// Leaves this worker's event loop.
    pub fn park(self) -> io::Result<Parked> {
        match self.io {
            Io::Tcp(stream) => Ok(Parked { socket: stream.into_std()?.into(), tcp: true }),
            Io::Unix(stream) => Ok(Parked { socket: stream.into_std()?.into(), tcp: false }),
        }
    }

    pub(crate) fn from_descriptor(socket: OwnedFd, tcp: bool) -> io::Result<Stream> {
        if tcp {
            Ok(Stream::from_tcp(TcpStream::from_std(std::net::TcpStream::from(socket))?))
        } else {
            let stream = std::os::unix::net::UnixStream::from(socket);
            Ok(Stream::from_unix(UnixStream::from_std(stream)?))
        }
    }
}

impl Parked {
    /// Joins this worker's event loop.
    pub fn adopt(self) -> io::Result<Stream> {
        Stream::from_descriptor(self.socket, self.tcp)
    }

    /// Whether the peer has closed or sent something since: nobody watches a parked connection, so
    /// this asks the kernel.
    pub fn is_quiet(&self) -> bool {
        let mut byte = 0u8;
        // SAFETY: one byte of a local is offered, and the call only peeks.
        let got = unsafe {
            libc::recv(
                self.socket.as_raw_fd(),
                (&raw mut byte).cast(),
                1,
                libc::MSG_PEEK | libc::MSG_DONTWAIT,
            )
        };
        got < 0 && io::Error::last_os_error().kind() == io::ErrorKind::WouldBlock
    }
}

/// Takes ownership of a descriptor given by number (`LISTEN_FDS`, a parent process).
///
/// # Safety
/// The descriptor must be open and owned by nobody else.
pub(crate) unsafe fn own_descriptor(descriptor: RawFd) -> OwnedFd {
    // SAFETY: promised by the caller.
    unsafe { OwnedFd::from_raw_fd(descriptor) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::worker::block_on_local;

    #[test]
    fn what_one_end_sends_the_other_receives_and_then_the_end() {
        block_on_local(async {
            let (one, other) = Stream::pair().unwrap();
            let mut outgoing = Outgoing::default();
            outgoing.push(Bytes::from_static(b"hello "));
            outgoing.push(Bytes::from_static(b"world"));
            one.send_all(&mut outgoing).await.unwrap();
            assert_eq!(&other.receive().await.unwrap()[..], b"hello world");
            assert_eq!(one.try_send_slice(b"more").unwrap(), 4);
            let mut room = [0; 3];
            assert_eq!(poll_fn(|cx| other.poll_readable(cx)).await.ok(), Some(()));
            assert_eq!((other.try_receive_into(&mut room).unwrap(), &room), (3, b"mor"));
            assert_eq!((other.try_receive_into(&mut room).unwrap(), room[0]), (1, b'e'));
            let nothing = other.try_receive_into(&mut room).unwrap_err();
            assert_eq!(nothing.kind(), io::ErrorKind::WouldBlock);
            assert!(other.is_quiet());
            one.finish();
            assert!(other.receive().await.unwrap().is_empty());
        });
    }

    #[test]
    fn a_reset_is_known_though_nobody_reads() {
        block_on_local(async {
            let bind = crate::Bind::Tcp("127.0.0.1:0".parse().unwrap());
            let options = crate::ListenOptions::default();
            let listening = crate::Listening::bind(&bind, 1, &options).unwrap();
            let crate::Bind::Tcp(address) = *listening.local() else { panic!("TCP") };
            let listener = listening.into_sockets().remove(0).adopt().unwrap();
            for resets in [false, true] {
                let client = Stream::connect_tcp(address).await.unwrap();
                let server = listener.accept().await.unwrap().stream;
                let mut outgoing = Outgoing::default();
                outgoing.push(Bytes::from_static(b"never read"));
                client.send_all(&mut outgoing).await.unwrap();
                poll_fn(|cx| server.poll_readable(cx)).await.unwrap();
                let short = std::time::Duration::from_millis(20);
                assert!(crate::timer::within(short, server.failed()).await.is_none());
                if resets {
                    client.abort();
                    server.failed().await;
                } else {
                    // An end behind bytes may be that of a client that waits for its answer.
                    drop(client);
                    assert!(crate::timer::within(short, server.failed()).await.is_none());
                }
            }
        });
    }

    #[test]
    fn a_full_socket_waits_for_the_reader_and_loses_nothing() {
        block_on_local(async {
            let (one, other) = Stream::pair().unwrap();
            let total = 4 * 1024 * 1024;
            let writer = tokio::task::spawn_local(async move {
                let mut outgoing = Outgoing::default();
                outgoing.push(Bytes::from(vec![7u8; total]));
                one.send_all(&mut outgoing).await.unwrap();
            });
            let mut got = 0;
            while got < total {
                let chunk = other.receive().await.unwrap();
                assert!(chunk.iter().all(|byte| *byte == 7));
                got += chunk.len();
            }
            writer.await.unwrap();
            assert_eq!(got, total);
        });
    }

    #[test]
    fn a_parked_connection_is_taken_over_by_another_worker() {
        let (parked, other) = block_on_local(async {
            let (one, other) = Stream::pair().unwrap();
            (one.park().unwrap(), other.park().unwrap())
        });
        assert!(parked.is_quiet());
        std::thread::spawn(move || {
            block_on_local(async {
                let one = parked.adopt().unwrap();
                let mut outgoing = Outgoing::default();
                outgoing.push(Bytes::from_static(b"still here"));
                one.send_all(&mut outgoing).await.unwrap();
            });
        })
        .join()
        .unwrap();
        assert!(!other.is_quiet());
    }

    #[test]
    fn a_file_range_follows_its_head() {
        block_on_local(async {
            let (one, other) = Stream::pair().unwrap();
            let file = std::sync::Arc::new(std::fs::File::open("src/stream.rs").unwrap());
            let mut outgoing = Outgoing::default();
            outgoing.push(Bytes::from_static(b"head:"));
            outgoing.push_file(crate::FileRange { file, offset: 0, length: 17 });
            one.send_all(&mut outgoing).await.unwrap();
            one.finish();
            let mut got = Vec::new();
            loop {
                let chunk = other.receive().await.unwrap();
                if chunk.is_empty() {
                    break;
                }
                got.extend_from_slice(&chunk);
            }
            assert_eq!(&got, b"head://! A byte stream");
        });
    }

    #[test]
    fn a_file_that_became_shorter_is_an_error_at_once() {
        block_on_local(async {
            let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
            let one = Stream::connect_tcp(listener.local_addr().unwrap()).await.unwrap();
            let file = std::sync::Arc::new(std::fs::File::open("src/stream.rs").unwrap());
            let length = file.metadata().unwrap().len() + 1;
            let mut outgoing = Outgoing::default();
            outgoing.push_file(crate::FileRange { file, offset: 0, length });
            let patience = std::time::Duration::from_secs(5);
            let sent = crate::timer::within(patience, one.send_all(&mut outgoing)).await;
            assert_eq!(sent.unwrap().unwrap_err().kind(), io::ErrorKind::UnexpectedEof);
        });
    }
}
