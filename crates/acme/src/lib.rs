//! Certificates from a certificate authority by ACME (RFC 8555): obtained, stored and renewed.
//!
//! Owns the tasks on the control thread that obtain certificates, the responses to challenges, and
//! the files of accounts and certificates. Promises: an attempt never changes what is served until
//! its certificate is stored as a whole; failures are tried again within the limits of the
//! certificate authority; several listeners, several processes with one directory, and the servers
//! of a fleet with one etcd, share one certificate. Presenting a stored certificate is the business
//! of the configuration that reads it: [`Acme::follow`] is given a function that requests a reload.
//! [`DevelopmentCertificate`] is issued by an authority of its own.

mod challenges;
mod client;
mod development;
mod dns_hook;
mod error;
mod issue;
mod schedule;
mod shared_storage;
mod storage;

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use etcd::Etcd;
use net::clock;
use plugin::Shared;
use telemetry::log::Level;
use telemetry::{Telemetry, event, families};
use tls_settings::{AcmeChallenge, AcmePlan};
use tokio::sync::{Notify, watch};

pub use challenges::respond_to_challenges;
pub use development::DevelopmentCertificate;

use challenges::HttpChallenges;
use error::IssueError;
use issue::issue;
use schedule::{BackOff, Renewal, renewal};
use shared_storage::SharedStorage;
use storage::StoredCertificate;

/// The certificates of a server, on its control thread.
pub struct Acme {
    challenges: Arc<HttpChallenges>,
    telemetry: Arc<Telemetry>,
    /// The tasks by the file of their certificate.
    tasks: RefCell<BTreeMap<PathBuf, Task>>,
    /// What the servers of a fleet share; followed while there are tasks or were some.
    shared: RefCell<Option<Rc<SharedStorage>>>,
    is_followed: Cell<bool>,
}

struct Task {
    plan: AcmePlan,
    stop: Rc<Notify>,
}

impl Acme {
    pub fn new(shared: &Shared, telemetry: &Arc<Telemetry>) -> Acme {
        Acme {
            challenges: HttpChallenges::of(shared),
            telemetry: telemetry.clone(),
            tasks: RefCell::default(),
            shared: RefCell::default(),
            is_followed: Cell::new(false),
        }
    }

    /// Shares accounts, certificates and challenges with the servers that have this etcd and
    /// prefix, which ends with a slash. Called before [`Acme::follow`].
    pub fn share(&self, etcd: &Rc<Etcd>, prefix: String) {
        self.shared.replace(Some(Rc::new(SharedStorage::new(etcd.clone(), prefix))));
    }

    /// Obtains and renews the certificates of these plans, and stops to do so for all others; an
    /// attempt in progress is finished. `on_issued` is called after a certificate was stored.
    pub fn follow<'p>(&self, plans: impl Iterator<Item = &'p AcmePlan>, on_issued: &Rc<dyn Fn()>) {
        let wanted: BTreeMap<_, _> =
            plans.map(|plan| (plan.certificate_file.clone(), plan)).collect();
        let mut tasks = self.tasks.borrow_mut();
        tasks.retain(|file, task| {
            let is_wanted = wanted.get(file).is_some_and(|plan| **plan == task.plan);
            if !is_wanted {
                task.stop.notify_one();
            }
            is_wanted
        });
        let shared = self.shared.borrow().clone();
        if let Some(shared) = shared.as_ref().filter(|_| !wanted.is_empty())
            && !self.is_followed.replace(true)
        {
            net::task::spawn_local(shared.clone().follow(self.challenges.clone()));
        }
        for (file, plan) in wanted {
            if tasks.contains_key(&file) {
                continue;
            }
            let stop = Rc::new(Notify::new());
            let renewer = CertificateRenewer {
                plan: plan.clone(),
                challenges: self.challenges.clone(),
                telemetry: self.telemetry.clone(),
                on_issued: on_issued.clone(),
                stop: stop.clone(),
                shared: shared.clone(),
            };
            // Exported from the start, or their first step is not an increase to Prometheus.
            for result in ["issued", "failed"] {
                self.telemetry.counter(&families::ACME_ORDERS, &[result]);
            }
            net::task::spawn_local(renewer.run());
            tasks.insert(file, Task { plan: plan.clone(), stop });
        }
    }
}

/// Keeps one certificate valid.
struct CertificateRenewer {
    plan: AcmePlan,
    challenges: Arc<HttpChallenges>,
    telemetry: Arc<Telemetry>,
    on_issued: Rc<dyn Fn()>,
    stop: Rc<Notify>,
    shared: Option<Rc<SharedStorage>>,
}

impl CertificateRenewer {
    async fn run(self) {
        let mut changes = self.shared.as_ref().map(|shared| shared.changes());
        self.synchronize().await;
        let mut back_off = BackOff::default();
        let (mut issued_secs, mut planned) = (None, None);
        loop {
            let stored = StoredCertificate::read(&self.plan.certificate_file).await;
            let renewal = match &stored {
                None => Renewal::now(),
                Some(stored) => renewal(&self.plan, stored, issued_secs).await,
            };
            let wait = renewal.wait(net::clock::wall_secs());
            if !wait.is_zero() {
                if planned.replace(renewal.at_secs) != Some(renewal.at_secs) {
                    self.planned(renewal);
                }
                if self.stopped_within(wait, &mut changes).await {
                    return;
                }
                // The certificate authority may have changed its mind, and another process may have
                // renewed the certificate.
                continue;
            }
            let challenge = self.challenge(back_off.attempt());
            let replaces = stored.as_ref().filter(|_| renewal.is_known_to_authority);
            let shared = self.shared.as_deref();
            let result = issue(&self.plan, challenge, replaces, &self.challenges, shared).await;
            let wait = match result {
                Ok(is_new) => {
                    match is_new {
                        true => self.issued(),
                        false => (self.on_issued)(),
                    }
                    issued_secs = Some(net::clock::wall_secs());
                    back_off = BackOff::default();
                    continue;
                }
                Err(IssueError::InProgress) => schedule::OTHER_PROCESS,
                Err(error) => {
                    let wait = back_off.next(&error);
                    self.failed(&error, challenge, back_off.attempt(), wait);
                    wait
                }
            };
            if self.stopped_within(wait, &mut changes).await {
                return;
            }
        }
    }

    /// Takes over what other servers have stored; whether that is another certificate.
    async fn synchronize(&self) -> bool {
        let Some(shared) = &self.shared else { return false };
        // Without etcd the stored certificate serves, and the next attempt says why it failed.
        let is_new = shared.synchronize(&self.plan).await.unwrap_or(false);
        if is_new {
            event!(
                Level::Info,
                "a certificate was obtained by another server",
                event = "acme_received",
                domains = self.plan.domains.join(" ")
            );
            (self.on_issued)();
        }
        is_new
    }

    /// The configured challenge, or one that has a chance.
    fn challenge(&self, attempt: u32) -> AcmeChallenge {
        match (self.plan.challenge, &self.plan.dns_hook, attempt % 2) {
            (Some(challenge), _, _) => challenge,
            (None, Some(_), _) => AcmeChallenge::Dns01,
            (None, None, 0) => AcmeChallenge::Http01,
            (None, None, _) => AcmeChallenge::TlsAlpn01,
        }
    }

    /// Waits until a time has passed or another server has obtained the certificate; true if this
    /// task is to end.
    async fn stopped_within(
        &self,
        wait: Duration,
        changes: &mut Option<watch::Receiver<u64>>,
    ) -> bool {
        let end = clock::now().after(wait);
        loop {
            let changed = async {
                if let Some(changes) = changes.as_mut()
                    && changes.changed().await.is_ok()
                {
                    return;
                }
                std::future::pending().await
            };
            let woken = async {
                tokio::select! {
                    () = self.stop.notified() => true,
                    () = changed => false,
                }
            };
            match net::timer::within(end.since(clock::now()), woken).await {
                None => return false,
                Some(true) => return true,
                Some(false) => {}
            }
            if self.synchronize().await {
                return false;
            }
        }
    }

    fn planned(&self, renewal: Renewal) {
        let mut renews_at = Vec::new();
        telemetry::timestamp::rfc3339(renewal.at_secs.saturating_mul(1000), &mut renews_at);
        event!(
            Level::Info,
            "a certificate is renewed later",
            event = "acme_renewal_planned",
            domains = self.plan.domains.join(" "),
            renews_at = String::from_utf8_lossy(&renews_at),
            chosen_by = if renewal.is_known_to_authority { "authority" } else { "lifetime" }
        );
    }

    fn issued(&self) {
        self.telemetry.counter(&families::ACME_ORDERS, &["issued"]).inc();
        event!(
            Level::Info,
            "a certificate was issued",
            event = "acme_issued",
            domains = self.plan.domains.join(" "),
            directory = self.plan.directory
        );
        (self.on_issued)();
    }

    fn failed(&self, error: &IssueError, challenge: AcmeChallenge, attempt: u32, wait: Duration) {
        self.telemetry.counter(&families::ACME_ORDERS, &["failed"]).inc();
        event!(
            Level::Error,
            "a certificate could not be obtained; the stored one, if any, stays in use",
            event = "acme_failed",
            domains = self.plan.domains.join(" "),
            directory = self.plan.directory,
            challenge = challenges::name(challenge),
            attempt = attempt,
            retry_in_s = wait.as_secs(),
            error = error
        );
    }
}
