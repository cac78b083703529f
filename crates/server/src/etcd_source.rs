//! A configuration in etcd as a source: the documents of one revision, from memory.
//!
//! Promises that a reload reads the documents of one revision; that a server starts without etcd
//! from the copy of what was last in use; and that documents that cannot be used replace neither
//! the copy nor what is served. `etcd_sync` keeps the documents up to date.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use config::{Document, NewConfig, ReplaceError, Source};
use etcd::{Etcd, EtcdError, EtcdSettings, PAUSE_MAX};
use net::clock::{self, Moment};
use net::{Resolver, timer};
use plugin::WorkerContext;
use sha2::{Digest, Sha256};
use telemetry::log::Level;
use telemetry::{SharedGauge, Telemetry, event, families};

use crate::etcd_address::EtcdAddress;
use crate::etcd_change::StoredDocuments;
use crate::etcd_documents::{DOCUMENTS_BYTES, Documents};

const ON_TRIAL: &str = "this server tries a configuration: its trial has to end";
/// How long a start waits for etcd if there is a copy on disk.
const START_WITHIN: Duration = Duration::from_secs(3);
/// The same without a copy.
const START_WITHOUT_COPY: Duration = Duration::from_secs(15);
/// The first pause of a start after a failure.
const START_PAUSE: Duration = Duration::from_millis(100);

/// The settings of a source in etcd.
pub struct EtcdOptions {
    pub address: EtcdAddress,
    /// With credentials and TLS.
    pub settings: EtcdSettings,
    /// The name under which this server reports.
    pub node: String,
    /// The directory of the copy on disk; the one for state unless set.
    pub state_dir: Option<PathBuf>,
}

/// The documents of a prefix.
pub struct EtcdSource {
    pub(crate) address: EtcdAddress,
    pub(crate) settings: EtcdSettings,
    pub(crate) node: String,
    file: PathBuf,
    state: Mutex<SourceState>,
    /// 1 while changes are received.
    followed: OnceLock<Arc<SharedGauge>>,
}

#[derive(Default)]
struct SourceState {
    /// What a reload reads.
    offered: Arc<Documents>,
    /// What is on disk.
    copy: Option<Arc<Documents>>,
    /// Why etcd cannot be followed.
    problem: Option<String>,
    /// Since when it cannot.
    alone_since: Option<Moment>,
}

impl EtcdSource {
    /// Reads the documents from etcd, or those on disk if etcd does not respond.
    pub fn open(options: EtcdOptions) -> Result<EtcdSource, String> {
        let EtcdOptions { address, settings, node, state_dir } = options;
        let directory = state_dir.or_else(tls_settings::state_directory);
        let directory = directory.ok_or("there is no directory for the copy: set --state-dir")?;
        let file = directory.join(copy_name(&address, &node));
        let state = Mutex::new(SourceState {
            copy: Documents::load(&file).map(Arc::new),
            ..SourceState::default()
        });
        let followed = OnceLock::new();
        let source = EtcdSource { address, settings, node, file, state, followed };
        let settings = EtcdSettings { message_bytes: DOCUMENTS_BYTES, ..source.settings.clone() };
        let fetched = net::worker::block_on_local(async {
            let etcd = Etcd::new(&WorkerContext::default(), Rc::new(Resolver::system()), settings)?;
            source.fetch_first(&etcd).await
        });
        let documents = match (fetched, source.copy()) {
            // A canary is put into use later, as by all its nodes.
            (Ok(documents), _) => Arc::new(documents.without_canary()),
            (Err(why), Some(copy)) => {
                source.state().problem = Some(why);
                copy
            }
            (Err(why), None) => {
                return Err(format!(
                    "{} cannot be read: {why}, and there is no copy in {}",
                    source.address,
                    source.file.display()
                ));
            }
        };
        source.offer(documents);
        Ok(source)
    }

    async fn fetch_first(&self, etcd: &Etcd) -> Result<Documents, String> {
        let limit = if self.copy().is_some() { START_WITHIN } else { START_WITHOUT_COPY };
        let prefix = self.address.documents();
        let mut last = "no response".to_owned();
        let fetch = async {
            let mut failures = 0;
            loop {
                match Documents::fetch(etcd, &prefix).await {
                    Ok(documents) => return Ok(documents),
                    Err(error) if error.is_passing() => last = error.to_string(),
                    Err(error) => return Err(error.to_string()),
                }
                // etcd may have responded with an error at once.
                timer::sleep(timer::pause(START_PAUSE, PAUSE_MAX, failures)).await;
                failures += 1;
            }
        };
        let fetched = timer::within(limit, fetch).await;
        fetched.unwrap_or_else(|| Err(format!("{last}, tried for {} s", limit.as_secs())))
    }

    /// Writes documents in place of those that this server has; returns their revision.
    async fn write(&self, before: &Documents, after: &Documents) -> Result<i64, ReplaceError> {
        let names = Rc::new(Resolver::system());
        let etcd = Etcd::new(&WorkerContext::default(), names, self.settings.clone());
        let etcd = etcd.map_err(ReplaceError::Failed)?;
        let failed =
            |error: EtcdError| ReplaceError::Failed(format!("etcd: {error}; nothing was changed"));
        let conflict = |why: &str| Err(ReplaceError::Conflict(why.to_owned()));
        let stored = StoredDocuments::fetch(&etcd, &self.address).await.map_err(failed)?;
        if let Some(canary) = &stored.documents.canary {
            return conflict(&format!("a canary of version {} is in progress", canary.version));
        }
        if stored.documents.texts != before.texts {
            return conflict("etcd has a newer configuration, which comes to this server");
        }
        let version = after.version();
        let by = format!("admin API of {}", self.node);
        let change = stored.change(&self.address, after, &version, &by);
        let change = change.map_err(ReplaceError::Failed)?;
        let unknown = |error: EtcdError| {
            ReplaceError::Failed(format!("etcd: {error}; it may have been changed"))
        };
        let response = etcd.txn(&change.request).await.map_err(unknown)?;
        match response.succeeded {
            true => Ok(response.header.map_or(0, |header| header.revision)),
            false => conflict("the configuration was changed in etcd in this moment"),
        }
    }

    fn state(&self) -> MutexGuard<'_, SourceState> {
        // Each step leaves it whole.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn offered(&self) -> Arc<Documents> {
        self.state().offered.clone()
    }

    pub(crate) fn copy(&self) -> Option<Arc<Documents>> {
        self.state().copy.clone()
    }

    /// Gives these documents to the next reload.
    pub(crate) fn offer(&self, documents: Arc<Documents>) {
        self.state().offered = documents;
    }

    /// Exports whether changes are received.
    pub(crate) fn count_into(&self, telemetry: &Telemetry) {
        let gauge = telemetry.gauge(&families::CONFIG_ETCD_FOLLOWED, &[]);
        self.followed.get_or_init(|| gauge);
        let is_followed = self.state().problem.is_none();
        self.show_followed(is_followed);
    }

    fn show_followed(&self, is_followed: bool) {
        if let Some(gauge) = self.followed.get() {
            gauge.set(i64::from(is_followed));
        }
    }

    /// Notes why etcd cannot be followed, or that it can, and logs the change.
    pub(crate) fn set_problem(&self, why: Option<&str>) {
        let before = {
            let mut state = self.state();
            let since = why.map(|_| state.alone_since.unwrap_or_else(clock::now));
            state.alone_since = since;
            std::mem::replace(&mut state.problem, why.map(str::to_owned))
        };
        self.show_followed(why.is_none());
        match why {
            Some(why) if before.is_none() => event!(
                Level::Warn,
                "etcd cannot be followed, serving the last configuration and trying again",
                revision = self.offered().revision,
                error = why
            ),
            None if before.is_some() => event!(Level::Info, "etcd is followed again"),
            _ => {}
        }
    }

    /// How long etcd could not be followed by now.
    pub(crate) fn alone_for(&self) -> Duration {
        self.state().alone_since.map_or(Duration::ZERO, |since| clock::now().since(since))
    }

    /// Stores documents that are in use, unless they are on disk already. Blocks.
    pub(crate) fn keep(&self, documents: &Arc<Documents>) {
        if self.copy().is_some_and(|copy| copy.texts == documents.texts) {
            return;
        }
        match documents.save(&self.file) {
            Ok(()) => self.state().copy = Some(documents.clone()),
            Err(error) => event!(
                Level::Error,
                "the copy of the configuration cannot be written; without etcd this server starts \
                 with an older one",
                file = self.file.display(),
                error = error
            ),
        }
    }
}

/// The name of the copy: several servers may have the same user, and several clusters the same
/// prefix.
fn copy_name(address: &EtcdAddress, node: &str) -> String {
    let hash = Sha256::digest(format!("{address}\n{node}"));
    let hash: String = hash.iter().take(8).map(|byte| format!("{byte:02x}")).collect();
    format!("etcd/{hash}.json")
}

impl Source for EtcdSource {
    fn main(&self) -> Result<Document, String> {
        let offered = self.offered();
        let document = offered.main()?;
        match offered.only() {
            Some(_) => Ok(document),
            None => Ok(Document { name: self.address.to_string(), ..document }),
        }
    }

    fn included(&self, pattern: &str, dir: Option<&Path>) -> Result<Vec<Document>, String> {
        self.offered().included(pattern, dir)
    }

    fn documents(&self) -> Result<BTreeMap<String, String>, String> {
        self.offered().to_texts()
    }

    /// Writes the one document, or all, to etcd, unless they were changed there since they were
    /// read. Blocks.
    fn replace(&self, new: &NewConfig) -> Result<(), ReplaceError> {
        let before = self.offered();
        let why = before.canary.as_ref().map(|_| ON_TRIAL.to_owned());
        let after = match (why, new, before.only()) {
            (None, NewConfig::Documents(texts), _) => Documents::of_texts(texts),
            (None, NewConfig::Main(text), Some((name, _))) => {
                Documents::of_texts(&[(name.clone(), text.clone())].into())
            }
            (why, _, _) => {
                let why = why.or_else(|| self.read_only()).unwrap_or_default();
                return Err(ReplaceError::ReadOnly(why));
            }
        };
        let revision = net::worker::block_on_local(self.write(&before, &after))?;
        // The watch delivers the same later.
        self.offer(Arc::new(Documents { revision, ..after }));
        Ok(())
    }

    fn read_only(&self) -> Option<String> {
        let offered = self.offered();
        if offered.canary.is_some() {
            return Some(ON_TRIAL.to_owned());
        }
        offered.only().is_none().then(|| {
            let count = offered.texts.len();
            format!(
                "the configuration in etcd has {count} documents: `tidegate ctl apply`, or PUT \
                 /v1/config?documents"
            )
        })
    }

    fn fall_back(&self) -> bool {
        let mut state = self.state();
        match state.copy.clone() {
            Some(copy) if copy.texts != state.offered.texts => {
                state.offered = copy;
                true
            }
            _ => false,
        }
    }

    fn problems(&self) -> Vec<String> {
        let state = self.state();
        let sentence = |why: &String| {
            format!("etcd: {why}; the configuration of revision {} is used", state.offered.revision)
        };
        state.problem.iter().map(sentence).collect()
    }
}
