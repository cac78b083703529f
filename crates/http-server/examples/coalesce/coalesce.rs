//! A middleware that lets identical GETs of all workers share one run of the rest of the route.
//!
//! The first request leads: it runs, and once it has a head that may be shared, its body is copied
//! in the background into a shared body that all of them read, the leader too. A request that comes
//! before the end reads it from the beginning. A response that may not be shared, or is too long,
//! belongs to the leader, and the other requests run by themselves. If the leader's client leaves
//! before the head, another request leads; after it, the run continues.

use std::collections::HashMap;
use std::rc::Rc;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use message::{Fault, HandlerResult, Headers, Request, Response, SharedBody, shared_body};
use plugin::{BackgroundPermit, MaybeFuture, Middleware, Next};
use tokio::sync::watch;
use wire::{Known, Method};

/// Requests with one of these get a response of their own, or only a part of one.
const PERSONAL: [Known; 6] = [
    Known::Authorization,
    Known::Cookie,
    Known::Range,
    Known::IfNoneMatch,
    Known::IfModifiedSince,
    Known::Expect,
];

/// Runs in flight, by host and target. Locked only by requests that have to be run.
#[derive(Default)]
pub(crate) struct Flights(Mutex<HashMap<Vec<u8>, ResultReceiver>>);

type ResultReceiver = watch::Receiver<Option<FetchResult>>;

/// What became of the leader's run.
#[derive(Clone)]
enum FetchResult {
    Shared {
        status: u16,
        headers: Headers,
        content: SharedBody,
    },
    /// It may not be shared.
    Alone,
    Failed(Fault),
}

/// A run in flight; it is not joined any more once this is dropped.
struct Flight {
    flights: Arc<Flights>,
    key: Vec<u8>,
    sender: watch::Sender<Option<FetchResult>>,
}

impl Flights {
    fn table(&self) -> MutexGuard<'_, HashMap<Vec<u8>, ResultReceiver>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Leads a new run, or joins the one in flight.
    fn lead_or_join(self: &Arc<Self>, key: &[u8]) -> Result<Flight, ResultReceiver> {
        let mut table = self.table();
        if let Some(receiver) = table.get(key) {
            return Err(receiver.clone());
        }
        let (sender, receiver) = watch::channel(None);
        table.insert(key.to_vec(), receiver);
        Ok(Flight { flights: self.clone(), key: key.to_vec(), sender })
    }
}

impl Drop for Flight {
    fn drop(&mut self) {
        self.flights.table().remove(&self.key);
    }
}

/// The stage: one for each worker, with one table of flights for all.
pub(crate) struct Coalesce {
    flights: Arc<Flights>,
    bytes_max: u64,
}

impl Coalesce {
    pub(crate) fn new(flights: Arc<Flights>, bytes_max: u64) -> Coalesce {
        Coalesce { flights, bytes_max }
    }

    async fn fetch_as_leader(
        &self,
        flight: Flight,
        request: &mut Request,
        next: Next,
    ) -> HandlerResult {
        let mut response = match next.run(request).await {
            Ok(response) => response,
            Err(fault) => {
                flight.sender.send_replace(Some(FetchResult::Failed(fault.clone())));
                return Err(fault);
            }
        };
        let length = response.body.length().filter(|length| *length <= self.bytes_max);
        let permit =
            if is_for_all(&response) && length.is_some() { BackgroundPermit::take() } else { None };
        let Some(permit) = permit else {
            flight.sender.send_replace(Some(FetchResult::Alone));
            return Ok(response);
        };
        // Twice, for what it takes to keep small pieces.
        let (writer, content) = shared_body(self.bytes_max * 2, length);
        let mut body = std::mem::replace(&mut response.body, content.body());
        let (status, headers) = (response.status, response.headers.clone());
        flight.sender.send_replace(Some(FetchResult::Shared { status, headers, content }));
        let filling = async move {
            // Its readers see how it ended.
            let _ = writer.fill(&mut body).await;
            drop(flight);
        };
        permit.run(filling).detach();
        Ok(response)
    }
}

impl Middleware for Coalesce {
    fn name(&self) -> &'static str {
        "coalesce"
    }

    fn call<'a>(
        self: Rc<Self>,
        request: &'a mut Request,
        next: Next,
    ) -> MaybeFuture<'a, HandlerResult> {
        MaybeFuture::of(async move {
            let Some(key) = key(request) else { return next.run(request).await };
            loop {
                let mut receiver = match self.flights.lead_or_join(&key) {
                    Ok(flight) => return self.fetch_as_leader(flight, request, next).await,
                    Err(receiver) => receiver,
                };
                let result = match receiver.wait_for(Option::is_some).await {
                    Ok(result) => result.clone(),
                    // The leader's client has left.
                    Err(_) => continue,
                };
                return match result {
                    Some(FetchResult::Shared { status, headers, content }) => {
                        let mut response = Response::new(status);
                        response.headers = headers;
                        response.body = content.body();
                        Ok(response)
                    }
                    Some(FetchResult::Failed(fault)) => Err(fault),
                    Some(FetchResult::Alone) | None => next.run(request).await,
                };
            }
        })
    }
}

fn key(request: &Request) -> Option<Vec<u8>> {
    let alike = request.method == Method::Get && !request.headers.contains_any(&PERSONAL);
    alike.then(|| [request.authority(), request.target.raw()].concat())
}

fn is_for_all(response: &Response) -> bool {
    let headers = &response.headers;
    response.status == 200
        && !headers.contains_any(&[Known::SetCookie, Known::Vary])
        && !headers.lists_token(Known::CacheControl, "private")
        && !headers.lists_token(Known::CacheControl, "no-store")
}
