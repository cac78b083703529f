//! What a purge covers, as the admin API, `ctl` and other servers describe it: one JSON object.

use serde_json::{Map, Value, json};
use settings::nearest;

use crate::limits::PURGE_NAMES_MAX;

/// The objects of a purge.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PurgeWhat {
    Url(String),
    Prefix(String),
    Tags(Vec<String>),
    Groups(Vec<String>),
    All,
}

impl PurgeWhat {
    /// The member of the JSON object that names the objects.
    pub const fn kind(&self) -> &'static str {
        match self {
            PurgeWhat::Url(_) => "url",
            PurgeWhat::Prefix(_) => "prefix",
            PurgeWhat::Tags(_) => "tags",
            PurgeWhat::Groups(_) => "groups",
            PurgeWhat::All => "all",
        }
    }
}

const KINDS: [&str; 5] = ["url", "prefix", "tags", "groups", "all"];

/// A purge of one cache.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PurgeRequest {
    pub what: PurgeWhat,
    /// Responses become stale instead of being removed.
    pub soft: bool,
}

/// Why a description of a purge cannot be used, and what could be written instead.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PurgeRequestError {
    pub message: String,
    pub advice: Option<String>,
}

impl PurgeRequestError {
    fn new(message: impl Into<String>) -> PurgeRequestError {
        PurgeRequestError { message: message.into(), advice: None }
    }

    fn advice(self, advice: impl Into<String>) -> PurgeRequestError {
        PurgeRequestError { advice: Some(advice.into()), ..self }
    }
}

impl PurgeRequest {
    /// Reads a description: one of `url`, `prefix`, `tags`, `groups` and `all`, and `soft`.
    pub fn read(body: &Value) -> Result<PurgeRequest, PurgeRequestError> {
        let Value::Object(members) = body else {
            return Err(PurgeRequestError::new("the body must be a JSON object")
                .advice("for example {\"url\": \"http://example.com/\"}"));
        };
        let (what, soft) = read_members(members)?;
        let Some(what) = what else {
            return Err(PurgeRequestError::new("the body says nothing to purge")
                .advice(format!("give one of {}", KINDS.join(", "))));
        };
        match &what {
            // An empty value is a slip and does not mean everything.
            PurgeWhat::Url(text) | PurgeWhat::Prefix(text) if text.is_empty() => {
                Err(PurgeRequestError::new("what is to be purged is empty")
                    .advice("to purge everything: {\"all\": true}"))
            }
            _ => Ok(PurgeRequest { what, soft }),
        }
    }

    /// The description that [`PurgeRequest::read`] reads.
    pub fn to_json(&self) -> Value {
        let what = match &self.what {
            PurgeWhat::Url(text) | PurgeWhat::Prefix(text) => json!(text),
            PurgeWhat::Tags(names) | PurgeWhat::Groups(names) => json!(names),
            PurgeWhat::All => json!(true),
        };
        let mut body = json!({ self.what.kind(): what });
        if self.soft {
            body["soft"] = json!(true);
        }
        body
    }
}

type Members = (Option<PurgeWhat>, bool);

fn read_members(members: &Map<String, Value>) -> Result<Members, PurgeRequestError> {
    let wrong = |message: String| Err(PurgeRequestError::new(message));
    let (mut what, mut soft) = (None, false);
    for (key, value) in members {
        let one = match (key.as_str(), value) {
            ("soft", Value::Bool(value)) => {
                soft = *value;
                continue;
            }
            ("url", Value::String(url)) => PurgeWhat::Url(url.clone()),
            ("prefix", Value::String(prefix)) => PurgeWhat::Prefix(prefix.clone()),
            ("tags", value) => PurgeWhat::Tags(read_names("tags", value)?),
            ("groups", value) => PurgeWhat::Groups(read_names("groups", value)?),
            ("all", Value::Bool(true)) => PurgeWhat::All,
            ("all", _) => return wrong("\"all\" must be true, or be left out".to_owned()),
            ("soft", _) => return wrong("\"soft\" must be true or false".to_owned()),
            ("url" | "prefix", _) => {
                return wrong(format!("\"{key}\" must be a string, not {value}"));
            }
            _ => return Err(unknown(key)),
        };
        if what.replace(one).is_some() {
            return wrong(format!("only one of {} can stand here", KINDS.join(", ")));
        }
    }
    Ok((what, soft))
}

fn unknown(key: &str) -> PurgeRequestError {
    let error = PurgeRequestError::new(format!("unknown key \"{key}\""));
    let known = KINDS.into_iter().chain(["soft"]);
    match nearest(key, known.clone()) {
        Some(near) => error.advice(format!("did you mean \"{near}\"?")),
        None => error.advice(format!("keys: {}", known.collect::<Vec<_>>().join(", "))),
    }
}

/// Reads one name or a list of names.
fn read_names(key: &str, value: &Value) -> Result<Vec<String>, PurgeRequestError> {
    let wrong = || PurgeRequestError::new(format!("\"{key}\" must be strings, not {value}"));
    let values = match value {
        Value::Array(values) => values.as_slice(),
        one => std::slice::from_ref(one),
    };
    let names: Option<Vec<String>> =
        values.iter().map(|name| name.as_str().map(str::to_owned)).collect();
    let names = names.ok_or_else(wrong)?;
    match names.len() {
        0 => Err(wrong()),
        1..=PURGE_NAMES_MAX => Ok(names),
        more => {
            let message = format!("{more} {key} are more than {PURGE_NAMES_MAX}");
            Err(PurgeRequestError::new(message))
        }
    }
}
