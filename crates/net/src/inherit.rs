//! Listening sockets handed over by whoever started this process (seam 12).
//!
//! Speaks systemd's protocol, which is also ours between a parent and its successor:
//! sd_listen_fds(3), with `LISTEN_PID`, `LISTEN_FDS` and `LISTEN_FDNAMES`, descriptors from 3 on.
//! Promises that each is open, listens and is a stream before it is handed out under its name, and
//! that it is handed out once. What was meant for another process is left alone.

use std::fmt;
use std::io;
use std::os::fd::{AsRawFd, IntoRawFd, OwnedFd, RawFd};
use std::sync::atomic::{AtomicBool, Ordering};

use socket2::{SockRef, Type};

use crate::listener::{Bind, Listening, local_of};
use crate::stream::own_descriptor;

/// SD_LISTEN_FDS_START.
const FIRST_DESCRIPTOR: RawFd = 3;
/// More are taken for a mistake.
const DESCRIPTORS_MAX: RawFd = 1024;
/// The name of a descriptor that was given none, as sd_listen_fds_with_names(3) has it.
const UNNAMED: &str = "unknown";

/// A listening socket that was handed over.
#[derive(Debug)]
pub struct Inherited {
    name: String,
    local: Bind,
    socket: OwnedFd,
}

impl Inherited {
    /// What the giver called it: `FileDescriptorName=` of a systemd socket unit, or its unit's
    /// name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Where it listens.
    pub fn local(&self) -> &Bind {
        &self.local
    }

    /// Makes a listener of it, shared by `workers` workers.
    pub fn listen(self, workers: usize) -> io::Result<Listening> {
        // SAFETY: the descriptor is open and was owned by `self` alone.
        unsafe { Listening::inherit(self.socket.into_raw_fd(), workers) }
    }
}

/// What is wrong with the hand-over, as one clear sentence.
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

/// The sockets this process was started with, in order; none where nobody handed any over, and none
/// when asked again.
pub fn inherited() -> Result<Vec<Inherited>, InheritError> {
    static TAKEN: AtomicBool = AtomicBool::new(false);
    let offered = offered(|name| std::env::var(name).ok(), std::process::id())?;
    if TAKEN.swap(true, Ordering::AcqRel) {
        return Ok(Vec::new());
    }
    offered.into_iter().map(|(descriptor, name)| take(descriptor, name)).collect()
}

/// What the environment says is there.
fn offered(
    variable: impl Fn(&str) -> Option<String>,
    own_pid: u32,
) -> Result<Vec<(RawFd, String)>, InheritError> {
    let Some(pid) = variable("LISTEN_PID") else { return Ok(Vec::new()) };
    let pid: u32 = pid
        .trim()
        .parse()
        .map_err(|_| InheritError(format!("LISTEN_PID={pid} is not a process number")))?;
    if pid != own_pid {
        return Ok(Vec::new()); // meant for the process that started us
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
    let refuse = |why: &str| InheritError(format!("descriptor {descriptor} ({name}) {why}"));
    // SAFETY: asks for flags; a number that is no open descriptor makes the call fail.
    if unsafe { libc::fcntl(descriptor, libc::F_GETFD) } < 0 {
        return Err(refuse("was promised by LISTEN_FDS and is not open"));
    }
    // SAFETY: it is open; LISTEN_PID says that it was passed to this process for this purpose, and
    // the guard in `inherited` that nobody took it before.
    let socket = unsafe { own_descriptor(descriptor) };
    let view = SockRef::from(&socket);
    let Ok(kind) = view.r#type() else { return Err(refuse("is not a socket")) };
    if kind != Type::STREAM || !listens(&socket) {
        return Err(refuse("is not a listening stream socket"));
    }
    view.set_cloexec(true).map_err(|error| refuse(&format!("cannot be kept: {error}")))?;
    let local = view
        .local_addr()
        .and_then(|address| local_of(&address))
        .map_err(|error| refuse(&format!("has no usable address: {error}")))?;
    Ok(Inherited { name, local, socket })
}

fn listens(socket: &OwnedFd) -> bool {
    let mut listens: libc::c_int = 0;
    let mut length = size_of::<libc::c_int>() as libc::socklen_t;
    // SAFETY: the descriptor is open, and value and length describe a local integer.
    let outcome = unsafe {
        libc::getsockopt(
            socket.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_ACCEPTCONN,
            (&raw mut listens).cast(),
            &raw mut length,
        )
    };
    outcome == 0 && listens != 0
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::{TcpListener, UdpSocket};

    fn offer(pairs: &[(&str, &str)]) -> Result<Vec<(RawFd, String)>, InheritError> {
        let find = |name: &str| {
            pairs.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).to_owned())
        };
        offered(find, 77)
    }

    #[test]
    fn descriptors_are_counted_from_three_and_named() {
        let named = [("LISTEN_PID", "77"), ("LISTEN_FDS", "2"), ("LISTEN_FDNAMES", "web:admin")];
        assert_eq!(offer(&named).unwrap(), [(3, "web".to_owned()), (4, "admin".to_owned())]);
        let unnamed = [("LISTEN_PID", "77"), ("LISTEN_FDS", "1")];
        assert_eq!(offer(&unnamed).unwrap(), [(3, "unknown".to_owned())]);
    }

    #[test]
    fn what_is_not_for_us_is_left_alone() {
        for pairs in [
            &[][..],
            &[("LISTEN_FDS", "1")],
            &[("LISTEN_PID", "76"), ("LISTEN_FDS", "nonsense")],
            &[("LISTEN_PID", "77")],
        ] {
            assert_eq!(offer(pairs), Ok(Vec::new()), "{pairs:?}");
        }
    }

    #[test]
    fn nonsense_is_refused_by_name() {
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
            assert_eq!(offer(&pairs).unwrap_err().to_string(), message);
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
        let expected = "descriptor 1000000 (gone) was promised by LISTEN_FDS and is not open";
        assert_eq!(refused, expected);
    }
}
