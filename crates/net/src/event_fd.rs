//! A descriptor that becomes readable when somebody rings it: how another thread's event loop, of
//! whatever kind, learns that there is something for it.
//!
//! Promises that rings are not lost, and that any number of them before it is heard are one. Linux
//! only: an eventfd(2).

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

/// The bell. Ringing costs a system call: ring when the other side sleeps.
#[derive(Debug)]
pub struct EventFd(OwnedFd);

impl EventFd {
    #[cfg(target_os = "linux")]
    pub fn new() -> io::Result<EventFd> {
        // SAFETY: the call takes numbers.
        let descriptor = unsafe { libc::eventfd(0, libc::EFD_CLOEXEC | libc::EFD_NONBLOCK) };
        if descriptor < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the call has just given it to us.
        Ok(EventFd(unsafe { OwnedFd::from_raw_fd(descriptor) }))
    }

    #[cfg(not(target_os = "linux"))]
    pub fn new() -> io::Result<EventFd> {
        Err(io::ErrorKind::Unsupported.into())
    }

    /// Makes the descriptor readable.
    pub fn notify(&self) {
        let one = 1_u64.to_ne_bytes();
        // SAFETY: the buffer is as long as is said. It fails only when 2^64 rings were not heard,
        // and then the descriptor is readable as it is.
        let _ = unsafe { libc::write(self.0.as_raw_fd(), one.as_ptr().cast(), one.len()) };
    }

    /// Makes it unreadable until the next ring.
    pub fn reset(&self) {
        let mut count = [0_u8; 8];
        // SAFETY: the buffer is as long as is said. It fails where nobody rang, which is as well.
        let _ = unsafe { libc::read(self.0.as_raw_fd(), count.as_mut_ptr().cast(), count.len()) };
    }
}

impl AsFd for EventFd {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    fn is_readable(bell: &EventFd) -> bool {
        let mut poll =
            libc::pollfd { fd: bell.as_fd().as_raw_fd(), events: libc::POLLIN, revents: 0 };
        // SAFETY: one entry, which lives across the call.
        unsafe { libc::poll(&raw mut poll, 1, 0) == 1 }
    }

    #[test]
    fn many_rings_are_one_and_none_is_lost() {
        let bell = EventFd::new().unwrap();
        assert!(!is_readable(&bell));
        bell.reset();
        bell.notify();
        bell.notify();
        assert!(is_readable(&bell));
        bell.reset();
        assert!(!is_readable(&bell));
        std::thread::scope(|scope| {
            scope.spawn(|| bell.notify());
        });
        assert!(is_readable(&bell));
    }
}
