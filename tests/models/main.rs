//! Every order in which threads may take their steps, tried by loom, for the code that hands work
//! from one thread to another.
//!
//! Each module compiles a source file of ours a second time, with loom's types in the place of
//! std's. A lost wake-up ends a model as a deadlock. The models are small (two or three threads, a
//! few steps each), because the number of orders grows exponentially.

use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};

use loom::sync::Notify;

mod log_ring;
mod message;
mod remote_wake;
mod request_queue;
mod shared_body;

use message::{Body, BodyStream, Fault, FaultKind, FileRange, Frame, Headers, detach_small};
use request_queue::{Arrival, clock};

/// What the crates import as `crate::sync`.
mod sync {
    pub(crate) use crate::request_queue::{ArrayQueue, SegQueue};
    pub(crate) use loom::sync::atomic::{AtomicBool, AtomicU64, Ordering, fence};
    pub(crate) use loom::sync::{Mutex, MutexGuard, RwLock, RwLockReadGuard, RwLockWriteGuard};
    pub(crate) use loom::thread::{Thread, park};
}

/// How often one order may switch from a thread that could have continued. Two find nearly every
/// error (the documentation of loom), and without a bound three threads take minutes.
const PREEMPTIONS: usize = 3;

/// Runs `steps` in every order.
fn check(steps: impl Fn() + Send + Sync + 'static) {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(PREEMPTIONS);
    model.check(steps);
}

/// What a thread of a model sleeps on; a wake-up that comes before the sleep ends it.
struct Sleep(Notify);

impl Sleep {
    fn new() -> Arc<Sleep> {
        Arc::new(Sleep(Notify::new()))
    }

    /// Polls until the value is there, and sleeps in between.
    fn until<T>(self: &Arc<Sleep>, mut poll: impl FnMut(&mut Context<'_>) -> Poll<T>) -> T {
        let waker = Waker::from(self.clone());
        loop {
            match poll(&mut Context::from_waker(&waker)) {
                Poll::Ready(value) => return value,
                Poll::Pending => self.0.wait(),
            }
        }
    }
}

impl Wake for Sleep {
    fn wake(self: Arc<Self>) {
        self.0.notify();
    }
}
