//! Lines as datagrams to one receiver, for metrics: what cannot be sent at once is lost.
//!
//! Promises that sending never waits. Names are resolved once, when the sender is created.

use std::io;
use std::net::ToSocketAddrs;
use std::path::Path;

use socket2::{Domain, SockAddr, Socket, Type};

/// Datagrams up to this size are not fragmented on an Ethernet with IPv6 and a tunnel.
const DATAGRAM_BYTES: usize = 1400;

/// A socket that is connected to the receiver.
#[derive(Debug)]
pub struct DatagramSender(Socket);

impl DatagramSender {
    /// Connects over UDP to the first address of a host.
    pub fn udp(host: &str, port: u16) -> io::Result<DatagramSender> {
        let mut addresses = (host, port).to_socket_addrs()?;
        let address = addresses.next().ok_or(io::ErrorKind::NotFound)?;
        DatagramSender::connect(Domain::for_address(address), &address.into())
    }

    /// Connects to a Unix socket.
    pub fn unix(path: &Path) -> io::Result<DatagramSender> {
        DatagramSender::connect(Domain::UNIX, &SockAddr::unix(path)?)
    }

    fn connect(domain: Domain, address: &SockAddr) -> io::Result<DatagramSender> {
        let socket = Socket::new(domain, Type::DGRAM, None)?;
        socket.set_nonblocking(true)?;
        socket.connect(address)?;
        Ok(DatagramSender(socket))
    }

    /// Sends lines, as many as fit into each datagram. A receiver that is absent or full loses
    /// them.
    pub fn send_lines(&self, mut lines: &[u8]) {
        while !lines.is_empty() {
            let window = &lines[..lines.len().min(DATAGRAM_BYTES)];
            let end = match window.len() == lines.len() {
                true => lines.len(),
                // A line that is too long for a datagram is sent in pieces, which nothing reads.
                false => {
                    let last = window.iter().rposition(|byte| *byte == b'\n');
                    last.map_or(window.len(), |at| at + 1)
                }
            };
            let (datagram, rest) = lines.split_at(end);
            // Metrics that are lost are not worth an error.
            let _ = self.0.send(datagram.trim_ascii_end());
            lines = rest;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::net::UdpSocket;

    use super::{DATAGRAM_BYTES, DatagramSender};

    #[test]
    fn lines_are_not_divided_between_datagrams() {
        let receiver = UdpSocket::bind("127.0.0.1:0").unwrap();
        let port = receiver.local_addr().unwrap().port();
        let sender = DatagramSender::udp("127.0.0.1", port).unwrap();
        let line = "shop.gunicorn.requests:1|c|@1.0\n";
        let count = 100;
        sender.send_lines(line.repeat(count).as_bytes());
        let (mut received, mut datagrams) = (0, 0);
        let mut buffer = [0; 2 * DATAGRAM_BYTES];
        while received < count {
            let length = receiver.recv(&mut buffer).unwrap();
            let text = std::str::from_utf8(&buffer[..length]).unwrap();
            assert!(text.lines().all(|one| one == line.trim_end()) && length <= DATAGRAM_BYTES);
            received += text.lines().count();
            datagrams += 1;
        }
        assert_eq!((received, datagrams), (count, 3));
    }

    #[test]
    fn a_receiver_that_is_absent_is_not_an_error() {
        let receiver = UdpSocket::bind("127.0.0.1:0").unwrap();
        let port = receiver.local_addr().unwrap().port();
        let sender = DatagramSender::udp("localhost", port);
        drop(receiver);
        for _ in 0..3 {
            sender.as_ref().unwrap().send_lines(b"a:1|c");
        }
        assert!(DatagramSender::unix(std::path::Path::new("/nonexistent/socket")).is_err());
    }
}
