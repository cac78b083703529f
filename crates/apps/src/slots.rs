//! The processes of an application that take exchanges now: a live set, by the application's name.
//!
//! Who supervises the processes sets it; every gateway worker sees the new set at its next turn and
//! brings its connections in line with it. A process whose entry goes is given nothing new; what is
//! under way there is finished. Knows neither how a process is started nor what it runs.

use std::path::PathBuf;
use std::sync::Arc;

use exchange::Shared;
use tokio::sync::watch;

/// One process that takes exchanges.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Slot {
    /// The place of the process among those of its application, from 0.
    pub slot: u32,
    /// Grows with each process that is started in that place.
    pub generation: u64,
    /// The Unix socket it accepts connections of frames on.
    pub path: PathBuf,
}

/// The set. It lives as long as somebody holds it: its supervisor does.
#[derive(Debug)]
pub struct Slots(watch::Sender<Arc<[Slot]>>);

impl Slots {
    /// The set of an application, empty if nobody has asked for it before.
    pub fn of(shared: &Shared, app: &str) -> Arc<Slots> {
        shared.get(app.to_owned(), || Slots(watch::Sender::new(Arc::from([]))))
    }

    /// Replaces the set; the same set again tells nobody.
    pub fn set(&self, live: Vec<Slot>) {
        self.0.send_if_modified(|known| {
            let changed = **known != *live;
            if changed {
                *known = Arc::from(live);
            }
            changed
        });
    }

    /// The set as it is now.
    pub fn live(&self) -> Arc<[Slot]> {
        self.0.borrow().clone()
    }

    /// Sees every change from now on.
    pub fn watch(&self) -> watch::Receiver<Arc<[Slot]>> {
        self.0.subscribe()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_set_is_found_by_name_and_only_changes_are_told() {
        let shared = Shared::default();
        let (set, other) = (Slots::of(&shared, "shop"), Slots::of(&shared, "blog"));
        let mut watch = Slots::of(&shared, "shop").watch();
        let slot = Slot { slot: 0, generation: 1, path: PathBuf::from("/run/0.sock") };
        set.set(vec![slot.clone()]);
        assert!(watch.has_changed().unwrap());
        assert_eq!(&**watch.borrow_and_update(), std::slice::from_ref(&slot));
        set.set(vec![slot.clone()]);
        assert!(!watch.has_changed().unwrap());
        assert_eq!((&*set.live(), &*other.live()), (&[slot][..], &[][..]));
    }
}
