//! `handler: { app: NAME }`: hands an exchange to its application.
//!
//! Owns the limit of exchanges in flight per worker; the backend owns everything else. A WebSocket
//! request is handed over as a session.

use std::cell::Cell;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, ready};

use message::{Body, BodyStream, Fault, Frame, HandlerResult, Request, Takeover};
use offload::{Arrival, Limits, Local, leave};
use plugin::{Handler, MaybeFuture};

use wire::Known;

use crate::backend::{AppBackend, OfferError};
use crate::websocket::{self, WebSocketSettings};

/// The handler of one worker.
pub struct AppHandler {
    backend: Rc<dyn AppBackend>,
    limits: Limits,
    /// Limit of exchanges in flight of this worker; beyond it clients get 503.
    in_flight_max: u32,
    in_flight: Rc<Cell<u32>>,
    /// For WebSocket sessions, if the application supports them.
    websocket: Option<WebSocketSettings>,
}

impl AppHandler {
    pub fn new(
        backend: Rc<dyn AppBackend>,
        limits: Limits,
        in_flight_max: u32,
        websocket: Option<WebSocketSettings>,
    ) -> AppHandler {
        AppHandler { backend, limits, in_flight_max, in_flight: Rc::default(), websocket }
    }

    /// Hands over a session, which holds its permit until it ends.
    fn begin(
        &self,
        request: &Request,
        settings: &WebSocketSettings,
    ) -> MaybeFuture<'_, HandlerResult> {
        let (handed, upgrade) = match websocket::begin(request, settings) {
            Ok(parted) => parted,
            Err(fault) => return Err(fault).into(),
        };
        if let Err(refused) = self.backend.offer(Arrival::Session(Box::new(handed))) {
            return Err(refused.fault()).into();
        }
        let permit = InFlightPermit::take(&self.in_flight);
        MaybeFuture::of(async move {
            let mut response = upgrade.await?;
            response.takeover = response.takeover.map(|takeover| hold_permit(takeover, permit));
            Ok(response)
        })
    }
}

/// A takeover that holds the permit until it ends.
fn hold_permit(takeover: Takeover, permit: InFlightPermit) -> Takeover {
    Box::new(|duplex| {
        let session = takeover(duplex);
        Box::pin(async move {
            let ending = session.await;
            drop(permit);
            ending
        })
    })
}

impl Handler for AppHandler {
    fn name(&self) -> &'static str {
        "app"
    }

    fn handle<'a>(&'a self, request: &'a mut Request) -> MaybeFuture<'a, HandlerResult> {
        if self.in_flight.get() >= self.in_flight_max {
            return Err(OfferError::Full.fault()).into();
        }
        if let Some(settings) = &self.websocket
            && self.backend.takes_sessions()
            && websocket::asks(request)
        {
            return self.begin(request, settings);
        }
        let (handed, local) = leave(request, self.limits);
        match self.backend.offer(Arrival::Exchange(Box::new(handed))) {
            Ok(()) => MaybeFuture::of(PendingResponse {
                local,
                permit: Some(InFlightPermit::take(&self.in_flight)),
            }),
            Err(refused) => Err(refused.fault()).into(),
        }
    }
}

/// Counts an exchange in flight until it is dropped.
struct InFlightPermit(Rc<Cell<u32>>);

impl InFlightPermit {
    fn take(in_flight: &Rc<Cell<u32>>) -> InFlightPermit {
        in_flight.set(in_flight.get() + 1);
        InFlightPermit(in_flight.clone())
    }
}

impl Drop for InFlightPermit {
    fn drop(&mut self) {
        self.0.set(self.0.get().saturating_sub(1));
    }
}

/// The response to come, with its permit.
struct PendingResponse {
    local: Local,
    permit: Option<InFlightPermit>,
}

impl Future for PendingResponse {
    type Output = HandlerResult;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<HandlerResult> {
        let mut outcome = ready!(Pin::new(&mut self.local).poll(cx));
        if let (Ok(response), Some(permit)) = (&mut outcome, self.permit.take()) {
            // The application closes the connection with this header, as under uvicorn and
            // gunicorn.
            response.close = response.headers.lists_token(Known::Connection, "close");
            response.body = match std::mem::take(&mut response.body) {
                Body::Stream(stream) => Body::stream(PermitBody { stream, _permit: permit }),
                whole => whole,
            };
        }
        Poll::Ready(outcome)
    }
}

/// A streamed body that holds its permit until it ends.
struct PermitBody {
    stream: Box<dyn BodyStream>,
    _permit: InFlightPermit,
}

impl BodyStream for PermitBody {
    fn poll_frame(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Frame, Fault>>> {
        self.stream.poll_frame(cx)
    }

    fn length(&self) -> Option<u64> {
        self.stream.length()
    }
}
