//! The machine of a run, and disturbances during a round.
//!
//! Owns facts (the kind of machine) and the monitoring of a round (time stolen by the hypervisor,
//! CPU used by unrelated processes). Reports only what the kernel provides: anything else is
//! `None`. Never changes a setting of the machine.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use crate::cpu::{Stat, numbers, read, ticks_per_second};

/// More stolen time than this share of all CPU time disturbs a round.
pub const STEAL_SHARE_MAX: f64 = 0.01;
/// More than so many cores used by others disturb a round. Sampling by ticks alone makes a few
/// hundredths of a core in one second.
pub const NEIGHBOUR_CORES_MAX: f64 = 0.15;

/// Facts of the machine.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Facts {
    pub cpu: String,
    /// Cores that this process may use.
    pub cores: u32,
    pub memory_bytes: u64,
    pub kernel: String,
    pub governor: Option<String>,
    pub clocksource: Option<String>,
    /// How TCP paces and limits what it sends: `bbr` delays packets by timers.
    pub congestion_control: Option<String>,
    /// The hypervisor it runs on, if one is seen.
    pub virtualization: Option<String>,
    /// The share of CPU time since boot, 0 to 1, that the hypervisor gave to others.
    pub steal_share: Option<f64>,
    /// The load average over one minute.
    pub load: Option<f64>,
}

pub fn facts() -> Facts {
    let cpuinfo = text("/proc/cpuinfo");
    let memory_kib = field(&text("/proc/meminfo"), "MemTotal")
        .and_then(|value| value.strip_suffix("kB")?.trim().parse::<u64>().ok());
    Facts {
        cpu: field(&cpuinfo, "model name").unwrap_or_default(),
        cores: std::thread::available_parallelism().map_or(1, |cores| cores.get() as u32),
        memory_bytes: memory_kib.unwrap_or(0) * 1024,
        kernel: text("/proc/sys/kernel/osrelease").trim().to_owned(),
        governor: line("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor"),
        clocksource: line("/sys/devices/system/clocksource/clocksource0/current_clocksource"),
        congestion_control: line("/proc/sys/net/ipv4/tcp_congestion_control"),
        virtualization: virtualization(&cpuinfo),
        steal_share: Busy::now().map(|busy| busy.stolen as f64 / busy.all.max(1) as f64),
        load: text("/proc/loadavg").split(' ').next().and_then(|load| load.parse().ok()),
    }
}

fn virtualization(cpuinfo: &str) -> Option<String> {
    let flags = field(cpuinfo, "flags")?;
    flags.split(' ').find(|&flag| flag == "hypervisor")?;
    line("/sys/hypervisor/type")
        .or_else(|| line("/sys/class/dmi/id/product_name"))
        .or_else(|| Some("a hypervisor".to_owned()))
}

/// Looks at the machine when a round begins and when it is over.
#[derive(Debug)]
pub struct Watch {
    /// Processes that belong to the measurement, with all their descendants.
    roots: Vec<u32>,
    busy: Option<Busy>,
    processes: BTreeMap<u32, Process>,
    uptime_seconds: f64,
}

/// The disturbances of one round.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Disturbance {
    pub disturbed: bool,
    /// A sentence for each reason.
    pub why: Vec<String>,
    pub steal_share: Option<f64>,
    /// Cores used by other processes, on average.
    pub neighbour_cores: f64,
}

#[derive(Clone, Debug)]
struct Process {
    name: String,
    parent: u32,
    ticks: u64,
    /// Ticks of the children that it waited for, over their whole lives.
    reaped_ticks: u64,
}

impl Process {
    /// Nothing is lost when a child ends: what it had moves to its parent.
    fn all_ticks(&self) -> u64 {
        self.ticks + self.reaped_ticks
    }
}

impl Watch {
    /// Starts to watch. This process and its descendants are part of the measurement; so are
    /// `roots` and theirs (a server started by another process).
    pub fn start(roots: &[u32]) -> Self {
        let mut roots = roots.to_vec();
        roots.push(std::process::id());
        Self { roots, busy: Busy::now(), processes: processes(), uptime_seconds: uptime_seconds() }
    }

    pub fn finish(&self) -> Disturbance {
        let (busy, now) = (Busy::now(), processes());
        let seconds = (uptime_seconds() - self.uptime_seconds).max(0.01);
        let ours = ours(&self.roots, &self.processes, &now);
        let our_ticks = grown(&self.processes, &now, |pid| ours.contains(&pid));
        let mut their_ticks = grown(&self.processes, &now, |pid| !ours.contains(&pid));
        let mut busiest = (0, String::new());
        for (pid, process) in now.iter().filter(|(pid, _)| !ours.contains(pid)) {
            let before = self.processes.get(pid).map_or(0, |before| before.ticks);
            busiest = busiest.max((process.ticks.saturating_sub(before), process.name.clone()));
        }
        let share = match (self.busy, busy) {
            (Some(before), Some(now)) => {
                let used = now.used.saturating_sub(before.used);
                // Neighbours outside our process namespace, or that were not waited for, are
                // seen only as a machine busier than all that we can see.
                their_ticks = their_ticks.max(used.saturating_sub(our_ticks));
                let all = now.all.saturating_sub(before.all).max(1);
                Some(now.stolen.saturating_sub(before.stolen) as f64 / all as f64)
            }
            _ => None,
        };
        let cores = |ticks: u64| ticks as f64 / ticks_per_second() as f64 / seconds;
        let busiest = (busiest.1, cores(busiest.0));
        judge(share, cores(their_ticks), busiest)
    }
}

fn judge(
    steal_share: Option<f64>,
    neighbour_cores: f64,
    (name, cores): (String, f64),
) -> Disturbance {
    let mut why = Vec::new();
    if let Some(share) = steal_share
        && share > STEAL_SHARE_MAX
    {
        why.push(format!("the hypervisor gave {:.1} % of the CPU time to others", share * 100.0));
    }
    if neighbour_cores > NEIGHBOUR_CORES_MAX {
        let most = match cores > NEIGHBOUR_CORES_MAX / 2.0 {
            true => format!(", most of it by {name} ({cores:.2})"),
            false => String::new(),
        };
        why.push(format!("other processes used {neighbour_cores:.2} cores{most}"));
    }
    Disturbance { disturbed: !why.is_empty(), why, steal_share, neighbour_cores }
}

/// Ticks of all cores since boot (proc_stat(5)).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Busy {
    /// By processes: without interrupts and without idling.
    used: u64,
    stolen: u64,
    all: u64,
}

impl Busy {
    fn now() -> Option<Self> {
        Self::parse(&text("/proc/stat"))
    }

    fn parse(text: &str) -> Option<Self> {
        let ticks: Vec<u64> = text
            .lines()
            .next()?
            .strip_prefix("cpu ")?
            .split_ascii_whitespace()
            .map_while(|word| word.parse().ok())
            .collect();
        // user nice system idle iowait irq softirq steal; guest time is in user already.
        let &[user, nice, system, _, _, _, _, stolen, ..] = ticks.as_slice() else { return None };
        Some(Self { used: user + nice + system, stolen, all: ticks[..8].iter().sum() })
    }
}

fn processes() -> BTreeMap<u32, Process> {
    let mut found = BTreeMap::new();
    for pid in numbers(Path::new("/proc")) {
        let directory = format!("/proc/{pid}");
        let Some(stat) = Stat::read(&Path::new(&directory).join("stat")) else { continue };
        let name = text(&format!("{directory}/comm")).trim().to_owned();
        let ticks = stat.user_ticks + stat.system_ticks;
        let (parent, reaped_ticks) = (stat.parent, stat.reaped_ticks);
        found.insert(pid, Process { name, parent, ticks, reaped_ticks });
    }
    found
}

/// Returns what those processes used in between. A process that has ended is missing now, and its
/// earlier use is in the sum of its parent, so it is subtracted with the rest.
fn grown(
    before: &BTreeMap<u32, Process>,
    now: &BTreeMap<u32, Process>,
    of: impl Fn(u32) -> bool,
) -> u64 {
    let sum = |processes: &BTreeMap<u32, Process>| -> u64 {
        processes.iter().filter(|(pid, _)| of(**pid)).map(|(_, it)| it.all_ticks()).sum()
    };
    sum(now).saturating_sub(sum(before))
}

/// The roots and whatever descends, or descended before, from one of them.
fn ours(
    roots: &[u32],
    before: &BTreeMap<u32, Process>,
    now: &BTreeMap<u32, Process>,
) -> BTreeSet<u32> {
    let mut found = BTreeSet::new();
    for &pid in now.keys().chain(before.keys()) {
        let (mut at, mut steps) = (pid, 0);
        // A parent may change between two looks; the count ends a circle that cannot be.
        while at > 1 && steps < now.len() + before.len() {
            if roots.contains(&at) {
                found.insert(pid);
                break;
            }
            let process = before.get(&at).or_else(|| now.get(&at));
            (at, steps) = (process.map_or(0, |process| process.parent), steps + 1);
        }
    }
    found
}

fn uptime_seconds() -> f64 {
    text("/proc/uptime").split(' ').next().and_then(|word| word.parse().ok()).unwrap_or(0.0)
}

fn text(path: &str) -> String {
    read(Path::new(path))
}

fn line(path: &str) -> Option<String> {
    let text = text(path);
    let line = text.trim();
    (!line.is_empty()).then(|| line.to_owned())
}

/// The value behind `name :` in a file of such lines.
fn field(text: &str, name: &str) -> Option<String> {
    text.lines().find_map(|line| {
        let (key, value) = line.split_once(':')?;
        (key.trim() == name).then(|| value.trim().to_owned())
    })
}

#[cfg(test)]
mod tests {
    use super::{Busy, Process, Watch, facts, field, grown, judge, ours};
    use std::collections::BTreeMap;

    #[test]
    fn this_machine_has_facts() {
        let facts = facts();
        assert!(facts.cores >= 1 && facts.memory_bytes > 1 << 20, "{facts:?}");
        assert!(facts.kernel.contains('.'), "{facts:?}");
        assert!(facts.load.is_some() && facts.steal_share.is_some(), "{facts:?}");
    }

    #[test]
    fn fields_and_ticks_are_read() {
        assert_eq!(field("a\t: x: y\nb : 2\n", "a").as_deref(), Some("x: y"));
        assert_eq!(field("a\t: x\n", "b"), None);
        let busy = Busy::parse("cpu  10 20 30 400 50 6 7 8 9 9\ncpu0 1\n");
        assert_eq!(busy, Some(Busy { used: 60, stolen: 8, all: 531 }));
        assert_eq!(Busy::parse("cpu  10 20 30\n"), None);
    }

    #[test]
    fn a_quiet_round_is_not_disturbed() {
        let found = judge(Some(0.001), 0.05, ("sshd".to_owned(), 0.05));
        assert!(!found.disturbed && found.why.is_empty(), "{found:?}");
    }

    #[test]
    fn steal_and_neighbours_are_reported() {
        let found = judge(Some(0.05), 0.9, ("rustc".to_owned(), 0.8));
        assert!(found.disturbed);
        assert_eq!(
            found.why,
            [
                "the hypervisor gave 5.0 % of the CPU time to others",
                "other processes used 0.90 cores, most of it by rustc (0.80)"
            ]
        );
    }

    fn process(parent: u32, ticks: u64, reaped_ticks: u64) -> Process {
        Process { name: String::new(), parent, ticks, reaped_ticks }
    }

    #[test]
    fn what_a_child_used_before_is_not_used_when_it_is_waited_for() {
        // 6 has worked for long and ends after 3 more ticks; 5 waits for it.
        let before = BTreeMap::from([(5, process(1, 10, 0)), (6, process(5, 2000, 0))]);
        let now = BTreeMap::from([(5, process(1, 12, 2003))]);
        assert_eq!(grown(&before, &now, |_| true), 5);
        assert_eq!(grown(&before, &now, |pid| pid == 9), 0);
    }

    #[test]
    fn descendants_of_a_root_are_ours() {
        let process = |parent| process(parent, 0, 0);
        let before = BTreeMap::from([(1, process(0)), (5, process(1)), (6, process(5))]);
        // 6 lost its parent since, 7 is new, 8 is unrelated.
        let now = BTreeMap::from([
            (1, process(0)),
            (6, process(1)),
            (7, process(6)),
            (8, process(1)),
            (5, process(1)),
        ]);
        assert_eq!(ours(&[5], &before, &now).into_iter().collect::<Vec<_>>(), [5, 6, 7]);
    }

    /// Others may well be busy while tests run: only what must hold on any machine.
    #[test]
    fn a_watch_over_nothing_finds_bounded_figures() {
        let watch = Watch::start(&[]);
        let found = watch.finish();
        assert!(found.steal_share.is_none_or(|share| (0.0..=1.0).contains(&share)), "{found:?}");
        assert!(found.neighbour_cores >= 0.0, "{found:?}");
        assert_eq!(found.disturbed, !found.why.is_empty());
    }
}
