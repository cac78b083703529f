//! Maintains a connection to one live process and reconnects when it ends.

use std::cell::RefCell;
use std::path::Path;
use std::rc::Rc;

use net::Stream;
use net::task::{self, JoinHandle};
use net::timer;
use telemetry::event;
use telemetry::log::Level;
use tokio::sync::Notify;

use super::BrokenCounters;
use super::connection::RemoteConnection;
use crate::limits::{REMOTE_CONNECT, REMOTE_PAUSE_MAX, REMOTE_PAUSE_MIN};
use crate::live_workers::LiveWorker;
use crate::mux::CloseCause;

/// When dropped, its process gets nothing new; exchanges in flight are finished.
pub(super) struct ProcessLink {
    worker: LiveWorker,
    connection: Rc<RefCell<Option<Rc<RemoteConnection>>>>,
    maintainer: JoinHandle<()>,
}

impl ProcessLink {
    /// `opened` is called whenever the connection takes exchanges.
    pub(super) fn new(
        worker: LiveWorker,
        opened: Rc<dyn Fn()>,
        broken: BrokenCounters,
    ) -> ProcessLink {
        let connection = Rc::default();
        let maintainer =
            task::spawn_local(maintain(worker.clone(), Rc::clone(&connection), opened, broken));
        ProcessLink { worker, connection, maintainer }
    }

    pub(super) fn worker(&self) -> &LiveWorker {
        &self.worker
    }

    pub(super) fn connection(&self) -> Option<Rc<RemoteConnection>> {
        self.connection.borrow().clone()
    }
}

impl Drop for ProcessLink {
    fn drop(&mut self) {
        self.maintainer.abort();
        if let Some(connection) = self.connection.borrow_mut().take() {
            connection.retire();
        }
    }
}

async fn maintain(
    worker: LiveWorker,
    backend: Rc<RefCell<Option<Rc<RemoteConnection>>>>,
    opened: Rc<dyn Fn()>,
    broken: BrokenCounters,
) {
    let mut pause = REMOTE_PAUSE_MIN;
    loop {
        match connect(&worker.path).await {
            Ok(stream) => {
                let mut was_open = false;
                let changed = Rc::new(Notify::new());
                let connection = start(stream, changed.clone(), worker.slot, broken.clone());
                *backend.borrow_mut() = Some(connection.clone());
                while !connection.is_leaving() {
                    if connection.is_open() {
                        was_open = true;
                        opened();
                    }
                    changed.notified().await;
                }
                *backend.borrow_mut() = None;
                if was_open {
                    pause = REMOTE_PAUSE_MIN;
                }
            }
            Err(error) => {
                let path = worker.path.display();
                event!(
                    Level::Debug,
                    "cannot connect to an application process",
                    socket = path,
                    error = error
                );
            }
        }
        timer::sleep(pause).await;
        pause = (pause * 2).min(REMOTE_PAUSE_MAX);
    }
}

async fn connect(path: &Path) -> std::io::Result<Stream> {
    let connected = timer::within(REMOTE_CONNECT, Stream::connect_unix(path)).await;
    connected.unwrap_or_else(|| Err(std::io::ErrorKind::TimedOut.into()))
}

/// Starts a connection that finishes by itself when it is dropped.
fn start(
    stream: Stream,
    changed: Rc<Notify>,
    slot: u32,
    broken: BrokenCounters,
) -> Rc<RemoteConnection> {
    let told = changed.clone();
    let connection = RemoteConnection::new(Rc::new(move || told.notify_one()));
    let running = connection.clone();
    task::spawn_local(async move {
        let (ended, lost) = running.run(stream).await;
        match ended {
            CloseCause::Malformed(_) => {
                broken.malformed.inc();
                event!(
                    Level::Error,
                    "closed the connection to an application process after malformed frames",
                    slot = slot,
                    reason = ended
                );
            }
            _ => {
                if lost > 0 {
                    broken.gone.inc();
                }
                event!(
                    Level::Debug,
                    "the connection to an application process has ended",
                    slot = slot,
                    reason = ended
                );
            }
        }
        changed.notify_one();
    });
    connection
}
