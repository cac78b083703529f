//! A descriptor that another thread makes readable: wakes an event loop of any kind.
//!
//! Notifications are not lost, and any number of them before a reset count as one. Linux only
//! (eventfd(2)).

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

/// An eventfd(2). A notification costs a system call: send it only if the other side sleeps.
#[derive(Debug)]
pub struct EventFd(OwnedFd);

impl EventFd {
    #[cfg(target_os = "linux")]
    pub fn new() -> io::Result<EventFd> {
        use rustix::event::{EventfdFlags, eventfd};
        Ok(EventFd(eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?))
    }

    #[cfg(not(target_os = "linux"))]
    pub fn new() -> io::Result<EventFd> {
        Err(io::ErrorKind::Unsupported.into())
    }

    /// Makes the descriptor readable.
    pub fn notify(&self) {
        // Fails only if 2^64 notifications are pending, and then the descriptor is readable anyway.
        let _ = rustix::io::write(&self.0, &1_u64.to_ne_bytes());
    }

    /// Makes the descriptor unreadable until the next notification.
    pub fn reset(&self) {
        // Fails if there was no notification.
        let _ = rustix::io::read(&self.0, &mut [0_u8; 8]);
    }
}

impl AsFd for EventFd {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use rustix::event::{PollFd, PollFlags, Timespec, poll};

    use super::*;

    fn is_readable(event: &EventFd) -> bool {
        let mut descriptors = [PollFd::new(event, PollFlags::IN)];
        poll(&mut descriptors, Some(&Timespec::default())) == Ok(1)
    }

    #[test]
    fn many_notifications_are_one_and_none_is_lost() {
        let event = EventFd::new().unwrap();
        assert!(!is_readable(&event));
        event.reset();
        event.notify();
        event.notify();
        assert!(is_readable(&event));
        event.reset();
        assert!(!is_readable(&event));
        std::thread::scope(|scope| {
            scope.spawn(|| event.notify());
        });
        assert!(is_readable(&event));
    }
}
