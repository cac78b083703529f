//! One slot of a group: its current worker process, its predecessors and its successor.
//!
//! A process that ends is replaced, a replacement is ready before its predecessor drains, and if a
//! replacement fails to start its predecessor keeps serving.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::Duration;

use telemetry::log::Level;
use telemetry::{ErrorRecord, event};
use tokio::sync::{Notify, oneshot};

use super::back_off::BackOff;
use super::group_context::GroupContext;
use super::limits::{ABORT_WITHIN, REPORT_EVERY, SHUT_DOWN_WITHIN};
use super::process_errors::explain;
use super::restart::{RestartDecision, RestartReason, WorkerFacts};
use super::running_process::{Phase, RunningProcess};
use super::stats::Stats;

/// A slot of a group.
pub(crate) struct WorkerSlot {
    pub(crate) index: usize,
    generation: Cell<u64>,
    /// The process that serves.
    pub(crate) current: RefCell<Option<Rc<RunningProcess>>>,
    /// The process that is being started.
    pub(crate) coming: RefCell<Option<Rc<RunningProcess>>>,
    /// The sum of the statistics of earlier processes.
    pub(crate) earlier: RefCell<Stats>,
    pub(crate) last_failure: RefCell<Option<String>>,
    /// True if the latest start failed.
    is_failing: Cell<bool>,
    pub(crate) restarts: RefCell<BTreeMap<RestartReason, u64>>,
    request: RefCell<Option<ReplaceRequest>>,
    is_leaving: Cell<bool>,
    asked: Notify,
}

/// A request for a new process in this slot.
struct ReplaceRequest {
    reason: RestartReason,
    done: oneshot::Sender<Result<(), String>>,
}

/// The reason why a process does not keep serving.
enum ExitReason {
    Ended(String),
    Kill(RestartReason),
    Replace(RestartReason, Option<oneshot::Sender<Result<(), String>>>),
    /// It drains without a command.
    Leaves,
    /// The slot is removed.
    GivenUp,
}

impl WorkerSlot {
    pub(crate) fn new(index: usize) -> Rc<WorkerSlot> {
        Rc::new(WorkerSlot {
            index,
            generation: Cell::new(0),
            current: RefCell::default(),
            coming: RefCell::default(),
            earlier: RefCell::default(),
            last_failure: RefCell::default(),
            is_failing: Cell::new(false),
            restarts: RefCell::default(),
            request: RefCell::default(),
            is_leaving: Cell::new(false),
            asked: Notify::new(),
        })
    }

    /// Returns the generation of the process that gets requests: the current one, or else the next
    /// one unless its start has failed.
    pub(crate) fn expected(&self) -> Option<u64> {
        if let Some(current) = &*self.current.borrow() {
            return Some(current.generation);
        }
        if self.is_failing.get() || self.is_leaving.get() {
            return None;
        }
        match &*self.coming.borrow() {
            Some(coming) => Some(coming.generation),
            None => Some(self.generation.get() + 1),
        }
    }

    /// Starts the process of the next generation, which is expected until then.
    async fn spawn(&self, group: &GroupContext) -> Result<Rc<RunningProcess>, String> {
        let next = self.generation.get() + 1;
        let spawned = tokio::select! {
            spawned = group.spawn(self.index, next) => spawned,
            () = self.given_up() => Err("it is not needed any more".to_owned()),
        };
        self.generation.set(next);
        spawned
    }

    /// Requests a new process; returns the result of its start.
    pub(crate) async fn replace(&self, reason: RestartReason) -> Result<(), String> {
        let (done, result) = oneshot::channel();
        self.request.replace(Some(ReplaceRequest { reason, done }));
        self.asked.notify_waiters();
        result.await.unwrap_or_else(|_| Err("it was not replaced".to_owned()))
    }

    /// Removes the slot.
    pub(crate) fn give_up(&self) {
        self.is_leaving.set(true);
        self.request.take();
        self.asked.notify_waiters();
    }

    pub(crate) fn is_given_up(&self) -> bool {
        self.is_leaving.get()
    }

    pub(crate) async fn given_up(&self) {
        loop {
            let asked = self.asked.notified();
            if self.is_leaving.get() {
                return;
            }
            asked.await;
        }
    }

    fn count(&self, group: &GroupContext, reason: RestartReason) {
        *self.restarts.borrow_mut().entry(reason).or_default() += 1;
        group.mark(reason);
    }

    /// Records a failure, with the stack of the process where it is known.
    fn fail(&self, group: &GroupContext, why: String, stack: Option<&str>) {
        group.failures.add(ErrorRecord {
            worker: self.index,
            message: why.clone(),
            traceback: stack.unwrap_or_default().to_owned(),
            ..ErrorRecord::default()
        });
        self.last_failure.replace(Some(why));
    }

    /// Adds the statistics of a process that has ended.
    pub(crate) fn remember(&self, running: &RunningProcess) {
        let ended = running.stats.borrow().clone().ended();
        let sum = self.earlier.borrow().followed_by(&ended);
        self.earlier.replace(sum);
    }

    /// Waits before the next start, unless one is requested.
    async fn pause(&self, pause: Duration) {
        let wished = async {
            loop {
                let asked = self.asked.notified();
                if self.is_leaving.get() || self.request.borrow().is_some() {
                    return;
                }
                asked.await;
            }
        };
        net::timer::within(pause, wished).await;
    }

    /// Returns when the process has ended, or has to be replaced or killed.
    async fn until_exit(
        &self,
        group: &GroupContext,
        running: &RunningProcess,
        rest: Duration,
    ) -> ExitReason {
        let policy = group.settings().policy.clone();
        let requests_extra = fastrand::u64(..=policy.max_requests_jitter);
        let ended = running.ended();
        tokio::pin!(ended);
        let mut looks_silent = false;
        loop {
            let (asked, changed) = (self.asked.notified(), running.changed.notified());
            if self.is_leaving.get() {
                return ExitReason::GivenUp;
            }
            if let Some(request) = self.request.take() {
                return ExitReason::Replace(request.reason, Some(request.done));
            }
            if running.phase.get() == Phase::Draining {
                return ExitReason::Leaves;
            }
            let decision = policy.decide(&WorkerFacts {
                age: running.age(),
                silence: running.since_heartbeat(),
                stats: &running.stats.borrow(),
                requests_extra,
            });
            match decision {
                // If this process was suspended too, a report may be waiting: check once more.
                RestartDecision::Kill(RestartReason::Silent) if !looks_silent => {
                    looks_silent = true
                }
                RestartDecision::Kill(reason) => return ExitReason::Kill(reason),
                RestartDecision::Replace(reason) if running.age() >= rest => {
                    return ExitReason::Replace(reason, None);
                }
                RestartDecision::Replace(_) | RestartDecision::Fine => looks_silent = false,
            }
            tokio::select! {
                how = &mut ended => return ExitReason::Ended(how),
                () = asked => {}
                () = changed => {}
                () = net::timer::sleep(REPORT_EVERY) => {}
            }
        }
    }
}

/// Keeps a process in the slot until the slot is removed.
pub(crate) async fn keep_filled(group: Rc<GroupContext>, slot: Rc<WorkerSlot>) {
    let mut back_off = BackOff::default();
    while !slot.is_given_up() {
        let request = slot.request.take();
        if request.is_some() {
            back_off.forget();
        }
        let started = start_process(&group, &slot).await;
        let result = started.as_ref().map(drop).map_err(Clone::clone);
        let pause = match started {
            Ok(running) => serve(&group, &slot, running, &mut back_off, request).await,
            Err(_) if slot.is_given_up() => break,
            Err(why) => {
                // A server that stops has closed its sockets, and gives up the slots next.
                if !group.is_closed() {
                    slot.count(&group, RestartReason::Start);
                    event!(
                        Level::Error,
                        "a worker process could not be started",
                        app = group.name,
                        worker = slot.index,
                        because = why
                    );
                }
                if let Some(request) = request {
                    // The requester may have timed out.
                    let _ = request.done.send(result);
                }
                back_off.after(Duration::ZERO)
            }
        };
        slot.pause(pause).await;
    }
}

/// Starts a process and waits until it is ready.
async fn start_process(
    group: &Rc<GroupContext>,
    slot: &Rc<WorkerSlot>,
) -> Result<Rc<RunningProcess>, String> {
    let started = start_and_wait(group, slot).await;
    slot.is_failing.set(started.is_err());
    if let Err(why) = &started {
        slot.fail(group, why.clone(), None);
        group.changed();
        group.first_failed(why);
    }
    started
}

async fn start_and_wait(
    group: &Rc<GroupContext>,
    slot: &Rc<WorkerSlot>,
) -> Result<Rc<RunningProcess>, String> {
    let running = slot.spawn(group).await?;
    slot.coming.replace(Some(running.clone()));
    group.changed();
    let within = group.settings().policy.start_within;
    let ready = tokio::select! {
        ready = running.until_ready(within) => ready,
        () = slot.given_up() => Err("it is not needed any more".to_owned()),
    };
    slot.coming.take();
    match ready {
        Ok(()) => {
            slot.last_failure.take();
            event!(
                Level::Info,
                "a worker process is ready",
                app = group.name,
                worker = slot.index,
                process = running.id()
            );
            Ok(running)
        }
        Err(why) => {
            let has_reported = running.failure().is_some();
            running.kill().await;
            group.exited(slot.index, running.id());
            Err(explain(why, has_reported, &group.settings().launch).await)
        }
    }
}

/// Serves with a process and its replacements until there is none; returns the pause before the
/// next start.
async fn serve(
    group: &Rc<GroupContext>,
    slot: &Rc<WorkerSlot>,
    mut running: Rc<RunningProcess>,
    back_off: &mut BackOff,
    request: Option<ReplaceRequest>,
) -> Duration {
    slot.current.replace(Some(running.clone()));
    group.changed();
    if let Some(request) = request {
        let _ = request.done.send(Ok(()));
    }
    // Before this age only a request replaces a process.
    let mut rest = Duration::ZERO;
    loop {
        match slot.until_exit(group, &running, rest).await {
            ExitReason::Replace(reason, done) => {
                let _turn = group.turn().await;
                match start_process(group, slot).await {
                    Ok(next) => {
                        slot.count(group, reason);
                        slot.current.replace(Some(next.clone()));
                        group.changed();
                        retire(group, slot, std::mem::replace(&mut running, next));
                        rest = Duration::ZERO;
                        if let Some(done) = done {
                            let _ = done.send(Ok(()));
                        }
                    }
                    Err(why) => {
                        log_replacement_failed(group, slot, reason, &why);
                        rest = running.age() + back_off.after(Duration::ZERO);
                        if let Some(done) = done {
                            let _ = done.send(Err(why));
                        }
                    }
                }
            }
            ExitReason::Ended(how) => {
                let how = running.failure().unwrap_or(how);
                event!(
                    Level::Error,
                    "a worker process has ended",
                    app = group.name,
                    worker = slot.index,
                    process = running.id(),
                    because = how
                );
                slot.fail(group, how, None);
                return process_ended(group, slot, &running, RestartReason::Exit, back_off);
            }
            ExitReason::Kill(reason) => {
                kill_unresponsive(group, slot, &running, reason).await;
                return process_ended(group, slot, &running, reason, back_off);
            }
            ExitReason::Leaves => {
                slot.current.take();
                slot.count(group, RestartReason::Exit);
                group.changed();
                retire(group, slot, running);
                return Duration::ZERO;
            }
            ExitReason::GivenUp => {
                slot.current.take();
                group.changed();
                retire(group, slot, running);
                return Duration::ZERO;
            }
        }
    }
}

/// Drains a process that gets no more requests.
fn retire(group: &Rc<GroupContext>, slot: &Rc<WorkerSlot>, running: Rc<RunningProcess>) {
    group.begin_leaving(running.clone());
    let (group, slot) = (group.clone(), slot.clone());
    net::task::spawn_local(async move {
        let graceful = group.settings().policy.graceful;
        running.leave(graceful, SHUT_DOWN_WITHIN).await;
        if slot.is_given_up() {
            group.clear_connections(slot.index);
        }
        slot.remember(&running);
        group.exited(slot.index, running.id());
        group.has_left(&running);
    });
}

fn log_replacement_failed(
    group: &GroupContext,
    slot: &WorkerSlot,
    reason: RestartReason,
    why: &str,
) {
    if slot.is_given_up() {
        return; // no replacement is wanted: the process ends as well
    }
    event!(
        Level::Error,
        "a worker process could not be replaced, the previous one continues",
        app = group.name,
        worker = slot.index,
        reason = reason.slug(),
        because = why
    );
}

/// Records the exit of a process.
fn process_ended(
    group: &GroupContext,
    slot: &WorkerSlot,
    running: &RunningProcess,
    reason: RestartReason,
    back_off: &mut BackOff,
) -> Duration {
    slot.current.take();
    group.exited(slot.index, running.id());
    slot.remember(running);
    slot.count(group, reason);
    group.changed();
    back_off.after(running.age())
}

/// Kills a process that does not respond, and logs its stacks.
async fn kill_unresponsive(
    group: &GroupContext,
    slot: &WorkerSlot,
    running: &RunningProcess,
    reason: RestartReason,
) {
    let stack = match reason {
        RestartReason::Stuck => running.stack().await,
        _ => None,
    };
    event!(
        Level::Error,
        "a worker process does not respond and is killed",
        app = group.name,
        worker = slot.index,
        process = running.id(),
        reason = reason.slug(),
        stack = stack.as_deref().unwrap_or("unknown")
    );
    let why = format!("it did not respond ({}) and was killed", reason.slug());
    slot.fail(group, why, stack.as_deref());
    if group.settings().policy.aborts_first {
        running.abort(ABORT_WITHIN).await;
    }
    running.kill().await;
}
