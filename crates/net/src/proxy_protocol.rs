//! PROXY headers on streams: received before the handshake of TLS, sent before it.
//!
//! Reads exactly the header and leaves what follows in the socket, so that whatever reads the
//! stream next needs to know nothing of it. Bounded by what `wire` accepts; the caller sets the
//! time-out, and decides which peers may send a header.

use std::future::poll_fn;
use std::io;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use rustix::net::{RecvFlags, recv};
use wire::proxy_protocol::{Endpoints, HEADER_BYTES_MAX, Malformed, Version, parse, write};

use crate::outgoing::Outgoing;
use crate::readiness::Side;
use crate::stream::Stream;

/// Why no header was received.
#[derive(Debug)]
pub enum ProxyHeaderError {
    /// The peer closed or broke the connection.
    Closed,
    Malformed(Malformed),
}

impl From<io::Error> for ProxyHeaderError {
    fn from(_: io::Error) -> Self {
        ProxyHeaderError::Closed
    }
}

impl Stream {
    /// Receives the header that a proxy sends first, in the clear. Returns the addresses of the
    /// client that it names, `None` if the proxy speaks for itself.
    pub async fn receive_proxy_header(&self) -> Result<Option<Endpoints>, ProxyHeaderError> {
        let mut header = Vec::new();
        loop {
            let mut room = [0; 256];
            let before = header.len();
            let peeked = poll_fn(|cx| self.poll_peek(cx, &mut room)).await?;
            if peeked == 0 {
                return Err(ProxyHeaderError::Closed);
            }
            header.extend_from_slice(&room[..peeked]);
            let parsed = parse(&header).map_err(ProxyHeaderError::Malformed)?;
            // While the header is incomplete, everything received is a part of it.
            let length = parsed.map_or(header.len(), |header| header.length);
            self.try_receive_up_to(length - before)?;
            if let Some(parsed) = parsed {
                return Ok(parsed.endpoints);
            }
            debug_assert!(header.len() < HEADER_BYTES_MAX);
        }
    }

    /// Sends a header that names the addresses of a client; without them, one with which the
    /// server speaks for itself.
    pub async fn send_proxy_header(
        &self,
        version: Version,
        endpoints: Option<Endpoints>,
    ) -> io::Result<()> {
        let mut header = Vec::new();
        write(version, endpoints, &mut header);
        let mut outgoing = Outgoing::default();
        outgoing.push(Bytes::from(header));
        self.send_all(&mut outgoing).await
    }

    /// Copies bytes that have arrived and leaves them in the socket; zero is the end of the stream.
    fn poll_peek(&self, cx: &mut Context<'_>, room: &mut [u8]) -> Poll<io::Result<usize>> {
        loop {
            let peeked = self.source().try_io(Side::Read, || {
                let (peeked, _) = recv(self.socket(), &mut *room, RecvFlags::PEEK)?;
                Ok(peeked)
            });
            match peeked {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    ready!(self.source().poll_ready(Side::Read, cx))?;
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                result => return Poll::Ready(result),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::worker::block_on_local;

    fn endpoints() -> Endpoints {
        let address = |text: &str| text.parse().unwrap();
        Endpoints { source: address("192.0.2.1:1"), destination: address("192.0.2.2:2") }
    }

    async fn send(stream: &Stream, bytes: &[u8]) {
        let mut outgoing = Outgoing::default();
        outgoing.push(Bytes::copy_from_slice(bytes));
        stream.send_all(&mut outgoing).await.unwrap();
    }

    #[test]
    fn a_header_is_received_and_what_follows_is_left() {
        block_on_local(async {
            for version in [Version::V1, Version::V2] {
                let (one, other) = Stream::pair().unwrap();
                one.send_proxy_header(version, Some(endpoints())).await.unwrap();
                send(&one, b"rest").await;
                let received = other.receive_proxy_header().await.unwrap();
                assert_eq!(received, Some(endpoints()), "{version:?}");
                assert_eq!(&other.receive().await.unwrap()[..], b"rest", "{version:?}");
            }
        });
    }

    #[test]
    fn a_header_may_arrive_byte_by_byte() {
        block_on_local(async {
            let (one, other) = Stream::pair().unwrap();
            let mut header = Vec::new();
            write(Version::V2, Some(endpoints()), &mut header);
            let receiving = crate::task::spawn_local(async move {
                let header = other.receive_proxy_header().await.unwrap();
                (header, other.receive().await.unwrap())
            });
            for byte in header.iter().chain(b"x") {
                send(&one, &[*byte]).await;
                tokio::task::yield_now().await;
            }
            let (received, rest) = receiving.await.unwrap();
            assert_eq!((received, &rest[..]), (Some(endpoints()), &b"x"[..]));
        });
    }

    #[test]
    fn a_connection_without_a_whole_header_is_an_error() {
        block_on_local(async {
            let (one, other) = Stream::pair().unwrap();
            send(&one, b"PROXY TCP4 192").await;
            one.finish();
            let received = other.receive_proxy_header().await;
            assert!(matches!(received, Err(ProxyHeaderError::Closed)), "{received:?}");
            let (one, other) = Stream::pair().unwrap();
            send(&one, b"GET / HTTP/1.1\r\n").await;
            let received = other.receive_proxy_header().await;
            let missing = matches!(received, Err(ProxyHeaderError::Malformed(Malformed::Missing)));
            assert!(missing, "{received:?}");
        });
    }
}
