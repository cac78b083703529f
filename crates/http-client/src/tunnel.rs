//! A tunnel between a client and a server: after an upgrade (RFC 9110 7.8, RFC 8441), and of a
//! stream of layer 4.
//!
//! Both directions with back-pressure: a direction holds one chunk and reads no further until that
//! is gone. An end is passed on as a half-close; the tunnel is over when both have ended, when
//! either side breaks, or when nothing has moved for longer than allowed. It holds the connection
//! and nothing of the plan, so it lives through reloads.
//!
//! When the client's side drains, each direction of a WebSocket gets a Close frame with 1001 where
//! a frame ends (RFC 6455 7.4.1), and what comes after it is discarded. Nothing is inserted into
//! bytes that are not frames, or if either side has sent a Close frame already.

use std::future::poll_fn;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use net::Timer;
use telemetry::{WebSocketMetrics, WorkerMetrics};
use wire::websocket::{FrameCounter, Opcode, write_frame};

use crate::limits::WEBSOCKET_CLOSE;
use message::duplex::{DirectionTraffic, Duplex, Ending};

/// The close code of an endpoint that shuts down (RFC 6455 7.4.1).
const GOING_AWAY: u16 = 1001;

/// Carries bytes between client and server to the end; `early` are bytes that the server sent after
/// its head. `counted` counts the messages of a WebSocket.
pub(super) async fn relay(
    mut client: Box<dyn Duplex>,
    server: &mut dyn Duplex,
    early: Bytes,
    idle: Duration,
    counted: Option<Arc<WorkerMetrics>>,
) -> Ending {
    let counted = counted.as_deref();
    let traffic = client.traffic();
    let messages = counted.map(|metrics| Messages::new(&metrics.websocket_sent, traffic.sent));
    let mut to_client = Direction { messages, ..Direction::default() };
    if !early.is_empty() {
        to_client.received(early);
    }
    let messages =
        counted.map(|metrics| Messages::new(&metrics.websocket_received, traffic.received));
    let mut to_server = Direction { messages, ..Direction::default() };
    let timer = Timer::new();
    timer.set(idle);
    let (mut is_draining, mut is_closing) = (false, false);
    poll_fn(|cx| {
        if counted.is_some() && !is_draining && client.poll_draining(cx).is_ready() {
            is_draining = true;
            if to_client.may_close() && to_server.may_close() {
                to_client.close(going_away(None));
                to_server.close(going_away(Some(fastrand::u32(..).to_ne_bytes())));
            }
        }
        let sent = to_server.poll(cx, &mut *client, server);
        let received = sent.and_then(|sent| {
            let received = to_client.poll(cx, server, &mut *client);
            received.map(|received| sent | received).map_err(FailedSide::reversed)
        });
        let is_closed = to_client.is_complete() && to_server.is_complete();
        match received {
            Err(FailedSide::Source) => return Poll::Ready(Ending::ClientGone),
            Err(FailedSide::Sink) => return Poll::Ready(Ending::OtherGone),
            Ok(_) if is_draining && is_closed => {
                if !std::mem::replace(&mut is_closing, true) {
                    timer.set(WEBSOCKET_CLOSE);
                }
            }
            Ok(true) => timer.set(idle),
            Ok(false) => {}
        }
        if to_client.finished && to_server.finished {
            return Poll::Ready(Ending::Finished);
        }
        timer.poll(cx).map(|()| if is_closing { Ending::Finished } else { Ending::Idle })
    })
    .await
}

/// The Close frame of an endpoint that shuts down; a client's has a mask.
fn going_away(mask: Option<[u8; 4]>) -> Bytes {
    let mut frame = Vec::new();
    write_frame(&mut frame, Opcode::Close, true, &GOING_AWAY.to_be_bytes(), mask);
    frame.into()
}

/// The side of a direction that has failed.
enum FailedSide {
    Source,
    Sink,
}

impl FailedSide {
    fn reversed(self) -> FailedSide {
        match self {
            FailedSide::Source => FailedSide::Sink,
            FailedSide::Sink => FailedSide::Source,
        }
    }
}

/// The messages of one direction of a WebSocket.
struct Messages<'a> {
    frames: FrameCounter,
    has_close: bool,
    metrics: &'a WebSocketMetrics,
    traffic: Rc<DirectionTraffic>,
}

impl Messages<'_> {
    fn new(metrics: &WebSocketMetrics, traffic: Rc<DirectionTraffic>) -> Messages<'_> {
        traffic.messages.set(Some(0));
        Messages { frames: FrameCounter::default(), has_close: false, metrics, traffic }
    }

    fn count(&mut self, mut bytes: &[u8]) {
        while !bytes.is_empty() {
            let counted = self.count_frame(bytes);
            bytes = &bytes[counted..];
        }
    }

    /// Counts up to the end of the first frame and returns where that is.
    fn count_frame(&mut self, bytes: &[u8]) -> usize {
        let Messages { frames, has_close, metrics, traffic } = self;
        let taken = frames.take_frame(bytes, |head| {
            let counter = match head.opcode {
                Opcode::Text => &metrics.text,
                Opcode::Binary => &metrics.binary,
                Opcode::Close => &metrics.close,
                Opcode::Continuation | Opcode::Ping | Opcode::Pong => return,
            };
            counter.inc();
            match head.opcode {
                Opcode::Close => *has_close = true,
                _ => traffic.messages.update(|count| count.map(|count| count + 1)),
            }
        });
        self.metrics.bytes.add(taken as u64);
        taken
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
    /// The Close frame to send where the current frame ends.
    close: Option<Bytes>,
    /// Our Close frame is the last of this direction: what the source still sends is discarded.
    is_closed: bool,
}

impl Direction<'_> {
    /// Takes what the source has sent; an empty chunk is its end.
    fn received(&mut self, mut chunk: Bytes) {
        self.ended = chunk.is_empty();
        if self.is_closed {
            return self.discard(&chunk);
        }
        let Some(messages) = &mut self.messages else {
            self.chunk = chunk;
            return;
        };
        if self.close.is_none() {
            messages.count(&chunk);
            self.chunk = chunk;
            return;
        }
        let rest = chunk.split_off(messages.count_frame(&chunk));
        self.chunk = chunk;
        self.close_between_frames();
        self.discard(&rest);
    }

    /// Ends the direction once the source has sent its Close frame.
    fn discard(&mut self, bytes: &[u8]) {
        if let Some(messages) = &mut self.messages {
            messages.count(bytes);
            self.ended |= messages.has_close;
        }
    }

    /// Sends this Close frame where the current frame ends.
    fn close(&mut self, frame: Bytes) {
        self.close = Some(frame);
        self.close_between_frames();
    }

    fn close_between_frames(&mut self) {
        let is_between = self
            .messages
            .as_ref()
            .is_some_and(|messages| messages.frames.is_between_frames() && !messages.has_close);
        if is_between
            && !self.ended
            && let Some(frame) = self.close.take()
        {
            self.chunk = [&self.chunk[..], &frame].concat().into();
            self.is_closed = true;
        }
    }

    /// True if all that is forwarded is sent.
    fn is_complete(&self) -> bool {
        self.is_closed && !self.sending && self.chunk.is_empty() || self.finished
    }

    /// True if the source has sent frames, and no Close frame.
    fn may_close(&self) -> bool {
        let messages = self.messages.as_ref();
        messages.is_some_and(|messages| !messages.has_close && !messages.frames.is_lost())
    }

    /// Carries bytes until one side is not ready; whether any moved.
    fn poll(
        &mut self,
        cx: &mut Context<'_>,
        source: &mut dyn Duplex,
        sink: &mut dyn Duplex,
    ) -> Result<bool, FailedSide> {
        let mut moved = false;
        loop {
            if self.chunk.is_empty() && !self.sending && !self.ended {
                match source.poll_receive(cx) {
                    Poll::Pending => return Ok(moved),
                    Poll::Ready(Err(_)) => return Err(FailedSide::Source),
                    Poll::Ready(Ok(chunk)) => self.received(chunk),
                }
                if self.is_closed && self.chunk.is_empty() && !self.ended {
                    // A source that floods must not hold the worker.
                    cx.waker().wake_by_ref();
                    return Ok(moved);
                }
            }
            self.sending |= !self.chunk.is_empty();
            if self.sending {
                match sink.poll_send(cx, &mut self.chunk) {
                    Poll::Pending => return Ok(moved),
                    Poll::Ready(Err(_)) => return Err(FailedSide::Sink),
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
