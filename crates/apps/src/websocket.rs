//! WebSocket (RFC 6455) for applications: the server's side of a connection, whose messages go to a
//! session on another thread or process ([`offload::session`]).
//!
//! Owns the handshake, frames, pings, the closing handshake and compression (RFC 7692). Promises
//! that the application sees complete messages of bounded size and nothing of the protocol; that
//! back-pressure works in both directions; that a client that violates the protocol gets the
//! reason; and that a connection ends in bounded time once either side has closed it or is silent,
//! or the server drains.

mod deflate;
mod driver;
mod handshake;
mod outbox;
mod settings;

use std::pin::Pin;
use std::task::{Context, Poll, ready};

use message::{Fault, HandlerResult, Request};
use offload::session::{self, Decision, HandedSession, LocalSession};

use handshake::Handshake;
pub use settings::WebSocketSettings;

/// True if a request asks for WebSocket, even if its handshake is invalid.
pub fn asks(request: &Request) -> bool {
    request.upgrade && handshake::asks(request)
}

/// Splits a request that [`asks`] for WebSocket into the session for the application and the
/// [`Upgrade`] that becomes the response; a fault names the reason if the handshake is invalid.
pub fn begin(
    request: &Request,
    settings: &WebSocketSettings,
) -> Result<(HandedSession, Upgrade), Fault> {
    let handshake = Handshake::read(request, settings)?;
    let (handed, local) = session::leave(request, settings.limits());
    let settings = settings.clone();
    Ok((handed, Upgrade { local, rest: Some((handshake, settings)) }))
}

/// The future response: 101 with the takeover of the connection, or the application's denial.
/// Dropping it tells the application that the client is gone.
pub struct Upgrade {
    local: LocalSession,
    rest: Option<(Handshake, WebSocketSettings)>,
}

impl Future for Upgrade {
    type Output = HandlerResult;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<HandlerResult> {
        let decision = ready!(Pin::new(&mut self.local).poll(cx));
        let (accepted, open) = match decision {
            Decision::Accepted(accepted, open) => (accepted, open),
            Decision::Denied(outcome) => return Poll::Ready(outcome),
        };
        let Some((handshake, settings)) = self.rest.take() else { return Poll::Pending };
        let answer = handshake.answer(accepted).map(|mut response| {
            response.takeover = Some(driver::takeover(open, settings, handshake.deflate));
            response
        });
        Poll::Ready(answer)
    }
}
