//! A tunnel between a client and a server: after an upgrade (RFC 9110 7.8, RFC 8441), and of a
//! stream of layer 4.
//!
//! Both directions with back-pressure: a direction holds one chunk and reads no further until that
//! is gone. An end is passed on as a half-close; the tunnel is over when both have ended, when
//! either side breaks, or when nothing has moved for longer than allowed. It holds the connection
//! and nothing of the plan, so it lives through reloads.

use std::future::poll_fn;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use net::Timer;
use telemetry::{WebSocketMetrics, WorkerMetrics};
use wire::websocket::{FrameCounter, Opcode};

use message::duplex::{Duplex, Ending};

/// Carries bytes between client and server to the end; `early` are bytes that the server sent after
/// its head. `counted` counts the messages of a WebSocket.
pub(super) async fn carry(
    mut client: Box<dyn Duplex>,
    server: &mut dyn Duplex,
    early: Bytes,
    idle: Duration,
    counted: Option<Arc<WorkerMetrics>>,
) -> Ending {
    let counted = counted.as_deref();
    let messages = counted.map(|metrics| Messages::of(&metrics.websocket_sent));
    let mut to_client = Direction { messages, ..Direction::default() };
    to_client.received(early);
    let messages = counted.map(|metrics| Messages::of(&metrics.websocket_received));
    let mut to_server = Direction { messages, ..Direction::default() };
    let timer = Timer::new();
    timer.set(idle);
    poll_fn(|cx| {
        let sent = to_server.poll(cx, &mut *client, server);
        let received = sent.and_then(|sent| {
            let received = to_client.poll(cx, server, &mut *client);
            received.map(|received| sent | received).map_err(Broken::reversed)
        });
        match received {
            Err(Broken::Source) => return Poll::Ready(Ending::ClientGone),
            Err(Broken::Sink) => return Poll::Ready(Ending::OtherGone),
            Ok(true) => timer.set(idle),
            Ok(false) => {}
        }
        if to_client.finished && to_server.finished {
            return Poll::Ready(Ending::Finished);
        }
        timer.poll(cx).map(|()| Ending::Idle)
    })
    .await
}

/// The side of a direction that has failed.
enum Broken {
    Source,
    Sink,
}

impl Broken {
    fn reversed(self) -> Broken {
        match self {
            Broken::Source => Broken::Sink,
            Broken::Sink => Broken::Source,
        }
    }
}

/// The messages of one direction of a WebSocket.
struct Messages<'a> {
    frames: FrameCounter,
    metrics: &'a WebSocketMetrics,
}

impl Messages<'_> {
    fn of(metrics: &WebSocketMetrics) -> Messages<'_> {
        Messages { frames: FrameCounter::default(), metrics }
    }

    fn count(&mut self, bytes: &[u8]) {
        self.metrics.bytes.add(bytes.len() as u64);
        self.frames.take(bytes, |head| match head.opcode {
            Opcode::Text => self.metrics.text.inc(),
            Opcode::Binary => self.metrics.binary.inc(),
            Opcode::Close => self.metrics.close.inc(),
            Opcode::Continuation | Opcode::Ping | Opcode::Pong => {}
        });
    }
}

#[derive(Default)]
struct Direction<'a> {
    /// Received and not yet taken by the other side.
    chunk: Bytes,
    /// The other side has taken a chunk and is still sending it.
    sending: bool,
    /// The source has ended.
    ended: bool,
    /// The end has been passed on.
    finished: bool,
    messages: Option<Messages<'a>>,
}

impl Direction<'_> {
    fn received(&mut self, chunk: Bytes) {
        if let Some(messages) = &mut self.messages {
            messages.count(&chunk);
        }
        self.chunk = chunk;
    }

    /// Carries bytes until one side is not ready; whether any moved.
    fn poll(
        &mut self,
        cx: &mut Context<'_>,
        source: &mut dyn Duplex,
        sink: &mut dyn Duplex,
    ) -> Result<bool, Broken> {
        let mut moved = false;
        loop {
            if self.chunk.is_empty() && !self.sending && !self.ended {
                match source.poll_receive(cx) {
                    Poll::Pending => return Ok(moved),
                    Poll::Ready(Err(_)) => return Err(Broken::Source),
                    Poll::Ready(Ok(chunk)) => {
                        self.ended = chunk.is_empty();
                        self.received(chunk);
                    }
                }
            }
            self.sending |= !self.chunk.is_empty();
            if self.sending {
                match sink.poll_send(cx, &mut self.chunk) {
                    Poll::Pending => return Ok(moved),
                    Poll::Ready(Err(_)) => return Err(Broken::Sink),
                    Poll::Ready(Ok(())) => {
                        self.sending = false;
                        moved = true;
                    }
                }
            }
            if self.ended {
                if !self.finished {
                    sink.finish();
                    self.finished = true;
                }
                return Ok(moved);
            }
        }
    }
}
