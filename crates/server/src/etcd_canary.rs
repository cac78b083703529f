//! A canary: documents on trial, which some nodes of a fleet serve in place of those of all.
//!
//! It is one key next to the documents, so that its begin, its end and its promotion are revisions
//! like all others. The key has a lease of the `ctl apply` that watches the trial: without it the
//! canary ends.

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;
use serde_json::{Map, Value, json};

/// A configuration on trial.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Canary {
    /// The version of the documents.
    pub version: String,
    /// The nodes that serve it.
    pub nodes: BTreeSet<String>,
    pub texts: BTreeMap<String, Bytes>,
    /// The user and machine that make the trial.
    pub by: String,
}

impl Canary {
    /// The name of its key among those of the documents: no document of `ctl apply` begins so.
    pub const NAME: &str = ".canary";

    /// Reads the value of the key; `None` if it is not one.
    pub fn parse(value: &[u8]) -> Option<Canary> {
        let value: Value = serde_json::from_slice(value).ok()?;
        let text = |value: &Value| value.as_str().map(str::to_owned);
        let documents = value["documents"].as_object()?.iter();
        let texts = documents.map(|(name, it)| Some((name.clone(), Bytes::from(text(it)?))));
        Some(Canary {
            version: text(&value["version"])?,
            nodes: value["nodes"].as_array()?.iter().map(text).collect::<Option<_>>()?,
            texts: texts.collect::<Option<_>>()?,
            by: text(&value["by"]).unwrap_or_default(),
        })
    }

    /// The value of the key.
    pub fn to_text(&self) -> String {
        let text = |bytes: &Bytes| Value::from(String::from_utf8_lossy(bytes));
        let texts = self.texts.iter().map(|(name, bytes)| (name.clone(), text(bytes)));
        let documents: Map<String, Value> = texts.collect();
        json!({
            "version": self.version,
            "nodes": self.nodes,
            "documents": documents,
            "by": self.by,
        })
        .to_string()
    }
}
