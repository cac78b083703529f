//! A network in memory, for tests of programs.
//!
//! While a thread has one, its listeners take no port and its connections reach these listeners
//! only. Both are Unix sockets in Linux's abstract namespace, named after the addresses that the
//! program writes, so everything above them is the code that serves over TCP. Promises that an
//! address without a listener refuses connections, that a name resolves only if the test says to
//! what, and that a reset is seen as one. Bytes and connections arrive in the order in which they
//! were sent; nothing is lost or delayed. Datagrams stay those of the system.
//!
//! Without a network, listening, connecting and resolving look at one thread-local variable.

use std::cell::RefCell;
use std::collections::HashMap;
use std::fmt::Display;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::BorrowedFd;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use rustix::io::Errno;
use socket2::{Domain, SockAddr, SockRef, Socket, Type};

use crate::platform;

/// The first of the ports that are given to clients, and to listeners that request port 0.
const FIRST_PORT: u16 = 49152;

/// True once one end of a connection was reset.
pub(crate) type ResetFlag = Arc<AtomicBool>;

struct NetworkState {
    id: u64,
    next_port: u16,
    hosts: HashMap<String, IpAddr>,
    /// Connections that were not accepted yet, by their client's name.
    connecting: HashMap<String, ResetFlag>,
}

thread_local! {
    static NETWORK: RefCell<Option<NetworkState>> = const { RefCell::new(None) };
}

/// The network of this thread, until it is dropped or another one is entered.
#[derive(Debug)]
pub struct MemoryNetwork {
    id: u64,
}

impl MemoryNetwork {
    /// Replaces the network of this thread by an empty one in memory. Sockets that are open stay
    /// what they are.
    pub fn enter() -> MemoryNetwork {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        let id = NEXT.fetch_add(1, Ordering::Relaxed);
        NETWORK.set(Some(NetworkState {
            id,
            next_port: FIRST_PORT,
            hosts: HashMap::new(),
            connecting: HashMap::new(),
        }));
        MemoryNetwork { id }
    }

    /// Sets the address of a host name.
    pub fn set_host(&self, name: &str, address: IpAddr) {
        with(|network| {
            if network.id == self.id {
                network.hosts.insert(normal(name), address);
            }
        });
    }
}

impl Drop for MemoryNetwork {
    fn drop(&mut self) {
        NETWORK.with_borrow_mut(|network| {
            if network.as_ref().is_some_and(|network| network.id == self.id) {
                *network = None;
            }
        });
    }
}

fn with<R>(work: impl FnOnce(&mut NetworkState) -> R) -> Option<R> {
    NETWORK.with_borrow_mut(|network| network.as_mut().map(work))
}

fn normal(name: &str) -> String {
    name.trim_end_matches('.').to_ascii_lowercase()
}

impl NetworkState {
    fn port(&mut self) -> u16 {
        let port = self.next_port;
        self.next_port = port.checked_add(1).unwrap_or(FIRST_PORT);
        port
    }

    /// The name of a socket in the abstract namespace.
    fn name(&self, what: &str, address: &impl Display) -> io::Result<SockAddr> {
        let (process, id) = (std::process::id(), self.id);
        SockAddr::unix(format!("\0tidegate-memory/{process}/{id}/{what}/{address}"))
    }

    fn listen(&self, address: &impl Display, backlog: i32) -> io::Result<Socket> {
        let socket = Socket::new(Domain::UNIX, Type::STREAM, None)?;
        socket.set_nonblocking(true)?;
        socket.bind(&self.name("listener", address)?)?;
        socket.listen(backlog)?;
        Ok(socket)
    }

    /// Connects to the first of these addresses that has a listener.
    fn connect(&mut self, client: String, to: &[String]) -> io::Result<(Socket, ResetFlag)> {
        let socket = platform::socket(Domain::UNIX)?;
        socket.bind(&self.name("client", &client)?)?;
        for address in to {
            match socket.connect(&self.name("listener", address)?) {
                Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => {}
                Err(error) => return Err(error),
                Ok(()) => {
                    let reset = ResetFlag::default();
                    self.connecting.insert(client, reset.clone());
                    return Ok((socket, reset));
                }
            }
        }
        Err(Errno::CONNREFUSED.into())
    }
}

fn unix_name(path: &Path) -> String {
    format!("unix:{}", path.display())
}

/// Listens on an address of TCP; `None` outside of a network in memory.
pub(crate) fn listen_tcp(
    mut address: SocketAddr,
    backlog: i32,
) -> Option<io::Result<(Socket, SocketAddr)>> {
    with(|network| {
        if address.port() == 0 {
            address.set_port(network.port());
        }
        network.listen(&address, backlog).map(|socket| (socket, address))
    })
}

/// Listens on a path, without a file there; `None` outside of a network in memory.
pub(crate) fn listen_unix(path: &Path, backlog: i32) -> Option<io::Result<Socket>> {
    with(|network| network.listen(&unix_name(path), backlog))
}

/// Connects over TCP; `None` outside of a network in memory.
pub(crate) fn connect_tcp(
    from: Option<SocketAddr>,
    to: SocketAddr,
) -> Option<io::Result<(Socket, ResetFlag)>> {
    with(|network| {
        let own = match to {
            SocketAddr::V4(_) => Ipv4Addr::LOCALHOST.into(),
            SocketAddr::V6(_) => Ipv6Addr::LOCALHOST.into(),
        };
        let mut client = from.unwrap_or(SocketAddr::new(own, 0));
        if client.port() == 0 {
            client.set_port(network.port());
        }
        let any = [IpAddr::from(Ipv6Addr::UNSPECIFIED), Ipv4Addr::UNSPECIFIED.into()];
        let any = any.map(|ip| SocketAddr::new(ip, to.port()));
        let to: Vec<String> = [&[to][..], &any].concat().iter().map(ToString::to_string).collect();
        network.connect(client.to_string(), &to)
    })
}

/// Connects to a path; `None` outside of a network in memory.
pub(crate) fn connect_unix(path: &Path) -> Option<io::Result<(Socket, ResetFlag)>> {
    with(|network| {
        let client = format!("unix:{}", network.port());
        let refused = |error: io::Error| match error.kind() {
            io::ErrorKind::ConnectionRefused => Errno::NOENT.into(),
            _ => error,
        };
        network.connect(client, &[unix_name(path)]).map_err(refused)
    })
}

/// The address of the client of a connection that was accepted, if it has one; `None` if this is no
/// connection of this thread's network.
pub(crate) fn accepted(socket: BorrowedFd<'_>) -> Option<(Option<SocketAddr>, ResetFlag)> {
    with(|network| {
        let peer = SockRef::from(&socket).peer_addr().ok()?;
        let name = std::str::from_utf8(peer.as_abstract_namespace()?).ok()?;
        let own = format!("tidegate-memory/{}/{}/client/", std::process::id(), network.id);
        let client = name.strip_prefix(&own)?;
        Some((client.parse().ok(), network.connecting.remove(client)?))
    })
    .flatten()
}

/// The addresses of a host name; `None` outside of a network in memory.
pub(crate) fn resolve(host: &str) -> Option<Vec<IpAddr>> {
    with(|network| match normal(host).as_str() {
        "localhost" => vec![Ipv4Addr::LOCALHOST.into()],
        name => network.hosts.get(name).copied().into_iter().collect(),
    })
}

#[cfg(test)]
mod tests {
    use std::net::{IpAddr, Ipv4Addr, SocketAddr};
    use std::path::Path;

    use super::MemoryNetwork;
    use crate::worker::block_on_local;
    use crate::{Bind, ListenOptions, Listener, Listening, NoAddress, Peer, Resolver, Stream};

    fn bind(bind: &Bind) -> std::io::Result<Listener> {
        let listening = Listening::bind(bind, 1, &ListenOptions::default());
        let socket = listening.map_err(|error| error.error)?.into_sockets().pop();
        socket.expect("one for each worker").adopt()
    }

    fn listen(address: &str) -> std::io::Result<Listener> {
        bind(&Bind::Tcp(address.parse().expect("an address")))
    }

    async fn connect(address: &str) -> std::io::Result<Stream> {
        Stream::connect_tcp(address.parse().expect("an address")).await
    }

    async fn receive(stream: &Stream) -> Vec<u8> {
        stream.receive().await.expect("bytes").to_vec()
    }

    #[test]
    fn connections_reach_the_listeners_of_their_thread() {
        block_on_local(async {
            let _network = MemoryNetwork::enter();
            // The discard port of an address that this machine has not: in memory both are free.
            let listener = listen("192.0.2.1:9").expect("the address is free");
            assert_eq!(*listener.local(), Bind::Tcp("192.0.2.1:9".parse().unwrap()));
            let client = connect("192.0.2.1:9").await.expect("a listener");
            let accepted = listener.accept().await.expect("a connection");
            let peer: SocketAddr = "127.0.0.1:49152".parse().unwrap();
            assert_eq!(accepted.peer, Peer::Tcp(peer));
            client.try_send_slice(b"there").expect("room");
            assert_eq!(receive(&accepted.stream).await, b"there");
            accepted.stream.try_send_slice(b"and back").expect("room");
            accepted.stream.finish();
            assert_eq!(receive(&client).await, b"and back");
            assert!(receive(&client).await.is_empty(), "the end");
            client.try_send_slice(b"half-closed").expect("room");
            assert_eq!(receive(&accepted.stream).await, b"half-closed");
            let kind = connect("192.0.2.1:10").await.expect_err("no listener").kind();
            assert_eq!(kind, std::io::ErrorKind::ConnectionRefused);
            let kind = listen("192.0.2.1:9").expect_err("it is in use").kind();
            assert_eq!(kind, std::io::ErrorKind::AddrInUse);
            drop(listener);
            assert!(connect("192.0.2.1:9").await.is_err());
            listen("192.0.2.1:9").expect("the address is free again");
        });
    }

    #[test]
    fn wildcards_take_every_address_and_paths_need_no_directory() {
        block_on_local(async {
            let _network = MemoryNetwork::enter();
            let listener = listen("[::]:0").expect("a port");
            let Bind::Tcp(local) = *listener.local() else { panic!("TCP") };
            assert_ne!(local.port(), 0);
            for host in ["10.1.2.3", "[::1]"] {
                connect(&format!("{host}:{}", local.port())).await.expect("a listener");
            }
            let path = Path::new("/no/such/directory/app.sock");
            let listener = bind(&Bind::Unix(path.to_owned())).expect("no file is made");
            let _client = Stream::connect_unix(path).await.expect("a listener");
            assert_eq!(listener.accept().await.expect("a connection").peer, Peer::Unix);
            let kind = Stream::connect_unix(Path::new("/other")).await.expect_err("none").kind();
            assert_eq!(kind, std::io::ErrorKind::NotFound);
        });
    }

    #[test]
    fn a_reset_is_not_an_end() {
        block_on_local(async {
            let _network = MemoryNetwork::enter();
            let listener = listen("127.0.0.1:80").expect("the port is free");
            for is_client in [true, false] {
                let client = connect("127.0.0.1:80").await.expect("a listener");
                let accepted = listener.accept().await.expect("a connection").stream;
                let (ours, theirs) =
                    if is_client { (client, accepted) } else { (accepted, client) };
                theirs.try_send_slice(b"part").expect("room");
                theirs.abort();
                assert_eq!(receive(&ours).await, b"part");
                let kind = ours.receive().await.expect_err("a reset").kind();
                assert_eq!(kind, std::io::ErrorKind::ConnectionReset);
                let kind = ours.try_receive_into(&mut [0; 4]).expect_err("a reset").kind();
                assert_eq!(kind, std::io::ErrorKind::ConnectionReset);
            }
        });
    }

    #[test]
    fn names_are_those_of_the_test_and_the_network_ends_with_it() {
        block_on_local(async {
            let resolver = Resolver::system();
            let network = MemoryNetwork::enter();
            network.set_host("Redis.internal", IpAddr::from([10, 0, 0, 7]));
            let found = resolver.resolve("redis.internal.", 6379).await.expect("an address");
            assert_eq!(found.addresses, [SocketAddr::from(([10, 0, 0, 7], 6379))]);
            let unknown = resolver.resolve("db.internal", 1).await.expect_err("no address");
            assert_eq!(unknown.reason, NoAddress::Unknown);
            let found = resolver.addresses("localhost", false).await.expect("an address");
            assert_eq!(found, [IpAddr::from(Ipv4Addr::LOCALHOST)]);
            let other = MemoryNetwork::enter();
            drop(network);
            let _listener = listen("192.0.2.1:9").expect("the later network is in use");
            drop(other);
            let kind = listen("192.0.2.1:9").expect_err("not of this machine").kind();
            assert_eq!(kind, std::io::ErrorKind::AddrNotAvailable);
        });
    }
}
