//! What this server reports in etcd: a key with a lease, so that it vanishes with the server.

use std::cell::{Cell, RefCell};
use std::pin::pin;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use etcd::messages::{LeaseGrantRequest, LeaseRevokeRequest, PutRequest};
use etcd::{Etcd, EtcdError, PAUSE_MAX};
use net::timer;
use serde_json::{Value, json};
use telemetry::{Telemetry, class_index};
use tokio::sync::Notify;

/// How long a report outlives its server, in seconds.
const LEASE_S: i64 = 15;
/// The first pause after a failure.
const PAUSE: Duration = Duration::from_millis(500);
/// How often a node that serves a canary writes how many requests fail.
const CANARY_INTERVAL: Duration = Duration::from_secs(1);
/// Errors in a report, and bytes of each: a value in etcd is small.
const ERRORS: usize = 20;
const ERROR_BYTES: usize = 1000;

/// The report of this server.
pub(crate) struct EtcdReport {
    etcd: Rc<Etcd>,
    key: String,
    content: RefCell<ReportContent>,
    changed: Notify,
    lease: Cell<Option<i64>>,
    telemetry: Arc<Telemetry>,
}

#[derive(Clone, Default)]
struct ReportContent {
    /// The revision whose documents serve, and their version.
    serving: Option<(i64, String)>,
    /// The revision that was rejected last, and why, unless a later one serves.
    refused: Option<(i64, Vec<String>)>,
    at_ms: u64,
    /// Set while a canary is served: what was counted when that began.
    canary: Option<ResponseCount>,
}

/// Responses of this server, whatever their route.
#[derive(Clone, Copy, Default)]
struct ResponseCount {
    total: u64,
    /// Those of the class 5xx.
    errors: u64,
}

impl EtcdReport {
    pub(crate) fn new(etcd: Rc<Etcd>, key: String, telemetry: &Arc<Telemetry>) -> EtcdReport {
        let (changed, lease) = (Notify::new(), Cell::new(None));
        let telemetry = telemetry.clone();
        EtcdReport { etcd, key, content: RefCell::default(), changed, lease, telemetry }
    }

    fn counted(&self) -> ResponseCount {
        let workers = self.telemetry.workers();
        let of = |status| {
            let class = class_index(status);
            workers.iter().map(|(_, worker)| worker.responses(class)).sum::<u64>()
        };
        ResponseCount { total: of(200) + of(300) + of(400) + of(500), errors: of(500) }
    }

    /// True if the documents of this revision serve.
    pub(crate) fn is_serving(&self, revision: i64) -> bool {
        let content = self.content.borrow();
        content.refused.is_none()
            && content.serving.as_ref().is_some_and(|(serving, _)| *serving == revision)
    }

    pub(crate) fn serving(&self, revision: i64, version: String, is_canary: bool) {
        let at_ms = telemetry::timestamp::now_ms();
        // The same trial again, after the watch began again: its count continues.
        let before = self.content.borrow().clone();
        let is_same = before.serving.is_some_and(|(_, served)| served == version);
        let begun = before.canary.filter(|_| is_same);
        let canary = is_canary.then(|| begun.unwrap_or_else(|| self.counted()));
        let serving = Some((revision, version));
        self.content.replace(ReportContent { serving, refused: None, at_ms, canary });
        self.changed.notify_one();
    }

    pub(crate) fn refused(&self, revision: i64, mut errors: Vec<String>) {
        errors.truncate(ERRORS);
        for error in &mut errors {
            error.truncate(error.floor_char_boundary(ERROR_BYTES));
        }
        let mut content = self.content.borrow_mut();
        content.refused = Some((revision, errors));
        content.at_ms = telemetry::timestamp::now_ms();
        self.changed.notify_one();
    }

    fn is_canary(&self) -> bool {
        self.content.borrow().canary.is_some()
    }

    fn text(&self) -> Value {
        let content = self.content.borrow();
        let (revision, version) = content.serving.clone().unwrap_or_default();
        let refused = content.refused.as_ref();
        let canary = content.canary.map(|before| {
            let now = self.counted();
            let total = now.total.saturating_sub(before.total);
            json!({ "requests": total, "errors": now.errors.saturating_sub(before.errors) })
        });
        json!({
            "revision": revision,
            "version": version,
            "refused": refused.map(|(revision, errors)| json!({
                "revision": revision,
                "errors": errors,
            })),
            "canary": canary,
            "at_ms": content.at_ms,
            "build": env!("CARGO_PKG_VERSION"),
            "pid": std::process::id(),
        })
    }

    /// Writes the report and each change of it, as long as it is polled.
    pub(crate) async fn run(&self) {
        let mut failures = 0;
        loop {
            match self.report().await {
                // The lease was lost after it had been used.
                Ok(()) => failures = 0,
                Err(_) => failures += 1,
            }
            // The problem with etcd is shown by the task that follows the documents.
            timer::sleep(timer::pause(PAUSE, PAUSE_MAX, failures)).await;
        }
    }

    async fn report(&self) -> Result<(), EtcdError> {
        let lease = self.etcd.lease_grant(&LeaseGrantRequest { ttl: LEASE_S, id: 0 }).await?;
        self.lease.set(Some(lease.id));
        let mut lost = pin!(self.etcd.keep_alive(lease.id, lease.ttl));
        loop {
            let value = self.text().to_string().into();
            let key = self.key.clone().into();
            let request = PutRequest { key, value, lease: lease.id, ..PutRequest::default() };
            self.etcd.put(&request).await?;
            tokio::select! {
                _ = &mut lost => return Ok(()),
                () = self.changed.notified() => {}
                () = timer::sleep(CANARY_INTERVAL), if self.is_canary() => {}
            }
        }
    }

    /// Removes the report at once.
    pub(crate) async fn remove(&self) {
        if let Some(id) = self.lease.take() {
            // It ends by itself otherwise.
            let _ = self.etcd.lease_revoke(&LeaseRevokeRequest { id }).await;
        }
    }
}
