//! A canned answer from mio: one poll, one read buffer shared by all connections.
//!
//! Usage: `peer hello|ping ADDRESS`. One answer for each end of a request: the blank line of an
//! HTTP head, or the PING of RESP, inline or as a bulk string. A client that does not take its
//! answers is dropped. It stands outside our workspace and is built by `tidegate bench`.

use mio::net::{TcpListener, TcpStream};
use mio::{Events, Interest, Poll, Token};
use std::io::{self, ErrorKind, Read, Write};

const HELLO: &[u8] =
    b"HTTP/1.1 200 OK\r\ncontent-type: text/plain\r\ncontent-length: 4\r\n\r\npong";
const LISTENER: Token = Token(usize::MAX);
const ANSWERS_MAX: usize = 64;

struct Client {
    stream: TcpStream,
    /// How many bytes of the end the last read ended with.
    matched: usize,
}

fn main() -> io::Result<()> {
    let mut words = std::env::args().skip(1);
    let (Some(mode), Some(address)) = (words.next(), words.next()) else {
        return Err(io::Error::other("usage: peer hello|ping ADDRESS"));
    };
    let (end, answer): (&[u8], &[u8]) =
        if mode == "ping" { (b"PING\r\n", b"+PONG\r\n") } else { (b"\r\n\r\n", HELLO) };
    let answers = answer.repeat(ANSWERS_MAX);
    let address = address.parse().map_err(io::Error::other)?;
    let mut listener = TcpListener::bind(address)?;
    let mut poll = Poll::new()?;
    poll.registry().register(&mut listener, LISTENER, Interest::READABLE)?;
    let mut events = Events::with_capacity(1024);
    let mut buffer = vec![0; 64 * 1024];
    let mut clients: Vec<Option<Client>> = Vec::new();
    loop {
        match poll.poll(&mut events, None) {
            // Being traced, or stopped and continued, interrupts.
            Err(error) if error.kind() == ErrorKind::Interrupted => continue,
            polled => polled?,
        }
        for event in &events {
            if event.token() == LISTENER {
                accept(&poll, &listener, &mut clients)?;
            } else if let Some(slot) = clients.get_mut(event.token().0) {
                let mut serve = |client: &mut Client| {
                    serve(client, &mut buffer, end, &answers, answer.len())
                };
                if slot.as_mut().is_some_and(|client| serve(client).is_err()) {
                    *slot = None;
                }
            }
        }
    }
}

fn accept(
    poll: &Poll,
    listener: &TcpListener,
    clients: &mut Vec<Option<Client>>,
) -> io::Result<()> {
    loop {
        let mut stream = match listener.accept() {
            Ok((stream, _)) => stream,
            Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
            Err(error) => return Err(error),
        };
        stream.set_nodelay(true)?;
        let slot = clients.iter().position(Option::is_none).unwrap_or(clients.len());
        poll.registry().register(&mut stream, Token(slot), Interest::READABLE)?;
        let client = Some(Client { stream, matched: 0 });
        if slot == clients.len() {
            clients.push(client);
        } else {
            clients[slot] = client;
        }
    }
}

/// Answers what can be read now; an error means that the client is to be dropped.
fn serve(
    client: &mut Client,
    buffer: &mut [u8],
    end: &[u8],
    answers: &[u8],
    answer_bytes: usize,
) -> io::Result<()> {
    loop {
        let count = match client.stream.read(buffer) {
            Ok(0) => return Err(ErrorKind::UnexpectedEof.into()),
            Ok(count) => count,
            Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
            Err(error) => return Err(error),
        };
        let mut ends = count_ends(&buffer[..count], &mut client.matched, end);
        while ends > 0 {
            let batch = ends.min(ANSWERS_MAX);
            client.stream.write_all(&answers[..batch * answer_bytes])?;
            ends -= batch;
        }
    }
}

/// How many ends there are; both ends repeat only from their first byte.
fn count_ends(bytes: &[u8], matched: &mut usize, end: &[u8]) -> usize {
    let mut found = 0;
    for &byte in bytes {
        *matched = if byte == end[*matched] {
            *matched + 1
        } else {
            usize::from(byte == end[0])
        };
        if *matched == end.len() {
            found += 1;
            *matched = 0;
        }
    }
    found
}
