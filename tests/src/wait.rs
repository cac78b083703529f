//! Waiting for what nothing announces: ask again until it holds or the time is up.

use std::time::{Duration, Instant};

/// How long anything may take before a scenario fails. Generous, because a loaded machine is slow
/// and a scenario that passes never waits for it.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// Between two questions.
const PAUSE: Duration = Duration::from_millis(10);

/// The pause between two requests of a client whose requests must all be answered while
/// something changes. Without a pause it would keep the processors from the tests next to it.
pub const BETWEEN_REQUESTS: Duration = Duration::from_millis(2);

/// Waits until `condition` holds. Panics with `what` when it does not within [`PATIENCE`].
pub fn eventually(what: &str, mut condition: impl FnMut() -> bool) {
    eventually_some(what, || condition().then_some(()));
}

/// Waits until `attempt` returns a value. Panics with `what` when it does not within [`PATIENCE`].
pub fn eventually_some<T>(what: &str, mut attempt: impl FnMut() -> Option<T>) -> T {
    let deadline = Instant::now() + PATIENCE;
    loop {
        if let Some(value) = attempt() {
            return value;
        }
        assert!(Instant::now() < deadline, "not within {PATIENCE:?}: {what}");
        std::thread::sleep(PAUSE);
    }
}
