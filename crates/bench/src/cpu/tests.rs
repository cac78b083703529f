//! Process trees that compute, fork and exit on command.

use super::group::sweep;
use super::{Counted, Group, Sample, Stat, Tree};
use std::ffi::OsStr;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// A shell that executes commands line by line and ends with the test.
struct Shell {
    child: Child,
    answers: BufReader<std::process::ChildStdout>,
}

impl Shell {
    fn start() -> Self {
        Self::with(&mut Command::new("sh"))
    }

    #[allow(unsafe_code, reason = "std has no other way to do something between fork and exec")]
    fn start_in(group: &Group) -> Self {
        let entry = group.entry();
        let enter = move || {
            entry.enter();
            Ok(())
        };
        let mut command = Command::new("sh");
        // SAFETY: `enter` may be called after fork.
        unsafe { command.pre_exec(enter) };
        Self::with(&mut command)
    }

    fn with(command: &mut Command) -> Self {
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let answers = BufReader::new(child.stdout.take().unwrap());
        Self { child, answers }
    }

    /// Runs a command in it and waits until it is done.
    fn run(&mut self, command: &str) -> String {
        let input = self.child.stdin.as_mut().unwrap();
        writeln!(input, "{command}; echo done").unwrap();
        let mut said = String::new();
        while !said.ends_with("done\n") {
            assert_ne!(self.answers.read_line(&mut said).unwrap(), 0, "the shell ended: {said}");
        }
        said
    }
}

impl Drop for Shell {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

const COUNT: &str = "i=0; while [ $i -lt 200000 ]; do i=$((i+1)); done";

#[test]
fn work_of_the_process_and_its_children_is_counted() {
    // One process after the other: they cannot run for longer than they exist.
    let started = Instant::now();
    let mut shell = Shell::start();
    let tree = Tree::of(shell.child.id());
    let before = tree.sample();
    assert_eq!(before.processes, 1);
    shell.run(COUNT);
    let used = tree.sample().since(&before);
    assert!(used.run_ns > 5_000_000, "{used:?}");
    assert!(Duration::from_nanos(used.run_ns) <= started.elapsed(), "{used:?}");
    assert!(used.rss_bytes > 100_000, "{used:?}");
    assert_eq!(used.counted, Counted::Tasks);

    // `sleep` with a long time stands for a worker; it ends with the shell's `kill`.
    shell.run("sleep 1000 & worker=$!");
    let with_worker = tree.sample();
    assert_eq!(with_worker.processes, 2);
    shell.run("kill $worker; wait $worker");
    let used = tree.sample().since(&with_worker);
    assert_eq!(used.ended_tasks, 1);
    assert_eq!(tree.sample().processes, 1);
}

#[test]
fn a_child_that_ended_is_counted_by_its_parent() {
    let started = Instant::now();
    let mut shell = Shell::start();
    let tree = Tree::of(shell.child.id());
    let before = tree.sample();
    shell.run(&format!("( {COUNT}; {COUNT}; {COUNT}; {COUNT} )"));
    let used = tree.sample().since(&before);
    assert_eq!(used.counted, Counted::Ticks);
    assert!(used.run_ns > 20_000_000, "{used:?}");
    // User and system time of both processes are rounded to ticks of 10 ms.
    let at_most = started.elapsed() + Duration::from_millis(40);
    assert!(Duration::from_nanos(used.run_ns) <= at_most, "{used:?}");
}

/// A group, or a line that there may be none.
fn group() -> Option<Group> {
    let group = Group::new();
    if group.is_none() {
        println!("skipped: no cgroup v2 that we may make a group in");
    }
    group
}

#[test]
fn a_group_counts_children_that_ended() {
    let Some(group) = group() else { return };
    let mut shell = Shell::start_in(&group);
    assert!(group.holds(shell.child.id()));
    let directory = group.directory().to_owned();
    let tree = Tree::grouped(vec![shell.child.id()], Some(Arc::new(group)));
    let before = tree.sample();
    shell.run(&format!("( {COUNT} )"));
    let after = tree.sample();
    let used = after.since(&before);
    assert_eq!(used.counted, Counted::Group);
    assert!(used.run_ns > 5_000_000, "{used:?}");
    // Without the group the child is counted by its parent, in ticks.
    let alone = |sample: &Sample| Sample { group: None, ..sample.clone() };
    let in_ticks = alone(&after).since(&alone(&before));
    assert_eq!(in_ticks.counted, Counted::Ticks);
    assert!(in_ticks.run_ns.abs_diff(used.run_ns) < 40_000_000 + used.run_ns / 20, "{in_ticks:?}");
    drop(shell);
    drop(tree);
    assert!(!directory.exists());
}

/// Like a daemon, or the workers of a replaced master: no process of the tree waits for
/// it.
#[test]
fn a_group_counts_processes_that_left_their_parent_and_ends_them() {
    let Some(group) = group() else { return };
    let mut shell = Shell::start_in(&group);
    let tree = Tree::grouped(vec![shell.child.id()], Some(Arc::new(group)));
    let before = tree.sample();
    shell.run(&format!("( setsid sh -c '{COUNT}; exec sleep 600' & )"));
    let deadline = Instant::now() + Duration::from_secs(60);
    let left = loop {
        let members = tree.pids();
        let asleep = |pid: &&u32| super::read(Path::new(&format!("/proc/{pid}/comm"))) == "sleep\n";
        if let Some(left) = members.iter().find(asleep) {
            break *left;
        }
        assert!(Instant::now() < deadline, "{members:?}");
        std::thread::yield_now();
    };
    let used = tree.sample().since(&before);
    assert_eq!(used.counted, Counted::Group);
    assert!(used.run_ns > 5_000_000, "{used:?}");
    drop(shell);
    drop(tree);
    // The process that adopted it reaps it.
    let state = super::read(Path::new(&format!("/proc/{left}/stat")));
    assert!(state.is_empty() || state.contains(") Z "), "{state}");
}

#[test]
fn a_sweep_removes_groups_without_a_run_and_no_others() {
    let Some(group) = group() else { return };
    let mut shell = Shell::start_in(&group);
    // What a killed run leaves. A sweep of another test may remove it, at any time.
    let cgroup = group.directory().parent().unwrap();
    let left = cgroup.join(format!("tidegate-bench-{}-left", std::process::id()));
    let mut orphan = Command::new("sleep").arg("30").spawn().unwrap();
    let entered = || {
        let _ = std::fs::create_dir(&left);
        std::fs::write(left.join("cgroup.procs"), orphan.id().to_string()).is_ok()
    };
    assert!((0..100).any(|_| entered()));
    sweep(cgroup);
    assert_eq!(orphan.wait().unwrap().signal(), Some(libc::SIGKILL));
    let deadline = Instant::now() + Duration::from_secs(60);
    while left.exists() {
        assert!(Instant::now() < deadline);
        std::thread::yield_now();
    }
    shell.run("true");
    assert!(group.holds(shell.child.id()));
}

/// In a PID namespace of its own, as in a container, a run sees no process of the others.
#[test]
fn a_sweep_in_another_pid_namespace_leaves_the_groups_of_this_one() {
    let Some(group) = group() else { return };
    let mut shell = Shell::start_in(&group);
    let in_namespace = |words: &[&OsStr]| {
        let flags = ["--map-root-user", "--mount-proc", "--pid", "--fork", "--kill-child"];
        Command::new("unshare").args(flags).args(words).output()
    };
    if !in_namespace(&["true".as_ref()]).is_ok_and(|ended| ended.status.success()) {
        println!("skipped: no PID namespace for a test");
        return;
    }
    let this = std::env::current_exe().unwrap();
    let test = "cpu::tests::a_sweep_removes_groups_without_a_run_and_no_others";
    let words = [this.as_os_str(), "--exact".as_ref(), test.as_ref()];
    let ended = in_namespace(&words).unwrap();
    assert!(ended.status.success(), "{}", String::from_utf8_lossy(&ended.stdout));
    assert!(String::from_utf8_lossy(&ended.stdout).contains("1 passed"), "{ended:?}");
    shell.run("true");
    assert!(group.holds(shell.child.id()));
}

#[test]
fn a_process_that_is_gone_has_used_nothing() {
    let mut child = Command::new("true").spawn().unwrap();
    child.wait().unwrap();
    let sample = Tree::of(child.id()).sample();
    assert_eq!(sample, Sample::default());
}

#[test]
fn stat_is_read_behind_any_name() {
    let text = "12 (a) b) S 7 1 1 0 -1 0 0 0 0 0 31 32 33 34 20 0 1 0 99 0 0";
    let expected =
        Stat { user_ticks: 31, system_ticks: 32, reaped_ticks: 67, parent: 7, started: 99 };
    assert_eq!(Stat::parse(text), Some(expected));
    assert_eq!(Stat::parse("12 (a"), None);
    assert_eq!(Stat::parse("12 (a) S 7 1"), None);
}
