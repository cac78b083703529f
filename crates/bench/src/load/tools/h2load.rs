//! h2load, with the streams and the content of the load.

use std::io::{self, Write as _};
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use super::process;
use crate::load::{Address, LoadOutcome, LoadPlan, Moment, Target, Traffic};

pub(super) fn run(
    program: &Path,
    target: &Target,
    plan: &LoadPlan,
    at: &mut dyn FnMut(Moment),
) -> io::Result<LoadOutcome> {
    let (Traffic::Http2 { path, call, streams, .. }, Address::Tcp(address)) =
        (&target.traffic, &target.address)
    else {
        return Err(io::ErrorKind::Unsupported.into());
    };
    let mut content = tempfile::NamedTempFile::new()?;
    content.write_all(call.as_ref().map(|call| &call.content[..]).unwrap_or_default())?;
    let load = |time: Duration| {
        let threads = plan.threads.clamp(1, plan.connections.max(1));
        let mut command = Command::new(program);
        command
            .args([format!("-t{threads}"), format!("-c{}", plan.connections.max(1))])
            .args([format!("-m{streams}"), format!("-D{}ms", time.as_millis())])
            .args(["-N", &format!("{}ms", plan.timeout.as_millis())]);
        if call.is_some() {
            command.arg("-d").arg(content.path());
            command.args(["-H", "content-type: application/grpc", "-H", "te: trailers"]);
        }
        process::run(command.arg(format!("http://{address}{path}")), plan)
    };
    if !plan.warm_up.is_zero() {
        load(plan.warm_up)?;
    }
    at(Moment::Begin);
    let ended = load(plan.duration);
    at(Moment::End);
    let ended = ended?;
    match read(&ended.output) {
        Some(outcome) => {
            Ok(LoadOutcome { elapsed: plan.duration, client_cpu: ended.cpu, ..outcome })
        }
        None if ended.stopped => Ok(LoadOutcome::new()),
        None => Err(io::Error::other(format!("unexpected output of h2load: {}", ended.output))),
    }
}

/// Reads the counts behind `requests:`, `status codes:` and `traffic:`.
fn read(output: &str) -> Option<LoadOutcome> {
    let count = |title: &str, name: &str| -> Option<u64> {
        let counts = output.lines().find_map(|line| line.strip_prefix(title))?;
        let count = counts.split(", ").find_map(|count| count.strip_suffix(name))?;
        // Of bytes there is a rounded number first: `8.78MB (9201944)`.
        let number = count.split_whitespace().next_back()?;
        number.trim_matches(['(', ')']).parse().ok()
    };
    let mut outcome = LoadOutcome::new();
    outcome.requests = count("status codes:", " 2xx")?;
    outcome.bytes = count("traffic:", " total")?;
    outcome.errors.status = count("requests:", " succeeded")?.saturating_sub(outcome.requests);
    outcome.errors.read = count("requests:", " failed")?;
    outcome.errors.timeout = count("requests:", " timeout")?;
    Some(outcome)
}

#[cfg(test)]
mod tests {
    use super::read;

    #[test]
    fn figures_are_read() {
        let output = "starting benchmark...\n\nfinished in 1.00s, 960.00 req/s, 8.78MB/s\n\
            requests: 969 total, 970 started, 966 done, 962 succeeded, 4 failed, 1 errored, \
            3 timeout\nstatus codes: 960 2xx, 0 3xx, 2 4xx, 0 5xx\n\
            traffic: 8.78MB (9201944) total, 2.96MB (3099520) headers\n";
        let found = read(output).unwrap();
        assert_eq!((found.requests, found.bytes), (960, 9_201_944));
        let kinds = found.errors.by_kind().into_iter().filter(|(_, count)| *count > 0);
        assert_eq!(kinds.collect::<Vec<_>>(), [("read", 4), ("timeout", 3), ("status", 2)]);
        assert!(read("starting benchmark...\n").is_none());
    }
}
