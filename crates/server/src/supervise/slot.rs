//! One place of a group: the worker process in it, what came before it and what comes next.
//!
//! Promises that the place is filled again whatever becomes of its process, that a replacement is
//! ready before what it replaces drains, and that a replacement which fails leaves the one before
//! it at work.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::Duration;

use telemetry::event;
use telemetry::log::Level;
use tokio::sync::{Notify, oneshot};

use super::back_off::BackOff;
use super::group::Group;
use super::limits::REPORT_EVERY;
use super::running::{Phase, Running};
use super::stats::Stats;
use super::verdict::{Facts, Reason, Verdict};

/// The place.
pub(crate) struct Slot {
    pub(crate) index: usize,
    generation: Cell<u64>,
    /// The process that is at work.
    pub(crate) current: RefCell<Option<Rc<Running>>>,
    /// One that is being started.
    pub(crate) coming: RefCell<Option<Rc<Running>>>,
    /// What the processes before it have counted.
    pub(crate) earlier: RefCell<Stats>,
    pub(crate) last_failure: RefCell<Option<String>>,
    /// The latest start has failed.
    is_failing: Cell<bool>,
    pub(crate) restarts: RefCell<BTreeMap<Reason, u64>>,
    wish: RefCell<Option<Wish>>,
    is_leaving: Cell<bool>,
    asked: Notify,
}

/// Somebody wants a new process here.
struct Wish {
    reason: Reason,
    done: oneshot::Sender<Result<(), String>>,
}

/// Why a process is not simply left at work.
enum Over {
    Ended(String),
    Kill(Reason),
    Replace(Reason, Option<oneshot::Sender<Result<(), String>>>),
    /// It drains without having been told.
    Leaves,
    /// The place is given up.
    GivenUp,
}

impl Slot {
    pub(crate) fn new(index: usize) -> Rc<Slot> {
        Rc::new(Slot {
            index,
            generation: Cell::new(0),
            current: RefCell::default(),
            coming: RefCell::default(),
            earlier: RefCell::default(),
            last_failure: RefCell::default(),
            is_failing: Cell::new(false),
            restarts: RefCell::default(),
            wish: RefCell::default(),
            is_leaving: Cell::new(false),
            asked: Notify::new(),
        })
    }

    /// The process that requests are for: one that is at work, or else the next one as long as
    /// nobody knows that it will fail; it is worth waiting for.
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

    pub(crate) fn next_generation(&self) -> u64 {
        self.generation.set(self.generation.get() + 1);
        self.generation.get()
    }

    /// Wants a new process; says what became of it.
    pub(crate) async fn replace(&self, reason: Reason) -> Result<(), String> {
        let (done, outcome) = oneshot::channel();
        self.wish.replace(Some(Wish { reason, done }));
        self.asked.notify_waiters();
        outcome.await.unwrap_or_else(|_| Err("it was not replaced".to_owned()))
    }

    /// Gives the place up.
    pub(crate) fn give_up(&self) {
        self.is_leaving.set(true);
        self.wish.take();
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

    fn count(&self, reason: Reason) {
        *self.restarts.borrow_mut().entry(reason).or_default() += 1;
    }

    /// Keeps what a process that has ended has counted.
    pub(crate) fn remember(&self, running: &Running) {
        let ended = running.stats.borrow().clone().ended();
        let sum = self.earlier.borrow().then(&ended);
        self.earlier.replace(sum);
    }

    /// Waits before another try, unless somebody wants one.
    async fn pause(&self, pause: Duration) {
        let wished = async {
            loop {
                let asked = self.asked.notified();
                if self.is_leaving.get() || self.wish.borrow().is_some() {
                    return;
                }
                asked.await;
            }
        };
        net::timer::within(pause, wished).await;
    }

    /// Returns when something is to be done about the process.
    async fn until_over(&self, group: &Group, running: &Running, rest: Duration) -> Over {
        let policy = group.settings().policy.clone();
        let requests_extra = group.jitter(policy.max_requests_jitter);
        let ended = running.ended();
        tokio::pin!(ended);
        let mut looks_silent = false;
        loop {
            let (asked, changed) = (self.asked.notified(), running.changed.notified());
            if self.is_leaving.get() {
                return Over::GivenUp;
            }
            if let Some(wish) = self.wish.take() {
                return Over::Replace(wish.reason, Some(wish.done));
            }
            if running.phase.get() == Phase::Draining {
                return Over::Leaves;
            }
            let verdict = policy.verdict(&Facts {
                age: running.age(),
                silence: running.silence(),
                stats: &running.stats.borrow(),
                requests_extra,
            });
            match verdict {
                // Where we have slept as well, it is heard before the next look.
                Verdict::Kill(Reason::Silent) if !looks_silent => looks_silent = true,
                Verdict::Kill(reason) => return Over::Kill(reason),
                Verdict::Replace(reason) if running.age() >= rest => {
                    return Over::Replace(reason, None);
                }
                Verdict::Replace(_) | Verdict::Fine => looks_silent = false,
            }
            tokio::select! {
                how = &mut ended => return Over::Ended(how),
                () = asked => {}
                () = changed => {}
                () = net::timer::sleep(REPORT_EVERY) => {}
            }
        }
    }
}

/// Keeps a place filled until it is given up.
pub(crate) async fn keep(group: Rc<Group>, slot: Rc<Slot>) {
    let mut back_off = BackOff::default();
    while !slot.is_given_up() {
        let wish = slot.wish.take();
        if wish.is_some() {
            back_off.forget();
        }
        let begun = begin(&group, &slot).await;
        let outcome = begun.as_ref().map(drop).map_err(Clone::clone);
        let pause = match begun {
            Ok(running) => serve(&group, &slot, running, &mut back_off, wish).await,
            Err(_) if slot.is_given_up() => break,
            Err(why) => {
                slot.count(Reason::Start);
                event!(
                    Level::Error,
                    "a worker process could not be started",
                    app = group.name,
                    worker = slot.index,
                    because = why
                );
                if let Some(wish) = wish {
                    // Who asked may have gone.
                    let _ = wish.done.send(outcome);
                }
                back_off.after(Duration::ZERO)
            }
        };
        slot.pause(pause).await;
    }
}

/// Starts a process and waits until it is ready.
async fn begin(group: &Rc<Group>, slot: &Rc<Slot>) -> Result<Rc<Running>, String> {
    let begun = try_to_begin(group, slot).await;
    slot.is_failing.set(begun.is_err());
    if let Err(why) = &begun {
        slot.last_failure.replace(Some(why.clone()));
        group.changed();
        group.first_failed(why);
    }
    begun
}

async fn try_to_begin(group: &Rc<Group>, slot: &Rc<Slot>) -> Result<Rc<Running>, String> {
    let running = group.spawn(slot)?;
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
            let has_said = running.failure().is_some();
            running.kill().await;
            match group.diagnose().await.filter(|_| !has_said) {
                Some(diagnosis) => Err(diagnosis),
                None => Err(why),
            }
        }
    }
}

/// Puts a process to work, and the next one in its place, until the place is empty; how long that
/// is to stay so.
async fn serve(
    group: &Rc<Group>,
    slot: &Rc<Slot>,
    mut running: Rc<Running>,
    back_off: &mut BackOff,
    wish: Option<Wish>,
) -> Duration {
    slot.current.replace(Some(running.clone()));
    group.changed();
    if let Some(wish) = wish {
        let _ = wish.done.send(Ok(()));
    }
    // Before this age nobody but who asks for it replaces a process.
    let mut rest = Duration::ZERO;
    loop {
        match slot.until_over(group, &running, rest).await {
            Over::Replace(reason, done) => {
                let _turn = group.turn().await;
                match begin(group, slot).await {
                    Ok(next) => {
                        slot.count(reason);
                        slot.current.replace(Some(next.clone()));
                        group.changed();
                        group.retire(slot, std::mem::replace(&mut running, next));
                        rest = Duration::ZERO;
                        if let Some(done) = done {
                            let _ = done.send(Ok(()));
                        }
                    }
                    Err(why) => {
                        tell_kept(group, slot, reason, &why);
                        rest = running.age() + back_off.after(Duration::ZERO);
                        if let Some(done) = done {
                            let _ = done.send(Err(why));
                        }
                    }
                }
            }
            Over::Ended(how) => {
                let how = running.failure().unwrap_or(how);
                event!(
                    Level::Error,
                    "a worker process has ended",
                    app = group.name,
                    worker = slot.index,
                    process = running.id(),
                    because = how
                );
                slot.last_failure.replace(Some(how));
                return empty(group, slot, &running, Reason::Exit, back_off);
            }
            Over::Kill(reason) => {
                end(group, slot, &running, reason).await;
                return empty(group, slot, &running, reason, back_off);
            }
            Over::Leaves => {
                slot.current.take();
                slot.count(Reason::Exit);
                group.changed();
                group.retire(slot, running);
                return Duration::ZERO;
            }
            Over::GivenUp => {
                slot.current.take();
                group.changed();
                group.retire(slot, running);
                return Duration::ZERO;
            }
        }
    }
}

fn tell_kept(group: &Group, slot: &Slot, reason: Reason, why: &str) {
    if slot.is_given_up() {
        return; // nobody wants a replacement: the process ends as well
    }
    event!(
        Level::Error,
        "a worker process could not be replaced, the one before goes on",
        app = group.name,
        worker = slot.index,
        reason = reason.slug(),
        because = why
    );
}

/// The process has ended.
fn empty(
    group: &Group,
    slot: &Slot,
    running: &Running,
    reason: Reason,
    back_off: &mut BackOff,
) -> Duration {
    slot.current.take();
    slot.remember(running);
    slot.count(reason);
    group.changed();
    back_off.after(running.age())
}

/// Ends a process that does not answer, and says where it stood.
async fn end(group: &Group, slot: &Slot, running: &Running, reason: Reason) {
    let stack = match reason {
        Reason::Stuck => running.stack().await,
        _ => None,
    };
    event!(
        Level::Error,
        "a worker process answers nobody and is killed",
        app = group.name,
        worker = slot.index,
        process = running.id(),
        reason = reason.slug(),
        stack = stack.as_deref().unwrap_or("unknown")
    );
    let why = format!("it answered nobody ({}) and was killed", reason.slug());
    slot.last_failure.replace(Some(why));
    running.kill().await;
}
