//! The floor of `hello` and `ping`: an epoll loop that reads once and writes a fixed response.
//!
//! Promises one response for each blank line that ends a request head, or for each PING, also if
//! pipelined; in `hello` with the bytes that Tidegate's `respond` sends for the same route. Never
//! parses, checks or times anything, and drops a client that sends more than it reads: it is a
//! yardstick, not a server.

use super::accept;
use crate::epoll::{Epoll, Event};
use std::io::{self, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::fd::AsRawFd;

/// As long as what `respond` sends for `{ headers: { content-type: text/plain }, body: "pong" }`.
const ANSWER: &[u8] = b"HTTP/1.1 200 OK\r\ncontent-type: text/plain\r\n\
date: Thu, 01 Jan 1970 00:00:00 GMT\r\ncontent-length: 4\r\n\r\npong";

/// The response, and how the requests of a read are counted.
pub(super) struct Canned {
    answer: &'static [u8],
    count: fn(&[u8], &mut usize) -> usize,
}

pub(super) const HELLO: Canned = Canned { answer: ANSWER, count: count_heads };
pub(super) const PING: Canned = Canned { answer: b"+PONG\r\n", count: count_pings };

/// The maximum number of requests of one read that get one write.
const PIPELINE_MAX: usize = 64;

const READ_BYTES: usize = 16 * 1024;

struct Client {
    stream: TcpStream,
    /// The number of bytes of CR LF CR LF at the end of the last read.
    matched: usize,
}

/// Serves until the process ends.
pub(super) fn serve(listener: &TcpListener, canned: &Canned) -> io::Result<()> {
    listener.set_nonblocking(true)?;
    let answers = canned.answer.repeat(PIPELINE_MAX);
    let mut buffer = vec![0; READ_BYTES];
    let mut clients: Vec<Option<Client>> = Vec::new();
    let mut epoll = Epoll::new()?;
    epoll.add(listener)?;
    loop {
        for index in 0..epoll.wait()? {
            let event = epoll.event(index);
            if event.fd == listener.as_raw_fd() {
                accept(listener, &epoll, &mut clients, |stream| Client { stream, matched: 0 })?;
            } else if let Some(slot) = clients.get_mut(event.fd as usize)
                && let Some(client) = slot
                && answer(client, event, &mut buffer, (canned, &answers)).is_err()
            {
                *slot = None;
            }
        }
    }
}

/// Responds to the requests that can be read now; on an error the client is dropped.
fn answer(
    client: &mut Client,
    event: Event,
    buffer: &mut [u8],
    (canned, answers): (&Canned, &[u8]),
) -> io::Result<()> {
    loop {
        let count = match client.stream.read(buffer) {
            Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(count) => count,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
            Err(error) => return Err(error),
        };
        let mut requests = (canned.count)(&buffer[..count], &mut client.matched);
        while requests > 0 {
            let batch = requests.min(PIPELINE_MAX);
            client.stream.write_all(&answers[..batch * canned.answer.len()])?;
            requests -= batch;
        }
        if count < buffer.len() && !event.ended {
            return Ok(());
        }
    }
}

/// Counts the CR LF CR LF that end in `bytes`; `matched` carries one that is split over reads.
pub(super) fn count_heads(bytes: &[u8], matched: &mut usize) -> usize {
    let mut heads = 0;
    for &byte in bytes {
        *matched = match (byte, *matched) {
            (b'\r', 2) => 3,
            (b'\r', _) => 1,
            (b'\n', 1) => 2,
            (b'\n', 3) => {
                heads += 1;
                0
            }
            _ => 0,
        };
    }
    heads
}

/// Counts the commands, which end alike inline and in an array; `matched` as above.
fn count_pings(bytes: &[u8], matched: &mut usize) -> usize {
    const END: &[u8] = b"PING\r\n";
    let mut pings = 0;
    for &byte in bytes {
        // The sequence repeats only from its first byte.
        *matched = if byte == END[*matched] { *matched + 1 } else { usize::from(byte == END[0]) };
        if *matched == END.len() {
            pings += 1;
            *matched = 0;
        }
    }
    pings
}

#[cfg(test)]
mod tests {
    use super::{count_heads, count_pings};

    #[test]
    fn pings_are_counted_wherever_they_are_split() {
        let bytes = b"PING\r\nPIPING\r\n*1\r\n$4\r\nPING\r\nPIN";
        for cut in 0..=bytes.len() {
            let mut matched = 0;
            let first = count_pings(&bytes[..cut], &mut matched);
            assert_eq!(first + count_pings(&bytes[cut..], &mut matched), 3, "cut at {cut}");
        }
    }

    #[test]
    fn heads_are_counted_wherever_they_are_split() {
        let bytes = b"GET / HTTP/1.1\r\nhost: a\r\n\r\nGET / HTTP/1.1\r\n\r\r\n\r\nGET";
        for cut in 0..=bytes.len() {
            let mut matched = 0;
            let first = count_heads(&bytes[..cut], &mut matched);
            assert_eq!(first + count_heads(&bytes[cut..], &mut matched), 2, "cut at {cut}");
        }
    }
}
