//! The floor of `gateway`: an epoll loop that copies bytes between a client and one upstream.
//!
//! Promises that each request gets its own upstream connection, which is reused or closed after a
//! complete response (as measured by Content-Length). Never parses a request, rewrites a header or
//! waits for a slow reader: a response whose head is split or without a length, and a peer that
//! does not read, end the pair. It is a yardstick, not a proxy.

use crate::epoll::{Epoll, Event};
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::{AsRawFd, RawFd};

const READ_BYTES: usize = 16 * 1024;

#[derive(Clone, Copy, PartialEq, Eq)]
enum Side {
    Client,
    Upstream,
}

struct ProxiedConnection {
    stream: TcpStream,
    side: Side,
    /// The other end of the exchange in flight.
    partner: Option<RawFd>,
    /// Bytes of the response still to come; `None` before its head.
    left: Option<usize>,
}

struct Proxy {
    upstream: SocketAddr,
    epoll: Epoll,
    /// By descriptor.
    links: Vec<Option<ProxiedConnection>>,
    /// Upstream connections without an exchange, the warmest last.
    idle: Vec<RawFd>,
    /// True if upstream connections are reused.
    keep: bool,
}

/// Serves until the process ends.
pub(super) fn serve(listener: &TcpListener, upstream: SocketAddr, keep: bool) -> io::Result<()> {
    listener.set_nonblocking(true)?;
    let epoll = Epoll::new()?;
    let mut proxy = Proxy { upstream, epoll, links: Vec::new(), idle: Vec::new(), keep };
    proxy.epoll.add(listener)?;
    let mut buffer = vec![0; READ_BYTES];
    loop {
        for index in 0..proxy.epoll.wait()? {
            let event = proxy.epoll.event(index);
            if event.fd == listener.as_raw_fd() {
                proxy.accept(listener)?;
            } else if proxy.links.get(event.fd as usize).is_some_and(Option::is_some)
                && proxy.carry(event, &mut buffer).is_err()
            {
                proxy.close(event.fd);
            }
        }
    }
}

impl Proxy {
    fn accept(&mut self, listener: &TcpListener) -> io::Result<()> {
        loop {
            match listener.accept() {
                Ok((stream, _)) => self.watch(stream, Side::Client)?,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                Err(error) => return Err(error),
            };
        }
    }

    fn watch(&mut self, stream: TcpStream, side: Side) -> io::Result<RawFd> {
        stream.set_nonblocking(true)?;
        stream.set_nodelay(true)?;
        self.epoll.add(&stream)?;
        let fd = stream.as_raw_fd();
        if self.links.len() <= fd as usize {
            self.links.resize_with(fd as usize + 1, || None);
        }
        self.links[fd as usize] =
            Some(ProxiedConnection { stream, side, partner: None, left: None });
        Ok(fd)
    }

    fn link(&mut self, fd: RawFd) -> io::Result<&mut ProxiedConnection> {
        self.links
            .get_mut(fd as usize)
            .and_then(Option::as_mut)
            .ok_or_else(|| io::ErrorKind::NotConnected.into())
    }

    /// Copies the available bytes to the partner; on an error the pair is closed.
    fn carry(&mut self, event: Event, buffer: &mut [u8]) -> io::Result<()> {
        loop {
            let link = self.link(event.fd)?;
            let count = match link.stream.read(buffer) {
                Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Ok(count) => count,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                Err(error) => return Err(error),
            };
            match link.side {
                Side::Client => self.ask(event.fd, &buffer[..count])?,
                Side::Upstream => self.answer(event.fd, &buffer[..count])?,
            }
            if count < buffer.len() && !event.ended {
                return Ok(());
            }
        }
    }

    fn ask(&mut self, client: RawFd, bytes: &[u8]) -> io::Result<()> {
        let upstream = match self.link(client)?.partner {
            Some(upstream) => upstream,
            None => {
                let upstream = match self.idle.pop() {
                    Some(upstream) => upstream,
                    None => self.watch(TcpStream::connect(self.upstream)?, Side::Upstream)?,
                };
                self.link(client)?.partner = Some(upstream);
                self.link(upstream)?.partner = Some(client);
                upstream
            }
        };
        self.link(upstream)?.stream.write_all(bytes)
    }

    fn answer(&mut self, upstream: RawFd, bytes: &[u8]) -> io::Result<()> {
        let link = self.link(upstream)?;
        let client = link.partner.ok_or(io::ErrorKind::InvalidData)?;
        let expected = match link.left {
            Some(left) => left,
            None => answer_length(bytes).ok_or(io::ErrorKind::InvalidData)?,
        };
        let left = expected.checked_sub(bytes.len()).ok_or(io::ErrorKind::InvalidData)?;
        link.left = Some(left);
        self.link(client)?.stream.write_all(bytes)?;
        if left == 0 {
            let link = self.link(upstream)?;
            link.left = None;
            link.partner = None;
            self.link(client)?.partner = None;
            if self.keep {
                self.idle.push(upstream);
            } else {
                self.links[upstream as usize] = None;
            }
        }
        Ok(())
    }

    fn close(&mut self, fd: RawFd) {
        let Some(link) = self.links.get_mut(fd as usize).and_then(Option::take) else { return };
        match link.partner {
            Some(partner) => self.links[partner as usize] = None,
            None if link.side == Side::Upstream => self.idle.retain(|&other| other != fd),
            None => {}
        }
    }
}

/// Head and body together, from a head that is whole and has a Content-Length.
fn answer_length(bytes: &[u8]) -> Option<usize> {
    const NAME: &[u8] = b"\ncontent-length:";
    let head = bytes.windows(4).position(|end| end == b"\r\n\r\n")? + 4;
    let name = bytes[..head].windows(NAME.len()).position(|at| at.eq_ignore_ascii_case(NAME))?;
    let mut length = 0usize;
    for &byte in bytes[name + NAME.len()..head].trim_ascii_start() {
        match byte {
            b'0'..=b'9' => length = length.checked_mul(10)?.checked_add((byte - b'0').into())?,
            _ => break,
        }
    }
    length.checked_add(head)
}

#[cfg(test)]
mod tests {
    use super::answer_length;

    #[test]
    fn length_is_head_and_body() {
        let head = b"HTTP/1.1 200 OK\r\nserver: x\r\nContent-Length: 2048\r\n\r\nbody";
        assert_eq!(answer_length(head), Some(head.len() - 4 + 2048));
        assert_eq!(answer_length(&head[..20]), None);
        assert_eq!(answer_length(b"HTTP/1.1 200 OK\r\nserver: x\r\n\r\n"), None);
    }
}
