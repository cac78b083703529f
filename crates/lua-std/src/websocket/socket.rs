//! One WebSocket between the task of its connection and a script.
//!
//! Promises: pings are answered without the script; a peer is held back once the unread messages
//! have as many bytes as one message may have; a peer that violates the protocol gets a close frame
//! with the reason; closing waits for the other side, for [`WEBSOCKET_CLOSE_MS`] at most. Pings and
//! pongs are delivered too, unless many messages are unread.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::future::poll_fn;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use net::Timer;
use wire::websocket::{Decoder, Message, Opcode, Violation, write_frame};

use crate::http::WakerSet;
use crate::limits::{WEBSOCKET_CLOSE_MS, WEBSOCKET_CONTROLS, WEBSOCKET_MESSAGES, WEBSOCKET_UNSENT};
use lua_vm::errno;

pub(super) struct Socket {
    /// True on the client, which masks its frames (RFC 6455 5.3).
    masks: bool,
    limit: usize,
    decoder: RefCell<Decoder>,
    inbox: RefCell<VecDeque<Message>>,
    unread: Cell<usize>,
    outbox: RefCell<VecDeque<Bytes>>,
    unsent: Cell<usize>,
    /// The reason why no more messages are read.
    end: RefCell<Option<String>>,
    close_sent: Cell<bool>,
    /// Input is ignored: the peer has closed, or violated the protocol.
    deaf: Cell<bool>,
    /// The connection has ended.
    over: Cell<bool>,
    timeout: Timer,
    driver: WakerSet,
    readers: WakerSet,
    writers: WakerSet,
}

impl Socket {
    pub(super) fn new(client: bool, limit: usize) -> Socket {
        Socket {
            masks: client,
            limit,
            decoder: RefCell::new(Decoder::new(!client, limit)),
            inbox: RefCell::default(),
            unread: Cell::new(0),
            outbox: RefCell::default(),
            unsent: Cell::new(0),
            end: RefCell::default(),
            close_sent: Cell::new(false),
            deaf: Cell::new(false),
            over: Cell::new(false),
            timeout: Timer::new(),
            driver: WakerSet::default(),
            readers: WakerSet::default(),
            writers: WakerSet::default(),
        }
    }

    // For the script:

    pub(super) fn send(&self, opcode: Opcode, payload: &[u8]) -> Result<(), &'static str> {
        if self.close_sent.get() || self.over.get() {
            return Err(errno::CLOSED);
        }
        self.queue(opcode, payload);
        Ok(())
    }

    /// True until one of the sides has closed.
    pub(super) fn is_open(&self) -> bool {
        self.end.borrow().is_none()
    }

    pub(super) fn is_full(&self) -> bool {
        self.unsent.get() > WEBSOCKET_UNSENT
    }

    /// Waits until little is unsent; false once the connection has ended.
    pub(super) async fn wait_for_room(&self) -> bool {
        poll_fn(|cx| {
            if self.over.get() {
                return Poll::Ready(false);
            }
            if !self.is_full() {
                return Poll::Ready(true);
            }
            self.writers.wait(cx);
            Poll::Pending
        })
        .await
    }

    /// Sends a close frame and stops reading; false if that was done.
    pub(super) fn close(&self, code: Option<u16>, reason: &[u8]) -> bool {
        let first = self.is_open();
        self.end.borrow_mut().get_or_insert_with(|| errno::CLOSED.to_owned());
        self.inbox.borrow_mut().clear();
        self.readers.wake_all();
        self.say_close(code, reason);
        first
    }

    /// The next message, or the reason why there is none; `None` if it has not arrived.
    pub(super) fn take(&self) -> Option<Result<Message, String>> {
        let was_full = self.is_crowded();
        let message = self.inbox.borrow_mut().pop_front();
        if let Some(message) = message {
            self.unread.set(self.unread.get() - size(&message));
            if was_full {
                self.driver.wake_all();
            }
            return Some(Ok(message));
        }
        self.end.borrow().clone().map(Err)
    }

    pub(super) async fn read(&self) -> Result<Message, String> {
        poll_fn(|cx| match self.take() {
            Some(read) => Poll::Ready(read),
            None => {
                self.readers.wait(cx);
                Poll::Pending
            }
        })
        .await
    }

    // For the connection:

    fn queue(&self, opcode: Opcode, payload: &[u8]) {
        let mut frame = Vec::new();
        let mask = self.masks.then(|| {
            let mut mask = [0; 4];
            // A mask protects caches and is not secret; a failure here is harmless.
            let _ = getrandom::fill(&mut mask);
            mask
        });
        write_frame(&mut frame, opcode, true, payload, mask);
        self.unsent.set(self.unsent.get() + frame.len());
        self.outbox.borrow_mut().push_back(frame.into());
        self.driver.wake_all();
    }

    fn say_close(&self, code: Option<u16>, reason: &[u8]) {
        if self.over.get() || self.close_sent.replace(true) {
            return;
        }
        let mut payload = Vec::new();
        if let Some(code) = code {
            payload.extend_from_slice(&code.to_be_bytes());
            payload.extend_from_slice(reason);
        }
        self.queue(Opcode::Close, &payload);
        self.timeout.set(Duration::from_millis(WEBSOCKET_CLOSE_MS));
    }

    /// True if the unread messages have reached the limit.
    pub(super) fn is_crowded(&self) -> bool {
        self.unread.get() >= self.limit || self.inbox.borrow().len() >= WEBSOCKET_MESSAGES
    }

    pub(super) fn is_deaf(&self) -> bool {
        self.deaf.get()
    }

    /// True if both sides have closed, or this side had to, and everything is sent.
    pub(super) fn is_done(&self) -> bool {
        self.close_sent.get() && self.deaf.get() && self.outbox.borrow().is_empty()
    }

    /// Wakes the connection's task when there is work.
    pub(super) fn remember(&self, cx: &Context<'_>) {
        self.driver.wait(cx);
    }

    /// Ready when the time-out of closing has passed.
    pub(super) fn poll_timeout(&self, cx: &mut Context<'_>) -> Poll<()> {
        self.timeout.poll(cx)
    }

    /// The next bytes to send.
    pub(super) fn next_chunk(&self) -> Option<Bytes> {
        let chunk = self.outbox.borrow_mut().pop_front()?;
        self.unsent.set(self.unsent.get() - chunk.len());
        if !self.is_full() {
            self.writers.wake_all();
        }
        Some(chunk)
    }

    /// Handles received bytes.
    pub(super) fn receive(&self, mut bytes: &[u8]) {
        while !self.deaf.get() {
            let next = self.decoder.borrow_mut().message(&mut bytes);
            match next {
                Ok(Some(message)) => self.on_message(message),
                Ok(None) => break,
                Err(violation) => self.violated(violation),
            }
        }
        self.readers.wake_all();
    }

    fn on_message(&self, message: Message) {
        match &message {
            Message::Ping(payload) if !self.close_sent.get() && !self.is_full() => {
                self.queue(Opcode::Pong, payload);
            }
            Message::Close(code, _) => {
                self.deaf.set(true);
                // Section 5.5.1: the close frame in response has the same code.
                self.say_close(*code, b"");
            }
            _ => {}
        }
        let control = matches!(message, Message::Ping(_) | Message::Pong(_));
        let crowded = control && self.inbox.borrow().len() >= WEBSOCKET_CONTROLS;
        let ended = self.end.borrow().is_some();
        if !(ended || crowded) {
            self.unread.set(self.unread.get() + size(&message));
            self.inbox.borrow_mut().push_back(message);
        }
        if self.deaf.get() {
            self.end.borrow_mut().get_or_insert_with(|| errno::EOF.to_owned());
        }
    }

    fn violated(&self, violation: Violation) {
        self.deaf.set(true);
        self.end.borrow_mut().get_or_insert_with(|| violation.text.to_owned());
        self.say_close(Some(violation.code), violation.text.as_bytes());
    }

    /// The connection has ended.
    pub(super) fn ended(&self) {
        self.over.set(true);
        self.deaf.set(true);
        self.end.borrow_mut().get_or_insert_with(|| errno::EOF.to_owned());
        self.readers.wake_all();
        self.writers.wake_all();
        self.driver.wake_all();
    }

    pub(super) fn is_over(&self) -> bool {
        self.over.get()
    }
}

fn size(message: &Message) -> usize {
    match message {
        Message::Text(data)
        | Message::Binary(data)
        | Message::Ping(data)
        | Message::Pong(data)
        | Message::Close(_, data) => data.len(),
    }
}
