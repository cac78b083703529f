//! `openssl s_time`: one TLS 1.3 connection with a request after the other.

use std::io;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use super::process;
use crate::load::{Address, Handshakes, LoadOutcome, LoadPlan, Moment, Target, Traffic};

pub(super) fn run(
    program: &Path,
    target: &Target,
    plan: &LoadPlan,
    at: &mut dyn FnMut(Moment),
) -> io::Result<LoadOutcome> {
    let (Traffic::Http { request, .. }, Address::Tcp(address), Some(tls)) =
        (&target.traffic, &target.address, &target.tls)
    else {
        return Err(io::ErrorKind::Unsupported.into());
    };
    let path = request.split(|byte| *byte == b' ').nth(1).unwrap_or_default();
    let path = String::from_utf8_lossy(path).into_owned();
    let kind = match tls.handshakes() {
        Handshakes::Full => "-new",
        Handshakes::Resumed => "-reuse",
    };
    let load =
        |time: Duration| {
            // Seconds are all it knows.
            let seconds = time.as_secs_f64().round().max(1.0).to_string();
            let mut command = Command::new(program);
            command
                .args(["s_time", "-connect", &address.to_string(), kind, "-time", &seconds])
                .args(["-tls1_3", "-ciphersuites", "TLS_AES_128_GCM_SHA256", "-www", &path]);
            process::run(&mut command, plan)
        };
    if !plan.warm_up.is_zero() {
        load(plan.warm_up)?;
    }
    at(Moment::Begin);
    let began = Instant::now();
    let ended = load(plan.duration);
    let elapsed = began.elapsed();
    at(Moment::End);
    let ended = ended?;
    let mut outcome = LoadOutcome::new();
    match connections(&ended.output) {
        Some(connections) => outcome.requests = connections,
        None if ended.stopped => {}
        None => {
            let why = format!("unexpected output of openssl s_time: {}", ended.output);
            return Err(io::Error::other(why));
        }
    }
    // It prints its own time in whole seconds.
    outcome.elapsed = elapsed;
    outcome.client_cpu = ended.cpu;
    Ok(outcome)
}

/// The number of `2925 connections in 1.28s; …`.
fn connections(output: &str) -> Option<u64> {
    output.lines().find_map(|line| line.split_once(" connections in ")?.0.parse().ok())
}

#[cfg(test)]
mod tests {
    use super::connections;

    #[test]
    fn figures_are_read() {
        let output = "Collecting connection statistics for 2 seconds\n*****\n\n\
            2925 connections in 1.28s; 2285.16 connections/user sec, bytes read 12557025\n\
            2925 connections in 3 real seconds, 4293 bytes read per connection\n";
        assert_eq!(connections(output), Some(2925));
        assert_eq!(connections("Collecting connection statistics\n"), None);
    }
}
