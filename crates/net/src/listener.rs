//! Listening sockets.
//!
//! A TCP address is bound without SO_REUSEPORT, so that an address in use is an error and not
//! silently shared with another process. Only then is the socket opened to a SO_REUSEPORT group in
//! which every worker has its own socket, and the kernel distributes connections. A Unix socket is
//! one socket that the workers share; a stale socket file is detected by connecting to it.
//!
//! A listener leaves its group only after its queue is drained ([`Listener::drain`]): closing a
//! queue with connections in it would reset them.

use std::fmt;
use std::future::poll_fn;
use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use rustix::io::Errno;
use socket2::{Domain, Protocol, SockAddr, SockRef, Socket, TcpKeepalive, Type};

use crate::datagram::Datagram;
use crate::memory_network;
use crate::platform;
use crate::readiness::{Side, Source};
use crate::stream::{Peer, Stream, own_descriptor};

/// Where to listen; `Tcp` is an IP address and a port, of UDP too where the options say so.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Bind {
    Tcp(SocketAddr),
    Unix(PathBuf),
}

impl fmt::Display for Bind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Bind::Tcp(address) => address.fmt(f),
            Bind::Unix(path) => write!(f, "unix:{}", path.display()),
        }
    }
}

impl Bind {
    /// True if a socket on one excludes a socket of the same protocol on the other. Port 0 is
    /// another port each time.
    pub fn overlaps(&self, other: &Bind) -> bool {
        // `::` accepts IPv4 too.
        let covers =
            |all: IpAddr, one: IpAddr| all.is_unspecified() && (all.is_ipv6() || one.is_ipv4());
        match (self, other) {
            (Bind::Tcp(one), Bind::Tcp(other)) => {
                let (port, ips) = (one.port(), (one.ip(), other.ip()));
                let is_covered = covers(ips.0, ips.1) || covers(ips.1, ips.0);
                port != 0 && port == other.port() && (one == other || is_covered)
            }
            _ => self == other,
        }
    }
}

/// Socket options set before listening; accepted connections inherit them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListenOptions {
    /// Connections the kernel may queue before they are accepted.
    pub backlog: u32,
    /// Disables Nagle's algorithm.
    pub nodelay: bool,
    /// Idle time before TCP keepalive probes the peer; `None` disables it.
    pub keepalive: Option<Duration>,
    /// Permissions of the Unix socket's file; `None` applies the process's umask.
    pub mode: Option<u32>,
    /// UDP instead of TCP: the sockets receive datagrams ([`BoundSocket::adopt_datagram`]).
    pub datagrams: bool,
}

impl Default for ListenOptions {
    fn default() -> Self {
        ListenOptions {
            backlog: 4096,
            nodelay: true,
            keepalive: None,
            mode: None,
            datagrams: false,
        }
    }
}

/// Why an address cannot be listened on, as one sentence.
#[derive(Debug)]
pub struct BindError {
    pub bind: Bind,
    pub error: io::Error,
}

impl fmt::Display for BindError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.error.kind() {
            io::ErrorKind::AddrInUse => {
                write!(f, "cannot listen on {}: the address is in use", self.bind)
            }
            io::ErrorKind::PermissionDenied => write!(
                f,
                "cannot listen on {}: no permission (ports below 1024 need CAP_NET_BIND_SERVICE, \
                 a Unix socket a writable directory)",
                self.bind
            ),
            io::ErrorKind::AddrNotAvailable => {
                write!(f, "cannot listen on {}: this machine has no such address", self.bind)
            }
            _ => write!(f, "cannot listen on {}: {}", self.bind, self.error),
        }
    }
}

impl std::error::Error for BindError {}

/// Bound sockets, one for each worker, not yet part of any event loop.
#[derive(Debug)]
pub struct Listening {
    local: Bind,
    sockets: Vec<OwnedFd>,
}

impl Listening {
    /// Binds an address for `workers` workers.
    pub fn bind(
        bind: &Bind,
        workers: usize,
        options: &ListenOptions,
    ) -> Result<Listening, BindError> {
        let bound = bind_in_memory(bind, workers, options).unwrap_or_else(|| match bind {
            Bind::Tcp(address) if options.datagrams => bind_udp(*address, workers),
            Bind::Tcp(address) => bind_tcp(*address, workers, options),
            Bind::Unix(path) => bind_unix(path, workers, options),
        });
        bound.map_err(|error| BindError { bind: bind.clone(), error })
    }

    /// Takes over a listening socket given by descriptor number (systemd's `LISTEN_FDS` or a parent
    /// process), shared by all workers.
    ///
    /// # Safety
    /// The descriptor must be open and not owned by anything else in this process.
    pub unsafe fn inherit(descriptor: RawFd, workers: usize) -> io::Result<Listening> {
        // SAFETY: promised by the caller.
        let socket = Socket::from(unsafe { own_descriptor(descriptor) });
        socket.set_nonblocking(true)?;
        socket.set_cloexec(true)?;
        let local = local_of(&socket.local_addr()?)?;
        Ok(Listening { local, sockets: share(socket.into(), workers)? })
    }

    /// Adds a socket on an address that [`Listening::bind`] has bound in this process.
    pub fn bind_additional(
        local: SocketAddr,
        options: &ListenOptions,
    ) -> Result<BoundSocket, BindError> {
        let bind = Bind::Tcp(local);
        match join_tcp(local, options) {
            Ok(socket) => Ok(BoundSocket { socket, local: bind }),
            Err(error) => Err(BindError { bind, error }),
        }
    }

    /// Returns the address that is actually bound: the port is known even if 0 was requested.
    pub fn local(&self) -> &Bind {
        &self.local
    }

    /// Returns the descriptor numbers, to pass to another process.
    pub fn descriptors(&self) -> Vec<RawFd> {
        self.sockets.iter().map(AsRawFd::as_raw_fd).collect()
    }

    /// Returns the first socket, for child processes that share it.
    pub fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        self.sockets.first().map(AsFd::as_fd)
    }

    /// Returns one socket for each worker, in order.
    pub fn into_sockets(self) -> Vec<BoundSocket> {
        let local = self.local;
        self.sockets
            .into_iter()
            .map(|socket| BoundSocket { socket, local: local.clone() })
            .collect()
    }
}

/// One worker's socket of a [`Listening`]; may be sent to the worker's thread.
#[derive(Debug)]
pub struct BoundSocket {
    socket: OwnedFd,
    local: Bind,
}

impl BoundSocket {
    /// Registers the socket with this worker's event loop.
    pub fn adopt(self) -> io::Result<Listener> {
        Ok(Listener { source: Source::shared(self.socket)?, local: self.local })
    }

    /// True for a socket of UDP.
    pub fn is_datagram(&self) -> io::Result<bool> {
        Ok(SockRef::from(&self.socket).r#type()? == Type::DGRAM)
    }

    /// Registers a socket of UDP with this worker's event loop.
    pub fn adopt_datagram(self) -> io::Result<Datagram> {
        Datagram::from_descriptor(self.socket)
    }
}

/// A listener on this worker's event loop.
#[derive(Debug)]
pub struct Listener {
    source: Source,
    local: Bind,
}

/// A new connection.
#[derive(Debug)]
pub struct Accepted {
    pub stream: Stream,
    pub peer: Peer,
}

impl Listener {
    pub fn local(&self) -> &Bind {
        &self.local
    }

    /// Accepts the next connection. An error concerns this attempt only; see [`is_exhausted`].
    pub fn poll_accept(&self, cx: &mut Context<'_>) -> Poll<io::Result<Accepted>> {
        loop {
            match self.source.try_io(Side::Read, || accept_one(self.source.as_fd())) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    ready!(self.source.poll_ready(Side::Read, cx))?;
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                accepted => return Poll::Ready(accepted),
            }
        }
    }

    /// Ready when there may be a connection. Another process that shares the socket may accept it
    /// first.
    pub fn poll_pending(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.source.poll_ready(Side::Read, cx)
    }

    pub async fn accept(&self) -> io::Result<Accepted> {
        poll_fn(|cx| self.poll_accept(cx)).await
    }

    /// Accepts the connections the kernel has queued, then closes the socket.
    pub fn drain(self) -> io::Result<Vec<Accepted>> {
        let listener = self.source.into_descriptor();
        Ok(take_queued(|| accept_one(listener.as_fd())))
    }
}

fn accept_one(listener: BorrowedFd<'_>) -> io::Result<Accepted> {
    let (socket, address) = platform::accept(listener)?;
    let peer = address.map_or(Peer::Unix, Peer::Tcp);
    if peer == Peer::Unix
        && let Some((address, reset)) = memory_network::accepted(socket.as_fd())
    {
        let stream = Stream::from_memory(socket, reset)?;
        return Ok(Accepted { stream, peer: address.map_or(Peer::Unix, Peer::Tcp) });
    }
    let stream = Stream::from_accepted(socket, matches!(peer, Peer::Tcp(_)))?;
    Ok(Accepted { stream, peer })
}

/// Accepts until the queue is empty or no more can be accepted. A connection that its client has
/// aborted does not end the loop.
fn take_queued(mut accept: impl FnMut() -> io::Result<Accepted>) -> Vec<Accepted> {
    let mut accepted = Vec::new();
    loop {
        match accept() {
            Ok(connection) => accepted.push(connection),
            Err(error) if error.kind() == io::ErrorKind::ConnectionAborted => {}
            // The queue is empty, or no descriptor is free: the accepted connections are served.
            Err(_) => return accepted,
        }
    }
}

/// True if accepting failed for lack of descriptors or memory: the connection is still queued, and
/// an immediate retry would spin.
pub fn is_exhausted(error: &io::Error) -> bool {
    matches!(
        Errno::from_io_error(error),
        Some(Errno::MFILE | Errno::NFILE | Errno::NOBUFS | Errno::NOMEM)
    )
}

/// Listens in the network in memory of this thread; `None` if it has none.
fn bind_in_memory(
    bind: &Bind,
    workers: usize,
    options: &ListenOptions,
) -> Option<io::Result<Listening>> {
    let backlog = i32::try_from(options.backlog).unwrap_or(i32::MAX);
    let bound = match bind {
        Bind::Tcp(_) if options.datagrams => return None,
        Bind::Tcp(address) => memory_network::listen_tcp(*address, backlog)?
            .map(|(socket, local)| (socket, Bind::Tcp(local))),
        Bind::Unix(path) => {
            memory_network::listen_unix(path, backlog)?.map(|socket| (socket, bind.clone()))
        }
    };
    Some(bound.and_then(|(socket, local)| {
        Ok(Listening { local, sockets: share(socket.into(), workers)? })
    }))
}

fn bind_tcp(address: SocketAddr, workers: usize, options: &ListenOptions) -> io::Result<Listening> {
    let backlog = i32::try_from(options.backlog).unwrap_or(i32::MAX);
    let (first, address) = match tcp_socket(address, options) {
        Ok(socket) => (socket, address),
        Err(error) => {
            let address = without_v6(address, &error).ok_or(error)?;
            (tcp_socket(address, options)?, address)
        }
    };
    first.bind(&address.into())?;
    let address = local_address(&first)?;
    // listen(2) claims the address: of two servers that start at the same moment one gets an error
    // here. Only then is the socket opened to a group, whose members are all of this process.
    first.listen(backlog)?;
    first.set_reuse_port(true)?;
    let mut sockets = vec![OwnedFd::from(first)];
    for _ in 1..workers {
        sockets.push(join_tcp(address, options)?);
    }
    Ok(Listening { local: Bind::Tcp(address), sockets })
}

/// Adds a socket to the group of an address. From here on the kernel assigns connections to it.
fn join_tcp(address: SocketAddr, options: &ListenOptions) -> io::Result<OwnedFd> {
    let socket = tcp_socket(address, options)?;
    socket.set_reuse_port(true)?;
    socket.bind(&address.into())?;
    socket.listen(i32::try_from(options.backlog).unwrap_or(i32::MAX))?;
    Ok(OwnedFd::from(socket))
}

/// Replaces the unspecified IPv6 address by the IPv4 one on a kernel without IPv6.
fn without_v6(address: SocketAddr, error: &io::Error) -> Option<SocketAddr> {
    let no_v6 = Errno::from_io_error(error) == Some(Errno::AFNOSUPPORT);
    let any = address.is_ipv6() && address.ip().is_unspecified();
    (no_v6 && any).then(|| SocketAddr::from((Ipv4Addr::UNSPECIFIED, address.port())))
}

fn tcp_socket(address: SocketAddr, options: &ListenOptions) -> io::Result<Socket> {
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, Some(Protocol::TCP))?;
    socket.set_nonblocking(true)?;
    socket.set_reuse_address(true)?;
    if address.is_ipv6() && address.ip().is_unspecified() {
        // Accepts IPv4 too, even if net.ipv6.bindv6only is set (ipv6(7)).
        socket.set_only_v6(false)?;
    }
    // Linux passes these on to accepted connections, which saves two calls per connection.
    socket.set_tcp_nodelay(options.nodelay)?;
    if let Some(idle) = options.keepalive {
        socket.set_tcp_keepalive(&TcpKeepalive::new().with_time(idle))?;
    }
    Ok(socket)
}

/// As for TCP: the first socket claims the address, and only then is it opened to a group. The
/// kernel gives all datagrams of one client to the same member.
fn bind_udp(address: SocketAddr, workers: usize) -> io::Result<Listening> {
    let (first, address) = match udp_socket(address) {
        Ok(socket) => (socket, address),
        Err(error) => {
            let address = without_v6(address, &error).ok_or(error)?;
            (udp_socket(address)?, address)
        }
    };
    first.bind(&address.into())?;
    let address = local_address(&first)?;
    first.set_reuse_port(true)?;
    let mut sockets = vec![OwnedFd::from(first)];
    for _ in 1..workers {
        let socket = udp_socket(address)?;
        socket.set_reuse_port(true)?;
        socket.bind(&address.into())?;
        sockets.push(OwnedFd::from(socket));
    }
    Ok(Listening { local: Bind::Tcp(address), sockets })
}

fn udp_socket(address: SocketAddr) -> io::Result<Socket> {
    let socket = Socket::new(Domain::for_address(address), Type::DGRAM, Some(Protocol::UDP))?;
    socket.set_nonblocking(true)?;
    if address.is_ipv6() && address.ip().is_unspecified() {
        socket.set_only_v6(false)?;
    }
    Ok(socket)
}

fn local_address(socket: &Socket) -> io::Result<SocketAddr> {
    SockRef::from(socket)
        .local_addr()?
        .as_socket()
        .ok_or_else(|| io::Error::from(io::ErrorKind::AddrNotAvailable))
}

fn bind_unix(path: &Path, workers: usize, options: &ListenOptions) -> io::Result<Listening> {
    remove_stale(path)?;
    let socket = Socket::new(Domain::UNIX, Type::STREAM, None)?;
    socket.set_nonblocking(true)?;
    match options.mode {
        None => socket.bind(&SockAddr::unix(path)?)?,
        Some(mode) => platform::bind_restricted(&socket, path, mode)?,
    }
    socket.listen(i32::try_from(options.backlog).unwrap_or(i32::MAX))?;
    Ok(Listening { local: Bind::Unix(path.to_owned()), sockets: share(socket.into(), workers)? })
}

/// Removes a stale socket file; any other file in its place is left alone.
fn remove_stale(path: &Path) -> io::Result<()> {
    let Ok(metadata) = std::fs::symlink_metadata(path) else { return Ok(()) };
    if !metadata.file_type().is_socket() {
        return Err(io::Error::new(
            io::ErrorKind::AlreadyExists,
            "a file that is not a socket exists at this path",
        ));
    }
    match std::os::unix::net::UnixStream::connect(path) {
        Ok(_) => Err(io::ErrorKind::AddrInUse.into()),
        Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => {
            std::fs::remove_file(path)
        }
        Err(error) => Err(error),
    }
}

fn share(socket: OwnedFd, workers: usize) -> io::Result<Vec<OwnedFd>> {
    let mut sockets = vec![socket];
    for _ in 1..workers {
        let copy = sockets[0].try_clone()?;
        sockets.push(copy);
    }
    Ok(sockets)
}

pub(crate) fn local_of(address: &SockAddr) -> io::Result<Bind> {
    if let Some(address) = address.as_socket() {
        return Ok(Bind::Tcp(address));
    }
    address
        .as_pathname()
        .map(|path| Bind::Unix(path.to_owned()))
        .ok_or_else(|| io::Error::new(io::ErrorKind::Unsupported, "neither TCP nor a Unix path"))
}

#[cfg(test)]
mod tests;
