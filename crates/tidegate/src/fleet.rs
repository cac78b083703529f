//! The configuration of a fleet in etcd: reads and writes it.
//!
//! Promises that nothing is written that this program rejects. A change is the transaction of
//! `server::StoredDocuments`.

mod canary;
mod documents;
mod read;

use std::collections::BTreeMap;
use std::rc::Rc;

use bytes::Bytes;
use config::{Incomplete, Kinds};
use etcd::messages::{KeyValue, RangeRequest, TxnRequest, prefix_end};
use etcd::{Etcd, EtcdError, EtcdSettings};
use net::Resolver;
use plugin::WorkerContext;
use server::{Canary, Documents, EtcdAddress, StoredDocuments, hostname};

use crate::failure::Failure;
pub(crate) use canary::{AbortCondition, Trial};
pub(crate) use documents::read_documents;

/// A fleet, and how its etcd is reached.
pub(crate) struct Fleet {
    pub(crate) address: EtcdAddress,
    pub(crate) settings: EtcdSettings,
}

/// The result of a change.
#[derive(Clone)]
pub(crate) struct AppliedChange {
    pub(crate) version: String,
    /// `None` if nothing was written.
    pub(crate) revision: Option<i64>,
    pub(crate) changes: Vec<String>,
    pub(crate) notes: Vec<String>,
}

/// How a change is made.
pub(crate) enum Application {
    DryRun,
    AtOnce,
    /// On some servers first.
    Canary(Trial),
}

impl Fleet {
    /// Runs requests with a client.
    fn with_client<T>(
        &self,
        work: impl AsyncFnOnce(&Rc<Etcd>) -> Result<T, Failure>,
    ) -> Result<T, Failure> {
        net::worker::block_on_local(async {
            let names = Rc::new(Resolver::system());
            let etcd = Etcd::new(&WorkerContext::default(), names, self.settings.clone());
            work(&Rc::new(etcd.map_err(Failure::Wrong)?)).await
        })
    }

    fn failed(&self, error: &EtcdError) -> Failure {
        Failure::Failed(format!("{}: {error}", self.address))
    }

    async fn range(
        &self,
        etcd: &Etcd,
        prefix: &str,
        keys_only: bool,
    ) -> Result<Vec<KeyValue>, Failure> {
        let request = RangeRequest { keys_only, ..all(prefix) };
        Ok(etcd.range(&request).await.map_err(|error| self.failed(&error))?.kvs)
    }

    async fn present(&self, etcd: &Etcd) -> Result<StoredDocuments, Failure> {
        let stored = StoredDocuments::fetch(etcd, &self.address).await;
        stored.map_err(|error| self.failed(&error))
    }

    /// Checks documents and writes them in place of those that etcd has.
    pub(crate) fn apply(
        &self,
        texts: BTreeMap<String, Bytes>,
        how: &Application,
    ) -> Result<AppliedChange, Failure> {
        let documents = Documents { texts, ..Documents::default() };
        let loaded = checked(&documents)?;
        self.with_client(async |etcd| {
            let present = self.present(etcd).await?;
            let mut applied = compared(&present.documents, &documents, &loaded);
            if present.documents.texts == documents.texts {
                return Ok(applied);
            }
            match (how, &present.documents.canary) {
                (Application::DryRun, _) => {}
                (_, Some(canary)) => return Err(in_progress(canary)),
                (Application::AtOnce, None) => {
                    self.write(etcd, &present, &documents, &mut applied).await?;
                }
                (Application::Canary(trial), None) => {
                    self.try_out(etcd, trial, &present, &documents, &mut applied).await?;
                }
            }
            Ok(applied)
        })
    }

    async fn write(
        &self,
        etcd: &Etcd,
        present: &StoredDocuments,
        documents: &Documents,
        applied: &mut AppliedChange,
    ) -> Result<(), Failure> {
        let request = self.transaction(present, documents, applied)?;
        applied.revision = Some(self.commit(etcd, &request).await?);
        Ok(())
    }

    fn transaction(
        &self,
        present: &StoredDocuments,
        documents: &Documents,
        applied: &mut AppliedChange,
    ) -> Result<TxnRequest, Failure> {
        let change = present.change(&self.address, documents, &applied.version, &author());
        let change = change.map_err(Failure::Failed)?;
        if !change.has_history {
            let why = "it is too large for the history: it cannot be rolled back to";
            applied.notes.push(why.to_owned());
        }
        Ok(change.request)
    }

    /// Executes a transaction that fails if the configuration was changed since it was read;
    /// returns its revision.
    async fn commit(&self, etcd: &Etcd, request: &TxnRequest) -> Result<i64, Failure> {
        let response = etcd.txn(request).await.map_err(|error| self.failed(&error))?;
        if !response.succeeded {
            let why = "the configuration was changed in the meantime; nothing was written\n\
                       Look at the changes with --dry-run and apply again.";
            return Err(Failure::Failed(why.to_owned()));
        }
        Ok(response.header.map_or(0, |header| header.revision))
    }
}

/// What documents change, before anything is written.
fn compared(present: &Documents, documents: &Documents, loaded: &Incomplete) -> AppliedChange {
    let mut changes = named_changes(present, documents);
    let mut notes = Vec::new();
    if !loaded.unset.is_empty() {
        let names = loaded.unset.join(", ");
        notes.push(format!("not checked where {names} is needed, which is not set here"));
    }
    if let (Some(plan), Ok(Incomplete { plan: Some(before), .. })) =
        (&loaded.plan, checked(present))
    {
        changes.extend(server::changes(&before, plan));
    }
    AppliedChange { version: documents.version(), revision: None, changes, notes }
}

fn in_progress(canary: &Canary) -> Failure {
    Failure::Failed(format!(
        "a canary of version {} is in progress, by {}; nothing was written\n\
         Wait for its end, or end its `ctl apply`: the canary then ends within 15 s.",
        canary.version, canary.by
    ))
}

/// A request for all keys with a prefix.
fn all(prefix: &str) -> RangeRequest {
    RangeRequest {
        key: Bytes::copy_from_slice(prefix.as_bytes()),
        range_end: prefix_end(prefix.as_bytes()),
        ..RangeRequest::default()
    }
}

/// Checks documents as a server does; variables of the environment need not be set here.
fn checked(documents: &Documents) -> Result<Incomplete, Failure> {
    let kinds = Kinds::all();
    config::load_with_unset_variables(documents, &config::process_environment, &kinds)
        .map_err(|report| Failure::Errors(report.render()))
}

/// What happens to each document.
fn named_changes(before: &Documents, after: &Documents) -> Vec<String> {
    let gone = before.texts.keys().filter(|name| !after.texts.contains_key(*name));
    let gone = gone.map(|name| format!("document {name:?} removed"));
    let present = after.texts.iter().filter_map(|(name, text)| match before.texts.get(name) {
        None => Some(format!("document {name:?} added")),
        Some(old) if old != text => Some(format!("document {name:?} changed")),
        Some(_) => None,
    });
    present.chain(gone).collect()
}

/// The user and machine that make a change.
fn author() -> String {
    let variable = |name: &str| std::env::var(name).ok().filter(|value| !value.is_empty());
    let user = variable("SUDO_USER").or_else(|| variable("USER"));
    let user = user.unwrap_or_else(|| format!("user {}", net::user_id()));
    format!("{user}@{}", hostname())
}
