//! A byte stream: TCP or Unix, later TLS, behind one type.
//!
//! All methods take `&self`, so one task may read while it writes. A dropped receive loses nothing:
//! bytes are taken from the kernel only when they are handed out. One task at a time may wait for
//! each direction; a later waiter replaces the earlier one. Long steps count against the turn of
//! their task, so that a peer that is always faster than we are leaves room for others.

use std::future::poll_fn;
use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::path::Path;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use socket2::{Domain, SockAddr, SockRef, Socket, Type};

use crate::outgoing::Outgoing;
use crate::readiness::{Side, Source};
use crate::receive::{ROOM_MAX, RecvChunk, lend};
use crate::{platform, task};

/// A step from this length counts against the turn of its task (see [`task`]).
const LONG_STEP: usize = 16 * 1024;
/// One attempt to send ends after this: more of a file could go without end.
const SEND_MAX: usize = 512 * 1024;

/// Whether a connection is made over TCP or a Unix socket, and to whom.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Peer {
    Tcp(SocketAddr),
    Unix,
}

/// A connected stream, registered with this worker's event loop.
#[derive(Debug)]
pub struct Stream {
    source: Source,
    tcp: bool,
}

/// A connected stream that belongs to no event loop: it may be sent to another worker (seam 13).
#[derive(Debug)]
pub struct Parked {
    socket: OwnedFd,
    tcp: bool,
}

impl Stream {
    /// Takes a connected, non-blocking socket that has no copy into this worker's event loop.
    pub(crate) fn from_descriptor(socket: OwnedFd, tcp: bool) -> io::Result<Stream> {
        Ok(Stream { source: Source::assuming(&[Side::Write], socket)?, tcp })
    }

    /// The same of a new connection: its first bytes are often there.
    pub(crate) fn from_accepted(socket: OwnedFd, tcp: bool) -> io::Result<Stream> {
        Ok(Stream { source: Source::assuming(&[Side::Read, Side::Write], socket)?, tcp })
    }

    /// Connects over TCP, with Nagle's algorithm off.
    pub async fn connect_tcp(address: SocketAddr) -> io::Result<Stream> {
        let socket = platform::socket(Domain::for_address(address))?;
        Stream::connect(socket, &address.into(), true).await
    }

    /// [`Stream::connect_tcp`] from an address of our own.
    pub async fn connect_tcp_from(from: SocketAddr, address: SocketAddr) -> io::Result<Stream> {
        let socket = platform::socket(Domain::for_address(from))?;
        socket.bind(&from.into())?;
        Stream::connect(socket, &address.into(), true).await
    }

    /// Connects to a Unix socket.
    pub async fn connect_unix(path: &Path) -> io::Result<Stream> {
        let socket = platform::socket(Domain::UNIX)?;
        Stream::connect(socket, &SockAddr::unix(path)?, false).await
    }

    async fn connect(socket: Socket, address: &SockAddr, tcp: bool) -> io::Result<Stream> {
        if tcp {
            socket.set_tcp_nodelay(true)?;
        }
        match socket.connect(address) {
            Ok(()) => return Stream::from_descriptor(socket.into(), tcp),
            Err(error) if error.raw_os_error() == Some(libc::EINPROGRESS) => {}
            Err(error) => return Err(error),
        }
        let stream = Stream { source: Source::new(socket.into())?, tcp };
        poll_fn(|cx| stream.poll_writable(cx)).await?;
        let outcome = SockRef::from(&stream.source).take_error()?;
        outcome.map_or(Ok(stream), Err)
    }

    /// Two streams that talk to each other: for tests, and for handlers that live behind a stream.
    pub fn pair() -> io::Result<(Stream, Stream)> {
        let (one, other) = Socket::pair(Domain::UNIX, Type::STREAM, None)?;
        one.set_nonblocking(true)?;
        other.set_nonblocking(true)?;
        let one = Stream::from_descriptor(one.into(), false)?;
        Ok((one, Stream::from_descriptor(other.into(), false)?))
    }

    /// A stream, and the other end of it for a child process.
    pub fn pair_for_child() -> io::Result<(Stream, OwnedFd)> {
        let (one, other) = Socket::pair(Domain::UNIX, Type::STREAM, None)?;
        one.set_nonblocking(true)?;
        Ok((Stream::from_descriptor(one.into(), false)?, other.into()))
    }

    /// A Unix socket from a parent process, which may hold copies of it.
    pub(crate) fn from_inherited(socket: OwnedFd) -> io::Result<Stream> {
        Ok(Stream { source: Source::shared(socket)?, tcp: false })
    }

    #[inline]
    pub(crate) fn socket(&self) -> RawFd {
        self.source.raw()
    }

    /// Ready when the stream may have bytes, has ended or has failed.
    pub fn poll_readable(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.source.poll_ready(Side::Read, cx)
    }

    /// Ends once the connection has failed (a reset, a peer that cannot be reached any more),
    /// however much there is to be read of it. Others may wait for its directions meanwhile.
    pub async fn failed(&self) {
        self.source.failed().await;
    }

    /// Ready when the stream may take bytes.
    pub fn poll_writable(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.source.poll_ready(Side::Write, cx)
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
    pub fn try_receive_with(&self, borrower: impl FnOnce(&[u8]) -> usize) -> io::Result<RecvChunk> {
        self.read_once(ROOM_MAX, borrower)
    }

    fn read_once(
        &self,
        at_most: usize,
        borrower: impl FnOnce(&[u8]) -> usize,
    ) -> io::Result<RecvChunk> {
        let mut lent = None;
        let outcome = self.source.try_io(Side::Read, || {
            let drained = lent.insert(lend(self.socket(), at_most, borrower)?).drained;
            if drained {
                // Readiness is forgotten on WouldBlock: the next look then costs no call.
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
        let outcome = self.source.try_io(Side::Read, || {
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
        ready!(task::poll_turn(cx));
        loop {
            match self.try_receive() {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    ready!(self.poll_readable(cx))?;
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                result => {
                    count_step(cx, result.as_ref().map_or(0, Bytes::len));
                    return Poll::Ready(result);
                }
            }
        }
    }

    /// The next bytes; an empty chunk is the end of the stream. Dropping this future loses nothing.
    pub async fn receive(&self) -> io::Result<Bytes> {
        poll_fn(|cx| self.poll_receive(cx)).await
    }

    /// Sends what the socket takes now, up to a bound; `WouldBlock` once it is full.
    pub fn try_send(&self, outgoing: &mut Outgoing) -> io::Result<usize> {
        let mut total = 0;
        while !outgoing.is_empty() && total < SEND_MAX {
            let mut taken = None;
            let outcome = self.source.try_io(Side::Write, || {
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
        let outcome = self.source.try_io(Side::Write, || {
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
        ready!(task::poll_turn(cx));
        loop {
            match self.try_send(outgoing) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    ready!(self.poll_writable(cx))?;
                }
                result => {
                    count_step(cx, *result.as_ref().unwrap_or(&0));
                    return Poll::Ready(result);
                }
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
    pub fn is_idle(&self) -> bool {
        let peek = self.source.try_io(Side::Read, || {
            let mut byte = 0u8;
            // SAFETY: one byte of a local is offered, and the call only peeks.
            let got =
                unsafe { libc::recv(self.socket(), (&raw mut byte).cast(), 1, libc::MSG_PEEK) };
            if got < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
        });
        matches!(peek, Err(error) if error.kind() == io::ErrorKind::WouldBlock)
    }

    /// Asks the kernel for what has arrived, without taking it: `true` for bytes, `false` at the
    /// end of the stream, `WouldBlock` while there is neither.
    pub fn has_bytes(&self) -> io::Result<bool> {
        has_bytes(self.socket())
    }

    /// Bytes that were sent and that the peer's kernel has not confirmed yet: with a peer that does
    /// not read they stay the same. Zero where the system does not say.
    pub fn unacknowledged(&self) -> usize {
        platform::unacknowledged(self.socket())
    }

    /// Says that we send nothing more; what was sent is still delivered.
    pub fn finish(&self) {
        // SAFETY: the descriptor is open as long as `self` lives.
        unsafe { libc::shutdown(self.socket(), libc::SHUT_WR) };
    }

    /// Closes with a reset: the peer learns that what it got is not whole.
    pub fn abort(self) {
        self.reset_on_close();
    }

    /// However it is closed from now on, the peer learns that what it got is not whole.
    pub fn reset_on_close(&self) {
        if self.tcp {
            // A failure leaves an ordinary close, which is all that is left to do anyway.
            let _ = SockRef::from(&self.source).set_linger(Some(std::time::Duration::ZERO));
        }
    }

    /// Leaves this worker's event loop.
    pub fn park(self) -> io::Result<Parked> {
        Ok(Parked { socket: self.source.into_descriptor(), tcp: self.tcp })
    }
}

/// Counts a step that was made, if it was long.
#[inline]
fn count_step(cx: &mut Context<'_>, length: usize) {
    if length >= LONG_STEP {
        task::count_step(cx);
    }
}

impl Parked {
    /// Joins this worker's event loop.
    pub fn adopt(self) -> io::Result<Stream> {
        Stream::from_descriptor(self.socket, self.tcp)
    }

    /// Whether the peer has closed or sent something since: nobody watches a parked connection, so
    /// this asks the kernel.
    pub fn is_idle(&self) -> bool {
        let asked = has_bytes(self.socket.as_raw_fd());
        matches!(asked, Err(error) if error.kind() == io::ErrorKind::WouldBlock)
    }
}

fn has_bytes(socket: RawFd) -> io::Result<bool> {
    let mut byte = 0u8;
    let flags = libc::MSG_PEEK | libc::MSG_DONTWAIT;
    // SAFETY: one byte of a local is offered, and the call only peeks.
    let got = unsafe { libc::recv(socket, (&raw mut byte).cast(), 1, flags) };
    if got < 0 { Err(io::Error::last_os_error()) } else { Ok(got > 0) }
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
mod tests;
