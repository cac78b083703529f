//! Checks the responses of a server before any load.
//!
//! Promises two requests on one connection, both with complete responses of the same status, length
//! and body, so that keep-alive is verified; and an end at the deadline, also with a server that
//! sends single bytes. Never used under load.

use std::fmt::Display;
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

/// How long a server may take for one look, if there is as much time.
pub(crate) const WAIT: Duration = Duration::from_secs(10);
/// The largest response that is checked.
const ANSWER_BYTES_MAX: usize = 64 << 20;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ProbeResponse {
    pub status: u16,
    pub head_bytes: usize,
    pub body: Vec<u8>,
}

/// What is sent.
pub(crate) fn request(host: impl Display, path: &str) -> Vec<u8> {
    request_with(host, path, "")
}

/// The same with further field lines, each with its end.
pub(super) fn request_with(host: impl Display, path: &str, fields: &str) -> Vec<u8> {
    format!("GET {path} HTTP/1.1\r\nHost: {host}\r\n{fields}\r\n").into_bytes()
}

/// Asks twice until then; the error is half a sentence.
pub(crate) fn probe(
    address: SocketAddr,
    request: &[u8],
    deadline: Instant,
) -> Result<ProbeResponse, String> {
    let mut stream =
        connect(address, deadline).map_err(|why| format!("cannot be connected to: {why}"))?;
    let mut asked =
        || Ok((ask(&mut stream, request, deadline)?, ask(&mut stream, request, deadline)?));
    let (first, second) =
        asked().map_err(|why: io::Error| format!("does not answer rightly: {why}"))?;
    if (first.status, &first.body) != (second.status, &second.body) {
        return Err("answers the same request in two ways".to_owned());
    }
    Ok(second)
}

/// Sends the commands twice; each is to be answered by `+PONG`. The error is half a sentence.
pub(super) fn probe_pings(
    address: SocketAddr,
    commands: &[u8],
    count: u32,
    deadline: Instant,
) -> Result<(), String> {
    let right = b"+PONG\r\n".repeat(count as usize);
    let asked = || -> io::Result<Vec<u8>> {
        let mut stream = connect(address, deadline)?;
        let mut received = Vec::new();
        for turn in 1..=2 {
            stream.write_all(commands)?;
            while received.len() < right.len() * turn {
                stream.set_read_timeout(Some(left_until(deadline)?))?;
                let mut buffer = [0; 1024];
                match stream.read(&mut buffer)? {
                    0 => return Err(io::ErrorKind::UnexpectedEof.into()),
                    read => received.extend_from_slice(&buffer[..read]),
                }
            }
        }
        Ok(received)
    };
    match asked() {
        Ok(received) if received == right.repeat(2) => Ok(()),
        Ok(received) => {
            let said = String::from_utf8_lossy(&received[..received.len().min(100)]).into_owned();
            Err(format!("answers {said:?}"))
        }
        Err(why) => Err(format!("does not answer rightly: {why}")),
    }
}

pub(super) fn connect(address: SocketAddr, deadline: Instant) -> io::Result<TcpStream> {
    let stream = TcpStream::connect_timeout(&address, left_until(deadline)?)?;
    stream.set_write_timeout(Some(WAIT))?;
    Ok(stream)
}

/// The remaining time; never zero, which would mean without end.
pub(super) fn left_until(deadline: Instant) -> io::Result<Duration> {
    let left = deadline.saturating_duration_since(Instant::now()).min(WAIT);
    if left.is_zero() { Err(io::ErrorKind::TimedOut.into()) } else { Ok(left) }
}

/// One request and its whole response.
pub(super) fn ask(
    stream: &mut TcpStream,
    request: &[u8],
    deadline: Instant,
) -> io::Result<ProbeResponse> {
    stream.write_all(request)?;
    let mut received = Vec::new();
    let mut buffer = vec![0; 64 << 10];
    loop {
        if let Some((status, head_bytes, length)) = head(&received)? {
            let whole = head_bytes + length;
            if received.len() > whole {
                return Err(io::Error::other("bytes after the response"));
            }
            if received.len() == whole {
                return Ok(ProbeResponse {
                    status,
                    head_bytes,
                    body: received.split_off(head_bytes),
                });
            }
        }
        stream.set_read_timeout(Some(left_until(deadline)?))?;
        let count = stream.read(&mut buffer)?;
        if count == 0 || received.len() > ANSWER_BYTES_MAX {
            let said = String::from_utf8_lossy(&received[..received.len().min(200)]).into_owned();
            return Err(io::Error::other(format!("the response ended after {said:?}")));
        }
        received.extend_from_slice(&buffer[..count]);
    }
}

/// Status, length of the head, and length of the body, once the head is whole.
fn head(received: &[u8]) -> io::Result<Option<(u16, usize, usize)>> {
    let Some(end) = received.windows(4).position(|four| four == b"\r\n\r\n") else {
        return Ok(None);
    };
    let text = String::from_utf8_lossy(&received[..end]);
    let wrong = || io::Error::other(format!("not a response with a length: {text:?}"));
    let mut lines = text.split("\r\n");
    let status: u16 = lines
        .next()
        .and_then(|line| line.strip_prefix("HTTP/1.1 ")?.get(..3)?.parse().ok())
        .ok_or_else(wrong)?;
    let length = lines.find_map(|line| {
        let (name, value) = line.split_once(':')?;
        name.eq_ignore_ascii_case("content-length").then(|| value.trim().parse().ok())?
    });
    // 204 has no body and no length: RFC 9110, section 8.6.
    let length = if status == 204 { Some(0) } else { length };
    Ok(Some((status, end + 4, length.ok_or_else(wrong)?)))
}

#[cfg(test)]
mod tests {
    use super::{WAIT, head, probe, probe_pings, request};
    use std::io::{Read, Write};
    use std::net::{Shutdown, TcpListener};
    use std::time::{Duration, Instant};

    /// Responds to the requests of one connection with these texts.
    fn answering(answers: &'static [&'static [u8]]) -> Result<super::ProbeResponse, String> {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let server = std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            for answer in answers {
                assert!(stream.read(&mut [0; 1000]).unwrap() > 0);
                stream.write_all(answer).unwrap();
            }
            // An end, not a reset: what is unread when a socket is closed turns one into the other.
            stream.shutdown(Shutdown::Write).unwrap();
            while stream.read(&mut [0; 1000]).is_ok_and(|read| read > 0) {}
        });
        let found = probe(address, &request(address, "/"), Instant::now() + WAIT);
        server.join().unwrap();
        found
    }

    #[test]
    fn pongs_are_counted() {
        let asked = |answer: &'static [u8]| {
            let listener = TcpListener::bind("127.0.0.1:0").unwrap();
            let address = listener.local_addr().unwrap();
            let server = std::thread::spawn(move || {
                let (mut stream, _) = listener.accept().unwrap();
                while stream.read(&mut [0; 1000]).is_ok_and(|read| read > 0) {
                    stream.write_all(answer).unwrap();
                }
            });
            let found = probe_pings(address, b"PING\r\nPING\r\n", 2, Instant::now() + WAIT);
            server.join().unwrap();
            found
        };
        assert_eq!(asked(b"+PONG\r\n+PONG\r\n"), Ok(()));
        assert_eq!(
            asked(b"-ERR no\r\n-ERR\n"),
            Err(r#"answers "-ERR no\r\n-ERR\n-ERR no\r\n-ERR\n""#.into())
        );
    }

    #[test]
    fn a_server_that_drips_is_left_at_the_deadline() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let server = std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            while stream.write_all(b"H").is_ok() {
                std::thread::sleep(Duration::from_millis(20));
            }
        });
        let look = || {
            let began = Instant::now();
            let why = probe(address, &request(address, "/"), began + Duration::from_millis(300));
            (why.unwrap_err(), began.elapsed())
        };
        // A busy machine may be too slow to connect in that time.
        let is_late = |why: &str| why.contains("cannot be connected to");
        let (why, took) = (0..100).map(|_| look()).find(|(why, _)| !is_late(why)).unwrap();
        assert!(why.contains("does not answer rightly"), "{why}");
        assert!(took >= Duration::from_millis(300) && took < WAIT, "{took:?}");
        server.join().unwrap();
    }

    #[test]
    fn two_right_responses_on_one_connection_are_wanted() {
        const RIGHT: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\npong";
        const OTHER: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nping";
        let answer = answering(&[RIGHT, RIGHT]).unwrap();
        assert_eq!((answer.status, answer.body.as_slice()), (200, b"pong".as_slice()));
        assert!(answering(&[RIGHT, OTHER]).unwrap_err().contains("two ways"));
        assert!(answering(&[RIGHT]).unwrap_err().contains("ended after"));
        assert!(answering(&[b"HTTP/1.1 200 OK\r\n\r\npong"]).unwrap_err().contains("length"));
        assert!(answering(&[b"+PONG\r\n\r\n"]).unwrap_err().contains("not a response"));
    }

    #[test]
    fn a_head_says_status_and_length() {
        assert_eq!(head(b"HTTP/1.1 200 OK\r\ncontent-length: 7\r\n").unwrap(), None);
        let found = head(b"HTTP/1.1 404 No\r\ncontent-length: 7\r\n\r\n").unwrap();
        assert_eq!(found, Some((404, 38, 7)));
        assert_eq!(head(b"HTTP/1.1 204 \r\n\r\n").unwrap(), Some((204, 17, 0)));
    }
}
