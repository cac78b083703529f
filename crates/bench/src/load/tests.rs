//! Runs against scripted servers. Bounds are loose because the machine may be busy.

mod correct;
mod http2;
mod incorrect;
mod open;
mod ping;
mod scripted;
mod tls;
mod websocket;

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::{Address, Expect, LoadOutcome, LoadPlan, Target, Traffic, run};
pub(super) use scripted::{Act, Scripted};

const PATIENCE: Duration = Duration::from_secs(60);

pub(super) const END: &[u8] = b"\r\n\r\n";
const REQUEST: &[u8] = b"GET / HTTP/1.1\r\nHost: a\r\n\r\n";
pub(super) const PONG: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\npong";

/// A server that sends these bytes for every request.
fn says(bytes: &'static [u8]) -> Scripted {
    Scripted::tcp(END, move |_| vec![Act::Send(bytes.to_vec())])
}

fn pong() -> Expect {
    let body = Some(Arc::from(&b"pong"[..]));
    Expect { status: 200, length: Some(4), body, ..Expect::default() }
}

pub(super) fn target(address: &Address) -> Target {
    let traffic = Traffic::Http { request: REQUEST.to_vec(), expect: pong(), keep_alive: true };
    Target { address: address.clone(), tls: None, traffic }
}

fn plan() -> LoadPlan {
    LoadPlan { connections: 2, duration: Duration::from_millis(200), ..LoadPlan::default() }
}

/// Loads the server until something has come of it; the counts that every outcome must keep are
/// checked here.
#[track_caller]
fn load(server: &Scripted) -> LoadOutcome {
    load_until(server, &plan(), is_something)
}

/// Counts responses or errors.
pub(super) fn is_something(found: &LoadOutcome) -> bool {
    found.requests + found.errors.total() > 0
}

#[track_caller]
fn load_until(
    server: &Scripted,
    plan: &LoadPlan,
    says: impl Fn(&LoadOutcome) -> bool,
) -> LoadOutcome {
    until(|| load_with(server, plan), says)
}

/// Loads again until the outcome says so: on a busy machine a moment may pass before anything is
/// sent.
#[track_caller]
pub(super) fn until(
    mut load: impl FnMut() -> LoadOutcome,
    says: impl Fn(&LoadOutcome) -> bool,
) -> LoadOutcome {
    let deadline = Instant::now() + PATIENCE;
    loop {
        let found = load();
        if says(&found) {
            return found;
        }
        assert!(Instant::now() < deadline, "{found:?}");
    }
}

#[track_caller]
fn load_with(server: &Scripted, plan: &LoadPlan) -> LoadOutcome {
    consistent(run(&target(&server.address), plan).unwrap())
}

#[track_caller]
fn consistent(outcome: LoadOutcome) -> LoadOutcome {
    assert_eq!(outcome.latency.len(), outcome.requests);
    outcome
}
