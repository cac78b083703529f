//! A child process and its descendants, from start to exit.
//!
//! Owns the child and its process group. Promises that no process of the tree runs after a
//! `Process` is dropped: the group and every descendant that left it is terminated, by force if
//! necessary; and that the kernel terminates the child if this process dies. Its output is stored
//! in a file for error messages.
#![allow(unsafe_code, reason = "process groups and death signals; each block says why")]

use crate::cores::Cores;
use crate::cpu::Entry;
use crate::interrupt;
use std::fs::{self, File};
use std::io;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

/// Time-out for a graceful exit.
const STOP_WAIT: Duration = Duration::from_secs(3);
/// Interval at which a process that is to end is checked.
const LOOK_EVERY: Duration = Duration::from_millis(2);
/// Minimum time-out, also after the deadline.
const STOP_WAIT_MIN: Duration = Duration::from_millis(200);
/// Maximum length of output in an error message.
const SAID_BYTES_MAX: usize = 2000;

/// A command line.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Line {
    /// The program and its arguments.
    pub words: Vec<String>,
    pub environment: Vec<(String, String)>,
}

impl Line {
    /// As it can be typed into a shell.
    pub(crate) fn typed(&self) -> String {
        let settings =
            self.environment.iter().map(|(name, value)| format!("{name}={}", quoted(value)));
        settings.chain(self.words.iter().map(|word| quoted(word))).collect::<Vec<_>>().join(" ")
    }

    fn command(&self, placement: ProcessPlacement) -> Command {
        let mut words = self.words.iter();
        let mut command = Command::new(words.next().map_or("", String::as_str));
        command.args(words).stdin(Stdio::null()).process_group(0);
        command.envs(self.environment.iter().map(|(name, value)| (name, value)));
        let parent = std::process::id() as i32;
        // SAFETY: prctl(2) only sets a number of the child, getppid(2) only tells one, and both
        // may be called after fork; so may what both `enter` do.
        unsafe {
            command.pre_exec(move || {
                if libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGTERM) != 0 {
                    return Err(io::Error::last_os_error());
                }
                placement.group.into_iter().for_each(Entry::enter);
                placement.cores.map_or(Ok(()), |cores| cores.enter())?;
                // This process may have ended before prctl(2) took effect.
                match libc::getppid() == parent {
                    true => Ok(()),
                    false => Err(io::ErrorKind::Interrupted.into()),
                }
            });
        }
        command
    }
}

/// The cores and the cgroup of a process.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct ProcessPlacement {
    pub group: Option<Entry>,
    pub cores: Option<Cores>,
}

fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./:=,@%+".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', "'\\''"))
}

pub(crate) struct Process {
    child: Child,
    log: PathBuf,
    ended: bool,
    /// When it has to be gone.
    until: Option<Instant>,
}

impl Process {
    /// Starts it in `directory`; its output goes to the file `log`.
    pub(crate) fn start(line: &Line, directory: &Path, log: &Path) -> io::Result<Self> {
        Self::start_in(ProcessPlacement::default(), line, directory, log)
    }

    /// The same, with all it will start in that placement.
    pub(crate) fn start_in(
        placement: ProcessPlacement,
        line: &Line,
        directory: &Path,
        log: &Path,
    ) -> io::Result<Self> {
        let output = File::create(log)?;
        let errors = output.try_clone()?;
        let mut command = line.command(placement);
        // Files that a server keeps for its user, as our admin socket, go with the directory.
        command.current_dir(directory).env("XDG_RUNTIME_DIR", directory);
        let child = command.stdout(output).stderr(errors).spawn()?;
        let process = Self { child, log: log.to_owned(), ended: false, until: None };
        // When the list is full `process` is dropped here, and ends.
        interrupt::note(process.group())?;
        Ok(process)
    }

    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    fn group(&self) -> i32 {
        self.child.id() as i32
    }

    /// Gives it less time to end if this deadline is near.
    pub(crate) fn until(&mut self, deadline: Instant) {
        self.until = Some(deadline);
    }

    pub(crate) fn ended(&mut self) -> bool {
        !matches!(self.child.try_wait(), Ok(None))
    }

    /// Signals the process itself, not its group; no process if it has ended.
    pub(crate) fn signal(&mut self, signal: i32) {
        if !self.ended() {
            // SAFETY: kill(2) takes numbers only, and the number is a child that is not reaped.
            unsafe { libc::kill(self.group(), signal) };
        }
    }

    /// The end of its output.
    pub(crate) fn output(&self) -> String {
        let text = fs::read(&self.log).unwrap_or_default();
        let start = text.len().saturating_sub(SAID_BYTES_MAX);
        String::from_utf8_lossy(&text[start..]).trim().to_owned()
    }

    /// Waits until it ends by itself; `None` when it did not within `longest`, or before ctrl-C.
    pub(crate) fn wait(&mut self, longest: Duration) -> io::Result<Option<ExitStatus>> {
        let deadline = Instant::now() + longest;
        loop {
            if let Some(status) = self.child.try_wait()? {
                return Ok(Some(status));
            }
            if Instant::now() >= deadline || interrupt::is_asked_to_end() {
                return Ok(None);
            }
            std::thread::sleep(LOOK_EVERY);
        }
    }

    fn end(&mut self) {
        if std::mem::replace(&mut self.ended, true) {
            return;
        }
        let group = self.group();
        let descendants = descendants(self.child.id());
        for signal in [libc::SIGTERM, libc::SIGKILL] {
            // SAFETY: numbers only. The group is ours: its leader is not reaped, or it is empty.
            unsafe { libc::kill(-group, signal) };
            for member in descendants.iter().filter(|member| member.runs()) {
                // SAFETY: numbers only, and the start time proves that it is still the same
                // process.
                unsafe { libc::kill(member.id, signal) };
            }
            let left = self.until.map(|until| until.saturating_duration_since(Instant::now()));
            let wait = left.unwrap_or(STOP_WAIT).clamp(STOP_WAIT_MIN, STOP_WAIT);
            let deadline = Instant::now() + wait;
            loop {
                let child_ended = self.ended();
                if child_ended && !descendants.iter().any(Member::runs) && !group_runs(group) {
                    interrupt::forget(group);
                    return;
                }
                if Instant::now() >= deadline {
                    break;
                }
                std::thread::sleep(LOOK_EVERY);
            }
        }
        interrupt::forget(group);
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.end();
    }
}

/// A process, identified by its number and its start time.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Member {
    id: i32,
    started: String,
}

impl Member {
    fn of(id: i32) -> Option<Self> {
        let stat = Stat::of(id)?;
        (stat.state != "Z").then_some(Self { id, started: stat.started })
    }

    fn runs(&self) -> bool {
        Self::of(self.id).as_ref() == Some(self)
    }
}

/// Returns true if a process of the group runs; an unreaped one does not count.
fn group_runs(group: i32) -> bool {
    let Ok(processes) = fs::read_dir("/proc") else { return false };
    let ids = processes.flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    ids.filter_map(Stat::of).any(|stat| stat.group == group && stat.state != "Z")
}

/// Fields 3, 5 and 22 of proc_pid_stat(5), which stand behind the name that may hold blanks.
struct Stat {
    state: String,
    group: i32,
    started: String,
}

impl Stat {
    fn of(id: i32) -> Option<Self> {
        let stat = fs::read_to_string(format!("/proc/{id}/stat")).ok()?;
        let mut fields = stat.rsplit_once(')')?.1.split_whitespace();
        let state = fields.next()?.to_owned();
        let group = fields.nth(1)?.parse().ok()?;
        Some(Self { state, group, started: fields.nth(16)?.to_owned() })
    }
}

fn descendants(root: u32) -> Vec<Member> {
    let mut found = Vec::new();
    let mut waiting = vec![root as i32];
    while let Some(id) = waiting.pop() {
        let Ok(tasks) = fs::read_dir(format!("/proc/{id}/task")) else { continue };
        for task in tasks.flatten() {
            let children = fs::read_to_string(task.path().join("children")).unwrap_or_default();
            let children = children.split_whitespace().filter_map(|child| child.parse().ok());
            for child in children {
                found.extend(Member::of(child));
                waiting.push(child);
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::{Cores, Line, Member, Process, ProcessPlacement, descendants};
    use std::time::{Duration, Instant};

    const PATIENCE: Duration = Duration::from_secs(60);

    fn shell(script: &str) -> Line {
        let words = ["sh", "-c", script].map(str::to_owned).to_vec();
        Line { words, environment: Vec::new() }
    }

    fn started(script: &str) -> (Process, tempfile::TempDir) {
        let directory = tempfile::tempdir().unwrap();
        let process =
            Process::start(&shell(script), directory.path(), &directory.path().join("log"));
        (process.unwrap(), directory)
    }

    fn descendants_of(process: &Process, count: usize) -> Vec<Member> {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let found = descendants(process.id());
            if found.len() >= count {
                return found;
            }
            assert!(Instant::now() < deadline, "{found:?}");
            std::thread::yield_now();
        }
    }

    #[test]
    fn a_dropped_process_leaves_nothing_even_outside_its_group_or_deaf_to_signals() {
        let (process, _folder) = started("trap '' TERM; setsid sleep 600 & sleep 600 & wait");
        let members = descendants_of(&process, 2);
        drop(process);
        assert!(!members.iter().any(Member::runs), "{members:?}");
    }

    #[test]
    fn what_it_said_and_how_it_ended_is_known() {
        let (mut process, _folder) = started("echo no such thing >&2; exit 3");
        let status = process.wait(PATIENCE).unwrap().unwrap();
        assert_eq!(status.code(), Some(3));
        assert_eq!(process.output(), "no such thing");
        assert!(process.ended());
    }

    #[test]
    fn a_process_and_what_it_starts_is_where_it_was_put() {
        let all = Cores::allowed().unwrap();
        let Some((_, last)) = all.split(all.numbers().len() - 1) else {
            eprintln!("skipped: there is one core");
            return;
        };
        let directory = tempfile::tempdir().unwrap();
        let line = shell("sh -c 'grep Cpus_allowed_list /proc/self/status'");
        let placement = ProcessPlacement { group: None, cores: Some(last) };
        let log = directory.path().join("log");
        let mut process = Process::start_in(placement, &line, directory.path(), &log).unwrap();
        process.wait(PATIENCE).unwrap().unwrap();
        assert_eq!(process.output(), format!("Cpus_allowed_list:\t{last}"));
    }

    #[test]
    fn a_line_can_be_typed() {
        let mut line = shell("echo 'a b'");
        line.environment.push(("GOMAXPROCS".to_owned(), "1".to_owned()));
        assert_eq!(line.typed(), r#"GOMAXPROCS=1 sh -c 'echo '\''a b'\'''"#);
    }
}
