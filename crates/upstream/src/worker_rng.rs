//! The random numbers of a worker, for balancing: reproducible from their seed.

use std::cell::RefCell;

/// A worker's random number generator.
pub(crate) struct WorkerRng(RefCell<fastrand::Rng>);

impl WorkerRng {
    pub(crate) fn new(seed: u64) -> WorkerRng {
        WorkerRng(RefCell::new(fastrand::Rng::with_seed(seed)))
    }

    /// Returns a number below `bound`, which must not be 0.
    pub(crate) fn below(&self, bound: usize) -> usize {
        self.0.borrow_mut().usize(..bound)
    }

    /// Returns a number in 0.0..1.0.
    pub(crate) fn fraction(&self) -> f64 {
        self.0.borrow_mut().f64()
    }
}
