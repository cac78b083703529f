//! A change of the documents in etcd, as one transaction.
//!
//! Promises that it fails if the configuration was changed since it was read, and that what etcd
//! would reject is not sent.

use bytes::Bytes;
use etcd::messages::{
    Compare, CompareTarget, DeleteRangeRequest, PutRequest, RangeRequest, RequestOp, RequestOpKind,
    TxnRequest, prefix_end,
};
use etcd::{Etcd, EtcdError};
use serde_json::{Value, json};

use crate::etcd_address::EtcdAddress;
use crate::etcd_documents::Documents;

/// Operations of a transaction that etcd accepts unless told otherwise (`--max-txn-ops`).
const OPERATIONS: usize = 128;
/// Bytes of a request that etcd accepts unless told otherwise (`--max-request-bytes`), without room
/// for keys.
pub const REQUEST_BYTES: usize = 1_400_000;
/// Earlier configurations that are kept.
const KEPT: usize = 20;

/// What etcd has, at one revision.
pub struct StoredDocuments {
    pub documents: Documents,
    /// Of the last change; 0 without any.
    pub head_revision: i64,
    /// Keys of earlier configurations, the oldest first.
    pub history: Vec<Bytes>,
}

/// A transaction that changes the documents.
pub struct DocumentsChange {
    pub request: TxnRequest,
    /// False if the documents are too large for an entry in the history.
    pub has_history: bool,
}

impl StoredDocuments {
    pub async fn fetch(etcd: &Etcd, address: &EtcdAddress) -> Result<StoredDocuments, EtcdError> {
        let documents = Documents::fetch(etcd, &address.documents()).await?;
        // At the same revision.
        let at = |request: RangeRequest| RangeRequest { revision: documents.revision, ..request };
        let head = RangeRequest { key: address.head().into(), ..RangeRequest::default() };
        let head = etcd.range(&at(head)).await?;
        let prefix = address.history();
        let range_end = prefix_end(prefix.as_bytes());
        let history = RangeRequest {
            key: prefix.into(),
            range_end,
            keys_only: true,
            ..RangeRequest::default()
        };
        let history = etcd.range(&at(history)).await?;
        Ok(StoredDocuments {
            head_revision: head.kvs.first().map_or(0, |kv| kv.mod_revision),
            history: history.kvs.into_iter().map(|kv| kv.key).collect(),
            documents,
        })
    }

    /// A transaction that does nothing yet, and fails if the configuration was changed since it was
    /// read.
    pub fn unchanged(&self, address: &EtcdAddress) -> TxnRequest {
        let prefix = address.documents();
        let unchanged = CompareTarget::ModRevision(self.documents.revision + 1);
        let mut compare = Compare::new(prefix.clone(), Compare::LESS, unchanged);
        compare.range_end = prefix_end(prefix.as_bytes());
        let head = CompareTarget::ModRevision(self.head_revision);
        let mut compare = vec![compare, Compare::new(address.head(), Compare::EQUAL, head)];
        // A document that was deleted since has no revision.
        let exists = |name: &String| {
            let never = CompareTarget::ModRevision(0);
            Compare::new(format!("{prefix}{name}"), Compare::GREATER, never)
        };
        let names = self.documents.texts.keys();
        compare.extend(names.take(OPERATIONS - compare.len() - 1).map(exists));
        TxnRequest { compare, success: Vec::new(), failure: Vec::new() }
    }

    /// The transaction that writes other documents, with their version and author; a sentence if
    /// etcd would reject it.
    pub fn change(
        &self,
        address: &EtcdAddress,
        documents: &Documents,
        version: &str,
        by: &str,
    ) -> Result<DocumentsChange, String> {
        let prefix = address.documents();
        let (before, after) = (&self.documents.texts, &documents.texts);
        let changed = after.iter().filter(|(name, text)| before.get(*name) != Some(text));
        let mut success: Vec<RequestOp> =
            changed.map(|(name, text)| put(format!("{prefix}{name}"), text.clone())).collect();
        let gone = before.keys().filter(|name| !after.contains_key(*name));
        success.extend(gone.map(|name| delete(format!("{prefix}{name}").into())));
        if self.documents.canary.is_some() {
            success.push(delete(address.canary().into()));
        }
        let at_ms = telemetry::timestamp::now_ms();
        let about = json!({ "version": version, "at_ms": at_ms, "by": by });
        success.push(put(address.head(), about.to_string().into()));
        let bytes: usize = success.iter().map(operation_bytes).sum();
        let entry = history_entry(&about, documents);
        let has_history = bytes + entry.len() <= REQUEST_BYTES;
        if has_history {
            let name = format!("{}{at_ms:013}-{version}", address.history());
            success.push(put(name, entry.into()));
            let excess = (self.history.len() + 1).saturating_sub(KEPT);
            success.extend(self.history.iter().take(excess.min(8)).cloned().map(delete));
        }
        if success.len() > OPERATIONS {
            return Err(format!(
                "{} changes are more than etcd takes at once, which is {OPERATIONS}\n\
                 Put more into one document, or apply fewer changes.",
                success.len()
            ));
        }
        if bytes > REQUEST_BYTES {
            return Err(format!(
                "changes of {bytes} bytes are more than etcd takes at once, which is \
                 {REQUEST_BYTES}\n\
                 Apply fewer changes, or shorten the largest document."
            ));
        }
        let request = TxnRequest { success, ..self.unchanged(address) };
        Ok(DocumentsChange { request, has_history })
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

#[cfg(test)]
mod tests {
    use super::*;

    fn documents(texts: &[(&str, &str)]) -> Documents {
        let pair = |(name, text): &(&str, &str)| {
            ((*name).to_owned(), Bytes::copy_from_slice(text.as_bytes()))
        };
        Documents { revision: 7, texts: texts.iter().map(pair).collect(), canary: None }
    }

    fn transaction(before: &Documents, after: &Documents) -> Result<TxnRequest, String> {
        let address: EtcdAddress = "etcd://a/p".parse().expect("an address");
        let history = (0..KEPT).map(|at| Bytes::from(format!("/p/history/{at:013}-v"))).collect();
        let stored = StoredDocuments { documents: before.clone(), head_revision: 5, history };
        Ok(stored.change(&address, after, "v", "me")?.request)
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
