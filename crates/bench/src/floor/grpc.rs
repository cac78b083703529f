//! The backend of gRPC gateways: responds to every call with the same message and status 0.
//!
//! Part of the load. Promises a message once the first content of a call has arrived (or its head,
//! if that is all), and trailers at its end; takes as many streams of a connection as clients use.
//! Never looks at a message, and drops a client that sends more than it reads.

use super::accept;
use super::backend::body;
use crate::epoll::{Epoll, Event as Ready};
use crate::load::{GRPC_TYPE, STREAMS_MAX, Unsent};
use bytes::{BufMut, Bytes, BytesMut};
use std::io::{self, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::fd::AsRawFd;
use wire::grpc;
use wire::h2::{Config, Connection, Event, Field, StreamKey};

const READ_BYTES: usize = 64 * 1024;
const STATUS: Field<'_> = Field { known: None, name: grpc::STATUS.as_bytes(), value: b"0" };

struct Client {
    stream: TcpStream,
    connection: Connection<Bytes>,
    /// The calls that have their message and no end yet.
    held: Vec<StreamKey>,
}

/// The content of a call or its response: one message of that many bytes, with its prefix.
pub fn message(bytes: usize) -> Bytes {
    let mut content = BytesMut::with_capacity(grpc::PREFIX_BYTES + bytes);
    content.put_slice(&grpc::prefix(0, bytes as u32));
    content.put_slice(&body(bytes));
    content.freeze()
}

/// Serves until the process ends.
pub(super) fn serve(listener: &TcpListener, message_bytes: usize) -> io::Result<()> {
    listener.set_nonblocking(true)?;
    let response = message(message_bytes);
    let mut buffer = vec![0; READ_BYTES];
    let mut clients: Vec<Option<Client>> = Vec::new();
    let mut epoll = Epoll::new()?;
    epoll.add(listener)?;
    loop {
        for index in 0..epoll.wait()? {
            let event = epoll.event(index);
            if event.fd == listener.as_raw_fd() {
                accept(listener, &epoll, &mut clients, |stream| {
                    let config = Config { max_streams: STREAMS_MAX, ..Config::default() };
                    Client { stream, connection: Connection::server(config), held: Vec::new() }
                })?;
            } else if let Some(slot) = clients.get_mut(event.fd as usize)
                && let Some(client) = slot
                && client.take(event, &mut buffer, &response).is_err()
            {
                *slot = None;
            }
        }
    }
}

impl Client {
    /// Responds to the calls that can be read now.
    fn take(&mut self, ready: Ready, buffer: &mut [u8], response: &Bytes) -> io::Result<()> {
        loop {
            let count = match self.stream.read(buffer) {
                Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Ok(count) => count,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                Err(error) => return Err(error),
            };
            self.connection.receive(Bytes::copy_from_slice(&buffer[..count]));
            let invalid = |_| io::Error::from(io::ErrorKind::InvalidData);
            while let Some(event) = self.connection.poll_event().map_err(invalid)? {
                match event {
                    Event::Data { stream, data, ends } => {
                        self.connection.release(stream, data.len());
                        self.respond(stream, response, ends);
                    }
                    Event::Request { stream, ends: true, .. } => {
                        self.respond(stream, response, true);
                    }
                    Event::Reset { stream, .. } => self.held.retain(|held| *held != stream),
                    _ => {}
                }
            }
            self.send()?;
            if count < buffer.len() && !ready.ended {
                return Ok(());
            }
        }
    }

    /// Sends the message, unless it was sent, and trailers at the end of the call. A stream that
    /// its client has reset gets nothing.
    fn respond(&mut self, stream: StreamKey, response: &Bytes, ends: bool) {
        let connection = &mut self.connection;
        match self.held.iter().position(|held| *held == stream) {
            Some(at) if ends => {
                self.held.swap_remove(at);
                // One that waits for its window gets them when it has been sent.
                let _ = connection.send_trailers(stream, [STATUS]);
            }
            Some(_) => {}
            None => {
                let _ = connection
                    .respond(stream, 200, [GRPC_TYPE], false)
                    .and_then(|()| connection.send_data(stream, response.clone(), false));
                if !ends {
                    self.held.push(stream);
                }
            }
        }
    }

    /// Sends what the windows allow, and the trailers of ended calls whose message is sent.
    fn send(&mut self) -> io::Result<()> {
        let mut out = Unsent::default();
        self.connection.write(&mut out, usize::MAX);
        while let Some(stream) = self.connection.take_drained() {
            if !self.held.contains(&stream) {
                let _ = self.connection.send_trailers(stream, [STATUS]);
            }
        }
        self.connection.write(&mut out, usize::MAX);
        self.stream.write_all(out.rest())
    }
}
