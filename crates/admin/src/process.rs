//! Metrics of the process, read from /proc at each scrape.
//!
//! On systems other than Linux these families are absent.

use std::fs;
use telemetry::{Family, FamilySamples, Sample, Value, families};

/// Ticks per second in /proc: fixed at 100 for user space on every Linux we build for (`USER_HZ`).
const TICKS_PER_SECOND: f64 = 100.0;

/// The families about the build and the process.
pub(crate) fn samples() -> Vec<FamilySamples> {
    let version = vec![env!("CARGO_PKG_VERSION").to_owned()];
    let mut found = vec![FamilySamples {
        family: &families::BUILD_INFO,
        samples: vec![Sample { labels: version, value: Value::Gauge(1) }],
    }];
    let mut add = |family: &'static Family, value: Option<Value>| {
        let sample = value.map(|value| Sample { labels: Vec::new(), value });
        found.extend(sample.map(|sample| FamilySamples { family, samples: vec![sample] }));
    };
    let stat = fs::read_to_string("/proc/self/stat").ok();
    let times = stat.as_deref().and_then(times);
    add(&families::PROCESS_CPU, times.map(|times| Value::Float(times.cpu_s)));
    let status = fs::read_to_string("/proc/self/status").ok();
    let rss = status.as_deref().and_then(|status| kibibytes(status, "VmRSS:"));
    add(&families::PROCESS_RSS, rss.map(|kib| Value::Gauge(kib.saturating_mul(1_024))));
    // The directory being read is one of the descriptors; it is closed again afterwards.
    let fds = fs::read_dir("/proc/self/fd").ok().map(|entries| entries.count() as i64 - 1);
    add(&families::PROCESS_FDS, fds.map(Value::Gauge));
    let limits = fs::read_to_string("/proc/self/limits").ok();
    add(&families::PROCESS_MAX_FDS, limits.as_deref().and_then(max_fds).map(Value::Gauge));
    let boot = fs::read_to_string("/proc/stat").ok().as_deref().and_then(boot_time_s);
    let start = times.zip(boot).map(|(times, boot)| Value::Float(boot + times.since_boot_s));
    add(&families::PROCESS_START, start);
    found
}

#[derive(Debug, Clone, Copy, PartialEq)]
struct ProcessTimes {
    cpu_s: f64,
    since_boot_s: f64,
}

/// Fields 14, 15 and 22 of proc_pid_stat(5); the name in field 2 may hold spaces and brackets.
fn times(stat: &str) -> Option<ProcessTimes> {
    let (_, rest) = stat.rsplit_once(')')?;
    let fields: Vec<&str> = rest.split_ascii_whitespace().collect();
    let ticks = |field: usize| fields.get(field - 3)?.parse::<f64>().ok();
    Some(ProcessTimes {
        cpu_s: (ticks(14)? + ticks(15)?) / TICKS_PER_SECOND,
        since_boot_s: ticks(22)? / TICKS_PER_SECOND,
    })
}

fn kibibytes(status: &str, key: &str) -> Option<i64> {
    let line = status.lines().find_map(|line| line.strip_prefix(key))?;
    line.trim().strip_suffix("kB")?.trim().parse().ok()
}

fn max_fds(limits: &str) -> Option<i64> {
    let line = limits.lines().find_map(|line| line.strip_prefix("Max open files"))?;
    line.split_ascii_whitespace().next()?.parse().ok()
}

fn boot_time_s(stat: &str) -> Option<f64> {
    stat.lines().find_map(|line| line.strip_prefix("btime "))?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::{boot_time_s, kibibytes, max_fds, samples, times};
    use telemetry::{Value, families, timestamp};

    #[test]
    fn files_of_proc_are_read() {
        let stat =
            "42 (tide (gate) x) S 1 42 42 0 -1 4194560 100 0 0 0 250 50 0 0 20 0 3 0 9000 1 2";
        let times = times(stat).unwrap();
        assert_eq!((times.cpu_s, times.since_boot_s), (3.0, 90.0));
        assert_eq!(kibibytes("VmPeak:\t 9 kB\nVmRSS:\t    1234 kB\n", "VmRSS:"), Some(1_234));
        let limits =
            "Limit  Soft Limit\nMax open files            1024                 4096  files\n";
        assert_eq!(max_fds(limits), Some(1_024));
        assert_eq!(max_fds("Max open files unlimited unlimited files"), None);
        assert_eq!(boot_time_s("cpu 1 2\nbtime 1700000000\n"), Some(1_700_000_000.0));
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn our_own_process_is_plausible() {
        let found = samples();
        let value = |name: &str| {
            let found = found.iter().find(|found| found.family.name == name).unwrap();
            match found.samples[0].value {
                Value::Gauge(n) => n as f64,
                Value::Float(n) => n,
                _ => panic!("{name}"),
            }
        };
        assert!(value(families::PROCESS_RSS.name) > 100_000.0);
        assert!(value(families::PROCESS_FDS.name) >= 3.0);
        let now = timestamp::now_ms() as f64 / 1e3;
        let start = value(families::PROCESS_START.name);
        assert!(start <= now + 1.0 && start > now - 86_400.0, "{start} {now}");
    }
}
