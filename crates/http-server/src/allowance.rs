//! Limits how long a client may keep its exchange waiting: a maximum pause and a minimum rate in
//! one number.

use std::time::Duration;

use net::clock::{self, Moment};

use message::TransferTimeout;

/// Waiting time after which an exchange is noted as one that waits for its client, and again after
/// each further one.
const NOTED_MS: u64 = 1000;

/// The time that a client may still take. It is the longest pause at first, runs only while the
/// exchange waits for the client, and grows with each byte by the time that the byte may take at
/// the minimum rate, up to the longest pause. Without a minimum rate every byte restores all of it.
pub(super) struct Allowance {
    pause_ms: u64,
    rate: u64,
    left_ms: u64,
    /// Bytes that were not worth a millisecond yet, times 1000.
    carried: u64,
    /// When the current wait was last accounted for.
    since: Option<Moment>,
    waited_ms: u64,
    noted_ms: u64,
    moved: u64,
}

impl Allowance {
    pub(super) fn new(timeout: TransferTimeout) -> Allowance {
        let pause_ms = u64::try_from(timeout.pause.as_millis()).unwrap_or(u64::MAX).max(1);
        Allowance {
            pause_ms,
            rate: timeout.rate,
            left_ms: pause_ms,
            carried: 0,
            since: None,
            waited_ms: 0,
            noted_ms: 0,
            moved: 0,
        }
    }

    /// Called while the exchange waits for the client: returns when to check again.
    pub(super) fn wait(&mut self) -> Moment {
        self.account();
        let now = *self.since.get_or_insert_with(clock::now);
        let until_noted = (self.noted_ms + NOTED_MS).saturating_sub(self.waited_ms).max(1);
        now.after(Duration::from_millis(self.left_ms.min(until_noted)))
    }

    /// The exchange does not wait for the client any more.
    pub(super) fn stop(&mut self) {
        self.account();
        self.since = None;
    }

    /// The client has sent or taken so many bytes.
    pub(super) fn credit(&mut self, bytes: u64) {
        self.account();
        self.moved += bytes;
        if bytes == 0 {
            return;
        }
        let worth = bytes.saturating_mul(1000).saturating_add(self.carried);
        let (earned_ms, carried) =
            worth.checked_div(self.rate).map_or((self.pause_ms, 0), |ms| (ms, worth % self.rate));
        self.carried = carried;
        self.left_ms = self.left_ms.saturating_add(earned_ms).min(self.pause_ms);
    }

    fn account(&mut self) {
        let Some(since) = self.since else { return };
        let now = clock::now();
        self.since = Some(now);
        self.charge(now.as_ms().saturating_sub(since.as_ms()));
    }

    fn charge(&mut self, waited_ms: u64) {
        self.waited_ms += waited_ms;
        self.left_ms = self.left_ms.saturating_sub(waited_ms);
    }

    /// True if the client was too slow; after [`Allowance::wait`].
    pub(super) fn is_over(&self) -> bool {
        self.left_ms == 0
    }

    /// The client's bytes a second, each time the exchange has waited for it for a further second;
    /// after [`Allowance::wait`].
    pub(super) fn slow_rate(&mut self) -> Option<u64> {
        if self.waited_ms < self.noted_ms + NOTED_MS {
            return None;
        }
        self.noted_ms = self.waited_ms;
        Some(self.moved.saturating_mul(1000) / self.waited_ms)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn allowance(pause_ms: u64, rate: u64) -> Allowance {
        Allowance::new(TransferTimeout { pause: Duration::from_millis(pause_ms), rate })
    }

    #[test]
    fn a_byte_now_and_then_is_too_slow() {
        let mut slow = allowance(30_000, 240);
        let mut waited = 0;
        loop {
            slow.charge(1000);
            waited += 1;
            if slow.is_over() {
                break;
            }
            assert!(waited < 40, "one byte a second was enough");
            slow.credit(1);
        }
        assert!(waited >= 30, "{waited}");
    }

    #[test]
    fn the_minimum_rate_is_enough_for_ever_and_a_pause_is_forgiven() {
        let mut steady = allowance(3000, 240);
        for _ in 0..1000 {
            steady.charge(1000);
            assert!(!steady.is_over());
            steady.credit(240);
        }
        // Earned time does not add up beyond the longest pause.
        steady.credit(1_000_000);
        steady.charge(2999);
        assert!(!steady.is_over());
        steady.charge(1);
        assert!(steady.is_over());
    }

    #[test]
    fn without_a_rate_every_byte_restores_the_pause() {
        let mut any = allowance(1000, 0);
        for _ in 0..100 {
            any.charge(999);
            assert!(!any.is_over());
            any.credit(1);
        }
    }

    #[test]
    fn time_in_which_nothing_is_expected_of_the_client_does_not_count() {
        let mut quiet = allowance(1000, 240);
        quiet.charge(900);
        quiet.credit(0);
        assert_eq!((quiet.left_ms, quiet.waited_ms), (100, 900));
        assert!(quiet.slow_rate().is_none());
        quiet.charge(100);
        assert_eq!(quiet.slow_rate(), Some(0));
        assert!(quiet.slow_rate().is_none());
    }
}
