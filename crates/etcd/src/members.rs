//! Which member is used.

use std::cell::Cell;

/// The member that all calls of a client use until it fails.
pub(crate) struct Members {
    current: Cell<usize>,
    count: usize,
}

impl Members {
    /// Begins with any of them, so that the clients of a cluster are spread over its members.
    pub(crate) fn new(count: usize) -> Members {
        Members { current: Cell::new(fastrand::usize(..count.max(1))), count: count.max(1) }
    }

    pub(crate) fn current(&self) -> usize {
        self.current.get()
    }

    pub(crate) fn count(&self) -> usize {
        self.count
    }

    /// Uses the next member from now on, unless another call already has left this one.
    pub(crate) fn leave(&self, failed: usize) {
        if self.current.get() == failed {
            self.current.set((failed + 1) % self.count);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_member_is_left_once() {
        let members = Members::new(3);
        let first = members.current();
        members.leave(first);
        members.leave(first);
        assert_eq!(members.current(), (first + 1) % 3);
        assert_eq!(Members::new(0).count(), 1);
    }
}
