//! System calls that only Linux has, or that differ elsewhere.
//!
//! Linux is the supported system; others build for development, slower and never wrong. Owns no
//! state. The portable side is compiled and tested on Linux too, so that it keeps working.

#[cfg(target_os = "linux")]
mod linux;
#[cfg(any(test, not(target_os = "linux")))]
mod portable;

#[cfg(target_os = "linux")]
pub(crate) use linux::{
    MSG_MORE, accept, allowed_cores, bind_restricted, close_on_exec, end_with_parent, parent_of,
    pin_to_core, process_descriptor, release_code, send_file, shared_memory, signal_process,
    socket, unacknowledged,
};
#[cfg(not(target_os = "linux"))]
pub(crate) use portable::{
    MSG_MORE, accept, allowed_cores, bind_restricted, close_on_exec, end_with_parent, parent_of,
    pin_to_core, process_descriptor, release_code, send_file, shared_memory, signal_process,
    socket, unacknowledged,
};

#[cfg(test)]
mod tests {
    use super::{linux, portable};
    use rustix::process::Signal;
    use std::fs::File;
    use std::io::Read;
    use std::os::fd::{AsFd, BorrowedFd};
    use std::os::unix::fs::PermissionsExt;
    use std::os::unix::net::UnixStream;
    use std::path::Path;

    use socket2::{Domain, Socket, Type};

    #[test]
    fn code_that_was_released_runs_again() {
        let mapped = || -> u64 {
            let status = std::fs::read_to_string("/proc/self/status").unwrap();
            let line = status.lines().find(|line| line.starts_with("RssFile:")).unwrap();
            line.split_whitespace().nth(1).unwrap().parse().unwrap()
        };
        let before = mapped();
        portable::release_code();
        linux::release_code();
        assert!(mapped() < before);
    }

    #[test]
    fn both_sides_create_a_socket_file_with_its_mode() {
        let directory = tempfile::tempdir().unwrap();
        type Binds = fn(&Socket, &Path, u32) -> std::io::Result<()>;
        let binds: [Binds; 2] = [linux::bind_restricted, portable::bind_restricted];
        for (at, bind) in binds.into_iter().enumerate() {
            for mode in [0o600, 0o700] {
                let path = directory.path().join(format!("{at}-{mode:o}"));
                bind(&Socket::new(Domain::UNIX, Type::STREAM, None).unwrap(), &path, mode).unwrap();
                let found = std::fs::metadata(&path).unwrap().permissions().mode();
                assert_eq!(found & 0o777, mode);
            }
        }
    }

    #[test]
    fn linux_reports_the_end_of_a_process_and_the_portable_side_does_not() {
        let own = std::process::id();
        let process = linux::process_descriptor(own).unwrap();
        assert!(linux::signal_process(process.as_fd(), Signal::CONT).is_ok());
        assert!(portable::signal_process(process.as_fd(), Signal::CONT).is_err());
        assert!(linux::parent_of(own).is_some() && portable::parent_of(own).is_none());
        let memory = linux::shared_memory(64).unwrap();
        assert!(linux::close_on_exec(&memory).is_ok());
        assert!(portable::shared_memory(64).is_err() && portable::close_on_exec(&memory).is_err());
        assert!(
            portable::process_descriptor(own).is_err() && portable::end_with_parent(own).is_ok()
        );
    }

    #[test]
    fn both_sides_send_the_same_part_of_a_file() {
        let text = std::fs::read("src/platform.rs").unwrap();
        let file = File::open("src/platform.rs").unwrap();
        type Send = fn(BorrowedFd<'_>, &File, u64, usize) -> std::io::Result<usize>;
        for send in [linux::send_file as Send, portable::send_file] {
            let (ours, mut theirs) = UnixStream::pair().unwrap();
            assert_eq!(send(ours.as_fd(), &file, 4, 100).unwrap(), 100);
            let after_the_end = text.len() as u64;
            assert_eq!(send(ours.as_fd(), &file, after_the_end, 100).unwrap(), 0);
            drop(ours);
            let mut got = Vec::new();
            theirs.read_to_end(&mut got).unwrap();
            assert_eq!(got, text[4..104]);
        }
    }

    #[test]
    fn both_sides_make_sockets_and_accept_without_waiting() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("door.sock");
        let listener = std::os::unix::net::UnixListener::bind(&path).unwrap();
        listener.set_nonblocking(true).unwrap();
        for socket in [linux::socket, portable::socket] {
            assert!(socket(socket2::Domain::UNIX).unwrap().nonblocking().unwrap());
        }
        for accept in [linux::accept, portable::accept] {
            let error = accept(listener.as_fd()).unwrap_err();
            assert_eq!(error.kind(), std::io::ErrorKind::WouldBlock);
            let _client = UnixStream::connect(&path).unwrap();
            let (accepted, address) = accept(listener.as_fd()).unwrap();
            assert!(address.is_none());
            let nothing = UnixStream::from(accepted).read(&mut [0]).unwrap_err();
            assert_eq!(nothing.kind(), std::io::ErrorKind::WouldBlock);
        }
    }

    #[test]
    fn unacknowledged_bytes_are_counted_on_linux_only() {
        let (ours, mut theirs) = UnixStream::pair().unwrap();
        assert_eq!(linux::unacknowledged(ours.as_fd()), 0);
        std::io::Write::write_all(&mut &ours, &[7; 1000]).unwrap();
        let waiting = linux::unacknowledged(ours.as_fd());
        assert!(waiting >= 1000, "{waiting}");
        theirs.read_exact(&mut [0; 1000]).unwrap();
        assert_eq!(linux::unacknowledged(ours.as_fd()), 0);
        assert_eq!(portable::unacknowledged(ours.as_fd()), 0);
    }

    #[test]
    fn both_sides_know_how_many_cores_there_are() {
        assert_eq!(linux::allowed_cores().len(), portable::allowed_cores().len());
        portable::pin_to_core(0);
        linux::pin_to_core(usize::MAX); // no such core: the thread stays unpinned
        assert!(portable::MSG_MORE.is_empty());
    }
}
