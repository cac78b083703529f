//! The worker threads, as the control thread sees them.

use std::rc::Rc;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use config::ServerPlan;
use lua_host::{ProfileKind, WorkerProfile};
use message::TraceQueue;
use plugin::{Local, Shared, WorkerContext};
use telemetry::Telemetry;
use tokio::sync::{mpsc, oneshot};

use crate::balance::Balance;
use crate::connection_limiter::ConnectionLimiter;
use crate::listeners::{Listeners, NewSockets, OpenedSockets};
use crate::logs::Logs;
use crate::worker::{Serving, ThreadCommand, Worker};

/// Time-out of stopping the workers, and the interval of checks.
const END_WITHIN: Duration = Duration::from_secs(1);
const END_LOOK: Duration = Duration::from_millis(2);

const ENDED: &str = "a worker has ended";

/// All workers.
pub(crate) struct WorkerThreads {
    workers: Vec<WorkerThread>,
}

struct WorkerThread {
    commands: mpsc::UnboundedSender<ThreadCommand>,
    thread: JoinHandle<()>,
    core: Option<usize>,
    version: Arc<Mutex<String>>,
}

impl WorkerThreads {
    /// Starts the threads, each pinned to a core if requested.
    pub(crate) fn start(
        count: usize,
        affinity: bool,
        telemetry: &Arc<Telemetry>,
        shared: &Arc<Shared>,
        balance: Option<&Arc<Balance>>,
    ) -> std::io::Result<WorkerThreads> {
        let cores = if affinity { net::worker::allowed_cores() } else { Vec::new() };
        let mut workers = Vec::with_capacity(count);
        for index in 0..count {
            let core = (!cores.is_empty()).then(|| cores[index % cores.len()]);
            let (commands, received) = mpsc::unbounded_channel();
            let version = Arc::new(Mutex::new(String::new()));
            let served = version.clone();
            let (telemetry, shared) = (telemetry.clone(), shared.clone());
            let balance = balance.cloned();
            let thread = net::worker::spawn(format!("worker-{index}"), core, move || {
                let local = Rc::new(Local::default());
                let context = WorkerContext { index, workers: count, telemetry, shared, local };
                Worker::new(context, served, balance).run(received)
            })?;
            workers.push(WorkerThread { commands, thread, core, version });
        }
        Ok(WorkerThreads { workers })
    }

    pub(crate) fn len(&self) -> usize {
        self.workers.len()
    }

    pub(crate) fn core(&self, index: usize) -> Option<usize> {
        self.workers.get(index)?.core
    }

    /// Returns the version of the configuration that a worker serves.
    pub(crate) fn version(&self, index: usize) -> String {
        let version = self.workers.get(index).map(|worker| &worker.version);
        version
            .map(|version| version.lock().unwrap_or_else(PoisonError::into_inner).clone())
            .unwrap_or_default()
    }

    /// Makes every worker serve a plan, whose new sockets they have adopted; returns when all do.
    pub(crate) async fn serve(
        &self,
        plan: &Arc<ServerPlan>,
        listeners: &mut Listeners,
        opened: OpenedSockets,
        server_limiter: &Arc<ConnectionLimiter>,
        logs: &Logs,
        traces: Option<&Arc<TraceQueue>>,
    ) -> Result<(), String> {
        listeners.take_over(plan, opened);
        let limiters = listeners.limiters();
        let mut answers = Vec::new();
        for worker in &self.workers {
            let (done, answer) = oneshot::channel();
            let serving = Serving {
                plan: plan.clone(),
                limiters: limiters.clone(),
                server_limiter: server_limiter.clone(),
                access: logs.end(&plan.log),
                traces: traces.cloned(),
                done,
            };
            // A worker that has exited does not acknowledge, which is detected below.
            let _ = worker.commands.send(ThreadCommand::Serve(Box::new(serving)));
            answers.push(answer);
        }
        for answer in answers {
            answer.await.map_err(|_| ENDED.to_owned())?;
        }
        Ok(())
    }

    /// Gives each worker its handles of new sockets, before anything is changed; if one worker
    /// cannot adopt them, all close them.
    pub(crate) async fn adopt(&self, fresh: NewSockets) -> Result<OpenedSockets, String> {
        let (shares, opened) = fresh.share(self.workers.len());
        let mut answers = Vec::new();
        for (worker, sockets) in self.workers.iter().zip(shares) {
            let (done, answer) = oneshot::channel();
            let _ = worker.commands.send(ThreadCommand::Adopt(sockets, done));
            answers.push(answer);
        }
        let mut outcome = Ok(());
        for answer in answers {
            outcome = outcome.and(answer.await.unwrap_or_else(|_| Err(ENDED.to_owned())));
        }
        outcome.map(|()| opened).inspect_err(|_| self.forget())
    }

    /// Closes the adopted sockets: the plan was rejected.
    pub(crate) fn forget(&self) {
        for worker in &self.workers {
            let _ = worker.commands.send(ThreadCommand::Forget);
        }
    }

    /// Has all workers record a profile of their Lua code; dropping a receiver ends that of its
    /// worker.
    pub(crate) fn profile(
        &self,
        kind: ProfileKind,
        span: Duration,
    ) -> Vec<oneshot::Receiver<WorkerProfile>> {
        let ask = |worker: &WorkerThread| {
            let (done, answer) = oneshot::channel();
            let _ = worker.commands.send(ThreadCommand::Profile(kind, span, done));
            answer
        };
        self.workers.iter().map(ask).collect()
    }

    /// Replaces the Lua VMs of all workers; returns how many there were.
    pub(crate) async fn restart_lua(&self) -> usize {
        let ask = |worker: &WorkerThread| {
            let (done, answer) = oneshot::channel();
            let _ = worker.commands.send(ThreadCommand::RestartLua(done));
            answer
        };
        let answers: Vec<_> = self.workers.iter().map(ask).collect();
        let mut restarted = 0;
        for answer in answers {
            // A worker that drains does not acknowledge.
            restarted += usize::from(answer.await.unwrap_or(false));
        }
        restarted
    }

    /// Waits until every connection of every worker has ended.
    pub(crate) async fn drain(&self) {
        let mut answers = Vec::new();
        for worker in &self.workers {
            let (done, answer) = oneshot::channel();
            let _ = worker.commands.send(ThreadCommand::Drain(done));
            answers.push(answer);
        }
        for answer in answers {
            let _ = answer.await;
        }
    }

    /// Stops the threads without waiting for requests in flight: each connection is ended by its
    /// own task, and not by the kernel. A blocked thread is abandoned.
    pub(crate) async fn end(&self) {
        for worker in &self.workers {
            let _ = worker.commands.send(ThreadCommand::End);
        }
        let ended = async {
            while !self.workers.iter().all(|worker| worker.thread.is_finished()) {
                net::timer::sleep(END_LOOK).await;
            }
        };
        net::timer::within(END_WITHIN, ended).await;
    }
}
