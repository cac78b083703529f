//! Profiles that are recorded from outside of the scripts, by all workers at the same time.
//!
//! Promises that a recording ends with its time, or when its receiver is dropped; that it is of the
//! VM that it began with, even if a reload replaces that; and that it does not keep a VM from
//! ending.

use std::rc::Rc;
use std::time::Duration;

use bytes::Bytes;
use lua_vm::Vm;
use lua_vm::profile::{Profile, ProfileKind, merge};
use tokio::sync::oneshot;

use super::ProfileFormat;

/// The profile of a worker, or the sentence why it cannot begin one; `None` if it has no VM.
pub type WorkerProfile = Option<Result<Profile, String>>;

/// Why there is no profile.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ProfileError {
    /// No worker has a VM.
    NoProgram,
    /// A worker cannot begin one now; a sentence.
    Busy(String),
    /// It cannot be written; a sentence.
    Failed(String),
}

/// A profile that is being recorded; dropping it ends that.
struct RunningProfile(Rc<Vm>);

impl Drop for RunningProfile {
    fn drop(&mut self) {
        self.0.end_profile();
    }
}

/// Records the VM of this thread for a time, or until the other end of `done` is dropped.
pub fn record(
    vm: Option<Rc<Vm>>,
    kind: ProfileKind,
    span: Duration,
    mut done: oneshot::Sender<WorkerProfile>,
) {
    let running = match vm.map(|vm| vm.begin_profile(kind).map(|()| RunningProfile(vm))) {
        Some(Ok(running)) => running,
        refused => {
            // The request may have ended.
            let _ = done.send(refused.and_then(|refused| refused.err().map(Err)));
            return;
        }
    };
    net::task::spawn_local(async move {
        tokio::select! {
            () = net::timer::sleep(span) => {
                let _ = done.send(running.0.end_profile().map(Ok));
            }
            () = done.closed() => {}
        }
    });
}

/// Waits for the profiles of all workers and writes their sum.
pub async fn add_up(
    answers: Vec<oneshot::Receiver<WorkerProfile>>,
    format: ProfileFormat,
) -> Result<Bytes, ProfileError> {
    let mut profiles = Vec::new();
    // A worker that drains sends no response.
    for answer in answers {
        if let Ok(Some(profile)) = answer.await {
            profiles.push(profile.map_err(ProfileError::Busy)?);
        }
    }
    let Some(profile) = merge(profiles) else { return Err(ProfileError::NoProgram) };
    // A flame graph, or the compression of a large one, takes time that others need.
    let rendered = net::blocking(move || format.render(&profile)).await.unwrap_or_else(Err);
    rendered.map(Bytes::from).map_err(|error| ProfileError::Failed(error.to_string()))
}
