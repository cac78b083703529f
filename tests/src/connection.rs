//! One TCP connection in raw bytes, from either end: a client of ours, or a client we became.
//!
//! Promises that a read gives exactly the bytes asked for and keeps the rest, and that nothing
//! waits for ever: what does not come in time is a panic with the bytes that did come.

use crate::{HttpResponse, PATIENCE};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use socket2::{Domain, Socket, Type};
use std::io::{self, ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

pub struct Connection {
    /// Shared only with an upstream that may have to cut its scripts short.
    stream: Arc<TcpStream>,
    /// Received and not handed out yet.
    received: Vec<u8>,
    /// Received in all, for the panic that needs it.
    seen: Vec<u8>,
    /// Which connection of an upstream this is, from 0.
    number: usize,
}

/// Why there are no more bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    /// The peer sent FIN.
    Closed,
    /// The peer sent RST.
    Reset,
}

impl Connection {
    pub fn to(address: SocketAddr) -> Self {
        let stream =
            connect(address).unwrap_or_else(|error| panic!("connecting to {address}: {error}"));
        Self::new(Arc::new(stream), 0)
    }

    /// True if nothing listens at an address.
    pub fn is_refused(address: SocketAddr) -> bool {
        TcpStream::connect(address).is_err_and(|error| error.kind() == ErrorKind::ConnectionRefused)
    }

    pub(crate) fn new(stream: Arc<TcpStream>, number: usize) -> Self {
        stream.set_nodelay(true).expect("TCP_NODELAY");
        stream.set_write_timeout(Some(PATIENCE)).expect("a write time-out");
        Self { stream, received: Vec::new(), seen: Vec::new(), number }
    }

    /// The same connection for another thread, so that one of the two reads while the other sends.
    /// What has been received and not read stays here.
    pub fn clone_for_reading(&self) -> Self {
        Self::new(Arc::clone(&self.stream), self.number)
    }

    pub(crate) fn downgrade(&self) -> Weak<TcpStream> {
        Arc::downgrade(&self.stream)
    }

    /// Which connection of an [`Upstream`](crate::Upstream) this is, counted from 0.
    pub fn number(&self) -> usize {
        self.number
    }

    pub fn local_address(&self) -> SocketAddr {
        self.stream.local_addr().expect("a connected socket has an address")
    }

    pub fn peer_address(&self) -> SocketAddr {
        self.stream.peer_addr().expect("a connected socket has a peer")
    }

    /// Sends all of `bytes`.
    pub fn send(&mut self, bytes: impl AsRef<[u8]>) {
        let bytes = bytes.as_ref();
        if let Err(error) = self.stream.as_ref().write_all(bytes) {
            panic!("sending {} bytes: {error}; received {}", bytes.len(), self.shown());
        }
    }

    /// Sends what the peer takes and says whether that was everything: it may have hung up.
    pub fn try_send(&mut self, bytes: impl AsRef<[u8]>) -> bool {
        self.stream.as_ref().write_all(bytes.as_ref()).is_ok()
    }

    /// Sends until the peer has taken nothing for `time`, and says how many bytes went.
    pub fn send_until_stuck(&mut self, time: Duration) -> usize {
        self.stream.set_write_timeout(Some(time)).expect("a write time-out");
        let piece = [b'x'; 16 * 1024];
        let mut sent = 0;
        while let Ok(count) = self.stream.as_ref().write(&piece) {
            sent += count;
        }
        self.stream.set_write_timeout(Some(PATIENCE)).expect("a write time-out");
        sent
    }

    /// Sends `bytes` one write a byte, so that the peer sees them split.
    pub fn send_byte_by_byte(&mut self, bytes: impl AsRef<[u8]>) {
        for byte in bytes.as_ref() {
            self.send([*byte]);
        }
    }

    /// Tells the peer that nothing more will be sent (FIN), and continues to read.
    pub fn finish_sending(&mut self) {
        self.stream.shutdown(Shutdown::Write).expect("a half-close");
    }

    /// [`Connection::finish_sending`] where the peer may have closed already: whether it had not.
    pub fn try_finish_sending(&mut self) -> bool {
        self.stream.shutdown(Shutdown::Write).is_ok()
    }

    /// Ends the connection with RST. (Dropping it sends FIN, or RST when bytes were left unread.)
    pub fn reset(self) {
        let socket = socket2::SockRef::from(self.stream.as_ref());
        socket.set_linger(Some(Duration::ZERO)).expect("SO_LINGER");
    }

    /// Makes the receive buffer as small as the kernel allows, so that a reader that stalls is
    /// felt soon. Before the peer sends, not after.
    pub fn shrink_receive_buffer(&mut self) {
        self.set_receive_buffer(1);
    }

    /// The same with a size, for a reader that is only slow.
    pub fn set_receive_buffer(&mut self, bytes: usize) {
        let socket = socket2::SockRef::from(self.stream.as_ref());
        socket.set_recv_buffer_size(bytes).expect("SO_RCVBUF");
    }

    /// Reads up to and including `mark`.
    pub fn read_until(&mut self, mark: impl AsRef<[u8]>) -> Vec<u8> {
        let mark = mark.as_ref();
        let mut from = 0;
        loop {
            if let Some(at) = find(&self.received[from..], mark) {
                return self.take(from + at + mark.len());
            }
            from = self.received.len().saturating_sub(mark.len() - 1);
            if let Some(end) = self.fill() {
                panic!("{end:?} before {:?}; received {}", text(mark), self.shown());
            }
        }
    }

    /// Reads exactly `count` bytes.
    pub fn read_exactly(&mut self, count: usize) -> Vec<u8> {
        while self.received.len() < count {
            if let Some(end) = self.fill() {
                panic!("{end:?} before {count} bytes; received {}", self.shown());
            }
        }
        self.take(count)
    }

    /// Reads exactly `count` bytes, or nothing if the peer ends before.
    pub fn try_read_exactly(&mut self, count: usize) -> Option<Vec<u8>> {
        while self.received.len() < count {
            if self.fill().is_some() {
                return None;
            }
        }
        Some(self.take(count))
    }

    /// The body of a chunked message, in whatever pieces it comes.
    pub fn read_chunks(&mut self) -> Vec<u8> {
        let mut body = Vec::new();
        loop {
            let line = String::from_utf8(self.read_until("\r\n")).expect("text");
            let size = usize::from_str_radix(line.trim_end(), 16).expect("a chunk size");
            body.extend(self.read_exactly(size));
            self.expect("\r\n");
            if size == 0 {
                return body;
            }
        }
    }

    /// Reads one head, to its blank line.
    pub fn read_head(&mut self) -> String {
        text(&self.read_until("\r\n\r\n"))
    }

    /// Reads as many bytes as `expected` has, which must be those.
    pub fn expect(&mut self, expected: impl AsRef<[u8]>) {
        let expected = expected.as_ref();
        let got = self.read_exactly(expected.len());
        assert_eq!(text(&got), text(expected));
    }

    /// Reads one response to a request other than HEAD.
    pub fn read_response(&mut self) -> HttpResponse {
        HttpResponse::read(self, false)
    }

    /// Reads one response to a HEAD request.
    pub fn read_response_to_head(&mut self) -> HttpResponse {
        HttpResponse::read(self, true)
    }

    /// Reads to the peer's FIN; a reset is a panic.
    pub fn read_to_end(&mut self) -> Vec<u8> {
        let end = self.drain();
        assert_eq!(end, End::Closed, "received {}", self.shown());
        self.take(self.received.len())
    }

    /// Reads to the peer's FIN, before which nothing more may come.
    pub fn expect_closed(&mut self) {
        let rest = self.read_to_end();
        assert!(rest.is_empty(), "more bytes before the end: {:?}", text(&rest));
    }

    /// Reads to the peer's RST, which says that what came is not the whole; FIN is a panic.
    pub fn expect_reset(&mut self) -> Vec<u8> {
        let end = self.drain();
        assert_eq!(end, End::Reset, "received {}", self.shown());
        self.take(self.received.len())
    }

    /// Reads until the connection ends in either way, and returns what came before.
    pub fn read_until_gone(&mut self) -> Vec<u8> {
        self.drain();
        self.take(self.received.len())
    }

    /// The number of unread bytes: those that arrived together with the last read.
    pub fn waiting(&self) -> usize {
        self.received.len()
    }

    /// Waits for the next byte, and says whether the end came instead. For a script that serves
    /// one request after the other until its peer goes away.
    ///
    /// Its peer may keep the connection open for [`PATIENCE`] without a request.
    pub fn at_end(&mut self) -> bool {
        self.received.is_empty() && self.fill_within(2 * PATIENCE).is_some()
    }

    fn drain(&mut self) -> End {
        loop {
            if let Some(end) = self.fill() {
                return end;
            }
        }
    }

    /// Receives once: the end, if there is nothing more. Panics if nothing comes in [`PATIENCE`].
    fn fill(&mut self) -> Option<End> {
        self.fill_within(PATIENCE)
    }

    fn fill_within(&mut self, time: Duration) -> Option<End> {
        let deadline = Instant::now() + time;
        let mut buffer = [0; 16 * 1024];
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            assert!(!left.is_zero(), "nothing came in {time:?}; received {}", self.shown());
            self.stream.set_read_timeout(Some(left)).expect("a read time-out");
            match self.stream.as_ref().read(&mut buffer) {
                Ok(0) => return Some(End::Closed),
                Ok(count) => {
                    self.received.extend_from_slice(&buffer[..count]);
                    self.seen.extend_from_slice(&buffer[..count]);
                    return None;
                }
                Err(error) => match error.kind() {
                    ErrorKind::WouldBlock | ErrorKind::TimedOut | ErrorKind::Interrupted => {}
                    ErrorKind::ConnectionReset | ErrorKind::BrokenPipe => return Some(End::Reset),
                    _ => panic!("receiving: {error}; received {}", self.shown()),
                },
            }
        }
    }

    fn take(&mut self, count: usize) -> Vec<u8> {
        let rest = self.received.split_off(count);
        std::mem::replace(&mut self.received, rest)
    }

    fn shown(&self) -> String {
        let from = self.seen.len().saturating_sub(2000);
        format!("{} bytes: {:?}", self.seen.len(), text(&self.seen[from..]))
    }
}

/// Connects. A server that accepts and resets at once may be faster than `connect` of std, which
/// would report the reset; here the first read or write does.
fn connect(address: SocketAddr) -> io::Result<TcpStream> {
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, None)?;
    socket.set_nonblocking(true)?;
    if let Err(error) = socket.connect(&address.into())
        && error.raw_os_error() != Some(Errno::INPROGRESS.raw_os_error())
    {
        return Err(error);
    }
    let timeout = Timespec::try_from(PATIENCE).expect("a short time");
    let mut connecting = [PollFd::new(&socket, PollFlags::OUT)];
    if rustix::io::retry_on_intr(|| poll(&mut connecting, Some(&timeout)))? == 0 {
        return Err(ErrorKind::TimedOut.into());
    }
    socket.set_nonblocking(false)?;
    Ok(socket.into())
}

pub(crate) fn find(bytes: &[u8], mark: &[u8]) -> Option<usize> {
    bytes.windows(mark.len()).position(|window| window == mark)
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}
