//! `ctl apply --canary`: some servers try a configuration; then all have it, or none.
//!
//! Promises that the decision is made from what the servers report; that a trial whose `ctl apply`
//! ends, or loses etcd, is ended by the lease of its key; and that all servers get exactly the
//! documents that were tried.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::rc::Rc;
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use admin::NodeReport;
use etcd::messages::{
    Compare, CompareTarget, LeaseGrantRequest, LeaseRevokeRequest, PutRequest, RequestOpKind,
};
use etcd::{Etcd, EtcdError};
use net::{clock, timer};
use server::{Canary, Documents, REQUEST_BYTES, StoredDocuments};
use settings::Percent;

use super::{AppliedChange, Fleet, author};
use crate::failure::Failure;
use crate::output::print;
use crate::terminal::for_terminal;

/// How long a canary outlives its `ctl apply`, in seconds.
const LEASE_S: i64 = 15;
/// Between two looks at the reports.
const INTERVAL: Duration = Duration::from_millis(500);
/// Responses from which on a share of errors means something.
const RESPONSES_MIN: u64 = 100;

/// A trial of a configuration.
pub(crate) struct Trial {
    /// The share of the servers; at least one.
    pub(crate) share: Percent,
    pub(crate) duration: settings::Duration,
    pub(crate) abort_if: AbortCondition,
}

/// What ends a trial early: `errors > 1%`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct AbortCondition {
    errors_above: Percent,
}

impl FromStr for AbortCondition {
    type Err = String;

    fn from_str(text: &str) -> Result<AbortCondition, String> {
        let Some((subject, limit)) = text.split_once('>') else {
            return Err("is not a condition such as 'errors > 1%'".to_owned());
        };
        match subject.trim() {
            "errors" => {
                let limit = limit.trim();
                let errors_above =
                    limit.parse::<Percent>().map_err(|why| format!("{limit} {why}"))?;
                Ok(AbortCondition { errors_above })
            }
            other => Err(format!("{other:?} is unknown: the condition is 'errors > SHARE'")),
        }
    }
}

/// What the servers of a trial have reported.
#[derive(Debug, Default, PartialEq, Eq)]
struct Observed {
    /// Servers that serve the documents on trial.
    serving: usize,
    requests: u64,
    errors: u64,
}

impl Observed {
    fn is_above(&self, limit: AbortCondition) -> bool {
        self.errors as f64 > self.requests as f64 * limit.errors_above.fraction()
    }

    fn share(&self) -> String {
        let share = self.errors as f64 / self.requests.max(1) as f64 * 100.0;
        format!("{share:.2}% of {} responses were errors", self.requests)
    }
}

/// A trial in progress.
struct RunningTrial<'t> {
    trial: &'t Trial,
    canary: Canary,
    /// The revision at which it began.
    revision: i64,
    /// The processes of its servers: one that ends has failed.
    processes: BTreeMap<String, u64>,
    /// How many of them have served it.
    served: usize,
}

impl RunningTrial<'_> {
    /// Reads the reports of all servers; an error is why the trial has failed.
    fn observe(&mut self, reports: &BTreeMap<String, NodeReport>) -> Result<Observed, String> {
        let mut observed = Observed::default();
        for (name, process) in &self.processes {
            let Some(report) = reports.get(name) else {
                return Err(format!("{name} does not report any more"));
            };
            if report.process != *process {
                return Err(format!("{name} was restarted"));
            }
            let refused = report.refused.as_ref();
            if let Some(refused) = refused.filter(|refused| refused.revision >= self.revision) {
                let why = refused.errors.first().map(String::as_str).unwrap_or_default();
                return Err(format!("{name} rejects it: {}", for_terminal(why)));
            }
            let Some(counted) = report.canary.filter(|_| report.version == self.canary.version)
            else {
                continue;
            };
            observed.serving += 1;
            observed.requests += counted.requests;
            observed.errors += counted.errors;
        }
        if observed.serving < self.served {
            return Err("a server does not serve it any more".to_owned());
        }
        self.served = observed.serving;
        let limit = self.trial.abort_if;
        if observed.requests >= RESPONSES_MIN && observed.is_above(limit) {
            return Err(observed.share());
        }
        Ok(observed)
    }

    /// The result of a trial whose time is over.
    fn conclude(&self, observed: &Observed) -> Result<String, String> {
        if observed.serving < self.processes.len() {
            let all = self.processes.len();
            return Err(format!("only {} of {all} servers serve it", observed.serving));
        }
        match observed.requests {
            0 => Err("no request was served: nothing is known".to_owned()),
            _ if observed.is_above(self.trial.abort_if) => Err(observed.share()),
            _ => Ok(observed.share()),
        }
    }
}

impl Fleet {
    /// Lets some servers serve documents for a time; then writes them for all, or for none.
    pub(super) async fn try_out(
        &self,
        etcd: &Rc<Etcd>,
        trial: &Trial,
        present: &StoredDocuments,
        documents: &Documents,
        applied: &mut AppliedChange,
    ) -> Result<(), Failure> {
        // What etcd would reject at the end is not tried.
        self.transaction(present, documents, &mut applied.clone())?;
        let reports = self.reports(etcd).await.map_err(|error| self.failed(&error))?;
        let version = documents.version();
        let nodes = chosen(&version, &reports, trial.share)?;
        let processes = nodes.iter().map(|name| (name.clone(), reports[name].process));
        let processes = processes.collect();
        let nodes = nodes.into_iter().collect();
        let canary = Canary { version, nodes, texts: documents.texts.clone(), by: author() };
        let lease = etcd.lease_grant(&LeaseGrantRequest { ttl: LEASE_S, id: 0 }).await;
        let lease = lease.map_err(|error| self.failed(&error))?;
        let revision = self.begin(etcd, present, &canary, lease.id).await?;
        let running = RunningTrial { trial, canary, revision, processes, served: 0 };
        let result = self.run(etcd, running, (lease.id, lease.ttl), documents, applied).await;
        // It is gone already if the documents were written, and ends by itself if etcd is.
        let _ = etcd.lease_revoke(&LeaseRevokeRequest { id: lease.id }).await;
        result
    }

    /// Writes the key of the canary; returns its revision.
    async fn begin(
        &self,
        etcd: &Etcd,
        present: &StoredDocuments,
        canary: &Canary,
        lease: i64,
    ) -> Result<i64, Failure> {
        let text = canary.to_text();
        if text.len() > REQUEST_BYTES {
            let why = "it is too large for a canary: etcd takes 1.4 MB at once";
            return Err(Failure::Failed(why.to_owned()));
        }
        let key = self.address.canary();
        let mut request = present.unchanged(&self.address);
        request.compare.push(Compare::new(
            key.clone(),
            Compare::EQUAL,
            CompareTarget::CreateRevision(0),
        ));
        let put = PutRequest { key: key.into(), value: text.into(), lease, ..Default::default() };
        request.success.push(RequestOpKind::Put(put).into());
        self.commit(etcd, &request).await
    }

    async fn run(
        &self,
        etcd: &Rc<Etcd>,
        mut running: RunningTrial<'_>,
        (lease, ttl): (i64, i64),
        documents: &Documents,
        applied: &mut AppliedChange,
    ) -> Result<(), Failure> {
        let nodes: Vec<&str> = running.canary.nodes.iter().map(String::as_str).collect();
        let (version, time) = (&running.canary.version, running.trial.duration);
        print(&format!("version {version} is tried on {} for {time}\n", nodes.join(", ")))?;
        let lost = Rc::new(RefCell::new(None));
        let (keeper, noted) = (etcd.clone(), lost.clone());
        let keeping = net::task::spawn_local(async move {
            let error = keeper.keep_alive(lease, ttl).await;
            noted.replace(Some(error));
        });
        let result = self.observe_until_end(etcd, &mut running, &lost).await;
        let result = match result {
            Ok(share) => {
                applied.notes.push(format!("in the trial {share}"));
                self.promote(etcd, &running, documents, applied).await
            }
            Err(why) => Err(Failure::Failed(format!(
                "the trial of version {} has failed: {why}\n\
                 All servers serve the previous version.",
                running.canary.version
            ))),
        };
        keeping.abort();
        result
    }

    /// Looks at the reports until the time is over; returns what was seen, or why the trial failed.
    async fn observe_until_end(
        &self,
        etcd: &Etcd,
        running: &mut RunningTrial<'_>,
        lost: &RefCell<Option<EtcdError>>,
    ) -> Result<String, String> {
        let end = clock::now().after(running.trial.duration.get());
        loop {
            timer::sleep(INTERVAL).await;
            if let Some(error) = lost.borrow().as_ref() {
                return Err(format!("etcd is lost: {error}"));
            }
            // An etcd that is away for a short time ends no trial: the lease does.
            let Ok(reports) = self.reports(etcd).await else { continue };
            let observed = running.observe(&reports)?;
            if clock::now() >= end {
                return running.conclude(&observed);
            }
        }
    }

    /// Writes the documents for all servers and ends the canary, in one revision.
    async fn promote(
        &self,
        etcd: &Etcd,
        running: &RunningTrial<'_>,
        documents: &Documents,
        applied: &mut AppliedChange,
    ) -> Result<(), Failure> {
        let present = self.present(etcd).await?;
        if present.documents.canary != Some(Arc::new(running.canary.clone())) {
            let why = "the canary was removed by something else; nothing was written";
            return Err(Failure::Failed(why.to_owned()));
        }
        // A change since its begin was not tried together with it.
        let tried = StoredDocuments {
            documents: Documents { revision: running.revision, ..present.documents.clone() },
            ..present
        };
        self.write(etcd, &tried, documents, applied).await
    }
}

/// The servers that try a version: others for each version.
fn chosen(
    version: &str,
    reports: &BTreeMap<String, NodeReport>,
    share: Percent,
) -> Result<Vec<String>, Failure> {
    if reports.is_empty() {
        let why = "no server reports: there is nothing to try it on";
        return Err(Failure::Failed(why.to_owned()));
    }
    let mut names: Vec<&String> = reports.keys().collect();
    names.sort_by_cached_key(|name| {
        let mut hasher = DefaultHasher::new();
        (version, name).hash(&mut hasher);
        hasher.finish()
    });
    let count = (reports.len() as f64 * share.fraction()).ceil() as usize;
    Ok(names.into_iter().take(count.max(1)).cloned().collect())
}

#[cfg(test)]
mod tests {
    use admin::{CanaryResponses, RefusedRevision};

    use super::*;

    fn trial() -> Trial {
        Trial {
            share: "5%".parse().unwrap(),
            duration: settings::Duration::from_secs(600),
            abort_if: "errors > 1%".parse().unwrap(),
        }
    }

    fn running(trial: &Trial) -> RunningTrial<'_> {
        let canary = Canary {
            version: "v2".to_owned(),
            nodes: ["a", "b"].map(str::to_owned).into(),
            texts: BTreeMap::new(),
            by: String::new(),
        };
        let processes = [("a", 1), ("b", 2)].map(|(name, process)| (name.to_owned(), process));
        RunningTrial { trial, canary, revision: 7, processes: processes.into(), served: 0 }
    }

    fn report(process: u64, version: &str, counted: Option<(u64, u64)>) -> NodeReport {
        let canary = counted.map(|(requests, errors)| CanaryResponses { requests, errors });
        NodeReport { process, version: version.to_owned(), canary, ..NodeReport::default() }
    }

    fn reports(a: NodeReport, b: NodeReport) -> BTreeMap<String, NodeReport> {
        [("a", a), ("b", b)].map(|(name, value)| (name.to_owned(), value)).into()
    }

    #[test]
    fn a_trial_is_decided_by_the_reports_of_its_servers() {
        let trial = trial();
        let mut one = running(&trial);
        // Not yet, then the first, then both.
        let (old, new) = (
            |pid| report(pid, "v1", None),
            |pid, all, errors| report(pid, "v2", Some((all, errors))),
        );
        let observed = one.observe(&reports(old(1), old(2))).unwrap();
        assert!(one.conclude(&observed).unwrap_err().contains("only 0 of 2"));
        let observed = one.observe(&reports(new(1, 0, 0), old(2))).unwrap();
        assert!(one.conclude(&observed).unwrap_err().contains("only 1 of 2"));
        let observed = one.observe(&reports(new(1, 0, 0), new(2, 0, 0))).unwrap();
        assert!(one.conclude(&observed).unwrap_err().contains("nothing is known"));
        // Few responses decide at the end only.
        let observed = one.observe(&reports(new(1, 50, 1), new(2, 40, 0))).unwrap();
        assert_eq!(observed, Observed { serving: 2, requests: 90, errors: 1 });
        assert!(one.conclude(&observed).unwrap_err().contains("1.11% of 90"));
        let observed = one.observe(&reports(new(1, 100, 1), new(2, 100, 1))).unwrap();
        assert_eq!(one.conclude(&observed).unwrap(), "1.00% of 200 responses were errors");
        let mut fails = |a: NodeReport, b: NodeReport| one.observe(&reports(a, b)).unwrap_err();
        assert!(fails(new(1, 100, 2), new(2, 100, 1)).contains("1.50% of 200"));
        assert!(fails(new(9, 100, 0), new(2, 100, 0)).contains("a was restarted"));
        assert!(fails(new(1, 1, 0), old(2)).contains("does not serve it any more"));
        let only = BTreeMap::from([("a".to_owned(), new(1, 1, 0))]);
        assert!(one.observe(&only).unwrap_err().contains("b does not report"));
        // Rejected: this one, not an earlier one.
        let refused = |revision: i64| {
            let mut report = report(2, "v1", None);
            let errors = vec!["a.yaml:1: no".to_owned()];
            report.refused = Some(RefusedRevision { revision, errors });
            report
        };
        let mut two = running(&trial);
        assert!(two.observe(&reports(old(1), refused(6))).is_ok());
        let why = two.observe(&reports(old(1), refused(7))).unwrap_err();
        assert!(why.contains("b rejects it: a.yaml:1: no"), "{why}");
    }

    #[test]
    fn conditions_are_shares_of_errors() {
        let condition: AbortCondition = "errors>0.5%".parse().unwrap();
        assert_eq!(condition.errors_above.fraction(), 0.005);
        for (text, why) in [
            ("errors < 1%", "such as 'errors > 1%'"),
            ("latency > 1%", "\"latency\" is unknown"),
            ("errors > 1", "has no unit: write 1%"),
        ] {
            let error = text.parse::<AbortCondition>().unwrap_err();
            assert!(error.contains(why), "{text}: {error}");
        }
    }

    #[test]
    fn a_share_of_the_servers_is_chosen_and_never_none() {
        let reports: BTreeMap<String, NodeReport> =
            (0..40).map(|at| (format!("n{at}"), NodeReport::default())).collect();
        let count = |share: &str| chosen("v", &reports, share.parse().unwrap()).unwrap().len();
        assert_eq!(["0%", "5%", "6%", "100%"].map(count), [1, 2, 3, 40]);
        let of = |version: &str| chosen(version, &reports, "5%".parse().unwrap()).unwrap();
        assert_eq!(of("v"), of("v"));
        assert_ne!(of("v"), of("w"), "not always the same servers");
        assert!(chosen("v", &BTreeMap::new(), "5%".parse().unwrap()).is_err());
    }
}
