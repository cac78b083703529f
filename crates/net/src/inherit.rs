//! Listening sockets inherited from the process that started this one.
//!
//! Implements systemd's protocol, which a parent also uses for its successor: sd_listen_fds(3),
//! with `LISTEN_PID`, `LISTEN_FDS` and `LISTEN_FDNAMES`, descriptors from 3 on. Every descriptor is
//! checked to be an open, listening stream socket and is returned once. Descriptors meant for
//! another process are left alone.

use std::fmt;
use std::io;
use std::os::fd::{IntoRawFd, OwnedFd, RawFd};
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::io::FdFlags;
use rustix::net::sockopt::socket_acceptconn;
use socket2::{SockRef, Type};

use crate::listener::{Bind, Listening, local_of};
use crate::stream::own_descriptor;

/// SD_LISTEN_FDS_START.
const FIRST_DESCRIPTOR: RawFd = 3;
/// A larger number is treated as an error.
const DESCRIPTORS_MAX: RawFd = 1024;
/// The name of an unnamed descriptor, as in sd_listen_fds_with_names(3).
const UNNAMED: &str = "unknown";

/// An inherited listening socket.
#[derive(Debug)]
pub struct Inherited {
    name: String,
    local: Bind,
    socket: OwnedFd,
}

impl Inherited {
    /// Returns the name it was given: `FileDescriptorName=` of a systemd socket unit, or the name
    /// of the unit.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the address it listens on.
    pub fn local(&self) -> &Bind {
        &self.local
    }

    /// Turns it into listening sockets shared by `workers` workers.
    pub fn listen(self, workers: usize) -> io::Result<Listening> {
        // SAFETY: the descriptor is open and was owned by `self` only.
        unsafe { Listening::inherit(self.socket.into_raw_fd(), workers) }
    }
}

/// Why a descriptor cannot be inherited, as one sentence.
#[derive(Debug, PartialEq, Eq)]
pub struct InheritError(String);

impl InheritError {
    pub(crate) fn new(sentence: String) -> InheritError {
        InheritError(sentence)
    }
}

impl fmt::Display for InheritError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for InheritError {}

/// Returns the sockets this process was started with, in order; empty if there are none, and on
/// every later call.
pub fn inherited() -> Result<Vec<Inherited>, InheritError> {
    static TAKEN: AtomicBool = AtomicBool::new(false);
    let announced = announced(|name| std::env::var(name).ok(), std::process::id())?;
    if TAKEN.swap(true, Ordering::AcqRel) {
        return Ok(Vec::new());
    }
    announced.into_iter().map(|(descriptor, name)| take(descriptor, name)).collect()
}

/// Returns the descriptors and names announced by the environment.
fn announced(
    variable: impl Fn(&str) -> Option<String>,
    own_pid: u32,
) -> Result<Vec<(RawFd, String)>, InheritError> {
    let Some(pid) = variable("LISTEN_PID") else { return Ok(Vec::new()) };
    let pid: u32 = pid
        .trim()
        .parse()
        .map_err(|_| InheritError(format!("LISTEN_PID={pid} is not a process number")))?;
    if pid != own_pid {
        return Ok(Vec::new()); // meant for another process
    }
    let Some(count) = variable("LISTEN_FDS") else { return Ok(Vec::new()) };
    let count: RawFd = match count.trim().parse() {
        Ok(count) if (1..=DESCRIPTORS_MAX).contains(&count) => count,
        _ => {
            let message = format!("LISTEN_FDS={count} is not a number from 1 to {DESCRIPTORS_MAX}");
            return Err(InheritError(message));
        }
    };
    let descriptors = FIRST_DESCRIPTOR..FIRST_DESCRIPTOR + count;
    let Some(names) = variable("LISTEN_FDNAMES") else {
        return Ok(descriptors.map(|descriptor| (descriptor, UNNAMED.to_owned())).collect());
    };
    let names: Vec<&str> = names.split(':').collect();
    if names.len() != descriptors.len() {
        return Err(InheritError(format!(
            "LISTEN_FDNAMES has {} names for the {count} descriptors of LISTEN_FDS",
            names.len()
        )));
    }
    Ok(descriptors.zip(names.into_iter().map(str::to_owned)).collect())
}

pub(crate) fn take(descriptor: RawFd, name: String) -> Result<Inherited, InheritError> {
    let error = |why: &str| InheritError(format!("descriptor {descriptor} ({name}) {why}"));
    if descriptor_flags(descriptor).is_none() {
        return Err(error("is announced by LISTEN_FDS but not open"));
    }
    // SAFETY: it is open; LISTEN_PID tells that it was passed to this process for this purpose, and
    // the flag in `inherited` that it was not taken before.
    let socket = unsafe { own_descriptor(descriptor) };
    let view = SockRef::from(&socket);
    let Ok(kind) = view.r#type() else { return Err(error("is not a socket")) };
    if kind != Type::STREAM || !socket_acceptconn(&socket).unwrap_or(false) {
        return Err(error("is not a listening stream socket"));
    }
    view.set_cloexec(true).map_err(|cause| error(&format!("cannot be set up: {cause}")))?;
    let local = view
        .local_addr()
        .and_then(|address| local_of(&address))
        .map_err(|cause| error(&format!("has no usable address: {cause}")))?;
    Ok(Inherited { name, local, socket })
}

/// Returns the flags of a descriptor given by number; `None` if it is not open.
pub(crate) fn descriptor_flags(descriptor: RawFd) -> Option<FdFlags> {
    // Not by rustix, which takes open descriptors only. SAFETY: a number that is not an open
    // descriptor makes the call fail.
    let flags = unsafe { libc::fcntl(descriptor, libc::F_GETFD) };
    u32::try_from(flags).ok().map(FdFlags::from_bits_retain)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::{TcpListener, UdpSocket};

    fn announce(pairs: &[(&str, &str)]) -> Result<Vec<(RawFd, String)>, InheritError> {
        let find = |name: &str| {
            pairs.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).to_owned())
        };
        announced(find, 77)
    }

    #[test]
    fn descriptors_are_counted_from_three_and_named() {
        let named = [("LISTEN_PID", "77"), ("LISTEN_FDS", "2"), ("LISTEN_FDNAMES", "web:admin")];
        assert_eq!(announce(&named).unwrap(), [(3, "web".to_owned()), (4, "admin".to_owned())]);
        let unnamed = [("LISTEN_PID", "77"), ("LISTEN_FDS", "1")];
        assert_eq!(announce(&unnamed).unwrap(), [(3, "unknown".to_owned())]);
    }

    #[test]
    fn descriptors_of_another_process_are_left_alone() {
        for pairs in [
            &[][..],
            &[("LISTEN_FDS", "1")],
            &[("LISTEN_PID", "76"), ("LISTEN_FDS", "nonsense")],
            &[("LISTEN_PID", "77")],
        ] {
            assert_eq!(announce(pairs), Ok(Vec::new()), "{pairs:?}");
        }
    }

    #[test]
    fn invalid_variables_are_rejected_by_name() {
        let pid = ("LISTEN_PID", "77");
        for (pairs, message) in [
            (vec![("LISTEN_PID", "me")], "LISTEN_PID=me is not a process number"),
            (vec![pid, ("LISTEN_FDS", "0")], "LISTEN_FDS=0 is not a number from 1 to 1024"),
            (vec![pid, ("LISTEN_FDS", "-1")], "LISTEN_FDS=-1 is not a number from 1 to 1024"),
            (vec![pid, ("LISTEN_FDS", "1025")], "LISTEN_FDS=1025 is not a number from 1 to 1024"),
            (
                vec![pid, ("LISTEN_FDS", "2"), ("LISTEN_FDNAMES", "web")],
                "LISTEN_FDNAMES has 1 names for the 2 descriptors of LISTEN_FDS",
            ),
        ] {
            assert_eq!(announce(&pairs).unwrap_err().to_string(), message);
        }
    }

    #[test]
    fn only_a_listening_stream_is_taken() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let taken = take(listener.into_raw_fd(), "web".to_owned()).unwrap();
        assert_eq!((taken.name(), taken.local()), ("web", &Bind::Tcp(address)));
        assert_eq!(taken.listen(3).unwrap().descriptors().len(), 3);

        let datagrams = UdpSocket::bind("127.0.0.1:0").unwrap().into_raw_fd();
        let refused = take(datagrams, "dns".to_owned()).unwrap_err().to_string();
        let expected = format!("descriptor {datagrams} (dns) is not a listening stream socket");
        assert_eq!(refused, expected);

        let file = std::fs::File::open("Cargo.toml").unwrap().into_raw_fd();
        let refused = take(file, "file".to_owned()).unwrap_err().to_string();
        assert_eq!(refused, format!("descriptor {file} (file) is not a socket"));

        let refused = take(1_000_000, "gone".to_owned()).unwrap_err().to_string();
        let expected = "descriptor 1000000 (gone) is announced by LISTEN_FDS but not open";
        assert_eq!(refused, expected);
    }
}
