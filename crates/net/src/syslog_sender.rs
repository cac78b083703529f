//! Messages for a syslog server, over UDP, TCP or a Unix socket.
//!
//! For a thread that may block. A lost connection is opened again with the next messages, at most
//! once a second; messages in between are lost, and the caller learns of it.

use std::io::{self, Write};
use std::net::{SocketAddr, TcpStream, ToSocketAddrs, UdpSocket};
use std::os::unix::net::UnixDatagram;
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// How long connecting to an address, and a write, may take.
const WITHIN: Duration = Duration::from_secs(2);
/// The pause after a failed connection.
const RETRY: Duration = Duration::from_secs(1);

/// A server for messages.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SyslogAddress {
    /// A datagram for each message (RFC 5426).
    Udp(String, u16),
    /// A connection, each message after its length (RFC 6587 3.4.1).
    Tcp(String, u16),
    /// A socket for datagrams, such as `/dev/log`.
    Unix(PathBuf),
}

#[derive(Debug)]
enum Connection {
    Udp(UdpSocket),
    Tcp(TcpStream),
    Unix(UnixDatagram),
}

/// Sends messages, each of which is a line.
#[derive(Debug)]
pub struct SyslogSender {
    address: SyslogAddress,
    state: Mutex<SenderState>,
}

#[derive(Debug, Default)]
struct SenderState {
    connection: Option<Connection>,
    /// When the latest attempt to connect failed.
    failed: Option<Instant>,
}

impl SyslogSender {
    /// Connects when there is something to send.
    pub fn new(address: SyslogAddress) -> SyslogSender {
        SyslogSender { address, state: Mutex::default() }
    }

    /// Sends all messages of a batch, or fails: then the others are lost. May block for
    /// some seconds.
    pub fn send_lines(&self, batch: &[u8]) -> io::Result<()> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.send_lines(&self.address, batch)
    }
}

impl SenderState {
    fn send_lines(&mut self, address: &SyslogAddress, batch: &[u8]) -> io::Result<()> {
        if self.connection.is_none() {
            if self.failed.is_some_and(|failed| failed.elapsed() < RETRY) {
                return Err(io::Error::new(io::ErrorKind::NotConnected, "not connected"));
            }
            let opened = connect(address);
            self.failed = opened.is_err().then(Instant::now);
            self.connection = Some(opened?);
        }
        let Some(connection) = &mut self.connection else { return Ok(()) };
        let sent = send(connection, batch);
        if sent.is_err() {
            // Half of a message may have been sent.
            self.connection = None;
        }
        sent
    }
}

fn connect(address: &SyslogAddress) -> io::Result<Connection> {
    Ok(match address {
        SyslogAddress::Unix(path) => {
            let socket = UnixDatagram::unbound()?;
            socket.set_write_timeout(Some(WITHIN))?;
            socket.connect(path)?;
            Connection::Unix(socket)
        }
        SyslogAddress::Udp(host, port) => first(host, *port, |address| {
            let any = if address.is_ipv4() { "0.0.0.0:0" } else { "[::]:0" };
            let socket = UdpSocket::bind(any)?;
            socket.connect(address)?;
            Ok(Connection::Udp(socket))
        })?,
        SyslogAddress::Tcp(host, port) => first(host, *port, |address| {
            let stream = TcpStream::connect_timeout(&address, WITHIN)?;
            stream.set_write_timeout(Some(WITHIN))?;
            Ok(Connection::Tcp(stream))
        })?,
    })
}

/// Connects to the first address of a name that accepts.
fn first(
    host: &str,
    port: u16,
    open: impl Fn(SocketAddr) -> io::Result<Connection>,
) -> io::Result<Connection> {
    let mut failed = io::Error::new(io::ErrorKind::NotFound, "the name has no address");
    for address in (host, port).to_socket_addrs()? {
        match open(address) {
            Ok(connection) => return Ok(connection),
            Err(error) => failed = error,
        }
    }
    Err(failed)
}

fn send(connection: &mut Connection, batch: &[u8]) -> io::Result<()> {
    let mut messages = batch.split(|byte| *byte == b'\n').filter(|message| !message.is_empty());
    match connection {
        Connection::Udp(socket) => messages.try_for_each(|message| {
            match socket.send(message) {
                // A server that was away, which an earlier datagram has found out.
                Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => {
                    socket.send(message).map(drop)
                }
                sent => sent.map(drop),
            }
        }),
        Connection::Unix(socket) => messages.try_for_each(|message| socket.send(message).map(drop)),
        Connection::Tcp(stream) => {
            let mut framed = Vec::with_capacity(batch.len() + batch.len() / 16);
            for message in messages {
                write!(framed, "{} ", message.len())?;
                framed.extend_from_slice(message);
            }
            stream.write_all(&framed)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{SyslogAddress, SyslogSender};
    use std::io::Read;
    use std::net::{TcpListener, UdpSocket};
    use std::os::unix::net::UnixDatagram;
    use std::time::{Duration, Instant};

    #[test]
    fn a_datagram_is_a_message() {
        let server = UdpSocket::bind("127.0.0.1:0").unwrap();
        let port = server.local_addr().unwrap().port();
        let sender = SyslogSender::new(SyslogAddress::Udp("127.0.0.1".to_owned(), port));
        sender.send_lines(b"one\ntwo three\n").unwrap();
        let mut bytes = [0; 64];
        for expected in ["one", "two three"] {
            let length = server.recv(&mut bytes).unwrap();
            assert_eq!(&bytes[..length], expected.as_bytes());
        }
    }

    #[test]
    fn a_stream_has_the_length_before_each_message() {
        let server = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = server.local_addr().unwrap().port();
        let sender = SyslogSender::new(SyslogAddress::Tcp("localhost".to_owned(), port));
        sender.send_lines(b"one\ntwo three\n").unwrap();
        drop(sender);
        let mut received = String::new();
        server.accept().unwrap().0.read_to_string(&mut received).unwrap();
        assert_eq!(received, "3 one9 two three");
    }

    #[test]
    fn a_server_that_is_away_is_an_error_until_another_attempt() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("log");
        let sender = SyslogSender::new(SyslogAddress::Unix(path.clone()));
        assert!(sender.send_lines(b"lost\n").is_err());
        // However long the test takes from here on.
        sender.state.lock().unwrap().failed = Some(Instant::now() + Duration::from_secs(60));
        let server = UnixDatagram::bind(&path).unwrap();
        assert_eq!(
            sender.send_lines(b"too soon\n").unwrap_err().kind(),
            std::io::ErrorKind::NotConnected
        );
        sender.state.lock().unwrap().failed = None;
        sender.send_lines(b"arrives\n").unwrap();
        let mut bytes = [0; 16];
        let length = server.recv(&mut bytes).unwrap();
        assert_eq!(&bytes[..length], b"arrives");
    }
}
