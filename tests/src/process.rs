//! A child process that cannot outlive its test: its standard error is kept line by line, and it
//! is killed on drop.

use crate::{PATIENCE, stuck};
use std::io::{BufRead, BufReader, Read};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// How a process ended and what it said.
#[derive(Debug)]
pub struct Exit {
    /// `None` when a signal ended it.
    pub code: Option<i32>,
    pub stdout: String,
    pub stderr: String,
}

/// What a process has said on standard error so far.
#[derive(Default)]
struct Log {
    lines: Vec<String>,
    ended: bool,
}

#[derive(Default)]
struct Shared {
    log: Mutex<Log>,
    changed: Condvar,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Log> {
        self.log.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

pub struct Process {
    child: Child,
    shared: Arc<Shared>,
    stdout: Option<JoinHandle<String>>,
    stderr: Option<JoinHandle<()>>,
}

impl Process {
    /// Starts `command` with nothing on its standard input.
    pub fn start(command: &mut Command) -> Self {
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap_or_else(|error| panic!("{command:?}: {error}"));
        let mut stdout = child.stdout.take().expect("stdout is piped");
        let stderr = child.stderr.take().expect("stderr is piped");
        let shared = Arc::new(Shared::default());
        let writer = Arc::clone(&shared);
        let stderr = std::thread::spawn(move || {
            for line in BufReader::new(stderr).split(b'\n').map_while(Result::ok) {
                writer.lock().lines.push(String::from_utf8_lossy(&line).into_owned());
                writer.changed.notify_all();
            }
            writer.lock().ended = true;
            writer.changed.notify_all();
        });
        let stdout = std::thread::spawn(move || {
            let mut bytes = Vec::new();
            let _ = stdout.read_to_end(&mut bytes);
            String::from_utf8_lossy(&bytes).into_owned()
        });
        Self { child, shared, stdout: Some(stdout), stderr: Some(stderr) }
    }

    /// Runs `command` to its end.
    pub fn run(command: &mut Command) -> Exit {
        Self::start(command).wait()
    }

    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// The lines of standard error so far.
    pub fn log(&self) -> Vec<String> {
        self.shared.lock().lines.clone()
    }

    /// Waits for a line of standard error that `pick` makes something of. `None` when the process
    /// closed its standard error without one; a panic when that takes too long.
    pub fn wait_for_line<T>(&self, mut pick: impl FnMut(&str) -> Option<T>) -> Option<T> {
        let deadline = Instant::now() + PATIENCE;
        let mut read = 0;
        let mut log = self.shared.lock();
        loop {
            if let Some(found) = log.lines[read..].iter().find_map(|line| pick(line)) {
                return Some(found);
            }
            read = log.lines.len();
            if log.ended {
                return None;
            }
            let left = deadline.saturating_duration_since(Instant::now());
            assert!(!left.is_zero(), "no such line in time; it said:\n{}", log.lines.join("\n"));
            log = self
                .shared
                .changed
                .wait_timeout(log, left)
                .unwrap_or_else(PoisonError::into_inner)
                .0;
        }
    }

    /// Sends a signal by its name without SIG: `HUP`, `TERM`, `INT`, `KILL`, `STOP`, `CONT`.
    pub fn signal(&self, name: &str) {
        let status = Command::new("sh")
            .args(["-c", &format!("kill -{name} {}", self.id())])
            .status()
            .expect("sh starts");
        assert!(status.success(), "kill -{name}: {status}");
    }

    /// Waits for the end, which has to come in time.
    pub fn wait(self) -> Exit {
        self.wait_within(PATIENCE)
    }

    /// [`Process::wait`] for a process that has more to do than one thing.
    pub fn wait_within(mut self, limit: Duration) -> Exit {
        let status = self.wait_in_time(limit);
        let stdout = self.stdout.take().and_then(|thread| thread.join().ok()).unwrap_or_default();
        if let Some(thread) = self.stderr.take() {
            let _ = thread.join();
        }
        let stderr = self.log().join("\n");
        Exit { code: status.code(), stdout, stderr }
    }

    fn wait_in_time(&mut self, limit: Duration) -> ExitStatus {
        // std has no wait with a deadline.
        let deadline = Instant::now() + limit;
        loop {
            if let Some(status) = self.child.try_wait().expect("our own child can be waited for") {
                return status;
            }
            assert!(
                Instant::now() < deadline,
                "still running; it said:\n{}\n{}",
                self.log().join("\n"),
                stuck::describe(self.id())
            );
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("log of process {}:\n{}", self.id(), self.log().join("\n"));
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Whether `name` is a program of this machine. Interop tests say what they skip.
pub fn command_exists(name: &str) -> bool {
    let directories = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&directories)
        .chain(["/usr/sbin".into(), "/sbin".into()])
        .any(|directory| directory.join(name).is_file())
}

#[cfg(test)]
mod tests {
    use super::Process;
    use std::process::Command;

    #[test]
    fn lines_and_the_end_are_seen() {
        let mut command = Command::new("sh");
        command.args(["-c", "echo one >&2; echo two >&2; echo out; exit 3"]);
        let process = Process::start(&mut command);
        let two = process.wait_for_line(|line| line.strip_prefix("tw").map(str::to_owned));
        assert_eq!(two.as_deref(), Some("o"));
        assert_eq!(process.wait_for_line(|line| line.strip_prefix("x").map(str::to_owned)), None);
        let exit = process.wait();
        assert_eq!(
            (exit.code, exit.stdout.as_str(), exit.stderr.as_str()),
            (Some(3), "out\n", "one\ntwo")
        );
    }

    #[test]
    fn a_signal_ends_it() {
        let process = Process::start(Command::new("sleep").arg("1000"));
        process.signal("TERM");
        assert_eq!(process.wait().code, None);
    }

    #[test]
    fn dropping_it_kills_it() {
        let process = Process::start(Command::new("sleep").arg("1000"));
        let id = process.id().to_string();
        let exists = || Process::run(Command::new("kill").args(["-0", &id])).code == Some(0);
        assert!(exists());
        drop(process);
        assert!(!exists());
    }
}
