//! A tunnel between a client and a server: after 101 (RFC 9110 7.8), and of a stream.
//!
//! Both directions with back-pressure: a direction holds one chunk and reads no further until that
//! is gone. An end is passed on as a half-close; the tunnel is over when both have ended, when
//! either side breaks, or when nothing has moved for longer than allowed. It holds the connection
//! and nothing of the Plan, so it lives through reloads.

use std::future::poll_fn;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;

use crate::pool::Lease;
use message::duplex::{Duplex, Ending, Takeover};

/// The tunnel between client and server; `early` are bytes that the server sent after its head.
pub fn tunnel(lease: Lease, early: Bytes, idle: Duration) -> Takeover {
    Box::new(move |client| {
        Box::pin(async move {
            let to_client = Direction { chunk: early, ..Direction::default() };
            let to_server = Direction::default();
            let mut tunnel = Tunnel { client, lease, to_client, to_server, idle };
            tunnel.moved();
            let ending = poll_fn(|cx| tunnel.poll(cx)).await;
            if ending == Ending::ClientGone {
                // An ordinary close would tell the server that it has received everything.
                tunnel.lease.connection().stream.reset_on_close();
            }
            ending
        })
    })
}

#[derive(Default)]
struct Direction {
    /// Received and not yet taken by the other side.
    chunk: Bytes,
    /// The client's side has taken a chunk and is still sending it.
    sending: bool,
    /// The source has ended.
    ended: bool,
    /// The end has been passed on.
    finished: bool,
}

struct Tunnel {
    client: Box<dyn Duplex>,
    lease: Lease,
    to_client: Direction,
    to_server: Direction,
    idle: Duration,
}

impl Tunnel {
    fn moved(&self) {
        self.lease.connection().timer.set(self.idle);
    }

    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Ending> {
        match self.poll_to_server(cx) {
            Err(ending) => return Poll::Ready(ending),
            Ok(moved) if moved => self.moved(),
            Ok(_) => {}
        }
        match self.poll_to_client(cx) {
            Err(ending) => return Poll::Ready(ending),
            Ok(moved) if moved => self.moved(),
            Ok(_) => {}
        }
        if self.to_client.finished && self.to_server.finished {
            return Poll::Ready(Ending::Finished);
        }
        self.lease.connection().timer.poll(cx).map(|()| Ending::Idle)
    }

    /// Carries bytes from the client until one side is not ready; whether any moved.
    fn poll_to_server(&mut self, cx: &mut Context<'_>) -> Result<bool, Ending> {
        let way = &mut self.to_server;
        let connection = self.lease.connection_mut();
        let mut moved = false;
        loop {
            if connection.outgoing.is_empty() && way.chunk.is_empty() && !way.ended {
                match self.client.poll_receive(cx) {
                    Poll::Pending => return Ok(moved),
                    Poll::Ready(Err(_)) => return Err(Ending::ClientGone),
                    Poll::Ready(Ok(chunk)) => {
                        way.ended = chunk.is_empty();
                        connection.outgoing.push(chunk);
                    }
                }
            }
            while !connection.outgoing.is_empty() {
                match connection.stream.poll_send(cx, &mut connection.outgoing) {
                    Poll::Pending => return Ok(moved),
                    Poll::Ready(Err(_)) => return Err(Ending::OtherGone),
                    Poll::Ready(Ok(_)) => moved = true,
                }
            }
            if way.ended {
                if !way.finished {
                    connection.stream.finish();
                    way.finished = true;
                }
                return Ok(moved);
            }
        }
    }

    /// Carries bytes from the server until one side is not ready; whether any moved.
    fn poll_to_client(&mut self, cx: &mut Context<'_>) -> Result<bool, Ending> {
        let way = &mut self.to_client;
        let mut moved = false;
        loop {
            if way.chunk.is_empty() && !way.sending && !way.ended {
                match self.lease.connection().stream.poll_receive(cx) {
                    Poll::Pending => return Ok(moved),
                    Poll::Ready(Err(_)) => return Err(Ending::OtherGone),
                    Poll::Ready(Ok(chunk)) => {
                        way.ended = chunk.is_empty();
                        way.chunk = chunk;
                    }
                }
            }
            way.sending |= !way.chunk.is_empty();
            if way.sending {
                match self.client.poll_send(cx, &mut way.chunk) {
                    Poll::Pending => return Ok(moved),
                    Poll::Ready(Err(_)) => return Err(Ending::ClientGone),
                    Poll::Ready(Ok(())) => {
                        way.sending = false;
                        moved = true;
                    }
                }
            }
            if way.ended {
                if !way.finished {
                    self.client.finish();
                    way.finished = true;
                }
                return Ok(moved);
            }
        }
    }
}
