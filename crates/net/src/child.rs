//! Child processes.
//!
//! Owns their start, with descriptors that they inherit, and their end. A child inherits exactly
//! the given descriptors, under the same numbers. It receives SIGTERM when the thread that started
//! it ends, for whatever reason. A dropped child is killed and leaves no zombie. Children ignore
//! SIGINT and SIGHUP of the terminal: the parent handles them and decides what its children do.
//!
//! An adopted child has another parent, which reports its exit status. It is waited for and
//! signalled through a process descriptor, so a reused process id is never mistaken for it.

use std::cell::{Cell, RefCell};
use std::ffi::OsString;
use std::future::poll_fn;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, RawFd};
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Command, ExitStatus};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::FdFlags;
use rustix::process::{Pid, Signal, kill_process};
use tokio::sync::watch;

use crate::identity::Identity;
use crate::platform;
use crate::readiness::{Side, Source};

/// Poll interval on systems that do not report the end of a child.
const POLL_INTERVAL: Duration = Duration::from_millis(20);
/// Time in which the parent of an adopted child reports the exit status.
const REPORT_WITHIN: Duration = Duration::from_secs(2);

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

/// A child process on the event loop that started or adopted it.
#[derive(Debug)]
pub struct Child {
    origin: ChildOrigin,
    /// Readable once the child has ended; `None` if the system has no such descriptor.
    ended: Option<Source>,
    status: Cell<Option<ExitStatus>>,
}

#[derive(Debug)]
enum ChildOrigin {
    Started(RefCell<std::process::Child>),
    /// A child of another process; the exit status is what that reports.
    Adopted {
        process: u32,
        report: watch::Receiver<Option<ExitStatus>>,
    },
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
        let origin = ChildOrigin::Started(RefCell::new(process));
        Ok(Child { origin, ended, status: Cell::new(None) })
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
    /// Takes over a child of another process. `report` gets its exit status, which is unknown once
    /// the sender is gone. The parent must not wait for it before this has returned. Fails if
    /// `parent` is not its parent, or if the system has no process descriptors.
    pub fn adopt(
        process: u32,
        parent: u32,
        report: watch::Receiver<Option<ExitStatus>>,
    ) -> io::Result<Child> {
        let descriptor = platform::process_descriptor(process)?;
        if platform::parent_of(process) != Some(parent) {
            let why = format!("process {process} is not a child of process {parent}");
            return Err(io::Error::new(io::ErrorKind::PermissionDenied, why));
        }
        let ended = Some(Source::new(descriptor)?);
        let origin = ChildOrigin::Adopted { process, report };
        Ok(Child { origin, ended, status: Cell::new(None) })
    }

    pub fn id(&self) -> u32 {
        match &self.origin {
            ChildOrigin::Started(process) => process.borrow().id(),
            ChildOrigin::Adopted { process, .. } => *process,
        }
    }

    /// Waits until the child has ended. One task may wait. An error if the exit status is unknown.
    pub async fn wait(&self) -> io::Result<ExitStatus> {
        loop {
            if let Some(status) = self.try_wait()? {
                return Ok(status);
            }
            match &self.ended {
                Some(ended) => poll_fn(|cx| ended.poll_ready(Side::Read, cx)).await?,
                None => crate::timer::sleep(POLL_INTERVAL).await,
            }
            if let ChildOrigin::Adopted { report, .. } = &self.origin {
                let mut report = report.clone();
                let reported = report.wait_for(Option::is_some);
                let reported = crate::timer::within(REPORT_WITHIN, reported).await;
                let status = reported.and_then(|status| *status.ok()?);
                self.status.set(Some(status.ok_or_else(unknown_status)?));
            }
        }
    }

    /// Returns the child's exit status if it has ended.
    pub fn try_wait(&self) -> io::Result<Option<ExitStatus>> {
        if self.status.get().is_none() {
            self.status.set(match &self.origin {
                ChildOrigin::Started(process) => process.borrow_mut().try_wait()?,
                ChildOrigin::Adopted { report, .. } => *report.borrow(),
            });
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

    /// A signal for a child that has just ended does nothing.
    fn signal(&self, signal: Signal) {
        match &self.origin {
            ChildOrigin::Started(process) => {
                // Its process id is not reused before it has been waited for.
                if matches!(self.try_wait(), Ok(None)) {
                    let _ = kill_process(Pid::from_child(&process.borrow()), signal);
                }
            }
            ChildOrigin::Adopted { .. } => {
                if let Some(ended) = &self.ended {
                    let _ = platform::signal_process(ended.as_fd(), signal);
                }
            }
        }
    }
}

fn unknown_status() -> io::Error {
    io::Error::other("its parent process has not reported the exit status")
}

impl Drop for Child {
    fn drop(&mut self) {
        if !matches!(self.try_wait(), Ok(None)) {
            return;
        }
        self.kill();
        // A killed process ends at once, unless it hangs in a disk operation.
        match (&self.origin, &self.ended) {
            (ChildOrigin::Started(process), _) => {
                let _ = process.borrow_mut().wait();
            }
            (ChildOrigin::Adopted { .. }, Some(ended)) => {
                let within = Timespec { tv_sec: REPORT_WITHIN.as_secs() as i64, tv_nsec: 0 };
                let _ = poll(&mut [PollFd::new(ended, PollFlags::IN)], Some(&within));
            }
            (ChildOrigin::Adopted { .. }, None) => {}
        }
    }
}

#[cfg(test)]
mod tests {
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
    /// A shell with a child, which is adopted, and the sender of that child's exit status.
    async fn adopted() -> (Child, Child, watch::Sender<Option<ExitStatus>>) {
        let (ours, theirs) = Stream::pair_for_child().unwrap();
        let number = theirs.as_raw_fd();
        let parent = shell(&format!("sleep 600 & echo $! >&{number}; wait"));
        let parent = parent.start(&[theirs.as_fd()]).unwrap();
        let line = ours.receive().await.unwrap();
        let process = std::str::from_utf8(&line).unwrap().trim().parse().unwrap();
        let (sender, report) = watch::channel(None);
        let child = Child::adopt(process, parent.id(), report).unwrap();
        assert_eq!(child.id(), process);
        (parent, child, sender)
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn an_adopted_child_is_signalled_and_its_status_is_what_its_parent_reports() {
        crate::worker::block_on_local(async {
            let (_parent, child, sender) = adopted().await;
            assert!(child.try_wait().unwrap().is_none());
            child.terminate();
            let terminated = ExitStatus::from_raw(Signal::TERM.as_raw());
            sender.send_replace(Some(terminated));
            for _ in 0..2 {
                assert_eq!(child.wait().await.unwrap(), terminated);
            }
            child.kill();
        });
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn the_status_of_an_adopted_child_is_unknown_without_a_report() {
        crate::worker::block_on_local(async {
            let (parent, child, sender) = adopted().await;
            drop(sender);
            assert!(child.try_wait().unwrap().is_none(), "it still runs");
            child.kill();
            drop(parent);
            for _ in 0..2 {
                let error = child.wait().await.unwrap_err().to_string();
                assert!(error.contains("not reported the exit status"), "{error}");
            }
        });
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn a_dropped_adopted_child_is_killed_and_only_a_child_of_the_parent_is_adopted() {
        crate::worker::block_on_local(async {
            let (parent, child, _sender) = adopted().await;
            let id = child.id();
            drop(child);
            // The shell reaps it and ends.
            parent.wait().await.unwrap();
            assert!(!std::path::Path::new(&format!("/proc/{id}")).exists());
            let (_sender, report) = watch::channel(None);
            let refused = Child::adopt(std::process::id(), std::process::id(), report);
            assert_eq!(refused.unwrap_err().kind(), io::ErrorKind::PermissionDenied);
        });
    }
}
