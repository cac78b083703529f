//! CPU time and memory of a process tree, read from `/proc`.
//!
//! Owns reading `/proc` for a process, its descendants and their tasks. Promises run time instead
//! of ticks: the `schedstat` of every task, or the `cpu.stat` of the tree's own cgroup (`Group`),
//! which also counts tasks that ended. Without a cgroup, if tasks ended between two samples, the
//! run time comes from the ticks of `/proc/PID/stat`, which include ended threads and reaped
//! children. The kernel makes user and system time add up to the run time of schedstat
//! (cputime_adjust in kernel/sched/cputime.c), so only the last 10 ms and the split between the two
//! are inaccurate. Never signals, traces or slows the processes.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

mod group;
mod listening;

use group::Usage;
pub(crate) use group::{Entry, Group};
pub(crate) use listening::listener_at;

/// Memory is at rest when it changes by less than this share between two looks.
const AT_REST: f64 = 0.002;
const SETTLE_EVERY: Duration = Duration::from_millis(150);
const SETTLE_MAX: Duration = Duration::from_millis(1200);

/// Processes and their descendants.
#[derive(Debug)]
pub struct Tree {
    roots: Vec<u32>,
    group: Option<Arc<Group>>,
}

/// The resource usage of a tree at one time.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Sample {
    /// Resident memory; a page that two processes share counts in both.
    pub rss_bytes: u64,
    pub processes: usize,
    /// Run time in ns by task: its id and when it started, as ids are used again.
    tasks: BTreeMap<(u32, u64), u64>,
    /// By process and its start.
    ticks: BTreeMap<(u32, u64), Ticks>,
    group: Option<Usage>,
}

/// The usage of a process, its ended threads and its reaped children.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Ticks {
    user: u64,
    system: u64,
    reaped: u64,
}

/// The source of `run_ns`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Counted {
    /// `schedstat` of every task; none ended.
    #[default]
    Tasks,
    /// A cgroup: ended processes are counted, too.
    Group,
    /// Reported by the program itself.
    Told,
    /// Tasks ended without a cgroup: ticks, which lack children that no process of the tree waited
    /// for.
    Ticks,
}

/// The usage of a tree between two samples.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Used {
    pub run_ns: u64,
    /// In units of `ticks_per_second`; approximate.
    pub user_ticks: u64,
    pub system_ticks: u64,
    /// Tasks that have ended in between.
    pub ended_tasks: usize,
    pub counted: Counted,
    /// At the later sample.
    pub rss_bytes: u64,
}

impl Tree {
    pub fn of(pid: u32) -> Self {
        Self { roots: vec![pid], group: None }
    }

    /// Several trees, if each entered the group before it started a child.
    pub(crate) fn grouped(roots: Vec<u32>, group: Option<Arc<Group>>) -> Self {
        Self { roots, group }
    }

    pub fn sample(&self) -> Sample {
        let mut sample = Sample { group: self.usage(), ..Sample::default() };
        for pid in self.pids() {
            let directory = PathBuf::from(format!("/proc/{pid}"));
            let Some(stat) = Stat::read(&directory.join("stat")) else { continue };
            sample.processes += 1;
            let (user, system, reaped) = (stat.user_ticks, stat.system_ticks, stat.reaped_ticks);
            sample.ticks.insert((pid, stat.started), Ticks { user, system, reaped });
            sample.rss_bytes += rss_bytes(&directory).unwrap_or(0);
            for task in numbers(&directory.join("task")) {
                let directory = directory.join(format!("task/{task}"));
                let Some(stat) = Stat::read(&directory.join("stat")) else { continue };
                let Some(run_ns) = first_number(&directory.join("schedstat")) else { continue };
                sample.tasks.insert((task, stat.started), run_ns);
            }
        }
        sample
    }

    /// Resident memory once it no longer changes.
    pub(crate) fn settled_rss(&self) -> u64 {
        let began = Instant::now();
        let mut last = self.sample().rss_bytes;
        loop {
            std::thread::sleep(SETTLE_EVERY);
            let now = self.sample().rss_bytes;
            if now.abs_diff(last) as f64 <= last as f64 * AT_REST || began.elapsed() > SETTLE_MAX {
                return now;
            }
            last = now;
        }
    }

    /// The roots, their descendants, and other processes in the group (such as a detached daemon).
    pub fn pids(&self) -> BTreeSet<u32> {
        let mut found = BTreeSet::new();
        let mut left = self.roots.clone();
        if let Some(group) = &self.group {
            left.extend(group.processes());
        }
        while let Some(pid) = left.pop() {
            let tasks = numbers(Path::new(&format!("/proc/{pid}/task")));
            if tasks.is_empty() || !found.insert(pid) {
                continue;
            }
            for task in tasks {
                let children = format!("/proc/{pid}/task/{task}/children");
                left.extend(parsed(&read(Path::new(&children))));
            }
        }
        found
    }

    fn usage(&self) -> Option<Usage> {
        self.group.as_ref()?.usage()
    }
}

impl Sample {
    /// The usage between `earlier` and this sample.
    pub fn since(&self, earlier: &Sample) -> Used {
        let mut used = Used { rss_bytes: self.rss_bytes, ..Used::default() };
        for (task, run_ns) in &self.tasks {
            used.run_ns += run_ns.saturating_sub(earlier.tasks.get(task).copied().unwrap_or(0));
        }
        for (process, ticks) in &self.ticks {
            let before = earlier.ticks.get(process).copied().unwrap_or_default();
            used.user_ticks += ticks.user.saturating_sub(before.user);
            used.system_ticks += ticks.system.saturating_sub(before.system);
        }
        used.ended_tasks =
            earlier.tasks.keys().filter(|task| !self.tasks.contains_key(task)).count();
        if let (Some(now), Some(before)) = (self.group, earlier.group) {
            used.run_ns = now.run_us.saturating_sub(before.run_us) * 1000;
            let ticks = |us: u64| us * ticks_per_second() / 1_000_000;
            used.user_ticks = ticks(now.user_us.saturating_sub(before.user_us));
            used.system_ticks = ticks(now.system_us.saturating_sub(before.system_us));
            used.counted = Counted::Group;
        } else if used.ended_tasks > 0 || self.reaped() > earlier.reaped() {
            let ticks = self.all_ticks().saturating_sub(earlier.all_ticks());
            used.run_ns = used.run_ns.max(ticks * (1_000_000_000 / ticks_per_second()));
            used.counted = Counted::Ticks;
        }
        used
    }

    fn reaped(&self) -> u64 {
        self.ticks.values().map(|ticks| ticks.reaped).sum()
    }

    /// The usage of a child that ends moves to the parent that reaps it.
    fn all_ticks(&self) -> u64 {
        self.ticks.values().map(|ticks| ticks.user + ticks.system + ticks.reaped).sum()
    }
}

/// Ticks per second of `user_ticks` and `system_ticks`.
pub fn ticks_per_second() -> u64 {
    rustix::param::clock_ticks_per_second()
}

/// Fields of `/proc/.../stat`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Stat {
    pub(crate) user_ticks: u64,
    pub(crate) system_ticks: u64,
    /// Ticks of children that ended and were waited for.
    pub(crate) reaped_ticks: u64,
    pub(crate) parent: u32,
    /// In ticks since boot.
    pub(crate) started: u64,
}

impl Stat {
    pub(crate) fn read(path: &Path) -> Option<Self> {
        Self::parse(&read(path))
    }

    /// proc_pid_stat(5). The name, in brackets, may hold spaces and brackets itself.
    fn parse(text: &str) -> Option<Self> {
        let fields: Vec<&str> = text.rsplit_once(')')?.1.split_ascii_whitespace().collect();
        // `fields[0]` is the third field of the page.
        let number = |field: usize| fields.get(field - 3)?.parse::<u64>().ok();
        Some(Self {
            parent: number(4)?.try_into().ok()?,
            user_ticks: number(14)?,
            system_ticks: number(15)?,
            reaped_ticks: number(16)? + number(17)?,
            started: number(22)?,
        })
    }
}

fn rss_bytes(directory: &Path) -> Option<u64> {
    let rollup = read(&directory.join("smaps_rollup"));
    let line = rollup.lines().find_map(|line| line.strip_prefix("Rss:"))?;
    Some(line.split_ascii_whitespace().next()?.parse::<u64>().ok()? * 1024)
}

fn first_number(path: &Path) -> Option<u64> {
    read(path).split_ascii_whitespace().next()?.parse().ok()
}

fn parsed(text: &str) -> impl Iterator<Item = u32> + '_ {
    text.split_ascii_whitespace().filter_map(|word| word.parse().ok())
}

/// The entries of a directory that are numbers.
pub(crate) fn numbers(directory: &Path) -> Vec<u32> {
    let Ok(entries) = fs::read_dir(directory) else { return Vec::new() };
    entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok()).collect()
}

/// Empty if it cannot be read: a process may end at any time.
pub(crate) fn read(path: &Path) -> String {
    fs::read_to_string(path).unwrap_or_default()
}

#[cfg(test)]
mod tests;
