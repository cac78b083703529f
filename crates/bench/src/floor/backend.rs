//! The backend of gateways: responds with a fixed body after a fixed delay.
//!
//! Promises one response for each blank line that ends a request head, after the delay and in
//! order, with `content-length`; in the mode `close` it sends `connection: close` and closes. Part
//! of the load, so it is as bare as the floors: never parses, and drops a client that sends more
//! than it reads.

use super::accept;
use super::hello::count_heads;
use super::listing::listing;
use crate::epoll::{Epoll, Event};
use std::collections::VecDeque;
use std::io::{self, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::fd::{AsRawFd, RawFd};
use std::time::{Duration, Instant};

const READ_BYTES: usize = 16 * 1024;

/// The response to every request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Behaviour {
    pub body_bytes: usize,
    pub delay: Duration,
    /// True if the connection stays open after a response.
    pub keep: bool,
    pub content: Content,
}

/// The content of the body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Content {
    /// [`body`], with `no-store`.
    Text,
    /// [`listing`], storable for a day.
    Listing,
}

impl Content {
    pub fn word(self) -> &'static str {
        match self {
            Self::Text => "text",
            Self::Listing => "listing",
        }
    }

    pub(super) fn named(word: &str) -> Option<Self> {
        [Self::Text, Self::Listing].into_iter().find(|content| content.word() == word)
    }

    fn fields(self) -> &'static str {
        match self {
            Self::Text => "content-type: text/plain",
            Self::Listing => "content-type: application/json\r\ncache-control: max-age=86400",
        }
    }
}

/// The body of that many bytes.
pub fn body(bytes: usize) -> Vec<u8> {
    const TEXT: &[u8] = b"the tide comes in, the tide goes out. ";
    let mut body = TEXT.repeat(bytes.div_ceil(TEXT.len()));
    body.truncate(bytes);
    body
}

struct Client {
    stream: TcpStream,
    /// The number of bytes of CR LF CR LF at the end of the last read.
    matched: usize,
    /// Distinguishes it from an earlier one with the same descriptor.
    number: u64,
}

/// An response that waits for its time.
struct Due {
    at: Instant,
    fd: RawFd,
    number: u64,
}

struct Backend {
    behaviour: Behaviour,
    answer: Vec<u8>,
    epoll: Epoll,
    /// By descriptor.
    clients: Vec<Option<Client>>,
    accepted: u64,
    /// In the order of their time, because the delay is the same for all.
    due: VecDeque<Due>,
}

/// Serves until the process ends.
pub(super) fn serve(listener: &TcpListener, behaviour: Behaviour) -> io::Result<()> {
    listener.set_nonblocking(true)?;
    let mut backend = Backend {
        behaviour,
        answer: answer(behaviour),
        epoll: Epoll::new()?,
        clients: Vec::new(),
        accepted: 0,
        due: VecDeque::new(),
    };
    backend.epoll.add(listener)?;
    let mut buffer = vec![0; READ_BYTES];
    loop {
        let now = Instant::now();
        let longest = backend.due.front().map(|due| due.at.saturating_duration_since(now));
        for index in 0..backend.epoll.wait_for(longest)? {
            let event = backend.epoll.event(index);
            if event.fd == listener.as_raw_fd() {
                backend.accept(listener)?;
            } else if backend.read(event, &mut buffer).is_err() {
                backend.clients[event.fd as usize] = None;
            }
        }
        backend.answer_due();
    }
}

fn answer(behaviour: Behaviour) -> Vec<u8> {
    let close = if behaviour.keep { "" } else { "connection: close\r\n" };
    let bytes = behaviour.body_bytes;
    let mut answer = format!(
        "HTTP/1.1 200 OK\r\n{}\r\n{close}content-length: {bytes}\r\n\r\n",
        behaviour.content.fields()
    )
    .into_bytes();
    answer.extend(match behaviour.content {
        Content::Text => body(bytes),
        Content::Listing => listing(bytes),
    });
    answer
}

impl Backend {
    fn accept(&mut self, listener: &TcpListener) -> io::Result<()> {
        accept(listener, &self.epoll, &mut self.clients, |stream| {
            self.accepted += 1;
            Client { stream, matched: 0, number: self.accepted }
        })
    }

    /// Reads the available requests; on an error the client is dropped.
    fn read(&mut self, event: Event, buffer: &mut [u8]) -> io::Result<()> {
        let Some(Some(client)) = self.clients.get_mut(event.fd as usize) else { return Ok(()) };
        loop {
            let count = match client.stream.read(buffer) {
                Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Ok(count) => count,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                Err(error) => return Err(error),
            };
            for _ in 0..count_heads(&buffer[..count], &mut client.matched) {
                if self.behaviour.delay.is_zero() {
                    client.stream.write_all(&self.answer)?;
                    if !self.behaviour.keep {
                        return Err(io::ErrorKind::ConnectionAborted.into());
                    }
                } else {
                    let at = Instant::now() + self.behaviour.delay;
                    self.due.push_back(Due { at, fd: event.fd, number: client.number });
                }
            }
            if count < buffer.len() && !event.ended {
                return Ok(());
            }
        }
    }

    fn answer_due(&mut self) {
        let now = Instant::now();
        while let Some(due) = self.due.pop_front_if(|due| due.at <= now) {
            let slot = &mut self.clients[due.fd as usize];
            if let Some(client) = slot
                && client.number == due.number
                && (client.stream.write_all(&self.answer).is_err() || !self.behaviour.keep)
            {
                *slot = None;
            }
        }
    }
}
