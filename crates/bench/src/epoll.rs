//! A set of edge-triggered epoll registrations.
//!
//! Promises that `wait` returns every descriptor that became readable or whose peer stopped
//! sending. Because it is edge-triggered, a reader must read until a read is short, and until the
//! end if `ended` is set: the end may share its edge with the last bytes. Does not own the
//! descriptors: closing one removes it (epoll(7)).
#![allow(unsafe_code, reason = "epoll has no safe wrapper in std; each block says why it is sound")]

use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::time::Duration;

/// Maximum number of descriptors that one `wait` reports.
const BATCH: usize = 512;

/// One descriptor that has something to read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Event {
    pub fd: RawFd,
    /// The peer will send no more, or the connection broke.
    pub ended: bool,
}

pub struct Epoll {
    set: OwnedFd,
    events: Vec<libc::epoll_event>,
}

impl Epoll {
    pub fn new() -> io::Result<Self> {
        // SAFETY: takes no pointer; the result is checked before it is used.
        let fd = unsafe { libc::epoll_create1(libc::EPOLL_CLOEXEC) };
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the kernel just gave us this descriptor and nothing else holds it.
        let set = unsafe { OwnedFd::from_raw_fd(fd) };
        Ok(Self { set, events: vec![libc::epoll_event { events: 0, u64: 0 }; BATCH] })
    }

    /// Watches `socket` for input until it is closed.
    pub fn add(&self, socket: &impl AsRawFd) -> io::Result<()> {
        self.control(libc::EPOLL_CTL_ADD, socket, libc::EPOLLIN)
    }

    /// Watches it for room to write, too, whether or not it is watched already.
    pub fn add_both(&self, socket: &impl AsRawFd) -> io::Result<()> {
        let both = libc::EPOLLIN | libc::EPOLLOUT;
        match self.control(libc::EPOLL_CTL_ADD, socket, both) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                self.control(libc::EPOLL_CTL_MOD, socket, both)
            }
            done => done,
        }
    }

    fn control(&self, what: i32, socket: &impl AsRawFd, interest: i32) -> io::Result<()> {
        let fd = socket.as_raw_fd();
        let interest = interest | libc::EPOLLRDHUP | libc::EPOLLET;
        let mut event = libc::epoll_event { events: interest as u32, u64: fd as u64 };
        // SAFETY: `event` lives across the call, and the kernel copies it.
        let done = unsafe { libc::epoll_ctl(self.set.as_raw_fd(), what, fd, &mut event) };
        if done < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
    }

    /// Sleeps until something happens and returns how many events there are to fetch.
    pub fn wait(&mut self) -> io::Result<usize> {
        self.wait_for(None)
    }

    /// The same, but no longer than `longest`, rounded up to a millisecond: 0 when time is up.
    pub fn wait_for(&mut self, longest: Option<Duration>) -> io::Result<usize> {
        let timeout_ms = match longest {
            None => -1,
            Some(time) => time.as_nanos().div_ceil(1_000_000).min(i32::MAX as u128) as i32,
        };
        loop {
            // SAFETY: the kernel writes at most BATCH events, and the vector holds BATCH.
            let count = unsafe {
                libc::epoll_wait(
                    self.set.as_raw_fd(),
                    self.events.as_mut_ptr(),
                    BATCH as libc::c_int,
                    timeout_ms,
                )
            };
            if count >= 0 {
                return Ok(count as usize);
            }
            let error = io::Error::last_os_error();
            if error.kind() != io::ErrorKind::Interrupted {
                return Err(error);
            }
        }
    }

    /// The event at `index`, below what the last `wait` returned.
    pub fn event(&self, index: usize) -> Event {
        let event = self.events[index];
        let over = (libc::EPOLLRDHUP | libc::EPOLLHUP | libc::EPOLLERR) as u32;
        Event { fd: event.u64 as RawFd, ended: event.events & over != 0 }
    }
}

#[cfg(test)]
mod tests {
    use super::{Epoll, Event};
    use std::io::Write;
    use std::net::{TcpListener, TcpStream};
    use std::os::fd::AsRawFd;

    #[test]
    fn input_and_the_end_are_both_reported() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (server, _) = listener.accept().unwrap();
        let mut epoll = Epoll::new().unwrap();
        epoll.add(&server).unwrap();

        client.write_all(b"x").unwrap();
        assert_eq!(epoll.wait().unwrap(), 1);
        assert_eq!(epoll.event(0), Event { fd: server.as_raw_fd(), ended: false });

        drop(client);
        assert_eq!(epoll.wait().unwrap(), 1);
        assert_eq!(epoll.event(0), Event { fd: server.as_raw_fd(), ended: true });
    }
}
