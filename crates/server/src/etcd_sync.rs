//! Follows the configuration in etcd: each revision is put into use as a whole, or not at all.
//!
//! Promises that changes are applied in the order of their revisions and none is missed, also after
//! a compaction; that documents that cannot be used are reported and change nothing; and that
//! nothing that serves waits for etcd.

use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use admin::{Refusal, ServerState};
use config::Source;
use etcd::messages::{WatchCreateRequest, prefix_end};
use etcd::{Etcd, EtcdError, EtcdSettings, PAUSE_MAX, Watch, WatchError};
use net::task::JoinHandle;
use net::{Resolver, timer};
use plugin::WorkerContext;
use telemetry::log::Level;
use telemetry::{event, families};

use crate::control::Control;
use crate::etcd_documents::{DOCUMENTS_BYTES, Documents};
use crate::etcd_report::EtcdReport;
use crate::etcd_source::EtcdSource;
use crate::etcd_tickets;
use crate::fleet_nodes::NodeReports;

/// The first pause after a failure.
const PAUSE: Duration = Duration::from_millis(200);
/// Further changes that are taken over together with one, if they have arrived.
const TOGETHER: usize = 1000;
/// How long a node serves a canary without reaching etcd.
const CANARY_ALONE: Duration = Duration::from_secs(30);
/// How often it looks.
const CANARY_ALONE_CHECK: Duration = Duration::from_secs(5);
/// How long the end of the server waits until etcd has removed its report.
const END_WITHIN: Duration = Duration::from_secs(1);

/// The tasks that follow etcd; they end with it.
pub(crate) struct EtcdSync {
    report: Rc<EtcdReport>,
    tasks: [JoinHandle<()>; 3],
}

impl EtcdSync {
    /// Starts to follow the documents of a server that has begun to serve.
    pub(crate) fn start(
        control: &Rc<Control>,
        source: &Arc<EtcdSource>,
    ) -> Result<EtcdSync, String> {
        let settings = EtcdSettings { message_bytes: DOCUMENTS_BYTES, ..source.settings.clone() };
        let names = Rc::new(Resolver::system());
        let etcd = Rc::new(Etcd::new(&WorkerContext::default(), names, settings)?);
        control.acme.share(&etcd, source.address.acme());
        let nodes = NodeReports { etcd: etcd.clone(), source: source.clone() };
        control.nodes.get_or_init(|| nodes);
        let key = format!("{}{}", source.address.reports(), source.node);
        let report = Rc::new(EtcdReport::new(etcd.clone(), key, &control.telemetry));
        source.count_into(&control.telemetry);
        let follower = Follower {
            control: control.clone(),
            source: source.clone(),
            etcd,
            report: report.clone(),
        };
        let reporting = report.clone();
        let tickets = etcd_tickets::share(
            control.clone(),
            follower.etcd.clone(),
            source.address.tickets(),
            source.node.clone(),
        );
        let tasks = [
            net::task::spawn_local(follower.run()),
            net::task::spawn_local(async move { reporting.run().await }),
            net::task::spawn_local(tickets),
        ];
        Ok(EtcdSync { report, tasks })
    }

    /// Ends the tasks and removes the report of this server.
    pub(crate) async fn end(self) {
        self.tasks.iter().for_each(JoinHandle::abort);
        timer::within(END_WITHIN, self.report.remove()).await;
    }
}

struct Follower {
    control: Rc<Control>,
    source: Arc<EtcdSource>,
    etcd: Rc<Etcd>,
    report: Rc<EtcdReport>,
}

impl Follower {
    async fn run(self) {
        // The log was not open when the documents were read.
        for problem in self.source.problems() {
            event!(Level::Warn, "started with the copy of the configuration", problem = problem);
        }
        let served = self.source.offered();
        self.in_use(&served).await;
        let mut failures = 0;
        loop {
            match Documents::fetch(&self.etcd, &self.source.address.documents()).await {
                Ok(documents) => {
                    failures = 0;
                    self.source.set_problem(None);
                    self.offer(documents.for_node(&self.source.node)).await;
                    let why = self.watch(documents).await;
                    self.lost(&why);
                }
                Err(error) => self.lost(&error),
            }
            self.end_canary_if_alone().await;
            timer::sleep(timer::pause(PAUSE, PAUSE_MAX, failures)).await;
            failures += 1;
        }
    }

    /// Applies changes to these documents until the watch ends; returns why.
    async fn watch(&self, mut documents: Documents) -> EtcdError {
        let prefix = self.source.address.documents();
        let request = WatchCreateRequest {
            key: prefix.clone().into(),
            range_end: prefix_end(prefix.as_bytes()),
            start_revision: documents.revision + 1,
            ..WatchCreateRequest::default()
        };
        let source = self.source.clone();
        let mut watch = Watch::new(self.etcd.clone(), request).with_observer(move |error| {
            let why = error.map(|error| format!("changes are not received: {error}"));
            source.set_problem(why.as_deref());
        });
        loop {
            let mut next = match self.is_canary() {
                true => timer::within(CANARY_ALONE_CHECK, watch.next()).await,
                false => Some(watch.next().await),
            };
            if next.is_none() {
                self.end_canary_if_alone().await;
                continue;
            }
            let mut taken = 0;
            while let Some(result) = next {
                match result {
                    Ok(response) if !documents.apply(&response, &prefix) => {
                        return EtcdError::too_large("the documents");
                    }
                    Ok(_) => {}
                    Err(WatchError::Compacted(_)) => return EtcdError::compacted(),
                    Err(WatchError::Refused(error)) => return error,
                }
                taken += 1;
                // What has arrived already is one change with it.
                next = match taken < TOGETHER {
                    true => timer::within(Duration::ZERO, watch.next()).await,
                    false => None,
                };
            }
            self.offer(documents.for_node(&self.source.node)).await;
        }
    }

    fn is_canary(&self) -> bool {
        self.source.offered().canary.is_some()
    }

    /// Serves the last configuration of all nodes again if the end of a canary could not be heard
    /// of for some time.
    async fn end_canary_if_alone(&self) {
        if !self.is_canary() || self.source.alone_for() < CANARY_ALONE {
            return;
        }
        let Some(documents) = self.source.copy() else { return };
        event!(
            Level::Warn,
            "etcd cannot be followed: the canary ends on this node",
            event = "config_canary_left"
        );
        self.offer((*documents).clone()).await;
    }

    /// Puts documents into use, unless they are in use.
    async fn offer(&self, documents: Documents) {
        let before = self.source.offered();
        let documents = Arc::new(documents);
        if before.texts == documents.texts && self.report.is_serving(before.revision) {
            self.source.offer(documents.clone());
            self.in_use(&documents).await;
            return;
        }
        loop {
            // Not while another change is made, which would write over what it has not read.
            let offer = || self.source.offer(documents.clone());
            match self.control.reload_after(offer).await {
                Ok(_) => return self.in_use(&documents).await,
                Err(Refusal::Busy) => {}
                // The next server applies it.
                Err(_) if self.control.state.get() == ServerState::Draining => return,
                Err(refusal) => return self.report.refused(documents.revision, refusal.errors()),
            }
        }
    }

    async fn in_use(&self, documents: &Arc<Documents>) {
        let version = self.control.plan().version.clone();
        self.report.serving(documents.revision, version, documents.canary.is_some());
        let revision = &families::CONFIG_ETCD_REVISION;
        self.control.telemetry.gauge(revision, &[]).set(documents.revision);
        if let Some(canary) = &documents.canary {
            event!(
                Level::Info,
                "serving a configuration on trial",
                event = "config_canary_served",
                version = canary.version,
                by = canary.by
            );
            // A start without etcd serves what all serve.
            return;
        }
        let (source, documents) = (self.source.clone(), documents.clone());
        // A disk that fails is logged there.
        let _ = net::blocking(move || source.keep(&documents)).await;
    }

    fn lost(&self, error: &EtcdError) {
        self.source.set_problem(Some(&error.to_string()));
    }
}
