//! `reload`: `hello` while the configuration changes four times a second.
//!
//! Promises that a request has seen each change before the next one, or the round is an error: a
//! server that does not reload must not look like one that reloads well. A server that takes longer
//! than the pause is changed less often.

use super::{Case, Kind, Scenario, Serve, probe, request};
use crate::peers::{Protocol, Running};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

pub(super) const SCENARIO: Scenario = Scenario {
    name: "reload",
    about: "errors and latency while the configuration changes",
    cases: &[
        case(
            "reload",
            "GET of four bytes while the configuration changes up to four times a second.",
            Serve::Hello,
        ),
        case(
            "reload-5000",
            "The same by the last of 5 000 routes; the longest latency has the longest pause of a \
             worker.",
            Serve::Routes { count: 5000 },
        ),
    ],
    by_default: false,
};

const fn case(name: &'static str, about: &'static str, serve: Serve) -> Case {
    let (protocol, kind) = (Protocol::Http1, Kind::Reload);
    Case { name, about, replays: None, serve, protocol, kind }
}

/// Between two changes.
const PAUSE: Duration = Duration::from_millis(250);
/// How often the end of a pause is looked for.
const LOOK_EVERY: Duration = Duration::from_millis(10);
/// How long a server may take until it serves what it was told, before it is told again. Together
/// long enough for nginx on a machine where it waits for a core.
const SEEN_WAIT: Duration = Duration::from_secs(2);
const TOLD_MAX: u32 = 15;

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
        if let Err(why) = reload(server) {
            reloads.failed = Some(why);
            return reloads;
        }
        reloads.count += 1;
        next = (next + PAUSE).max(Instant::now());
    }
    reloads
}

/// One change, until it is served. A server that is told while it is busy with itself may miss
/// it, and is told again.
fn reload(server: &mut Running) -> Result<(), String> {
    for _ in 0..TOLD_MAX {
        server.reload()?;
        let told = Instant::now();
        let until = (told + SEEN_WAIT).min(server.deadline());
        while Instant::now() < until {
            if is_seen(server, until) {
                return Ok(());
            }
            thread::sleep(LOOK_EVERY);
        }
    }
    Err(format!("{} does not serve its last configuration", server.peer.name))
}

/// Whether the path that only the last configuration has is answered.
fn is_seen(server: &Running, deadline: Instant) -> bool {
    let request = request(server.address, &server.revision_path());
    let answer = probe(server.address, &request, deadline);
    answer.is_ok_and(|answer| (200..300).contains(&answer.status))
}
