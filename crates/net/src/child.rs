//! Child processes.
//!
//! Owns their start, with descriptors that they inherit, and their end. A child inherits exactly
//! the given descriptors, under the same numbers. It receives SIGTERM when the thread that started
//! it ends, for whatever reason. A dropped child is killed and leaves no zombie. Children ignore
//! SIGINT and SIGHUP of the terminal: the parent handles them and decides what its children do.

use std::cell::{Cell, RefCell};
use std::ffi::OsString;
use std::future::poll_fn;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, RawFd};
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Command, ExitStatus};
use std::time::Duration;

use rustix::io::FdFlags;
use rustix::process::{Pid, Signal, kill_process};

use crate::identity::Identity;
use crate::platform;
use crate::readiness::{Side, Source};

/// Poll interval on systems that do not report the end of a child.
const POLL_INTERVAL: Duration = Duration::from_millis(20);

/// The program of a child process, its arguments and environment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ChildCommand {
    pub program: PathBuf,
    pub arguments: Vec<OsString>,
    /// Variables added to the environment of this process.
    pub environment: Vec<(OsString, OsString)>,
    /// Working directory; `None` inherits that of this process.
    pub directory: Option<PathBuf>,
    /// User and group, without supplementary groups; `None` inherits those of this process.
    pub identity: Option<Identity>,
}

/// A child process on the event loop that started it.
#[derive(Debug)]
pub struct Child {
    process: RefCell<std::process::Child>,
    /// Readable once the child has ended; `None` if the system has no such descriptor.
    ended: Option<Source>,
    status: Cell<Option<ExitStatus>>,
}

impl ChildCommand {
    /// Starts the child, which inherits these descriptors under the same numbers.
    pub fn start(&self, descriptors: &[BorrowedFd<'_>]) -> io::Result<Child> {
        let mut command = Command::new(&self.program);
        command
            .args(&self.arguments)
            .envs(self.environment.iter().map(|(name, value)| (name, value)));
        if let Some(directory) = &self.directory {
            command.current_dir(directory);
        }
        if let Some(identity) = self.identity {
            command.uid(identity.user).gid(identity.group);
        }
        let numbers: Vec<RawFd> = descriptors.iter().map(AsRawFd::as_raw_fd).collect();
        let parent = std::process::id();
        // SAFETY: between fork and exec only system calls are made, with numbers computed before;
        // nothing is allocated and no lock is taken.
        unsafe { command.pre_exec(move || become_child(&numbers, parent)) };
        let process = command.spawn()?;
        let ended = platform::process_descriptor(process.id()).and_then(Source::new).ok();
        Ok(Child { process: RefCell::new(process), ended, status: Cell::new(None) })
    }
}

/// Runs in the child between fork and exec.
fn become_child(descriptors: &[RawFd], parent: u32) -> io::Result<()> {
    for &descriptor in descriptors {
        // SAFETY: the descriptor is open: its owner lives until the child has started.
        let descriptor = unsafe { BorrowedFd::borrow_raw(descriptor) };
        rustix::io::fcntl_setfd(descriptor, FdFlags::empty())?;
    }
    for signal in [libc::SIGINT, libc::SIGHUP] {
        // rustix has no signal(2). SAFETY: ignoring a signal installs no handler.
        unsafe { libc::signal(signal, libc::SIG_IGN) };
    }
    platform::end_with_parent(parent)
}

impl Child {
    pub fn id(&self) -> u32 {
        self.process.borrow().id()
    }

    /// Waits until the child has ended. One task may wait.
    pub async fn wait(&self) -> io::Result<ExitStatus> {
        loop {
            if let Some(status) = self.try_wait()? {
                return Ok(status);
            }
            match &self.ended {
                Some(ended) => poll_fn(|cx| ended.poll_ready(Side::Read, cx)).await?,
                None => crate::timer::sleep(POLL_INTERVAL).await,
            }
        }
    }

    /// Returns the child's exit status if it has ended.
    pub fn try_wait(&self) -> io::Result<Option<ExitStatus>> {
        if self.status.get().is_none() {
            self.status.set(self.process.borrow_mut().try_wait()?);
        }
        Ok(self.status.get())
    }

    /// Sends SIGTERM.
    pub fn terminate(&self) {
        self.signal(Signal::TERM);
    }

    /// Sends SIGABRT.
    pub fn abort(&self) {
        self.signal(Signal::ABORT);
    }

    /// Sends SIGKILL.
    pub fn kill(&self) {
        self.signal(Signal::KILL);
    }

    fn signal(&self, signal: Signal) {
        // Its process id is not reused before it has been waited for.
        if matches!(self.try_wait(), Ok(None)) {
            // Fails if the child has just ended.
            let _ = kill_process(Pid::from_child(&self.process.borrow()), signal);
        }
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        if matches!(self.try_wait(), Ok(None)) {
            self.kill();
            // A killed process ends at once, unless it hangs in a disk operation.
            let _ = self.process.borrow_mut().wait();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsFd;
    use std::os::unix::process::ExitStatusExt;

    use super::*;
    use crate::{Outgoing, Stream};

    fn shell(script: &str) -> ChildCommand {
        let arguments = ["-c", script].map(OsString::from).to_vec();
        ChildCommand { program: PathBuf::from("/bin/bash"), arguments, ..ChildCommand::default() }
    }

    #[test]
    fn a_child_inherits_descriptors_and_environment_and_its_end_is_reported() {
        crate::worker::block_on_local(async {
            let (ours, theirs) = Stream::pair_for_child().unwrap();
            let number = theirs.as_raw_fd();
            let mut launch = shell(&format!(
                "read line <&{number}; echo \"$GREETING $line\" >&{number}; exit 7"
            ));
            launch.environment.push(("GREETING".into(), "received".into()));
            let child = launch.start(&[theirs.as_fd()]).unwrap();
            drop(theirs);
            let mut outgoing = Outgoing::default();
            outgoing.push("this\n".into());
            ours.send_all(&mut outgoing).await.unwrap();
            let mut output = Vec::new();
            loop {
                match ours.receive().await.unwrap() {
                    end if end.is_empty() => break,
                    piece => output.extend_from_slice(&piece),
                }
            }
            assert_eq!(output, b"received this\n");
            assert_eq!(child.wait().await.unwrap().code(), Some(7));
            child.kill();
        });
    }

    #[test]
    fn a_child_of_another_user_has_neither_our_groups_nor_our_identity() {
        if Identity::own().user != 0 {
            eprintln!("skipped: only root can start processes of another user");
            return;
        }
        crate::worker::block_on_local(async {
            let script = "test \"$(id -u) $(id -g) $(id -G)\" = '65534 65534 65534'";
            let mut launch = shell(script);
            launch.identity = Some(Identity { user: 65_534, group: 65_534 });
            assert!(launch.start(&[]).unwrap().wait().await.unwrap().success());
        });
    }

    #[test]
    fn other_descriptors_are_closed_in_the_child() {
        crate::worker::block_on_local(async {
            let (_ours, theirs) = Stream::pair_for_child().unwrap();
            let script = format!("test ! -e /proc/self/fd/{}", theirs.as_raw_fd());
            assert!(shell(&script).start(&[]).unwrap().wait().await.unwrap().success());
        });
    }

    #[test]
    fn a_child_can_be_signalled_and_a_dropped_one_is_killed() {
        crate::worker::block_on_local(async {
            let child = shell("exec sleep 600").start(&[]).unwrap();
            child.terminate();
            assert_eq!(child.wait().await.unwrap().signal(), Some(Signal::TERM.as_raw()));
            let child = shell("trap '' TERM; while :; do sleep 1; done").start(&[]).unwrap();
            let id = child.id();
            drop(child);
            assert!(!std::path::Path::new(&format!("/proc/{id}")).exists());
            let nothing =
                ChildCommand { program: "/no/such/program".into(), ..ChildCommand::default() };
            assert_eq!(nothing.start(&[]).unwrap_err().kind(), io::ErrorKind::NotFound);
        });
    }
}
