//! A cluster on one worker: its current view, its retry budget, its counters.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;

use exchange::WorkerContext;
use net::clock;
use telemetry::{CachePadded, Counter, Histogram, LimitHit, SharedGauge, WorkerMetrics, families};

use crate::budget::Budget;
use crate::cluster::Cluster;
use crate::view::View;
use crate::worker_rng::WorkerRng;

/// What the handlers of one upstream share on one worker.
pub(crate) struct LocalCluster {
    pub(crate) cluster: Arc<Cluster>,
    context: WorkerContext,
    view: RefCell<Rc<View>>,
    pub(crate) budget: Budget,
    pub(crate) rng: WorkerRng,
    pub(crate) retries: Arc<CachePadded<Counter>>,
    pub(crate) retries_denied: Arc<CachePadded<Counter>>,
    pub(crate) duration: Arc<Histogram>,
    panic: Arc<SharedGauge>,
    worker: Arc<WorkerMetrics>,
}

impl LocalCluster {
    /// That of this worker, kept while any handler uses it.
    pub(crate) fn of(context: &WorkerContext, cluster: &Arc<Cluster>) -> Rc<LocalCluster> {
        // The id: a name may come back with a later plan while an old one still runs.
        context.local.get(cluster.id, || LocalCluster::new(context, cluster.clone()))
    }

    fn new(context: &WorkerContext, cluster: Arc<Cluster>) -> LocalCluster {
        let telemetry = &context.telemetry;
        let worker = context.index;
        let counter = |family| telemetry.worker_counter(worker, family, &[&cluster.name]);
        LocalCluster {
            view: RefCell::new(Rc::new(View::new(context, &cluster, None, clock::now().as_ms()))),
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

    /// Who may be picked now.
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

    /// Counts a bound that an upstream ran into.
    pub(crate) fn hit(&self, slug: &str) {
        match slug {
            "http_response_timeout" | "connection_timeout" | "connection_write_timeout" => {
                self.worker.hit(LimitHit::SlowUpstream);
            }
            "http_response_header_section_size" => self.worker.hit(LimitHit::UpstreamHeaders),
            "connection_limit_reached" => self.worker.hit(LimitHit::UpstreamConnections),
            _ => {}
        }
    }
}
