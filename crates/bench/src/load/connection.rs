//! One connection of the load generator.
//!
//! Owns its socket and the progress of request and response. Promises never to block, and that an
//! open socket is in the epoll set. Uses no clock and counts nothing.

use std::io::{self, ErrorKind};
use std::net::{Ipv4Addr, SocketAddrV4};
use std::os::fd::{AsRawFd, RawFd};
use std::time::Duration;

use socket2::{Domain, SockAddr, Socket, Type};

use super::http::{self, FeedResult};
use super::http2::{Finished, Streams};
use super::{Address, Sent, http2, resp, tls, websocket};
use crate::epoll::Epoll;

/// The expectations of every response.
#[derive(Debug)]
pub(super) enum Rules {
    Http(http::Rules),
    Http2(http2::Rules),
    Resp(resp::Rules),
    WebSocket(websocket::Rules),
}

/// The awaited response of one connection.
#[derive(Debug)]
pub(super) enum AwaitedResponse {
    Http(http::ResponseParser),
    Http2(Box<Streams>),
    Resp(resp::ReplyCounter),
    WebSocket(websocket::EchoParser),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ConnectionStage {
    /// No socket; to be tried again at that time, or when it is needed.
    Closed {
        retry_ns: u64,
    },
    Connecting,
    /// The handshake of TLS or of a WebSocket is on its way or waits for its response.
    Handshaking,
    /// Nothing is outstanding.
    Idle,
    /// A request is on its way or waits for its response.
    Requesting,
}

#[derive(Debug)]
pub(super) struct Connection {
    socket: Option<Socket>,
    pub(super) stage: ConnectionStage,
    /// When the request was due, or connecting began.
    pub(super) since_ns: u64,
    /// When it was sent, or connecting began.
    pub(super) asked_ns: u64,
    /// True if it is among the free connections of an open loop.
    pub(super) listed: bool,
    /// Bytes of the request that are not sent yet, from its end.
    unsent: usize,
    tls: Option<Box<tls::Session>>,
    answer: AwaitedResponse,
}

/// The address of the server.
#[derive(Debug)]
pub(super) struct Peer {
    address: SockAddr,
    domain: Domain,
    /// The address that connections come from; unset: the kernel's choice.
    source: Option<SockAddr>,
}

impl Peer {
    pub(super) fn new(address: &Address) -> io::Result<Self> {
        Ok(match address {
            Address::Tcp(address) => {
                let domain = Domain::for_address(*address);
                Self { address: (*address).into(), domain, source: None }
            }
            Address::Unix(path) => {
                Self { address: SockAddr::unix(path)?, domain: Domain::UNIX, source: None }
            }
        })
    }

    /// Connects from another loopback address: each has its own ports.
    pub(super) fn connect_from(&mut self, number: u8) {
        let is_loopback = |address: SocketAddrV4| address.ip().is_loopback();
        if self.address.as_socket_ipv4().is_some_and(is_loopback) {
            let address = Ipv4Addr::new(127, 0, 1, number);
            self.source = Some(SocketAddrV4::new(address, 0).into());
        }
    }
}

impl Connection {
    pub(super) fn new(rules: &Rules) -> Self {
        let answer = match rules {
            Rules::Http(_) => AwaitedResponse::Http(http::ResponseParser::default()),
            Rules::Http2(_) => AwaitedResponse::Http2(Box::default()),
            Rules::Resp(_) => AwaitedResponse::Resp(resp::ReplyCounter::default()),
            Rules::WebSocket(_) => AwaitedResponse::WebSocket(websocket::EchoParser::default()),
        };
        let stage = ConnectionStage::Closed { retry_ns: 0 };
        Self {
            socket: None,
            stage,
            since_ns: 0,
            asked_ns: 0,
            listed: false,
            unsent: 0,
            tls: None,
            answer,
        }
    }

    /// Begins to connect, without waiting. A session of TLS begins with what is sent first.
    pub(super) fn open(&mut self, peer: &Peer, tls: Option<tls::Session>) -> io::Result<RawFd> {
        let socket = Socket::new(peer.domain, Type::STREAM.nonblocking().cloexec(), None)?;
        if peer.domain != Domain::UNIX {
            socket.set_tcp_nodelay(true)?;
        }
        if let Some(source) = &peer.source {
            socket.bind(source)?;
        }
        match socket.connect(&peer.address) {
            Ok(()) => {}
            Err(error) if error.raw_os_error() == Some(libc::EINPROGRESS) => {}
            Err(error) => return Err(error),
        }
        let fd = socket.as_raw_fd();
        self.stage = ConnectionStage::Connecting;
        self.socket = Some(socket);
        self.tls = tls.map(Box::new);
        if let AwaitedResponse::Http2(streams) = &mut self.answer {
            **streams = Streams::default();
        }
        Ok(fd)
    }

    /// Waits from now on, no longer than so long for each step.
    pub(super) fn block(&mut self, longest: Duration) -> io::Result<()> {
        let Some(socket) = &self.socket else { return Err(ErrorKind::NotConnected.into()) };
        socket.set_nonblocking(false)?;
        socket.set_read_timeout(Some(longest))?;
        socket.set_write_timeout(Some(longest))
    }

    /// Adds the socket to the set; `writable` also reports when it is connected or writable.
    pub(super) fn watch(&self, epoll: &Epoll, writable: bool) -> io::Result<()> {
        match (&self.socket, writable) {
            (Some(socket), false) => epoll.add(socket),
            (Some(socket), true) => epoll.add_both(socket),
            (None, _) => Err(ErrorKind::NotConnected.into()),
        }
    }

    /// True if connecting has completed; an error if it failed.
    pub(super) fn connected(&self) -> io::Result<bool> {
        let Some(socket) = &self.socket else { return Err(ErrorKind::NotConnected.into()) };
        if let Some(error) = socket.take_error()? {
            return Err(error);
        }
        match socket.peer_addr() {
            Ok(_) => Ok(true),
            Err(error) if error.kind() == ErrorKind::NotConnected => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Sends the first message of TLS.
    pub(super) fn secure(&mut self) -> io::Result<Sent> {
        self.stage = ConnectionStage::Handshaking;
        self.flush(&[])
    }

    /// Sends the handshake of a WebSocket.
    pub(super) fn greet(&mut self, greeting: &[u8]) -> io::Result<Sent> {
        if let AwaitedResponse::WebSocket(answer) = &mut self.answer {
            answer.greet();
        }
        self.stage = ConnectionStage::Handshaking;
        self.unsent = greeting.len();
        self.flush(greeting)
    }

    /// Sends a request for so many responses, or requests on all streams of HTTP/2.
    pub(super) fn ask(
        &mut self,
        rules: &Rules,
        request: &[u8],
        answers: u32,
        compared: bool,
    ) -> io::Result<Sent> {
        match &mut self.answer {
            AwaitedResponse::Http(answer) => answer.expect(compared),
            AwaitedResponse::Http2(_) => self.refill(rules, self.since_ns),
            AwaitedResponse::Resp(rest) => rest.expect(answers),
            AwaitedResponse::WebSocket(answer) => answer.expect(),
        }
        self.stage = ConnectionStage::Requesting;
        match &mut self.tls {
            Some(session) => session.send(request)?,
            None => self.unsent = request.len(),
        }
        self.flush(request)
    }

    /// Sends the next requests of HTTP/2, with [`Connection::flush`].
    pub(super) fn refill(&mut self, rules: &Rules, since_ns: u64) {
        if let (AwaitedResponse::Http2(streams), Rules::Http2(rules)) = (&mut self.answer, rules) {
            streams.fill(rules, since_ns);
        }
    }

    fn streams(&self) -> Option<&Streams> {
        match &self.answer {
            AwaitedResponse::Http2(streams) => Some(streams),
            _ => None,
        }
    }

    pub(super) fn is_http2(&self) -> bool {
        self.streams().is_some()
    }

    /// The responses of HTTP/2 that ended with what was fed last.
    pub(super) fn finished(&self) -> &[Finished] {
        self.streams().map_or(&[], Streams::finished)
    }

    /// True if no response of HTTP/2 is outstanding.
    pub(super) fn is_idle(&self) -> bool {
        self.streams().is_some_and(Streams::is_idle)
    }

    /// True if the server takes no more requests of HTTP/2.
    pub(super) fn is_closing(&self) -> bool {
        self.streams().is_some_and(Streams::is_closing)
    }

    /// When the request was sent that waits longest, or connecting began.
    pub(super) fn oldest_ns(&self) -> u64 {
        self.streams().and_then(Streams::oldest_ns).unwrap_or(self.asked_ns)
    }

    pub(super) fn has_unsent(&self) -> bool {
        self.unsent > 0
            || self.streams().is_some_and(|streams| !streams.unsent().is_empty())
            || self.tls.as_ref().is_some_and(|session| session.has_unsent())
    }

    /// Sends the rest of the request, or of the handshake.
    pub(super) fn flush(&mut self, request: &[u8]) -> io::Result<Sent> {
        let Some(socket) = &self.socket else { return Err(ErrorKind::NotConnected.into()) };
        if let Some(session) = &mut self.tls {
            return session.flush(socket);
        }
        if let AwaitedResponse::Http2(streams) = &mut self.answer {
            while !streams.unsent().is_empty() {
                match socket.send_with_flags(streams.unsent(), libc::MSG_NOSIGNAL) {
                    Ok(count) => streams.sent(count),
                    Err(error) if error.kind() == ErrorKind::Interrupted => {}
                    Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(Sent::Part),
                    Err(error) => return Err(error),
                }
            }
            return Ok(Sent::All);
        }
        while self.unsent > 0 {
            let rest = &request[request.len() - self.unsent..];
            // A closed peer is an error to count, and not a signal that ends the process.
            match socket.send_with_flags(rest, libc::MSG_NOSIGNAL) {
                Ok(count) => self.unsent -= count,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(Sent::Part),
                Err(error) => return Err(error),
            }
        }
        Ok(Sent::All)
    }

    /// Reads once: how many bytes there were, 0 at the end of the connection.
    pub(super) fn read(&self, buffer: &mut [u8]) -> io::Result<usize> {
        let Some(mut socket) = self.socket.as_ref() else {
            return Err(ErrorKind::NotConnected.into());
        };
        io::Read::read(&mut socket, buffer)
    }

    /// Decrypts received bytes into `plain` and sends what TLS replies; `false` without TLS.
    pub(super) fn decrypt(&mut self, bytes: &[u8], plain: &mut Vec<u8>) -> io::Result<bool> {
        let Some(session) = &mut self.tls else { return Ok(false) };
        plain.clear();
        session.receive(bytes, plain)?;
        self.flush(&[])?;
        Ok(true)
    }

    /// True if the connection has to be secured before its first request, and is not yet.
    pub(super) fn is_securing(&self) -> bool {
        self.tls.as_ref().is_some_and(|session| session.is_handshaking())
    }

    /// True without TLS, and with a handshake of the kind that is measured.
    pub(super) fn is_secured_as_expected(&self) -> bool {
        self.tls.as_ref().is_none_or(|session| session.is_as_expected())
    }

    pub(super) fn feed(&mut self, rules: &Rules, bytes: &[u8]) -> FeedResult {
        match (&mut self.answer, rules) {
            (AwaitedResponse::Http(answer), Rules::Http(rules)) => answer.feed(rules, bytes),
            (AwaitedResponse::Http2(streams), Rules::Http2(rules)) => streams.feed(rules, bytes),
            (AwaitedResponse::Resp(answers), Rules::Resp(rules)) => answers.feed(rules, bytes),
            (AwaitedResponse::WebSocket(answer), Rules::WebSocket(rules)) => {
                answer.feed(rules, bytes)
            }
            _ => unreachable!("all connections of a run are made for its rules"),
        }
    }

    /// The peer will send no more.
    pub(super) fn ended(&mut self, rules: &Rules) -> FeedResult {
        match (&mut self.answer, rules) {
            (AwaitedResponse::Http(answer), Rules::Http(rules)) => answer.ended(rules),
            _ => FeedResult::Broken { right: 0, kind: super::Kind::Read },
        }
    }

    pub(super) fn close(&mut self, retry_ns: u64) {
        self.socket = None;
        self.tls = None;
        self.unsent = 0;
        self.stage = ConnectionStage::Closed { retry_ns };
    }
}
