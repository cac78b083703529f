//! The documents of one revision, and the copy of them on disk.

use std::collections::BTreeMap;
use std::fs;
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;
use config::{Document, Source};
use etcd::messages::{RangeRequest, RangeResponse, WatchResponse, prefix_end};
use etcd::{Etcd, EtcdError};
use serde_json::{Map, Value, json};

use crate::etcd_canary::Canary;

/// Bytes of all documents together.
pub(crate) const DOCUMENTS_BYTES: usize = 64 * 1024 * 1024;

/// Names all documents.
const MAIN: &str = "include: [\"*\"]\n";

/// The documents under a prefix at one revision of etcd, which together are one configuration.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Documents {
    pub revision: i64,
    pub texts: BTreeMap<String, Bytes>,
    /// The canary in progress; in documents that a node serves, the one that they are from.
    pub canary: Option<Arc<Canary>>,
}

impl Documents {
    /// Reads the documents under a prefix.
    pub async fn fetch(etcd: &Etcd, prefix: &str) -> Result<Documents, EtcdError> {
        let request = RangeRequest {
            key: Bytes::copy_from_slice(prefix.as_bytes()),
            range_end: prefix_end(prefix.as_bytes()),
            ..RangeRequest::default()
        };
        Ok(Documents::of(&etcd.range(&request).await?, prefix))
    }

    pub fn of(response: &RangeResponse, prefix: &str) -> Documents {
        let revision = response.header.map_or(0, |header| header.revision);
        let mut documents = Documents { revision, ..Documents::default() };
        for kv in &response.kvs {
            let Some(name) = name_of(&kv.key, prefix) else { continue };
            documents.put(name, &kv.value);
        }
        documents
    }

    /// A set of documents that is in no etcd yet.
    pub(crate) fn of_texts(texts: &BTreeMap<String, String>) -> Documents {
        let texts = texts.iter().map(|(name, text)| (name.clone(), Bytes::from(text.clone())));
        Documents { texts: texts.collect(), ..Documents::default() }
    }

    /// The texts by name; a sentence if one is not text.
    pub(crate) fn to_texts(&self) -> Result<BTreeMap<String, String>, String> {
        let texts = self.texts.iter().map(|(name, text)| Ok((name.clone(), utf8(name, text)?)));
        texts.collect()
    }

    /// A short name of exactly these documents, which is that of their plan.
    pub fn version(&self) -> String {
        config::source_version(self)
    }

    fn put(&mut self, name: String, value: &Bytes) {
        match name == Canary::NAME {
            true => self.canary = Canary::parse(value).map(Arc::new),
            // Detached from the message that it arrived in.
            false => drop(self.texts.insert(name, Bytes::copy_from_slice(value))),
        }
    }

    fn remove(&mut self, name: &str) {
        match name == Canary::NAME {
            true => self.canary = None,
            false => drop(self.texts.remove(name)),
        }
    }

    /// What a node serves: the canary if it is one of its nodes, and the documents otherwise.
    #[must_use]
    pub(crate) fn for_node(&self, node: &str) -> Documents {
        match self.canary.as_ref().filter(|canary| canary.nodes.contains(node)) {
            Some(canary) => Documents {
                revision: self.revision,
                texts: canary.texts.clone(),
                canary: Some(canary.clone()),
            },
            None => self.without_canary(),
        }
    }

    /// The document, if there is exactly one.
    pub(crate) fn only(&self) -> Option<(&String, &Bytes)> {
        self.texts.iter().next().filter(|_| self.texts.len() == 1)
    }

    /// What nodes serve that do not take part in a canary.
    #[must_use]
    pub(crate) fn without_canary(&self) -> Documents {
        Documents { canary: None, ..self.clone() }
    }

    /// Takes over the changes of a watch; false if the documents become too large.
    pub(crate) fn apply(&mut self, response: &WatchResponse, prefix: &str) -> bool {
        for event in &response.events {
            let Some(kv) = &event.kv else { continue };
            let Some(name) = name_of(&kv.key, prefix) else { continue };
            match event.is_delete() {
                true => self.remove(&name),
                false => self.put(name, &kv.value),
            }
            self.revision = kv.mod_revision;
        }
        self.texts.values().map(Bytes::len).sum::<usize>() <= DOCUMENTS_BYTES
    }

    /// Reads the copy in a file; `None` if there is none that can be used.
    pub(crate) fn load(file: &Path) -> Option<Documents> {
        let value: Value = serde_json::from_slice(&fs::read(file).ok()?).ok()?;
        let texts = value["documents"]
            .as_object()?
            .iter()
            .map(|(name, text)| Some((name.clone(), Bytes::from(text.as_str()?.to_owned()))));
        let revision = value["revision"].as_i64()?;
        Some(Documents { revision, texts: texts.collect::<Option<_>>()?, canary: None })
    }

    /// Writes the copy, which only its owner may read: documents may contain secrets. A crash
    /// leaves the old one or the new one.
    pub(crate) fn save(&self, file: &Path) -> io::Result<()> {
        let text = |text: &Bytes| Value::String(String::from_utf8_lossy(text).into_owned());
        let documents: Map<String, Value> =
            self.texts.iter().map(|(name, bytes)| (name.clone(), text(bytes))).collect();
        let content = json!({ "revision": self.revision, "documents": documents }).to_string();
        if let Some(directory) = file.parent() {
            fs::DirBuilder::new().recursive(true).mode(0o700).create(directory)?;
        }
        let temporary = file.with_extension(format!("{}.new", std::process::id()));
        let written = (|| {
            let mut options = fs::OpenOptions::new();
            let mut out =
                options.write(true).create(true).truncate(true).mode(0o600).open(&temporary)?;
            out.write_all(content.as_bytes())?;
            out.sync_all()?;
            fs::rename(&temporary, file)
        })();
        if written.is_err() {
            // The first error is the one to report.
            let _ = fs::remove_file(&temporary);
        }
        written
    }
}

impl Source for Documents {
    fn main(&self) -> Result<Document, String> {
        if self.texts.is_empty() {
            let why = "there are no documents in etcd: `tidegate ctl apply` writes them";
            return Err(why.to_owned());
        }
        // One document is the configuration itself, which the admin API can replace.
        match self.only() {
            Some((name, text)) => document(name, text),
            None => Ok(Document { name: "etcd".to_owned(), text: MAIN.to_owned(), dir: None }),
        }
    }

    fn included(&self, _: &str, _: Option<&Path>) -> Result<Vec<Document>, String> {
        self.texts.iter().map(|(name, text)| document(name, text)).collect()
    }
}

fn document(name: &str, text: &Bytes) -> Result<Document, String> {
    Ok(Document { name: name.to_owned(), text: utf8(name, text)?, dir: None })
}

fn utf8(name: &str, text: &Bytes) -> Result<String, String> {
    let text = String::from_utf8(text.to_vec());
    text.map_err(|_| format!("the document {name:?} is not UTF-8 text"))
}

/// The name of the document with a key; `None` for a key without a name.
fn name_of(key: &[u8], prefix: &str) -> Option<String> {
    let name = key.strip_prefix(prefix.as_bytes())?;
    (!name.is_empty()).then(|| String::from_utf8_lossy(name).into_owned())
}

#[cfg(test)]
mod simulation;

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use etcd::messages::{Event, KeyValue};

    use super::*;

    fn changed(kind: i32, key: &str, value: &str, mod_revision: i64) -> WatchResponse {
        let (key, value) = (key.to_owned().into(), value.to_owned().into());
        let kv = Some(KeyValue { key, value, mod_revision, ..KeyValue::default() });
        WatchResponse { events: vec![Event { kind, kv, prev_kv: None }], ..Default::default() }
    }

    #[test]
    fn changes_are_taken_over() {
        let mut documents = Documents::default();
        assert!(documents.apply(&changed(0, "/p/config/a", "1", 5), "/p/config/"));
        assert!(documents.apply(&changed(0, "/p/config/", "no name", 6), "/p/config/"));
        assert!(documents.apply(&changed(0, "/other", "1", 7), "/p/config/"));
        assert_eq!((documents.revision, documents.texts.len()), (5, 1));
        assert!(documents.apply(&changed(1, "/p/config/a", "", 8), "/p/config/"));
        assert_eq!((documents.revision, documents.texts.len()), (8, 0));
        let large = "x".repeat(DOCUMENTS_BYTES + 1);
        assert!(!documents.apply(&changed(0, "/p/config/a", &large, 9), "/p/config/"));
    }

    #[test]
    fn a_canary_is_served_by_its_nodes_only() {
        let mut documents = Documents::default();
        let served = |documents: &Documents, node: &str| {
            let documents = documents.for_node(node);
            (documents.texts["a"].clone(), documents.canary.is_some())
        };
        let (old, new) = (Bytes::from_static(b"1"), Bytes::from_static(b"2"));
        let canary = Canary {
            version: "v".to_owned(),
            nodes: ["n1".to_owned()].into(),
            texts: BTreeMap::from([("a".to_owned(), new.clone())]),
            by: "me".to_owned(),
        };
        assert!(documents.apply(&changed(0, "/p/config/a", "1", 5), "/p/config/"));
        let key = format!("/p/config/{}", Canary::NAME);
        let text = canary.to_text();
        assert!(documents.apply(&changed(0, &key, &text, 6), "/p/config/"));
        assert_eq!(documents.texts.len(), 1, "it is not a document");
        assert_eq!(served(&documents, "n1"), (new, true));
        assert_eq!(served(&documents, "n2"), (old.clone(), false));
        for (kind, text) in [(0, "not JSON"), (0, &*text), (1, "")] {
            assert!(documents.apply(&changed(kind, &key, text, 7), "/p/config/"));
            assert_eq!(documents.canary.is_some(), text == canary.to_text());
        }
        assert_eq!(served(&documents, "n1"), (old, false));
    }

    #[test]
    fn a_copy_on_disk_is_whole_and_private() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("state/copy.json");
        assert_eq!(Documents::load(&file), None);
        let texts = BTreeMap::from([("a.yaml".to_owned(), Bytes::from_static(b"a: \"1\"\n"))]);
        let documents = Documents { revision: 7, texts, canary: None };
        documents.save(&file).unwrap();
        assert_eq!(Documents::load(&file), Some(documents));
        assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o077, 0);
        assert_eq!(fs::read_dir(file.parent().unwrap()).unwrap().count(), 1);
        fs::write(&file, "{\"revision\": 1").unwrap();
        assert_eq!(Documents::load(&file), None);
    }
}
