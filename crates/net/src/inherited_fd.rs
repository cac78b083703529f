//! Descriptors that the parent process has passed down by number.
//!
//! A descriptor is accepted only if it was inherited through exec, and only once: every descriptor
//! opened in a process is closed on exec (by this crate, Rust's library and Python, PEP 446), so
//! one without FD_CLOEXEC was meant to be inherited, and taking it sets FD_CLOEXEC.

use std::os::fd::RawFd;

use rustix::io::FdFlags;
use socket2::{SockRef, Type};

use crate::inherit::{InheritError, Inherited, descriptor_flags, take};
use crate::stream::{Stream, own_descriptor};

/// Standard error, the last standard descriptor.
const LAST_STANDARD: RawFd = 2;

/// Takes the listening socket with this number, known by `name` from now on.
pub fn inherited_listener(descriptor: RawFd, name: &str) -> Result<Inherited, InheritError> {
    check(descriptor, name)?;
    take(descriptor, name.to_owned())
}

/// Takes the connected Unix socket with this number into this worker's event loop.
pub fn inherited_stream(descriptor: RawFd, name: &str) -> Result<Stream, InheritError> {
    check(descriptor, name)?;
    // SAFETY: it is open, and without FD_CLOEXEC nothing in this process owns it.
    let socket = unsafe { own_descriptor(descriptor) };
    let view = SockRef::from(&socket);
    if !matches!(view.r#type(), Ok(kind) if kind == Type::STREAM) {
        return Err(error(descriptor, name, "is not a stream socket"));
    }
    let ready = view.set_cloexec(true).and_then(|()| view.set_nonblocking(true));
    ready
        .and_then(|()| Stream::from_inherited(socket))
        .map_err(|cause| error(descriptor, name, &format!("cannot be used: {cause}")))
}

fn error(descriptor: RawFd, name: &str, why: &str) -> InheritError {
    InheritError::new(format!("descriptor {descriptor} ({name}) {why}"))
}

pub(crate) fn check(descriptor: RawFd, name: &str) -> Result<(), InheritError> {
    let flags = descriptor_flags(descriptor).filter(|_| descriptor > LAST_STANDARD);
    let Some(flags) = flags else {
        return Err(error(descriptor, name, "is announced but not open"));
    };
    if flags.contains(FdFlags::CLOEXEC) {
        return Err(error(descriptor, name, "was not inherited (it is closed on exec)"));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::os::fd::IntoRawFd;

    use super::*;
    use crate::Bind;

    /// Clears FD_CLOEXEC, as the parent of a process does.
    fn make_inheritable(descriptor: RawFd) -> RawFd {
        // SAFETY: the caller's descriptor is open.
        let inheritable = unsafe { std::os::fd::BorrowedFd::borrow_raw(descriptor) };
        rustix::io::fcntl_setfd(inheritable, FdFlags::empty()).unwrap();
        descriptor
    }

    #[test]
    fn an_inherited_descriptor_is_taken_once() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let number = listener.into_raw_fd();
        let message = |result: Result<Inherited, InheritError>| result.unwrap_err().to_string();
        let expected =
            format!("descriptor {number} (web) was not inherited (it is closed on exec)");
        assert_eq!(message(inherited_listener(number, "web")), expected);
        let taken = inherited_listener(make_inheritable(number), "web").unwrap();
        assert_eq!((taken.name(), taken.local()), ("web", &Bind::Tcp(address)));
        assert_eq!(message(inherited_listener(number, "web")), expected);
        assert!(message(inherited_listener(1, "web")).contains("not open"));
        assert!(message(inherited_listener(1_000_000, "web")).contains("not open"));
    }

    #[test]
    fn an_inherited_stream_carries_bytes() {
        crate::worker::block_on_local(async {
            let (ours, theirs) = Stream::pair_for_child().unwrap();
            let number = make_inheritable(theirs.into_raw_fd());
            let theirs = inherited_stream(number, "control").unwrap();
            let mut outgoing = crate::Outgoing::default();
            outgoing.push("hello".into());
            theirs.send_all(&mut outgoing).await.unwrap();
            assert_eq!(&ours.receive().await.unwrap()[..], b"hello");
            assert!(inherited_stream(number, "control").is_err());
        });
    }
}
