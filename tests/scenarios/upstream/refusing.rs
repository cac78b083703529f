//! A server that is down: a port that no other process can get while it has no listener.

use socket2::{Domain, Socket, Type};
use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr};

/// Connecting to it is refused as long as it lives.
pub(crate) struct Refusing(Socket);

impl Refusing {
    pub(crate) fn start() -> Self {
        let socket = Socket::new(Domain::IPV4, Type::STREAM, None).expect("a socket");
        let anywhere = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
        socket.bind(&anywhere.into()).expect("a free port");
        Self(socket)
    }

    pub(crate) fn address(&self) -> SocketAddr {
        let address = self.0.local_addr().expect("a bound socket has an address");
        address.as_socket().expect("an address of IPv4")
    }

    /// Comes up, on the same port.
    pub(crate) fn listen(&self) {
        self.0.listen(8).expect("a listening socket");
    }

    /// Answers the first request of the next connection with `response`.
    pub(crate) fn respond_once(&self, response: &str) {
        let (mut stream, _) = self.0.accept().expect("a connection");
        stream.set_read_timeout(Some(scenarios::PATIENCE)).expect("a read time-out");
        let mut request = Vec::new();
        while !request.ends_with(b"\r\n\r\n") {
            let mut byte = [0];
            stream.read_exact(&mut byte).expect("a request");
            request.push(byte[0]);
        }
        stream.write_all(response.as_bytes()).expect("a response");
    }
}
