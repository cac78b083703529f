//! A cluster on one worker: its current view, its retry budget, its counters.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use http_client::RoomSignal;
use message::{FaultKind, LocalFuture};
use net::clock::{self, Moment};
use net::timer;
use plugin::WorkerContext;
use telemetry::{CachePadded, Counter, Histogram, LimitHit, SharedGauge, WorkerMetrics, families};
use tokio::sync::{Mutex, MutexGuard};

use crate::budget::Budget;
use crate::cluster::Cluster;
use crate::limits::PENDING_REQUESTS;
use crate::view::View;
use crate::worker_rng::WorkerRng;

/// State shared by the handlers of one upstream on one worker.
pub(crate) struct LocalCluster {
    pub(crate) cluster: Arc<Cluster>,
    context: WorkerContext,
    view: RefCell<Rc<View>>,
    /// Requests that wait for a server below its `max_connections`; the lock gives their order.
    pending: Cell<usize>,
    first: Mutex<()>,
    room: Arc<RoomSignal>,
    pub(crate) budget: Budget,
    pub(crate) rng: WorkerRng,
    retries: Arc<CachePadded<Counter>>,
    retries_denied: Arc<CachePadded<Counter>>,
    pub(crate) duration: Arc<Histogram>,
    panic: Arc<SharedGauge>,
    worker: Arc<WorkerMetrics>,
}

impl LocalCluster {
    /// The instance of this worker, shared by its handlers.
    pub(crate) fn of(context: &WorkerContext, cluster: &Arc<Cluster>) -> Rc<LocalCluster> {
        // Keyed by id: a name can reappear in a later plan while an old one still runs.
        context.local.get(cluster.id, || LocalCluster::new(context, cluster.clone()))
    }

    fn new(context: &WorkerContext, cluster: Arc<Cluster>) -> LocalCluster {
        let telemetry = &context.telemetry;
        let worker = context.index;
        let room = RoomSignal::of(&context.shared, &cluster.name);
        cluster.set_room(room.clone());
        let counter = |family| telemetry.worker_counter(worker, family, &[&cluster.name]);
        LocalCluster {
            view: RefCell::new(Rc::new(View::new(context, &cluster, None, clock::now().as_ms()))),
            pending: Cell::new(0),
            first: Mutex::new(()),
            room,
            budget: Budget::new(),
            rng: WorkerRng::new(worker as u64),
            retries: counter(&families::UPSTREAM_RETRIES),
            retries_denied: counter(&families::UPSTREAM_RETRIES_DENIED),
            duration: telemetry.worker_histogram(
                worker,
                &families::UPSTREAM_DURATION,
                &[&cluster.name],
            ),
            panic: telemetry.gauge(&families::UPSTREAM_PANIC, &[&cluster.name]),
            worker: telemetry.worker(worker),
            context: context.clone(),
            cluster,
        }
    }

    /// The current view.
    pub(crate) fn view(&self, now_ms: u64) -> Rc<View> {
        let view = self.view.borrow().clone();
        if view.is_current(&self.cluster, now_ms) {
            return view;
        }
        let fresh = Rc::new(View::new(&self.context, &self.cluster, Some(&view), now_ms));
        self.panic.set(i64::from(fresh.panic));
        self.view.replace(fresh.clone());
        fresh
    }

    /// True if requests wait for room: later ones follow them.
    pub(crate) fn has_pending(&self) -> bool {
        self.pending.get() != 0
    }

    /// Waits in order of arrival until a server is below its `max_connections`; false after
    /// `timeouts.queue`, or at once if too many requests wait. A request that another worker was
    /// faster than waits again, as the first, for the rest of that time.
    pub(crate) fn wait_for_room<'f, 'a: 'f>(
        &'a self,
        waiting: &'f mut Option<PendingRequest<'a>>,
        view: &View,
    ) -> LocalFuture<'f, bool> {
        let timeout = view.settings.timeouts.queue.get();
        let is_new = waiting.is_none();
        if is_new && (timeout.is_zero() || self.pending.get() >= PENDING_REQUESTS) {
            return Box::pin(std::future::ready(false));
        }
        // Boxed: it is rare, and the future of every request would be larger.
        Box::pin(async move {
            let pending =
                waiting.get_or_insert_with(|| PendingRequest::new(&self.pending, timeout));
            let left = pending.until.since(clock::now());
            let room = async {
                if pending.first.is_none() {
                    pending.first = Some(self.first.lock().await);
                }
                loop {
                    let now_ms = clock::now().as_ms();
                    let view = self.view(now_ms);
                    if !view.is_full() {
                        return;
                    }
                    // Without an announcement the end of an ejection adds a server.
                    let unchanged = view.current_for(now_ms).min(timeout);
                    let has_room = || !view.is_full() || !view.is_current(&self.cluster, now_ms);
                    timer::within(unchanged, self.room.announced_unless(has_room)).await;
                }
            };
            timer::within(left, room).await.is_some()
        })
    }

    /// Takes a retry from the budget; false if it is exhausted.
    pub(crate) fn begin_retry(&self) -> bool {
        let is_allowed = self.budget.withdraw(clock::now().as_ms());
        if is_allowed {
            self.retries.inc()
        } else {
            self.retries_denied.inc()
        }
        is_allowed
    }

    /// Counts a limit that a request ran into.
    pub(crate) fn hit(&self, kind: FaultKind) {
        match kind {
            FaultKind::ResponseTimeout
            | FaultKind::ConnectionTimeout
            | FaultKind::ConnectionWriteTimeout => self.worker.hit(LimitHit::SlowUpstream),
            FaultKind::ResponseHeadersSize => self.worker.hit(LimitHit::UpstreamHeaders),
            FaultKind::ConnectionLimit => self.worker.hit(LimitHit::UpstreamConnections),
            _ => {}
        }
    }
}

/// A request that waits for room, which counts as pending until it is dropped.
pub(crate) struct PendingRequest<'a> {
    pending: &'a Cell<usize>,
    /// When it has waited for `timeouts.queue`.
    until: Moment,
    /// Held once every request before it has its room.
    first: Option<MutexGuard<'a, ()>>,
}

impl PendingRequest<'_> {
    fn new(pending: &Cell<usize>, timeout: Duration) -> PendingRequest<'_> {
        pending.set(pending.get() + 1);
        PendingRequest { pending, until: clock::now().after(timeout), first: None }
    }
}

impl Drop for PendingRequest<'_> {
    fn drop(&mut self) {
        self.pending.set(self.pending.get() - 1);
    }
}
