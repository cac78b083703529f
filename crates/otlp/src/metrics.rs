//! Sends all metrics to a collector, on the control thread.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use message::LocalFuture;
use net::task::JoinHandle;
use prost::Message;
use telemetry::Telemetry;
use telemetry::timestamp::now_ms;

use crate::collector::{Batch, Collector, Signal};
use crate::exposition::{Times, metrics};
use crate::proto::metrics::{ExportMetricsServiceRequest, ResourceMetrics, ScopeMetrics};
use crate::proto::{Resource, Scope};
use crate::settings::ExportPlan;

/// The time between two exports unless configured.
const INTERVAL: Duration = Duration::from_secs(15);

/// Returns all metrics in the text format of Prometheus.
pub type MetricsText = Rc<dyn Fn() -> LocalFuture<'static, String>>;

/// The exporter of the current plan.
pub struct MetricsExporter {
    telemetry: Arc<Telemetry>,
    running: RefCell<Option<Running>>,
    /// When counting began.
    started_ms: u64,
    /// `None` until the server can be asked.
    text: Rc<RefCell<Option<MetricsText>>>,
}

struct Running {
    plan: Arc<ExportPlan>,
    sender: Rc<Sender>,
    task: JoinHandle<()>,
}

impl MetricsExporter {
    pub fn new(telemetry: &Arc<Telemetry>) -> MetricsExporter {
        MetricsExporter {
            telemetry: telemetry.clone(),
            running: RefCell::default(),
            started_ms: now_ms(),
            text: Rc::default(),
        }
    }

    /// Sets what the metrics are read from.
    pub fn read_from(&self, text: MetricsText) {
        self.text.replace(Some(text));
    }

    /// Exports for this plan from now on.
    pub fn follow(&self, plan: Option<&Arc<ExportPlan>>) {
        let mut running = self.running.borrow_mut();
        if running.as_ref().map(|running| &running.plan) == plan {
            return;
        }
        if let Some(running) = running.take() {
            running.task.abort();
        }
        *running = plan.map(|plan| {
            let sender = Rc::new(Sender {
                collector: Collector::new(Signal::Metrics, &plan.collector, &self.telemetry),
                interval: plan.interval().unwrap_or(INTERVAL),
                resource: Resource::new(plan.resource()),
                telemetry: self.telemetry.clone(),
                started_ms: self.started_ms,
                text: self.text.clone(),
            });
            let task = net::task::spawn_local(sender.clone().run());
            Running { plan: plan.clone(), sender, task }
        });
    }

    /// Sends the last values at the end of the process.
    pub async fn finish(&self) {
        let Some(running) = self.running.borrow_mut().take() else { return };
        running.task.abort();
        running.sender.send().await;
    }
}

struct Sender {
    collector: Collector,
    interval: Duration,
    resource: Resource,
    telemetry: Arc<Telemetry>,
    started_ms: u64,
    text: Rc<RefCell<Option<MetricsText>>>,
}

impl Sender {
    async fn run(self: Rc<Self>) {
        loop {
            net::timer::sleep(self.interval).await;
            self.send().await;
        }
    }

    /// Sends the current values, once: the next ones include them.
    async fn send(&self) {
        let Some(text) = self.text.borrow().clone() else { return };
        let text = text().await;
        let times = Times { start_ns: self.started_ms * 1_000_000, now_ns: now_ms() * 1_000_000 };
        let (metrics, items) = metrics(&text, times, self.telemetry.exemplars());
        let scope_metrics = vec![ScopeMetrics { scope: Some(Scope::own()), metrics }];
        let resource = Some(self.resource.clone());
        let request = ExportMetricsServiceRequest {
            resource_metrics: vec![ResourceMetrics { resource, scope_metrics }],
        };
        self.collector
            .deliver_once(&Batch { message: request.encode_to_vec().into(), items })
            .await;
    }
}
