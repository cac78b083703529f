//! Child processes that work for this one.
//!
//! Owns their start, with descriptors that they inherit, and their end. Promises that a child gets
//! the descriptors it was promised and no others of ours, under the numbers that they have here;
//! that it is told (SIGTERM) when the thread that started it ends, however that ends; and that one
//! which is dropped is killed and leaves no zombie. A child hears neither Ctrl-C nor the end of a
//! terminal (SIGINT, SIGHUP): its parent does, and says what is to be done.

use std::cell::{Cell, RefCell};
use std::ffi::OsString;
use std::future::poll_fn;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, RawFd};
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Command, ExitStatus};
use std::time::Duration;

use crate::platform;
use crate::readiness::{Side, Source};

/// Between two looks at a child where the system tells nobody of its end.
const LOOK: Duration = Duration::from_millis(20);

/// What is started.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ChildCommand {
    pub program: PathBuf,
    pub arguments: Vec<OsString>,
    /// Added to the environment of this process.
    pub environment: Vec<(OsString, OsString)>,
    /// Where it starts; here without one.
    pub directory: Option<PathBuf>,
}

/// A child, seen from the event loop that it was started on.
#[derive(Debug)]
pub struct Child {
    process: RefCell<std::process::Child>,
    /// Readable once the child has ended; none where there is no such thing.
    ended: Option<Source>,
    status: Cell<Option<ExitStatus>>,
}

impl ChildCommand {
    /// Starts it with these descriptors open, under the numbers that they have here.
    pub fn start(&self, descriptors: &[BorrowedFd<'_>]) -> io::Result<Child> {
        let mut command = Command::new(&self.program);
        command
            .args(&self.arguments)
            .envs(self.environment.iter().map(|(name, value)| (name, value)));
        if let Some(directory) = &self.directory {
            command.current_dir(directory);
        }
        let numbers: Vec<RawFd> = descriptors.iter().map(AsRawFd::as_raw_fd).collect();
        let parent = std::process::id();
        // SAFETY: between fork and exec only system calls are made, on numbers that were made
        // before; nothing is allocated and no lock is taken.
        unsafe { command.pre_exec(move || become_child(&numbers, parent)) };
        let process = command.spawn()?;
        let ended = platform::process_descriptor(process.id()).and_then(Source::new).ok();
        Ok(Child { process: RefCell::new(process), ended, status: Cell::new(None) })
    }
}

/// In the child, before it becomes another program.
fn become_child(descriptors: &[RawFd], parent: u32) -> io::Result<()> {
    for &descriptor in descriptors {
        // SAFETY: takes numbers; the descriptor is open, its owner lives until the child has begun.
        if unsafe { libc::fcntl(descriptor, libc::F_SETFD, 0) } < 0 {
            return Err(io::Error::last_os_error());
        }
    }
    for signal in [libc::SIGINT, libc::SIGHUP] {
        // SAFETY: takes numbers. To ignore a signal calls no handler.
        unsafe { libc::signal(signal, libc::SIG_IGN) };
    }
    platform::end_with_parent(parent)
}

impl Child {
    pub fn id(&self) -> u32 {
        self.process.borrow().id()
    }

    /// Returns when it has ended. One task may wait.
    pub async fn wait(&self) -> io::Result<ExitStatus> {
        loop {
            if let Some(status) = self.try_wait()? {
                return Ok(status);
            }
            match &self.ended {
                Some(ended) => poll_fn(|cx| ended.poll_ready(Side::Read, cx)).await?,
                None => crate::timer::sleep(LOOK).await,
            }
        }
    }

    /// How it ended, if it has.
    pub fn try_wait(&self) -> io::Result<Option<ExitStatus>> {
        if self.status.get().is_none() {
            self.status.set(self.process.borrow_mut().try_wait()?);
        }
        Ok(self.status.get())
    }

    /// Asks it to end (SIGTERM).
    pub fn terminate(&self) {
        self.signal(libc::SIGTERM);
    }

    /// Ends it (SIGKILL).
    pub fn kill(&self) {
        self.signal(libc::SIGKILL);
    }

    fn signal(&self, signal: libc::c_int) {
        // Until somebody has waited for it, its number is nobody else's.
        if matches!(self.try_wait(), Ok(None))
            && let Ok(process) = libc::pid_t::try_from(self.id())
        {
            // SAFETY: takes numbers. One that has ended meanwhile hears nothing.
            unsafe { libc::kill(process, signal) };
        }
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        if matches!(self.try_wait(), Ok(None)) {
            self.kill();
            // Killed, it ends at once, but for a disk that does not answer.
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
    fn a_child_has_what_it_was_given_and_its_end_is_noticed() {
        crate::worker::block_on_local(async {
            let (ours, theirs) = Stream::pair_for_child().unwrap();
            let number = theirs.as_raw_fd();
            let mut launch =
                shell(&format!("read line <&{number}; echo \"$WORD $line\" >&{number}; exit 7"));
            launch.environment.push(("WORD".into(), "heard".into()));
            let child = launch.start(&[theirs.as_fd()]).unwrap();
            drop(theirs);
            let mut outgoing = Outgoing::default();
            outgoing.push("this\n".into());
            ours.send_all(&mut outgoing).await.unwrap();
            let mut heard = Vec::new();
            loop {
                match ours.receive().await.unwrap() {
                    end if end.is_empty() => break,
                    piece => heard.extend_from_slice(&piece),
                }
            }
            assert_eq!(heard, b"heard this\n");
            assert_eq!(child.wait().await.unwrap().code(), Some(7));
            child.kill();
        });
    }

    #[test]
    fn what_it_was_not_given_is_closed() {
        crate::worker::block_on_local(async {
            let (_ours, theirs) = Stream::pair_for_child().unwrap();
            let script = format!("test ! -e /proc/self/fd/{}", theirs.as_raw_fd());
            assert!(shell(&script).start(&[]).unwrap().wait().await.unwrap().success());
        });
    }

    #[test]
    fn a_child_can_be_ended_and_a_dropped_one_is() {
        crate::worker::block_on_local(async {
            let child = shell("exec sleep 600").start(&[]).unwrap();
            child.terminate();
            assert_eq!(child.wait().await.unwrap().signal(), Some(libc::SIGTERM));
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
