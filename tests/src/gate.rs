//! A gate in an upstream script: the script waits there until the test opens it.

use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Mutex, PoisonError};

/// Opens its gate when it is dropped, at the latest when the test ends. Declare it after the
/// upstream whose scripts wait, so that it is dropped first.
pub struct Opener(Sender<()>);

/// Where a script waits.
pub struct Gate(Mutex<Receiver<()>>);

/// A closed gate and its opener.
pub fn gate() -> (Opener, Gate) {
    let (sender, receiver) = channel();
    (Opener(sender), Gate(Mutex::new(receiver)))
}

impl Opener {
    pub fn open(self) {
        // Nothing is ever sent: the end of the sender is the message.
        drop(self.0);
    }
}

impl Gate {
    /// Waits until the gate is opened.
    pub fn wait(&self) {
        let _ = self.0.lock().unwrap_or_else(PoisonError::into_inner).recv();
    }
}
