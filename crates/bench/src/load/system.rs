//! System calls of the load generator that std does not offer.
//!
//! Owns the timer of a thread, its CPU time, and the descriptor limit. Promises that timers are
//! epoll events, so that waiting for sockets needs no extra system call.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::time::Duration;

use rustix::process::{Resource, getrlimit, setrlimit};
use rustix::time::{
    ClockId, Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, clock_gettime,
    timerfd_create, timerfd_settime,
};

/// A timerfd: becomes readable when it expires.
#[derive(Debug)]
pub(super) struct Timer(OwnedFd);

impl Timer {
    pub(super) fn new() -> io::Result<Self> {
        let flags = TimerfdFlags::CLOEXEC | TimerfdFlags::NONBLOCK;
        Ok(Self(timerfd_create(TimerfdClockId::Monotonic, flags)?))
    }

    /// Expires `after` that time (at once if it is zero), then every `every` unless that is zero.
    pub(super) fn set(&self, after: Duration, every: Duration) -> io::Result<()> {
        // A value of zero would stop the timer.
        let after = after.max(Duration::from_nanos(1));
        let setting = Itimerspec { it_interval: timespec(every)?, it_value: timespec(after)? };
        timerfd_settime(&self.0, TimerfdTimerFlags::empty(), &setting)?;
        Ok(())
    }

    /// To be called when it expired: a periodic timer runs on only once it was read.
    pub(super) fn clear(&self) {
        // Nothing to read is not an error: the timer was set again in between.
        let _ = rustix::io::read(&self.0, &mut [0u8; 8]);
    }
}

impl AsRawFd for Timer {
    fn as_raw_fd(&self) -> RawFd {
        self.0.as_raw_fd()
    }
}

fn timespec(time: Duration) -> io::Result<Timespec> {
    time.try_into().map_err(|_| io::ErrorKind::InvalidInput.into())
}

/// CPU time of the calling thread since it began.
pub(super) fn thread_cpu() -> Duration {
    clock_gettime(ClockId::ThreadCPUTime).try_into().unwrap_or_default()
}

/// Raises the limit on open descriptors to `needed` if it is lower and may be raised.
pub(crate) fn allow_descriptors(needed: u64) -> io::Result<()> {
    let mut limit = getrlimit(Resource::Nofile);
    // No limit is `None`.
    if limit.current.is_none_or(|current| current >= needed) {
        return Ok(());
    }
    limit.current = Some(needed);
    limit.maximum = limit.maximum.map(|maximum| maximum.max(needed));
    setrlimit(Resource::Nofile, limit)
        .map_err(|error| io::Error::other(format!("{needed} open descriptors are needed: {error}")))
}

#[cfg(test)]
mod tests {
    use super::{Timer, thread_cpu};
    use crate::epoll::Epoll;
    use std::os::fd::AsRawFd;
    use std::time::{Duration, Instant};

    #[test]
    fn a_timer_expires_again_and_again() {
        let mut epoll = Epoll::new().unwrap();
        let timer = Timer::new().unwrap();
        epoll.add(&timer).unwrap();
        let start = Instant::now();
        timer.set(Duration::from_millis(5), Duration::from_millis(5)).unwrap();
        for round in 1..=3 {
            assert_eq!(epoll.wait().unwrap(), 1);
            assert_eq!(epoll.event(0).fd, timer.as_raw_fd());
            assert!(start.elapsed() >= Duration::from_millis(5 * round));
            timer.clear();
        }
        // Once set again it is not readable before it expires again.
        let start = Instant::now();
        timer.set(Duration::from_millis(20), Duration::ZERO).unwrap();
        assert_eq!(epoll.wait().unwrap(), 1);
        assert!(start.elapsed() >= Duration::from_millis(19));
    }

    #[test]
    fn work_takes_cpu_time() {
        let before = thread_cpu();
        let start = Instant::now();
        let mut sum = 0u64;
        while thread_cpu() - before < Duration::from_millis(2) {
            sum = std::hint::black_box(sum.wrapping_add(1));
        }
        // The two clocks need not agree to the last part.
        assert!(start.elapsed() >= Duration::from_millis(1), "{sum}");
    }
}
