//! What this server reports in etcd: a key with a lease, so that it vanishes with the server.

use std::cell::{Cell, RefCell};
use std::pin::pin;
use std::rc::Rc;
use std::time::Duration;

use etcd::messages::{LeaseGrantRequest, LeaseRevokeRequest, PutRequest};
use etcd::{Etcd, EtcdError, PAUSE_MAX};
use net::timer;
use serde_json::{Value, json};
use tokio::sync::Notify;

/// How long a report outlives its server, in seconds.
const LEASE_S: i64 = 15;
/// The first pause after a failure.
const PAUSE: Duration = Duration::from_millis(500);
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
}

#[derive(Clone, Default)]
struct ReportContent {
    /// The revision whose documents serve, and their version.
    serving: Option<(i64, String)>,
    /// The revision that was rejected last, and why, unless a later one serves.
    refused: Option<(i64, Vec<String>)>,
    at_ms: u64,
}

impl EtcdReport {
    pub(crate) fn new(etcd: Rc<Etcd>, key: String) -> EtcdReport {
        let (changed, lease) = (Notify::new(), Cell::new(None));
        EtcdReport { etcd, key, content: RefCell::default(), changed, lease }
    }

    /// True if the documents of this revision serve.
    pub(crate) fn is_serving(&self, revision: i64) -> bool {
        let content = self.content.borrow();
        content.refused.is_none()
            && content.serving.as_ref().is_some_and(|(serving, _)| *serving == revision)
    }

    pub(crate) fn serving(&self, revision: i64, version: String) {
        let at_ms = telemetry::timestamp::now_ms();
        let serving = Some((revision, version));
        self.content.replace(ReportContent { serving, refused: None, at_ms });
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

    fn text(&self) -> Value {
        let content = self.content.borrow();
        let (revision, version) = content.serving.clone().unwrap_or_default();
        let refused = content.refused.as_ref();
        json!({
            "revision": revision,
            "version": version,
            "refused": refused.map(|(revision, errors)| json!({
                "revision": revision,
                "errors": errors,
            })),
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
