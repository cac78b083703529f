//! What etcd has of a fleet: earlier configurations, and the reports of its servers.

use std::collections::BTreeMap;

use bytes::Bytes;
use etcd::messages::RangeRequest;
use etcd::{Etcd, EtcdError};
use serde_json::Value;

use super::{Fleet, all};
use crate::failure::Failure;

/// An earlier configuration.
pub(crate) struct HistoryEntry {
    pub(crate) version: String,
    pub(crate) at: String,
    pub(crate) by: String,
    pub(crate) is_current: bool,
}

/// The report of a server, as text.
pub(crate) struct NodeReport {
    pub(crate) name: String,
    pub(crate) version: String,
    pub(crate) revision: String,
    pub(crate) since: String,
    pub(crate) state: String,
}

impl Fleet {
    /// The configurations that were applied, the newest first.
    pub(crate) fn history(&self) -> Result<Vec<HistoryEntry>, Failure> {
        self.with_client(async |etcd| {
            let head = RangeRequest { key: self.address.head().into(), ..RangeRequest::default() };
            let head = etcd.range(&head).await.map_err(|error| self.failed(&error))?;
            let head = head.kvs.first().map(|kv| parsed(&kv.value)).unwrap_or_default();
            let entries = self.range(etcd, &self.address.history(), false).await?;
            let entry = |value: Value| HistoryEntry {
                is_current: value["version"] == head["version"] && value["at_ms"] == head["at_ms"],
                version: text(&value, "version"),
                at: time(&value),
                by: text(&value, "by"),
            };
            Ok(entries.iter().rev().map(|kv| entry(parsed(&kv.value))).collect())
        })
    }

    /// The documents of an earlier version.
    pub(crate) fn version(&self, version: &str) -> Result<BTreeMap<String, Bytes>, Failure> {
        let entries =
            self.with_client(async |etcd| self.range(etcd, &self.address.history(), false).await)?;
        let mut values = entries.iter().rev().map(|kv| parsed(&kv.value));
        let Some(value) = values.find(|value| value["version"] == version) else {
            let why = format!("there is no version {version}: `tidegate ctl history` lists them");
            return Err(Failure::Wrong(why));
        };
        let documents = value["documents"].as_object().cloned().unwrap_or_default();
        let bytes = |text: &Value| Bytes::from(text.as_str().unwrap_or_default().to_owned());
        Ok(documents.iter().map(|(name, text)| (name.clone(), bytes(text))).collect())
    }

    /// The report of each server, by name.
    pub(super) async fn reports(&self, etcd: &Etcd) -> Result<BTreeMap<String, Value>, EtcdError> {
        let prefix = self.address.reports();
        let reports = etcd.range(&all(&prefix)).await?.kvs;
        Ok(reports.iter().map(|kv| (name_of(&kv.key, &prefix), parsed(&kv.value))).collect())
    }

    /// What each server reports, as text.
    pub(crate) fn nodes(&self) -> Result<Vec<NodeReport>, Failure> {
        let reports = self.with_client(async |etcd| {
            self.reports(etcd).await.map_err(|error| self.failed(&error))
        })?;
        let report = |(name, value): (String, Value)| NodeReport {
            name,
            version: text(&value, "version"),
            revision: value["revision"].to_string(),
            since: time(&value),
            state: state(&value),
        };
        Ok(reports.into_iter().map(report).collect())
    }
}

/// The name of the server whose report has a key.
fn name_of(key: &[u8], prefix: &str) -> String {
    let name = key.strip_prefix(prefix.as_bytes()).unwrap_or_default();
    printable(&String::from_utf8_lossy(name))
}

fn state(report: &Value) -> String {
    let (refused, canary) = (&report["refused"], &report["canary"]);
    if refused.is_null() {
        return match canary.is_null() {
            true => "serving".to_owned(),
            false => {
                let (requests, errors) = (&canary["requests"], &canary["errors"]);
                format!("serving a canary: {errors} of {requests} responses are errors")
            }
        };
    }
    let errors = refused["errors"].as_array().into_iter().flatten().filter_map(Value::as_str);
    let first = errors.clone().next().map(printable).unwrap_or_default();
    let more = match errors.count() {
        0 | 1 => String::new(),
        count => format!(" (and {} more)", count - 1),
    };
    format!("revision {} refused: {first}{more}", refused["revision"])
}

/// A value that is not JSON is shown as empty.
fn parsed(value: &[u8]) -> Value {
    serde_json::from_slice(value).unwrap_or_default()
}

fn text(value: &Value, name: &str) -> String {
    value[name].as_str().map(printable).unwrap_or_default()
}

/// Without control characters: the texts come from etcd, and must not control the terminal.
pub(super) fn printable(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { '?' } else { c }).collect()
}

fn time(value: &Value) -> String {
    let mut out = Vec::new();
    if let Some(at_ms) = value["at_ms"].as_u64() {
        telemetry::timestamp::rfc3339(at_ms, &mut out);
    }
    String::from_utf8_lossy(&out).into_owned()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::{name_of, state, text};

    #[test]
    fn a_report_is_one_line_without_control_characters() {
        assert_eq!(state(&json!({ "refused": null })), "serving");
        let canary = json!({ "canary": { "requests": 7, "errors": 1 } });
        assert_eq!(state(&canary), "serving a canary: 1 of 7 responses are errors");
        let errors = json!(["a: \u{1b}[2J", "b"]);
        let refused = json!({ "refused": { "revision": 7, "errors": errors } });
        assert_eq!(state(&refused), "revision 7 refused: a: ?[2J (and 1 more)");
        assert_eq!(text(&json!({ "by": "a\nb" }), "by"), "a?b");
        assert_eq!(text(&json!(7), "by"), "");
        assert_eq!(name_of(b"/p/status/web-1\x1b[2J", "/p/status/"), "web-1?[2J");
    }
}
