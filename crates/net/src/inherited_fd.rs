//! Descriptors that the parent of this process has handed down by number.
//!
//! Promises that one is taken only if it came through the start of this program, and once: what is
//! opened in a process is closed on exec (by us, by Rust's library and by Python, PEP 446), so a
//! descriptor without that mark was meant to be inherited; and whoever takes it sets the mark.

use std::os::fd::{AsRawFd, RawFd};

use socket2::{SockRef, Type};

use crate::inherit::{InheritError, Inherited, take};
use crate::stream::{Stream, own_descriptor};

/// Standard error is the last that belongs to somebody already.
const LAST_STANDARD: RawFd = 2;

/// A listening socket with this number, to be known by `name`.
pub fn inherited_listener(descriptor: RawFd, name: &str) -> Result<Inherited, InheritError> {
    check(descriptor, name)?;
    take(descriptor, name.to_owned())
}

/// A connected Unix socket with this number, on this worker's event loop.
pub fn inherited_stream(descriptor: RawFd, name: &str) -> Result<Stream, InheritError> {
    check(descriptor, name)?;
    // SAFETY: it is open, and as it is not closed on exec nobody in this process owns it.
    let socket = unsafe { own_descriptor(descriptor) };
    let view = SockRef::from(&socket);
    if !matches!(view.r#type(), Ok(kind) if kind == Type::STREAM) {
        return Err(refuse(descriptor, name, "is not a stream socket"));
    }
    let ready = view.set_cloexec(true).and_then(|()| view.set_nonblocking(true));
    ready
        .and_then(|()| Stream::from_inherited(socket))
        .map_err(|error| refuse(descriptor, name, &format!("cannot be used: {error}")))
}

fn refuse(descriptor: RawFd, name: &str, why: &str) -> InheritError {
    InheritError::new(format!("descriptor {descriptor} ({name}) {why}"))
}

pub(crate) fn check(descriptor: RawFd, name: &str) -> Result<(), InheritError> {
    // SAFETY: asks for flags; a number that is no open descriptor makes the call fail.
    let flags = unsafe { libc::fcntl(descriptor.as_raw_fd(), libc::F_GETFD) };
    if descriptor <= LAST_STANDARD || flags < 0 {
        return Err(refuse(descriptor, name, "was promised and is not open"));
    }
    if flags & libc::FD_CLOEXEC != 0 {
        return Err(refuse(descriptor, name, "was not handed down"));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::os::fd::IntoRawFd;

    use super::*;
    use crate::Bind;

    /// As the parent of a process leaves it.
    fn hand_down(descriptor: RawFd) -> RawFd {
        // SAFETY: takes numbers.
        assert_eq!(unsafe { libc::fcntl(descriptor, libc::F_SETFD, 0) }, 0);
        descriptor
    }

    #[test]
    fn what_was_handed_down_is_taken_once() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let number = listener.into_raw_fd();
        let said = |result: Result<Inherited, InheritError>| result.unwrap_err().to_string();
        let expected = format!("descriptor {number} (web) was not handed down");
        assert_eq!(said(inherited_listener(number, "web")), expected);
        let taken = inherited_listener(hand_down(number), "web").unwrap();
        assert_eq!((taken.name(), taken.local()), ("web", &Bind::Tcp(address)));
        assert_eq!(said(inherited_listener(number, "web")), expected);
        assert!(said(inherited_listener(1, "web")).contains("is not open"));
        assert!(said(inherited_listener(1_000_000, "web")).contains("is not open"));
    }

    #[test]
    fn a_stream_that_was_handed_down_speaks() {
        crate::worker::block_on_local(async {
            let (ours, theirs) = Stream::pair_for_child().unwrap();
            let number = hand_down(theirs.into_raw_fd());
            let theirs = inherited_stream(number, "control").unwrap();
            let mut outgoing = crate::Outgoing::default();
            outgoing.push("hello".into());
            theirs.send_all(&mut outgoing).await.unwrap();
            assert_eq!(&ours.receive().await.unwrap()[..], b"hello");
            assert!(inherited_stream(number, "control").is_err());
        });
    }
}
