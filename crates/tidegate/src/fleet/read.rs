//! What etcd has of a fleet: earlier configurations, and the reports of its servers.

use std::collections::BTreeMap;

use admin::NodeReport;
use bytes::Bytes;
use etcd::messages::RangeRequest;
use etcd::{Etcd, EtcdError};
use serde_json::Value;
use server::read_report;

use super::{Fleet, all};
use crate::failure::Failure;
use crate::terminal::for_terminal;

/// An earlier configuration.
pub(crate) struct HistoryEntry {
    pub(crate) version: String,
    pub(crate) at: String,
    pub(crate) by: String,
    pub(crate) is_current: bool,
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
                at: value["at_ms"].as_u64().map(time).unwrap_or_default(),
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
    pub(super) async fn reports(
        &self,
        etcd: &Etcd,
    ) -> Result<BTreeMap<String, NodeReport>, EtcdError> {
        let prefix = self.address.reports();
        let reports = etcd.range(&all(&prefix)).await?.kvs;
        let reports = reports.iter().map(|kv| read_report(kv, &prefix));
        Ok(reports.map(|report| (report.name.clone(), report)).collect())
    }

    /// What each server reports: its name, version, revision, time and state.
    pub(crate) fn nodes(&self) -> Result<Vec<[String; 5]>, Failure> {
        let reports = self.with_client(async |etcd| {
            self.reports(etcd).await.map_err(|error| self.failed(&error))
        })?;
        Ok(reports.values().map(row).collect())
    }
}

fn row(report: &NodeReport) -> [String; 5] {
    let (name, version) = (for_terminal(&report.name), for_terminal(&report.version));
    [name, version, report.revision.to_string(), time(report.at_ms), state(report)]
}

fn state(report: &NodeReport) -> String {
    let Some(refused) = &report.refused else {
        return match report.canary {
            None => "serving".to_owned(),
            Some(canary) => format!(
                "serving a canary: {} of {} responses are errors",
                canary.errors, canary.requests
            ),
        };
    };
    let first = refused.errors.first().map(|error| for_terminal(error)).unwrap_or_default();
    let more = match refused.errors.len() {
        0 | 1 => String::new(),
        count => format!(" (and {} more)", count - 1),
    };
    format!("revision {} refused: {first}{more}", refused.revision)
}

/// A value that is not JSON is shown as empty.
fn parsed(value: &[u8]) -> Value {
    serde_json::from_slice(value).unwrap_or_default()
}

fn text(value: &Value, name: &str) -> String {
    value[name].as_str().map(for_terminal).unwrap_or_default()
}

fn time(at_ms: u64) -> String {
    let mut out = Vec::new();
    telemetry::timestamp::rfc3339(at_ms, &mut out);
    String::from_utf8_lossy(&out).into_owned()
}

#[cfg(test)]
mod tests {
    use admin::{CanaryResponses, NodeReport, RefusedRevision};
    use serde_json::json;

    use super::{row, state, text};

    #[test]
    fn a_report_is_one_line_that_a_terminal_shows() {
        let node = NodeReport { name: "web-1\u{1b}[2J".to_owned(), ..NodeReport::default() };
        assert_eq!(state(&node), "serving");
        assert_eq!(row(&node)[0], "web-1\\u{1b}[2J");
        let canary = Some(CanaryResponses { requests: 7, errors: 1 });
        let canary = NodeReport { canary, ..NodeReport::default() };
        assert_eq!(state(&canary), "serving a canary: 1 of 7 responses are errors");
        let errors = ["a: \u{1b}[2J", "b"].map(str::to_owned).to_vec();
        let refused = Some(RefusedRevision { revision: 7, errors });
        let refused = NodeReport { refused, ..canary };
        assert_eq!(state(&refused), "revision 7 refused: a: \\u{1b}[2J (and 1 more)");
        assert_eq!(text(&json!({ "by": "a\nb" }), "by"), "a\\u{a}b");
        assert_eq!(text(&json!(7), "by"), "");
    }
}
