//! The messages between a supervisor and a preloader, in the frames of a control socket.

use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;

use serde_json::{Value, json};

/// Maximum number of threads that are named in a warning, and maximum length of a name.
const THREADS_NAMED: usize = 16;
const THREAD_NAME_CHARS: usize = 64;

/// A message of a preloader.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum PreloaderMessage {
    /// It has imported the application; the threads that exist besides the main one.
    Ready { threads: Vec<String> },
    /// It could not import the application; the reason is a sentence.
    Failed(String),
    /// It has forked the worker of this request.
    Forked { request: u64, process: u32 },
    /// It could not fork.
    NotForked { request: u64, why: String },
    /// A worker has ended; `None` if its exit status is unknown.
    Ended { process: u32, status: Option<ExitStatus> },
}

/// A command for a preloader.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum PreloaderCommand {
    /// Fork a worker with this specification; its descriptors come with the message.
    Fork { request: u64, spec: String },
    /// The supervisor holds a descriptor of this worker's process: it may be waited for.
    Held { process: u32 },
}

impl PreloaderCommand {
    pub(super) fn to_json(&self) -> Value {
        match self {
            PreloaderCommand::Fork { request, spec } => {
                json!({ "fork": { "request": request, "spec": spec } })
            }
            PreloaderCommand::Held { process } => json!({ "held": process }),
        }
    }
}

impl PreloaderMessage {
    pub(super) fn from_json(value: &Value) -> Option<PreloaderMessage> {
        let (key, value) = value.as_object()?.iter().next()?;
        let process = || u32::try_from(value["process"].as_u64()?).ok().filter(|id| *id > 0);
        Some(match key.as_str() {
            "ready" => {
                let threads = value["threads"].as_array()?.iter().filter_map(Value::as_str);
                let cut = |name: &str| name.chars().take(THREAD_NAME_CHARS).collect();
                PreloaderMessage::Ready { threads: threads.take(THREADS_NAMED).map(cut).collect() }
            }
            "failed" => PreloaderMessage::Failed(value.as_str()?.to_owned()),
            "forked" => PreloaderMessage::Forked {
                request: value["request"].as_u64()?,
                process: process()?,
            },
            "not_forked" => PreloaderMessage::NotForked {
                request: value["request"].as_u64()?,
                why: value["why"].as_str()?.to_owned(),
            },
            "ended" => {
                let status = value["status"].as_i64();
                let status = status.and_then(|status| i32::try_from(status).ok());
                let status = status.map(ExitStatus::from_raw);
                PreloaderMessage::Ended { process: process()?, status }
            }
            _ => return None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(value: &Value) -> Option<PreloaderMessage> {
        PreloaderMessage::from_json(value)
    }

    #[test]
    fn messages_of_a_preloader() {
        let threads = vec!["saver".to_owned()];
        assert_eq!(
            read(&json!({ "ready": { "threads": ["saver"] } })),
            Some(PreloaderMessage::Ready { threads })
        );
        assert_eq!(
            read(&json!({ "failed": "no module" })),
            Some(PreloaderMessage::Failed("no module".to_owned()))
        );
        assert_eq!(
            read(&json!({ "forked": { "request": 3, "process": 77 } })),
            Some(PreloaderMessage::Forked { request: 3, process: 77 })
        );
        assert_eq!(
            read(&json!({ "not_forked": { "request": 3, "why": "no memory" } })),
            Some(PreloaderMessage::NotForked { request: 3, why: "no memory".to_owned() })
        );
        for (status, expected) in [(json!(9), Some(ExitStatus::from_raw(9))), (Value::Null, None)] {
            assert_eq!(
                read(&json!({ "ended": { "process": 77, "status": status } })),
                Some(PreloaderMessage::Ended { process: 77, status: expected })
            );
        }
    }

    #[test]
    fn malformed_messages_are_none_and_lists_are_bounded() {
        for value in [
            json!({}),
            json!([]),
            json!("ready"),
            json!({ "ready": true }),
            json!({ "failed": 3 }),
            json!({ "forked": { "request": 3 } }),
            json!({ "forked": { "request": 3, "process": 0 } }),
            json!({ "forked": { "request": -3, "process": 7 } }),
            json!({ "forked": { "request": 3, "process": 4_294_967_296_u64 } }),
            json!({ "not_forked": { "request": 3 } }),
            json!({ "ended": { "process": "7", "status": 0 } }),
            json!({ "later": 1 }),
        ] {
            assert_eq!(read(&value), None, "{value}");
        }
        let names: Vec<String> = (0..99).map(|_| "n".repeat(999)).collect();
        let Some(PreloaderMessage::Ready { threads }) =
            read(&json!({ "ready": { "threads": names } }))
        else {
            panic!("not read");
        };
        assert_eq!(threads.len(), THREADS_NAMED);
        assert!(threads.iter().all(|name| name.len() == THREAD_NAME_CHARS));
        let odd = json!({ "ended": { "process": 7, "status": 1_u64 << 40 } });
        assert_eq!(read(&odd), Some(PreloaderMessage::Ended { process: 7, status: None }));
    }

    #[test]
    fn commands_are_one_object_each() {
        let fork = PreloaderCommand::Fork { request: 1, spec: "{}".to_owned() };
        assert_eq!(fork.to_json(), json!({ "fork": { "request": 1, "spec": "{}" } }));
        assert_eq!(PreloaderCommand::Held { process: 7 }.to_json(), json!({ "held": 7 }));
    }
}
