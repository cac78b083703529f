//! strace(1) on the processes of a server, counting its system calls.
//!
//! Promises that the server runs untraced after the tracer is dropped.

use super::executables::on_path;
use super::process::{Line, Process};
use std::collections::BTreeSet;
use std::path::Path;
use std::time::{Duration, Instant};

/// Time-out of attaching to every task, and of detaching.
const WAIT: Duration = Duration::from_secs(2);
const LOOK_EVERY: Duration = Duration::from_millis(1);

pub(crate) struct Tracer {
    process: Process,
}

impl Tracer {
    /// Returns once every process is traced.
    pub(crate) fn attach(
        processes: &BTreeSet<u32>,
        directory: &Path,
        until: Instant,
    ) -> Result<Self, String> {
        let program = on_path(&["strace"]).ok_or("strace is not installed")?;
        let mut words = vec![program.display().to_string(), "-c".to_owned(), "-f".to_owned()];
        words.extend(processes.iter().flat_map(|id| ["-p".to_owned(), id.to_string()]));
        let line = Line { words, environment: Vec::new() };
        let process = Process::start(&line, directory, &directory.join("strace.log"))
            .map_err(|why| why.to_string())?;
        let mut tracer = Self { process };
        let deadline = (Instant::now() + WAIT).min(until);
        while tracer.attached() < processes.len() {
            if tracer.process.ended() || Instant::now() >= deadline {
                return Err(format!("strace cannot attach: {}", tracer.process.output()));
            }
            std::thread::sleep(LOOK_EVERY);
        }
        Ok(tracer)
    }

    fn attached(&self) -> usize {
        self.process.output().lines().filter(|line| line.contains(" attached")).count()
    }

    /// Stops counting.
    pub(crate) fn let_go(&mut self) {
        self.process.signal(libc::SIGINT);
    }

    /// Returns its counts after it has detached.
    pub(crate) fn summary(mut self) -> Result<String, String> {
        match self.process.wait(WAIT) {
            Ok(Some(_)) => Ok(self.process.output()),
            _ => Err(format!("strace does not let go: {}", self.process.output())),
        }
    }
}
