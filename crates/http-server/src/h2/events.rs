//! Dispatches the events of the protocol to streams and their exchanges.

use std::task::Context;

use wire::h1::{Framing, RequestHead, Span, TargetForm};
use wire::h2::{Event, StreamKey};

use super::exchange::{self, Incoming};
use super::respond;
use super::stream::Stream;
use super::streams::Streams;
use super::tunnel;
use crate::build_request;
use crate::exchange::{Exchange, close_reason, refused, rejection};
use message::{Fault, Headers, Response};

impl Streams {
    /// Handles one event. The protocol still has the fields of a request or of trailers.
    pub(super) fn handle(&mut self, event: Event, cx: &mut Context<'_>) {
        // The event after a section in part is the one of that section.
        let first_us = self.section_began_us.take();
        match event {
            Event::Request { stream, head, protocol, ends } => {
                self.request(stream, head, protocol, ends, first_us, cx);
            }
            Event::Rejected { stream, reject } => self.reject(stream, &Fault::rejected(reject)),
            Event::Data { stream, data, ends } => match self.get(stream) {
                Some(stream) => stream.push(data, ends),
                None => self.connection.protocol.borrow_mut().discard(stream),
            },
            Event::Trailers { stream } => {
                if let Some(stream) = self.get(stream) {
                    stream.push_trailers(self.received_fields());
                }
            }
            Event::Malformed { stream, reject } => {
                self.refused(&Fault::rejected(reject), None);
                self.client_gone(stream);
            }
            Event::Reset { stream, .. } => self.client_gone(Some(stream)),
            // The protocol ends the connection once its streams have. Servers receive no responses.
            Event::GoAway { .. } | Event::Response { .. } => {}
        }
    }

    fn received_fields(&self) -> Headers {
        let protocol = self.connection.protocol.borrow();
        let fields = protocol.fields();
        Headers::received(&fields.text, &fields.spans)
    }

    fn client_gone(&self, stream: Option<StreamKey>) {
        if let Some(stream) = stream.and_then(|key| self.get(key)) {
            stream.client_gone();
        }
    }

    fn request(
        &mut self,
        key: StreamKey,
        mut head: RequestHead,
        protocol: Option<Span>,
        ends: bool,
        first_us: Option<u64>,
        cx: &mut Context<'_>,
    ) {
        let snapshot = self.connection.service.snapshot();
        let headers = self.received_fields();
        let is_tunnel = protocol.is_some_and(|protocol| {
            protocol.of(headers.text()).eq_ignore_ascii_case(tunnel::WEBSOCKET)
        });
        if protocol.is_some() && !is_tunnel {
            // Any other protocol is as little supported as a plain CONNECT.
            head.form = TargetForm::Authority;
            head.target = head.authority.unwrap_or_default();
        }
        let framing = if is_tunnel { Framing::None } else { head.framing };
        let incoming = Incoming { framing, expects_continue: head.expect_continue, is_tunnel };
        let mut request =
            match build_request::request(head, headers, &self.connection.facts, &snapshot) {
                Ok(request) => request,
                Err(fault) => return self.reject(key, &fault),
            };
        if let Some(first_us) = first_us {
            request.note_first_byte(first_us);
        }
        if is_tunnel {
            tunnel::request_upgrade(&mut request);
        }
        let exchange = Exchange::new(snapshot, request, &self.connection.io.metrics);
        let stream = self.open(key, ends);
        // A future cannot move once it was polled, and one that waits becomes a task: boxed first.
        let mut serving = Box::pin(exchange::serve(stream, exchange, incoming));
        if serving.as_mut().poll(cx).is_pending() {
            net::task::spawn_local(serving);
        }
    }

    /// Logs what is not a request, and its response if there is one.
    fn refused(&self, fault: &Fault, response: Option<&Response>) {
        refused(&self.connection.facts, &self.connection.service.snapshot(), fault, response);
    }

    /// Responds to what is well-formed and not accepted.
    fn reject(&mut self, key: StreamKey, fault: &Fault) {
        let metrics = &self.connection.io.metrics;
        // Counts the limit that was exceeded; the connection persists.
        close_reason(fault, metrics);
        metrics.count_response(fault.status);
        let snapshot = self.connection.service.snapshot();
        let response = rejection(&snapshot, fault);
        self.refused(fault, Some(&response));
        let stream = Stream::new(self.connection.clone(), key, true);
        // A rendered fault is not a stream: the protocol gets it as a whole.
        let _ = respond::begin(&stream, response, false, snapshot.bounds.write_timeout);
    }
}
