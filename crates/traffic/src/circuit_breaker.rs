//! `circuit_breaker`: stops sending requests to what fails, until probes succeed.
//!
//! What counts is the response's head: a status, a fault, the time it took. Faults of clients, and
//! requests that `concurrency` rejects, count for nothing. The state is shared by all workers and
//! keyed by the name, so that a reload neither closes nor opens a breaker.

mod breaker;
mod registry;

use std::rc::Rc;
use std::sync::Arc;

use message::{Fault, FaultKind, HandlerResult, Request, Side};
use plugin::{
    FilterKind, FilterPlan, Handler, HandlerSetting, MaybeFuture, Middleware, Next, RouteNames,
    Stage, WorkerContext,
};
use settings::{Duration, Node, Percent, Reader, Setting};
use telemetry::log::Level;
use telemetry::{CachePadded, Counter, SharedCounter, SharedGauge, families};

pub use registry::{BreakerStatus, CircuitBreakers};

use breaker::{Admission, Breaker, BreakerState, CallResult, Round, Thresholds, Transition};
use registry::RouteBreaker;

pub(crate) const KIND: FilterKind =
    FilterKind { name: "circuit_breaker", schema: CircuitBreaker::schema, read };

/// Stops forwarding requests while too many of them fail or are slow.
///
/// Once the share of failures or of slow responses within `window` is reached, the breaker opens:
/// requests get 503, or go to `fallback`. After `open` it lets `probes` requests pass; if all
/// succeed it closes, and if one fails it opens again.
#[derive(Clone, Debug, PartialEq, Setting)]
#[setting(check = check)]
struct CircuitBreaker {
    /// The share of failed requests that opens the breaker.
    #[setting(default = "50%", range = "1%"..="100%")]
    failure_ratio: Percent,
    /// Statuses that are failures, in addition to requests without a response.
    #[setting(default = [500, 502, 503, 504])]
    statuses: Vec<u16>,
    /// A response that takes longer is slow; without it none is.
    #[setting(range = "1ms"..="1h", example = "2s")]
    slow: Option<Duration>,
    /// The share of slow responses that opens the breaker.
    #[setting(default = "80%", range = "1%"..="100%")]
    slow_ratio: Percent,
    /// The time over which requests are counted.
    #[setting(default = "10s", range = "100ms"..="1h")]
    window: Duration,
    /// Fewer requests than this within the window never open the breaker.
    #[setting(default = 20, range = 1..=1000000)]
    min_requests: u32,
    /// How long it stays open before it sends probes.
    #[setting(default = "10s", range = "100ms"..="1h")]
    open: Duration,
    /// How many requests are probes, and must succeed.
    #[setting(default = 3, range = 1..=1000)]
    probes: u32,
    /// Responds while the breaker is open; without it the response is 503.
    #[setting(example = { "respond": { "status": 503, "body": "back soon" } })]
    fallback: Option<HandlerSetting>,
    /// The name of the breaker: routes with the same name share it. Without it each route has its
    /// own.
    name: Option<String>,
}

fn check(settings: &CircuitBreaker, node: &Node, reader: &mut Reader<'_>) {
    if settings.statuses.iter().any(|status| !(400..=599).contains(status)) {
        let span = node.get("statuses").unwrap_or(node).span;
        reader.error(span, "a status of a failure is between 400 and 599");
    }
    if settings.slow.is_none() {
        reader.no_effect(node, &["slow_ratio"], "without `slow` no response is slow");
    }
}

fn read(node: &Node, reader: &mut Reader<'_>) -> Option<Arc<dyn FilterPlan>> {
    Some(Arc::new(CircuitBreakerPlan(Arc::new(CircuitBreaker::read(node, reader)?))))
}

struct CircuitBreakerPlan(Arc<CircuitBreaker>);

impl CircuitBreaker {
    fn thresholds(&self) -> Thresholds {
        Thresholds {
            failure_ratio: self.failure_ratio.fraction(),
            slow_ratio: self.slow_ratio.fraction(),
            min_requests: u64::from(self.min_requests),
            open_ms: self.open.as_millis_u64(),
            probes: u64::from(self.probes),
        }
    }
}

impl FilterPlan for CircuitBreakerPlan {
    fn name(&self) -> &'static str {
        KIND.name
    }

    fn build(&self, worker: &WorkerContext) -> Stage {
        self.build_on(RouteNames::default(), worker)
    }

    fn build_on(&self, route: RouteNames<'_>, worker: &WorkerContext) -> Stage {
        let name = self.0.name.as_deref().unwrap_or(route.shown);
        let window_ms = self.0.window.as_millis_u64();
        let identity = (name.to_owned(), window_ms);
        let telemetry = &worker.telemetry;
        let labels = [name];
        let breaker = worker.shared.get(identity, || Breaker::new(window_ms));
        let registry = worker.shared.get((), CircuitBreakers::default);
        let filter = CircuitBreakerFilter {
            _registered: registry.register(route.shown, name, &breaker),
            breaker,
            thresholds: self.0.thresholds(),
            slow_us: self.0.slow.map_or(u64::MAX, |slow| slow.as_millis_u64() * 1000),
            fallback: self.0.fallback.as_ref().map(|fallback| fallback.build(worker)),
            shown: telemetry.gauge(&families::CIRCUIT_STATE, &labels),
            opened: telemetry.counter(&families::CIRCUIT_OPENED, &labels),
            rejected: telemetry.worker_counter(worker.index, &families::CIRCUIT_REJECTED, &labels),
            name: name.into(),
            settings: self.0.clone(),
        };
        filter.show_state();
        Stage::Middleware(Rc::new(filter))
    }

    /// Two breakers would differ in their windows alone, and share their metrics.
    fn route_state(&self) -> Option<String> {
        self.0.name.is_none().then(String::new)
    }

    fn handlers(&self) -> Vec<&HandlerSetting> {
        self.0.fallback.iter().collect()
    }

    fn describe(&self) -> String {
        let CircuitBreaker { failure_ratio, window, min_requests, open, fallback, .. } = &*self.0;
        let fallback = fallback.as_ref().map(|handler| format!(", fallback {handler}"));
        format!(
            "opens at {failure_ratio} failures of {min_requests} or more in {window}, for {open}{}",
            fallback.unwrap_or_default()
        )
    }
}

struct CircuitBreakerFilter {
    breaker: Arc<Breaker>,
    /// The breaker is listed as long as this lives.
    _registered: Arc<RouteBreaker>,
    thresholds: Thresholds,
    slow_us: u64,
    fallback: Option<Rc<dyn Handler>>,
    shown: Arc<SharedGauge>,
    opened: Arc<SharedCounter>,
    rejected: Arc<CachePadded<Counter>>,
    name: Box<str>,
    settings: Arc<CircuitBreaker>,
}

/// A probe in flight. Dropped without a result, because its client went away, it makes room for
/// another one.
struct ProbeGuard<'f>(Option<(&'f CircuitBreakerFilter, Round)>);

impl Drop for ProbeGuard<'_> {
    fn drop(&mut self) {
        if let Some((filter, round)) = self.0.take() {
            filter.probe_ended(round, None);
        }
    }
}

impl CircuitBreakerFilter {
    /// The result of a request, unless it is the client's fault, or a limit of this server has
    /// rejected it before any handler saw it.
    fn result(&self, outcome: &HandlerResult, took_us: u64) -> Option<CallResult> {
        let failed = match outcome {
            Ok(response) => self.settings.statuses.contains(&response.status),
            Err(fault) if fault.side() == Side::Client => return None,
            Err(Fault { kind: FaultKind::ConcurrencyLimited, .. }) => return None,
            Err(_) => true,
        };
        Some(CallResult { failed, slow: took_us > self.slow_us })
    }

    fn probe_ended(&self, round: Round, result: Option<CallResult>) {
        let now_ms = net::clock::now().as_ms();
        self.show(self.breaker.probe_ended(round, result, now_ms, &self.thresholds));
    }

    fn show(&self, transition: Option<Transition>) {
        let Some(transition) = transition else { return };
        self.show_state();
        match transition {
            Transition::Opened => {
                self.opened.inc();
                let open = self.settings.open;
                telemetry::event!(
                    Level::Warn,
                    "circuit breaker opened",
                    circuit_breaker = self.name,
                    retry_in = open
                );
            }
            Transition::Closed => {
                telemetry::event!(
                    Level::Info,
                    "circuit breaker closed",
                    circuit_breaker = self.name
                );
            }
        }
    }

    fn show_state(&self) {
        self.shown.set(match self.breaker.state() {
            BreakerState::Closed => 0,
            BreakerState::HalfOpen { .. } => 1,
            BreakerState::Open { .. } => 2,
        });
    }

    fn rejection(&self, wait_ms: u64) -> Fault {
        let fault = Fault::new(FaultKind::CircuitOpen, "the circuit breaker is open");
        let wait_s = u32::try_from(wait_ms.div_ceil(1000)).unwrap_or(u32::MAX);
        Fault { retry_after_s: Some(wait_s), ..fault }
    }
}

impl Middleware for CircuitBreakerFilter {
    fn name(&self) -> &'static str {
        KIND.name
    }

    fn is_instant(&self) -> bool {
        true
    }

    fn call<'a>(
        self: Rc<Self>,
        request: &'a mut Request,
        next: Next,
    ) -> MaybeFuture<'a, HandlerResult> {
        let began_ms = net::clock::now().as_ms();
        let admission = self.breaker.admit(began_ms, &self.thresholds);
        if let Admission::Rejected { wait_ms } = admission {
            self.rejected.inc();
            return match self.fallback.clone() {
                None => Err(self.rejection(wait_ms)).into(),
                Some(fallback) => MaybeFuture::of(async move {
                    let outcome = fallback.handle(request).resolve().await;
                    next.skip(request, outcome)
                }),
            };
        }
        MaybeFuture::of(async move {
            let round = match admission {
                Admission::Probe(round) => Some(round),
                Admission::Pass | Admission::Rejected { .. } => None,
            };
            if round.is_some() {
                self.show_state();
            }
            let mut probe = ProbeGuard(round.map(|round| (&*self, round)));
            let began_us = net::clock::now_us();
            let outcome = next.run(request).await;
            let took_us = net::clock::recent_us().saturating_sub(began_us);
            let result = self.result(&outcome, took_us);
            if let Some((_, round)) = probe.0.take() {
                self.probe_ended(round, result);
            } else if let Some(result) = result {
                let now_ms = net::clock::now().as_ms();
                self.show(self.breaker.ended(result, began_ms, now_ms, &self.thresholds));
            }
            outcome
        })
    }
}

#[cfg(test)]
mod tests;
