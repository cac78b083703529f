//! One connection after its 101: frames to and from the client, messages to and from the session.
//!
//! ```text
//!  talking ── client says goodbye, we answer ─────────────────────────▶ clean: we close
//!     │  └── we say goodbye (application, drain) ── client answers ──────▲
//!     └── client breaks the protocol, we say why ──▶ broken: read away until it closes
//! ```
//!
//! Every wait has a time-out: for a sign of life, for the client to take what we send, and for its
//! answer to a goodbye.

use std::future::poll_fn;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::{Buf, Bytes};
use exchange::offload::session::{Closed, Message, OpenSession, Received};
use exchange::{Duplex, Ending, Takeover};
use net::Timer;
use wire::websocket::{Decoder, Message as Heard, Opcode, PerMessageDeflate, Violation};

use super::WebSocketSettings;
use super::deflate::Inflating;
use super::outbox::{NO_CODE, Outbox};
use crate::limits::{WEBSOCKET_DRAIN, WEBSOCKET_TURNS};

/// How far the conversation has come.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Stage {
    Talking,
    /// The client has said goodbye.
    Clean,
    /// The client has broken the protocol.
    Broken,
}

struct Pump {
    duplex: Box<dyn Duplex>,
    session: OpenSession,
    settings: WebSocketSettings,
    decoder: Decoder,
    /// Received and not yet decoded.
    input: Bytes,
    outbox: Outbox,
    /// What the connection has not taken yet, and whether it is at it.
    chunk: Bytes,
    sending: bool,
    /// The payload of the last ping, if its pong has to wait.
    pong: Option<Vec<u8>>,
    stage: Stage,
    /// We have said goodbye: nothing more is sent.
    goodbye: bool,
    finished: bool,
    /// The application takes no messages at the moment, so that nothing is read.
    stalled: bool,
    /// A ping is out.
    asked: bool,
    /// When the client should give a sign of life.
    life: Timer,
    /// How long the client may take over what we sent.
    patience: Timer,
}

/// What goes on with the connection.
pub(super) fn takeover(
    session: OpenSession,
    settings: WebSocketSettings,
    deflate: Option<PerMessageDeflate>,
) -> Takeover {
    Box::new(move |duplex| {
        Box::pin(async move {
            let mut pump = Pump::new(duplex, session, settings, deflate);
            poll_fn(|cx| pump.poll(cx)).await
        })
    })
}

impl Pump {
    fn new(
        duplex: Box<dyn Duplex>,
        session: OpenSession,
        settings: WebSocketSettings,
        deflate: Option<PerMessageDeflate>,
    ) -> Pump {
        let decoder = Decoder::new(true, settings.message_size.bytes_usize());
        let decoder = match deflate {
            Some(_) => decoder.inflating(Box::new(Inflating)),
            None => decoder,
        };
        let pump = Pump {
            duplex,
            session,
            settings,
            decoder,
            input: Bytes::new(),
            outbox: Outbox::new(deflate),
            chunk: Bytes::new(),
            sending: false,
            pong: None,
            stage: Stage::Talking,
            goodbye: false,
            finished: false,
            stalled: false,
            asked: false,
            life: Timer::new(),
            patience: Timer::new(),
        };
        pump.expect_life();
        pump
    }

    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Ending> {
        self.heed_drain(cx);
        for _ in 0..WEBSOCKET_TURNS {
            if let Err(ending) = self.send(cx) {
                return Poll::Ready(ending);
            }
            if self.stage == Stage::Clean && self.finished {
                return Poll::Ready(Ending::Finished);
            }
            match self.receive(cx) {
                Ok(true) => {}
                // What came is to be answered.
                Ok(false) if self.has_to_answer() => {}
                Ok(false) => return self.poll_time(cx),
                Err(ending) => return Poll::Ready(ending),
            }
        }
        // The other connections of the worker have their turn first.
        cx.waker().wake_by_ref();
        Poll::Pending
    }

    // To the client.

    /// Sends what there is, as far as the connection takes it.
    fn send(&mut self, cx: &mut Context<'_>) -> Result<(), Ending> {
        loop {
            if !self.sending {
                self.gather(cx);
                match self.outbox.next() {
                    Some(chunk) => self.chunk = chunk,
                    None => break,
                }
            }
            match self.duplex.poll_send(cx, &mut self.chunk) {
                Poll::Ready(Ok(())) if self.sending => self.taken(),
                Poll::Ready(Ok(())) => {}
                Poll::Ready(Err(_)) => return Err(Ending::ClientGone),
                Poll::Pending => {
                    if !std::mem::replace(&mut self.sending, true) && !self.goodbye {
                        self.patience.set(self.settings.ping_timeout.get());
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

    /// Both have said what there was to say.
    fn is_over(&self) -> bool {
        self.goodbye && self.stage != Stage::Talking
    }

    /// Whether what came is still to be answered, and can be.
    fn has_to_answer(&self) -> bool {
        !self.sending && (!self.outbox.is_empty() || self.is_over() && !self.finished)
    }

    /// The client has taken what it had to be waited for.
    fn taken(&mut self) {
        self.sending = false;
        if !self.goodbye {
            self.patience.clear();
        }
    }

    /// Turns what the application says into frames, up to a chunk.
    fn gather(&mut self, cx: &mut Context<'_>) {
        while !self.goodbye && !self.outbox.is_full() {
            if let Some(payload) = self.pong.take() {
                self.outbox.control(Opcode::Pong, &payload);
            }
            match self.session.poll_said(cx) {
                Poll::Ready(Received::Message(message)) => self.outbox.message(message),
                Poll::Ready(Received::Closed(closed)) => self.say_goodbye(&closed),
                Poll::Pending => break,
            }
        }
    }

    fn say_goodbye(&mut self, closed: &Closed) {
        if !std::mem::replace(&mut self.goodbye, true) {
            self.outbox.close(closed);
            self.patience.set(self.settings.close_timeout.get());
        }
    }

    fn heed_drain(&mut self, cx: &mut Context<'_>) {
        if self.goodbye || self.duplex.poll_draining(cx).is_pending() {
            return;
        }
        self.gather(cx);
        let closed = Closed::new(Closed::RESTART, "the server restarts");
        self.session.end(closed.clone());
        self.say_goodbye(&closed);
        self.patience.set(WEBSOCKET_DRAIN.min(self.settings.close_timeout.get()));
    }

    // From the client.

    /// Takes what the client sent; whether there may be more.
    fn receive(&mut self, cx: &mut Context<'_>) -> Result<bool, Ending> {
        if self.stage == Stage::Talking && !self.decode(cx) {
            return Ok(false);
        }
        match self.duplex.poll_receive(cx) {
            Poll::Pending => return Ok(false),
            Poll::Ready(Ok(chunk)) if !chunk.is_empty() => self.input = chunk,
            Poll::Ready(_) if self.stage == Stage::Talking => return Err(Ending::ClientGone),
            Poll::Ready(_) => return Err(Ending::Finished),
        }
        if self.stage != Stage::Talking {
            self.input.clear();
        }
        self.asked = false;
        self.expect_life();
        Ok(true)
    }

    /// Passes on the messages of what was received; whether the application takes more.
    fn decode(&mut self, cx: &mut Context<'_>) -> bool {
        while !self.input.is_empty() {
            if self.session.poll_room(cx).is_pending() {
                if !std::mem::replace(&mut self.stalled, true) {
                    // It may lie here for long: it must not pin a block of the worker.
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
                Ok(Some(message)) => self.hear(message),
                Ok(None) => {}
                Err(violation) => self.violated(violation),
            }
            if self.stage != Stage::Talking {
                self.input.clear();
            }
        }
        true
    }

    fn hear(&mut self, message: Heard) {
        match message {
            Heard::Text(data) => self.session.give(Message::Text(data.into())),
            Heard::Binary(data) => self.session.give(Message::Binary(data.into())),
            // RFC 6455 5.5.3: if many come at once the last may be answered alone.
            Heard::Ping(payload) if self.outbox.is_full() => self.pong = Some(payload),
            Heard::Ping(payload) if !self.goodbye => self.outbox.control(Opcode::Pong, &payload),
            Heard::Ping(_) | Heard::Pong(_) => {}
            Heard::Close(code, reason) => {
                self.stage = Stage::Clean;
                let reason = String::from_utf8(reason).unwrap_or_default();
                self.session.end(Closed::new(code.unwrap_or(NO_CODE), reason));
                // RFC 6455 5.5.1: the answer is the same code.
                self.say_goodbye(&Closed::new(code.unwrap_or(NO_CODE), ""));
            }
        }
    }

    fn violated(&mut self, violation: Violation) {
        self.stage = Stage::Broken;
        let closed = Closed::new(violation.code, violation.text);
        self.session.end(closed.clone());
        self.say_goodbye(&closed);
    }

    // Time.

    /// From now on the client may be silent for a while.
    fn expect_life(&self) {
        match self.settings.ping_every.get() {
            Duration::ZERO => self.life.clear(),
            span => self.life.set(span),
        }
    }

    fn poll_time(&mut self, cx: &mut Context<'_>) -> Poll<Ending> {
        if self.patience.poll(cx).is_ready() {
            return Poll::Ready(Ending::Idle);
        }
        while !self.goodbye && self.life.poll(cx).is_ready() {
            // A client that we do not listen to, or that is still taking a message, cannot answer.
            let excused = self.stalled || self.sending;
            if self.asked && !excused {
                self.session.end(Closed::new(Closed::ABNORMAL, "no answer to a ping"));
                return Poll::Ready(Ending::Idle);
            }
            if !self.asked {
                self.asked = true;
                self.outbox.control(Opcode::Ping, b"");
                cx.waker().wake_by_ref();
            }
            self.life.set(self.settings.ping_timeout.get());
        }
        Poll::Pending
    }
}
