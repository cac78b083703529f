//! The state that the slots of a group share: how a process is started, the lock for replacements,
//! and draining processes.

use std::cell::{Cell, RefCell};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use net::{Bind, ListenOptions, Listening, SharedCounts, Stream};
use telemetry::{MarkKind, RecentErrors, Telemetry};
use tokio::sync::{Mutex, MutexGuard, Notify, watch};

use super::current_preloader::CurrentPreloader;
use super::group_settings::{GroupEvent, GroupSettings};
use super::process_errors::start_error;
use super::request_errors::RequestErrors;
use super::restart::RestartReason;
use super::running_process::RunningProcess;
use crate::balance::ABSENT;
use crate::listeners::SocketFile;
use crate::spec::{PassedDescriptor, Role, WorkerSpec};

/// Listening sockets by name.
type NamedSockets = Vec<(String, OwnedFd)>;

/// How requests reach the processes.
pub(crate) enum WorkerSockets {
    /// Listening sockets that all processes share, by name: each serves HTTP. `None` once the
    /// server stops accepting.
    Shared(RefCell<Option<Vec<(String, Listening)>>>),
    /// A Unix socket for each process, in this directory: each receives frames.
    Own(PathBuf),
}

impl WorkerSockets {
    pub(crate) fn shared(listening: Vec<(String, Listening)>) -> WorkerSockets {
        WorkerSockets::Shared(RefCell::new(Some(listening)))
    }

    /// Returns the path of a process's socket, which no other process ever has, so that no worker
    /// connects to a draining process.
    pub(crate) fn path(directory: &Path, slot: usize, generation: u64) -> PathBuf {
        directory.join(format!("{slot}.{generation}.sock"))
    }
}

/// The result of the first start.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum FirstStart {
    Coming,
    Ready,
    Failed(String),
}

/// The context of all slots of a group.
pub(super) struct GroupContext {
    pub(super) name: String,
    settings: RefCell<Rc<GroupSettings>>,
    sockets: WorkerSockets,
    /// The connection counts of processes that share sockets.
    counts: Option<SharedCounts>,
    pub(super) preloader: CurrentPreloader,
    /// Held while a process is replaced.
    turn: Mutex<()>,
    leaving: RefCell<Vec<Rc<RunningProcess>>>,
    left: Notify,
    /// Connections that were cut off by the drain time-out.
    cut_off: Cell<u64>,
    pub(super) first: watch::Sender<FirstStart>,
    /// The last failures of the processes.
    pub(super) failures: RecentErrors,
    /// The last exceptions that requests raised in the processes.
    pub(super) errors: Arc<RecentErrors>,
    telemetry: Arc<Telemetry>,
    on_change: Box<dyn Fn()>,
}

impl GroupContext {
    /// `on_change` is called whenever a slot's process is replaced or ends.
    pub(super) fn new(
        name: &str,
        settings: GroupSettings,
        sockets: WorkerSockets,
        telemetry: &Arc<Telemetry>,
        on_change: impl Fn() + 'static,
    ) -> Rc<GroupContext> {
        let counts = match sockets {
            // Without it the kernel distributes the connections.
            WorkerSockets::Shared(_) => SharedCounts::new(ABSENT).ok(),
            WorkerSockets::Own(_) => None,
        };
        Rc::new(GroupContext {
            name: name.to_owned(),
            settings: RefCell::new(Rc::new(settings)),
            sockets,
            counts,
            preloader: CurrentPreloader::default(),
            turn: Mutex::new(()),
            leaving: RefCell::default(),
            left: Notify::new(),
            cut_off: Cell::new(0),
            first: watch::Sender::new(FirstStart::Coming),
            failures: RecentErrors::default(),
            errors: Arc::default(),
            telemetry: telemetry.clone(),
            on_change: Box::new(on_change),
        })
    }

    pub(super) fn settings(&self) -> Rc<GroupSettings> {
        self.settings.borrow().clone()
    }

    /// Tells the program that runs the supervisor what happens.
    pub(super) fn tell(&self, event: GroupEvent) {
        let on_event = self.settings().on_event.clone();
        if let Some(on_event) = on_event {
            (on_event.0)(event);
        }
    }

    /// Tells it that a process has ended.
    pub(super) fn exited(&self, worker: usize, process: u32) {
        self.tell(GroupEvent::Ended { worker, process });
    }

    /// Sets the settings of processes that are started from now on.
    pub(super) fn set_settings(&self, settings: GroupSettings) {
        self.settings.replace(Rc::new(settings));
    }

    /// Closes the sockets that the processes share.
    pub(super) fn stop_listening(&self) {
        if let WorkerSockets::Shared(shared) = &self.sockets {
            shared.take();
        }
    }

    /// Returns the number of connections of a slot's process, as last reported.
    pub(super) fn connections(&self, index: usize) -> u64 {
        let count = self.counts.as_ref().map(|counts| counts.get(index));
        count.filter(|count| *count != ABSENT).map_or(0, u64::from)
    }

    /// Records that no process of a slot accepts connections.
    pub(super) fn clear_connections(&self, index: usize) {
        if let Some(counts) = &self.counts {
            counts.set(index, ABSENT);
        }
    }

    /// Reports that a slot's process was replaced or has ended.
    pub(super) fn changed(&self) {
        (self.on_change)();
    }

    /// Marks the time at which a process was replaced, or failed.
    pub(super) fn mark(&self, reason: RestartReason) {
        let (kind, what) = match reason {
            RestartReason::Exit => (MarkKind::Bad, "has ended".to_owned()),
            RestartReason::Start => (MarkKind::Bad, "could not be started".to_owned()),
            RestartReason::Stuck | RestartReason::Silent => {
                (MarkKind::Bad, "did not respond and was killed".to_owned())
            }
            RestartReason::MaxRequests
            | RestartReason::MaxRss
            | RestartReason::Lifetime
            | RestartReason::Reload => {
                (MarkKind::Neutral, format!("was replaced ({})", reason.slug()))
            }
        };
        self.telemetry.marks().add(kind, &format!("a process of app {} {what}", self.name));
    }

    /// True if the shared sockets are closed: no process can be started any more.
    pub(super) fn is_closed(&self) -> bool {
        matches!(&self.sockets, WorkerSockets::Shared(shared) if shared.borrow().is_none())
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

    pub(super) async fn turn(&self) -> MutexGuard<'_, ()> {
        self.turn.lock().await
    }

    /// Starts a process for a slot.
    pub(super) async fn spawn(
        &self,
        index: usize,
        generation: u64,
    ) -> Result<Rc<RunningProcess>, String> {
        let settings = self.settings();
        let preloader = match settings.preload {
            true => Some(self.preloader.ready(&self.name, &self.settings).await?),
            false => None,
        };
        self.tell(GroupEvent::Starting { worker: index });
        let (named, file) = self.listening(index, generation)?;
        let failed = |error| start_error(&settings.launch, &error);
        let (ours, theirs) = Stream::pair_for_child().map_err(failed)?;
        let spec = self.spec(&settings, index, generation, theirs.as_raw_fd(), &named).to_json();
        let counts = self.counts.as_ref().map(SharedCounts::descriptor);
        // The order of the specification, in which a preloader replaces their numbers.
        let listening = named.iter().map(|(_, one)| one.as_fd());
        let passed: Vec<BorrowedFd<'_>> =
            [theirs.as_fd()].into_iter().chain(listening).chain(counts).collect();
        let child = match &preloader {
            Some(one) => one.preloader.fork(spec, &passed).await?,
            None => {
                let mut launch = settings.launch.clone();
                launch.environment.push((crate::spec::VARIABLE.into(), spec.into()));
                launch.start(&passed).map_err(failed)?
            }
        };
        let errors = RequestErrors { errors: self.errors.clone(), worker: index };
        Ok(RunningProcess::new(settings.clone(), generation, child, ours, file, preloader, errors))
    }

    /// Returns the listening sockets of a process by name, and the file of its own socket.
    fn listening(
        &self,
        index: usize,
        generation: u64,
    ) -> Result<(NamedSockets, Option<SocketFile>), String> {
        let owned = |name: &str, listening: &Listening| {
            let descriptor = listening.descriptor()?.try_clone_to_owned();
            Some(descriptor.map(|one| (name.to_owned(), one)).map_err(|error| error.to_string()))
        };
        match &self.sockets {
            WorkerSockets::Own(directory) => {
                let (own, _) = open(WorkerSockets::path(directory, index, generation))?;
                let file = SocketFile::of(own.local());
                let named: Result<_, String> = owned("frames", &own).into_iter().collect();
                Ok((named?, file))
            }
            WorkerSockets::Shared(shared) => match &*shared.borrow() {
                Some(shared) => {
                    let named = shared.iter().filter_map(|(name, one)| owned(name, one));
                    Ok((named.collect::<Result<_, String>>()?, None))
                }
                // A process without inherited sockets would open its own.
                None => Err("the server takes no more connections".to_owned()),
            },
        }
    }

    fn spec(
        &self,
        settings: &GroupSettings,
        index: usize,
        generation: u64,
        control: i32,
        descriptors: &[(String, OwnedFd)],
    ) -> WorkerSpec {
        let handed = |(name, one): &(String, OwnedFd)| PassedDescriptor {
            name: name.clone(),
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
            slot: index,
            generation,
            python: settings.python.clone(),
            config: settings.config.clone(),
            control,
            listen: descriptors.iter().map(handed).collect(),
            counts: self.counts.as_ref().map(|counts| counts.descriptor().as_raw_fd()),
            store: settings.store.clone(),
            log_level: settings.log_level.clone(),
            log_format: settings.log_format.clone(),
            error_log: settings.error_log.clone(),
            embedded: false,
            graceful_ms: milliseconds(settings.policy.graceful),
            stall_ms: milliseconds(stall),
        }
    }

    /// Returns the draining processes.
    pub(super) fn leaving(&self) -> Vec<Rc<RunningProcess>> {
        self.leaving.borrow().clone()
    }

    pub(super) fn begin_leaving(&self, running: Rc<RunningProcess>) {
        self.leaving.borrow_mut().push(running);
    }

    /// Removes a process that has drained.
    pub(super) fn has_left(&self, running: &Rc<RunningProcess>) {
        self.cut_off.set(self.cut_off.get() + running.cut_off.get());
        self.leaving.borrow_mut().retain(|other| !Rc::ptr_eq(other, running));
        self.left.notify_waiters();
    }

    /// Waits until no process drains; returns the number of connections that were cut off.
    pub(super) async fn until_all_left(&self) -> u64 {
        loop {
            let left = self.left.notified();
            if self.leaving.borrow().is_empty() {
                return self.cut_off.get();
            }
            left.await;
        }
    }
}

fn milliseconds(span: Duration) -> u64 {
    u64::try_from(span.as_millis()).unwrap_or(u64::MAX)
}

/// Opens a socket that only this user can connect to.
fn open(path: PathBuf) -> Result<(Listening, PathBuf), String> {
    let options = ListenOptions { mode: Some(0o600), ..ListenOptions::default() };
    let listening = Listening::bind(&Bind::Unix(path.clone()), 1, &options);
    Ok((listening.map_err(|error| error.to_string())?, path))
}
