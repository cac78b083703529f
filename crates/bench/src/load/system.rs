//! System calls of the load generator that std does not offer.
//!
//! Owns the timer of a thread, its CPU time, and the descriptor limit. Promises that timers are
//! epoll events, so that waiting for sockets needs no extra system call.
#![allow(unsafe_code, reason = "std has none of these calls; each block says why it is sound")]

use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::time::Duration;

/// A timerfd: becomes readable when it expires.
#[derive(Debug)]
pub(super) struct Timer(OwnedFd);

impl Timer {
    pub(super) fn new() -> io::Result<Self> {
        let flags = libc::TFD_CLOEXEC | libc::TFD_NONBLOCK;
        // SAFETY: takes no pointer; the result is checked before it is used.
        let fd = unsafe { libc::timerfd_create(libc::CLOCK_MONOTONIC, flags) };
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the kernel just gave us this descriptor and nothing else holds it.
        Ok(Self(unsafe { OwnedFd::from_raw_fd(fd) }))
    }

    /// Expires `after` that time (at once if it is zero), then every `every` unless that is zero.
    pub(super) fn set(&self, after: Duration, every: Duration) -> io::Result<()> {
        // A value of zero would stop the timer.
        let after = after.max(Duration::from_nanos(1));
        let setting = libc::itimerspec { it_interval: timespec(every), it_value: timespec(after) };
        // SAFETY: `setting` lives across the call, and the old setting is not asked for.
        let done =
            unsafe { libc::timerfd_settime(self.0.as_raw_fd(), 0, &setting, std::ptr::null_mut()) };
        if done < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
    }
}

impl Timer {
    /// To be called when it expired: a periodic timer runs on only once it was read.
    pub(super) fn clear(&self) {
        let mut expirations = [0u8; 8];
        // SAFETY: the kernel writes at most as many bytes as the array has. Nothing to read is
        // no error here: the timer was set again in between.
        unsafe {
            libc::read(self.0.as_raw_fd(), expirations.as_mut_ptr().cast(), expirations.len())
        };
    }
}

impl AsRawFd for Timer {
    fn as_raw_fd(&self) -> RawFd {
        self.0.as_raw_fd()
    }
}

fn timespec(time: Duration) -> libc::timespec {
    libc::timespec {
        tv_sec: time.as_secs() as libc::time_t,
        tv_nsec: libc::c_long::from(time.subsec_nanos() as i32),
    }
}

/// CPU time of the calling thread since it began.
pub(super) fn thread_cpu() -> Duration {
    let mut time = timespec(Duration::ZERO);
    // SAFETY: `time` lives across the call, which fills it.
    unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &mut time) };
    Duration::new(time.tv_sec.max(0) as u64, time.tv_nsec.clamp(0, 999_999_999) as u32)
}

/// Raises the limit on open descriptors to `needed` if it is lower and may be raised.
pub(crate) fn allow_descriptors(needed: u64) -> io::Result<()> {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: `limit` lives across the call, which fills it.
    if unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, &mut limit) } < 0 {
        return Err(io::Error::last_os_error());
    }
    if limit.rlim_cur >= needed {
        return Ok(());
    }
    limit.rlim_cur = needed;
    limit.rlim_max = limit.rlim_max.max(needed);
    // SAFETY: `limit` lives across the call, which only reads it.
    if unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &limit) } < 0 {
        let error = io::Error::last_os_error();
        return Err(io::Error::other(format!("{needed} open descriptors are needed: {error}")));
    }
    Ok(())
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
        timer.set(Duration::from_millis(20), Duration::ZERO).unwrap();
        let start = Instant::now();
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
