//! A WebSocket connection after its 101: frames to and from the client, messages to and from the
//! session.
//!
//! ```text
//!  open ── client closes, server replies ────────────────────────────────▶ closed: server closes
//!   │  └── server closes (application, drain) ── client replies ──────────▲
//!   └── client violates the protocol, server closes ──▶ violated: discard input until EOF
//! ```
//!
//! Every wait has a time-out: for input, for the client to take output, and for its close frame.

use std::future::poll_fn;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::{Buf, Bytes};
use message::{Duplex, Ending, Takeover};
use net::Timer;
use offload::session::{Closed, Message, OpenSession, Received};
use wire::websocket::{Decoder, Message as ClientMessage, Opcode, Violation};

use super::WebSocketSettings;
use super::deflate::AgreedDeflate;
use super::outbox::{NO_CODE, Outbox};
use crate::limits::{WEBSOCKET_DRAIN, WEBSOCKET_TURNS};

/// The state of the closing handshake.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Stage {
    Open,
    /// The client has sent a close frame.
    CloseReceived,
    /// The client has violated the protocol.
    Violated,
}

struct WebSocketDriver {
    duplex: Box<dyn Duplex>,
    session: OpenSession,
    settings: WebSocketSettings,
    decoder: Decoder,
    /// Received, not yet decoded.
    input: Bytes,
    outbox: Outbox,
    /// The chunk being sent, and whether the socket is blocked on it.
    chunk: Bytes,
    sending: bool,
    /// The payload of the last ping, if its pong is deferred.
    pong: Option<Vec<u8>>,
    stage: Stage,
    /// A close frame was sent: nothing follows it.
    close_sent: bool,
    finished: bool,
    /// The application's queue is full, so nothing is read.
    stalled: bool,
    /// A ping was sent.
    ping_sent: bool,
    /// Expires when the client was silent for too long.
    idle: Timer,
    /// Expires when the client takes too long to accept output or to close.
    deadline: Timer,
}

/// The task that drives the connection after the 101.
pub(super) fn takeover(
    session: OpenSession,
    settings: WebSocketSettings,
    deflate: Option<AgreedDeflate>,
) -> Takeover {
    Box::new(move |duplex| {
        Box::pin(async move {
            let mut driver = WebSocketDriver::new(duplex, session, settings, deflate);
            poll_fn(|cx| driver.poll(cx)).await
        })
    })
}

impl WebSocketDriver {
    fn new(
        duplex: Box<dyn Duplex>,
        session: OpenSession,
        settings: WebSocketSettings,
        deflate: Option<AgreedDeflate>,
    ) -> WebSocketDriver {
        let decoder = Decoder::new(true, settings.message_size.bytes_usize());
        let decoder = match &deflate {
            Some(agreed) => decoder.inflating(Box::new(agreed.inflating())),
            None => decoder,
        };
        let driver = WebSocketDriver {
            duplex,
            session,
            settings,
            decoder,
            input: Bytes::new(),
            outbox: Outbox::new(deflate),
            chunk: Bytes::new(),
            sending: false,
            pong: None,
            stage: Stage::Open,
            close_sent: false,
            finished: false,
            stalled: false,
            ping_sent: false,
            idle: Timer::new(),
            deadline: Timer::new(),
        };
        driver.restart_idle_timer();
        driver
    }

    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Ending> {
        self.check_draining(cx);
        for _ in 0..WEBSOCKET_TURNS {
            if let Err(ending) = self.send(cx) {
                return Poll::Ready(ending);
            }
            if self.stage == Stage::CloseReceived && self.finished {
                return Poll::Ready(Ending::Finished);
            }
            match self.receive(cx) {
                Ok(true) => {}
                // Input was received that needs a reply.
                Ok(false) if self.has_output() => {}
                Ok(false) => return self.poll_time(cx),
                Err(ending) => return Poll::Ready(ending),
            }
        }
        // The other connections of the worker are polled first.
        cx.waker().wake_by_ref();
        Poll::Pending
    }

    // Output.

    /// Sends output as far as the socket takes it.
    fn send(&mut self, cx: &mut Context<'_>) -> Result<(), Ending> {
        loop {
            if !self.sending {
                self.buffer(cx);
                match self.outbox.next() {
                    Some(chunk) => self.chunk = chunk,
                    None => break,
                }
            }
            match self.duplex.poll_send(cx, &mut self.chunk) {
                Poll::Ready(Ok(())) if self.sending => self.chunk_sent(),
                Poll::Ready(Ok(())) => {}
                Poll::Ready(Err(_)) => return Err(Ending::ClientGone),
                Poll::Pending => {
                    if !std::mem::replace(&mut self.sending, true) && !self.close_sent {
                        self.deadline.set(self.settings.ping_timeout.get());
                    }
                    return Ok(());
                }
            }
        }
        if self.is_over() && !self.finished {
            self.duplex.finish();
            self.finished = true;
        }
        Ok(())
    }

    /// Both sides have sent what they had to.
    fn is_over(&self) -> bool {
        self.close_sent && self.stage != Stage::Open
    }

    /// True if output is pending and can be sent.
    fn has_output(&self) -> bool {
        !self.sending && (!self.outbox.is_empty() || self.is_over() && !self.finished)
    }

    /// The client has accepted the blocked chunk.
    fn chunk_sent(&mut self) {
        self.sending = false;
        if !self.close_sent {
            self.deadline.clear();
        }
    }

    /// Encodes the application's messages, up to a chunk.
    fn buffer(&mut self, cx: &mut Context<'_>) {
        while !self.close_sent && !self.outbox.is_full() {
            if let Some(payload) = self.pong.take() {
                self.outbox.control(Opcode::Pong, &payload);
            }
            match self.session.poll_said(cx) {
                Poll::Ready(Received::Message(message)) => self.outbox.message(message),
                Poll::Ready(Received::Closed(closed)) => self.close(&closed),
                Poll::Pending => break,
            }
        }
    }

    fn close(&mut self, closed: &Closed) {
        if !std::mem::replace(&mut self.close_sent, true) {
            self.outbox.close(closed);
            self.deadline.set(self.settings.close_timeout.get());
        }
    }

    fn check_draining(&mut self, cx: &mut Context<'_>) {
        if self.close_sent || self.duplex.poll_draining(cx).is_pending() {
            return;
        }
        self.buffer(cx);
        let closed = Closed::new(Closed::RESTART, "the server restarts");
        self.session.end(closed.clone());
        self.close(&closed);
        self.deadline.set(WEBSOCKET_DRAIN.min(self.settings.close_timeout.get()));
    }

    // Input.

    /// Receives input; returns true if there may be more.
    fn receive(&mut self, cx: &mut Context<'_>) -> Result<bool, Ending> {
        if self.stage == Stage::Open && !self.decode(cx) {
            return Ok(false);
        }
        match self.duplex.poll_receive(cx) {
            Poll::Pending => return Ok(false),
            Poll::Ready(Ok(chunk)) if !chunk.is_empty() => self.input = chunk,
            Poll::Ready(_) if self.stage == Stage::Open => return Err(Ending::ClientGone),
            Poll::Ready(_) => return Err(Ending::Finished),
        }
        if self.stage != Stage::Open {
            self.input.clear();
        }
        self.ping_sent = false;
        self.restart_idle_timer();
        Ok(true)
    }

    /// Passes received messages to the application; returns true if it takes more.
    fn decode(&mut self, cx: &mut Context<'_>) -> bool {
        while !self.input.is_empty() {
            if self.session.poll_room(cx).is_pending() {
                if !std::mem::replace(&mut self.stalled, true) {
                    // It may be held here for long and must not pin a buffer of the worker.
                    self.input = net::detach(&self.input).freeze();
                }
                return false;
            }
            self.stalled = false;
            let mut rest = &self.input[..];
            let next = self.decoder.message(&mut rest);
            let read = self.input.len() - rest.len();
            self.input.advance(read);
            match next {
                Ok(Some(message)) => self.message_received(message),
                Ok(None) => {}
                Err(violation) => self.violated(violation),
            }
            if self.stage != Stage::Open {
                self.input.clear();
            }
        }
        true
    }

    fn message_received(&mut self, message: ClientMessage) {
        match message {
            ClientMessage::Text(data) => self.session.give(Message::Text(data.into())),
            ClientMessage::Binary(data) => self.session.give(Message::Binary(data.into())),
            // RFC 6455 5.5.3: of several pings only the last needs a pong.
            ClientMessage::Ping(payload) if self.outbox.is_full() => self.pong = Some(payload),
            ClientMessage::Ping(payload) if !self.close_sent => {
                self.outbox.control(Opcode::Pong, &payload)
            }
            ClientMessage::Ping(_) | ClientMessage::Pong(_) => {}
            ClientMessage::Close(code, reason) => {
                self.stage = Stage::CloseReceived;
                let reason = String::from_utf8(reason).unwrap_or_default();
                self.session.end(Closed::new(code.unwrap_or(NO_CODE), reason));
                // RFC 6455 5.5.1: the reply has the same code.
                self.close(&Closed::new(code.unwrap_or(NO_CODE), ""));
            }
        }
    }

    fn violated(&mut self, violation: Violation) {
        self.stage = Stage::Violated;
        let closed = Closed::new(violation.code, violation.text);
        self.session.end(closed.clone());
        self.close(&closed);
    }

    // Time.

    /// Restarts the time-out of a silent client.
    fn restart_idle_timer(&self) {
        match self.settings.ping_every.get() {
            Duration::ZERO => self.idle.clear(),
            span => self.idle.set(span),
        }
    }

    fn poll_time(&mut self, cx: &mut Context<'_>) -> Poll<Ending> {
        if self.deadline.poll(cx).is_ready() {
            return Poll::Ready(Ending::Idle);
        }
        while !self.close_sent && self.idle.poll(cx).is_ready() {
            // A client that is not read from, or that still receives a message, cannot reply.
            let excused = self.stalled || self.sending;
            if self.ping_sent && !excused {
                self.session.end(Closed::new(Closed::ABNORMAL, "no response to a ping"));
                return Poll::Ready(Ending::Idle);
            }
            if !self.ping_sent {
                self.ping_sent = true;
                self.outbox.control(Opcode::Ping, b"");
                cx.waker().wake_by_ref();
            }
            self.idle.set(self.settings.ping_timeout.get());
        }
        Poll::Pending
    }
}
