//! A datagram socket (UDP) on this worker's event loop.
//!
//! Receives into the worker's chunk pool, as streams do: a datagram is one owned chunk, and a
//! dropped receive loses nothing. Datagrams of any length that UDP can carry are received whole; an
//! empty one is a datagram, not an end of stream. Never retries, reorders or replies by itself.

use std::future::poll_fn;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::{AsFd, OwnedFd};
use std::task::Poll;

use bytes::Bytes;
use socket2::SockRef;
use tokio::io::Interest;
use tokio::net::UdpSocket;

use crate::receive::receive_from;
use crate::task;

/// What a receive waits for. A port that turns out to be closed is reported as an error alone.
const RECEIVABLE: Interest = Interest::READABLE.add(Interest::ERROR);

/// A bound UDP socket.
#[derive(Debug)]
pub struct Datagram {
    socket: UdpSocket,
    local: SocketAddr,
}

impl Datagram {
    /// Binds on this worker; port 0 lets the kernel choose one.
    pub fn bind(address: SocketAddr) -> io::Result<Datagram> {
        let socket = std::net::UdpSocket::bind(address)?;
        socket.set_nonblocking(true)?;
        Datagram::from_descriptor(socket.into())
    }

    /// Binds any port and connects it: only datagrams of that peer are received, and an error says
    /// that the peer is unreachable.
    pub fn connect(peer: SocketAddr) -> io::Result<Datagram> {
        let any: IpAddr = match peer {
            SocketAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
            SocketAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
        };
        let socket = std::net::UdpSocket::bind(SocketAddr::new(any, 0))?;
        socket.connect(peer)?;
        socket.set_nonblocking(true)?;
        Datagram::from_descriptor(socket.into())
    }

    /// Registers a bound, non-blocking socket with this worker's event loop.
    pub(crate) fn from_descriptor(socket: OwnedFd) -> io::Result<Datagram> {
        let socket = std::net::UdpSocket::from(socket);
        let local = socket.local_addr()?;
        Ok(Datagram { socket: UdpSocket::from_std(socket)?, local })
    }

    /// Returns the address that is actually bound.
    pub fn local(&self) -> SocketAddr {
        self.local
    }

    /// Returns a datagram that has arrived and its sender; `WouldBlock` if there is none.
    pub fn try_receive_from(&self) -> io::Result<(Bytes, SocketAddr)> {
        self.socket.try_io(Interest::READABLE, || receive_from(self.socket.as_fd()))
    }

    /// Returns the next datagram and its sender. Dropping this future loses nothing.
    pub async fn receive_from(&self) -> io::Result<(Bytes, SocketAddr)> {
        // A sender that is always faster must not starve other tasks.
        poll_fn(task::poll_turn).await;
        loop {
            let receive = || receive_from(self.socket.as_fd());
            match self.socket.async_io(RECEIVABLE, receive).await {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                result => {
                    poll_fn(|cx| {
                        task::count_step(cx);
                        Poll::Ready(())
                    })
                    .await;
                    return result;
                }
            }
        }
    }

    /// Sends one datagram now; `WouldBlock` while the socket's queue is full.
    pub fn try_send_to(&self, payload: &[u8], to: SocketAddr) -> io::Result<()> {
        self.socket.try_send_to(payload, to).map(drop)
    }

    /// Sends one datagram to the peer of a connected socket now; `WouldBlock` while the socket's
    /// queue is full.
    pub fn try_send(&self, payload: &[u8]) -> io::Result<()> {
        // Not by what the event loop has reported: of a new socket that is nothing yet.
        SockRef::from(&self.socket).send(payload).map(drop)
    }

    /// Sends one datagram. A datagram is sent whole or not at all.
    pub async fn send_to(&self, payload: &[u8], to: SocketAddr) -> io::Result<()> {
        self.socket.send_to(payload, to).await.map(drop)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::timer::within;
    use crate::worker::block_on_local;
    use std::time::Duration;

    fn bind() -> Datagram {
        Datagram::bind("127.0.0.1:0".parse().unwrap()).unwrap()
    }

    #[test]
    fn an_echo_returns_each_datagram_whole_and_in_order() {
        block_on_local(async {
            let (server, client) = (bind(), bind());
            let to = server.local();
            let echo = crate::task::spawn_local(async move {
                for _ in 0..4 {
                    let (datagram, from) = server.receive_from().await.unwrap();
                    server.send_to(&datagram, from).await.unwrap();
                }
            });
            // The longest datagram of IPv4, an empty one, and two small ones that must not be
            // merged.
            for payload in [vec![9u8; 65_507], vec![], b"one".to_vec(), b"two".to_vec()] {
                client.send_to(&payload, to).await.unwrap();
                let (datagram, from) = client.receive_from().await.unwrap();
                assert_eq!((&datagram[..], from), (&payload[..], to));
            }
            echo.await.unwrap();
        });
    }

    #[test]
    fn receive_waits_for_a_datagram_and_a_dropped_receive_loses_nothing() {
        block_on_local(async {
            let (one, other) = (bind(), bind());
            let empty = one.try_receive_from().unwrap_err();
            assert_eq!(empty.kind(), io::ErrorKind::WouldBlock);
            assert!(within(Duration::from_millis(4), one.receive_from()).await.is_none());
            other.try_send_to(b"kept", one.local()).unwrap();
            assert_eq!(&one.receive_from().await.unwrap().0[..], b"kept");
        });
    }

    #[test]
    fn receive_returns_that_the_port_of_the_peer_is_closed() {
        block_on_local(async {
            // No other process gets the port of the peer, which receives from another one only.
            let peer = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
            peer.connect("127.0.0.1:9").unwrap();
            let socket = Datagram::connect(peer.local_addr().unwrap()).unwrap();
            for _ in 0..2 {
                socket.try_send(b"lost").unwrap();
                let received = within(Duration::from_secs(20), socket.receive_from()).await;
                let error = received.expect("an error").unwrap_err();
                assert_eq!(error.kind(), io::ErrorKind::ConnectionRefused);
            }
            assert!(within(Duration::from_millis(4), socket.receive_from()).await.is_none());
        });
    }
}
