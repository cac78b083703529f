//! Budgets for frames that cost this side more than the peer.
//!
//! A budget is spent by frames without use, and is refunded by useful work and by time. So a peer
//! that works may send as many control frames as its work needs, and one that only sends them is
//! stopped after a bounded number, without a clock in the protocol code.

use super::code::Violation;

/// Requests that a client may cancel before their response ended, beyond the number of those that
/// ended (CVE-2023-44487, "rapid reset"). A browser cancels dozens when the user leaves a page.
const RESETS: u32 = 200;
/// Streams that this side has to reset because of the peer (CVE-2025-8671, "MadeYouReset"). A
/// client without an error causes none.
const PROVOKED: u32 = 100;
/// PING, SETTINGS, PRIORITY, PRIORITY_UPDATE, WINDOW_UPDATE and unknown frames (CVE-2019-9512,
/// 9515, 9517), beyond those that useful frames account for.
const CONTROL: u32 = 1000;
/// DATA frames without data that end nothing (CVE-2019-9518).
const EMPTY: u32 = 100;

/// What a request or response head refunds of control frames: its stream needs some window updates
/// and priorities.
const CONTROL_PER_HEAD: u32 = 8;
/// What a sent DATA frame refunds that no window cut short: an update for its stream and one for
/// the connection.
const CONTROL_PER_DATA: u32 = 2;
/// What one second refunds of each budget.
const PER_SECOND: u32 = 10;

#[derive(Clone, Copy, Debug)]
struct Budget {
    left: u32,
    most: u32,
}

impl Budget {
    const fn new(most: u32) -> Budget {
        Budget { left: most, most }
    }

    #[inline]
    fn spend(&mut self, violation: Violation) -> Result<(), Violation> {
        self.left = self.left.checked_sub(1).ok_or(violation)?;
        Ok(())
    }

    #[inline]
    fn refund(&mut self, amount: u32) {
        self.left = self.left.saturating_add(amount).min(self.most);
    }
}

/// The budgets of one connection.
#[derive(Debug)]
pub(super) struct Budgets {
    resets: Budget,
    provoked: Budget,
    control: Budget,
    empty: Budget,
}

impl Budgets {
    pub(super) fn new() -> Budgets {
        Budgets {
            resets: Budget::new(RESETS),
            provoked: Budget::new(PROVOKED),
            control: Budget::new(CONTROL),
            empty: Budget::new(EMPTY),
        }
    }

    /// The peer reset a stream that was not finished.
    pub(super) fn reset(&mut self) -> Result<(), Violation> {
        self.resets.spend(Violation::RapidReset)
    }

    /// This side resets a stream because of the peer.
    pub(super) fn count_reset(&mut self) -> Result<(), Violation> {
        self.provoked.spend(Violation::ProvokedResets)
    }

    /// A control frame arrived; `violation` is its flood.
    #[inline]
    pub(super) fn control(&mut self, violation: Violation) -> Result<(), Violation> {
        self.control.spend(violation)
    }

    /// A DATA frame without data arrived.
    pub(super) fn empty(&mut self) -> Result<(), Violation> {
        self.empty.spend(Violation::EmptyFrames)
    }

    /// A field section arrived.
    #[inline]
    pub(super) fn head_received(&mut self) {
        self.control.refund(CONTROL_PER_HEAD);
    }

    /// Data arrived.
    #[inline]
    pub(super) fn data_received(&mut self) {
        self.control.refund(1);
        self.empty.refund(1);
    }

    /// A DATA frame was sent that no window cut short.
    #[inline]
    pub(super) fn data_sent(&mut self, bytes: usize) {
        self.control.refund(CONTROL_PER_DATA + (bytes / 1024) as u32);
    }

    /// A stream ended on both sides.
    #[inline]
    pub(super) fn stream_ended(&mut self) {
        self.resets.refund(1);
        self.provoked.refund(1);
    }

    /// Time has passed.
    pub(super) fn elapsed(&mut self, seconds: u32) {
        let amount = seconds.saturating_mul(PER_SECOND);
        for budget in [&mut self.resets, &mut self.provoked, &mut self.control, &mut self.empty] {
            budget.refund(amount);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_budget_ends_and_is_refunded_by_work_and_by_time() {
        let mut budgets = Budgets::new();
        assert!((0..RESETS).all(|_| budgets.reset().is_ok()));
        assert_eq!(budgets.reset(), Err(Violation::RapidReset));
        budgets.stream_ended();
        assert_eq!((budgets.reset(), budgets.reset()), (Ok(()), Err(Violation::RapidReset)));
        budgets.elapsed(1);
        assert!((0..PER_SECOND).all(|_| budgets.reset().is_ok()));
        assert!(budgets.reset().is_err());
        budgets.elapsed(u32::MAX);
        assert_eq!(budgets.resets.left, RESETS, "never more than at first");
    }
}
