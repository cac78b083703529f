//! One round: load on one server, and its cost.

use crate::cpu::{Counted, Sample, Tree};
use crate::load::tools::Tool;
use crate::load::{self, LoadOutcome, LoadPlan, Moment, Target};
use crate::machine::Watch;
use crate::report::data::Round;
use std::io;

/// The results of one round.
#[derive(Debug)]
pub(crate) struct Measured {
    pub round: Round,
    pub outcome: LoadOutcome,
    /// How the CPU of the server was counted; `None` if it could not be read.
    pub counted: Option<Counted>,
    pub rss_bytes: u64,
    pub user_ticks: u64,
    pub system_ticks: u64,
}

/// Loads the target, with our own generator unless there is a tool; `tree` is the server that does
/// the work, if it is known, and `others` are processes whose CPU is not a disturbance because
/// they are part of the run.
pub(crate) fn round(
    tool: Option<Tool>,
    target: &Target,
    plan: &LoadPlan,
    tree: Option<&Tree>,
    others: &[u32],
) -> io::Result<Measured> {
    let watch = Watch::start(others);
    let (mut before, mut after) = (Sample::default(), Sample::default());
    let look = |moment| {
        let sample = tree.map(Tree::sample).unwrap_or_default();
        match moment {
            Moment::Begin => before = sample,
            Moment::End => after = sample,
        }
    };
    let outcome = match tool {
        None => load::run_with(target, plan, look)?,
        Some(tool) => {
            let missing = || io::Error::new(io::ErrorKind::NotFound, tool.name());
            tool.run_with(&tool.program().ok_or_else(missing)?, target, plan, look)?
        }
    };
    let disturbance = watch.finish();
    let used = after.since(&before);
    let why = disturbance.why;
    let requests = outcome.requests.max(1) as f64;
    let seconds = outcome.elapsed.as_secs_f64();
    let ms = |quantile: f64| outcome.latency.value_at_quantile(quantile) as f64 / 1e6;
    let round = Round {
        requests: outcome.requests,
        seconds,
        cpu_us_per_request: match tree {
            Some(_) if outcome.requests > 0 => used.run_ns as f64 / 1e3 / requests,
            _ => f64::NAN,
        },
        requests_per_second: if seconds > 0.0 { outcome.requests as f64 / seconds } else { 0.0 },
        client_us_per_request: outcome.client_cpu.as_secs_f64() * 1e6 / requests,
        p50_ms: ms(0.5),
        p99_ms: ms(0.99),
        p999_ms: ms(0.999),
        errors: errors_by_kind(&outcome).iter().map(|(_, count)| count).sum(),
        disturbed: (!why.is_empty()).then(|| why.join("; ")),
    };
    let rss_bytes = used.rss_bytes.max(before.rss_bytes);
    let (user_ticks, system_ticks) = (used.user_ticks, used.system_ticks);
    let counted = tree.map(|_| used.counted);
    Ok(Measured { round, outcome, counted, rss_bytes, user_ticks, system_ticks })
}

/// The kinds under the names of data.json.
pub(crate) fn errors_by_kind(outcome: &LoadOutcome) -> [(&'static str, u64); 11] {
    let errors = &outcome.errors;
    [
        ("connect", errors.connect),
        ("read", errors.read),
        ("write", errors.write),
        ("timeout", errors.timeout),
        ("handshake", errors.handshake),
        ("status", errors.status),
        ("length", errors.length),
        ("framing", errors.framing),
        ("header", errors.header),
        ("body", errors.body),
        ("unsent", outcome.unsent),
    ]
}
