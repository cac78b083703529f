//! The live worker processes of an application: a shared set, found by the application's name.
//!
//! The supervisor sets it; every gateway worker is notified and updates its connections. A process
//! that is removed gets nothing new; its exchanges in flight are finished. Knows neither how a
//! process is started nor what it runs.

use std::path::PathBuf;
use std::sync::Arc;

use plugin::Shared;
use tokio::sync::watch;

/// A process that takes exchanges.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LiveWorker {
    /// The index of the process among those of its application, from 0.
    pub slot: u32,
    /// Increases with each process that is started at this index.
    pub generation: u64,
    /// The Unix socket on which it accepts connections of frames.
    pub path: PathBuf,
}

/// The set. It lives as long as it is referenced, by the supervisor.
#[derive(Debug)]
pub struct LiveWorkers(watch::Sender<Arc<[LiveWorker]>>);

impl LiveWorkers {
    /// The set of an application; empty at first.
    pub fn of(shared: &Shared, app: &str) -> Arc<LiveWorkers> {
        shared.get(app.to_owned(), || LiveWorkers(watch::Sender::new(Arc::from([]))))
    }

    /// Replaces the set; notifies only if it has changed.
    pub fn set(&self, live: Vec<LiveWorker>) {
        self.0.send_if_modified(|known| {
            let changed = **known != *live;
            if changed {
                *known = Arc::from(live);
            }
            changed
        });
    }

    /// The current set.
    pub fn live(&self) -> Arc<[LiveWorker]> {
        self.0.borrow().clone()
    }

    /// A receiver of later changes.
    pub fn watch(&self) -> watch::Receiver<Arc<[LiveWorker]>> {
        self.0.subscribe()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_set_is_found_by_name_and_only_changes_notify() {
        let shared = Shared::default();
        let (set, other) = (LiveWorkers::of(&shared, "shop"), LiveWorkers::of(&shared, "blog"));
        let mut watch = LiveWorkers::of(&shared, "shop").watch();
        let slot = LiveWorker { slot: 0, generation: 1, path: PathBuf::from("/run/0.sock") };
        set.set(vec![slot.clone()]);
        assert!(watch.has_changed().unwrap());
        assert_eq!(&**watch.borrow_and_update(), std::slice::from_ref(&slot));
        set.set(vec![slot.clone()]);
        assert!(!watch.has_changed().unwrap());
        assert_eq!((&*set.live(), &*other.live()), (&[slot][..], &[][..]));
    }
}
