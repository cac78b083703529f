//! One exchange with a server, to the head of its response.
//!
//! The request is written and, most often, sent in one call; then the response is awaited while the
//! body is still being sent, because a server may respond early. Interim responses are handled
//! here.

use std::cell::RefCell;
use std::io;
use std::rc::{Rc, Weak};
use std::task::{Context, Poll, ready};

use bytes::{Buf, Bytes, BytesMut};
use wire::h1::{self, FieldSpan, ResponseHead};
use wire::{Known, Method, token};

use super::head::{Call, ClientOptions, RequestFraming, write_head};
use super::sender::{Sender, Sending};
use crate::connection::Connection;
use crate::faults::{self, Wait};
use crate::held_connection::HeldConnection;
use crate::limits::{INLINE_BODY, INTERIM_MAX, KEPT_SCRATCH};
use crate::pool::Lease;
use message::{Body, Fault, Headers, Request};

thread_local! {
    /// The buffer for request headers: one per worker, warm in the processor's cache.
    static SCRATCH: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

/// A connection with the exchange it carries.
pub(crate) struct ServerExchange {
    pub(super) lease: Lease,
    pub(super) sender: Sender,
    pub(super) options: Rc<ClientOptions>,
    wait: Wait,
    /// True if the server took any byte of the request.
    sent: bool,
    /// True if a read of the response was attempted.
    looked: bool,
    /// Interim responses so far, and whether one was passed on.
    interim: u32,
    pub(super) informed: bool,
    /// The beginning of a head that is not whole yet.
    partial: BytesMut,
    /// Data that was received and not parsed yet.
    pub(super) received: Bytes,
    /// The connection may carry another exchange after this one.
    pub(super) reusable: bool,
    /// The connection as the client's side knows it, where a client can hold it up.
    held: Option<Rc<HeldConnection>>,
}

impl ServerExchange {
    /// Writes the head, and a small body with it, and sends what the socket takes.
    #[inline(never)]
    pub(crate) fn begin(
        lease: Lease,
        request: &Request,
        body: Body,
        call: &Call<'_>,
    ) -> ServerExchange {
        let framing = RequestFraming::of(request, &body);
        let mut link = ServerExchange {
            lease,
            sender: Sender::Done,
            options: call.options.clone(),
            wait: Wait::Nothing,
            sent: false,
            looked: false,
            interim: 0,
            informed: false,
            partial: BytesMut::new(),
            received: Bytes::new(),
            reusable: false,
            held: None,
        };
        SCRATCH.with(|scratch| {
            let mut scratch = scratch.borrow_mut();
            scratch.clear();
            write_head(&mut scratch, request, framing, call);
            match body {
                Body::Empty => {}
                Body::Kept(bytes) if bytes.len() <= INLINE_BODY => {
                    scratch.extend_from_slice(&bytes)
                }
                Body::Bytes(bytes) if bytes.len() <= INLINE_BODY => {
                    scratch.extend_from_slice(&bytes);
                }
                body => {
                    link.sender = Sender::new(body, framing);
                    link.hold(request);
                }
            }
            link.send_now(&scratch);
            if scratch.capacity() > KEPT_SCRATCH {
                *scratch = Vec::new();
            }
        });
        link
    }

    /// Lets the client's side know what a slow client holds.
    pub(super) fn hold(&mut self, request: &Request) {
        if self.held.is_none()
            && let Some(client) = &request.informer
            && let Some(held) = HeldConnection::of(&self.lease)
        {
            let weak: Weak<HeldConnection> = Rc::downgrade(&held);
            client.hold(weak);
            self.held = Some(held);
        }
    }

    fn send_now(&mut self, bytes: &[u8]) {
        let connection = self.lease.connection_mut();
        let taken = match connection.stream.try_send_slice(bytes) {
            Ok(taken) => taken,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => 0,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => 0,
            Err(error) => {
                self.sender = Sender::Broken(error);
                return;
            }
        };
        self.sent = taken > 0;
        if taken < bytes.len() {
            connection.outgoing.push(Bytes::copy_from_slice(&bytes[taken..]));
        }
    }

    pub(super) fn is_sent(&self) -> bool {
        matches!(self.sender, Sender::Done) && self.lease.connection().outgoing.is_empty()
    }

    fn connection(&self) -> &Connection {
        self.lease.connection()
    }

    /// Sets the time-out for what is waited for now.
    pub(super) fn waits(&mut self, wait: Wait) {
        if self.wait == wait {
            return;
        }
        self.wait = wait;
        let timer = &self.lease.connection().timer;
        match wait {
            Wait::Nothing | Wait::Client => timer.clear(),
            Wait::Write => timer.set(self.options.write),
            Wait::Response => timer.set(self.options.response),
            Wait::Read => timer.set(self.options.read),
        }
    }

    /// Sends more of the request; what that waits for.
    fn send_on(&mut self, cx: &mut Context<'_>) -> Result<Sending, Fault> {
        if self.is_sent() {
            return Ok(Sending::Finished);
        }
        let mut moved = false;
        let sending = self.sender.poll(cx, self.lease.connection_mut(), &mut moved)?;
        if moved {
            self.sent = true;
            self.wait = Wait::Nothing;
        }
        Ok(sending)
    }

    /// The head of the final response.
    pub(super) fn poll_head(
        &mut self,
        cx: &mut Context<'_>,
        request: &Request,
    ) -> Poll<Result<(ResponseHead, Headers), Fault>> {
        let sending = match self.send_on(cx) {
            Ok(sending) => sending,
            Err(fault) => return Poll::Ready(Err(fault)),
        };
        loop {
            match self.poll_chunk(cx) {
                Poll::Ready(Ok(chunk)) if !chunk.is_empty() => {
                    match self.take_head(chunk, request) {
                        Ok(Some(found)) => return Poll::Ready(Ok(found)),
                        Ok(None) => {}
                        Err(fault) => return Poll::Ready(Err(fault)),
                    }
                }
                Poll::Ready(Ok(_)) => return Poll::Ready(Err(self.ended(None))),
                Poll::Ready(Err(error)) => return Poll::Ready(Err(self.ended(Some(&error)))),
                Poll::Pending => break,
            }
        }
        self.waits(match sending {
            Sending::Room => Wait::Write,
            Sending::Body => Wait::Client,
            Sending::Finished | Sending::Broken => Wait::Response,
        });
        match self.connection().timer.poll(cx) {
            Poll::Ready(()) => Poll::Ready(Err(faults::timeout(self.wait))),
            Poll::Pending => Poll::Pending,
        }
    }

    /// Reads data of the response. The first attempt follows the request immediately and usually
    /// finds nothing: it only queries the event loop.
    fn poll_chunk(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<Bytes>> {
        let stream = &self.lease.connection().stream;
        if !std::mem::replace(&mut self.looked, true) {
            ready!(stream.poll_readable(cx))?;
        }
        stream.poll_receive(cx)
    }

    /// The connection ended before the response headers were complete.
    fn ended(&self, error: Option<&io::Error>) -> Fault {
        if !self.partial.is_empty() || self.interim > 0 {
            return faults::cut_short(error, "head");
        }
        match &self.sender {
            Sender::Broken(sending) => faults::no_answer(error.or(Some(sending)), self.sent),
            _ => faults::no_answer(error, self.sent),
        }
    }

    /// Reads heads from what has arrived until a final one is whole.
    fn take_head(
        &mut self,
        chunk: Bytes,
        request: &Request,
    ) -> Result<Option<(ResponseHead, Headers)>, Fault> {
        let limits = self.options.head;
        if self.partial.is_empty() {
            self.received = chunk;
        } else {
            let ends_a_line = chunk.contains(&b'\n');
            self.partial.extend_from_slice(&chunk);
            // Only the end of a line can complete the headers; parsing at every byte would be
            // quadratic.
            if !ends_a_line && self.partial.len() <= limits.request_line + limits.headers {
                return Ok(None);
            }
            self.received = std::mem::take(&mut self.partial).freeze();
        }
        while !self.received.is_empty() {
            let to_head = request.method == Method::Head;
            let mut headers = Headers::new();
            let head = h1::parse_response(&self.received, &limits, headers.spans(), to_head)
                .map_err(faults::bad_head)?;
            let Some(head) = head else {
                // Detached from the worker's block, which a slow server must not pin.
                self.partial = net::detach(&self.received);
                self.received = Bytes::new();
                return Ok(None);
            };
            let bytes = &self.received[..head.len];
            strip(bytes, headers.spans(), head.upgrade);
            headers.keep_head(bytes);
            self.received.advance(head.len);
            if !head.is_interim() {
                return Ok(Some((head, headers)));
            }
            self.interim += 1;
            if self.interim > INTERIM_MAX {
                return Err(faults::protocol("too many interim responses"));
            }
            // All are forwarded except 100, which responds to an expectation of this client (RFC
            // 9110 15.2).
            if head.status != 100 {
                request.inform(head.status, &headers);
                self.informed = true;
            }
        }
        Ok(None)
    }

    /// Ends the exchange after a complete response: the connection returns to its pool, or is
    /// closed if there is any doubt, such as an unfinished request or unrequested bytes.
    pub(super) fn finish(&mut self) {
        if self.reusable && self.received.is_empty() && self.is_sent() {
            self.lease.give_back();
        }
        self.held = None;
    }

    /// More bytes of the response's body, empty at the end of the connection. Also continues to
    /// send the request.
    pub(super) fn poll_more(&mut self, cx: &mut Context<'_>) -> Poll<Result<Bytes, Fault>> {
        if let Err(fault) = self.send_on(cx) {
            return Poll::Ready(Err(fault));
        }
        match self.connection().stream.poll_receive(cx) {
            Poll::Ready(Ok(chunk)) => {
                self.waits(Wait::Nothing);
                Poll::Ready(Ok(chunk))
            }
            Poll::Ready(Err(error)) => Poll::Ready(Err(faults::cut_short(Some(&error), "body"))),
            Poll::Pending => {
                self.waits(Wait::Read);
                self.connection().timer.poll(cx).map(|()| {
                    self.lease.paused_for_too_long();
                    Err(faults::timeout(Wait::Read))
                })
            }
        }
    }
}

/// Removes what concerns the server's connection alone (RFC 9110 7.6.1). What frames the body
/// stays: the serving loop reads the length of a HEAD's answer and writes its own framing. Works on
/// the spans of `head`, in one pass as a rule: this happens to every response.
fn strip(head: &[u8], fields: &mut Vec<FieldSpan>, upgrade: bool) {
    // Allocates nothing while it is empty, as it is unless Connection names a field.
    let mut named: Vec<&[u8]> = Vec::new();
    fields.retain(|field| match field.known {
        None => true,
        Some(Known::Connection) => {
            let value = field.value().of(head);
            if !is_own_option(value) {
                named.extend(token::list(value).filter(|option| !is_own_option(option)));
            }
            false
        }
        Some(Known::Upgrade) => upgrade,
        // The serving loop removes it where it sends no trailers.
        Some(Known::Trailer) => true,
        Some(known) => !known.is_hop_by_hop(),
    });
    if !named.is_empty() {
        fields.retain(|field| {
            // Framing is not theirs to strip.
            field.known == Some(Known::ContentLength)
                || !named.iter().any(|name| field.name().of(head).eq_ignore_ascii_case(name))
        });
    }
}

/// Options of Connection that name no field, or one that is dealt with by its name.
fn is_own_option(option: &[u8]) -> bool {
    // The usual spelling; comparing without case is many times slower.
    option == b"keep-alive"
        || option.eq_ignore_ascii_case(b"keep-alive")
        || option.eq_ignore_ascii_case(b"close")
        || option.eq_ignore_ascii_case(b"upgrade")
}
