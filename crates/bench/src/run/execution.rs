//! Executes the schedule: starts servers, alternates rounds, collects records, ends in time.

use super::measure::{self, Measured};
use super::record::RecordBuilder;
use super::schedule::{NAME, Schedule, Step, said};
use super::system_calls;
use crate::cores::Moved;
use crate::cpu::Tree;
use crate::live::Live;
use crate::load::{LoadPlan, Mode};
use crate::machine;
use crate::peers::{RunContext, Running};
use crate::report::data::{self, Placement};
use crate::scenarios::{Fixture, Kind, reloading};
use std::time::{Duration, Instant};

/// A server of the step, and its results.
pub(super) struct Server {
    pub(super) running: Running,
    pub(super) tree: Tree,
    pub(super) gathered: RecordBuilder,
    /// Resident memory at rest, once it had responded correctly.
    started_bytes: u64,
    /// Configurations it took.
    reloads: u32,
}

pub(super) struct Execution<'a> {
    pub(super) schedule: &'a Schedule,
    live: &'a Live,
    pub(super) context: RunContext<'a>,
    /// What is done of what was laid out, in the time that was expected for it.
    done_seconds: f64,
    /// System calls can be counted here, as far as is known.
    counts_calls: bool,
    /// The rate of a step that has one of its own.
    pub(super) rate: Option<f64>,
    pub(super) data: data::Data,
}

impl Schedule {
    /// Executes the schedule and reports its progress on `live`. On an error nothing was measured.
    pub fn run(&self, live: &Live) -> Result<data::Data, String> {
        let directory = tempfile::Builder::new()
            .prefix("tidegate-bench-")
            .tempdir()
            .map_err(|why| format!("no directory for the servers: {why}"))?;
        let began = Instant::now();
        let told = self.planned();
        let deadline = began + told;
        let context = RunContext::new(directory.path().to_owned(), &self.options.stop, deadline);
        let data = self.without_records();
        let mut work = Execution {
            schedule: self,
            live,
            context,
            done_seconds: 0.0,
            counts_calls: true,
            rate: None,
            data,
        };
        work.everything();
        let mut data = work.data;
        data.elapsed_seconds = began.elapsed().as_secs_f64();
        data.machine.steal_share = data.machine.steal_share.or(machine::facts().steal_share);
        let end = if data.complete { "done" } else { "stopped early" };
        live.line(format!("{end} after {} ({} told)", said(began.elapsed()), said(told)));
        Ok(data)
    }
}

impl Execution<'_> {
    fn everything(&mut self) {
        if self.schedule.options.external_target.is_some() {
            self.load_external_target();
        }
        let mut begun_seconds = 0.0;
        for step in &self.schedule.steps {
            if self.over(0.0) {
                return;
            }
            // Whatever became of the steps before.
            self.done_seconds = begun_seconds;
            begun_seconds += step.seconds(self.schedule);
            self.name_scenario(step.case.name, step.case.about, step.case.replays);
            let cores = self.schedule.cores.filter(|_| step.placement == Placement::Pinned);
            self.context.cores = cores.map(|(servers, _)| servers);
            // The generator's threads and the backend are where this thread is.
            let _moved = match cores.map(|(_, load)| Moved::to(&load)).transpose() {
                Ok(moved) => moved,
                Err(why) => {
                    self.note(format!("FAILED {}: {why}", step.case.name));
                    continue;
                }
            };
            if step.case.kind == Kind::Program {
                self.programs(step);
                continue;
            }
            match Fixture::set(step.case, &self.schedule.options.finder, &self.context) {
                Ok(mut fixture) => self.step(step, &mut fixture),
                Err(why) => self.note(format!("FAILED {}: {why}", step.case.name)),
            }
        }
    }

    pub(super) fn name_scenario(&mut self, name: &str, about: &str, replays: Option<&str>) {
        if !self.data.scenarios.iter().any(|scenario| scenario.name == name) {
            self.data.scenarios.push(data::Scenario {
                name: name.to_owned(),
                about: about.to_owned(),
                replays: replays.map(str::to_owned),
            });
        }
    }

    /// True if the remaining time is shorter than `seconds`, or the run was stopped.
    pub(super) fn over(&mut self, seconds: f64) -> bool {
        let over = self.schedule.stopped()
            || Instant::now() + Duration::from_secs_f64(seconds) > self.context.deadline;
        if over {
            self.data.complete = false;
        }
        over
    }

    /// Whether to leave this round out, because at this pace there would be no time for the last
    /// cases: rather fewer rounds of each. The first round of every case is tried.
    pub(super) fn skips(
        &mut self,
        round: u32,
        seconds: f64,
        case: &str,
        connections: usize,
    ) -> bool {
        if round < 2 || !self.is_late() || self.schedule.stopped() {
            return false;
        }
        self.pass(seconds);
        let said = format!("{case} at {connections}: fewer rounds, to end in the time told");
        if !self.data.notes.contains(&said) {
            self.note(said);
        }
        true
    }

    /// True if the rest takes longer than the remaining time.
    fn is_late(&self) -> bool {
        let left = self.schedule.work_seconds() - self.done_seconds;
        Instant::now() + Duration::from_secs_f64(left.max(0.0)) > self.context.deadline
    }

    fn step(&mut self, step: &Step, fixture: &mut Fixture) {
        if step.case.kind == Kind::Idle {
            // One after the other: the descriptors are not enough for all at a time.
            for &server in &step.servers {
                let alone = Step { servers: vec![server], ..step.clone() };
                for mut server in self.start(&alone, fixture) {
                    self.idle(&alone, fixture, &mut server);
                    self.keep(server.gathered);
                }
            }
            return;
        }
        let mut servers = self.start(step, fixture);
        if step.case.documents() > 1 {
            fixture.end_backend();
        }
        for &connections in &step.connections {
            if step.case.kind == Kind::SeventyPercent {
                self.rate = self.seventy_percent(step, fixture, &servers, connections);
            }
            for server in &mut servers {
                server.gathered = self.gathered(step, server.running.peer.name, connections);
            }
            self.turns(step, fixture, &mut servers, connections);
            if self.rate.is_some() {
                self.load_backend(step, fixture, connections);
                self.rate = None;
            }
            self.count_calls(step, fixture, &mut servers, connections);
            for server in &mut servers {
                let empty = self.gathered(step, server.running.peer.name, connections);
                server.gathered.started(server.started_bytes);
                self.keep(std::mem::replace(&mut server.gathered, empty));
            }
            if self.over(0.0) {
                return;
            }
        }
        for server in servers.iter().filter(|server| server.reloads > 0) {
            let (name, count) = (server.running.peer.name, server.reloads);
            self.note(format!("{}: {name} took {count} configurations", step.case.name));
        }
    }

    pub(super) fn gathered(&self, step: &Step, name: &str, connections: usize) -> RecordBuilder {
        let mut gathered = RecordBuilder::new(name, step.case.name, connections, step.workers);
        gathered.placed(step.placement);
        gathered.offered(self.mode());
        gathered
    }

    /// Starts and checks the servers; one that fails becomes a record that says so.
    fn start(&mut self, step: &Step, fixture: &Fixture) -> Vec<Server> {
        let mut servers = Vec::new();
        let connections = step.connections.first().copied().unwrap_or(0);
        for &server in &step.servers {
            let found = &self.schedule.found[server];
            let name = found.peer.name;
            if self.over(0.0) {
                break;
            }
            self.say(&format!("{} · {name} · starting", step.case.name));
            let reloads = step.case.kind == Kind::Reload;
            let started = Running::start(
                found,
                &fixture.role,
                step.case.protocol,
                step.workers,
                reloads,
                &self.context,
            );
            let checked = started.and_then(|running| {
                fixture
                    .check(running.address, self.context.deadline)
                    .map_err(|why| format!("{name} {why}"))?;
                Ok(running)
            });
            self.pass(found.peer.start_seconds);
            let mut gathered = self.gathered(step, name, connections);
            match checked {
                Ok(running) => {
                    self.note_configuration(step, server, &running);
                    let tree = running.tree();
                    let started_bytes = tree.settled_rss();
                    servers.push(Server { running, tree, gathered, started_bytes, reloads: 0 });
                }
                // The end of the run cut it short, which is not an error.
                Err(why) if self.over(0.0) => {
                    if !self.schedule.stopped() {
                        self.note(format!("{}: {why}", step.case.name));
                    }
                    break;
                }
                Err(why) => {
                    self.note(format!("FAILED {}: {why}", step.case.name));
                    gathered.fail("start", &why);
                    self.data.records.push(gathered.finish());
                }
            }
        }
        servers
    }

    fn note_configuration(&mut self, step: &Step, server: usize, running: &Running) {
        self.note_run(step, server, &running.command, &running.configuration);
    }

    pub(super) fn note_run(&mut self, step: &Step, server: usize, command: &str, text: &str) {
        let scenario = step.case.name.to_owned();
        let what = format!("{} in {scenario}", self.schedule.found[server].peer.name);
        if self.data.commands.iter().any(|command| command.what == what) {
            return;
        }
        let (command, text) = (command.to_owned(), text.to_owned());
        self.data.commands.push(data::Command { what, line: command.clone() });
        self.data.peers[server].configs.push(data::Config { scenario, command, text });
    }

    /// Warms each server up, then alternates between them: A B B A.
    fn turns(
        &mut self,
        step: &Step,
        fixture: &Fixture,
        servers: &mut [Server],
        connections: usize,
    ) {
        let options = &self.schedule.options;
        let others: Vec<u32> = servers.iter().map(|server| server.running.id()).collect();
        let others: Vec<u32> = others.into_iter().chain(fixture.processes()).collect();
        for round in 0..=options.rounds {
            let warm = round == 0;
            let seconds = step.round_seconds(options, connections, warm);
            let of_all = seconds * servers.len() as f64;
            if self.skips(round, of_all, step.case.name, connections) {
                continue;
            }
            let mut order: Vec<usize> = (0..servers.len()).collect();
            if round % 2 == 0 {
                order.reverse();
            }
            for server in order {
                if self.over(seconds) {
                    return;
                }
                let server = &mut servers[server];
                let name = server.running.peer.name;
                let turn = if warm {
                    "warming up".to_owned()
                } else {
                    format!("round {round} of {}", options.rounds)
                };
                self.say(&format!("{} · {name} · {connections} · {turn}", step.case.name));
                self.round(step, fixture, server, connections, warm, &others);
                self.pass(seconds);
            }
        }
    }

    /// After the rounds, because being traced leaves traces.
    fn count_calls(
        &mut self,
        step: &Step,
        fixture: &Fixture,
        servers: &mut [Server],
        connections: usize,
    ) {
        if step.case.kind != Kind::Load {
            return;
        }
        for server in servers {
            let skips = !self.counts_calls || self.is_late();
            if skips || self.over(system_calls::ROUND_SECONDS) {
                return;
            }
            let name = server.running.peer.name;
            self.say(&format!("{} · {name} · {connections} · system calls", step.case.name));
            let (duration, timeout) = (system_calls::ROUND, step.case.timeout());
            let documents = step.case.documents();
            let plan = self.plan(connections, false);
            let plan = LoadPlan { duration, timeout, documents, ..plan };
            let target = fixture.target(server.running.address);
            let (directory, until) = (&self.context.directory, self.context.deadline);
            match system_calls::per_request(&target, &plan, &server.tree, directory, until) {
                Ok(Some(calls)) => server.gathered.system_calls(calls),
                Ok(None) => {}
                Err(why) => {
                    self.counts_calls = false;
                    self.live.line(format!("system calls are not counted: {why}"));
                }
            }
            self.pass(system_calls::ROUND_SECONDS);
        }
    }

    pub(super) fn round(
        &self,
        step: &Step,
        fixture: &Fixture,
        server: &mut Server,
        connections: usize,
        warm: bool,
        others: &[u32],
    ) {
        let target = fixture.target(server.running.address);
        let (timeout, documents) = (step.case.timeout(), step.case.documents());
        let plan = LoadPlan { timeout, documents, ..self.plan(connections, warm) };
        let (tool, tree) = (self.schedule.options.tool, &server.tree);
        let measured = if step.case.kind == Kind::Reload && !warm {
            let running = &mut server.running;
            let (measured, reloads) =
                reloading(running, || measure::round(tool, &target, &plan, Some(tree), others));
            server.reloads += reloads.count;
            if let Some(why) = reloads.failed
                && !self.context.is_over()
            {
                server.gathered.fail("reload", &why);
            }
            measured
        } else {
            measure::round(tool, &target, &plan, Some(tree), others)
        };
        self.take(measured, warm, &mut server.gathered);
        if server.running.ended() {
            let said = server.running.said();
            let why = format!("{} ended under load: {said}", server.running.peer.name);
            server.gathered.fail("ended", &why);
        }
    }

    fn mode(&self) -> Mode {
        self.rate.map_or(self.schedule.options.mode, |rate| Mode::Open { rate })
    }

    pub(super) fn plan(&self, connections: usize, warm: bool) -> LoadPlan {
        let options = &self.schedule.options;
        LoadPlan {
            connections,
            threads: options.threads,
            duration: if warm { options.warm_up } else { options.round },
            mode: self.mode(),
            verify: options.verify,
            stop: options.stop.clone(),
            ..LoadPlan::default()
        }
    }

    /// A round that was stopped on its way, or only warmed up, is not a round.
    pub(super) fn take(
        &self,
        measured: std::io::Result<Measured>,
        warm: bool,
        gathered: &mut RecordBuilder,
    ) {
        match measured {
            Ok(measured) if !warm && !self.schedule.stopped() => gathered.add(measured),
            Ok(_) => {}
            Err(_) if self.context.is_over() => {}
            Err(why) => gathered.fail("generator", &why.to_string()),
        }
    }

    pub(super) fn keep(&mut self, gathered: RecordBuilder) {
        if gathered.is_empty() {
            return;
        }
        let record = gathered.finish();
        self.live.line(line(&record));
        self.data.records.push(record);
    }

    /// A line that is also in the results.
    pub(super) fn note(&mut self, text: String) {
        self.live.line(text.as_str());
        self.data.notes.push(text);
    }

    pub(super) fn say(&self, what: &str) {
        self.live.step(what, Duration::from_secs_f64(self.done_seconds));
    }

    pub(super) fn pass(&mut self, seconds: f64) {
        self.done_seconds += seconds;
    }
}

/// One record as it is shown during the run.
fn line(record: &data::Record) -> String {
    let (low, high) = record.cpu_range();
    let idle = record.rss_bytes_per_connection.map(|bytes| format!("  {bytes:.0} B each"));
    let errors = match record.errors {
        0 => String::new(),
        count => format!("  {count} ERRORS"),
    };
    let cost = match record.cpu_us_per_request {
        cost if cost.is_nan() => "CPU n/a".to_owned(),
        cost => format!("{cost:>8.2} µs ({low:.2}–{high:.2})"),
    };
    format!(
        "{:<18} {:<NAME$} {:>5}  {cost}  {:>7.0}/s  p99 {:.2} ms{}{errors}",
        record.scenario,
        record.server,
        record.connections,
        record.requests_per_second,
        record.latency_ms.p99,
        idle.unwrap_or_default(),
    )
}
