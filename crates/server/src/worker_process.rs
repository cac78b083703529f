//! A worker process: what its I/O thread does while the application runs on a thread of its own.
//!
//! Owns the control socket's end of the process, its heart (a report every second), its listeners
//! and connections. Promises that nothing is accepted before the application is ready; that what is
//! in flight is finished when the process is told to drain, when it gets SIGTERM and when its
//! supervisor has died; and that the application is told to stop after its last request. Knows the
//! application as an [`Application`] and a desk, and no language.

mod commands;
mod frames;
mod http;
mod readiness;
mod watchdog;

use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use offload::RequestQueue;
use telemetry::event;
use telemetry::log::{self, Format, Level};

use crate::spec::{Role, WorkerSpec};
use crate::supervise::{ControlChannel, Stats, WorkerMessage};

use commands::{CommandQueue, LeaveMode};
use readiness::StartupState;
pub use readiness::{ReadinessReceiver, ReadinessSender, readiness_channel};

/// How long what other threads read and write may take when all else has ended.
const END_WITHIN: Duration = Duration::from_secs(1);
/// It did what it was told.
const DONE: u8 = 0;
/// It could not begin, or its application ended by itself.
const FAILED: u8 = 1;
/// It is of another version than its supervisor.
const WRONG_VERSION: u8 = 2;

/// The application of this process. Called on the I/O thread; none of it waits for the interpreter.
pub trait Application: Send + Sync {
    /// What it has done so far. `rss_bytes` and `stalls` are filled in here.
    fn stats(&self) -> Stats;

    /// For how long it has not responded although there was something to do, in milliseconds: its
    /// loop has not heard the bell, or none of its threads takes what waits.
    fn lag_ms(&self) -> u64;

    /// Whether one call holds up what waits since the last time that this was asked, and not many
    /// short ones.
    fn is_in_one_call(&self) -> bool {
        true
    }

    /// For how long its oldest call that blocks a thread has not got on, in milliseconds; 0 where
    /// there is none.
    fn oldest_call_ms(&self) -> u64 {
        0
    }

    /// All requests have ended, or may be cut off: shut down and let the process end.
    fn stop(&self);

    /// Where its threads stand, as one line for the log.
    fn dump(&self) -> String;
}

/// What the I/O thread has of the application.
pub struct HostedApplication {
    pub application: Arc<dyn Application>,
    /// Where its requests are put.
    pub queue: Arc<RequestQueue>,
    /// Its word on whether it is ready: the other end of an [`ReadinessSender`].
    pub readiness: ReadinessReceiver,
}

/// The process, for the tasks of its I/O thread.
struct Process {
    application: Arc<dyn Application>,
    channel: ControlChannel,
    commands: CommandQueue,
    stalls: std::cell::Cell<u64>,
}

/// Serves the application until the process is told to leave; the exit code. Call it on a thread of
/// its own. The application has been told to stop when this returns.
pub fn run_worker(spec: &WorkerSpec, hosted: HostedApplication) -> u8 {
    net::raise_descriptor_limit();
    log::set_level(Level::parse(&spec.log_level).unwrap_or(Level::Info));
    log::set_format(if spec.log_format == "json" { Format::Json } else { Format::Text });
    if !spec.embedded {
        // What `ps` and `top` show; where the system has no such file, nothing.
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
    });
    let tasks = [
        net::task::spawn_local(commands::listen(process.clone())),
        net::task::spawn_local(watchdog::report(process.clone())),
        net::task::spawn_local(watchdog::watch(
            process.clone(),
            spec.app.clone(),
            spec.slot,
            spec.stall_ms,
        )),
    ];
    let code = live(spec, &process, hosted.queue, hosted.readiness).await;
    tasks.iter().for_each(net::task::JoinHandle::abort);
    code
}

/// From the start to the end of the last request.
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
            event!(Level::Debug, "a worker gives up", because = why);
            let _ = process.channel.send_message(&WorkerMessage::Failed(why)).await;
            FAILED
        }
    }
}

impl Process {
    /// Returns when the process is to leave, or its application has ended by itself.
    async fn until_leaving(&self, mut readiness: ReadinessReceiver) -> LeaveMode {
        tokio::select! {
            leave = self.commands.leave() => leave,
            () = readiness.ended() => {
                event!(Level::Error, "the application has ended by itself");
                LeaveMode::Now
            }
        }
    }
}
