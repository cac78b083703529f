//! `reload`: `hello` while the configuration changes four times a second.
//!
//! Promises that the last change of a round was seen by a request of its own, or the round is an
//! error: a server that does not reload is not a server that reloads well.

use super::{Case, Kind, Scenario, Serve, probe, request};
use crate::peers::Running;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

pub(super) const SCENARIO: Scenario = Scenario {
    name: "reload",
    about: "errors and latency while the configuration changes",
    cases: &[Case {
        name: "reload",
        about: "GET of four bytes while the configuration changes four times a second.",
        replays: None,
        serve: Serve::Hello,
        kind: Kind::Reload,
    }],
    by_default: false,
};

/// Between two changes.
const PAUSE: Duration = Duration::from_millis(250);
/// How often the end of a pause is looked for.
const LOOK_EVERY: Duration = Duration::from_millis(10);
/// How long a server may take until it serves what it was told last.
const SEEN_WAIT: Duration = Duration::from_secs(5);

/// What became of the changes of one round.
#[derive(Debug, Default)]
pub(crate) struct Reloads {
    pub count: u32,
    /// Why a change was not made.
    pub failed: Option<String>,
}

/// Does `work` while the server is told to reload over and over.
pub(crate) fn reloading<T>(server: &mut Running, work: impl FnOnce() -> T) -> (T, Reloads) {
    let over = AtomicBool::new(false);
    thread::scope(|scope| {
        let reloader = scope.spawn(|| reload_until(server, &over));
        let done = work();
        over.store(true, Ordering::Relaxed);
        let reloads = reloader.join().unwrap_or_else(|_| Reloads {
            count: 0,
            failed: Some("the reloader broke".to_owned()),
        });
        (done, reloads)
    })
}

fn reload_until(server: &mut Running, over: &AtomicBool) -> Reloads {
    let mut reloads = Reloads::default();
    let mut next = Instant::now() + PAUSE / 2;
    while !over.load(Ordering::Relaxed) {
        if Instant::now() < next {
            thread::sleep(LOOK_EVERY);
            continue;
        }
        next += PAUSE;
        if let Err(why) = server.reload() {
            reloads.failed = Some(why);
            return reloads;
        }
        reloads.count += 1;
    }
    if reloads.count > 0 && !seen(server) {
        reloads.failed =
            Some(format!("{} does not serve its last configuration", server.peer.name));
    }
    reloads
}

/// Whether the path that only the last configuration has is answered.
fn seen(server: &Running) -> bool {
    let deadline = Instant::now() + SEEN_WAIT;
    loop {
        let answered = probe(server.address, &request(server.address, &server.revision_path()));
        if answered.is_ok_and(|answer| (200..300).contains(&answer.status)) {
            return true;
        }
        if Instant::now() >= deadline {
            return false;
        }
        thread::sleep(LOOK_EVERY);
    }
}
