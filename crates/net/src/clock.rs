//! The worker's cached clock.
//!
//! Owns one reading of the monotonic clock per thread, taken when the event loop wakes (see
//! `worker`), so that a time-out costs a memory load instead of a clock call. An overloaded loop
//! does not sleep for long and gets no wake-up to refresh the reading, so it is also refreshed
//! after a fixed number of reads. The reading never goes backwards and is at most one loop turn, or
//! that many reads, old. Values shown to users are never taken from it: latencies use
//! [`precise_us`].

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

    /// The moment so many milliseconds after the process began.
    pub fn from_ms(ms: u64) -> Moment {
        Moment(ms)
    }
}

/// The cached reading of this thread. It is read several times per request, so a read is a load and
/// a decrement.
struct Reading {
    ms: Cell<u64>,
    us: Cell<u64>,
    wall_secs: Cell<u64>,
    /// The time of day minus `us`.
    wall_offset_us: Cell<u64>,
    /// Reads until the next refresh; zero before the first reading.
    reads_left: Cell<u8>,
    /// Reads of [`recent_us`] until the next refresh.
    end_reads_left: Cell<u8>,
    /// True if a worker loop refreshes this thread's reading whenever it wakes.
    refreshed_by_loop: Cell<bool>,
}

/// Reads of one reading before it is refreshed: a few dozen requests.
const READS_MAX: u8 = u8::MAX;
/// Reads of one reading by [`recent_us`].
const END_READS_MAX: u8 = 16;

thread_local! {
    static READING: Reading = const {
        Reading {
            ms: Cell::new(0),
            us: Cell::new(0),
            wall_secs: Cell::new(0),
            wall_offset_us: Cell::new(0),
            reads_left: Cell::new(0),
            end_reads_left: Cell::new(0),
            refreshed_by_loop: Cell::new(false),
        }
    };
}

fn origin() -> Instant {
    static ORIGIN: OnceLock<Instant> = OnceLock::new();
    *ORIGIN.get_or_init(Instant::now)
}

/// Time since 1970, read now.
fn wall_now() -> Duration {
    #[cfg(debug_assertions)]
    if let Some(us) = manual_us() {
        return MANUAL_WALL + Duration::from_micros(us);
    }
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default()
}

#[cfg(debug_assertions)]
thread_local! {
    static MANUAL_US: Cell<Option<u64>> = const { Cell::new(None) };
}

/// Makes this thread's clock stand still at so many microseconds: for [`crate::manual_time`].
#[cfg(debug_assertions)]
pub(crate) fn set_manual_us(us: Option<u64>) {
    MANUAL_US.set(us);
}

/// The time of this thread's manual clock, if it has one.
#[cfg(debug_assertions)]
pub(crate) fn manual_us() -> Option<u64> {
    MANUAL_US.get()
}

/// When a process with a manual clock began.
#[cfg(debug_assertions)]
const MANUAL_WALL: Duration = Duration::from_secs(1_800_000_000);

impl Reading {
    #[cold]
    fn refresh(&self) {
        self.refresh_time();
        let wall = wall_now();
        self.wall_secs.set(wall.as_secs());
        self.wall_offset_us.set(whole_us(wall).saturating_sub(self.us.get()));
        self.reads_left.set(if self.refreshed_by_loop.get() { READS_MAX } else { 0 });
    }

    #[cold]
    fn refresh_time(&self) {
        let us = precise_us();
        self.us.set(us);
        self.ms.set(us / 1000);
        // Nothing refreshes the reading of a thread without a worker loop (a test), so each reading
        // is used once.
        self.end_reads_left.set(if self.refreshed_by_loop.get() { END_READS_MAX } else { 0 });
    }
}

/// Refreshes the cached reading; the worker's loop calls it whenever it wakes.
pub fn refresh() {
    READING.with(|reading| {
        reading.refreshed_by_loop.set(true);
        reading.refresh();
    });
}

#[inline]
fn cached<R>(read: impl FnOnce(&Reading) -> R) -> R {
    READING.with(|reading| {
        match reading.reads_left.get() {
            0 => reading.refresh(),
            reads_left => reading.reads_left.set(reads_left - 1),
        }
        read(reading)
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
    #[cfg(debug_assertions)]
    if let Some(us) = manual_us() {
        return us;
    }
    whole_us(origin().elapsed())
}

fn whole_us(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}

/// Returns [`precise_us`], at most one turn or sixteen reads old: the end time of a step that is
/// shorter than a clock call.
#[inline]
pub fn recent_us() -> u64 {
    READING.with(|reading| {
        match reading.end_reads_left.get() {
            0 => reading.refresh_time(),
            reads_left => reading.end_reads_left.set(reads_left - 1),
        }
        reading.us.get()
    })
}

/// Microseconds since 1970, read now.
pub fn wall_us() -> u64 {
    whole_us(wall_now())
}

/// Returns the time of day minus the worker's clock, in microseconds, at this loop turn.
pub fn wall_offset_us() -> u64 {
    cached(|reading| reading.wall_offset_us.get())
}

/// Returns seconds since 1970 at this loop turn: for the Date field and logs.
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

    /// Tokio runs no hook for a turn that begins without a sleep, and under load no turn may sleep.
    #[test]
    fn the_clock_advances_while_the_loop_never_sleeps() {
        use std::task::Poll;
        crate::worker::block_on_local(async {
            let busy = std::future::poll_fn(|cx| {
                cx.waker().wake_by_ref();
                now();
                Poll::<()>::Pending
            });
            tokio::task::spawn_local(busy);
            // The timer task reads the clocks once, when it begins to wait.
            tokio::task::yield_now().await;
            let begin = now_us();
            while precise_us() == begin {
                std::hint::spin_loop();
            }
            let mut turns = 0u32;
            std::future::poll_fn(|cx| {
                cx.waker().wake_by_ref();
                turns += 1;
                // Each turn reads the clock twice.
                assert!(turns <= u32::from(READS_MAX), "the clock stands still");
                if now_us() > begin { Poll::Ready(()) } else { Poll::Pending }
            })
            .await;
        });
    }

    #[test]
    fn a_worker_thread_reads_the_time_of_its_turn() {
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
