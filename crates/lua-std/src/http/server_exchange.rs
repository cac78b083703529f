//! One exchange of the server: the request a handler reads and its response.
//!
//! The connection's task owns the socket; the script's coroutine makes the response. Promises that
//! a released head does not change; that a response that is complete before its head was released
//! is sent in one piece with its length; that waiting coroutines are woken when the client
//! disconnects; and that a handler's error is a 500 before the head was sent, and a broken
//! connection after: a truncated response must not look complete.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::task::{Context, Poll};

use bytes::Bytes;
use message::{
    Body, BodyStream, Fault, Frame, HandlerResult, Headers, Request, Response, Scheme, Takeover,
    Target,
};
use net::Peer;
use wire::{Method, Version};

use super::body_reader::BodyReader;
use super::body_writer::BodyWriter;
use super::fields;
use super::waker_set::WakerSet;
use crate::limits::HTTP_GATHER_BYTES;
use lua_vm::errno;

pub(crate) struct ServerExchange {
    pub(super) method: Method,
    pub(super) version: Version,
    pub(super) target: Target,
    pub(crate) headers: Headers,
    pub(super) peer: Peer,
    pub(super) scheme: Scheme,
    pub(crate) upgrade: bool,
    pub(super) input: BodyReader,
    pub(super) output: BodyWriter,
    /// The head set by `respond`.
    head: RefCell<Option<(u16, Headers)>>,
    /// The body to send.
    outcome: RefCell<Option<HandlerResult>>,
    responded: Cell<bool>,
    released: Cell<bool>,
    gone: Cell<bool>,
    /// Woken when there is work for the connection's task, other than reading the body.
    answered: WakerSet,
}

impl ServerExchange {
    /// Takes the parts of a request that a handler needs.
    pub(super) fn new(request: &mut Request) -> Rc<ServerExchange> {
        Rc::new(ServerExchange {
            method: request.method.clone(),
            version: request.version,
            target: request.target.clone(),
            headers: request.headers.clone(),
            peer: request.facts.peer.clone(),
            scheme: request.scheme,
            upgrade: request.upgrade,
            input: BodyReader::new(std::mem::take(&mut request.body), Some(WakerSet::default())),
            output: BodyWriter::default(),
            head: RefCell::default(),
            outcome: RefCell::default(),
            responded: Cell::new(false),
            released: Cell::new(false),
            gone: Cell::new(false),
            answered: WakerSet::default(),
        })
    }

    pub(crate) fn is_get(&self) -> bool {
        self.method == Method::Get && self.version >= Version::Http11
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

    /// Releases the head and the body so far.
    pub(super) fn release(self: &Rc<Self>) {
        if self.gone.get() || self.released.replace(true) {
            return;
        }
        let (status, headers) = self.head.take().unwrap_or((200, Headers::new()));
        let body = match self.output.take_whole() {
            Some(body) => {
                // The rest of the request's body goes back to the connection.
                self.input.end(Err(errno::CLOSED.to_owned()));
                body
            }
            None => Body::stream(ResponseState(self.clone())),
        };
        self.answer(Ok(Response { status, headers, body, ..Response::default() }));
    }

    fn answer(&self, outcome: HandlerResult) {
        *self.outcome.borrow_mut() = Some(outcome);
        self.answered.wake_all();
    }

    pub(super) fn finish(self: &Rc<Self>, trailers: Option<Headers>) {
        self.output.finish(trailers);
        self.release();
    }

    /// Fails the exchange, after an error of the handler or because it closed the connection. False
    /// if the client is gone, or the response was complete.
    pub(super) fn fail(&self, fault: Fault) -> bool {
        if self.gone.get() {
            return false;
        }
        if self.released.replace(true) {
            return self.output.fail(fault);
        }
        self.input.end(Err(errno::CLOSED.to_owned()));
        self.output.abandon();
        self.answer(Err(fault));
        true
    }

    pub(super) fn is_gone(&self) -> bool {
        self.gone.get()
    }

    /// Responds with 101 and hands the connection over; false if the head was released.
    pub(crate) fn hand_over(&self, headers: Headers, takeover: Takeover) -> bool {
        if self.gone.get() || self.responded.replace(true) || self.released.replace(true) {
            return false;
        }
        self.output.finish(None);
        let takeover = Some(takeover);
        self.answer(Ok(Response { status: 101, headers, takeover, ..Response::default() }));
        true
    }

    pub(super) fn take_outcome(&self) -> Option<HandlerResult> {
        self.outcome.take()
    }

    /// For the connection's task: polls the response, and reads the body for the script.
    pub(super) fn poll_outcome(&self, cx: &mut Context<'_>) -> Poll<HandlerResult> {
        if let Some(outcome) = self.take_outcome() {
            return Poll::Ready(outcome);
        }
        self.answered.wait(cx);
        self.poll_input(cx);
        Poll::Pending
    }

    fn poll_input(&self, cx: &mut Context<'_>) {
        if let Some(bell) = &self.input.pump {
            bell.wait(cx);
            // Its readers are woken either way.
            let _ = self.input.poll_fill(cx);
        }
    }

    /// Marks the client as gone.
    pub(super) fn leave(&self) {
        if !self.gone.replace(true) {
            drop(self.take_outcome());
            self.output.abandon();
            self.input.end(Err(errno::CLOSED.to_owned()));
        }
    }
}

/// The body of a response that is sent as it is written.
struct ResponseState(Rc<ServerExchange>);

impl BodyStream for ResponseState {
    fn poll_frame(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Frame, Fault>>> {
        self.0.poll_input(cx);
        self.0.output.poll_frame(cx)
    }

    fn length(&self) -> Option<u64> {
        self.0.output.declared.get()
    }
}

impl Drop for ResponseState {
    fn drop(&mut self) {
        self.0.leave();
    }
}

/// The wait of the connection's task for a response; dropped if the client disconnects.
pub(super) struct ResponseWait(pub(super) Rc<ServerExchange>);

impl Drop for ResponseWait {
    fn drop(&mut self) {
        if !self.0.released.get() || self.0.outcome.borrow().is_some() {
            self.0.leave();
        }
    }
}
