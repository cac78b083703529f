//! The schedule of a run and its duration, known before the first request.
//!
//! Promises that the default run takes less than five minutes: cases that do not fit are omitted
//! from the end, with a message.

use super::{Options, system_calls};
use crate::cores::Cores;
use crate::load::Mode;
use crate::load::tools::Tool;
use crate::peers::{self, App, FoundPeer, Peer, Protocol};
use crate::report::data::{AGAINST, BARE_LOOP, BASELINE, FLOOR, Placement};
use crate::scenarios::{self, Case, Kind, Serve};
use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Columns of a name where names stand in front.
pub(super) const NAME: usize = 16;
/// The longest run without arguments.
pub(crate) const DEFAULT_SECONDS_MAX: f64 = 290.0;
const DEFAULT_CONNECTIONS: &[usize] = &[100];
const FULL_CONNECTIONS: &[usize] = &[1, 16, 100, 512];
/// Active connections along with the idle ones.
pub(crate) const BESIDE_IDLE: usize = 100;
/// What a round takes beyond its time: connecting, and looking at the server before and after.
const ROUND_EXTRA_SECONDS: f64 = 0.06;
const CONNECT_SECONDS: f64 = 0.000_1;
/// What the last change of a round may take, and requests that wait for a response until they are
/// given up.
const RELOAD_SECONDS: f64 = 1.0;
/// Checking a server, waiting until its memory is at rest, and ending it.
const SERVER_EXTRA_SECONDS: f64 = 0.45;
/// Making one idle connection and having it answered.
const IDLE_SECONDS: f64 = 0.000_3;
/// Waiting until the memory of a server is at rest, before and after.
const SETTLE_SECONDS: f64 = 3.0;
/// Rounds that look for the capacity of a server; the first one warms it up.
pub(super) const LOOKS: u32 = 2;
/// Storing one of many documents.
const STORE_SECONDS: f64 = 0.001_5;
/// What a machine may be slower than expected.
const SLACK: f64 = 1.08;

/// Why the options of a run are rejected.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refused(pub String);

/// The schedule of a run.
#[derive(Debug)]
pub struct Schedule {
    pub(crate) options: Options,
    pub(crate) found: Vec<FoundPeer>,
    pub(crate) missing: Vec<(&'static str, String)>,
    pub(crate) steps: Vec<Step>,
    /// Omitted cases and the reasons.
    pub(crate) notes: Vec<String>,
    /// Those of the servers and of the load where they are pinned.
    pub(crate) cores: Option<(Cores, Cores)>,
}

/// A case for servers that run side by side.
#[derive(Clone, Debug)]
pub(crate) struct Step {
    pub case: &'static Case,
    pub workers: u32,
    pub placement: Placement,
    pub connections: Vec<usize>,
    /// Places in `found`.
    pub servers: Vec<usize>,
}

/// Finds the peers (building some of them) and plans the run.
pub fn plan(mut options: Options) -> Result<Schedule, Refused> {
    check(&options)?;
    if options.tool.is_some() {
        // They count in whole seconds.
        options.round = whole_seconds(options.round);
        options.warm_up = whole_seconds(options.warm_up);
    }
    let scenarios = chosen_scenarios(&options)?;
    if let Some(tool) = options.tool {
        check_tool(tool, &options, &scenarios)?;
    }
    let (found, missing) = find(&options, &scenarios)?;
    let needed = 2 * (options.idle + scenarios::DESCRIPTORS_KEPT) as u64;
    // Servers inherit the limit. Where it cannot be raised there are fewer idle connections.
    let _ = crate::load::allow_descriptors(needed);
    let wanted = options.idle;
    options.idle = scenarios::room_for(wanted);
    let mut notes = Vec::new();
    let mut steps: Vec<Step> = scenarios
        .iter()
        .flat_map(|scenario| scenario.cases)
        .flat_map(|case| steps_of(case, &options, &found))
        .filter(|step| !step.servers.is_empty())
        .collect();
    if options.idle < wanted && steps.iter().any(|step| step.case.kind == Kind::Idle) {
        let room = options.idle;
        notes.push(format!(
            "connections: room for {room} idle ones, not {wanted} (ulimit -n, ports)"
        ));
    }
    if options.external_target.is_none() && steps.is_empty() {
        return Err(Refused(format!("nothing to run: {}", lines_of(&missing).join("; "))));
    }
    let cores = place(&mut steps, &options)?;
    let is_default = options.scenarios.is_empty() && !options.full;
    if is_default {
        // What does not fit into the time is left out from the end.
        steps.sort_by_key(|step| step.placement);
    }
    let mut schedule = Schedule { options, found, missing, steps, notes: Vec::new(), cores };
    while is_default && schedule.seconds() > DEFAULT_SECONDS_MAX && schedule.steps.len() > 1 {
        if let Some(step) = schedule.steps.pop() {
            let (name, placement) = (step.case.name, step.placement.name());
            notes.push(format!("left out to end in time: {name}, {placement}"));
        }
    }
    schedule.notes = notes;
    Ok(schedule)
}

fn check(options: &Options) -> Result<(), Refused> {
    let refuse = |why: &str| Err(Refused(why.to_owned()));
    if options.rounds == 0 || options.round.is_zero() {
        return refuse("a run has at least one round of some length");
    }
    if options.connections.contains(&0) || options.workers.contains(&0) || options.threads == 0 {
        return refuse("connections, workers and threads are at least 1");
    }
    match &options.external_target {
        Some(_) if options.placements.contains(&Placement::Pinned) => {
            refuse("--placement pinned is for servers that the run starts")
        }
        Some(target) => target.resolve().map(|_| ()).map_err(Refused),
        None => Ok(()),
    }
}

/// Repeats each step in every placement. Returns the cores of pinned servers and of their load.
fn place(steps: &mut Vec<Step>, options: &Options) -> Result<Option<(Cores, Cores)>, Refused> {
    let allowed = Cores::allowed().map_err(|why| Refused(format!("--placement: {why}")))?;
    let count = allowed.numbers().len();
    let (placements, every) = match options.placements.as_slice() {
        [] => (&Placement::ALL[..], false),
        given => (given, true),
    };
    let has_cores = |step: &Step| every || (step.workers as usize) < count;
    let placed = std::mem::take(steps).into_iter().flat_map(|step| {
        placements.iter().map(move |&placement| Step { placement, ..step.clone() })
    });
    steps.extend(placed.filter(|it| it.placement == Placement::Unpinned || has_cores(it)));
    let pinned = steps.iter().filter(|step| step.placement == Placement::Pinned);
    let Some(workers) = pinned.map(|step| step.workers as usize).max() else { return Ok(None) };
    let few = || {
        let all = "a core for each of the workers and one for the load";
        Refused(format!("--placement pinned takes {all}: {workers} workers, {count} cores"))
    };
    allowed.split(workers).ok_or_else(few).map(Some)
}

fn check_tool(
    tool: Tool,
    options: &Options,
    scenarios: &[&'static scenarios::Scenario],
) -> Result<(), Refused> {
    let refuse = |why: &str| Err(Refused(format!("{} {why}", tool.name())));
    let cases = || scenarios.iter().flat_map(|scenario| scenario.cases);
    let is_ping = |case: &Case| matches!(case.serve, Serve::Ping { .. });
    let is_websocket = |case: &Case| case.serve == Serve::App(App::WebSocket);
    if cases().any(|case| case.kind == Kind::Program) {
        return refuse("makes no load for a case without requests");
    }
    let is_http2 = |case: &Case| matches!(case.protocol, Protocol::Http2 { .. });
    let is_handshake =
        |case: &Case| matches!(case.protocol, Protocol::Https { handshakes: Some(_) });
    match tool {
        _ if cases().any(|case| case.kind == Kind::SeventyPercent) => refuse("has no fixed rate"),
        _ if options.mode != Mode::Closed => refuse("has no fixed rate"),
        Tool::H2load if !cases().all(is_http2) => refuse("is only used for HTTP/2"),
        Tool::Openssl if !cases().all(is_handshake) => refuse("only makes handshakes of TLS"),
        Tool::Openssl if options.connections != [1] => {
            refuse("makes one connection at a time: --connections 1")
        }
        Tool::Wrk | Tool::RedisBenchmark
            if cases().any(|case| case.protocol != Protocol::Http1) =>
        {
            refuse("is only used for HTTP/1.1 without TLS")
        }
        Tool::RedisBenchmark if scenarios.is_empty() || !cases().all(is_ping) => {
            refuse("does not speak HTTP")
        }
        Tool::Wrk if cases().any(is_ping) => refuse("does not speak RESP"),
        Tool::Wrk if cases().any(is_websocket) => refuse("does not speak WebSocket"),
        _ if tool.program().is_none() => {
            refuse(&format!("is not installed: apt-get install {}", tool.package()))
        }
        _ => Ok(()),
    }
}

fn whole_seconds(time: Duration) -> Duration {
    Duration::from_secs_f64(time.as_secs_f64().ceil().max(1.0))
}

fn chosen_scenarios(options: &Options) -> Result<Vec<&'static scenarios::Scenario>, Refused> {
    if options.external_target.is_some() {
        return Ok(Vec::new());
    }
    if options.scenarios.is_empty() {
        let all = scenarios::ALL.iter().copied();
        return Ok(all.filter(|scenario| options.full || scenario.by_default).collect());
    }
    let names: Vec<&str> = scenarios::ALL.iter().map(|scenario| scenario.name).collect();
    let chosen = options.scenarios.iter().map(|name| {
        scenarios::named(name)
            .ok_or_else(|| Refused(format!("no scenario {name:?}: there are {}", names.join(", "))))
    });
    chosen.collect()
}

type Missing = Vec<(&'static str, String)>;

/// Programs that have no part in what is run are not even asked for their version.
fn find(
    options: &Options,
    scenarios: &[&'static scenarios::Scenario],
) -> Result<(Vec<FoundPeer>, Missing), Refused> {
    let (mut found, mut missing) = (Vec::new(), Vec::new());
    if options.external_target.is_some() {
        return Ok((found, missing));
    }
    let mut finder = options.finder.clone();
    if options.peers.is_none() && !options.full {
        finder.cache = None;
    }
    let cases = || scenarios.iter().flat_map(|scenario| scenario.cases);
    let workers = options.workers.first().copied().unwrap_or(1);
    for peer in chosen_peers(options)? {
        let is_possible = cases().any(|case| case.is_for(peer, workers));
        if !is_possible {
            if options.peers.is_some() && ![BASELINE, FLOOR, BARE_LOOP].contains(&peer.name) {
                missing.push((peer.name, "cannot do any of this".to_owned()));
            }
            continue;
        }
        match finder.find(peer) {
            Ok(mut one) => {
                let needs: BTreeSet<_> = cases().flat_map(|case| case.needs(peer)).collect();
                if !needs.is_empty() {
                    finder.look_into_python(&mut one, &Vec::from_iter(needs));
                    let is_useless = !cases().any(|case| has_python(case, &one));
                    match &one.no_python {
                        Some(why) if peer.name == AGAINST && is_useless => {
                            return Err(Refused(format!("--against: {why}")));
                        }
                        why => missing.extend(why.clone().map(|why| (peer.name, why))),
                    }
                }
                found.push(one);
            }
            Err(why) if peer.name == AGAINST => return Err(Refused(format!("--against: {why}"))),
            Err(why) => missing.push((peer.name, why)),
        }
    }
    Ok((found, missing))
}

fn chosen_peers(options: &Options) -> Result<Vec<&'static Peer>, Refused> {
    let given = options.finder.given.contains_key(AGAINST).then_some(peers::OTHER);
    let known = || peers::ALL.iter().copied().chain(given);
    let Some(names) = &options.peers else {
        return Ok(known().filter(|peer| options.full || !peer.is_built()).collect());
    };
    let all: Vec<&str> = known().map(|peer| peer.name).collect();
    if let Some(name) = names.iter().find(|name| !all.contains(&name.as_str())) {
        return Err(Refused(format!("no peer {name:?}: there are {}", all.join(", "))));
    }
    // The order of the list, and each once.
    Ok(known().filter(|peer| names.iter().any(|name| name == peer.name)).collect())
}

fn steps_of(case: &'static Case, options: &Options, found: &[FoundPeer]) -> Vec<Step> {
    let connections = match (case.kind, options.connections.as_slice()) {
        (Kind::Idle, _) => vec![options.idle],
        (Kind::Program, _) => vec![1],
        (_, []) if case.connections().is_some() => case.connections().unwrap_or_default().to_vec(),
        (Kind::Load, []) if options.full => FULL_CONNECTIONS.to_vec(),
        (_, []) => DEFAULT_CONNECTIONS.to_vec(),
        (_, given) => given.to_vec(),
    };
    let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get) as u32;
    let workers: Vec<u32> = match options.workers.as_slice() {
        _ if case.kind == Kind::Program => vec![1],
        [] if options.full && case.serve == Serve::Hello && case.kind == Kind::Load => {
            std::iter::successors(Some(1), |n| Some(n * 2)).take_while(|&n| n <= cores).collect()
        }
        [] if case.scales() && cores > 1 => vec![1, cores],
        [] => vec![1],
        given => given.to_vec(),
    };
    let step = |workers: u32| {
        let servers = servers_of(case, workers, found);
        let (placement, connections) = (Placement::default(), connections.clone());
        Step { case, workers, placement, connections, servers }
    };
    workers.into_iter().map(step).collect()
}

fn servers_of(case: &Case, workers: u32, found: &[FoundPeer]) -> Vec<usize> {
    let can = |found: &FoundPeer| has_python(case, found) && case.is_for(found.peer, workers);
    (0..found.len()).filter(|&server| can(&found[server])).collect()
}

fn has_python(case: &Case, found: &FoundPeer) -> bool {
    found.no_python.is_none() || case.needs(found.peer).is_empty()
}

fn lines_of(missing: &[(&'static str, String)]) -> Vec<String> {
    missing.iter().map(|(name, why)| format!("{name}: {why}")).collect()
}

impl Step {
    /// What a round, its warm-up included, takes.
    pub(crate) fn round_seconds(&self, options: &Options, connections: usize, warm: bool) -> f64 {
        let asking = if self.case.kind == Kind::Idle { BESIDE_IDLE } else { connections };
        let time = if warm { options.warm_up } else { options.round };
        let reload = if self.case.kind == Kind::Reload && !warm { RELOAD_SECONDS } else { 0.0 };
        time.as_secs_f64() + reload + ROUND_EXTRA_SECONDS + CONNECT_SECONDS * asking as f64
    }

    /// What making so many idle connections takes.
    pub(crate) fn idle_seconds(&self, connections: usize) -> f64 {
        match self.case.kind {
            Kind::Idle => SETTLE_SECONDS + IDLE_SECONDS * connections as f64,
            _ => 0.0,
        }
    }

    pub(crate) fn seconds(&self, schedule: &Schedule) -> f64 {
        let options = &schedule.options;
        let started = self
            .servers
            .iter()
            .map(|&server| schedule.found[server].peer.start_seconds + SERVER_EXTRA_SECONDS);
        let rounds = self.connections.iter().map(|&connections| {
            let idle = self.idle_seconds(connections);
            let round = self.round_seconds(options, connections, false);
            let warm = self.round_seconds(options, connections, true);
            let calls = match self.case.kind {
                Kind::Load => system_calls::ROUND_SECONDS,
                _ => 0.0,
            };
            let rounds = f64::from(options.rounds);
            let (looks, direct) = match self.case.kind {
                Kind::SeventyPercent => (f64::from(LOOKS) * round, rounds * round),
                _ => (0.0, 0.0),
            };
            let servers = self.servers.len() as f64;
            (idle + warm + looks + round * rounds + calls) * servers + direct
        });
        let others = f64::from(self.case.documents() - 1) * self.servers.len() as f64;
        started.sum::<f64>() + rounds.sum::<f64>() + others * STORE_SECONDS
    }
}

impl Schedule {
    /// On a machine that is as fast as expected.
    pub(crate) fn work_seconds(&self) -> f64 {
        if self.options.external_target.is_none() {
            return self.steps.iter().map(|step| step.seconds(self)).sum();
        }
        let rounds = f64::from(self.options.rounds);
        let all = self.target_round_seconds(false) * rounds + self.target_round_seconds(true);
        all * self.target_connections().len() as f64
    }

    fn seconds(&self) -> f64 {
        self.work_seconds() * SLACK + self.options.slack.as_secs_f64()
    }

    pub(crate) fn target_round_seconds(&self, warm: bool) -> f64 {
        let time = if warm { self.options.warm_up } else { self.options.round };
        time.as_secs_f64() + ROUND_EXTRA_SECONDS
    }

    /// The maximum duration of the run.
    pub fn planned(&self) -> Duration {
        Duration::from_secs_f64(self.seconds())
    }

    /// The lines printed before the run: servers, missing ones, cases, duration.
    pub fn lines(&self) -> Vec<String> {
        let mut lines: Vec<String> = self
            .found
            .iter()
            .map(|found| format!("{:<NAME$} {}", found.peer.name, found.version))
            .collect();
        lines.extend(self.missing.iter().map(|(name, why)| format!("{name:<NAME$} {why}")));
        lines.extend(self.notes.iter().cloned());
        if let Some(target) = &self.options.external_target {
            lines.push(format!("{:<NAME$} {}", "target", target.url));
        }
        let mut names: Vec<&str> = self.steps.iter().map(|step| step.case.name).collect();
        names.dedup();
        if !names.is_empty() {
            lines.push(format!("{:<NAME$} {}", "runs", names.join(", ")));
        }
        let (rounds, seconds) = (self.options.rounds, self.options.round.as_secs_f64());
        let told = said(self.planned());
        lines.push(format!("{:<NAME$} {told}: {rounds} rounds of {seconds} s each", "takes"));
        lines
    }

    pub(crate) fn target_connections(&self) -> Vec<usize> {
        match self.options.connections.as_slice() {
            [] => DEFAULT_CONNECTIONS.to_vec(),
            given => given.to_vec(),
        }
    }

    /// The flag that ends the run early.
    pub fn stop(&self) -> &AtomicBool {
        &self.options.stop
    }

    pub(crate) fn stopped(&self) -> bool {
        self.stop().load(Ordering::Relaxed)
    }
}

/// `3 min 20 s`
pub(crate) fn said(time: Duration) -> String {
    let seconds = time.as_secs_f64().ceil() as u64;
    match (seconds / 3600, seconds / 60 % 60, seconds % 60) {
        (0, 0, seconds) => format!("{seconds} s"),
        (0, minutes, seconds) => format!("{minutes} min {seconds} s"),
        (hours, minutes, _) => format!("{hours} h {minutes} min"),
    }
}

#[cfg(test)]
mod tests;
