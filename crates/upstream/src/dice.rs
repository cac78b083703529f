//! Randomness for balancing: fast, per worker, and the same for the same seed.

use std::cell::Cell;

/// Xorshift64* (Vigna 2016).
pub(crate) struct Dice(Cell<u64>);

impl Dice {
    pub(crate) fn new(seed: u64) -> Dice {
        // Zero is the one state it never leaves.
        Dice(Cell::new(crate::ring::mix(seed).max(1)))
    }

    pub(crate) fn next(&self) -> u64 {
        let mut state = self.0.get();
        state ^= state >> 12;
        state ^= state << 25;
        state ^= state >> 27;
        self.0.set(state);
        state.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    /// A number below `bound`, which must not be 0.
    pub(crate) fn below(&self, bound: usize) -> usize {
        // Lemire's multiplication; the bias is far below what anybody could see.
        ((u128::from(self.next()) * bound as u128) >> 64) as usize
    }

    /// A number in 0.0..1.0.
    pub(crate) fn share(&self) -> f64 {
        (self.next() >> 11) as f64 / (1u64 << 53) as f64
    }
}
