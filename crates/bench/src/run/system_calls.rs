//! System calls per request, as counted by strace(1).
//!
//! Promises a separate round, so that tracing affects no other figure, and `None` if strace is not
//! installed or may not attach: that is not an error.

use crate::cpu::Tree;
use crate::load::{self, LoadPlan, Moment, Target};
use crate::peers::Tracer;
use std::path::Path;
use std::time::{Duration, Instant};

/// How long calls are counted.
pub(crate) const ROUND: Duration = Duration::from_millis(300);
/// With attaching and letting go.
pub(crate) const ROUND_SECONDS: f64 = 0.6;
/// Fewer requests say nothing.
const REQUESTS_MIN: u64 = 50;

/// Calls for each request of a round under `plan`; the error says why strace cannot be used here.
pub(crate) fn per_request(
    target: &Target,
    plan: &LoadPlan,
    tree: &Tree,
    directory: &Path,
    until: Instant,
) -> Result<Option<f64>, String> {
    let mut tracer = None;
    let outcome = load::run_with(target, plan, |moment| match moment {
        Moment::Begin => tracer = Some(Tracer::attach(&tree.pids(), directory, until)),
        Moment::End => {
            if let Some(Ok(tracer)) = &mut tracer {
                tracer.let_go();
            }
        }
    });
    let tracer = tracer.unwrap_or_else(|| Err("the round did not begin".to_owned()))?;
    let said = tracer.summary()?;
    let calls = total(&said).ok_or_else(|| format!("strace said: {said}"))?;
    let requests = outcome.map_or(0, |outcome| outcome.requests);
    Ok((requests >= REQUESTS_MIN).then(|| calls as f64 / requests as f64))
}

/// The calls in the last line of `strace -c`: share, seconds, µs a call, calls, errors, `total`.
fn total(summary: &str) -> Option<u64> {
    let line = summary.lines().rev().find(|line| line.trim_end().ends_with(" total"))?;
    line.split_whitespace().nth(3)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::total;

    #[test]
    fn the_total_is_the_fourth_column() {
        let summary = "% time     seconds  usecs/call     calls    errors syscall\n\
            ------ ----------- ----------- --------- --------- ----------------\n \
            57.90    0.000458          45        10         2 read\n\
            ------ ----------- ----------- --------- --------- ----------------\n\
            100.00    0.000791           6       112         3 total\n";
        assert_eq!(total(summary), Some(112));
        assert_eq!(total(&summary.replace("         3 total", "           total")), Some(112));
        assert_eq!(total("strace: attach: ptrace(PTRACE_SEIZE, 1): Operation not permitted"), None);
    }
}
