//! wrk, with a script that defines the request and prints the results.

use std::fmt::Write as _;
use std::io::{self, Write as _};
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use super::{process, record_cumulated};
use crate::load::{Address, LoadOutcome, LoadPlan, Moment, Target, Traffic};

/// `done` runs once, after the load, so it costs nothing a request. The percentiles are every
/// half up to 99, then every tenth, then every hundredth.
const DONE: &str = r#"
function done(summary, latency, requests)
  local cpu = os.clock()
  local e = summary.errors
  io.write(string.format("RESULT %.0f %.0f %.0f %.6f\n",
    summary.requests, summary.duration, summary.bytes, cpu))
  io.write(string.format("ERRORS %.0f %.0f %.0f %.0f %.0f\n",
    e.connect, e.read, e.write, e.timeout, e.status))
  for n = 1, 10000 do
    if n % 50 == 0 and n <= 9900 or n % 10 == 0 and n > 9900 and n <= 9990 or n > 9990 then
      io.write(string.format("AT %d %.0f\n", n, latency:percentile(n / 100)))
    end
  end
end
"#;
/// The unit of `AT`.
const PARTS: f64 = 10_000.0;

pub(super) fn run(
    program: &Path,
    target: &Target,
    plan: &LoadPlan,
    at: &mut dyn FnMut(Moment),
) -> io::Result<LoadOutcome> {
    let (Traffic::Http { request, .. }, Address::Tcp(address)) = (&target.traffic, &target.address)
    else {
        return Err(io::ErrorKind::Unsupported.into());
    };
    let mut file = tempfile::Builder::new().suffix(".lua").tempfile()?;
    file.write_all(script(request)?.as_bytes())?;
    let load = |time: Duration| {
        // It takes whole seconds only, and needs a connection for each thread.
        let seconds = time.as_secs_f64().round().max(1.0);
        let threads = plan.threads.clamp(1, plan.connections.max(1));
        let mut command = Command::new(program);
        command
            .args([format!("-t{threads}"), format!("-c{}", plan.connections.max(1))])
            .args([format!("-d{seconds}s"), "-s".to_owned()])
            .arg(file.path())
            .args(["--timeout", &format!("{}s", plan.timeout.as_secs_f64().ceil())])
            .arg(format!("http://{address}/"));
        process::run(&mut command, plan)
    };
    let warm = if plan.warm_up.is_zero() { None } else { Some(load(plan.warm_up)?) };
    at(Moment::Begin);
    let ended = match warm {
        Some(ended) if ended.stopped => Ok(ended),
        _ => load(plan.duration),
    };
    at(Moment::End);
    let ended = ended?;
    match read(&ended.output) {
        Some(outcome) => Ok(outcome),
        None if ended.stopped => Ok(LoadOutcome::new()),
        None => Err(io::Error::other(format!("wrk printed no result: {}", ended.output))),
    }
}

/// The request as wrk takes it: a static one, so that no script runs for each.
fn script(request: &[u8]) -> io::Result<String> {
    let broken = || io::Error::new(io::ErrorKind::InvalidInput, "not a request wrk can send");
    let end = request.windows(4).position(|bytes| bytes == b"\r\n\r\n").ok_or_else(broken)?;
    let head = std::str::from_utf8(&request[..end]).map_err(|_| broken())?;
    let body = &request[end + 4..];
    let (first, fields) = head.split_once("\r\n").unwrap_or((head, ""));
    let [method, path, "HTTP/1.1"] = first.split(' ').collect::<Vec<_>>()[..] else {
        return Err(broken());
    };
    let mut script = String::new();
    let _ = writeln!(script, "wrk.method = {}", quoted(method.as_bytes()));
    let _ = writeln!(script, "wrk.path = {}", quoted(path.as_bytes()));
    for field in fields.split("\r\n").filter(|field| !field.is_empty()) {
        let (name, value) = field.split_once(':').ok_or_else(broken)?;
        let (name, value) = (quoted(name.as_bytes()), quoted(value.trim().as_bytes()));
        let _ = writeln!(script, "wrk.headers[{name}] = {value}");
    }
    if !body.is_empty() {
        let _ = writeln!(script, "wrk.body = {}", quoted(body));
    }
    script.push_str(DONE);
    Ok(script)
}

/// A Lua string of these bytes.
fn quoted(bytes: &[u8]) -> String {
    let mut text = String::from('"');
    for &byte in bytes {
        match byte {
            b'"' | b'\\' => text.extend(['\\', char::from(byte)]),
            b' '..=b'~' => text.push(char::from(byte)),
            _ => drop(write!(text, "\\{byte:03}")),
        }
    }
    text.push('"');
    text
}

/// Reads what `done` wrote.
fn read(output: &str) -> Option<LoadOutcome> {
    let numbers = |name: &str| -> Option<Vec<f64>> {
        let line = output.lines().find_map(|line| line.strip_prefix(name))?;
        line.split_ascii_whitespace().map(|word| word.parse().ok()).collect()
    };
    let [requests, duration_us, bytes, cpu_seconds] = numbers("RESULT ")?[..] else { return None };
    let [connect, read, write, timeout, status] = numbers("ERRORS ")?[..] else { return None };
    let mut outcome = LoadOutcome::new();
    outcome.requests = (requests - status).max(0.0) as u64;
    outcome.bytes = bytes as u64;
    outcome.elapsed = Duration::from_secs_f64((duration_us / 1e6).max(0.0));
    outcome.client_cpu = Duration::from_secs_f64(cpu_seconds.max(0.0));
    outcome.errors.connect = connect as u64;
    outcome.errors.read = read as u64;
    outcome.errors.write = write as u64;
    outcome.errors.timeout = timeout as u64;
    outcome.errors.status = status as u64;
    let points = output.lines().filter_map(|line| {
        let (part, latency_us) = line.strip_prefix("AT ")?.split_once(' ')?;
        let (part, latency_us): (f64, f64) = (part.parse().ok()?, latency_us.parse().ok()?);
        Some(((latency_us * 1000.0) as u64, (requests * part / PARTS).round() as u64))
    });
    record_cumulated(&mut outcome, points);
    Some(outcome)
}

#[cfg(test)]
pub(super) mod tests {
    use super::{quoted, read, script};
    use crate::load::LoadOutcome;
    use std::fmt::Write as _;
    use std::time::Duration;

    #[test]
    fn a_request_becomes_a_script() {
        let request = b"POST /a?b=c HTTP/1.1\r\nHost: x:1\r\nX-Y: \"z\\\"\r\n\r\nbo\x00dy\n";
        let script = script(request).unwrap();
        let lines: Vec<&str> = script.lines().take(5).collect();
        assert_eq!(
            lines,
            [
                "wrk.method = \"POST\"",
                "wrk.path = \"/a?b=c\"",
                "wrk.headers[\"Host\"] = \"x:1\"",
                r#"wrk.headers["X-Y"] = "\"z\\\"""#,
                r#"wrk.body = "bo\000dy\010""#,
            ]
        );
        assert!(!script.contains("function request"), "a script for each request costs");
        assert!(super::script(b"GET /").is_err());
        assert!(super::script(b"GET  HTTP/1.0\r\n\r\n").is_err());
        assert_eq!(quoted(b"\xff"), "\"\\255\"");
    }

    /// The same latencies, in our histogram and as wrk's script prints those it has: the rate and
    /// the percentiles are the same to far less than the 5 % of `make bench-generator-check`.
    #[test]
    fn the_same_latencies_are_the_same_figures() {
        let mut random = 1u64;
        let mut latencies_us: Vec<u64> = (0..20_000)
            .map(|number: u64| {
                random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                // 200 to 1800 µs, one in fifty some 40 ms.
                let rare = number.is_multiple_of(50);
                if rare { 40_000 + (random >> 54) } else { 200 + (random >> 33) % 1600 }
            })
            .collect();
        let mut ours = LoadOutcome::new();
        ours.elapsed = Duration::from_secs(2);
        for latency_us in &latencies_us {
            ours.requests += 1;
            ours.latency.record(latency_us * 1000).unwrap();
        }
        latencies_us.sort_unstable();
        let mut output = "RESULT 20000 2000000 1 0.1\nERRORS 0 0 0 0 0\n".to_owned();
        for part in (1..=10_000).filter(|part| part % 50 == 0 || *part > 9900) {
            // stats_percentile of wrk's stats.c: the rank is rounded, and counts from 1.
            let rank = (f64::from(part) / 1e4 * latencies_us.len() as f64 + 0.5) as usize;
            let _ = writeln!(output, "AT {part} {}", latencies_us[rank.max(1) - 1]);
        }
        let theirs = read(&output).unwrap();
        assert_eq!(theirs.requests, ours.requests);
        assert!((theirs.per_second() / ours.per_second() - 1.0).abs() < 1e-9);
        for percentile in [50.0, 90.0, 99.0, 99.9] {
            let ratio = theirs.latency_ms(percentile) / ours.latency_ms(percentile);
            assert!((ratio - 1.0).abs() < 0.01, "p{percentile}: {ratio}");
        }
    }

    #[test]
    fn figures_are_read() {
        let output = "Running 1s test\nRESULT 1000 1050000 93000 0.250000\n\
            ERRORS 1 2 3 4 5\nAT 5000 100\nAT 9900 400\nAT 10000 900\n";
        let found = read(output).unwrap();
        assert_eq!((found.requests, found.bytes), (995, 93_000));
        assert_eq!(found.elapsed, Duration::from_micros(1_050_000));
        assert_eq!(found.client_cpu, Duration::from_millis(250));
        let kinds: Vec<u64> = found.errors.by_kind().iter().map(|(_, count)| *count).collect();
        assert_eq!(kinds, [1, 2, 3, 4, 0, 5, 0, 0, 0, 0]);
        let about = |percentile: f64, ms: f64| (found.latency_ms(percentile) - ms).abs() < 0.001;
        assert!(about(50.0, 0.1) && about(99.0, 0.4) && about(99.5, 0.9), "{found:?}");
        assert_eq!(found.latency.len(), 1000);
        assert!(read("Running 1s test\n").is_none());
    }
}
