//! The configuration of a fleet in etcd: reads and writes it.
//!
//! Promises that a change is one transaction, which fails if the configuration was changed since it
//! was read, and that nothing is written that this program rejects.

mod documents;
mod read;

use std::collections::BTreeMap;
use std::rc::Rc;

use bytes::Bytes;
use config::{Incomplete, Kinds};
use etcd::messages::{
    Compare, CompareTarget, DeleteRangeRequest, KeyValue, PutRequest, RangeRequest, RequestOp,
    RequestOpKind, TxnRequest, prefix_end,
};
use etcd::{Etcd, EtcdError, EtcdSettings};
use net::Resolver;
use plugin::WorkerContext;
use serde_json::{Value, json};
use server::{Documents, EtcdAddress, hostname};

use crate::failure::Failure;
pub(crate) use documents::read_documents;

/// Operations of a transaction that etcd accepts unless told otherwise (`--max-txn-ops`).
const OPERATIONS: usize = 128;
/// Bytes of a request that etcd accepts unless told otherwise (`--max-request-bytes`), without room
/// for keys.
const REQUEST_BYTES: usize = 1_400_000;
/// Earlier configurations that are kept.
const KEPT: usize = 20;

/// A fleet, and how its etcd is reached.
pub(crate) struct Fleet {
    pub(crate) address: EtcdAddress,
    pub(crate) settings: EtcdSettings,
}

/// The result of a change.
pub(crate) struct AppliedChange {
    pub(crate) version: String,
    /// `None` if nothing was written.
    pub(crate) revision: Option<i64>,
    pub(crate) changes: Vec<String>,
    pub(crate) notes: Vec<String>,
}

/// What etcd has, at one revision.
struct StoredFleet {
    documents: Documents,
    /// Of the last change by `apply`; 0 without any.
    head_revision: i64,
    /// Keys of earlier configurations, the oldest first.
    history: Vec<Bytes>,
}

impl Fleet {
    /// Runs requests with a client.
    fn with_client<T>(
        &self,
        work: impl AsyncFnOnce(&Etcd) -> Result<T, Failure>,
    ) -> Result<T, Failure> {
        net::worker::block_on_local(async {
            let names = Rc::new(Resolver::system());
            let etcd = Etcd::new(&WorkerContext::default(), names, self.settings.clone());
            work(&etcd.map_err(Failure::Wrong)?).await
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

    async fn present(&self, etcd: &Etcd) -> Result<StoredFleet, Failure> {
        let failed = |error: EtcdError| self.failed(&error);
        let prefix = self.address.documents();
        let documents = Documents::fetch(etcd, &prefix).await.map_err(failed)?;
        // At the same revision.
        let at = |request: RangeRequest| RangeRequest { revision: documents.revision, ..request };
        let head = RangeRequest { key: self.address.head().into(), ..RangeRequest::default() };
        let head = etcd.range(&at(head)).await.map_err(failed)?;
        let history = RangeRequest { keys_only: true, ..all(&self.address.history()) };
        let history = etcd.range(&at(history)).await.map_err(failed)?;
        Ok(StoredFleet {
            head_revision: head.kvs.first().map_or(0, |kv| kv.mod_revision),
            history: history.kvs.into_iter().map(|kv| kv.key).collect(),
            documents,
        })
    }

    /// Checks documents and writes them in place of those that etcd has.
    pub(crate) fn apply(
        &self,
        texts: BTreeMap<String, Bytes>,
        is_dry_run: bool,
    ) -> Result<AppliedChange, Failure> {
        let documents = Documents { revision: 0, texts };
        let loaded = checked(&documents)?;
        let version = version(&documents);
        self.with_client(async |etcd| {
            let present = self.present(etcd).await?;
            let mut changes = named_changes(&present.documents, &documents);
            let mut notes = Vec::new();
            if !loaded.unset.is_empty() {
                let names = loaded.unset.join(", ");
                notes.push(format!("not checked where {names} is needed, which is not set here"));
            }
            if let (Some(plan), Ok(Incomplete { plan: Some(before), .. })) =
                (&loaded.plan, checked(&present.documents))
            {
                changes.extend(server::changes(&before, plan));
            }
            let mut applied = AppliedChange { version, revision: None, changes, notes };
            if !is_dry_run && present.documents.texts != documents.texts {
                self.write(etcd, &present, &documents, &mut applied).await?;
            }
            Ok(applied)
        })
    }

    async fn write(
        &self,
        etcd: &Etcd,
        present: &StoredFleet,
        documents: &Documents,
        applied: &mut AppliedChange,
    ) -> Result<(), Failure> {
        let request = self.transaction(present, documents, applied)?;
        let response = etcd.txn(&request).await.map_err(|error| self.failed(&error))?;
        if !response.succeeded {
            let why = "the configuration was changed in the meantime; nothing was written\n\
                       Look at the changes with --dry-run and apply again.";
            return Err(Failure::Failed(why.to_owned()));
        }
        applied.revision = response.header.map(|header| header.revision);
        Ok(())
    }

    fn transaction(
        &self,
        present: &StoredFleet,
        documents: &Documents,
        applied: &mut AppliedChange,
    ) -> Result<TxnRequest, Failure> {
        let prefix = self.address.documents();
        let (before, after) = (&present.documents.texts, &documents.texts);
        let changed = after.iter().filter(|(name, text)| before.get(*name) != Some(text));
        let mut success: Vec<RequestOp> =
            changed.map(|(name, text)| put(format!("{prefix}{name}"), text.clone())).collect();
        let gone = before.keys().filter(|name| !after.contains_key(*name));
        success.extend(gone.map(|name| delete(format!("{prefix}{name}").into())));
        let at_ms = telemetry::timestamp::now_ms();
        let about = json!({ "version": applied.version, "at_ms": at_ms, "by": author() });
        success.push(put(self.address.head(), about.to_string().into()));
        let bytes: usize = success.iter().map(operation_bytes).sum();
        let entry = history_entry(&about, documents);
        if bytes + entry.len() <= REQUEST_BYTES {
            let name = format!("{}{at_ms:013}-{}", self.address.history(), applied.version);
            success.push(put(name, entry.into()));
            let excess = (present.history.len() + 1).saturating_sub(KEPT);
            success.extend(present.history.iter().take(excess.min(8)).cloned().map(delete));
        } else {
            let why = "it is too large for the history: it cannot be rolled back to";
            applied.notes.push(why.to_owned());
        }
        if success.len() > OPERATIONS || bytes > REQUEST_BYTES {
            return Err(Failure::Failed(format!(
                "{} changes with {bytes} bytes are more than etcd takes at once\n\
                 Put more into one document, or apply fewer changes.",
                success.len()
            )));
        }
        let unchanged = CompareTarget::ModRevision(present.documents.revision + 1);
        let mut compare = Compare::new(prefix.clone(), Compare::LESS, unchanged);
        compare.range_end = prefix_end(prefix.as_bytes());
        let head = CompareTarget::ModRevision(present.head_revision);
        let mut compare = vec![compare, Compare::new(self.address.head(), Compare::EQUAL, head)];
        // A document that was deleted since has no revision.
        let exists = |name: &String| {
            let never = CompareTarget::ModRevision(0);
            Compare::new(format!("{prefix}{name}"), Compare::GREATER, never)
        };
        compare.extend(before.keys().take(OPERATIONS - compare.len()).map(exists));
        Ok(TxnRequest { compare, success, failure: Vec::new() })
    }
}

/// A request for all keys with a prefix.
fn all(prefix: &str) -> RangeRequest {
    RangeRequest {
        key: Bytes::copy_from_slice(prefix.as_bytes()),
        range_end: prefix_end(prefix.as_bytes()),
        ..RangeRequest::default()
    }
}

fn put(key: String, value: Bytes) -> RequestOp {
    RequestOpKind::Put(PutRequest { key: key.into(), value, ..PutRequest::default() }).into()
}

fn delete(key: Bytes) -> RequestOp {
    RequestOpKind::DeleteRange(DeleteRangeRequest { key, ..DeleteRangeRequest::default() }).into()
}

/// Bytes of the key and value of an operation.
fn operation_bytes(operation: &RequestOp) -> usize {
    match &operation.request {
        Some(RequestOpKind::Put(put)) => put.key.len() + put.value.len(),
        Some(RequestOpKind::DeleteRange(delete)) => delete.key.len(),
        _ => 0,
    }
}

/// An entry of the history: what it is about, and the documents.
fn history_entry(about: &Value, documents: &Documents) -> String {
    let mut entry = about.clone();
    let texts = documents.texts.iter();
    entry["documents"] = texts
        .map(|(name, text)| (name.clone(), Value::from(String::from_utf8_lossy(text))))
        .collect();
    entry.to_string()
}

/// Checks documents as a server does; variables of the environment need not be set here.
fn checked(documents: &Documents) -> Result<Incomplete, Failure> {
    let kinds = Kinds::all();
    config::load_with_unset_variables(documents, &config::process_environment, &kinds)
        .map_err(|report| Failure::Errors(report.render()))
}

/// A short name of exactly these documents: as servers report it.
fn version(documents: &Documents) -> String {
    config::source_version(documents)
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

#[cfg(test)]
mod tests {
    use super::*;

    fn documents(texts: &[(&str, &str)]) -> Documents {
        let pair = |(name, text): &(&str, &str)| {
            ((*name).to_owned(), Bytes::copy_from_slice(text.as_bytes()))
        };
        Documents { revision: 7, texts: texts.iter().map(pair).collect() }
    }

    fn transaction(before: &Documents, after: &Documents) -> Result<TxnRequest, Failure> {
        let address: EtcdAddress = "etcd://a/p".parse().expect("an address");
        let settings = address.settings().expect("settings");
        let history = (0..KEPT).map(|at| Bytes::from(format!("/p/history/{at:013}-v"))).collect();
        let stored = StoredFleet { documents: before.clone(), head_revision: 5, history };
        let (changes, notes) = (Vec::new(), Vec::new());
        let mut change = AppliedChange { version: "v".to_owned(), revision: None, changes, notes };
        Fleet { address, settings }.transaction(&stored, after, &mut change)
    }

    fn keys(request: &TxnRequest) -> Vec<String> {
        let key = |operation: &RequestOp| match &operation.request {
            Some(RequestOpKind::Put(put)) => format!("put {:?}", put.key),
            Some(RequestOpKind::DeleteRange(delete)) => format!("delete {:?}", delete.key),
            other => format!("{other:?}"),
        };
        request.success.iter().map(key).collect()
    }

    #[test]
    fn only_what_differs_is_written_unless_another_change_was_faster() {
        let before = documents(&[("same", "1"), ("other", "1"), ("gone", "1")]);
        let after = documents(&[("same", "1"), ("other", "2"), ("new", "1")]);
        let request = transaction(&before, &after).expect("a transaction");
        let keys = keys(&request);
        let expected = [
            "put b\"/p/config/new\"",
            "put b\"/p/config/other\"",
            "delete b\"/p/config/gone\"",
            "put b\"/p/head\"",
        ];
        assert_eq!(keys[..4], expected);
        assert!(keys[4].starts_with("put b\"/p/history/"), "{keys:?}");
        assert_eq!(keys[5..], ["delete b\"/p/history/0000000000000-v\""]);
        let [documents, head, exist @ ..] = &request.compare[..] else { panic!("{request:?}") };
        assert_eq!(documents.target, Some(CompareTarget::ModRevision(8)));
        assert_eq!(
            (documents.result, &documents.range_end[..]),
            (Compare::LESS, &b"/p/config0"[..])
        );
        assert_eq!(head.target, Some(CompareTarget::ModRevision(5)));
        let exist: Vec<_> = exist.iter().map(|one| (&one.key[..], one.result)).collect();
        let expected = [&b"/p/config/gone"[..], b"/p/config/other", b"/p/config/same"];
        assert_eq!(exist, expected.map(|key| (key, Compare::GREATER)));
    }

    #[test]
    fn what_etcd_would_reject_is_not_sent() {
        let many: Vec<String> = (0..OPERATIONS).map(|number| number.to_string()).collect();
        let many: Vec<(&str, &str)> = many.iter().map(|name| (name.as_str(), "1")).collect();
        assert!(transaction(&documents(&[]), &documents(&many)).is_err());
        let long = "x".repeat(REQUEST_BYTES);
        assert!(transaction(&documents(&[]), &documents(&[("a", &long)])).is_err());
        let half = "x".repeat(REQUEST_BYTES / 2);
        let request = transaction(&documents(&[]), &documents(&[("a", &half)]));
        let keys = keys(&request.expect("without the history"));
        assert_eq!(keys, ["put b\"/p/config/a\"", "put b\"/p/head\""]);
    }
}
