//! Commands to a worker process: of its supervisor, by a signal, or by the end of the control
//! socket.

use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;

use telemetry::event;
use telemetry::log::Level;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::Notify;

use super::Process;
use super::watchdog::stacks;
use crate::supervise::{SHUT_DOWN_WITHIN, SupervisorCommand, WorkerMessage};

/// How to stop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LeaveMode {
    /// Finish requests in flight within this time.
    Within(Duration),
    Now,
}

/// The command to stop, once there is one. A stricter one replaces it.
pub(super) struct CommandQueue {
    graceful: Duration,
    embedded: bool,
    leave: Cell<Option<LeaveMode>>,
    given: Notify,
    /// Renders the metrics, if the role has any.
    metrics: Cell<Option<Box<dyn Fn() -> String>>>,
    pub(super) reopen_logs: Notify,
}

impl CommandQueue {
    /// With `embedded`, signals are left to the surrounding program, which closes the socket to
    /// stop.
    pub(super) fn new(graceful: Duration, embedded: bool) -> CommandQueue {
        CommandQueue {
            graceful,
            embedded,
            leave: Cell::default(),
            given: Notify::new(),
            metrics: Cell::default(),
            reopen_logs: Notify::new(),
        }
    }

    pub(super) fn show_metrics(&self, text: impl Fn() -> String + 'static) {
        self.metrics.set(Some(Box::new(text)));
    }

    fn set_leave_mode(&self, leave: LeaveMode) {
        if self.leave.get() != Some(LeaveMode::Now) {
            self.leave.set(Some(leave));
        }
        self.given.notify_waiters();
    }

    /// Returns when the process is told to stop.
    pub(super) async fn leave(&self) -> LeaveMode {
        loop {
            let given = self.given.notified();
            if let Some(leave) = self.leave.get() {
                return leave;
            }
            given.await;
        }
    }

    /// Returns when the process is told to stop at once.
    pub(super) async fn at_once(&self) {
        loop {
            let given = self.given.notified();
            if self.leave.get() == Some(LeaveMode::Now) {
                return;
            }
            given.await;
        }
    }
}

/// Handles commands as long as the process lives.
pub(super) async fn listen(process: Rc<Process>) {
    let commands = &process.commands;
    let graceful = LeaveMode::Within(commands.graceful);
    let terminated = async {
        if commands.embedded {
            return std::future::pending().await;
        }
        match signal(SignalKind::terminate()) {
            Ok(mut terminate) => {
                terminate.recv().await;
            }
            // SIGTERM then ends the process without draining.
            Err(_) => std::future::pending().await,
        }
    };
    tokio::pin!(terminated);
    let mut is_terminated = false;
    loop {
        let told = tokio::select! {
            told = process.channel.next_command() => told,
            () = &mut terminated, if !is_terminated => {
                is_terminated = true;
                commands.set_leave_mode(graceful);
                continue;
            }
        };
        match told {
            Ok(Some(command)) => carry_out(&process, command).await,
            Ok(None) | Err(_) => {
                if !commands.embedded {
                    // Also if it leaves already: the signal that a worker gets when its supervisor
                    // exits may be handled first.
                    end_within(commands.graceful + SHUT_DOWN_WITHIN);
                }
                if commands.leave.get().is_none() {
                    if !commands.embedded {
                        let what = "the supervisor has exited: this worker drains and exits";
                        event!(Level::Warn, what);
                    }
                    commands.set_leave_mode(graceful);
                }
                return;
            }
        }
    }
}

/// Ends the process after this time if it still runs: it has no supervisor.
fn end_within(span: Duration) {
    let ending = std::thread::Builder::new().name("orphan".to_owned()).spawn(move || {
        std::thread::sleep(span);
        std::process::abort();
    });
    if ending.is_err() {
        std::process::abort();
    }
}

async fn carry_out(process: &Rc<Process>, command: SupervisorCommand) {
    let answer = match command {
        SupervisorCommand::Drain(within) => {
            return process.commands.set_leave_mode(LeaveMode::Within(within));
        }
        SupervisorCommand::Stop => return process.commands.set_leave_mode(LeaveMode::Now),
        SupervisorCommand::ReopenLogs => return process.commands.reopen_logs.notify_one(),
        SupervisorCommand::Interrupted => return process.application.interrupted(),
        SupervisorCommand::Dump => WorkerMessage::Stalled(stacks(process).await),
        SupervisorCommand::Metrics => {
            // The application may need a while, and other commands do not wait for it.
            net::task::spawn_local(send_metrics(process.clone()));
            return;
        }
    };
    // An error means that the supervisor has exited, which the next read detects.
    let _ = process.channel.send_message(&answer).await;
}

/// Sends the metrics of this process and of its application.
async fn send_metrics(process: Rc<Process>) {
    let application = process.application.clone();
    let own = net::blocking(move || application.metrics()).await.unwrap_or_default();
    let text = process.commands.metrics.take();
    let mut said = text.as_ref().map_or_else(String::new, |text| text());
    process.commands.metrics.set(text);
    said.push_str(&own);
    if process.channel.send_message(&WorkerMessage::Metrics(said)).await.is_err() {
        // It may be too long: the supervisor awaits something. As above.
        let _ = process.channel.send_message(&WorkerMessage::Metrics(String::new())).await;
    }
}
