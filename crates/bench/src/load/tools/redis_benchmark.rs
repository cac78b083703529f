//! redis-benchmark, with the number of requests that fills the time.

use std::io;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use super::{process, record_cumulated};
use crate::load::{self, Address, LoadOutcome, LoadPlan, Moment, Target, Traffic};

/// Requests of the first run, which determines the number for the second.
const FIRST_REQUESTS: u64 = 20_000;
/// The most that one run is given: at the fastest, some minutes.
const REQUESTS_MAX: u64 = 1 << 30;
const ANSWER_BYTES: u64 = b"+PONG\r\n".len() as u64;

pub(super) fn run(
    program: &Path,
    target: &Target,
    plan: &LoadPlan,
    at: &mut dyn FnMut(Moment),
) -> io::Result<LoadOutcome> {
    let Traffic::Resp { command, pipeline } = target.traffic else {
        return Err(io::ErrorKind::Unsupported.into());
    };
    let load = |requests: u64| {
        let mut tool = Command::new(program);
        match &target.address {
            Address::Tcp(address) => {
                tool.args(["-h", &address.ip().to_string(), "-p", &address.port().to_string()])
            }
            Address::Unix(path) => tool.arg("-s").arg(path),
        };
        let test = match command {
            load::Command::Inline => "ping_inline",
            load::Command::MultiBulk => "ping_mbulk",
        };
        tool.args(["-t", test, "--precision", "3", "-n", &requests.to_string()]).args([
            "-c",
            &plan.connections.max(1).to_string(),
            "-P",
            &pipeline.to_string(),
        ]);
        if plan.threads > 1 {
            tool.args(["--threads", &plan.threads.to_string()]);
        }
        process::run(&mut tool, plan)
    };
    let at_rate = |rate: f64, time: Duration| {
        load(((rate * time.as_secs_f64()) as u64).clamp(plan.connections as u64, REQUESTS_MAX))
    };
    let unread =
        |output: &str| io::Error::other(format!("unexpected output of redis-benchmark: {output}"));
    let first = load(FIRST_REQUESTS.max(plan.connections as u64))?;
    let mut rate = 0.0;
    if !first.stopped {
        rate = read(&first.output).ok_or_else(|| unread(&first.output))?.per_second();
        if !plan.warm_up.is_zero() {
            at_rate(rate, plan.warm_up)?;
        }
    }
    at(Moment::Begin);
    let ended = if first.stopped { Ok(first) } else { at_rate(rate, plan.duration) };
    at(Moment::End);
    let ended = ended?;
    if ended.stopped {
        return Ok(LoadOutcome::new());
    }
    let mut outcome = read(&ended.output).ok_or_else(|| unread(&ended.output))?;
    outcome.client_cpu = ended.cpu;
    Ok(outcome)
}

/// Reads its table of percentiles and its summary.
fn read(output: &str) -> Option<LoadOutcome> {
    let mut outcome = LoadOutcome::new();
    let mut lines = output.lines();
    lines.find(|line| line.starts_with("Latency by percentile distribution"))?;
    let points: Vec<(u64, u64)> = lines.by_ref().map_while(point).collect();
    outcome.requests = points.last()?.1;
    record_cumulated(&mut outcome, points);
    let rate: f64 = lines.find_map(|line| {
        let rest = line.trim().strip_prefix("throughput summary: ")?;
        rest.split(' ').next()?.parse().ok()
    })?;
    // Its own "completed in" has a resolution of a hundredth of a second.
    outcome.elapsed = Duration::try_from_secs_f64(outcome.requests as f64 / rate).ok()?;
    outcome.bytes = outcome.requests * ANSWER_BYTES;
    Some(outcome)
}

/// `99.219% <= 0.271 milliseconds (cumulative count 19845)`.
fn point(line: &str) -> Option<(u64, u64)> {
    let (_, rest) = line.split_once("% <= ")?;
    let (latency_ms, rest) = rest.split_once(" milliseconds (cumulative count ")?;
    let latency_ms: f64 = latency_ms.parse().ok()?;
    Some(((latency_ms * 1e6).round() as u64, rest.strip_suffix(')')?.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::read;
    use std::time::Duration;

    #[test]
    fn figures_are_read() {
        let output = "\rPING_INLINE: rps=0.0 (overall: inf) avg_msec=0.443 (overall: 0.443)\r\
            \n====== PING_INLINE ======\n  20000 requests completed in 0.18 seconds\n\n\
            Latency by percentile distribution:\n\
            0.000% <= 0.031 milliseconds (cumulative count 1)\n\
            50.000% <= 0.095 milliseconds (cumulative count 11240)\n\
            99.219% <= 0.271 milliseconds (cumulative count 19845)\n\
            100.000% <= 0.599 milliseconds (cumulative count 20000)\n\
            100.000% <= 0.599 milliseconds (cumulative count 20000)\n\n\
            Cumulative distribution of latencies:\n\
            71.575% <= 0.103 milliseconds (cumulative count 14315)\n\n\
            Summary:\n  throughput summary: 100000.00 requests per second\n";
        let found = read(output).unwrap();
        assert_eq!((found.requests, found.latency.len()), (20_000, 20_000));
        assert_eq!(found.elapsed, Duration::from_millis(200));
        let about = |percentile: f64, ms: f64| (found.latency_ms(percentile) - ms).abs() < 0.001;
        assert!(about(50.0, 0.095) && about(99.0, 0.271) && about(100.0, 0.599), "{found:?}");
        assert!(read("Could not connect\n").is_none());
    }
}
