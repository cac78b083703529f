//! Makes a response of what the server sends on a stream.

use std::task::{Context, Poll};

use message::{Body, Fault, Headers, Request, Response, Retry};
use wire::{Known, Method, token};

use super::body::ResponseBody;
use super::exchange::Http2Exchange;
use super::request::accept_key;
use super::tunnel::tunnel;
use crate::upgrade::Upgrade;

/// The response, once its head has arrived. A body that has not arrived as a whole takes the
/// exchange along.
pub(crate) fn poll_response(
    exchange: &mut Option<Box<Http2Exchange>>,
    cx: &mut Context<'_>,
    request: &Request,
) -> Poll<Result<Response, Fault>> {
    let Some(mut this) = exchange.take() else {
        return Poll::Ready(Err(Fault::internal("an exchange was polled after its end")));
    };
    let Poll::Ready(head) = this.poll_head(cx, request) else {
        *exchange = Some(this);
        return Poll::Pending;
    };
    Poll::Ready(match head {
        Ok((status, headers)) => Ok(respond(this, status, headers, request)),
        // The client has hints of a response that will not come: it must not get another.
        Err(fault) if this.informed => Err(Fault { retry: Retry::Never, ..fault }),
        Err(fault) => Err(fault),
    })
}

fn respond(
    mut exchange: Box<Http2Exchange>,
    status: u16,
    headers: Headers,
    request: &Request,
) -> Response {
    let mut response = Response { status, headers, ..Response::default() };
    if (200..300).contains(&status)
        && Upgrade::of(request) == Upgrade::WebSocket
        && let Some(accept) = accept_key(request)
    {
        response.status = 101;
        response.headers.set(Known::Upgrade, "websocket");
        response.headers.set(Known::SecWebSocketAccept, accept);
        response.takeover = Some(tunnel(exchange));
    } else if let Some(whole) = exchange.take_whole() {
        response.body = Body::from(whole);
    } else {
        exchange.hold(request);
        let announced = || token::decimal(response.headers.get(Known::ContentLength)?);
        let length = if request.method == Method::Head { Some(0) } else { announced() };
        response.body = Body::stream(ResponseBody::new(exchange, length));
    }
    response
}
