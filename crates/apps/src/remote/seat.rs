//! The seat of one live process: keeps a connection to it, made anew when it ends.

use std::cell::RefCell;
use std::path::Path;
use std::rc::Rc;

use net::Stream;
use net::task::{self, JoinHandle};
use net::timer;
use telemetry::event;
use telemetry::log::Level;
use tokio::sync::Notify;

use super::Broken;
use super::link::Link;
use crate::conduit::Ended;
use crate::limits::{REMOTE_CONNECT, REMOTE_PAUSE_MAX, REMOTE_PAUSE_MIN};
use crate::slots::Slot;

/// Dropped, it gives its process nothing new; what is under way there is finished.
pub(super) struct Seat {
    slot: Slot,
    link: Rc<RefCell<Option<Rc<Link>>>>,
    keeper: JoinHandle<()>,
}

impl Seat {
    /// `opened` is called whenever there is a connection that takes exchanges.
    pub(super) fn new(slot: Slot, opened: Rc<dyn Fn()>, broken: Broken) -> Seat {
        let link = Rc::default();
        let keeper = task::spawn_local(keep(slot.clone(), Rc::clone(&link), opened, broken));
        Seat { slot, link, keeper }
    }

    pub(super) fn slot(&self) -> &Slot {
        &self.slot
    }

    pub(super) fn link(&self) -> Option<Rc<Link>> {
        self.link.borrow().clone()
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        self.keeper.abort();
        if let Some(link) = self.link.borrow_mut().take() {
            link.retire();
        }
    }
}

async fn keep(
    slot: Slot,
    place: Rc<RefCell<Option<Rc<Link>>>>,
    opened: Rc<dyn Fn()>,
    broken: Broken,
) {
    let mut pause = REMOTE_PAUSE_MIN;
    loop {
        match connect(&slot.path).await {
            Ok(stream) => {
                let mut was_open = false;
                let changed = Rc::new(Notify::new());
                let link = start(stream, changed.clone(), slot.slot, broken.clone());
                *place.borrow_mut() = Some(link.clone());
                while !link.is_leaving() {
                    if link.is_open() {
                        was_open = true;
                        opened();
                    }
                    changed.notified().await;
                }
                *place.borrow_mut() = None;
                if was_open {
                    pause = REMOTE_PAUSE_MIN;
                }
            }
            Err(error) => {
                let path = slot.path.display();
                event!(Level::Debug, "a process cannot be reached", socket = path, error = error);
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

/// A connection that lives by itself: whoever drops it lets it finish.
fn start(stream: Stream, changed: Rc<Notify>, slot: u32, broken: Broken) -> Rc<Link> {
    let told = changed.clone();
    let link = Link::new(Rc::new(move || told.notify_one()));
    let running = link.clone();
    task::spawn_local(async move {
        let (ended, lost) = running.run(stream).await;
        match ended {
            Ended::Malformed(_) => {
                broken.malformed.inc();
                event!(Level::Error, "a process breaks the frames", slot = slot, why = ended);
            }
            _ => {
                if lost > 0 {
                    broken.gone.inc();
                }
                event!(Level::Debug, "a process's connection ended", slot = slot, why = ended);
            }
        }
        changed.notify_one();
    });
    link
}
