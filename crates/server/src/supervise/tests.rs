//! Groups of processes, each this test program started again: what happens when one misbehaves.

mod gateway;
mod run_application;
mod serving;
mod worker;

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use net::ChildCommand;
use serde_json::json;
use telemetry::{ErrorRecord, MarkKind, Telemetry};
use tempfile::TempDir;

use super::policy::Policy;
use super::restart::RestartReason;
use super::running_process::{Phase, RunningProcess};
use super::{GroupSettings, WorkerGroup, WorkerSockets};

/// Longer than a slow machine needs.
const TIMEOUT: Duration = Duration::from_secs(60);

/// Settings of processes that behave in a way that [`worker`] knows.
pub(super) fn settings(behaviour: &str, policy: Policy) -> GroupSettings {
    let arguments = ["--exact", "--nocapture", "supervise::tests::worker::worker"];
    GroupSettings {
        launch: ChildCommand {
            program: std::env::current_exe().unwrap(),
            arguments: arguments.map(Into::into).to_vec(),
            ..ChildCommand::default()
        },
        python: json!({ "behaviour": behaviour }),
        preload: false,
        config: None,
        store: None,
        policy,
        log_level: "error".to_owned(),
        log_format: "text".to_owned(),
        error_log: None,
        on_event: None,
    }
}

/// A group under test; ended on drop.
struct Stage {
    group: Rc<WorkerGroup>,
    /// The numbers of ready processes, at each change.
    seen: Rc<RefCell<Vec<usize>>>,
    directory: TempDir,
    telemetry: Arc<Telemetry>,
}

impl Stage {
    fn new(behaviour: &str, policy: Policy, workers: usize) -> Stage {
        let directory = TempDir::new().unwrap();
        let telemetry = Arc::default();
        let seen = Rc::new(RefCell::new(Vec::new()));
        let noted = seen.clone();
        let sockets = WorkerSockets::Own(directory.path().to_owned());
        let group = WorkerGroup::start(
            "test",
            settings(behaviour, policy),
            sockets,
            workers,
            &telemetry,
            move |group| {
                let (mut seen, ready) = (noted.borrow_mut(), group.ready());
                if seen.last().copied().unwrap_or(0) != ready {
                    seen.push(ready);
                }
            },
        );
        Stage { group, seen, directory, telemetry }
    }

    /// Waits until something holds.
    async fn wait_until(&self, what: &str, holds: impl Fn(&WorkerGroup) -> bool) {
        let held = async {
            while !holds(&self.group) {
                net::timer::sleep(Duration::from_millis(4)).await;
            }
        };
        assert!(net::timer::within(TIMEOUT, held).await.is_some(), "never {what}");
    }

    async fn until_ready(&self, workers: usize) {
        self.wait_until("ready", |group| group.ready() == workers).await;
    }

    fn restarts(&self, reason: RestartReason) -> u64 {
        let slots = self.group.slots();
        slots.iter().filter_map(|slot| slot.restarts.borrow().get(&reason).copied()).sum()
    }

    /// The texts of the marks so far, and whether they are bad news.
    fn marks(&self) -> Vec<(String, bool)> {
        let marks = self.telemetry.marks().since(0).into_iter();
        marks.map(|mark| (mark.text, mark.kind == MarkKind::Bad)).collect()
    }

    fn process(&self, slot: usize) -> Rc<RunningProcess> {
        self.group.slots()[slot].current.borrow().clone().expect("a process at work")
    }

    async fn behave(&self, behaviour: &str) {
        let changed = settings(behaviour, self.group.settings().policy.clone());
        self.group.change(changed);
    }

    /// Ends the group, and checks that no process survives.
    async fn end(self) {
        let stopped = net::timer::within(TIMEOUT, self.group.stop()).await;
        assert!(stopped.is_some() && self.group.leaving().is_empty(), "it does not end");
        assert!(
            std::fs::read_dir(self.directory.path()).unwrap().next().is_none(),
            "sockets are left"
        );
    }
}

fn exists(process: u32) -> bool {
    std::path::Path::new(&format!("/proc/{process}")).exists()
}

/// What a worker that leaks reports again and again.
fn is_raised(error: &ErrorRecord) -> bool {
    (error.worker, error.message.as_str()) == (0, "KeyError: 'shop'") && error.times >= 2
}

/// A policy whose time-outs a slow machine keeps.
fn patient() -> Policy {
    Policy { start_within: TIMEOUT, graceful: TIMEOUT, stuck_after: None, ..Policy::default() }
}

fn run(test: impl Future<Output = ()>) {
    net::worker::block_on_local(test);
}

#[test]
fn requests_have_a_process_to_wait_for_at_once() {
    run(async {
        let directory = TempDir::new().unwrap();
        let sockets = WorkerSockets::Own(directory.path().to_owned());
        let expected = Rc::new(Cell::new(0));
        let noted = expected.clone();
        let on_change = move |group: &WorkerGroup| {
            noted.set(group.slots().iter().filter(|slot| slot.expected().is_some()).count());
        };
        let settings = settings("good", patient());
        let group = WorkerGroup::start("test", settings, sockets, 2, &Arc::default(), on_change);
        // No task has run yet.
        assert_eq!(expected.get(), 2);
        group.stop().await;
    });
}

#[test]
fn a_group_starts_grows_shrinks_and_ends() {
    run(async {
        let stage = Stage::new("good", patient(), 2);
        assert_eq!(stage.group.first().await, Ok(()));
        stage.until_ready(2).await;
        let second = stage.process(1).id();
        assert!(exists(second));
        stage.group.add_workers(1);
        stage.until_ready(3).await;
        stage.group.add_workers(-2);
        stage.until_ready(1).await;
        stage.wait_until("gone", |_| !exists(second)).await;
        stage.group.add_workers(-5);
        assert_eq!(stage.group.slots().len(), 1, "the last stays");
        stage.end().await;
    });
}

#[test]
fn a_killed_worker_is_replaced_and_the_other_continues() {
    run(async {
        let stage = Stage::new("good", patient(), 2);
        stage.until_ready(2).await;
        let other = stage.process(1).id();
        stage.process(0).kill_now();
        stage.wait_until("noticed", |_| stage.restarts(RestartReason::Exit) == 1).await;
        stage.until_ready(2).await;
        assert_eq!((stage.process(1).id(), stage.process(0).generation), (other, 2));
        let slot = &stage.group.slots()[0];
        assert_eq!(slot.last_failure.borrow().as_deref(), None, "forgotten with the next");
        let failures = stage.group.failures();
        assert_eq!((failures.len(), failures[0].worker, failures[0].times), (1, 0, 1));
        assert_eq!(failures[0].message, "it was ended by signal 9");
        assert_eq!(stage.marks(), [("a process of app test has ended".to_owned(), true)]);
        assert_eq!(stage.group.reload().await, Ok(()));
        let replaced = ("a process of app test was replaced (reload)".to_owned(), false);
        assert_eq!(stage.marks().last(), Some(&replaced));
        stage.end().await;
    });
}

#[test]
fn what_fails_to_begin_is_reported_and_tried_again_more_and_more_slowly() {
    run(async {
        for (behaviour, why) in
            [("failed", "no module named \"shop\""), ("exits", "it ended with exit code 3")]
        {
            let stage = Stage::new(behaviour, patient(), 1);
            assert_eq!(stage.group.first().await, Err(why.to_owned()));
            stage.wait_until("tried again", |_| stage.restarts(RestartReason::Start) >= 3).await;
            assert!(stage.seen.borrow().is_empty(), "never ready");
            stage.behave("good").await;
            stage.until_ready(1).await;
            stage.end().await;
        }
    });
}

#[test]
fn a_python_without_tidegate_gets_an_error_with_what_to_install() {
    use std::os::unix::fs::PermissionsExt;

    run(async {
        let directory = TempDir::new().unwrap();
        let python = directory.path().join("python");
        // Called with `-c` to look for tidegate, it reports that there is none.
        std::fs::write(&python, "#!/bin/sh\n[ \"$1\" = -c ] && exit 3\nexit 1\n").unwrap();
        std::fs::set_permissions(&python, std::fs::Permissions::from_mode(0o700)).unwrap();
        let stage = Stage::new("good", patient(), 0);
        let mut changed = settings("good", patient());
        changed.launch.program = python.clone();
        changed.launch.arguments = ["-m", "tidegate"].map(Into::into).to_vec();
        stage.group.change(changed.clone());
        stage.group.set_workers(1);
        let said = stage.group.first().await.unwrap_err();
        assert!(said.contains("has no tidegate") && said.contains("pip install"), "{said}");
        changed.launch.program = directory.path().join("none");
        stage.group.change(changed);
        stage
            .wait_until("missed", |group| {
                let failure = group.slots()[0].last_failure.borrow().clone().unwrap_or_default();
                failure.contains("none; `python3 -m venv` makes")
            })
            .await;
        stage.end().await;
    });
}

#[test]
fn a_worker_that_loses_its_supervisor_ends() {
    run(async {
        let inner = TempDir::new().unwrap();
        let stage = Stage::new("good", patient(), 0);
        let mut changed = settings("supervises", patient());
        changed.python["directory"] = json!(inner.path().to_str());
        stage.group.change(changed);
        stage.group.set_workers(1);
        stage.until_ready(1).await;
        let process = stage.process(0);
        stage.wait_until("told", |_| process.stats.borrow().requests > 0).await;
        let worker = u32::try_from(process.stats.borrow().requests).unwrap();
        assert!(exists(worker));
        stage.behave("good").await;
        process.kill_now();
        drop(process);
        stage.wait_until("ended", |_| !exists(worker)).await;
        stage.end().await;
    });
}

#[test]
fn a_worker_that_is_never_ready_is_killed() {
    run(async {
        let policy = Policy { start_within: Duration::from_millis(100), ..patient() };
        let stage = Stage::new("never ready", policy, 1);
        let said = stage.group.first().await.unwrap_err();
        assert_eq!(said, "it was not ready within 0.1 s");
        stage.end().await;
    });
}

#[test]
fn another_version_is_refused_in_one_sentence() {
    run(async {
        let stage = Stage::new("other version", patient(), 1);
        let said = stage.group.first().await.unwrap_err();
        assert!(said.contains("tidegate 0.0.1") && said.contains("same version"), "{said}");
        stage.end().await;
    });
}

#[test]
fn a_worker_that_ends_when_it_is_ready_is_started_again() {
    run(async {
        let stage = Stage::new("ends after ready", patient(), 1);
        stage.wait_until("ended", |_| stage.restarts(RestartReason::Exit) >= 2).await;
        assert!(stage.seen.borrow().starts_with(&[1, 0, 1, 0]), "{:?}", stage.seen);
        stage.end().await;
    });
}

#[test]
fn a_worker_that_ignores_drain_is_killed() {
    run(async {
        let policy = Policy { graceful: Duration::from_millis(50), ..patient() };
        let stage = Stage::new("stays", policy, 1);
        stage.until_ready(1).await;
        let process = stage.process(0).id();
        // The time for the application's own shutdown is added.
        stage.end().await;
        assert!(!exists(process));
    });
}

#[test]
fn a_silent_worker_is_killed() {
    run(async {
        let policy = Policy { stuck_after: Some(Duration::from_millis(1500)), ..patient() };
        let stage = Stage::new("silent", policy, 1);
        stage.wait_until("killed", |_| stage.restarts(RestartReason::Silent) >= 1).await;
        stage.end().await;
    });
}

#[test]
fn an_application_that_does_not_respond_is_killed() {
    run(async {
        let policy = Policy { stuck_after: Some(TIMEOUT), ..patient() };
        let stage = Stage::new("stuck", policy, 1);
        stage.wait_until("killed", |_| stage.restarts(RestartReason::Stuck) >= 1).await;
        stage.end().await;
    });
}

#[test]
fn limits_replace_a_worker_before_it_leaves() {
    run(async {
        for (policy, reason) in [
            (Policy { max_rss_bytes: Some(1 << 30), ..patient() }, RestartReason::MaxRss),
            (Policy { max_requests: Some(50), ..patient() }, RestartReason::MaxRequests),
            (
                Policy { lifetime: Some(Duration::from_millis(300)), ..patient() },
                RestartReason::Lifetime,
            ),
        ] {
            let stage = Stage::new("leaks", policy, 1);
            stage.wait_until("replaced", |_| stage.restarts(reason) >= 2).await;
            assert!(!stage.seen.borrow().contains(&0), "{reason:?}: {:?}", stage.seen);
            stage
                .wait_until("gone", |group| group.slots()[0].earlier.borrow().requests >= 50)
                .await;
            stage.end().await;
        }
    });
}

#[test]
fn a_reload_replaces_all_workers_and_a_broken_one_none() {
    run(async {
        let stage = Stage::new("good", patient(), 2);
        stage.until_ready(2).await;
        let before = [stage.process(0).id(), stage.process(1).id()];
        assert_eq!(stage.group.reload().await, Ok(()));
        let after = [stage.process(0).id(), stage.process(1).id()];
        assert!(before.iter().all(|process| !after.contains(process)));
        assert!(!stage.seen.borrow().contains(&0));
        stage.behave("failed").await;
        assert_eq!(stage.group.reload().await, Err("no module named \"shop\"".to_owned()));
        assert_eq!([stage.process(0).id(), stage.process(1).id()], after);
        assert_eq!(stage.group.ready(), 2);
        stage.behave("good").await;
        assert_eq!(stage.group.reload().await, Ok(()));
        stage.end().await;
    });
}

#[test]
fn one_that_exits_by_itself_is_replaced_while_it_drains() {
    run(async {
        let stage = Stage::new("drains itself once", patient(), 1);
        stage.wait_until("replaced", |_| stage.restarts(RestartReason::Exit) == 1).await;
        stage
            .wait_until("ready", |group| {
                let current = group.slots()[0].current.borrow().clone();
                current.is_some_and(|one| one.generation == 2 && one.phase.get() == Phase::Ready)
            })
            .await;
        stage.end().await;
    });
}

#[test]
fn what_counts_is_reported_and_a_stack_can_be_requested() {
    run(async {
        let stage = Stage::new("leaks", patient(), 1);
        stage.until_ready(1).await;
        let process = stage.process(0);
        assert_eq!(process.metrics().await.as_deref(), Some("# nothing\n"));
        assert_eq!(process.stack().await.as_deref(), Some("File \"shop.py\", line 3\n"));
        stage.wait_until("heard", |_| process.stats.borrow().requests > 0).await;
        drop(process);
        stage.wait_until("raised", |group| group.errors().first().is_some_and(is_raised)).await;
        stage.end().await;
    });
}
