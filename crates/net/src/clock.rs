//! The worker's cached clock.
//!
//! Owns one reading of the monotonic clock per thread, taken when the event loop wakes (see
//! `worker`), so that time-outs cost a memory load and not a clock call. A loop with more to do
//! than it can does not sleep for long, and nothing says so: then the reading is taken anew after
//! it was asked for so many times. Promises: the reading never goes backwards and is at most one
//! loop turn or that many questions old. Never used where a user sees the difference: latencies are
//! taken with [`precise_us`].

use std::cell::Cell;
use std::sync::OnceLock;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// A point in time in whole milliseconds since the process began; cheap to copy and compare.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Moment(u64);

impl Moment {
    /// Later than every deadline: "no deadline".
    pub const NEVER: Moment = Moment(u64::MAX);

    /// This moment plus a span, saturating at [`Moment::NEVER`].
    pub fn after(self, span: Duration) -> Moment {
        Moment(self.0.saturating_add(u64::try_from(span.as_millis()).unwrap_or(u64::MAX)))
    }

    /// Time from `earlier` to this moment, zero if it lies ahead.
    pub fn since(self, earlier: Moment) -> Duration {
        Duration::from_millis(self.0.saturating_sub(earlier.0))
    }

    /// Milliseconds since the process began.
    pub fn as_ms(self) -> u64 {
        self.0
    }

    pub(crate) fn from_ms(ms: u64) -> Moment {
        Moment(ms)
    }
}

/// The reading of this thread's turn. A load and a count for each answer: it is asked several times
/// for a request.
struct Reading {
    ms: Cell<u64>,
    us: Cell<u64>,
    /// Where the next lap begins.
    lap_us: Cell<u64>,
    wall_secs: Cell<u64>,
    /// How often it may still be given out at all; zero before the first reading.
    left: Cell<u8>,
    /// The same as the time of what has just ended.
    left_as_end: Cell<u8>,
    /// Whether someone reads the clocks for this thread whenever its loop wakes.
    kept: Cell<bool>,
}

/// How often one reading may be given out before the clocks are asked again: some tens of requests.
const ASKED_MAX: u8 = u8::MAX;
/// The same where it is given out as the time of what has just ended.
const GIVEN_MAX: u8 = 16;

thread_local! {
    static READING: Reading = const {
        Reading {
            ms: Cell::new(0),
            us: Cell::new(0),
            lap_us: Cell::new(0),
            wall_secs: Cell::new(0),
            left: Cell::new(0),
            left_as_end: Cell::new(0),
            kept: Cell::new(false),
        }
    };
}

fn origin() -> Instant {
    static ORIGIN: OnceLock<Instant> = OnceLock::new();
    *ORIGIN.get_or_init(Instant::now)
}

impl Reading {
    #[cold]
    fn renew(&self) {
        self.renew_time();
        let wall = SystemTime::now().duration_since(UNIX_EPOCH);
        self.wall_secs.set(wall.map_or(0, |since_epoch| since_epoch.as_secs()));
        self.left.set(if self.kept.get() { ASKED_MAX } else { 0 });
    }

    #[cold]
    fn renew_time(&self) {
        let us = precise_us();
        self.us.set(us);
        self.lap_us.set(us);
        self.ms.set(us / 1000);
        // A thread without a worker loop (a test) has no one to renew it: its readings are good for
        // one answer.
        self.left_as_end.set(if self.kept.get() { GIVEN_MAX } else { 0 });
    }
}

/// Reads the clocks anew; the worker's loop calls it whenever it wakes.
pub fn refresh() {
    READING.with(|reading| {
        reading.kept.set(true);
        reading.renew();
    });
}

#[inline]
fn cached<R>(answer: impl FnOnce(&Reading) -> R) -> R {
    READING.with(|reading| {
        match reading.left.get() {
            0 => reading.renew(),
            left => reading.left.set(left - 1),
        }
        answer(reading)
    })
}

/// The time of this loop turn.
#[inline]
pub fn now() -> Moment {
    Moment(cached(|reading| reading.ms.get()))
}

/// The time of this loop turn in microseconds: where a request's latency begins.
#[inline]
pub fn now_us() -> u64 {
    cached(|reading| reading.us.get())
}

/// Microseconds since the process began, read now: where a request's latency ends.
pub fn precise_us() -> u64 {
    u64::try_from(origin().elapsed().as_micros()).unwrap_or(u64::MAX)
}

/// [`precise_us`], and the time since the last lap or the last reading of the turn, whichever came
/// later: about what has just ended has taken, or a little more, as it may have begun later.
#[inline]
pub fn lap_us() -> (u64, u64) {
    let now = precise_us();
    READING.with(|reading| (now, now.saturating_sub(reading.lap_us.replace(now))))
}

/// [`precise_us`], at most as old as the turn, or as the sixteen that were asked for before: for
/// the end of what takes less time than asking the clock does.
#[inline]
pub fn recent_us() -> u64 {
    READING.with(|reading| {
        match reading.left_as_end.get() {
            0 => reading.renew_time(),
            left => reading.left_as_end.set(left - 1),
        }
        reading.us.get()
    })
}

/// Seconds since 1970, of this loop turn: for the Date field and logs.
#[inline]
pub fn wall_secs() -> u64 {
    cached(|reading| reading.wall_secs.get())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_saturate_and_order() {
        let now = now();
        assert!(now.after(Duration::from_secs(1)) > now);
        assert_eq!(Moment::NEVER.after(Duration::from_secs(1)), Moment::NEVER);
        assert_eq!(now.since(now.after(Duration::from_secs(1))), Duration::ZERO);
    }

    /// Tokio says nothing of a turn that begins without a sleep, and under load none may come for
    /// long.
    #[test]
    fn the_clock_goes_on_while_the_loop_never_sleeps() {
        use std::task::Poll;
        crate::worker::block_on_local(async {
            let busy = std::future::poll_fn(|cx| {
                cx.waker().wake_by_ref();
                now();
                Poll::<()>::Pending
            });
            tokio::task::spawn_local(busy);
            // The wheel's driver reads the clocks once, when it begins to wait.
            tokio::task::yield_now().await;
            let begin = now_us();
            std::future::poll_fn(|cx| {
                cx.waker().wake_by_ref();
                assert!(precise_us() < begin + 2_000_000, "the clock stands still");
                if now_us() > begin { Poll::Ready(()) } else { Poll::Pending }
            })
            .await;
        });
    }

    #[test]
    fn a_thread_with_a_loop_sees_the_time_of_its_turn() {
        refresh();
        let before = now_us();
        while precise_us() == before {
            std::hint::spin_loop();
        }
        assert_eq!(now_us(), before);
        assert_eq!((recent_us(), now_us()), (before, before));
        while recent_us() == before {}
        assert!(now_us() > before);
        let before = now_us();
        while precise_us() == before {
            std::hint::spin_loop();
        }
        refresh();
        assert!(now_us() > before);
    }
}
