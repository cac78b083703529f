//! WebSocket (RFC 6455) for applications: the server's side of a connection, whose messages go to
//! a session that has left the worker ([`exchange::offload::session`]).
//!
//! Owns the handshake, frames, pings, the closing handshake and compression (RFC 7692). Promises
//! that the application sees whole messages of bounded size and nothing of the protocol; that a
//! client which is not read from is held back, and one that does not read holds the application
//! back; that a client which breaks the protocol is told why; and that a connection ends in bounded
//! time once either side has said goodbye, has gone silent, or the server drains.

mod deflate;
mod handshake;
mod outbox;
mod pump;
mod settings;

use std::pin::Pin;
use std::task::{Context, Poll, ready};

use exchange::offload::session::{self, Decision, HandedSession, LocalSession};
use exchange::{Fault, Outcome, Request};

use handshake::Handshake;
pub use settings::WebSocketSettings;

/// Whether a request asks for WebSocket, however well.
pub fn asks(request: &Request) -> bool {
    request.upgrade && handshake::asks(request)
}

/// Parts a request that [`asks`]; a fault says what is wrong with it. The session is to be offered
/// to the application, and the [`Upgrade`] becomes the outcome.
pub fn begin(
    request: &Request,
    settings: &WebSocketSettings,
) -> Result<(HandedSession, Upgrade), Fault> {
    let handshake = Handshake::read(request, settings.compression)?;
    let (handed, local) = session::leave(request, settings.limits());
    let settings = settings.clone();
    Ok((handed, Upgrade { local, rest: Some((handshake, settings)) }))
}

/// The outcome to come: 101 with what goes on with the connection, or the application's denial.
/// Dropping it tells the application that the client has gone.
pub struct Upgrade {
    local: LocalSession,
    rest: Option<(Handshake, WebSocketSettings)>,
}

impl Future for Upgrade {
    type Output = Outcome;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Outcome> {
        let decision = ready!(Pin::new(&mut self.local).poll(cx));
        let (accepted, open) = match decision {
            Decision::Accepted(accepted, open) => (accepted, open),
            Decision::Denied(outcome) => return Poll::Ready(outcome),
        };
        let Some((handshake, settings)) = self.rest.take() else { return Poll::Pending };
        let answer = handshake.answer(accepted).map(|mut response| {
            response.takeover = Some(pump::takeover(open, settings, handshake.deflate));
            response
        });
        Poll::Ready(answer)
    }
}
