//! The timer of a profile of CPU time.

#[cfg(target_os = "linux")]
use std::cell::Cell;
#[cfg(target_os = "linux")]
use std::ffi::c_int;
#[cfg(target_os = "linux")]
use std::sync::Once;

/// A timer of the CPU time of this thread, which sends it a signal.
#[cfg(target_os = "linux")]
pub(super) struct CpuTimer {
    id: libc::timer_t,
}

#[cfg(target_os = "linux")]
thread_local! {
    /// The timer of this thread, for the signal.
    static TIMER: Cell<Option<libc::timer_t>> = const { Cell::new(None) };
}

/// There is none: profiles of CPU time need Linux.
#[cfg(not(target_os = "linux"))]
pub(super) struct CpuTimer;

#[cfg(not(target_os = "linux"))]
impl CpuTimer {
    pub(super) fn start(_: u64) -> Result<CpuTimer, String> {
        Err("profiles of CPU time need Linux".to_owned())
    }
}

/// A real-time signal: no convention gives these a meaning.
#[cfg(target_os = "linux")]
fn signal() -> c_int {
    libc::SIGRTMIN() + 8
}

#[cfg(target_os = "linux")]
impl CpuTimer {
    pub(super) fn start(period_ns: u64) -> Result<CpuTimer, String> {
        static HANDLED: Once = Once::new();
        HANDLED.call_once(|| {
            // SAFETY: all zeroes is a valid sigaction; the handler is async-signal-safe.
            unsafe {
                let mut action: libc::sigaction = std::mem::zeroed();
                action.sa_sigaction = on_signal as extern "C" fn(c_int) as libc::sighandler_t;
                action.sa_flags = libc::SA_RESTART;
                libc::sigaction(signal(), &raw const action, std::ptr::null_mut());
            }
        });
        let failed = || format!("a timer cannot be set: {}", std::io::Error::last_os_error());
        let time = libc::timespec {
            tv_sec: (period_ns / 1_000_000_000) as libc::time_t,
            tv_nsec: (period_ns % 1_000_000_000) as libc::c_long,
        };
        let times = libc::itimerspec { it_interval: time, it_value: time };
        // SAFETY: plain structures that the system reads, and an id that it writes.
        unsafe {
            let mut event: libc::sigevent = std::mem::zeroed();
            event.sigev_notify = libc::SIGEV_THREAD_ID;
            event.sigev_signo = signal();
            event.sigev_notify_thread_id = libc::gettid();
            let mut id: libc::timer_t = std::mem::zeroed();
            let clock = libc::CLOCK_THREAD_CPUTIME_ID;
            if libc::timer_create(clock, &raw mut event, &raw mut id) != 0 {
                return Err(failed());
            }
            TIMER.set(Some(id));
            let timer = CpuTimer { id };
            if libc::timer_settime(id, 0, &raw const times, std::ptr::null_mut()) != 0 {
                return Err(failed());
            }
            Ok(timer)
        }
    }
}

#[cfg(target_os = "linux")]
impl Drop for CpuTimer {
    fn drop(&mut self) {
        TIMER.set(None);
        // SAFETY: the id was made by `start` and is deleted once.
        unsafe { libc::timer_delete(self.id) };
    }
}

#[cfg(target_os = "linux")]
extern "C" fn on_signal(_: c_int) {
    // The kernel may look at the timer less often than it ticks, and sends one signal then.
    let missed = TIMER.get().map_or(0, |id| {
        // SAFETY: the timer is deleted after it was removed here; the call may be made here.
        unsafe { libc::timer_getoverrun(id) }
    });
    super::tick(1 + u64::try_from(missed).unwrap_or(0));
}
