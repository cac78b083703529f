//! Every order in which threads may take their steps, tried by loom, for the code that hands work
//! from one thread to another.
//!
//! Each module compiles a source file of ours a second time, with loom's types in the place of
//! std's. A lost wake-up ends a model as a deadlock. The models are small (two or three threads, a
//! few steps each), because the number of orders grows exponentially.

mod log_ring;
mod remote_wake;

/// How often one order may switch from a thread that could have continued. Two find nearly every
/// error (the documentation of loom), and without a bound three threads take minutes.
const PREEMPTIONS: usize = 3;

/// Runs `steps` in every order.
fn check(steps: impl Fn() + Send + Sync + 'static) {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(PREEMPTIONS);
    model.check(steps);
}

/// What the crates import as `crate::sync`.
mod sync {
    pub(crate) use loom::sync::atomic::{AtomicBool, Ordering, fence};
    pub(crate) use loom::sync::{Mutex, MutexGuard};
    pub(crate) use loom::thread::{Thread, park};
}
