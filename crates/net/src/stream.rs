//! A byte stream: TCP or Unix, in the clear or under TLS, behind one type.
//!
//! All methods take `&self`, so one task may read while it writes. A dropped receive loses nothing:
//! bytes leave the kernel only when they are returned. One task at a time may wait for each
//! direction; a later waiter replaces the earlier one. Long steps count against the task's budget,
//! so that a peer that is always faster does not starve others.

use std::future::poll_fn;
use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::path::Path;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags, Shutdown, recv, send, shutdown};
use socket2::{Domain, SockAddr, SockRef, Socket, Type};

use crate::memory_network::{self, ResetFlag};
use crate::outgoing::Outgoing;
use crate::readiness::{Side, Source};
use crate::receive::{ROOM_MAX, RecvChunk, lend};
use crate::tls::{Layer, TlsInfo};
use crate::{platform, task};

/// Steps from this length count against the budget of the task (see [`task`]).
const LONG_STEP: usize = 16 * 1024;
/// Bytes after which one attempt to send ends: a file could otherwise continue without end.
const SEND_MAX: usize = 512 * 1024;

/// The transport of a connection, and the peer's address.
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
    tls: Option<Box<Layer>>,
    /// Of a connection in memory.
    reset: Option<ResetFlag>,
}

/// A connected stream outside any event loop: it may be sent to another worker.
#[derive(Debug)]
pub struct Parked {
    socket: OwnedFd,
    tcp: bool,
    tls: Option<Box<Layer>>,
    reset: Option<ResetFlag>,
}

impl Stream {
    /// Registers a connected, non-blocking socket that has no duplicate with this worker's event
    /// loop.
    pub(crate) fn from_descriptor(socket: OwnedFd, tcp: bool) -> io::Result<Stream> {
        Ok(Stream {
            source: Source::assuming(&[Side::Write], socket)?,
            tcp,
            tls: None,
            reset: None,
        })
    }

    /// Like [`Stream::from_descriptor`], for a new connection: its first bytes have often arrived.
    pub(crate) fn from_accepted(socket: OwnedFd, tcp: bool) -> io::Result<Stream> {
        let source = Source::assuming(&[Side::Read, Side::Write], socket)?;
        Ok(Stream { source, tcp, tls: None, reset: None })
    }

    /// One end of a connection in memory.
    pub(crate) fn from_memory(socket: OwnedFd, reset: ResetFlag) -> io::Result<Stream> {
        let stream = Stream::from_accepted(socket, false)?;
        Ok(Stream { reset: Some(reset), ..stream })
    }

    /// Connects over TCP, with Nagle's algorithm off.
    pub async fn connect_tcp(address: SocketAddr) -> io::Result<Stream> {
        if let Some(connected) = memory_network::connect_tcp(None, address) {
            return connected.and_then(|(socket, reset)| Stream::from_memory(socket.into(), reset));
        }
        let socket = platform::socket(Domain::for_address(address))?;
        Stream::connect(socket, &address.into(), true).await
    }

    /// Like [`Stream::connect_tcp`], from a given local address.
    pub async fn connect_tcp_from(from: SocketAddr, address: SocketAddr) -> io::Result<Stream> {
        if let Some(connected) = memory_network::connect_tcp(Some(from), address) {
            return connected.and_then(|(socket, reset)| Stream::from_memory(socket.into(), reset));
        }
        let socket = platform::socket(Domain::for_address(from))?;
        socket.bind(&from.into())?;
        Stream::connect(socket, &address.into(), true).await
    }

    /// Connects to a Unix socket.
    pub async fn connect_unix(path: &Path) -> io::Result<Stream> {
        if let Some(connected) = memory_network::connect_unix(path) {
            return connected.and_then(|(socket, reset)| Stream::from_memory(socket.into(), reset));
        }
        let socket = platform::socket(Domain::UNIX)?;
        Stream::connect(socket, &SockAddr::unix(path)?, false).await
    }

    async fn connect(socket: Socket, address: &SockAddr, tcp: bool) -> io::Result<Stream> {
        if tcp {
            socket.set_tcp_nodelay(true)?;
        }
        match socket.connect(address) {
            Ok(()) => return Stream::from_descriptor(socket.into(), tcp),
            Err(error) if error.raw_os_error() == Some(Errno::INPROGRESS.raw_os_error()) => {}
            Err(error) => return Err(error),
        }
        let stream = Stream { source: Source::new(socket.into())?, tcp, tls: None, reset: None };
        poll_fn(|cx| stream.poll_writable(cx)).await?;
        let result = SockRef::from(&stream.source).take_error()?;
        result.map_or(Ok(stream), Err)
    }

    /// Returns two streams connected to each other: for tests, and for handlers behind a stream.
    pub fn pair() -> io::Result<(Stream, Stream)> {
        let (one, other) = Socket::pair(Domain::UNIX, Type::STREAM, None)?;
        one.set_nonblocking(true)?;
        other.set_nonblocking(true)?;
        let one = Stream::from_descriptor(one.into(), false)?;
        Ok((one, Stream::from_descriptor(other.into(), false)?))
    }

    /// Returns a stream, and its other end for a child process.
    pub fn pair_for_child() -> io::Result<(Stream, OwnedFd)> {
        let (one, other) = Socket::pair(Domain::UNIX, Type::STREAM, None)?;
        one.set_nonblocking(true)?;
        Ok((Stream::from_descriptor(one.into(), false)?, other.into()))
    }

    /// Registers a Unix socket from a parent process, which may hold duplicates of it.
    pub(crate) fn from_inherited(socket: OwnedFd) -> io::Result<Stream> {
        Ok(Stream { source: Source::shared(socket)?, tcp: false, tls: None, reset: None })
    }

    #[inline]
    pub(crate) fn socket(&self) -> BorrowedFd<'_> {
        self.source.as_fd()
    }

    pub(crate) fn source(&self) -> &Source {
        &self.source
    }

    /// Puts an established TLS session on the stream.
    pub(crate) fn with_tls(mut self, layer: Box<Layer>) -> Stream {
        self.tls = Some(layer);
        self
    }

    /// Returns what the TLS handshake has agreed on; `None` in the clear.
    pub fn tls(&self) -> Option<&TlsInfo> {
        self.tls.as_deref().map(Layer::info)
    }

    /// Ready when the stream may have bytes, has ended or has failed.
    pub fn poll_readable(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        if self.tls.as_deref().is_some_and(Layer::is_readable) {
            return Poll::Ready(Ok(()));
        }
        self.source.poll_ready(Side::Read, cx)
    }

    /// Completes once the connection has failed (a reset, an unreachable peer), however many bytes
    /// are unread. Other tasks may wait for its directions at the same time.
    pub async fn failed(&self) {
        self.source.failed().await;
    }

    /// Ready when the stream may take bytes.
    pub fn poll_writable(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.source.poll_ready(Side::Write, cx)
    }

    /// Returns bytes that have arrived, `WouldBlock` if none have; an empty chunk is the end of the
    /// stream.
    pub fn try_receive(&self) -> io::Result<Bytes> {
        self.try_receive_up_to(ROOM_MAX)
    }

    /// Like [`Stream::try_receive`], with a bound on the chunk.
    pub fn try_receive_up_to(&self, at_most: usize) -> io::Result<Bytes> {
        self.read_once(at_most, |_| 0).map(|chunk| chunk.rest)
    }

    /// Lends `borrower` the bytes that have arrived, `WouldBlock` if none have; it returns how many
    /// of them, from the front, it has consumed. It must not receive itself.
    pub fn try_receive_with(&self, borrower: impl FnOnce(&[u8]) -> usize) -> io::Result<RecvChunk> {
        self.read_once(ROOM_MAX, borrower)
    }

    fn read_once(
        &self,
        at_most: usize,
        borrower: impl FnOnce(&[u8]) -> usize,
    ) -> io::Result<RecvChunk> {
        if let Some(layer) = &self.tls {
            return layer.read(&self.source, at_most, borrower);
        }
        self.receive_once(|socket| lend(socket, at_most, borrower))
    }

    #[inline]
    fn receive_once(
        &self,
        receive: impl FnOnce(BorrowedFd<'_>) -> io::Result<RecvChunk>,
    ) -> io::Result<RecvChunk> {
        let mut chunk = None;
        let result = self.source.try_io(Side::Read, || {
            let drained = chunk.insert(receive(self.socket())?).drained;
            if drained {
                // WouldBlock marks the stream as not readable, which saves a call on the next
                // attempt.
                return Err(io::ErrorKind::WouldBlock.into());
            }
            Ok(())
        });
        match (chunk, result) {
            (Some(chunk), _) if chunk.length == 0 => self.end().map(|()| chunk),
            (Some(chunk), _) => Ok(chunk),
            (None, Err(error)) => Err(error),
            (None, Ok(())) => Err(io::ErrorKind::WouldBlock.into()),
        }
    }

    /// Reads bytes that have arrived into the caller's buffer; zero is the end of the stream,
    /// `WouldBlock` means none have. For an owner of many streams that handles the bytes of one
    /// before it receives from the next.
    pub fn try_receive_into(&self, room: &mut [u8]) -> io::Result<usize> {
        if let Some(layer) = &self.tls {
            let chunk = layer.read(&self.source, room.len(), |_| 0)?;
            room[..chunk.length].copy_from_slice(&chunk.rest);
            return Ok(chunk.length);
        }
        let mut taken = None;
        let result = self.source.try_io(Side::Read, || {
            let (received, _) = recv(self.socket(), &mut *room, RecvFlags::empty())?;
            taken = Some(received);
            if 0 < received && received < room.len() {
                // As in `read_once`: the socket is empty for now.
                return Err(io::ErrorKind::WouldBlock.into());
            }
            Ok(())
        });
        match (taken, result) {
            (Some(0), _) if !room.is_empty() => self.end().map(|()| 0),
            (Some(received), _) => Ok(received),
            (None, Err(error)) => Err(error),
            (None, Ok(())) => Err(io::ErrorKind::WouldBlock.into()),
        }
    }

    /// The end of the stream, or the reset that has ended it: between Unix sockets, whose kind
    /// those in memory are, the kernel reports none.
    fn end(&self) -> io::Result<()> {
        match &self.reset {
            Some(reset) if reset.load(Ordering::Relaxed) => Err(Errno::CONNRESET.into()),
            _ => Ok(()),
        }
    }

    /// Returns the next bytes; an empty chunk is the end of the stream.
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

    /// Returns the next bytes; an empty chunk is the end of the stream. Dropping this future loses
    /// nothing.
    pub async fn receive(&self) -> io::Result<Bytes> {
        poll_fn(|cx| self.poll_receive(cx)).await
    }

    /// Sends what the socket takes now, up to a bound; `WouldBlock` once it is full.
    pub fn try_send(&self, outgoing: &mut Outgoing) -> io::Result<usize> {
        if let Some(layer) = &self.tls {
            return layer.send(&self.source, outgoing);
        }
        let mut total = 0;
        while !outgoing.is_empty() && total < SEND_MAX {
            let mut taken = None;
            let result = self.source.try_io(Side::Write, || {
                let sent = outgoing.send_once(self.socket())?;
                taken = Some(sent.taken);
                if sent.full {
                    return Err(io::ErrorKind::WouldBlock.into());
                }
                Ok(())
            });
            match (taken, result) {
                (Some(taken), _) => total += taken,
                (None, Err(error)) if error.kind() == io::ErrorKind::Interrupted => {}
                (None, Err(_)) if total > 0 => return Ok(total),
                (None, Err(error)) => return Err(error),
                (None, Ok(())) => {}
            }
        }
        Ok(total)
    }

    /// Sends what the socket takes now from borrowed bytes, `WouldBlock` if nothing: for a message
    /// in a shared buffer of the worker that usually leaves in one call. What it did not take must
    /// be sent next, and unchanged: under TLS it is encrypted already.
    pub fn try_send_slice(&self, bytes: &[u8]) -> io::Result<usize> {
        if let Some(layer) = &self.tls {
            return layer.send_slice(&self.source, bytes);
        }
        let mut taken = None;
        let result = self.source.try_io(Side::Write, || {
            let sent = send(self.socket(), bytes, SendFlags::NOSIGNAL)?;
            taken = Some(sent);
            if sent < bytes.len() {
                return Err(io::ErrorKind::WouldBlock.into());
            }
            Ok(())
        });
        match (taken, result) {
            (Some(sent), _) => Ok(sent),
            (None, Err(error)) => Err(error),
            (None, Ok(())) => Err(io::ErrorKind::WouldBlock.into()),
        }
    }

    /// Ready with the number of bytes sent, at least one unless the queue is empty.
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

    /// Sends the whole queue.
    pub async fn send_all(&self, outgoing: &mut Outgoing) -> io::Result<()> {
        while !outgoing.is_empty() {
            poll_fn(|cx| self.poll_send(cx, outgoing)).await?;
        }
        Ok(())
    }

    /// True while the event loop has reported nothing to read: no bytes, no end, no error. In that
    /// case it costs no system call; a pool checks it before reusing a connection.
    pub fn is_idle(&self) -> bool {
        if let Some(layer) = &self.tls {
            let is_quiet =
                !layer.is_readable() && self.source.try_io(Side::Read, || Ok(())).is_err();
            return is_quiet || layer.is_idle(self.socket());
        }
        let peek = self.source.try_io(Side::Read, || {
            recv(self.socket(), &mut [0], RecvFlags::PEEK)?;
            Ok(())
        });
        matches!(peek, Err(error) if error.kind() == io::ErrorKind::WouldBlock)
    }

    /// Asks the kernel whether bytes have arrived, without reading them: `true` for bytes, `false`
    /// at the end of the stream, `WouldBlock` for neither.
    pub fn has_bytes(&self) -> io::Result<bool> {
        // Records may hold no bytes for the owner, such as session tickets.
        match &self.tls {
            Some(layer) if layer.is_idle(self.socket()) => Err(io::ErrorKind::WouldBlock.into()),
            Some(layer) if layer.has_plaintext() => Ok(true),
            Some(layer) => layer.check().and_then(|()| has_bytes(self.socket())),
            None => has_bytes(self.socket()),
        }
    }

    /// Returns the number of bytes sent and not yet acknowledged by the peer's kernel: constant
    /// while the peer does not read. Zero if the system does not report it.
    pub fn unacknowledged(&self) -> usize {
        let unsent = self.tls.as_deref().map_or(0, Layer::unsent);
        platform::unacknowledged(self.socket()) + unsent
    }

    /// Announces under TLS that nothing follows (close_notify), which a client may need to know
    /// before the socket is closed; does nothing in the clear.
    pub fn close_notify(&self) {
        if let Some(layer) = &self.tls {
            layer.finish(&self.source);
        }
    }

    /// Has close_notify leave in one packet with the last bytes of the queue that is sent next,
    /// behind which the owner sends nothing; does nothing in the clear.
    pub fn end_with_queue(&self) {
        if let Some(layer) = &self.tls {
            layer.end_with_queue();
        }
    }

    /// Shuts down the sending direction; what was sent is still delivered.
    pub fn finish(&self) {
        self.close_notify();
        // Fails if the connection has failed, which the peer knows already.
        let _ = shutdown(self.socket(), Shutdown::Write);
    }

    /// Closes with a reset: the peer learns that what it received is incomplete.
    pub fn abort(self) {
        self.reset_on_close();
    }

    /// Makes any later close a reset, so that the peer learns that what it received is incomplete.
    pub fn reset_on_close(&self) {
        if self.tcp {
            // On failure the close is an ordinary one; nothing better can be done.
            let _ = SockRef::from(&self.source).set_linger(Some(std::time::Duration::ZERO));
        }
        if let Some(reset) = &self.reset {
            reset.store(true, Ordering::Relaxed);
        }
    }

    /// Removes the stream from this worker's event loop.
    pub fn park(self) -> io::Result<Parked> {
        let Stream { source, tcp, tls, reset } = self;
        Ok(Parked { socket: source.into_descriptor(), tcp, tls, reset })
    }
}

/// Counts a step against the budget if it was long.
#[inline]
fn count_step(cx: &mut Context<'_>, length: usize) {
    if length >= LONG_STEP {
        task::count_step(cx);
    }
}

impl Parked {
    /// Registers the stream with this worker's event loop.
    pub fn adopt(self) -> io::Result<Stream> {
        let stream = Stream::from_descriptor(self.socket, self.tcp)?;
        Ok(Stream { tls: self.tls, reset: self.reset, ..stream })
    }

    /// True unless the peer has closed or sent something. No event loop watches a parked
    /// connection, so this asks the kernel.
    pub fn is_idle(&self) -> bool {
        if let Some(layer) = &self.tls {
            return layer.is_idle(self.socket.as_fd());
        }
        let peeked = has_bytes(self.socket.as_fd());
        matches!(peeked, Err(error) if error.kind() == io::ErrorKind::WouldBlock)
    }
}

fn has_bytes(socket: BorrowedFd<'_>) -> io::Result<bool> {
    let (_, received) = recv(socket, &mut [0], RecvFlags::PEEK | RecvFlags::DONTWAIT)?;
    Ok(received > 0)
}

/// Takes ownership of a descriptor given by number (`LISTEN_FDS`, a parent process).
///
/// # Safety
/// The descriptor must be open and not owned by anything else.
pub(crate) unsafe fn own_descriptor(descriptor: RawFd) -> OwnedFd {
    // SAFETY: promised by the caller.
    unsafe { OwnedFd::from_raw_fd(descriptor) }
}

mod descriptors;
#[cfg(test)]
mod tests;
