//! One exchange on a stream, from the request to the end of its response.

use std::future::poll_fn;
use std::pin::pin;
use std::rc::Rc;
use std::task::Poll;

use wire::Method;
use wire::h1::Framing;
use wire::h2::ErrorCode;

use super::body;
use super::respond;
use super::stream::Stream;
use super::tunnel::{self, StreamDuplex};
use crate::counted_tunnel;
use crate::exchange::{CLIENT_GONE, Conclusion, Exchange};
use crate::sending::SendError;
use message::{Body, Fault, HandlerResult, Response, Takeover};

/// The properties of a request that concern its stream.
#[derive(Clone, Copy)]
pub(super) struct Incoming {
    pub(super) framing: Framing,
    /// The client waits for 100 Continue.
    pub(super) expects_continue: bool,
    /// The stream becomes a tunnel if the request is accepted.
    pub(super) is_tunnel: bool,
}

/// Serves a request. The future allocates nothing while it does not wait.
pub(super) async fn serve(stream: Rc<Stream>, mut exchange: Exchange, incoming: Incoming) {
    let early = exchange.dispatch(&stream, |request, bounds| match incoming.is_tunnel {
        true => Ok(()),
        false => {
            let (framing, expects) = (incoming.framing, incoming.expects_continue);
            body::attach(request, &stream, framing, expects, bounds)
        }
    });
    let metrics = &stream.connection.io.metrics;
    // A block of its own, so that the outcome takes no space in the future later.
    let Conclusion { mut response, is_unanswered, .. } = {
        let outcome = match early {
            Some(early) => Some(*early),
            None => run(&stream, &mut exchange).await,
        };
        let Some(outcome) = outcome else {
            exchange.log(metrics, CLIENT_GONE, 0);
            return exchange.request.retire();
        };
        let outcome = outcome.and_then(|response| {
            match (&response.takeover, incoming.is_tunnel, response.status) {
                (Some(_), false, _) => {
                    Err(Fault::internal("a handler switched protocols without a request for it"))
                }
                (None, true, 200..300) => Err(tunnel::not_opened(&exchange.request)),
                _ => Ok(response),
            }
        });
        exchange.conclude(outcome, metrics)
    };
    if is_unanswered {
        exchange.log(metrics, response.status, 0);
        // Not REFUSED_STREAM, because clients would send the request again.
        stream.reset(ErrorCode::CANCEL);
        return exchange.request.retire();
    }
    let takeover = response.takeover.take();
    let status = response.status;
    match takeover {
        // Boxed to keep every stream's task small.
        Some(takeover) => Box::pin(open_tunnel(stream, exchange, response, takeover)).await,
        None => {
            // A body that was not taken is dropped now: nothing reads it any more.
            exchange.request.body = Body::Empty;
            let is_incomplete = stream.let_client_finish();
            let (body_bytes, sent) = send(&stream, &exchange, response).await;
            if let Err(SendError::Body { fault, .. }) = &sent {
                exchange.aborted(fault);
            }
            exchange.log(metrics, status, body_bytes);
            exchange.request.retire();
            // A lingering stream holds neither route nor plan.
            drop((exchange.route, exchange.snapshot));
            match sent {
                Ok(()) if is_incomplete => Box::pin(stream.linger()).await,
                Ok(()) | Err(SendError::ClientGone) => {}
                Err(SendError::Body { .. }) => stream.reset(ErrorCode::INTERNAL_ERROR),
                Err(_) => stream.reset(ErrorCode::CANCEL),
            }
        }
    }
}

/// Runs the request on its route; `None` if the client disconnected before there was a response.
async fn run(stream: &Stream, exchange: &mut Exchange) -> Option<HandlerResult> {
    let route = exchange.route.as_ref()?;
    exchange.instant = route.is_instant();
    if !exchange.instant {
        // Responses to other connections must not wait for a handler that may be slow.
        net::task::send_deferred();
    }
    let instant = &mut exchange.instant;
    let mut run = pin!(route.run(&mut exchange.request));
    poll_fn(|cx| {
        if let Poll::Ready(outcome) = run.as_mut().poll(cx) {
            return Poll::Ready(Some(outcome));
        }
        *instant = false;
        stream.poll_gone(cx).map(|()| None)
    })
    .await
}

/// Sends a response to its end; returns the length of its content.
async fn send(
    stream: &Stream,
    exchange: &Exchange,
    response: Response,
) -> (u64, Result<(), SendError>) {
    let to_head = exchange.request.method == Method::Head;
    let timeout = exchange.bounds.write_timeout;
    let Ok(mut body) = respond::begin(stream, response, to_head, timeout) else {
        return (0, Err(SendError::ClientGone));
    };
    let sent = poll_fn(|cx| body.poll(stream, cx)).await;
    (body.count.sent, sent)
}

/// Accepts a tunnel and lets it use the stream.
async fn open_tunnel(
    stream: Rc<Stream>,
    mut exchange: Exchange,
    mut response: Response,
    takeover: Takeover,
) {
    let metrics = stream.connection.io.metrics.clone();
    tunnel::accept(&mut response);
    let status = response.status;
    let accepted = respond::accept_tunnel(&stream, &response);
    let entry = exchange.begin_tunnel(&metrics, status);
    exchange.request.retire();
    drop(exchange.route);
    drop(exchange.snapshot);
    if accepted.is_ok() {
        let duplex = StreamDuplex::new(stream.clone());
        counted_tunnel::run(duplex, takeover, entry, &metrics).await;
    }
    // Unless both directions have ended.
    stream.reset(ErrorCode::CANCEL);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stream_is_small() {
        fn size<F>(_: impl FnOnce(Rc<Stream>, Exchange, Incoming) -> F) -> usize {
            size_of::<F>()
        }
        assert!(size(serve) <= 1024, "{} bytes", size(serve));
    }
}
