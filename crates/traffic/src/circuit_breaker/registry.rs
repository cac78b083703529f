//! The circuit breakers of routes, for the admin API.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use net::clock;
use telemetry::timestamp;

use super::breaker::Breaker;

/// The circuit breakers in use: there is one such register, under the key `()` of
/// `plugin::Shared`. Locked when a plan is built and when it is listed, never while a request runs.
#[derive(Default)]
pub struct CircuitBreakers {
    /// By the names of the route and of the breaker.
    breakers: Mutex<HashMap<(String, String), Weak<RouteBreaker>>>,
}

/// A breaker of a route, for as long as a filter of that route uses it.
pub(super) struct RouteBreaker {
    breaker: Arc<Breaker>,
    /// The shared state holds only a weak reference to it.
    _registry: Arc<CircuitBreakers>,
}

/// The state of a circuit breaker.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BreakerStatus {
    pub name: String,
    /// One of `closed`, `half_open`, `open`.
    pub state: &'static str,
    /// When it got into this state, Unix time in milliseconds; `None` if it never had another one.
    pub since_ms: Option<u64>,
    /// Requests within the window that were counted while it was closed, those of them that failed
    /// and those that were slow.
    pub requests: u64,
    pub failed: u64,
    pub slow: u64,
    pub window_ms: u64,
}

impl CircuitBreakers {
    /// Lists a breaker until what is returned is dropped, or replaced by that of another filter.
    pub(super) fn register(
        self: &Arc<Self>,
        route: &str,
        name: &str,
        breaker: &Arc<Breaker>,
    ) -> Arc<RouteBreaker> {
        let registered =
            Arc::new(RouteBreaker { breaker: breaker.clone(), _registry: self.clone() });
        let mut breakers = self.breakers.lock().unwrap_or_else(PoisonError::into_inner);
        if breakers.len() == breakers.capacity() {
            // Not each time: a plan may have thousands.
            breakers.retain(|_, known| known.strong_count() > 0);
        }
        breakers.insert((route.to_owned(), name.to_owned()), Arc::downgrade(&registered));
        registered
    }

    /// Returns the names of the routes with a breaker, and the breakers: one that routes share once
    /// for each.
    pub fn of_routes(&self) -> Vec<(String, BreakerStatus)> {
        let now_ms = clock::now().as_ms();
        let breakers = self.breakers.lock().unwrap_or_else(PoisonError::into_inner);
        let living = breakers.iter().filter_map(|((route, name), known)| {
            Some((route.clone(), status(name, &known.upgrade()?.breaker, now_ms)))
        });
        living.collect()
    }
}

fn status(name: &str, breaker: &Breaker, now_ms: u64) -> BreakerStatus {
    let counts = breaker.counts(now_ms);
    BreakerStatus {
        name: name.to_owned(),
        state: breaker.state().slug(),
        since_ms: breaker.changed_ms().map(|changed_ms| {
            // The breaker has the clock of the process.
            timestamp::now_ms().saturating_sub(now_ms.saturating_sub(changed_ms))
        }),
        requests: counts.requests,
        failed: counts.failed,
        slow: counts.slow,
        window_ms: breaker.window_ms(),
    }
}
