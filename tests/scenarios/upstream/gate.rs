//! A place in a script where it waits until the test lets it go on.

use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Mutex, PoisonError};

/// Lets everybody through when it is dropped, at the latest when its test ends. It has to be
/// declared after the upstream whose scripts wait, so that it is dropped before.
pub(super) struct Opener(Sender<()>);

pub(super) struct Gate(Mutex<Receiver<()>>);

pub(super) fn gate() -> (Opener, Gate) {
    let (sender, receiver) = channel();
    (Opener(sender), Gate(Mutex::new(receiver)))
}

impl Opener {
    pub(super) fn open(self) {
        // Nothing is ever sent: the end of the sender is the message.
        drop(self.0);
    }
}

impl Gate {
    /// Waits until the gate is opened.
    pub(super) fn wait(&self) {
        let _ = self.0.lock().unwrap_or_else(PoisonError::into_inner).recv();
    }
}
