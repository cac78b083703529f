//! Waiting for what nothing announces: ask again until it holds or the time is up.

use std::time::{Duration, Instant};

/// How long anything may take before a scenario fails. Generous, because a loaded machine is slow
/// and a scenario that passes never waits for it.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// Between two questions at first.
const PAUSE_MIN: Duration = Duration::from_millis(10);

/// Between two questions of a long wait: a question costs the server more than the wait.
const PAUSE_MAX: Duration = Duration::from_millis(100);

/// The pause between two requests of a client whose requests must all be answered while
/// something changes. Without a pause it would keep the processors from the tests next to it.
pub const BETWEEN_REQUESTS: Duration = Duration::from_millis(2);

/// Waits until `condition` holds. Panics with `what` when it does not within [`PATIENCE`].
pub fn eventually(what: &str, mut condition: impl FnMut() -> bool) {
    eventually_some(what, || condition().then_some(()));
}

/// Waits until `attempt` returns a value. Panics with `what` when it does not within [`PATIENCE`].
pub fn eventually_some<T>(what: &str, mut attempt: impl FnMut() -> Option<T>) -> T {
    let (began, mut attempts) = (Instant::now(), 0);
    loop {
        if let Some(value) = attempt() {
            return value;
        }
        attempts += 1;
        let waited = began.elapsed();
        assert!(waited < PATIENCE, "not within {PATIENCE:?}: {what}, asked {attempts} times");
        // So that it ends at most a twentieth later.
        std::thread::sleep((waited / 20).clamp(PAUSE_MIN, PAUSE_MAX));
    }
}
