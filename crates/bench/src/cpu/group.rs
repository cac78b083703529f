//! A cgroup (v2) for one process tree.
//!
//! Owns a directory below the cgroup of this process. Promises that a process which enters it
//! directly after fork(2) takes all its descendants along, also orphaned ones; that no process runs
//! in the group after it is dropped; and that the next run removes the groups of killed runs, and
//! of no others. Where no group can be created, callers silently get none. Never sets a limit or
//! enables a controller: a group only counts.
#![allow(unsafe_code, reason = "std cannot write after fork; the block says why it is sound")]

use super::read;
use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

const PREFIX: &str = "tidegate-bench-";
/// Time-out for killed processes to end.
const GONE_WAIT: Duration = Duration::from_secs(10);
const LOOK_EVERY: Duration = Duration::from_millis(2);
/// Maximum number of names that are tried: a run in another PID namespace can have the same name,
/// and its sweep can remove a directory before it is locked.
const ATTEMPTS: usize = 3;

#[derive(Debug)]
pub(crate) struct Group {
    directory: PathBuf,
    /// Writing to it moves processes into the group. Locked as long as the group exists: the kernel
    /// ends the lock with the process, and other PID namespaces see it too, unlike a process id.
    members: File,
}

/// The handle with which a child enters its group. Valid while the group exists.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Entry(i32);

/// The usage of all processes since the group was created.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Usage {
    pub(super) run_us: u64,
    pub(super) user_us: u64,
    pub(super) system_us: u64,
}

impl Group {
    pub(crate) fn new() -> Option<Self> {
        static OWN_CGROUP: OnceLock<Option<PathBuf>> = OnceLock::new();
        let cgroup =
            OWN_CGROUP.get_or_init(|| own_cgroup().inspect(|cgroup| sweep(cgroup))).as_ref()?;
        (0..ATTEMPTS).find_map(|_| Self::below(cgroup))
    }

    fn below(cgroup: &Path) -> Option<Self> {
        /// Distinguishes groups of one process.
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let directory = cgroup.join(format!("{PREFIX}{}-{number}", std::process::id()));
        fs::create_dir(&directory).ok()?;
        let Some(members) = locked_members(&directory) else {
            let _ = fs::remove_dir(&directory);
            return None;
        };
        // Without `cpu.stat` it is of no use.
        Some(Self { directory, members }).filter(|group| group.usage().is_some())
    }

    pub(crate) fn entry(&self) -> Entry {
        Entry(self.members.as_raw_fd())
    }

    pub(super) fn usage(&self) -> Option<Usage> {
        let text = read(&self.directory.join("cpu.stat"));
        let value = |name: &str| {
            text.lines().find_map(|line| line.strip_prefix(name)?.trim_start().parse().ok())
        };
        let (run_us, user_us) = (value("usage_usec ")?, value("user_usec ")?);
        Some(Usage { run_us, user_us, system_us: value("system_usec ")? })
    }

    pub(crate) fn holds(&self, pid: u32) -> bool {
        self.processes().contains(&pid)
    }

    /// The processes in it now.
    pub(super) fn processes(&self) -> Vec<u32> {
        super::parsed(&read(&self.directory.join("cgroup.procs"))).collect()
    }

    #[cfg(test)]
    pub(super) fn directory(&self) -> &Path {
        &self.directory
    }
}

impl Entry {
    /// Must be called in a child between fork(2) and execve(2). Where processes may not be moved it
    /// stays outside, which [`Group::holds`] tells.
    pub(crate) fn enter(self) {
        // SAFETY: write(2) may be called after fork; the descriptor is open as long as the group
        // exists, and a byte of a constant is read. 0 is the writing process (cgroups(7)).
        unsafe { libc::write(self.0, b"0".as_ptr().cast(), 1) };
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        remove(&self.directory);
    }
}

/// Ends the processes in the group, and removes it.
fn remove(directory: &Path) {
    let deadline = Instant::now() + GONE_WAIT;
    while fs::remove_dir(directory).is_err_and(|why| why.kind() != io::ErrorKind::NotFound) {
        // A daemon that left its parent and its process group is still in here.
        let _ = fs::write(directory.join("cgroup.kill"), "1");
        if Instant::now() >= deadline {
            return;
        }
        std::thread::sleep(LOOK_EVERY);
    }
}

/// Removes the groups of killed runs.
pub(super) fn sweep(cgroup: &Path) {
    let Ok(entries) = fs::read_dir(cgroup) else { return };
    for entry in entries.flatten() {
        let is_group = entry.file_name().to_str().is_some_and(|name| name.starts_with(PREFIX));
        if is_group && let Some(_locked) = locked_members(&entry.path()) {
            remove(&entry.path());
        }
    }
}

/// Opens the list of a group's processes; `None` if another run holds its lock.
fn locked_members(directory: &Path) -> Option<File> {
    let members = OpenOptions::new().write(true).open(directory.join("cgroup.procs")).ok()?;
    members.try_lock().is_ok().then_some(members)
}

/// The directory of the v2 cgroup that this process is in.
fn own_cgroup() -> Option<PathBuf> {
    let mounts = read(Path::new("/proc/self/mountinfo"));
    // proc_pid_mountinfo(5): the mount point is the fifth field, the type follows " - ".
    let mount = mounts.lines().find_map(|line| {
        let (before, after) = line.split_once(" - ")?;
        after.starts_with("cgroup2 ").then(|| before.split(' ').nth(4)).flatten()
    })?;
    let groups = read(Path::new("/proc/self/cgroup"));
    let own = groups.lines().find_map(|line| line.strip_prefix("0::/"))?;
    Some(Path::new(mount).join(own))
}
