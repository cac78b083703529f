//! One WebSocket between the task of its connection and a script.
//!
//! Promises: a ping is answered without the script; a peer whose messages nobody reads is held back
//! once as many bytes as one message may have lie unread; a peer that breaks the protocol is told
//! why and closed; closing waits for the other side, for [`WEBSOCKET_CLOSE_MS`] at most. Pings and
//! pongs are delivered too, unless many messages lie unread.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::future::poll_fn;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use net::Timer;
use wire::websocket::{Decoder, Message, Opcode, Violation, write_frame};

use crate::http::EventFd;
use crate::limits::{WEBSOCKET_CLOSE_MS, WEBSOCKET_CONTROLS, WEBSOCKET_MESSAGES, WEBSOCKET_UNSENT};
use lua_vm::errno;

pub(super) struct Socket {
    /// We are the client: what we send is masked (RFC 6455 5.3).
    masks: bool,
    limit: usize,
    decoder: RefCell<Decoder>,
    inbox: RefCell<VecDeque<Message>>,
    unread: Cell<usize>,
    outbox: RefCell<VecDeque<Bytes>>,
    unsent: Cell<usize>,
    /// Why nothing more will be read.
    end: RefCell<Option<String>>,
    close_sent: Cell<bool>,
    /// Nothing that still comes counts: the other side has closed, or broken the protocol.
    deaf: Cell<bool>,
    /// The connection is gone.
    over: Cell<bool>,
    patience: Timer,
    driver: EventFd,
    readers: EventFd,
    writers: EventFd,
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
            patience: Timer::new(),
            driver: EventFd::default(),
            readers: EventFd::default(),
            writers: EventFd::default(),
        }
    }

    // What the script does.

    pub(super) fn send(&self, opcode: Opcode, payload: &[u8]) -> Result<(), &'static str> {
        if self.close_sent.get() || self.over.get() {
            return Err(errno::CLOSED);
        }
        self.queue(opcode, payload);
        Ok(())
    }

    pub(super) fn is_full(&self) -> bool {
        self.unsent.get() > WEBSOCKET_UNSENT
    }

    /// Waits until little is unsent; false once the connection is gone.
    pub(super) async fn room(&self) -> bool {
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

    /// Says goodbye and reads no more; false if that was done.
    pub(super) fn close(&self, code: Option<u16>, reason: &[u8]) -> bool {
        let first = self.end.borrow().is_none();
        self.end.borrow_mut().get_or_insert_with(|| errno::CLOSED.to_owned());
        self.inbox.borrow_mut().clear();
        self.readers.ring();
        self.say_close(code, reason);
        first
    }

    /// The next message, why there is none, or nothing yet.
    pub(super) fn take(&self) -> Option<Result<Message, String>> {
        let was_full = self.is_crowded();
        let message = self.inbox.borrow_mut().pop_front();
        if let Some(message) = message {
            self.unread.set(self.unread.get() - size(&message));
            if was_full {
                self.driver.ring();
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

    // What the connection does.

    fn queue(&self, opcode: Opcode, payload: &[u8]) {
        let mut frame = Vec::new();
        let mask = self.masks.then(|| {
            let mut mask = [0; 4];
            // A mask is no secret, it keeps caches from harm; the system has always some.
            let _ = getrandom::fill(&mut mask);
            mask
        });
        write_frame(&mut frame, opcode, true, payload, mask);
        self.unsent.set(self.unsent.get() + frame.len());
        self.outbox.borrow_mut().push_back(frame.into());
        self.driver.ring();
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
        self.patience.set(Duration::from_millis(WEBSOCKET_CLOSE_MS));
    }

    /// As much lies unread as may.
    pub(super) fn is_crowded(&self) -> bool {
        self.unread.get() >= self.limit || self.inbox.borrow().len() >= WEBSOCKET_MESSAGES
    }

    pub(super) fn is_deaf(&self) -> bool {
        self.deaf.get()
    }

    /// Both sides have said goodbye, or we had to, and everything is sent.
    pub(super) fn is_done(&self) -> bool {
        self.close_sent.get() && self.deaf.get() && self.outbox.borrow().is_empty()
    }

    /// Whoever drives the connection is woken when there is something to do.
    pub(super) fn remember(&self, cx: &Context<'_>) {
        self.driver.wait(cx);
    }

    /// Ready when closing has taken too long.
    pub(super) fn poll_patience(&self, cx: &mut Context<'_>) -> Poll<()> {
        self.patience.poll(cx)
    }

    /// The next bytes to send.
    pub(super) fn next_chunk(&self) -> Option<Bytes> {
        let chunk = self.outbox.borrow_mut().pop_front()?;
        self.unsent.set(self.unsent.get() - chunk.len());
        if !self.is_full() {
            self.writers.ring();
        }
        Some(chunk)
    }

    /// Bytes came.
    pub(super) fn receive(&self, mut bytes: &[u8]) {
        while !self.deaf.get() {
            let next = self.decoder.borrow_mut().message(&mut bytes);
            match next {
                Ok(Some(message)) => self.hear(message),
                Ok(None) => break,
                Err(violation) => self.violated(violation),
            }
        }
        self.readers.ring();
    }

    fn hear(&self, message: Message) {
        match &message {
            Message::Ping(payload) if !self.close_sent.get() && !self.is_full() => {
                self.queue(Opcode::Pong, payload);
            }
            Message::Close(code, _) => {
                self.deaf.set(true);
                // Section 5.5.1: the answer is the same code.
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

    /// The connection is gone.
    pub(super) fn ended(&self) {
        self.over.set(true);
        self.deaf.set(true);
        self.end.borrow_mut().get_or_insert_with(|| errno::EOF.to_owned());
        self.readers.ring();
        self.writers.ring();
        self.driver.ring();
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
