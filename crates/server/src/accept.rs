//! Accepting on one listener of one worker.
//!
//! Continues after every error of `accept`. Connections above the limit get a 503. The loop ends
//! with an empty accept queue, so that no connection which the kernel has accepted is reset.

use std::cell::{Cell, RefCell};
use std::future::poll_fn;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Poll, Waker};
use std::time::Duration;

use http_server::{Service, refuse, serve};
use message::{ConnectionFacts, ConnectionTimes, Protocol};
use net::{Accepted, Bind, Listener, is_exhausted};
use telemetry::log::Level;
use telemetry::{CloseReason, LimitHit, event_limited};

use crate::balance::Balance;
use crate::connection_limiter::{ConnectionLimiter, Permit};
use crate::descriptors::IdleCloser;

/// Pause after accepting failed for lack of descriptors or memory.
pub(crate) const EXHAUSTED_PAUSE: Duration = Duration::from_millis(50);
/// Connections above the limit that one listener responds to at the same time; further ones are
/// closed.
const REFUSALS_AT_ONCE: usize = 64;

/// Ends an accept loop.
#[derive(Default)]
pub(crate) struct StopSignal {
    stopped: Cell<bool>,
    waker: Cell<Option<Waker>>,
}

impl StopSignal {
    /// Returns true if the loop is stopped; otherwise registers the waker.
    pub(crate) fn is_stopped(&self, waker: &Waker) -> bool {
        if !self.stopped.get() {
            self.waker.set(Some(waker.clone()));
        }
        self.stopped.get()
    }

    pub(crate) fn stop(&self) {
        self.stopped.set(true);
        if let Some(waker) = self.waker.take() {
            waker.wake();
        }
    }
}

/// The context of a listener's connections.
pub(crate) struct AcceptContext {
    /// The listener's name in the current plan.
    pub(crate) name: Rc<RefCell<Rc<str>>>,
    pub(crate) service: Rc<Service>,
    /// The limits of this listener and of the whole server.
    pub(crate) limiters: [Arc<ConnectionLimiter>; 2],
    pub(crate) reserve: Option<ReserveCapacity>,
    /// Closes idle connections to free descriptors; workers only.
    pub(crate) idle_closer: Option<Rc<IdleCloser>>,
    pub(crate) stop: Rc<StopSignal>,
    /// Balances connections with other processes that accept on the same socket.
    pub(crate) balance: Option<Arc<Balance>>,
}

/// The permits of a connection: listener and server, or one of the reserve.
type Permits = (Permit, Option<Permit>);

/// The service and the limit for connections that have no permit.
pub(crate) struct ReserveCapacity {
    pub(crate) service: Rc<Service>,
    pub(crate) limiter: Arc<ConnectionLimiter>,
}

/// Accepts until the loop is stopped; then accepts what is queued and closes the listener, unless
/// another loop accepts on it from now on.
pub(crate) async fn accept(listener: Rc<Listener>, context: AcceptContext) {
    let local = Rc::new(listener.local().clone());
    let refusals = Rc::new(Cell::new(0));
    loop {
        if let Some(balance) = &context.balance {
            pending(&listener, &context).await;
            balance.turn(context.limiters[1].open()).await;
        }
        let accepted = poll_fn(|cx| {
            if context.stop.is_stopped(cx.waker()) {
                return Poll::Ready(None);
            }
            listener.poll_accept(cx).map(Some)
        })
        .await;
        match accepted {
            None => break,
            Some(Ok(accepted)) => context.admit(accepted, &local, &refusals),
            Some(Err(error)) => {
                context.service.metrics.accept_errors.inc();
                event_limited!(
                    1,
                    Level::Warn,
                    "accepting a connection failed",
                    listener = context.name.borrow(),
                    error = error
                );
                if is_exhausted(&error) {
                    context
                        .idle_closer
                        .iter()
                        .for_each(|idle_closer| idle_closer.exhausted(&context.limiters[1]));
                    net::timer::sleep(EXHAUSTED_PAUSE).await;
                }
            }
        }
    }
    let Some(listener) = Rc::into_inner(listener) else { return };
    match listener.drain() {
        Ok(queued) => {
            for accepted in queued {
                context.admit(accepted, &local, &refusals);
            }
        }
        Err(error) => {
            event_limited!(
                1,
                Level::Warn,
                "a listener could not be drained",
                listener = context.name.borrow(),
                error = error
            );
        }
    }
}

/// Returns when there may be a connection, or when the loop is stopped.
async fn pending(listener: &Listener, context: &AcceptContext) {
    poll_fn(|cx| {
        if context.stop.is_stopped(cx.waker()) {
            return Poll::Ready(());
        }
        // The accept call reports an error.
        listener.poll_pending(cx).map(|_| ())
    })
    .await;
}

impl AcceptContext {
    /// Acquires permits of the listener and the server, or one of the reserve.
    fn acquire(&self) -> Option<(Rc<Service>, Permits)> {
        let [own, all] = &self.limiters;
        let of_all = || match &self.idle_closer {
            Some(idle_closer) => idle_closer.acquire(all),
            None => all.acquire(),
        };
        if let Some(permits) = own.acquire().and_then(|own| Some((own, Some(of_all()?)))) {
            return Some((self.service.clone(), permits));
        }
        let reserve = self.reserve.as_ref()?;
        Some((reserve.service.clone(), (reserve.limiter.acquire()?, None)))
    }

    /// Rejected connections hold descriptors until their clients have read the response.
    fn refusals_at_once(&self) -> usize {
        let all = &self.limiters[1];
        if all.is_capped() { REFUSALS_AT_ONCE.min(all.limit() / 16 + 1) } else { REFUSALS_AT_ONCE }
    }

    fn admit(&self, accepted: Accepted, local: &Rc<Bind>, refusals: &Rc<Cell<usize>>) {
        let Some((service, permits)) = self.acquire() else {
            self.service.metrics.hit(LimitHit::Connections);
            self.service.metrics.closed(CloseReason::ConnectionLimit);
            self.service.metrics.count_response(503);
            // Under TLS a response would need a handshake: the connection is only closed.
            let in_the_clear = self.service.snapshot().tls.is_none();
            if in_the_clear && refusals.get() < self.refusals_at_once() {
                refusals.set(refusals.get() + 1);
                let refusals = refusals.clone();
                net::task::spawn_local(async move {
                    refuse(accepted).await;
                    refusals.set(refusals.get() - 1);
                });
            }
            return;
        };
        let facts = ConnectionFacts {
            peer: accepted.peer.clone(),
            local: local.clone(),
            listener: self.name.borrow().clone(),
            protocol: Protocol::Http1,
            tls: None,
            times: ConnectionTimes::default(),
        };
        net::task::spawn_local(async move {
            serve(accepted, service, facts).await;
            drop(permits);
        });
    }
}
