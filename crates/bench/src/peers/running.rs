//! A server that has been set up and started.
//!
//! Owns the content of the server's directory, its port and its process. Promises that a `Running`
//! accepts connections at `address`, and that nothing of it remains after it is dropped. Does not
//! check responses: see `probe` in `scenarios`.

use super::process::{Line, Process, ProcessPlacement};
use super::{Finder, FoundPeer, Peer, Protocol, Reload, Role, Setup, Site, UpstreamServer};
use crate::cores::Cores;
use crate::cpu::{Group, Tree};
use crate::floor::Floor;
use claimed_port::ClaimedPort;
use std::fs;
use std::io;
use std::net::{SocketAddr, TcpStream};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Time-out for the start of a server.
const START_WAIT: Duration = Duration::from_secs(10);
/// Interval of connection attempts.
const ASK_EVERY: Duration = Duration::from_millis(5);
/// A program that uses the claimed port may have been started before the server: then another port
/// is claimed.
const START_ATTEMPTS: u32 = 3;
/// Time-out of the command that makes a server reload.
const RELOAD_WAIT: Duration = Duration::from_secs(10);

/// The context shared by all servers of a run.
#[derive(Debug)]
pub struct RunContext<'a> {
    /// The parent of the servers' directories.
    pub directory: PathBuf,
    pub stop: &'a AtomicBool,
    /// The deadline of all waits.
    pub deadline: Instant,
    /// The cores of servers, while they are pinned.
    pub(crate) cores: Option<Cores>,
}

impl<'a> RunContext<'a> {
    pub fn new(directory: PathBuf, stop: &'a AtomicBool, deadline: Instant) -> Self {
        Self { directory, stop, deadline, cores: None }
    }

    /// Returns the directory of the servers' certificates.
    pub(crate) fn certificates(&self) -> PathBuf {
        self.directory.join("tls")
    }

    /// True if the run was stopped or its time is over: what fails from then on, its end cut short.
    pub(crate) fn is_over(&self) -> bool {
        self.stop.load(Ordering::Relaxed) || Instant::now() >= self.deadline
    }
}

pub struct Running {
    pub peer: &'static Peer,
    pub address: SocketAddr,
    /// The command line, and the files as they were written.
    pub command: String,
    pub configuration: String,
    found: FoundPeer,
    site: Site,
    deadline: Instant,
    process: Process,
    /// Its upstream, if that is a process of its own; ended after it.
    upstream: Option<Process>,
    /// After the processes, which have to end first.
    group: Option<Arc<Group>>,
    _port: ClaimedPort,
}

impl UpstreamServer {
    /// Returns once it accepts.
    fn start(
        &self,
        placement: ProcessPlacement,
        name: &str,
        site: &Site,
        context: &RunContext<'_>,
    ) -> Result<Process, String> {
        let line = self.line();
        let log = site.directory.join("upstream.log");
        let mut process = Process::start_in(placement, &line, &site.directory, &log)
            .map_err(|why| format!("{name}: {}: {why}", line.typed()))?;
        process.until(context.deadline);
        let accepts = || UnixStream::connect(&self.socket).is_ok();
        wait_until(accepts, &mut process, name, context)?;
        Ok(process)
    }
}

impl Running {
    /// Starts the peer in that role; the error is a sentence with the server's output.
    pub fn start(
        found: &FoundPeer,
        role: &Role,
        protocol: Protocol,
        workers: u32,
        reloads: bool,
        context: &RunContext<'_>,
    ) -> Result<Self, String> {
        let mut failure = String::new();
        for _ in 0..START_ATTEMPTS {
            let port = claim_port()?;
            let address = port.address();
            let directory =
                context.directory.join(format!("{}-{}", found.peer.name, address.port()));
            let role = role.clone();
            let python = found.python.clone();
            let certificates = context.certificates();
            let site = Site {
                workers,
                reloads,
                python,
                protocol,
                certificates,
                ..Site::new(role, address, directory)
            };
            match Self::start_at(found, site, port, context) {
                Ok(running) => return Ok(running),
                Err(why) => failure = why,
            }
            if context.is_over() {
                break;
            }
        }
        Err(failure)
    }

    fn start_at(
        found: &FoundPeer,
        site: Site,
        port: ClaimedPort,
        context: &RunContext<'_>,
    ) -> Result<Self, String> {
        let name = found.peer.name;
        let setup = found.peer.setup(&site).ok_or_else(|| format!("{name} cannot do this"))?;
        fs::create_dir_all(&site.directory).map_err(|why| format!("{name}: {why}"))?;
        write_files(&site, &setup).map_err(|why| format!("{name}: {why}"))?;
        let line = setup.line(&found.program);
        let group = Group::new();
        let cores = context.cores.map(|cores| cores.first(site.workers as usize));
        let placement = ProcessPlacement { group: group.as_ref().map(Group::entry), cores };
        let upstream = setup.upstream.as_ref().map(|it| it.start(placement, name, &site, context));
        let upstream = upstream.transpose()?;
        let mut process =
            Process::start_in(placement, &line, &site.directory, &site.directory.join("log"))
                .map_err(|why| format!("{name}: {}: {why}", line.typed()))?;
        process.until(context.deadline);
        let group = group.filter(|group| group.holds(process.id())).map(Arc::new);
        let accepts = || TcpStream::connect_timeout(&site.address, START_WAIT).is_ok();
        wait_until(accepts, &mut process, name, context)?;
        Ok(Self {
            peer: found.peer,
            address: site.address,
            command: setup.typed(&found.program),
            configuration: setup.text(),
            found: found.clone(),
            site,
            deadline: context.deadline,
            process,
            upstream,
            group,
            _port: port,
        })
    }

    /// Writes the next revision of the configuration and makes the server read it.
    pub fn reload(&mut self) -> Result<(), String> {
        let name = self.peer.name;
        self.site.revision += 1;
        let setup = self.peer.setup(&self.site).ok_or_else(|| format!("{name} cannot do this"))?;
        write_files(&self.site, &setup).map_err(|why| format!("{name}: {why}"))?;
        match &setup.reload {
            None => return Err(format!("{name} cannot reload")),
            Some(Reload::Signal(signal)) => self.process.signal(*signal),
            Some(Reload::Run(arguments)) => {
                let mut line = setup.line(&self.found.program);
                line.words = self.found.program.iter().chain(arguments).cloned().collect();
                let log = self.site.directory.join("reload.log");
                let mut process = Process::start(&line, &self.site.directory, &log)
                    .map_err(|why| format!("{name}: {why}"))?;
                let left = self.deadline.saturating_duration_since(Instant::now());
                match process.wait(RELOAD_WAIT.min(left)) {
                    Ok(Some(status)) if status.success() => {}
                    _ => return Err(format!("{name} did not reload: {}", process.output())),
                }
            }
        }
        Ok(())
    }

    /// The path that responds once the last reload was done.
    pub fn revision_path(&self) -> String {
        format!("/revision-{}", self.site.revision)
    }

    pub fn id(&self) -> u32 {
        self.process.id()
    }

    /// Returns the CPU time and memory of its process tree.
    pub fn tree(&self) -> Tree {
        let roots = [self.id()].into_iter().chain(self.upstream.iter().map(Process::id)).collect();
        Tree::grouped(roots, self.group.clone())
    }

    pub fn ended(&mut self) -> bool {
        self.process.ended() || self.upstream.as_mut().is_some_and(Process::ended)
    }

    /// The deadline of all waits.
    pub fn deadline(&self) -> Instant {
        self.deadline
    }

    /// The end of its output.
    pub fn said(&self) -> String {
        self.process.output()
    }
}

/// The result of a program without clients.
pub(crate) struct Done {
    pub said: String,
    pub command: String,
    pub configuration: String,
}

/// Runs the peer to its end in a role without clients; the error is a sentence.
pub(crate) fn run_program(
    found: &FoundPeer,
    role: &Role,
    context: &RunContext<'_>,
) -> Result<Done, String> {
    let name = found.peer.name;
    let directory = context.directory.join(format!("{name}-program"));
    let address = SocketAddr::from(([127, 0, 0, 1], 0));
    let site = Site { python: found.python.clone(), ..Site::new(role.clone(), address, directory) };
    let setup = found.peer.setup(&site).ok_or_else(|| format!("{name} cannot do this"))?;
    fs::create_dir_all(&site.directory)
        .and_then(|()| write_files(&site, &setup))
        .map_err(|why| format!("{name}: {why}"))?;
    let line = setup.line(&found.program);
    let placement =
        ProcessPlacement { group: None, cores: context.cores.map(|cores| cores.first(1)) };
    let mut process =
        Process::start_in(placement, &line, &site.directory, &site.directory.join("log"))
            .map_err(|why| format!("{name}: {}: {why}", line.typed()))?;
    process.until(context.deadline);
    let left = context.deadline.saturating_duration_since(Instant::now());
    match process.wait(left) {
        Ok(Some(status)) if status.success() => {
            Ok(Done { said: process.output(), command: line.typed(), configuration: setup.text() })
        }
        Ok(Some(status)) => Err(format!("{name}: {status}: {}", process.output())),
        Ok(None) => Err(format!("{name} did not end in time: {}", process.output())),
        Err(why) => Err(format!("{name}: {why}")),
    }
}

/// The mock backend of a gateway. It is part of the load.
pub struct Backend {
    pub address: SocketAddr,
    process: Process,
    _port: ClaimedPort,
}

impl Backend {
    pub fn start(finder: &Finder, floor: Floor, context: &RunContext<'_>) -> Result<Self, String> {
        let port = claim_port()?;
        let address = port.address();
        let words = finder.floor.iter().cloned().chain(floor.arguments(address)).collect();
        let line = Line { words, environment: Vec::new() };
        let log = context.directory.join(format!("backend-{}.log", address.port()));
        let mut process = Process::start(&line, &context.directory, &log)
            .map_err(|why| format!("backend: {}: {why}", line.typed()))?;
        let accepts = || TcpStream::connect_timeout(&address, START_WAIT).is_ok();
        wait_until(accepts, &mut process, "backend", context)?;
        Ok(Self { address, process, _port: port })
    }

    pub fn id(&self) -> u32 {
        self.process.id()
    }
}

fn wait_until(
    accepts: impl Fn() -> bool,
    process: &mut Process,
    name: &str,
    context: &RunContext<'_>,
) -> Result<(), String> {
    let deadline = Instant::now() + START_WAIT;
    loop {
        if accepts() {
            return Ok(());
        }
        if process.ended() {
            return Err(format!("{name} ended at once: {}", process.output()));
        }
        if Instant::now() >= deadline || context.is_over() {
            return Err(format!("{name} does not accept: {}", process.output()));
        }
        std::thread::sleep(ASK_EVERY);
    }
}

/// Renamed into place, so that no reader sees a partial file.
fn write_files(site: &Site, setup: &Setup) -> io::Result<()> {
    for (name, text) in &setup.files {
        let partial = site.directory.join(format!("{name}.new"));
        fs::write(&partial, text)?;
        fs::rename(partial, site.directory.join(name))?;
    }
    Ok(())
}

fn claim_port() -> Result<ClaimedPort, String> {
    ClaimedPort::any().map_err(|error| format!("no port for a server: {error}"))
}
