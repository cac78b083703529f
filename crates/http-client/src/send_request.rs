//! Sends one request, over the protocol of its connection.

use std::future::poll_fn;
use std::task::Poll;

use message::{Body, Fault, Request, Response};

use crate::h1::{self, Call, ServerExchange};
use crate::h2::{self, Http2Exchange};
use crate::pool::Lease;

enum Exchange {
    Http1(Option<ServerExchange>),
    Http2(Option<Box<Http2Exchange>>),
    /// The request could not be sent.
    Failed(Option<Fault>),
}

/// Sends a request with `body` and returns the response. The request's own body is not used;
/// dropping the future closes the connection, or resets the stream.
///
/// Not an `async fn`: that would store the arguments in addition to what is made of them. And the
/// steps are not inlined into the caller, where the compiler would split responses into single
/// words and carry each through every branch.
pub fn send_request(
    lease: Lease,
    request: &Request,
    body: Body,
    call: &Call<'_>,
) -> impl Future<Output = Result<Response, Fault>> {
    let mut exchange = match lease.http2().cloned() {
        None => Exchange::Http1(Some(ServerExchange::begin(lease, request, body, call))),
        Some(connection) => match Http2Exchange::begin(lease, connection, request, body, call) {
            Ok(exchange) => Exchange::Http2(Some(exchange)),
            Err(fault) => Exchange::Failed(Some(fault)),
        },
    };
    poll_fn(move |cx| match &mut exchange {
        Exchange::Http1(exchange) => h1::poll_response(exchange, cx, request),
        Exchange::Http2(exchange) => h2::poll_response(exchange, cx, request),
        Exchange::Failed(fault) => Poll::Ready(Err(fault
            .take()
            .unwrap_or_else(|| Fault::internal("an exchange was polled after its end")))),
    })
}
