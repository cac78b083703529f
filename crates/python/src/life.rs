//! What the I/O thread knows of the application, and tells it: numbers, lag, the end.
//!
//! Promises that nothing here waits for the interpreter: the I/O thread calls all of it.

use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::fs::FileExt;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use exchange::offload::RequestQueue;
use net::EventFd;
use telemetry::{Counter, Histogram};

/// Stack dumps are cut after so many bytes.
const DUMP_BYTES: usize = 64 * 1024;

/// Counted by threads that hold the GIL, one at a time.
#[derive(Default)]
pub struct Numbers {
    pub requests: Counter,
    pub in_flight: AtomicI64,
    pub websockets: AtomicI64,
    pub queue: Histogram,
    pub call: Histogram,
    pub gil_wait: Histogram,
}

/// The application's life in this process.
pub struct Life {
    pub numbers: Numbers,
    desk: Arc<RequestQueue>,
    bell: Arc<EventFd>,
    stopping: AtomicBool,
    draining: AtomicBool,
    /// Since when the call that blocks a thread the longest has not got on; 0 without one.
    oldest_call_us: AtomicU64,
    /// Since when no thread takes what waits; 0 while one does.
    untaken_us: AtomicU64,
    stacks: Mutex<Option<File>>,
}

impl Life {
    pub fn new(desk: Arc<RequestQueue>, bell: Arc<EventFd>) -> Arc<Life> {
        Arc::new(Life {
            numbers: Numbers::default(),
            desk,
            bell,
            stopping: AtomicBool::new(false),
            draining: AtomicBool::new(false),
            oldest_call_us: AtomicU64::new(0),
            untaken_us: AtomicU64::new(0),
            stacks: Mutex::default(),
        })
    }

    pub fn desk(&self) -> &Arc<RequestQueue> {
        &self.desk
    }

    pub fn bell(&self) -> &Arc<EventFd> {
        &self.bell
    }

    /// For how many milliseconds nothing was answered although there was something to do.
    pub fn lag_ms(&self) -> u64 {
        self.desk.unheard_us().max(since_us(&self.untaken_us)) / 1000
    }

    /// Whether one call holds up what waits, and not many that come one after the other; looks at
    /// it again. Threads of WSGI take what waits between any two calls.
    pub fn is_in_one_call(&self) -> bool {
        self.desk.serves_threads() || crate::asgi::probe::is_in_one_callback()
    }

    /// For how many milliseconds the oldest call has not got on.
    pub fn oldest_call_ms(&self) -> u64 {
        since_us(&self.oldest_call_us) / 1000
    }

    /// When the call of the event loop's thread began during which nothing else is taken; 0 where
    /// none runs.
    pub fn set_oldest_call_us(&self, began: u64) {
        self.untaken_us.store(began, Ordering::Relaxed);
    }

    /// For threads: since when the oldest call has not got on, and since when nothing of what waits
    /// is taken; 0 where that is not so.
    pub(crate) fn set_blocked(&self, oldest_call_us: u64, untaken_us: u64) {
        self.oldest_call_us.store(oldest_call_us, Ordering::Relaxed);
        self.untaken_us.store(untaken_us, Ordering::Relaxed);
    }

    /// Nothing new comes: what would stay open is to be ended.
    pub fn drain(&self) {
        self.draining.store(true, Ordering::Release);
        self.bell.notify();
    }

    pub fn is_draining(&self) -> bool {
        self.draining.load(Ordering::Acquire)
    }

    /// The application is to shut down.
    pub fn stop(&self) {
        self.desk.close();
        self.stopping.store(true, Ordering::Release);
        // Whoever reads it: the loop hears the bell, a thread of WSGI is woken.
        self.desk.wake_driver();
    }

    pub fn is_stopping(&self) -> bool {
        self.stopping.load(Ordering::Acquire)
    }

    /// Takes the file into which `faulthandler` writes stacks when the signal comes.
    pub fn keep_stacks(&self, descriptor: i32) -> io::Result<()> {
        // SAFETY: asks for a descriptor of our own of the same file; a wrong number fails.
        let own = unsafe { libc::fcntl(descriptor, libc::F_DUPFD_CLOEXEC, 3) };
        if own < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the call has just given it to us.
        let file = File::from(unsafe { OwnedFd::from_raw_fd(own) });
        *self.stacks.lock().unwrap_or_else(PoisonError::into_inner) = Some(file);
        Ok(())
    }

    /// Where the threads of Python stand, in a line. They are looked at from a signal handler, as
    /// they are: who is stuck cannot be asked.
    pub fn dump(&self) -> String {
        let stacks = self.stacks.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(file) = &*stacks else { return String::new() };
        // SAFETY: a descriptor that is open, a signal with a handler; the handler runs on this
        // thread, within the call.
        unsafe {
            libc::ftruncate(file.as_raw_fd(), 0);
            libc::lseek(file.as_raw_fd(), 0, libc::SEEK_SET);
            libc::raise(dump_signal());
        }
        let mut text = vec![0; DUMP_BYTES];
        let length = file.read_at(&mut text, 0).unwrap_or(0);
        text.truncate(length);
        crate::stack::readable(&String::from_utf8_lossy(&text), self.desk.serves_threads())
    }
}

fn since_us(began: &AtomicU64) -> u64 {
    match began.load(Ordering::Relaxed) {
        0 => 0,
        began => net::clock::precise_us().saturating_sub(began),
    }
}

/// The signal for which the process registers `faulthandler`.
pub fn dump_signal() -> i32 {
    libc::SIGRTMIN() + 7
}
