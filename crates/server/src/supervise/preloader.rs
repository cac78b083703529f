//! A preloader: a process that has imported the application, and from which workers are forked.
//!
//! Owns the process and its control socket. It is the parent of its workers: it reports their exit
//! statuses, and it waits for a worker only after the supervisor holds a descriptor of it. It ends
//! when no worker of it is left and no other is wanted from it. Its death ends no worker.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::process::ExitStatus;
use std::rc::Rc;
use std::time::Duration;

use net::{Child, Stream};
use serde_json::json;
use telemetry::event;
use telemetry::log::Level;
use tokio::sync::{oneshot, watch};

use super::control_channel::ControlChannel;
use super::group_settings::GroupSettings;
use super::limits::{FORK_WITHIN, SHUT_DOWN_WITHIN};
use super::preloader_message::{PreloaderCommand, PreloaderMessage};
use super::process_errors::describe_exit;

/// The environment variable with the settings of a preloader.
const VARIABLE: &str = "TIDEGATE_PRELOAD";

/// The phase of a preloader.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum PreloaderPhase {
    Importing,
    Ready,
    /// It could not import the application.
    Failed,
    /// Its process has ended.
    Ended,
}

/// A preloader process.
pub(crate) struct Preloader {
    app: String,
    settings: Rc<GroupSettings>,
    child: Child,
    channel: ControlChannel,
    phase: watch::Sender<PreloaderPhase>,
    /// False once no messages of it are read.
    is_connected: Cell<bool>,
    /// The reported reason why it could not import the application.
    failure: RefCell<Option<String>>,
    /// How its process has ended.
    exit: RefCell<Option<String>>,
    requests: Cell<u64>,
    /// Pending requests for a worker.
    forks: RefCell<BTreeMap<u64, oneshot::Sender<Result<Child, String>>>>,
    /// Workers whose exit status has not been reported.
    exits: RefCell<BTreeMap<u32, watch::Sender<Option<ExitStatus>>>>,
}

/// Keeps a preloader: it ends after the last one is dropped.
pub(crate) struct PreloaderInUse {
    pub(crate) preloader: Rc<Preloader>,
    _in_use: oneshot::Sender<()>,
}

impl Preloader {
    /// Starts the process of an application.
    pub(crate) fn start(app: &str, settings: Rc<GroupSettings>) -> io::Result<Rc<PreloaderInUse>> {
        let (ours, theirs) = Stream::pair_for_child()?;
        let text = json!({
            "version": env!("CARGO_PKG_VERSION"),
            "app": app,
            "control_fd": theirs.as_raw_fd(),
            "log_format": settings.log_format,
            "store": settings.store.as_ref().map(|path| path.to_string_lossy()),
            "python": settings.python,
        });
        let mut launch = settings.launch.clone();
        launch.environment.push((VARIABLE.into(), text.to_string().into()));
        let child = launch.start(&[theirs.as_fd()])?;
        Ok(Preloader::over(app, settings, child, ours))
    }

    /// Supervises a process that has the other end of the socket.
    fn over(
        app: &str,
        settings: Rc<GroupSettings>,
        child: Child,
        socket: Stream,
    ) -> Rc<PreloaderInUse> {
        let preloader = Rc::new(Preloader {
            app: app.to_owned(),
            settings,
            child,
            channel: ControlChannel::new(socket),
            phase: watch::Sender::new(PreloaderPhase::Importing),
            is_connected: Cell::new(true),
            failure: RefCell::default(),
            exit: RefCell::default(),
            requests: Cell::new(0),
            forks: RefCell::default(),
            exits: RefCell::default(),
        });
        let (in_use, unused) = oneshot::channel();
        net::task::spawn_local(supervise(preloader.clone(), unused));
        Rc::new(PreloaderInUse { preloader, _in_use: in_use })
    }

    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    /// The settings that it was started with.
    pub(super) fn settings(&self) -> &Rc<GroupSettings> {
        &self.settings
    }

    /// True if workers can be forked from it.
    pub(crate) fn is_ready(&self) -> bool {
        *self.phase.borrow() == PreloaderPhase::Ready && self.is_connected.get()
    }

    /// True if it has reported why it could not import the application.
    pub(super) fn has_reported(&self) -> bool {
        self.failure.borrow().is_some()
    }

    /// Waits until it has imported the application; the error is the reason.
    pub(super) async fn until_ready(&self, within: Duration) -> Result<(), String> {
        let mut phase = self.phase.subscribe();
        let decided = phase.wait_for(|phase| *phase != PreloaderPhase::Importing);
        if net::timer::within(within, decided).await.is_none() {
            return Err(format!("it was not ready within {} s", within.as_secs_f64()));
        }
        let failure = self.failure.borrow().clone().or_else(|| self.exit.borrow().clone());
        failure.map_or(Ok(()), Err)
    }

    /// Forks a worker, which gets these descriptors.
    pub(super) async fn fork(
        &self,
        spec: String,
        descriptors: &[BorrowedFd<'_>],
    ) -> Result<Child, String> {
        let gone = || "the preloader has ended".to_owned();
        if !self.is_ready() {
            return Err(gone());
        }
        let request = self.requests.get() + 1;
        self.requests.set(request);
        let (done, forked) = oneshot::channel();
        self.forks.borrow_mut().insert(request, done);
        let command = PreloaderCommand::Fork { request, spec };
        let sent = self.channel.send_to_preloader(&command, descriptors).await;
        sent.map_err(|error| format!("the preloader does not receive: {error}"))?;
        match net::timer::within(FORK_WITHIN, forked).await {
            Some(result) => result.unwrap_or_else(|_| Err(gone())),
            None => Err(format!("no worker was forked within {} s", FORK_WITHIN.as_secs())),
        }
    }

    /// Kills it without waiting.
    pub(super) fn kill_now(&self) {
        self.child.kill();
    }

    /// Waits until its process has ended.
    pub(super) async fn ended(&self) {
        let mut phase = self.phase.subscribe();
        // The sender is ours.
        let _ = phase.wait_for(|phase| *phase == PreloaderPhase::Ended).await;
    }

    async fn take(&self, message: PreloaderMessage) {
        match message {
            PreloaderMessage::Ready { threads } => {
                self.phase.send_if_modified(|phase| {
                    let is_news = *phase == PreloaderPhase::Importing;
                    if is_news {
                        *phase = PreloaderPhase::Ready;
                    }
                    is_news
                });
                self.report_ready(&threads);
            }
            PreloaderMessage::Failed(why) => {
                self.failure.replace(Some(why));
                self.phase.send_replace(PreloaderPhase::Failed);
            }
            PreloaderMessage::Forked { request, process } => {
                let forked = self.adopt(process);
                let held = PreloaderCommand::Held { process };
                // An error means that it has ended, which the next read detects.
                let _ = self.channel.send_to_preloader(&held, &[]).await;
                let request = self.forks.borrow_mut().remove(&request);
                if let Some(request) = request {
                    // A worker that is no longer wanted is killed here.
                    let _ = request.send(forked);
                }
            }
            PreloaderMessage::NotForked { request, why } => {
                let request = self.forks.borrow_mut().remove(&request);
                if let Some(request) = request {
                    let _ = request.send(Err(format!("no worker could be forked: {why}")));
                }
            }
            PreloaderMessage::Ended { process, status } => {
                let report = self.exits.borrow_mut().remove(&process);
                if let Some(report) = report {
                    report.send_replace(status);
                }
            }
        }
    }

    fn report_ready(&self, threads: &[String]) {
        let (app, process) = (&self.app, self.id());
        event!(Level::Info, "an application is preloaded", app = app, process = process);
        if !threads.is_empty() {
            event!(
                Level::Warn,
                "threads that the application has started when it was imported do not exist in \
                 its workers: start them in each worker, or do not preload",
                app = app,
                process = process,
                threads = threads.join(", ")
            );
        }
    }

    fn adopt(&self, process: u32) -> Result<Child, String> {
        let (report, status) = watch::channel(None);
        let adopted = Child::adopt(process, self.id(), status);
        let child = adopted.map_err(|error| format!("a forked worker is lost: {error}"))?;
        self.exits.borrow_mut().insert(process, report);
        Ok(child)
    }
}

/// Handles the messages of a preloader until it is not used any more or has ended; then waits for
/// its end.
async fn supervise(preloader: Rc<Preloader>, mut unused: oneshot::Receiver<()>) {
    let is_unused = loop {
        tokio::select! {
            _ = &mut unused => break true,
            message = preloader.channel.next_of_preloader() => match message {
                Ok(Some(message)) => preloader.take(message).await,
                Ok(None) => break false,
                Err(error) => {
                    let app = &preloader.app;
                    event!(Level::Debug, "a malformed message", app = app, error = error);
                    break false;
                }
            },
        }
    };
    let was_ready = preloader.is_ready();
    preloader.is_connected.set(false);
    preloader.channel.finish();
    // Pending requests fail, and exit statuses stay unknown.
    preloader.forks.take();
    preloader.exits.take();
    let mut ended = net::timer::within(SHUT_DOWN_WITHIN, preloader.child.wait()).await;
    if ended.is_none() {
        preloader.child.kill();
        ended = Some(preloader.child.wait().await);
    }
    let how = match ended {
        Some(Ok(status)) => describe_exit(status),
        Some(Err(error)) => format!("cannot be waited for: {error}"),
        None => String::new(),
    };
    if was_ready && !is_unused {
        event!(
            Level::Error,
            "the preloader has ended: its workers continue, and the next one starts another",
            app = preloader.app,
            process = preloader.id(),
            because = how
        );
    }
    preloader.exit.replace(Some(how));
    preloader.phase.send_replace(PreloaderPhase::Ended);
}

#[cfg(test)]
#[cfg(target_os = "linux")]
mod tests {
    use std::ffi::OsString;
    use std::os::unix::process::ExitStatusExt;

    use net::ChildCommand;
    use serde_json::Value;

    use super::super::policy::Policy;
    use super::super::tests::settings;
    use super::*;

    const TIMEOUT: Duration = Duration::from_secs(60);

    /// A preloader whose messages the test sends. Its process is a shell with a child, which ends
    /// with that.
    struct Stage {
        used: Rc<PreloaderInUse>,
        peer: Stream,
        worker: u32,
        /// Kills the worker in the end.
        _killed: Child,
    }

    impl Stage {
        async fn new() -> Stage {
            let (ours, theirs) = Stream::pair_for_child().unwrap();
            let number = theirs.as_raw_fd();
            let script = format!("sleep 600 & echo $! >&{number}; wait");
            let arguments = ["-c", &script].map(OsString::from).to_vec();
            let shell =
                ChildCommand { program: "/bin/bash".into(), arguments, ..ChildCommand::default() };
            let child = shell.start(&[theirs.as_fd()]).unwrap();
            let line = ours.receive().await.unwrap();
            let worker = std::str::from_utf8(&line).unwrap().trim().parse().unwrap();
            let _killed = Child::adopt(worker, child.id(), watch::channel(None).1).unwrap();
            let (socket, peer) = Stream::pair().unwrap();
            let settings = Rc::new(settings("good", Policy::default()));
            let used = Preloader::over("test", settings, child, socket);
            Stage { used, peer, worker, _killed }
        }

        fn send(&self, message: &Value) {
            let text = message.to_string();
            let frame = [&(text.len() as u32).to_le_bytes(), text.as_bytes()].concat();
            assert_eq!(self.peer.try_send_slice(&frame).unwrap(), frame.len());
        }

        /// Receives one command.
        async fn receive(&self) -> Value {
            let mut frame = Vec::new();
            loop {
                frame.extend_from_slice(&self.peer.receive().await.unwrap());
                let Some((length, text)) = frame.split_first_chunk::<4>() else { continue };
                if text.len() == u32::from_le_bytes(*length) as usize {
                    return serde_json::from_slice(text).unwrap();
                }
            }
        }

        async fn until_ready(&self) -> Result<(), String> {
            self.used.preloader.until_ready(TIMEOUT).await
        }

        /// Requests a worker, and reports this process as it.
        async fn fork(&self, process: u32) -> Result<Child, String> {
            let (_one, other) = Stream::pair_for_child().unwrap();
            let passed = [other.as_fd()];
            let asked = self.used.preloader.fork("{}".to_owned(), &passed);
            let answer = async {
                let command = self.receive().await;
                assert_eq!(command["fork"]["spec"], "{}");
                let request = &command["fork"]["request"];
                self.send(&json!({ "forked": { "request": request, "process": process } }));
                assert_eq!(self.receive().await, json!({ "held": process }));
            };
            tokio::join!(asked, answer).0
        }

        async fn end(self) {
            let preloader = self.used.preloader.clone();
            preloader.kill_now();
            drop(self.used);
            assert!(net::timer::within(TIMEOUT, preloader.ended()).await.is_some());
        }
    }

    #[test]
    fn a_forked_worker_is_held_before_it_is_waited_for_and_its_status_is_reported() {
        net::worker::block_on_local(async {
            let stage = Stage::new().await;
            stage.send(&json!({ "ready": { "threads": ["saver"] } }));
            assert_eq!(stage.until_ready().await, Ok(()));
            let child = stage.fork(stage.worker).await.unwrap();
            assert_eq!(child.id(), stage.worker);
            child.terminate();
            stage.send(&json!({ "ended": { "process": stage.worker, "status": 15 } }));
            assert_eq!(child.wait().await.unwrap().signal(), Some(15));
            // The shell ends with its child, and the preloader with its last user.
            let preloader = stage.used.preloader.clone();
            drop(stage.used);
            assert!(net::timer::within(TIMEOUT, preloader.ended()).await.is_some());
            assert_eq!(stage.peer.receive().await.unwrap().len(), 0, "the socket is closed");
        });
    }

    #[test]
    fn an_application_that_cannot_be_imported_is_reported() {
        net::worker::block_on_local(async {
            let stage = Stage::new().await;
            stage.send(&json!({ "failed": "there is no module" }));
            assert_eq!(stage.until_ready().await, Err("there is no module".to_owned()));
            assert!(stage.used.preloader.has_reported());
            stage.end().await;
            let stage = Stage::new().await;
            stage.used.preloader.kill_now();
            stage.peer.finish();
            let why = stage.used.preloader.until_ready(TIMEOUT).await.unwrap_err();
            assert_eq!(why, "it was ended by signal 9");
        });
    }

    #[test]
    fn a_preloader_that_ends_fails_what_is_pending_and_ends_no_worker() {
        net::worker::block_on_local(async {
            let stage = Stage::new().await;
            stage.send(&json!({ "ready": { "threads": [] } }));
            stage.until_ready().await.unwrap();
            let child = stage.fork(stage.worker).await.unwrap();
            let preloader = stage.used.preloader.clone();
            let pending = preloader.fork("{}".to_owned(), &[]);
            let death = async {
                stage.receive().await;
                preloader.kill_now();
                stage.peer.finish();
            };
            let (pending, ()) = tokio::join!(pending, death);
            assert_eq!(pending.unwrap_err(), "the preloader has ended");
            preloader.ended().await;
            assert!(!preloader.is_ready());
            let worker = format!("/proc/{}", stage.worker);
            assert!(std::path::Path::new(&worker).exists(), "the worker continues");
            child.kill();
            let unknown = child.wait().await.unwrap_err().to_string();
            assert!(unknown.contains("not reported"), "{unknown}");
            let refused = preloader.fork("{}".to_owned(), &[]).await;
            assert_eq!(refused.unwrap_err(), "the preloader has ended");
        });
    }

    #[test]
    fn only_its_own_children_are_taken_as_workers_and_malformed_messages_end_it() {
        net::worker::block_on_local(async {
            let stage = Stage::new().await;
            stage.send(&json!({ "ready": { "threads": [] } }));
            stage.until_ready().await.unwrap();
            let refused = stage.fork(std::process::id()).await.unwrap_err();
            assert!(refused.contains("is not a child of process"), "{refused}");
            stage.send(&json!({ "ended": { "process": 1, "status": 0 } }));
            assert!(stage.used.preloader.is_ready(), "unknown processes are ignored");
            stage.peer.try_send_slice(&[255, 255, 255, 255]).unwrap();
            assert_eq!(stage.peer.receive().await.unwrap().len(), 0, "the socket is closed");
            assert!(!stage.used.preloader.is_ready());
            stage.end().await;
        });
    }
}
