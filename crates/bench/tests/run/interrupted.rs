//! Runs that are interrupted or killed: what they write, and that no process stays.

use super::{PATIENCE, options, with};
use bench::interrupt;
use bench::live::Live;
use bench::peers::{Protocol, Role, RunContext, Running};
use bench::report::data::Data;
use bench::run::plan;
use std::fs;
use std::io::{self, Write};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// Set for the test process that is started again to be interrupted: where it writes.
const CHILD: &str = "TIDEGATE_BENCH_TEST_CHILD";

/// Not a test of its own: what the interrupted tests start.
#[test]
fn child_that_is_interrupted() {
    let Some(directory) = std::env::var_os(CHILD).map(PathBuf::from) else { return };
    let stop = interrupt::listen().unwrap();
    let mut options = with(&["hello"], &["floor", "nginx"]);
    options.rounds = 10_000;
    options.stop = stop;
    let schedule = plan(options).unwrap();
    let live = Live::to(LineFile(directory.join("said")), false, schedule.planned());
    let data = schedule.run(&live).unwrap();
    assert!(schedule.stop().load(Ordering::Relaxed));
    data.write(&directory.join("data.json")).unwrap();
}

/// Not a test of its own: one that does not end when it is asked to.
#[test]
fn child_that_is_deaf() {
    let Some(directory) = std::env::var_os(CHILD).map(PathBuf::from) else { return };
    interrupt::listen().unwrap();
    let options = options();
    let floor = options.finder.find(bench::peers::named("floor").unwrap()).unwrap();
    let deadline = Instant::now() + Duration::from_secs(60);
    let context = RunContext::new(directory, &options.stop, deadline);
    let server = Running::start(&floor, &Role::Hello, Protocol::Http1, 1, false, &context).unwrap();
    std::thread::sleep(Duration::from_secs(60));
    drop(server);
}

/// Appends to a file, so that the parent sees how far the child is.
struct LineFile(PathBuf);

impl Write for LineFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        fs::OpenOptions::new().create(true).append(true).open(&self.0)?.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

const RUN: &str = "interrupted::child_that_is_interrupted";

struct Interrupted {
    child: Child,
    directory: tempfile::TempDir,
}

impl Interrupted {
    /// Started, and its servers run.
    fn start(test: &str) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", test, "--nocapture"])
            .env(CHILD, directory.path())
            .env("TMPDIR", directory.path())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .process_group(0)
            .spawn()
            .unwrap();
        let started = Self { child, directory };
        let count = if test == RUN && started.nginx_is_here() { 2 } else { 1 };
        until("servers", || started.servers().len() >= count);
        started
    }

    fn nginx_is_here(&self) -> bool {
        ["/usr/sbin/nginx", "/usr/bin/nginx"].iter().any(|path| Path::new(path).exists())
    }

    /// Processes that were started with something in our directory.
    fn servers(&self) -> Vec<(u32, String)> {
        let directory = self.directory.path().display().to_string();
        let processes = fs::read_dir("/proc").unwrap().flatten();
        let ids = processes.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
        let at = |id: u32| {
            let at = fs::read_link(format!("/proc/{id}/cwd")).ok()?.display().to_string();
            (id != self.child.id() && at.starts_with(&directory)).then_some((id, at))
        };
        ids.filter_map(at).collect()
    }

    fn signal(&self, name: &str) {
        let id = self.child.id().to_string();
        // It may have ended by now; the waiting code sees that.
        Command::new("kill").args(["-s", name, &id]).stderr(Stdio::null()).status().unwrap();
    }
}

fn until(what: &str, mut done: impl FnMut() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !done() {
        assert!(Instant::now() < deadline, "no {what}");
        std::thread::yield_now();
    }
}

#[test]
fn an_interrupted_run_writes_what_it_has_and_leaves_no_process() {
    let mut run = Interrupted::start(RUN);
    run.signal("INT");
    assert!(run.child.wait().unwrap().success());
    assert_eq!(run.servers(), []);
    let data = Data::read(&run.directory.path().join("data.json")).unwrap();
    assert!(!data.complete);
    // Its own directory is gone as well.
    let left = fs::read_dir(run.directory.path()).unwrap().flatten();
    let left: Vec<_> = left.filter(|entry| entry.path().is_dir()).collect();
    assert!(left.is_empty(), "{left:?}");
}

#[test]
fn a_second_interrupt_ends_at_once_and_leaves_no_process() {
    let mut run = Interrupted::start("interrupted::child_that_is_deaf");
    // Signals of one kind that come together are one signal: until it ends.
    until("end of the run", || {
        run.signal("INT");
        run.child.try_wait().unwrap().is_some()
    });
    assert_eq!(run.child.wait().unwrap().code(), Some(130));
    until("end of the servers", || run.servers().is_empty());
}

#[test]
fn a_run_that_is_killed_leaves_no_process() {
    let mut run = Interrupted::start(RUN);
    run.signal("KILL");
    assert!(!run.child.wait().unwrap().success());
    until("end of the servers", || run.servers().is_empty());
}
