//! A tool as a child process.
//!
//! Owns its execution, output and CPU time. Promises that it has exited when `run` returns; it is
//! killed if the run is stopped or the tool takes much longer than planned.
#![allow(unsafe_code, reason = "std does not tell a child's CPU time; the block says why")]

use std::fs::File;
use std::io::{self, Read, Seek};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use crate::load::LoadPlan;

/// Interval at which the end of the tool is checked.
const LOOK: Duration = Duration::from_millis(5);
/// Time that a tool may take beyond its run time and the time-outs at both ends.
const LATE_MAX: Duration = Duration::from_secs(10);
/// Maximum size of its final output that is shown.
const SAID_BYTES_MAX: usize = 2000;

pub(super) struct Ended {
    pub(super) output: String,
    pub(super) cpu: Duration,
    /// Killed because the run was to stop.
    pub(super) stopped: bool,
}

/// Runs the command to its end.
pub(super) fn run(command: &mut Command, plan: &LoadPlan) -> io::Result<Ended> {
    let mut output = tempfile::tempfile()?;
    let child = command
        .stdin(Stdio::null())
        .stdout(output.try_clone()?)
        .stderr(output.try_clone()?)
        .spawn()?;
    let (status, cpu, stopped) = wait(child, plan)?;
    if stopped && !plan.stop.load(Ordering::Relaxed) {
        return Err(io::Error::other(format!("{command:?} did not end in time")));
    }
    let output = said(&mut output)?;
    if !stopped && status != 0 {
        let cut = output.len().saturating_sub(SAID_BYTES_MAX);
        let end = output.get(cut..).unwrap_or(&output);
        return Err(io::Error::other(format!("{command:?} failed: {end}")));
    }
    Ok(Ended { output, cpu, stopped })
}

/// The wait status, the CPU time, and whether it was killed.
fn wait(mut child: Child, plan: &LoadPlan) -> io::Result<(i32, Duration, bool)> {
    let mut stopped = false;
    let longest = plan.duration.max(plan.warm_up) * 2 + plan.timeout * 2 + LATE_MAX;
    let deadline = Instant::now() + longest;
    loop {
        let mut status = 0;
        // SAFETY: an all-zero rusage is a valid one.
        let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
        let pid = child.id() as libc::pid_t;
        // SAFETY: both live across the call, which fills them. The child is ours and not waited
        // for anywhere else.
        let ended = unsafe { libc::wait4(pid, &mut status, libc::WNOHANG, &mut usage) };
        if ended == pid {
            return Ok((status, time(usage.ru_utime) + time(usage.ru_stime), stopped));
        }
        if ended < 0 {
            return Err(io::Error::last_os_error());
        }
        let late = Instant::now() >= deadline;
        if !stopped && (late || plan.stop.load(Ordering::Relaxed)) {
            child.kill()?;
            stopped = true;
        }
        std::thread::sleep(LOOK);
    }
}

fn time(time: libc::timeval) -> Duration {
    Duration::from_secs(time.tv_sec.max(0) as u64)
        + Duration::from_micros(time.tv_usec.max(0) as u64)
}

fn said(output: &mut File) -> io::Result<String> {
    let mut bytes = Vec::new();
    output.rewind()?;
    output.read_to_end(&mut bytes)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}
