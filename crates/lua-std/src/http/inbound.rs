//! One exchange of the server: what a handler reads and what it answers.
//!
//! The connection's task owns the socket, the script's coroutine the words. Promises that a head
//! which has been released is not changed any more; that an answer which is whole before its head
//! was released leaves in one piece with its length; that whoever waits is woken when the client
//! has gone; and that a handler's error is 500 where the head is not out yet, and a broken
//! connection where it is: what is cut must not pass for whole.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::task::{Context, Poll};

use bytes::Bytes;
use exchange::{
    Body, BodyStream, Fault, Frame, Headers, Outcome, Request, Response, Scheme, Takeover, Target,
};
use net::Peer;
use wire::{Method, Version};

use super::bell::EventFd;
use super::feed::Feed;
use super::fields;
use super::input::Input;
use crate::limits::HTTP_GATHER_BYTES;
use lua_vm::errno;

pub(crate) struct Inbound {
    pub(super) method: Method,
    pub(super) version: Version,
    pub(super) target: Target,
    pub(crate) headers: Headers,
    pub(super) peer: Peer,
    pub(super) scheme: Scheme,
    pub(crate) upgrade: bool,
    pub(super) input: Input,
    pub(super) output: Feed,
    /// What `respond` said.
    head: RefCell<Option<(u16, Headers)>>,
    /// What the connection is to send.
    outcome: RefCell<Option<Outcome>>,
    responded: Cell<bool>,
    released: Cell<bool>,
    gone: Cell<bool>,
    /// Rung when there is something for the connection's task, beside what `input` asks for.
    answered: EventFd,
}

impl Inbound {
    /// Takes over what a handler needs.
    pub(super) fn new(request: &mut Request) -> Rc<Inbound> {
        Rc::new(Inbound {
            method: request.method.clone(),
            version: request.version,
            target: request.target.clone(),
            headers: request.headers.clone(),
            peer: request.facts.peer.clone(),
            scheme: request.scheme,
            upgrade: request.upgrade,
            input: Input::new(std::mem::take(&mut request.body), Some(EventFd::default())),
            output: Feed::default(),
            head: RefCell::default(),
            outcome: RefCell::default(),
            responded: Cell::new(false),
            released: Cell::new(false),
            gone: Cell::new(false),
            answered: EventFd::default(),
        })
    }

    pub(crate) fn is_get(&self) -> bool {
        self.method == Method::Get && self.version == Version::Http11
    }

    pub(super) fn respond(&self, status: u16, headers: Headers) -> Result<(), &'static str> {
        if self.gone.get() {
            return Err(errno::CLOSED);
        }
        if self.responded.replace(true) {
            return Err("the response has begun already");
        }
        self.output.declared.set(fields::length(&headers).filter(|_| self.method != Method::Head));
        *self.head.borrow_mut() = Some((status, headers));
        Ok(())
    }

    pub(super) fn write(self: &Rc<Self>, data: &[u8]) -> Result<(), &'static str> {
        self.output.push(Bytes::copy_from_slice(data))?;
        if self.output.unsent() >= HTTP_GATHER_BYTES {
            self.release();
        }
        Ok(())
    }

    /// The head and what is there of the body may leave.
    pub(super) fn release(self: &Rc<Self>) {
        if self.gone.get() || self.released.replace(true) {
            return;
        }
        let (status, headers) = self.head.take().unwrap_or((200, Headers::new()));
        let body = match self.output.take_whole() {
            Some(body) => {
                // Nobody reads on: what is left of the request's body is the connection's again.
                self.input.end(Err(errno::CLOSED.to_owned()));
                body
            }
            None => Body::stream(Answer(self.clone())),
        };
        self.answer(Ok(Response { status, headers, body, ..Response::default() }));
    }

    fn answer(&self, outcome: Outcome) {
        *self.outcome.borrow_mut() = Some(outcome);
        self.answered.ring();
    }

    pub(super) fn finish(self: &Rc<Self>, trailers: Option<Headers>) {
        self.output.finish(trailers);
        self.release();
    }

    /// The handler has failed.
    pub(super) fn fail(&self, text: String) {
        let fault = Fault::internal(text);
        if self.released.replace(true) {
            self.output.fail(fault);
        } else if !self.gone.get() {
            self.input.end(Err(errno::CLOSED.to_owned()));
            self.output.abandon();
            self.answer(Err(fault));
        }
    }

    /// Answers 101 and hands the connection over; false if it is too late for that.
    pub(crate) fn hand_over(&self, headers: Headers, takeover: Takeover) -> bool {
        if self.gone.get() || self.responded.replace(true) || self.released.replace(true) {
            return false;
        }
        self.output.finish(None);
        let takeover = Some(takeover);
        self.answer(Ok(Response { status: 101, headers, takeover, ..Response::default() }));
        true
    }

    pub(super) fn take_outcome(&self) -> Option<Outcome> {
        self.outcome.take()
    }

    /// For the connection's task: the answer, and meanwhile what is read of the body.
    pub(super) fn poll_outcome(&self, cx: &mut Context<'_>) -> Poll<Outcome> {
        if let Some(outcome) = self.take_outcome() {
            return Poll::Ready(outcome);
        }
        self.answered.wait(cx);
        self.pump(cx);
        Poll::Pending
    }

    fn pump(&self, cx: &mut Context<'_>) {
        if let Some(bell) = &self.input.pump {
            bell.wait(cx);
            // Pending or not: it rings its readers itself.
            let _ = self.input.poll_fill(cx);
        }
    }

    /// Nobody takes the answer any more.
    pub(super) fn leave(&self) {
        if !self.gone.replace(true) {
            drop(self.take_outcome());
            self.output.abandon();
            self.input.end(Err(errno::CLOSED.to_owned()));
        }
    }
}

/// The body of an answer that is sent as it is written.
struct Answer(Rc<Inbound>);

impl BodyStream for Answer {
    fn poll_frame(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Frame, Fault>>> {
        self.0.pump(cx);
        self.0.output.poll_frame(cx)
    }

    fn length(&self) -> Option<u64> {
        self.0.output.declared.get()
    }
}

impl Drop for Answer {
    fn drop(&mut self) {
        self.0.leave();
    }
}

/// The connection's task while it waits for an answer: if it is dropped, the client has gone.
pub(super) struct Waiting(pub(super) Rc<Inbound>);

impl Drop for Waiting {
    fn drop(&mut self) {
        if !self.0.released.get() || self.0.outcome.borrow().is_some() {
            self.0.leave();
        }
    }
}
