//! Converts the server's data into a response.
//!
//! If the whole body arrived with the headers, the connection is in its pool again before the
//! client gets the response. If it arrived whole before the request was sent, the rest of the
//! request is not sent; otherwise the server may need it to complete its response.

use std::task::{Context, Poll, ready};

use bytes::Bytes;
use message::{Body, Fault, Headers, Request, Response, Retry};
use wire::h1::{ResponseFraming, ResponseHead};
use wire::{Known, token};

use super::body::{ResponseBody, whole_chunked};
use super::exchange::ServerExchange;
use super::tunnel::tunnel;
use crate::faults::{self, Wait};
use crate::upgrade::Upgrade;

/// The response, once its head has arrived.
#[inline(never)]
pub(crate) fn poll_response(
    exchange: &mut Option<ServerExchange>,
    cx: &mut Context<'_>,
    request: &Request,
) -> Poll<Result<Response, Fault>> {
    let Some(link) = exchange else {
        return Poll::Ready(Err(Fault::internal("an exchange was polled after its end")));
    };
    Poll::Ready(match ready!(link.poll_head(cx, request)) {
        Ok((head, headers)) => answer(exchange, head, headers, request),
        // The client has interim responses of a final one that will not arrive: it must not get
        // another.
        Err(fault) if link.informed => Err(Fault { retry: Retry::Never, ..fault }),
        Err(fault) => Err(fault),
    })
}

/// Returns the response whose headers have arrived. An incomplete body keeps the exchange.
fn answer(
    exchange: &mut Option<ServerExchange>,
    head: ResponseHead,
    headers: Headers,
    request: &Request,
) -> Result<Response, Fault> {
    let mut response = Response { status: head.status, headers, ..Response::default() };
    let Some(link) = exchange else { return Ok(response) };
    link.waits(Wait::Nothing);
    if head.upgrade {
        if !request.upgrade || !link.is_sent() {
            return Err(faults::protocol("the server switched protocols unasked"));
        }
        if !is_offered(request, &response.headers) {
            let detail = "the server switched to a protocol that the client had not offered";
            return Err(faults::protocol(detail));
        }
        if let Some(ServerExchange { lease, received, options, .. }) = exchange.take() {
            response.takeover =
                Some(tunnel(lease, received, options.tunnel_idle, Upgrade::of(request)));
        }
        return Ok(response);
    }
    link.reusable = head.keep_alive;
    let whole = match head.framing {
        ResponseFraming::None => Some(Bytes::new()),
        ResponseFraming::Length(length) if length <= link.received.len() as u64 => {
            Some(link.received.split_to(length as usize))
        }
        ResponseFraming::Chunked => whole_chunked(&mut link.received),
        _ => None,
    };
    if let Some(body) = whole {
        link.finish();
        response.body = Body::from(body);
    } else if let Some(mut link) = exchange.take() {
        link.hold(request);
        response.body = Body::stream(ResponseBody::new(link, head.framing));
    }
    Ok(response)
}

/// Returns true if the client offered every protocol that the server switches to, and the server
/// names one (RFC 9110 7.8).
fn is_offered(request: &Request, headers: &Headers) -> bool {
    let offers = |protocol: &[u8]| {
        let mut offered = request.headers.get_all(Known::Upgrade).flat_map(token::list);
        offered.any(|offer| offer.eq_ignore_ascii_case(protocol))
    };
    let mut protocols = headers.get_all(Known::Upgrade).flat_map(token::list).peekable();
    protocols.peek().is_some() && protocols.all(offers)
}
