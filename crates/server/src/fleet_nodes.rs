//! The nodes of a fleet by their reports in etcd, for the admin API and for `ctl nodes`.
//!
//! Promises that a page is bounded, and that a key that holds no report is a node without a version
//! and not an error: another program may have written it.

use std::rc::Rc;
use std::sync::Arc;

use admin::{CanaryResponses, FleetNodes, NodeReport, NodesWanted, RefusedRevision};
use etcd::messages::{KeyValue, RangeRequest, RangeResponse, prefix_end};
use etcd::{Etcd, EtcdError};
use serde_json::Value;

use crate::etcd_source::EtcdSource;

/// Reads the reports of all nodes on the control thread.
pub(crate) struct NodeReports {
    pub(crate) etcd: Rc<Etcd>,
    pub(crate) source: Arc<EtcdSource>,
}

impl NodeReports {
    pub(crate) async fn page(&self, wanted: &NodesWanted) -> Result<FleetNodes, EtcdError> {
        let prefix = self.source.address.reports();
        let response = self.etcd.range(&request(wanted, &prefix)).await?;
        let (source, node) = (self.source.address.to_string(), self.source.node.clone());
        Ok(FleetNodes { source, node, ..page_of(&response, &prefix) })
    }
}

fn request(wanted: &NodesWanted, prefix: &str) -> RangeRequest {
    let key = match &*wanted.after {
        "" => prefix.to_owned(),
        // The first key after that of the name.
        after => format!("{prefix}{after}\0"),
    };
    RangeRequest {
        key: key.into(),
        range_end: prefix_end(prefix.as_bytes()),
        limit: i64::try_from(wanted.limit).unwrap_or(i64::MAX),
        ..RangeRequest::default()
    }
}

fn page_of(response: &RangeResponse, prefix: &str) -> FleetNodes {
    let nodes = response.kvs.iter().map(|kv| read_report(kv, prefix)).collect();
    FleetNodes { nodes, has_more: response.more, ..FleetNodes::default() }
}

/// Reads the report with a key under this prefix.
pub fn read_report(kv: &KeyValue, prefix: &str) -> NodeReport {
    let name = kv.key.strip_prefix(prefix.as_bytes()).unwrap_or_default();
    let report: Value = serde_json::from_slice(&kv.value).unwrap_or_default();
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let refused = report["refused"].as_object().map(|refused| RefusedRevision {
        revision: refused.get("revision").and_then(Value::as_i64).unwrap_or_default(),
        errors: refused
            .get("errors")
            .and_then(Value::as_array)
            .map(|errors| errors.iter().map(text).collect())
            .unwrap_or_default(),
    });
    let canary = report["canary"].is_object().then(|| CanaryResponses {
        requests: report["canary"]["requests"].as_u64().unwrap_or_default(),
        errors: report["canary"]["errors"].as_u64().unwrap_or_default(),
    });
    NodeReport {
        name: String::from_utf8_lossy(name).into_owned(),
        version: text(&report["version"]),
        revision: report["revision"].as_i64().unwrap_or_default(),
        refused,
        canary,
        at_ms: report["at_ms"].as_u64().unwrap_or_default(),
        build: text(&report["build"]),
        process: report["pid"].as_u64().unwrap_or_default(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn kv(name: &str, value: &str) -> KeyValue {
        let key = format!("/p/status/{name}").into();
        KeyValue { key, value: value.to_owned().into(), ..KeyValue::default() }
    }

    fn report(value: &Value) -> NodeReport {
        read_report(&kv("web-1", &value.to_string()), "/p/status/")
    }

    #[test]
    fn a_report_is_read_as_it_is_written() {
        let serving = report(&json!({
            "revision": 7,
            "version": "5f0c",
            "refused": null,
            "canary": null,
            "at_ms": 12,
            "build": "0.1.0",
            "pid": 42,
        }));
        assert_eq!((&*serving.name, &*serving.version, serving.revision), ("web-1", "5f0c", 7));
        assert_eq!((serving.at_ms, &*serving.build, serving.process), (12, "0.1.0", 42));
        assert_eq!((serving.refused, serving.canary), (None, None));
        let errors = json!(["a.yaml:1: no", 7]);
        let refused = report(&json!({ "refused": { "revision": 8, "errors": errors } }));
        let refused = refused.refused.unwrap();
        assert_eq!((refused.revision, refused.errors.join("|")), (8, "a.yaml:1: no|".to_owned()));
        let canary = report(&json!({ "canary": { "requests": 9, "errors": 1 } }));
        assert_eq!(canary.canary, Some(CanaryResponses { requests: 9, errors: 1 }));
    }

    #[test]
    fn a_key_without_a_report_is_a_node_without_a_version() {
        for value in ["", "no JSON", "[]", "7"] {
            let node = read_report(&kv("x", value), "/p/status/");
            assert_eq!(node, NodeReport { name: "x".to_owned(), ..NodeReport::default() });
        }
    }

    #[test]
    fn a_page_begins_after_a_name_and_says_whether_there_are_more() {
        let wanted = |after: &str| NodesWanted { after: after.to_owned(), limit: 2 };
        let first = request(&wanted(""), "/p/status/");
        assert_eq!((&*first.key, first.limit), (&b"/p/status/"[..], 2));
        assert_eq!(&*first.range_end, b"/p/status0");
        assert_eq!(&*request(&wanted("web-1"), "/p/status/").key, b"/p/status/web-1\0");
        let kvs = vec![kv("a", "{}"), kv("b", "{}")];
        let response = RangeResponse { kvs, more: true, ..RangeResponse::default() };
        let page = page_of(&response, "/p/status/");
        assert_eq!((page.nodes.len(), page.has_more), (2, true));
    }
}
