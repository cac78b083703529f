//! When a certificate is renewed, and when a failed attempt is repeated.

use std::time::Duration;

use tls_settings::AcmePlan;

use crate::error::IssueError;
use crate::issue;
use crate::storage::StoredCertificate;

/// Pause while another process obtains the certificate.
pub(crate) const OTHER_PROCESS: Duration = Duration::from_secs(30);
/// Bounds of the time between two requests for renewal information.
const ASK_AGAIN_SECS: std::ops::RangeInclusive<u64> = 60 * 60..=24 * 60 * 60;
/// The shortest time between two renewals.
const RENEWAL_SECS_MIN: u64 = 60 * 60;
/// Pauses after a certificate authority that cannot be reached: the first and the longest.
const UNREACHABLE_SECS: (u64, u64) = (10, 10 * 60);
/// Pauses after any other failure. Let's Encrypt allows five failed validations an hour.
const FAILED_SECS: (u64, u64) = (10 * 60, 6 * 60 * 60);
/// The longest pause that a certificate authority may ask for.
const RATE_LIMITED_MAX: Duration = Duration::from_secs(7 * 24 * 60 * 60);

/// When to renew.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Renewal {
    /// In seconds since 1970.
    pub(crate) at_secs: u64,
    /// The decision is made again after so long.
    ask_again_secs: u64,
    /// The certificate authority told the time (RFC 9773), so it knows the certificate.
    pub(crate) is_known_to_authority: bool,
}

impl Renewal {
    pub(crate) fn now() -> Renewal {
        Renewal { at_secs: 0, ask_again_secs: 0, is_known_to_authority: false }
    }

    /// How long to wait, zero if the certificate is to be renewed.
    pub(crate) fn wait(self, now_secs: u64) -> Duration {
        let left = self.at_secs.saturating_sub(now_secs);
        Duration::from_secs(left.min(self.ask_again_secs))
    }

    /// After two thirds of the certificate's life, a little earlier by chance, so that not all
    /// servers renew at the same time. `random` is from 0 to 1.
    fn by_lifetime(not_before: u64, not_after: u64, random: f64) -> Renewal {
        let lifetime = not_after.saturating_sub(not_before);
        let early = (lifetime as f64 / 3.0 * (1.0 + random / 10.0)) as u64;
        Renewal {
            at_secs: not_after.saturating_sub(early),
            ask_again_secs: *ASK_AGAIN_SECS.end(),
            is_known_to_authority: false,
        }
    }

    /// At a random time of the window that the certificate authority suggests (RFC 9773 4.2).
    fn by_authority(start: u64, end: u64, ask_again: Duration, random: f64) -> Renewal {
        let offset = end.saturating_sub(start) as f64 * random;
        let (least, most) = (*ASK_AGAIN_SECS.start(), *ASK_AGAIN_SECS.end());
        Renewal {
            at_secs: start + offset as u64,
            ask_again_secs: ask_again.as_secs().clamp(least, most),
            is_known_to_authority: true,
        }
    }

    /// The authority's time, where it is plausible: before the certificate ends, and not so early
    /// that one certificate is ordered after the other.
    fn within(mut self, not_before: u64, not_after: u64, issued_secs: Option<u64>) -> Renewal {
        let lifetime = not_after.saturating_sub(not_before);
        self.at_secs = self.at_secs.min(not_after.saturating_sub(lifetime / 6));
        if let Some(issued) = issued_secs {
            self.at_secs = self.at_secs.max(issued + RENEWAL_SECS_MIN.min(lifetime / 3));
        }
        self
    }
}

/// Decides when a stored certificate is renewed. `issued_secs` is when this process obtained it.
pub(crate) async fn renewal(
    plan: &AcmePlan,
    stored: &StoredCertificate,
    issued_secs: Option<u64>,
) -> Renewal {
    let details = &stored.pair.details;
    // The same within a process for one certificate: asking again does not move the time.
    let random = stored.random();
    let own = Renewal::by_lifetime(details.not_before, details.not_after, random);
    match issue::renewal_info(plan, stored).await {
        Some((start, end, ask_again)) => Renewal::by_authority(start, end, ask_again, random)
            .within(details.not_before, details.not_after, issued_secs),
        None => own,
    }
}

/// The pauses between failed attempts.
#[derive(Debug, Default)]
pub(crate) struct BackOff {
    attempts: u32,
}

impl BackOff {
    /// The number of failed attempts.
    pub(crate) fn attempt(&self) -> u32 {
        self.attempts
    }

    /// Returns the pause after a failed attempt.
    pub(crate) fn next(&mut self, error: &IssueError) -> Duration {
        let (first, longest) = match error {
            IssueError::RateLimited(_, wait) => {
                self.attempts += 1;
                return (*wait).min(RATE_LIMITED_MAX);
            }
            IssueError::Unreachable(_) => UNREACHABLE_SECS,
            IssueError::InProgress | IssueError::Failed(_) => FAILED_SECS,
        };
        let secs = first.saturating_mul(1 << self.attempts.min(16)).min(longest);
        self.attempts += 1;
        // Servers that failed together do not come back together.
        Duration::from_secs_f64(secs as f64 * (1.0 + fastrand::f64() / 10.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DAY: u64 = 24 * 60 * 60;

    #[test]
    fn a_certificate_is_renewed_in_the_last_third_of_its_life() {
        let at = |random| Renewal::by_lifetime(100 * DAY, 190 * DAY, random);
        assert_eq!(at(0.0).at_secs, 160 * DAY);
        assert_eq!(at(1.0).at_secs, 157 * DAY);
        assert_eq!(at(0.0).wait(160 * DAY), Duration::ZERO);
        assert_eq!(at(0.0).wait(160 * DAY - 9), Duration::from_secs(9));
        assert_eq!(at(0.0).wait(100 * DAY), Duration::from_secs(DAY));
    }

    #[test]
    fn the_authority_chooses_the_window_and_is_asked_again_in_time() {
        let minute = Duration::from_secs(60);
        let renewal = Renewal::by_authority(10 * DAY, 12 * DAY, minute, 0.5);
        assert_eq!(renewal.at_secs, 11 * DAY);
        assert_eq!(renewal.wait(0), Duration::from_secs(60 * 60));
        // A window in the past: revoked, renew now.
        assert_eq!(renewal.wait(20 * DAY), Duration::ZERO);
        // Not after the certificate has ended, and not again and again.
        let within = |at: u64, issued| {
            let renewal = Renewal::by_authority(at, at, minute, 0.0);
            renewal.within(30 * DAY, 90 * DAY, issued).at_secs
        };
        assert_eq!(within(100 * DAY, None), 80 * DAY);
        assert_eq!(within(10 * DAY, None), 10 * DAY);
        assert_eq!(within(10 * DAY, Some(30 * DAY)), 30 * DAY + 60 * 60);
    }

    #[test]
    fn pauses_grow_and_respect_the_limits_of_the_authority() {
        let mut back_off = BackOff::default();
        let mut pauses = |error: &IssueError, count: usize| -> Vec<u64> {
            (0..count).map(|_| back_off.next(error).as_secs()).collect()
        };
        let unreachable = pauses(&IssueError::Unreachable(String::new()), 9);
        assert!((10..=11).contains(&unreachable[0]) && (20..=22).contains(&unreachable[1]));
        assert!((600..=660).contains(&unreachable[8]), "{unreachable:?}");
        let mut back_off = BackOff::default();
        let failed = IssueError::Failed(String::new());
        let within_an_hour = (0..10).scan(0, |total, _| {
            *total += back_off.next(&failed).as_secs();
            Some(*total)
        });
        assert!(within_an_hour.filter(|total| *total < 60 * 60).count() < 5);
        let limited = IssueError::RateLimited(String::new(), Duration::from_secs(7200));
        assert_eq!(back_off.next(&limited), Duration::from_secs(7200));
        let absurd = IssueError::RateLimited(String::new(), Duration::MAX);
        assert_eq!(back_off.next(&absurd), RATE_LIMITED_MAX);
    }
}
