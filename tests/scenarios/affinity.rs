//! `--cpu-affinity`: every worker stays on one of the cores that the process may use, in turn;
//! without it on any of them.

use crate::setup::responding;
use scenarios::Launch;
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

/// The cores of a `Cpus_allowed_list`, such as `0-2,5`.
fn cores(status: &Path) -> Vec<usize> {
    let text = fs::read_to_string(status).expect("a status");
    let line = text.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:"));
    let number = |text: &str| text.trim().parse::<usize>().expect("a number");
    let ranges = line.expect("a list of cores").split(',').flat_map(|range| {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        number(first)..=number(last)
    });
    ranges.collect()
}

/// Where each worker of a server that listens may run.
fn workers(arguments: &[&str]) -> BTreeMap<String, Vec<usize>> {
    let launch = Launch::new(&responding(""));
    let server = arguments.iter().fold(launch, |launch, word| launch.argument(word)).start();
    server.address("web");
    let threads = fs::read_dir(format!("/proc/{}/task", server.id())).expect("threads");
    let threads = threads.map(|thread| thread.expect("a thread").path());
    let named = threads.map(|thread| {
        // A thread that reads files may have ended since.
        let name = fs::read_to_string(thread.join("comm")).unwrap_or_default();
        (name.trim().to_owned(), thread.join("status"))
    });
    let workers = named.filter(|(name, _)| name.starts_with("worker-"));
    workers.map(|(name, status)| (name, cores(&status))).collect()
}

#[test]
fn a_worker_stays_on_its_core_when_configured() {
    let allowed = cores(Path::new("/proc/self/status"));
    let free = workers(&["--workers", "3"]);
    assert_eq!(free.len(), 3);
    assert!(free.values().all(|cores| *cores == allowed), "{free:?}");

    let pinned = workers(&["--workers", "3", "--cpu-affinity"]);
    let wanted = (0..3)
        .map(|worker: usize| (format!("worker-{worker}"), vec![allowed[worker % allowed.len()]]));
    assert_eq!(pinned, wanted.collect());
}
