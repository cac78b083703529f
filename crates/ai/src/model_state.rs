//! The state of a model on a worker: the health of its targets and their counters.

use std::rc::Rc;
use std::sync::Arc;

use message::{Fault, Response};
use plugin::WorkerContext;
use telemetry::{CachePadded, Counter, families};

use crate::accounting::TokenCounters;
use crate::models::Model;
use crate::settings::AiProxy;
use crate::target::TargetHealth;

/// What a worker knows of a model's targets, in their order.
pub(crate) struct ModelState {
    pub(crate) health: Vec<Arc<TargetHealth>>,
    pub(crate) counters: Vec<TargetCounters>,
    pub(crate) tokens: Vec<Rc<TokenCounters>>,
}

impl ModelState {
    pub(crate) fn new(model: &Model, settings: &AiProxy, worker: &WorkerContext) -> ModelState {
        let providers = &settings.providers.entries;
        let health = model.targets.iter().map(|target| {
            let url = providers[target.provider].1.url.value.to_string();
            TargetHealth::of(target, &url, worker)
        });
        let providers = || model.targets.iter().map(|target| &*target.provider_name);
        let counters = providers().map(|name| TargetCounters::new(name, &model.name, worker));
        let tokens = providers().map(|name| TokenCounters::new(name, &model.name, worker));
        ModelState {
            health: health.collect(),
            counters: counters.collect(),
            tokens: tokens.map(Rc::new).collect(),
        }
    }
}

/// Counters of the requests for a model at a provider.
pub(crate) struct TargetCounters {
    ok: Arc<CachePadded<Counter>>,
    rejected: Arc<CachePadded<Counter>>,
    failed: Arc<CachePadded<Counter>>,
}

impl TargetCounters {
    fn new(provider: &str, model: &str, worker: &WorkerContext) -> TargetCounters {
        let counter = |result| {
            let labels = [provider, model, result];
            worker.telemetry.worker_counter(worker.index, &families::AI_REQUESTS, &labels)
        };
        TargetCounters {
            ok: counter("ok"),
            rejected: counter("rejected"),
            failed: counter("failed"),
        }
    }

    pub(crate) fn count(&self, result: &Result<Response, Fault>) {
        match result.as_ref().map(|response| response.status) {
            Ok(400..=499) => &self.rejected,
            Ok(500..) | Err(_) => &self.failed,
            Ok(_) => &self.ok,
        }
        .inc();
    }
}
