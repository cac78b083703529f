//! What is different for gRPC: the deadline of a call, and the status behind a 200.
//!
//! A failure without messages is a response of trailers only: its status counts for retries and for
//! the health of the server, as its HTTP equivalent. A status after messages is too late for both.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use message::{Fault, HandlerResult, Request, Response};
use settings::{Node, Reader, Schema, SchemaBuilder, Setting};
use wire::grpc::{self, Code};

/// A status of gRPC in the configuration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GrpcStatus(pub Code);

impl FromStr for GrpcStatus {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match Code::from_slug(text) {
            Some(Code::Ok) => Err("is not a failure"),
            Some(code) => Ok(GrpcStatus(code)),
            None => Err("is not a gRPC status such as unavailable or resource_exhausted"),
        }
    }
}

impl fmt::Display for GrpcStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0.slug())
    }
}

impl Setting for GrpcStatus {
    fn schema(_: &mut SchemaBuilder) -> Schema {
        Schema::words("gRPC status", &Code::SLUGS[1..])
    }

    fn read(node: &Node, reader: &mut Reader<'_>) -> Option<Self> {
        reader.parse(node, "a gRPC status")
    }
}

/// The status of a response to a call that is only trailers.
pub(crate) fn trailers_only(request: &Request, response: &Response) -> Option<Code> {
    request.notes.grpc.as_ref()?;
    response.headers.get(grpc::STATUS).map(Code::parse)
}

/// The status that counts for the health of a server.
pub(crate) fn health_status(request: &Request, response: &Response) -> u16 {
    trailers_only(request, response).map_or(response.status, Code::http_status)
}

/// Tells the next server how much of the call's time is left.
pub(crate) fn forward_deadline(request: &mut Request) {
    if let Some(left) = request.notes.grpc.as_ref().and_then(|call| call.remaining()) {
        request.headers.set(grpc::TIMEOUT, grpc::timeout_value(left));
    }
}

/// True if a request is a call whose time is over.
pub(crate) fn is_over(request: &Request) -> bool {
    request.notes.grpc.as_ref().is_some_and(|call| call.is_over())
}

/// The time until the deadline of a call that a filter made. The route observes that of the others.
pub(crate) fn remaining_of_translated(request: &Request) -> Option<Duration> {
    let call = request.notes.grpc.as_ref()?;
    if call.form.is_some() { None } else { call.remaining() }
}

/// Ends an exchange at the deadline of its call.
pub(crate) async fn within(
    span: Duration,
    exchange: impl Future<Output = HandlerResult>,
) -> HandlerResult {
    net::timer::within(span, exchange).await.unwrap_or_else(|| Err(Fault::deadline()))
}
