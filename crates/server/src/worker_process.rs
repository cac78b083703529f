//! A worker process: its I/O thread serves while the application runs on a thread of its own.
//!
//! Owns the process's end of the control socket, the report that is sent every second, its
//! listeners and connections. Nothing is accepted before the application is ready. Requests in
//! flight are finished on a drain command, on SIGTERM and when the supervisor has died. The
//! application is stopped after its last request. Independent of the application's language: see
//! [`Application`] and `RequestQueue`.

mod commands;
mod frames;
mod http;
mod readiness;
mod watchdog;

use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use offload::RequestQueue;
use telemetry::log::{self, Format, Level};
use telemetry::{ErrorRecord, event};
use tokio::sync::Notify;

use crate::spec::{Role, WorkerSpec};
use crate::supervise::{ControlChannel, Stats, WorkerMessage};

use commands::{CommandQueue, LeaveMode};
use readiness::StartupState;
pub use readiness::{ReadinessReceiver, ReadinessSender, readiness_channel};
pub(crate) use watchdog::rss_bytes;

/// Time-out for the reads and writes of other threads at the end of the process.
const END_WITHIN: Duration = Duration::from_secs(1);
/// Exit code: stopped on command.
const DONE: u8 = 0;
/// Exit code: the application could not start, or ended by itself.
const FAILED: u8 = 1;
/// Exit code: the supervisor has another version.
const WRONG_VERSION: u8 = 2;

/// The application of this process. Its methods are called on the I/O thread and never wait for the
/// interpreter; except `dump`.
pub trait Application: Send + Sync {
    /// Returns the statistics so far. `rss_bytes` and `stalls` are filled in by the caller.
    fn stats(&self) -> Stats;

    /// Removes and returns the exceptions that requests have raised since the previous call.
    fn take_errors(&self) -> Vec<ErrorRecord> {
        Vec::new()
    }

    /// Notifies an event loop that has requests in flight, so that [`Application::lag_ms`] grows
    /// while one of them blocks it.
    fn check_progress(&self) {}

    /// Returns for how many milliseconds the application has not responded although requests wait:
    /// its event loop has not handled the notification, or no thread has taken a request.
    fn lag_ms(&self) -> u64;

    /// Returns true if one call, and not many short ones, has blocked the event loop since the
    /// previous query.
    fn is_in_one_call(&self) -> bool {
        true
    }

    /// Returns the age of the oldest call that blocks a thread without progress, in milliseconds; 0
    /// if there is none.
    fn oldest_call_ms(&self) -> u64 {
        0
    }

    /// Learns that requests in flight are finished now, and how much time they have.
    fn begin_draining(&self, _within: Duration) {}

    /// Learns that an interrupt ends the server.
    fn interrupted(&self) {}

    /// Returns the metrics of the application itself, in the Prometheus text format. It is called
    /// on a thread that may wait.
    fn metrics(&self) -> String {
        String::new()
    }

    /// Stops the application: all requests have ended, or may be cut off.
    fn stop(&self);

    /// Returns the stacks of its threads as one line for the log. It is called on a thread that may
    /// wait.
    fn dump(&self) -> String;
}

/// The application as the I/O thread sees it.
pub struct HostedApplication {
    pub application: Arc<dyn Application>,
    /// The queue of its requests.
    pub queue: Arc<RequestQueue>,
    /// Reports the result of its start: the other end of a [`ReadinessSender`].
    pub readiness: ReadinessReceiver,
}

/// The state of the process, for the tasks of its I/O thread.
struct Process {
    application: Arc<dyn Application>,
    channel: ControlChannel,
    commands: CommandQueue,
    stalls: std::cell::Cell<u64>,
    /// Announces that the last request has ended.
    served: Notify,
}

/// Serves the application until the process is told to stop; returns the exit code. Runs on a
/// thread of its own. The application has been stopped when this returns.
pub fn run_worker(spec: &WorkerSpec, hosted: HostedApplication) -> u8 {
    net::raise_descriptor_limit();
    log::set_level(Level::parse(&spec.log_level).unwrap_or(Level::Info));
    log::set_format(if spec.log_format == "json" { Format::Json } else { Format::Text });
    if let Some(error_log) = &spec.error_log {
        error_log.inherited();
    }
    if !spec.embedded {
        // The name that `ps` and `top` show, where the system has this file.
        let _ = std::fs::write("/proc/self/comm", format!("tg {:.8} {}", spec.app, spec.slot));
    }
    let application = hosted.application.clone();
    let code = match net::worker::runtime() {
        Ok(runtime) => {
            let code = runtime.block_on(async {
                tokio::task::spawn_local(net::timer::drive());
                host(spec, hosted).await
            });
            runtime.shutdown_timeout(END_WITHIN);
            code
        }
        Err(error) => {
            event!(Level::Error, "the event loop cannot be started", error = error);
            FAILED
        }
    };
    application.stop();
    code
}

async fn host(spec: &WorkerSpec, hosted: HostedApplication) -> u8 {
    let stream = match net::inherited_stream(spec.control, "control") {
        Ok(stream) => stream,
        Err(error) => {
            event!(Level::Error, "a worker has no supervisor", error = error);
            return FAILED;
        }
    };
    let channel = ControlChannel::new(stream);
    if let Err(why) = spec.check_version() {
        // The supervisor may have died.
        let _ = channel.send_message(&WorkerMessage::Failed(why)).await;
        return WRONG_VERSION;
    }
    let graceful = Duration::from_millis(spec.graceful_ms);
    let process = Rc::new(Process {
        application: hosted.application,
        channel,
        commands: CommandQueue::new(graceful, spec.embedded),
        stalls: std::cell::Cell::new(0),
        served: Notify::new(),
    });
    let report = net::task::spawn_local(watchdog::report(process.clone()));
    let tasks = [
        net::task::spawn_local(commands::listen(process.clone())),
        net::task::spawn_local(watchdog::watch(
            process.clone(),
            spec.app.clone(),
            spec.slot,
            spec.stall_ms,
        )),
    ];
    let code = live(spec, &process, hosted.queue, hosted.readiness).await;
    process.served.notify_one();
    // The other tasks may be sending messages that the last errors have to wait for. An error means
    // that the supervisor has exited.
    let _ = report.await;
    tasks.iter().for_each(net::task::JoinHandle::abort);
    code
}

/// Serves from the start to the end of the last request.
async fn live(
    spec: &WorkerSpec,
    process: &Rc<Process>,
    queue: Arc<RequestQueue>,
    mut readiness: ReadinessReceiver,
) -> u8 {
    let state = tokio::select! {
        state = readiness.started() => state,
        _ = process.commands.leave() => return DONE,
    };
    let served = match state {
        StartupState::Ready => match spec.role {
            Role::Http => http::serve(spec, process, queue, readiness).await,
            Role::Frames => frames::serve(spec, process, queue, readiness).await,
        },
        StartupState::Failed(why) => Err(why),
        StartupState::Starting | StartupState::Ended => {
            Err("the application ended before it was ready".to_owned())
        }
    };
    match served {
        Ok(()) => DONE,
        Err(why) => {
            event!(Level::Debug, "the application of a worker could not start", because = why);
            let _ = process.channel.send_message(&WorkerMessage::Failed(why)).await;
            FAILED
        }
    }
}

impl Process {
    /// Returns when the process is told to stop, or when its application has ended. Called when the
    /// process serves: what only its start has needed is given back first.
    async fn until_leaving(&self, mut readiness: ReadinessReceiver) -> LeaveMode {
        net::release_startup_memory();
        tokio::select! {
            leave = self.commands.leave() => leave,
            () = readiness.ended() => {
                event!(Level::Error, "the application has ended by itself");
                LeaveMode::Now
            }
        }
    }
}
