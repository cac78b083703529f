//! A group: the worker processes of one application.
//!
//! Owns how many there are, what they are started with, and those that are leaving. Promises that
//! one at a time is replaced, that the group ends when it is told to and within the time it is
//! given, and that nothing of it is left when it is dropped.

use std::cell::{Cell, RefCell};
use std::os::fd::BorrowedFd;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::time::Duration;

use net::task::JoinHandle;
use net::{Bind, ChildCommand, ListenOptions, Listening, SharedCounts};
use serde_json::Value;
use tokio::sync::{Mutex, MutexGuard, Notify, watch};

use super::control_channel::SupervisorCommand;
use super::limits::{SHUT_DOWN_WITHIN, WORKERS_MAX};
use super::policy::Policy;
use super::restart::RestartReason;
use super::running_process::{Phase, RunningProcess};
use super::worker_slot::{WorkerSlot, keep_filled};
use crate::balance::ABSENT;
use crate::listeners::SocketFile;
use crate::spec::{PassedDescriptor, Role, WorkerSpec};

/// What starts a worker of Python.
const MODULE: [&str; 2] = ["-m", "tidegate"];
/// Asks a Python whether it has us, and how it says that it has not.
const PROBE: &str =
    "import importlib.util, sys; sys.exit(0 if importlib.util.find_spec('tidegate') else 3)";
const NOT_FOUND: i32 = 3;

/// What the processes of a group are started with. Two that are equal need no new processes.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct GroupSettings {
    pub(crate) launch: ChildCommand,
    pub(crate) python: Value,
    /// What each serves, role `http` only.
    pub(crate) config: Option<String>,
    pub(crate) store: Option<PathBuf>,
    pub(crate) policy: Policy,
    pub(crate) log_level: String,
    pub(crate) log_format: String,
}

/// How requests come in.
pub(crate) enum WorkerSockets {
    /// Sockets that all processes share, by name: each serves HTTP. None once the server takes no
    /// more connections.
    Shared(RefCell<Option<Vec<(String, Listening)>>>),
    /// A Unix socket for each process, in this folder: each is sent frames.
    Own(PathBuf),
}

impl WorkerSockets {
    pub(crate) fn shared(listening: Vec<(String, Listening)>) -> WorkerSockets {
        WorkerSockets::Shared(RefCell::new(Some(listening)))
    }

    /// The socket of one process: no other ever has it, so that nobody connects to one that drains.
    pub(crate) fn path(folder: &Path, slot: usize, generation: u64) -> PathBuf {
        folder.join(format!("{slot}.{generation}.sock"))
    }
}

/// What became of the first start.
#[derive(Clone, Debug, PartialEq, Eq)]
enum FirstStart {
    Coming,
    Ready,
    Failed(String),
}

/// The group.
pub(crate) struct WorkerGroup {
    pub(crate) name: String,
    settings: RefCell<Rc<GroupSettings>>,
    sockets: WorkerSockets,
    /// The connections of those that share sockets.
    counts: Option<SharedCounts>,
    slots: RefCell<Vec<(Rc<WorkerSlot>, JoinHandle<()>)>>,
    /// Held by who replaces a process.
    turn: Mutex<()>,
    leaving: RefCell<Vec<(Rc<WorkerSlot>, Rc<RunningProcess>)>>,
    left: Notify,
    /// Connections that processes cut off because they took too long to end.
    cut_off: Cell<u64>,
    first: watch::Sender<FirstStart>,
    on_change: Box<dyn Fn(&WorkerGroup)>,
    /// Nobody is told of changes any more: another group may have the name.
    is_over: Cell<bool>,
}

impl WorkerGroup {
    /// Starts the processes. `on_change` is told whenever others are at work than before.
    pub(crate) fn start(
        name: &str,
        settings: GroupSettings,
        sockets: WorkerSockets,
        workers: usize,
        on_change: impl Fn(&WorkerGroup) + 'static,
    ) -> Rc<WorkerGroup> {
        let counts = match sockets {
            // Without it they share as the kernel lets them.
            WorkerSockets::Shared(_) => SharedCounts::new(ABSENT).ok(),
            WorkerSockets::Own(_) => None,
        };
        let group = Rc::new(WorkerGroup {
            counts,
            name: name.to_owned(),
            settings: RefCell::new(Rc::new(settings)),
            sockets,
            slots: RefCell::default(),
            turn: Mutex::new(()),
            leaving: RefCell::default(),
            left: Notify::new(),
            cut_off: Cell::new(0),
            first: watch::Sender::new(FirstStart::Coming),
            on_change: Box::new(on_change),
            is_over: Cell::new(false),
        });
        group.set_workers(workers);
        group
    }

    pub(crate) fn settings(&self) -> Rc<GroupSettings> {
        self.settings.borrow().clone()
    }

    pub(crate) fn slots(&self) -> Vec<Rc<WorkerSlot>> {
        self.slots.borrow().iter().map(|(slot, _)| slot.clone()).collect()
    }

    /// Processes that are leaving.
    pub(crate) fn leaving(&self) -> Vec<Rc<RunningProcess>> {
        self.leaving.borrow().iter().map(|(_, running)| running.clone()).collect()
    }

    /// Connections of clients that the processes have, as they last reported them.
    pub(crate) fn connections(&self) -> u64 {
        let Some(counts) = &self.counts else { return 0 };
        let known = self.slots().into_iter().map(|slot| counts.get(slot.index));
        known.filter(|count| *count != ABSENT).map(u64::from).sum()
    }

    /// Closes the sockets that the processes share, so that those which drain are the last to have
    /// them, and nobody waits for a server that ends.
    pub(crate) fn stop_listening(&self) {
        if let WorkerSockets::Shared(shared) = &self.sockets {
            shared.take();
        }
    }

    /// Processes that take requests.
    pub(crate) fn ready(&self) -> usize {
        let is_ready = |slot: &Rc<WorkerSlot>| {
            let current = slot.current.borrow();
            current.as_ref().is_some_and(|running| running.phase.get() == Phase::Ready)
        };
        self.slots().iter().filter(|slot| is_ready(slot)).count()
    }

    /// Lets so many processes run: more are started, the last ones leave.
    pub(crate) fn set_workers(self: &Rc<Self>, workers: usize) {
        let workers = workers.min(WORKERS_MAX);
        let mut slots = self.slots.borrow_mut();
        while slots.len() > workers {
            if let Some((slot, _)) = slots.pop() {
                slot.give_up();
            }
        }
        while slots.len() < workers {
            let slot = WorkerSlot::new(slots.len());
            let task = net::task::spawn_local(keep_filled(self.clone(), slot.clone()));
            slots.push((slot, task));
        }
    }

    /// One more, or one less, but for the last.
    pub(crate) fn add_workers(self: &Rc<Self>, more: isize) {
        let now = self.slots.borrow().len();
        self.set_workers(now.saturating_add_signed(more).max(1));
    }

    /// Returns when the first process is ready, or says why it cannot be.
    pub(crate) async fn first(&self) -> Result<(), String> {
        let mut first = self.first.subscribe();
        match first.wait_for(|first| *first != FirstStart::Coming).await.as_deref() {
            Ok(FirstStart::Failed(why)) => Err(why.clone()),
            _ => Ok(()),
        }
    }

    /// Returns when the first process is ready, however many could not be.
    pub(crate) async fn until_ready(&self) {
        let mut first = self.first.subscribe();
        // The other end is ours.
        let _ = first.wait_for(|first| *first == FirstStart::Ready).await;
    }

    pub(super) fn first_failed(&self, why: &str) {
        self.first.send_if_modified(|first| {
            let is_first = *first == FirstStart::Coming;
            if is_first {
                *first = FirstStart::Failed(why.to_owned());
            }
            is_first
        });
    }

    /// Others are at work than before.
    pub(super) fn changed(&self) {
        for slot in self.slots() {
            if let (Some(counts), None) = (&self.counts, &*slot.current.borrow()) {
                counts.set(slot.index, ABSENT);
            }
        }
        if self.ready() > 0 {
            self.first.send_if_modified(|first| {
                let is_news = *first != FirstStart::Ready;
                *first = FirstStart::Ready;
                is_news
            });
        }
        if !self.is_over.get() {
            (self.on_change)(self);
        }
    }

    pub(super) async fn turn(&self) -> MutexGuard<'_, ()> {
        self.turn.lock().await
    }

    /// Replaces every process, one after the other; stops at the first that cannot be.
    pub(crate) async fn reload(&self) -> Result<(), String> {
        for slot in self.slots() {
            if !slot.is_given_up() {
                slot.replace(RestartReason::Reload).await?;
            }
        }
        Ok(())
    }

    /// Replaces those that were started with other settings than those of now.
    pub(crate) async fn renew(&self) -> Result<(), String> {
        for slot in self.slots() {
            let is_new = {
                let current = slot.current.borrow();
                current.as_ref().is_none_or(|one| Rc::ptr_eq(&one.settings, &self.settings()))
            };
            if !is_new && !slot.is_given_up() {
                slot.replace(RestartReason::Reload).await?;
            }
        }
        Ok(())
    }

    /// Lets every process open its log files again.
    pub(crate) fn reopen_logs(&self) {
        for running in self.slots().iter().filter_map(|slot| slot.current.borrow().clone()) {
            net::task::spawn_local(async move {
                running.send_command(SupervisorCommand::ReopenLogs).await
            });
        }
    }

    /// Starts processes with these settings from now on; who is at work goes on.
    pub(crate) fn change(&self, settings: GroupSettings) {
        self.settings.replace(Rc::new(settings));
    }

    /// Starts a process for a place.
    pub(super) fn spawn(&self, slot: &WorkerSlot) -> Result<Rc<RunningProcess>, String> {
        let settings = self.settings();
        let generation = slot.next_generation();
        let (own, shared) = match &self.sockets {
            WorkerSockets::Own(folder) => {
                (Some(open(WorkerSockets::path(folder, slot.index, generation))?), None)
            }
            WorkerSockets::Shared(shared) => (None, Some(shared.borrow())),
        };
        let named: Vec<(&str, &Listening)> = match (&own, shared.as_deref()) {
            (Some((listening, _)), _) => vec![("frames", listening)],
            (None, Some(Some(shared))) => {
                shared.iter().map(|(name, listening)| (name.as_str(), listening)).collect()
            }
            // It would open sockets of its own.
            (None, _) => return Err("the server takes no more connections".to_owned()),
        };
        let descriptors: Vec<(&str, BorrowedFd<'_>)> = named
            .into_iter()
            .filter_map(|(name, listening)| Some((name, listening.descriptor()?)))
            .collect();
        let spec =
            |control| self.spec(&settings, slot, generation, control, &descriptors).to_json();
        let counts = self.counts.as_ref().map(SharedCounts::descriptor);
        let passed: Vec<BorrowedFd<'_>> =
            descriptors.iter().map(|(_, one)| *one).chain(counts).collect();
        let file = own.as_ref().and_then(|(listening, _)| SocketFile::of(listening.local()));
        RunningProcess::start(settings.clone(), generation, &passed, file, spec)
            .map_err(|error| unable(&settings.launch, &error))
    }

    /// Why a process ended that said nothing, where it is for want of ourselves.
    pub(super) async fn diagnose(&self) -> Option<String> {
        let launch = self.settings().launch.clone();
        if !launch.arguments.iter().map(|message| message.as_os_str()).eq(MODULE) {
            return None;
        }
        let program = launch.program.clone();
        let is_missing = net::blocking(move || {
            let mut probe = std::process::Command::new(launch.program);
            probe.args(["-c", PROBE]);
            if let Some(directory) = &launch.directory {
                probe.current_dir(directory);
            }
            probe.status().is_ok_and(|status| status.code() == Some(NOT_FOUND))
        });
        if !is_missing.await.unwrap_or(false) {
            return None;
        }
        let (program, version) = (program.display(), env!("CARGO_PKG_VERSION"));
        Some(format!(
            "{program} has no tidegate: `{program} -m pip install tidegate=={version}` installs it"
        ))
    }

    fn spec(
        &self,
        settings: &GroupSettings,
        slot: &WorkerSlot,
        generation: u64,
        control: i32,
        descriptors: &[(&str, BorrowedFd<'_>)],
    ) -> WorkerSpec {
        use std::os::fd::AsRawFd;

        let handed = |(name, one): &(&str, BorrowedFd<'_>)| PassedDescriptor {
            name: (*name).to_owned(),
            descriptor: one.as_raw_fd(),
        };
        let stall = settings.policy.stall.unwrap_or_default();
        WorkerSpec {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            role: match self.sockets {
                WorkerSockets::Shared(_) => Role::Http,
                WorkerSockets::Own(_) => Role::Frames,
            },
            app: self.name.clone(),
            slot: slot.index,
            generation,
            python: settings.python.clone(),
            config: settings.config.clone(),
            control,
            listen: descriptors.iter().map(handed).collect(),
            counts: self.counts.as_ref().map(|counts| counts.descriptor().as_raw_fd()),
            store: settings.store.clone(),
            log_level: settings.log_level.clone(),
            log_format: settings.log_format.clone(),
            embedded: false,
            graceful_ms: milliseconds(settings.policy.graceful),
            stall_ms: milliseconds(stall),
        }
    }

    /// Lets a process leave that nobody sends anything to any more.
    pub(super) fn retire(self: &Rc<Self>, slot: &Rc<WorkerSlot>, running: Rc<RunningProcess>) {
        self.leaving.borrow_mut().push((slot.clone(), running.clone()));
        let (group, slot) = (self.clone(), slot.clone());
        net::task::spawn_local(async move {
            let graceful = group.settings().policy.graceful;
            running.leave(graceful, SHUT_DOWN_WITHIN).await;
            group.cut_off.set(group.cut_off.get() + running.cut_off.get());
            if slot.is_given_up() {
                group.counts.iter().for_each(|counts| counts.set(slot.index, ABSENT));
            }
            slot.remember(&running);
            group.leaving.borrow_mut().retain(|(_, other)| !Rc::ptr_eq(other, &running));
            group.left.notify_waiters();
        });
    }

    /// Ends the group: what is under way is finished, what does not end in time is killed. How many
    /// connections its processes have cut off so far.
    pub(crate) async fn stop(&self) -> u64 {
        let slots = self.slots.take();
        self.changed();
        self.is_over.set(true);
        slots.iter().for_each(|(slot, _)| slot.give_up());
        for (_, task) in slots {
            // One that panicked has ended as well.
            let _ = task.await;
        }
        loop {
            let left = self.left.notified();
            if self.leaving.borrow().is_empty() {
                return self.cut_off.get();
            }
            left.await;
        }
    }

    /// Ends what is left of the group at once.
    pub(crate) fn kill(&self) {
        for slot in self.slots() {
            slot.give_up();
            for running in [&slot.current, &slot.coming] {
                running.borrow().iter().for_each(|running| running.kill_now());
            }
        }
        self.leaving().iter().for_each(|running| running.kill_now());
    }
}

/// Why a program was not started.
fn unable(launch: &ChildCommand, error: &std::io::Error) -> String {
    let program = launch.program.display();
    match &launch.directory {
        // The system says the same of both.
        Some(folder) if !folder.is_dir() => format!("there is no folder {}", folder.display()),
        _ if error.kind() == std::io::ErrorKind::NotFound => format!(
            "there is no {program}; `python3 -m venv` makes an environment, whose folder is `venv`"
        ),
        _ => format!("{program} cannot be started: {error}"),
    }
}

fn milliseconds(span: Duration) -> u64 {
    u64::try_from(span.as_millis()).unwrap_or(u64::MAX)
}

/// A socket that only this user may connect to.
fn open(path: PathBuf) -> Result<(Listening, PathBuf), String> {
    let options = ListenOptions { mode: Some(0o600), ..ListenOptions::default() };
    let listening = Listening::bind(&Bind::Unix(path.clone()), 1, &options);
    Ok((listening.map_err(|error| error.to_string())?, path))
}
