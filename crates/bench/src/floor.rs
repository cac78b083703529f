//! The floor servers and the mock backend: bare epoll loops that do the minimum to respond.
//!
//! Owns the entry point of such a process: `serve` parses its arguments, binds, prints `listening
//! ADDRESS`, and serves until the process exits. No epoll server can cost less than a floor, so
//! `floor ÷ tidegate` is the share of the cost that the kernel causes.

mod backend;
pub(crate) mod bodies;
mod grpc;
mod hello;
mod listing;
mod proxy;

pub use backend::{Behaviour, Content, body};
pub use grpc::message;
pub use listing::listing;

use crate::epoll::Epoll;
use crate::peers::BACKLOG;
use socket2::{Domain, Socket, Type};
use std::io::{self, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::AsRawFd;
use std::time::Duration;

/// The arguments of [`serve`].
pub const USAGE: &str = "hello ADDRESS | ping ADDRESS | proxy ADDRESS UPSTREAM keep|close | \
                         backend ADDRESS BODY_BYTES DELAY_MS keep|close text|listing | \
                         bodies ADDRESS | grpc ADDRESS MESSAGE_BYTES";

/// The server that a floor process runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Floor {
    Hello,
    Ping,
    Proxy {
        upstream: SocketAddr,
        keep: bool,
    },
    /// The backend of gateways.
    Backend(Behaviour),
    /// The backend of gateways for large bodies.
    Bodies,
    /// The backend of gateways of gRPC: a message of that many bytes.
    Grpc {
        message_bytes: usize,
    },
}

impl Floor {
    /// The arguments of [`serve`].
    pub(crate) fn arguments(self, address: SocketAddr) -> Vec<String> {
        let keep = |keep| if keep { "keep" } else { "close" };
        let line = match self {
            Self::Hello => format!("hello {address}"),
            Self::Ping => format!("ping {address}"),
            Self::Proxy { upstream, keep: kept } => {
                format!("proxy {address} {upstream} {}", keep(kept))
            }
            Self::Backend(Behaviour { body_bytes, delay, keep: kept, content }) => {
                let (kept, content) = (keep(kept), content.word());
                format!("backend {address} {body_bytes} {} {kept} {content}", delay.as_millis())
            }
            Self::Bodies => format!("bodies {address}"),
            Self::Grpc { message_bytes } => format!("grpc {address} {message_bytes}"),
        };
        line.split(' ').map(str::to_owned).collect()
    }
}

/// Runs the server that the arguments name; returns only when it failed.
pub fn serve(arguments: &[String]) -> io::Result<()> {
    let (address, floor) = parse(arguments)
        .ok_or_else(|| io::Error::new(io::ErrorKind::InvalidInput, format!("usage: {USAGE}")))?;
    let listener = listen(address)?;
    let mut stdout = io::stdout().lock();
    writeln!(stdout, "listening {}", listener.local_addr()?)?;
    stdout.flush()?;
    match floor {
        Floor::Hello => hello::serve(&listener, &hello::HELLO),
        Floor::Ping => hello::serve(&listener, &hello::PING),
        Floor::Proxy { upstream, keep } => proxy::serve(&listener, upstream, keep),
        Floor::Backend(behaviour) => backend::serve(&listener, behaviour),
        Floor::Bodies => bodies::serve(&listener),
        Floor::Grpc { message_bytes } => grpc::serve(&listener, message_bytes),
    }
}

/// With the backlog that every peer has. std takes 128: when a proxy under 512 connections makes
/// one to the backend for each request, the kernel drops what does not fit, and a client asks again
/// only after a second (RFC 6298, section 2.1). Then the backend is measured, and not the proxy.
fn listen(address: SocketAddr) -> io::Result<TcpListener> {
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, None)?;
    socket.set_reuse_address(true)?;
    socket.bind(&address.into())?;
    socket.listen(BACKLOG as i32)?;
    Ok(socket.into())
}

fn parse(arguments: &[String]) -> Option<(SocketAddr, Floor)> {
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let keep = |word: &str| match word {
        "keep" => Some(true),
        "close" => Some(false),
        _ => None,
    };
    let (address, floor) = match words[..] {
        ["hello", address] => (address, Floor::Hello),
        ["ping", address] => (address, Floor::Ping),
        ["proxy", address, upstream, kept] => {
            (address, Floor::Proxy { upstream: upstream.parse().ok()?, keep: keep(kept)? })
        }
        ["backend", address, bytes, delay_ms, kept, content] => {
            let delay = Duration::from_millis(delay_ms.parse().ok()?);
            let body_bytes = bytes.parse().ok()?;
            let (keep, content) = (keep(kept)?, Content::named(content)?);
            (address, Floor::Backend(Behaviour { body_bytes, delay, keep, content }))
        }
        ["bodies", address] => (address, Floor::Bodies),
        ["grpc", address, bytes] => (address, Floor::Grpc { message_bytes: bytes.parse().ok()? }),
        _ => return None,
    };
    Some((address.parse().ok()?, floor))
}

/// Accepts all connections that wait; the client of each is stored under its descriptor.
fn accept<C>(
    listener: &TcpListener,
    epoll: &Epoll,
    clients: &mut Vec<Option<C>>,
    mut client: impl FnMut(TcpStream) -> C,
) -> io::Result<()> {
    loop {
        let stream = match listener.accept() {
            Ok((stream, _)) => stream,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
            Err(error) => return Err(error),
        };
        stream.set_nonblocking(true)?;
        stream.set_nodelay(true)?;
        epoll.add(&stream)?;
        let slot = stream.as_raw_fd() as usize;
        if clients.len() <= slot {
            clients.resize_with(slot + 1, || None);
        }
        clients[slot] = Some(client(stream));
    }
}

#[cfg(test)]
mod tests {
    use super::{Behaviour, Content, Floor, listen, parse};
    use crate::peers::BACKLOG;
    use std::net::TcpStream;
    use std::time::Duration;

    #[test]
    fn connections_are_established_before_they_are_accepted() {
        // net.core.somaxconn of listen(2) cuts a backlog without a word.
        let most = std::fs::read_to_string("/proc/sys/net/core/somaxconn").unwrap();
        let waiting = most.trim().parse::<u32>().unwrap().min(BACKLOG).min(512);
        let made = || {
            let listener = listen("127.0.0.1:0".parse().unwrap()).unwrap();
            let address = listener.local_addr().unwrap();
            // A second is when the kernel would ask again.
            let time = Duration::from_millis(900);
            let made: Vec<_> = (0..waiting)
                .map_while(|_| TcpStream::connect_timeout(&address, time).ok())
                .collect();
            made.len() as u32
        };
        // A busy machine may hold one up for that time.
        let most = (0..10).map(|_| made()).find(|made| *made == waiting);
        assert_eq!(most, Some(waiting));
    }

    #[test]
    fn arguments_are_parsed_as_they_are_written() {
        let (delay, content) = (Duration::from_millis(20), Content::Listing);
        let behaviour = Behaviour { body_bytes: 2048, delay, keep: true, content };
        let address = "127.0.0.1:0".parse().unwrap();
        for (floor, line) in [
            (Floor::Hello, "hello 127.0.0.1:0"),
            (Floor::Ping, "ping 127.0.0.1:0"),
            (
                Floor::Proxy { upstream: "127.0.0.1:9".parse().unwrap(), keep: false },
                "proxy 127.0.0.1:0 127.0.0.1:9 close",
            ),
            (Floor::Backend(behaviour), "backend 127.0.0.1:0 2048 20 keep listing"),
            (Floor::Bodies, "bodies 127.0.0.1:0"),
            (Floor::Grpc { message_bytes: 64 }, "grpc 127.0.0.1:0 64"),
        ] {
            let arguments = floor.arguments(address);
            assert_eq!(arguments.join(" "), line);
            assert_eq!(parse(&arguments), Some((address, floor)));
        }
        for line in ["backend 127.0.0.1:0 2048 20 maybe text", "proxy 127.0.0.1:0"] {
            let words: Vec<String> = line.split(' ').map(str::to_owned).collect();
            assert_eq!(parse(&words), None, "{line}");
        }
    }
}
