//! One worker process: its start, its messages, its end.
//!
//! Owns the child process and the control socket. It is told to stop before it is killed, and
//! killed when this is dropped. Whether a preloader forked it makes no difference.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::rc::{Rc, Weak};
use std::time::Duration;

use net::task::AbortHandle;
use net::{Child, Stream};
use telemetry::event;
use telemetry::log::Level;
use tokio::sync::{Notify, oneshot};

use crate::listeners::SocketFile;

use super::control_channel::{ControlChannel, SupervisorCommand, WorkerMessage};
use super::group_settings::GroupSettings;
use super::limits::ANSWER_WITHIN;
use super::preloader::PreloaderInUse;
use super::process_errors::describe_exit;
use super::request_errors::RequestErrors;
use super::stats::Stats;

/// The phase of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    Starting,
    Ready,
    Draining,
}

impl Phase {
    pub(crate) const fn slug(self) -> &'static str {
        match self {
            Phase::Starting => "starting",
            Phase::Ready => "ready",
            Phase::Draining => "draining",
        }
    }
}

/// A worker process.
pub(crate) struct RunningProcess {
    pub(crate) generation: u64,
    /// The settings that it was started with.
    pub(crate) settings: Rc<GroupSettings>,
    pub(crate) started_ms: u64,
    child: Child,
    channel: Rc<ControlChannel>,
    /// The parent of the process, if that is a preloader.
    _preloader: Option<Rc<PreloaderInUse>>,
    /// The file of its own socket.
    _file: Option<SocketFile>,
    began_ms: u64,
    heard_ms: Cell<u64>,
    pub(crate) phase: Cell<Phase>,
    /// The reported reason why it could not start.
    failed: RefCell<Option<String>>,
    pub(crate) stats: RefCell<Stats>,
    errors: RequestErrors,
    /// Connections that were cut off by its drain time-out.
    pub(crate) cut_off: Cell<u64>,
    /// Pending requests for its metrics, in order.
    asked: RefCell<VecDeque<oneshot::Sender<String>>>,
    /// The pending request for its stacks.
    stack: RefCell<Option<oneshot::Sender<String>>>,
    /// Notified of each message and of the end of the connection.
    pub(crate) changed: Notify,
    is_silent: Cell<bool>,
    listening: RefCell<Option<AbortHandle>>,
}

fn now_ms() -> u64 {
    net::clock::now().as_ms()
}

impl RunningProcess {
    /// Supervises a process that has the other end of the control socket.
    pub(super) fn new(
        settings: Rc<GroupSettings>,
        generation: u64,
        child: Child,
        control: Stream,
        file: Option<SocketFile>,
        preloader: Option<Rc<PreloaderInUse>>,
        errors: RequestErrors,
    ) -> Rc<RunningProcess> {
        let running = Rc::new(RunningProcess {
            generation,
            settings,
            started_ms: telemetry::timestamp::now_ms(),
            child,
            channel: Rc::new(ControlChannel::new(control)),
            _preloader: preloader,
            _file: file,
            began_ms: now_ms(),
            heard_ms: Cell::new(now_ms()),
            phase: Cell::new(Phase::Starting),
            failed: RefCell::default(),
            stats: RefCell::default(),
            errors,
            cut_off: Cell::new(0),
            asked: RefCell::default(),
            stack: RefCell::default(),
            changed: Notify::new(),
            is_silent: Cell::new(false),
            listening: RefCell::default(),
        });
        let heard = listen(running.channel.clone(), Rc::downgrade(&running));
        let task = net::task::spawn_local(heard);
        running.listening.replace(Some(task.abort_handle()));
        running
    }

    /// Returns the reason of its failure, if it reported one.
    pub(crate) fn failure(&self) -> Option<String> {
        self.failed.borrow().clone()
    }

    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    pub(crate) fn age(&self) -> Duration {
        Duration::from_millis(now_ms().saturating_sub(self.began_ms))
    }

    pub(crate) fn since_heartbeat(&self) -> Duration {
        Duration::from_millis(now_ms().saturating_sub(self.heard_ms.get()))
    }

    /// Waits for the exit and describes it. Only one task may wait.
    pub(crate) async fn ended(&self) -> String {
        match self.child.wait().await {
            Ok(status) => describe_exit(status),
            Err(error) => format!("it ended, it is not known how: {error}"),
        }
    }

    /// Waits until it is ready; otherwise it has exited, and the error is the reason.
    pub(crate) async fn until_ready(&self, within: Duration) -> Result<(), String> {
        let begun = net::timer::within(within, async {
            tokio::select! {
                () = self.wait_until(|running| running.phase.get() != Phase::Starting) => Ok(()),
                how = self.ended() => {
                    // Its last message may not have been read yet.
                    let heard = self.wait_until(|running| running.is_silent.get());
                    net::timer::within(ANSWER_WITHIN, heard).await;
                    Err(how)
                }
                why = self.refused() => Err(why),
            }
        });
        let outcome = match begun.await {
            Some(Ok(())) => return Ok(()),
            Some(Err(how)) => how,
            None => format!("it was not ready within {} s", within.as_secs_f64()),
        };
        Err(self.failed.borrow().clone().unwrap_or(outcome))
    }

    /// Returns when it has reported why it could not start.
    async fn refused(&self) -> String {
        self.wait_until(|running| running.failed.borrow().is_some()).await;
        self.failed.borrow().clone().unwrap_or_default()
    }

    async fn wait_until(&self, holds: impl Fn(&RunningProcess) -> bool) {
        loop {
            let changed = self.changed.notified();
            if holds(self) {
                return;
            }
            changed.await;
        }
    }

    /// Sends a command. A process that does not read any more is detected by its exit.
    pub(crate) async fn send_command(&self, command: SupervisorCommand) -> bool {
        self.channel.send_command(command).await.is_ok()
    }

    /// Requests its metrics, in the Prometheus text format.
    pub(crate) async fn metrics(&self) -> Option<String> {
        let (sender, answer) = oneshot::channel();
        self.asked.borrow_mut().push_back(sender);
        self.send_command(SupervisorCommand::Metrics).await.then_some(())?;
        net::timer::within(ANSWER_WITHIN, answer).await?.ok()
    }

    /// Requests the stacks of its application.
    pub(crate) async fn stack(&self) -> Option<String> {
        let (sender, answer) = oneshot::channel();
        self.stack.replace(Some(sender));
        self.send_command(SupervisorCommand::Dump).await.then_some(())?;
        net::timer::within(ANSWER_WITHIN, answer).await?.ok()
    }

    /// Lets it finish requests in flight within this time; `extra` is the time for its own
    /// shutdown.
    pub(crate) async fn leave(&self, within: Duration, extra: Duration) {
        self.phase.set(Phase::Draining);
        self.changed.notify_waiters();
        if !self.send_command(SupervisorCommand::Drain(within)).await {
            self.child.terminate();
        }
        if net::timer::within(within + extra, self.ended()).await.is_none() {
            event!(
                Level::Warn,
                "a worker process does not exit and is killed",
                process = self.id(),
                after = format_args!("{} s", (within + extra).as_secs_f64())
            );
            self.kill().await;
        }
    }

    /// Sends SIGABRT and waits for the exit, for a time.
    pub(crate) async fn abort(&self, within: Duration) {
        self.child.abort();
        net::timer::within(within, self.ended()).await;
    }

    /// Kills it and waits for the exit.
    pub(crate) async fn kill(&self) {
        self.child.kill();
        self.ended().await;
    }

    /// Kills it without waiting.
    pub(crate) fn kill_now(&self) {
        self.child.kill();
    }

    fn take(&self, message: WorkerMessage) {
        self.heard_ms.set(now_ms());
        match message {
            WorkerMessage::Ready => {
                if self.phase.get() == Phase::Starting {
                    self.phase.set(Phase::Ready);
                }
            }
            WorkerMessage::Failed(why) => {
                self.failed.replace(Some(why));
            }
            WorkerMessage::Stats(stats) => {
                self.stats.replace(*stats);
            }
            WorkerMessage::Errors(errors) => self.errors.add(errors),
            WorkerMessage::Stalled(stack) => {
                if let Some(asked) = self.stack.take() {
                    // The requester may have timed out.
                    let _ = asked.send(stack);
                }
            }
            WorkerMessage::Draining(_) => self.phase.set(Phase::Draining),
            WorkerMessage::CutOff(connections) => self.cut_off.set(connections),
            WorkerMessage::Metrics(text) => {
                let asked = self.asked.borrow_mut().pop_front();
                if let Some(asked) = asked {
                    let _ = asked.send(text);
                }
            }
        }
    }
}

impl Drop for RunningProcess {
    fn drop(&mut self) {
        if let Some(listening) = self.listening.take() {
            listening.abort();
        }
    }
}

/// Handles its messages until the connection ends.
async fn listen(channel: Rc<ControlChannel>, running: Weak<RunningProcess>) {
    loop {
        let heard = channel.next_message().await;
        let Some(running) = running.upgrade() else { return };
        match heard {
            Ok(Some(message)) => running.take(message),
            Ok(None) => running.is_silent.set(true),
            Err(error) => {
                event!(Level::Debug, "a worker process sent a malformed message", error = error);
                running.is_silent.set(true);
            }
        }
        running.changed.notify_waiters();
        if running.is_silent.get() {
            return;
        }
    }
}
