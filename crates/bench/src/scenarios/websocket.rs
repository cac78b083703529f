//! Checks the echo of a WebSocket server before any load.
//!
//! Promises a handshake and two messages on one connection, all checked completely, and an end at
//! the deadline. Never used under load.

use super::probe::{connect, left_until};
use crate::load::{answers, frame};
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Instant;

/// Greets, and says the text twice; the error is half a sentence.
pub(super) fn probe(
    address: SocketAddr,
    greeting: &[u8],
    text: &[u8],
    deadline: Instant,
) -> Result<(), String> {
    let asked = || -> io::Result<()> {
        let mut stream = connect(address, deadline)?;
        hear(&mut stream, greeting, text, true, deadline)?;
        hear(&mut stream, &frame(text), text, false, deadline)?;
        hear(&mut stream, &frame(text), text, false, deadline)
    };
    asked().map_err(|why| format!("does not answer rightly: {why}"))
}

fn hear(
    stream: &mut TcpStream,
    sent: &[u8],
    text: &[u8],
    greets: bool,
    deadline: Instant,
) -> io::Result<()> {
    stream.write_all(sent)?;
    let (mut received, mut buffer) = (Vec::new(), [0; 4096]);
    loop {
        stream.set_read_timeout(Some(left_until(deadline)?))?;
        let count = stream.read(&mut buffer)?;
        received.extend_from_slice(&buffer[..count]);
        match answers(text, greets, &received) {
            Some(true) => return Ok(()),
            Some(false) if count > 0 => {}
            _ => {
                let said = String::from_utf8_lossy(&received[..received.len().min(200)]);
                return Err(io::Error::other(format!("it says {said:?}")));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::probe::WAIT;
    use super::probe;
    use crate::load::{frame, greeting};
    use std::io::{Read, Write};
    use std::net::{Shutdown, TcpListener};
    use std::time::Instant;

    const WELCOME: &[u8] = b"HTTP/1.1 101 Switching Protocols\r\n\
        Sec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n\r\n";

    /// Says these things, one for each that is sent.
    fn saying(answers: &'static [&'static [u8]]) -> Result<(), String> {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let server = std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            for answer in answers {
                assert!(stream.read(&mut [0; 1000]).unwrap() > 0);
                stream.write_all(answer).unwrap();
            }
            stream.shutdown(Shutdown::Write).unwrap();
            while stream.read(&mut [0; 1000]).is_ok_and(|read| read > 0) {}
        });
        let found = probe(address, &greeting(address, "/"), b"tide", Instant::now() + WAIT);
        server.join().unwrap();
        found
    }

    #[test]
    fn a_handshake_and_two_texts_are_wanted() {
        assert_eq!(saying(&[WELCOME, b"\x81\x04tide", b"\x81\x04tide"]), Ok(()));
        let why = saying(&[WELCOME, b"\x81\x04tide"]).unwrap_err();
        assert_eq!(why, "does not answer rightly: it says \"\"");
        let why = saying(&[WELCOME, b"\x81\x04toad"]).unwrap_err();
        assert!(why.contains("toad"), "{why}");
        assert!(saying(&[b"HTTP/1.1 404 Not FoundPeer\r\n\r\n"]).unwrap_err().contains("404"));
        assert_eq!(frame(b"tide").len(), 10);
    }
}
