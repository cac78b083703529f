//! An entry of the log: a purge of one cache.

use serde_json::{Value, json};

use crate::limits::PURGE_ENTRY_BYTES_MAX;
use crate::{PurgeRequest, PurgeRequestError};

/// A purge of the cache with a name, on every server that has one of that name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PurgeEntry {
    pub cache: String,
    pub purge: PurgeRequest,
}

impl PurgeEntry {
    /// The text of the entry, or why it is not published.
    pub fn encode(&self) -> Result<String, PurgeRequestError> {
        let text = json!({ "cache": self.cache, "purge": self.purge.to_json() }).to_string();
        match text.len() <= PURGE_ENTRY_BYTES_MAX {
            true => Ok(text),
            false => Err(PurgeRequestError {
                message: format!(
                    "a purge of {} bytes is longer than the {PURGE_ENTRY_BYTES_MAX} that other \
                     servers are sent",
                    text.len()
                ),
                advice: Some("send its names in several purges".to_owned()),
            }),
        }
    }

    /// Reads an entry. `None` if this version cannot read it: it may mean everything.
    pub fn decode(text: &[u8]) -> Option<PurgeEntry> {
        if text.len() > PURGE_ENTRY_BYTES_MAX {
            return None;
        }
        let mut entry: Value = serde_json::from_slice(text).ok()?;
        let members = entry.as_object_mut()?;
        let (cache, purge) = (members.remove("cache")?, members.remove("purge")?);
        if !members.is_empty() {
            return None;
        }
        let Value::String(cache) = cache else { return None };
        Some(PurgeEntry { cache, purge: PurgeRequest::read(&purge).ok()? })
    }
}

#[cfg(test)]
mod tests {
    use super::PurgeEntry;
    use crate::limits::PURGE_ENTRY_BYTES_MAX;
    use crate::{PurgeRequest, PurgeWhat};

    fn entry(what: PurgeWhat, soft: bool) -> PurgeEntry {
        PurgeEntry { cache: "pages".to_owned(), purge: PurgeRequest { what, soft } }
    }

    #[test]
    fn an_entry_reads_back() {
        let names = || vec!["a".to_owned(), "\"\n".to_owned()];
        for what in [
            PurgeWhat::Url("http://a/".to_owned()),
            PurgeWhat::Prefix("http://a/b".to_owned()),
            PurgeWhat::Tags(names()),
            PurgeWhat::Groups(names()),
            PurgeWhat::All,
        ] {
            for soft in [false, true] {
                let entry = entry(what.clone(), soft);
                let text = entry.encode().unwrap();
                assert_eq!(PurgeEntry::decode(text.as_bytes()), Some(entry));
            }
        }
    }

    #[test]
    fn what_a_later_version_may_mean_is_not_guessed() {
        for text in [
            "",
            "[]",
            r#"{"cache":"a"}"#,
            r#"{"cache":1,"purge":{"all":true}}"#,
            r#"{"cache":"a","purge":{"host":"b"}}"#,
            r#"{"cache":"a","purge":{"all":true},"only":"b"}"#,
        ] {
            assert_eq!(PurgeEntry::decode(text.as_bytes()), None, "{text}");
        }
        let long = entry(PurgeWhat::Url("x".repeat(PURGE_ENTRY_BYTES_MAX)), false);
        let error = long.encode().unwrap_err();
        assert!(error.message.contains("longer than") && error.advice.is_some(), "{error:?}");
        let text = serde_json::json!({ "cache": "a", "purge": long.purge.to_json() }).to_string();
        assert_eq!(PurgeEntry::decode(text.as_bytes()), None);
    }
}
