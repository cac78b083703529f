//! `data.json`: the results of one run, and everything needed to read them later.
//!
//! Owns the format of the file and its version, documented in docs/reference/bench-data.md.
//! Promises that a field never changes its meaning or unit within a version, that unknown fields
//! are ignored, and that a file of another version is rejected with an error message. Never
//! measures or draws.

use std::collections::BTreeMap;
use std::fmt;
use std::fs;
use std::io;
use std::path::Path;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// Incremented when a field changes its meaning or is removed; a new field alone is not a new
/// version.
pub const VERSION: u32 = 1;
/// The largest file that is read: a full run writes less than one megabyte.
const FILE_BYTES_MAX: u64 = 64 << 20;

/// The value of `server` for the program under test.
pub const OURS: &str = "tidegate";
/// The value of `server` for the bare epoll servers.
pub const FLOOR: &str = "floor";
/// The other Tidegate of a run with `--against`.
pub const AGAINST: &str = "against";
/// The program under test without what a scenario adds.
pub const BASELINE: &str = "baseline";
/// The backend without a server in front of it.
pub const DIRECT: &str = "direct";
/// An application without a server.
pub const BARE_LOOP: &str = "bare-loop";

/// The value of `cpu_from` for a rough figure.
pub(crate) const TICKS: &str = "ticks";

/// The data of one run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Data {
    pub version: u32,
    /// When the run began, as RFC 3339 in UTC.
    pub date: String,
    /// The announced duration of the run.
    #[serde(serialize_with = "figure")]
    pub planned_seconds: f64,
    /// The real duration of the run.
    #[serde(serialize_with = "figure")]
    pub elapsed_seconds: f64,
    /// False if the run was stopped early: the file has the figures measured until then.
    pub complete: bool,
    /// The cores of the servers and of the load generator where they were pinned.
    pub pinned: Option<String>,
    /// Remarks for the reader, such as a scenario that was left out to end in time.
    #[serde(default)]
    pub notes: Vec<String>,
    pub machine: Machine,
    /// The command lines of the run: ours first, then one for each server.
    pub commands: Vec<Command>,
    pub scenarios: Vec<Scenario>,
    /// Every requested server, with the reason if it could not be measured.
    pub peers: Vec<Peer>,
    pub records: Vec<Record>,
}

/// Facts of the machine, as far as they can be read.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Machine {
    pub cpu: String,
    pub cores: u32,
    pub memory_bytes: u64,
    pub kernel: String,
    pub governor: Option<String>,
    pub clocksource: Option<String>,
    pub congestion_control: Option<String>,
    /// The hypervisor or container it runs in, if one is seen.
    pub virtualization: Option<String>,
    /// The share of CPU time, 0 to 1, that the hypervisor gave to others during the run.
    #[serde(serialize_with = "known_figure")]
    pub steal_share: Option<f64>,
    /// The load average over one minute when the run began.
    #[serde(serialize_with = "known_figure")]
    pub load: Option<f64>,
}

/// A command that repeats a part of the run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Command {
    /// What it did: "the run", "nginx in gateway".
    pub what: String,
    pub line: String,
}

/// One scenario.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Scenario {
    /// As in `Record::scenario`: `hello`, `gateway`, `gateway-20ms`.
    pub name: String,
    /// One sentence: the request and the response.
    pub about: String,
    /// The published page it replays, a key of `published::TABLES`: `hello`, `gateway`, `cache`.
    pub replays: Option<String>,
}

/// A requested server.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Peer {
    /// As in `Record::server`.
    pub name: String,
    /// As the program reports it; `None` if it is missing.
    pub version: Option<String>,
    /// `not installed: apt-get install varnish`, if it could not be measured.
    pub missing: Option<String>,
    pub configs: Vec<Config>,
}

/// The exact configuration a server had in one scenario.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Config {
    pub scenario: String,
    /// The command line and the file as it was written, with the documentation page of each
    /// setting.
    pub command: String,
    pub text: String,
}

/// One server in one scenario at one number of connections.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Record {
    pub server: String,
    pub scenario: String,
    pub connections: u32,
    /// Workers of the server; 1 except where scaling is measured.
    pub workers: u32,
    #[serde(default)]
    pub placement: Placement,
    /// Requests per second that were offered, in an open loop; `None` in a closed one.
    #[serde(serialize_with = "known_figure")]
    pub offered_per_second: Option<f64>,
    /// Median of the rounds, over the server's whole process tree. NaN, and null in the file, where
    /// no response arrived or the CPU cannot be read: a server of another user.
    #[serde(serialize_with = "seen", deserialize_with = "or_unseen")]
    pub cpu_us_per_request: f64,
    /// Where it comes from: `tasks`, `cgroup`, or `ticks`, which are rough; `None` when not seen.
    pub cpu_from: Option<String>,
    /// The share of it in the kernel, 0 to 1, from ticks: information, not a figure.
    #[serde(serialize_with = "known_figure")]
    pub system_share: Option<f64>,
    /// Median of the rounds.
    #[serde(serialize_with = "figure")]
    pub requests_per_second: f64,
    #[serde(serialize_with = "figure")]
    pub bytes_per_second: f64,
    /// Of all rounds together.
    pub latency_ms: Latency,
    /// (percentile, milliseconds) of all rounds together, rising: the curve of the report.
    #[serde(serialize_with = "curve")]
    pub latency_curve: Vec<(f64, f64)>,
    /// Resident memory of the tree, highest of the rounds.
    pub rss_bytes: u64,
    /// Resident memory of the tree before any load.
    #[serde(default)]
    pub rss_start_bytes: Option<u64>,
    /// Resident memory that one idle connection adds, in scenario `connections`.
    #[serde(serialize_with = "known_figure")]
    pub rss_bytes_per_connection: Option<f64>,
    #[serde(serialize_with = "known_figure")]
    pub system_calls_per_request: Option<f64>,
    /// Of all rounds; above 0, the other figures are worthless.
    pub errors: u64,
    /// Those above 0: `connect`, `read`, `write`, `timeout`, `handshake`, `status`, `length`,
    /// `framing`, `header`, `body`; `unsent` in the open loop; others that are not a request.
    pub errors_by_kind: BTreeMap<String, u64>,
    pub rounds: Vec<Round>,
    /// Why the figures are doubtful: steal, or a busy neighbour.
    pub disturbed: Option<String>,
    /// Why these figures allow no conclusion, by [`Record::no_verdict`].
    #[serde(default)]
    pub no_verdict: Option<String>,
}

/// Where servers and the load generator run.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Placement {
    /// Where the kernel puts them, as users run servers.
    #[default]
    Unpinned,
    /// Servers on the first cores, as many as they have workers, and the load on the others.
    Pinned,
}

impl Placement {
    pub const ALL: [Placement; 2] = [Placement::Unpinned, Placement::Pinned];

    pub fn name(self) -> &'static str {
        match self {
            Placement::Unpinned => "unpinned",
            Placement::Pinned => "pinned",
        }
    }
}

/// Milliseconds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct Latency {
    #[serde(serialize_with = "figure")]
    pub p50: f64,
    #[serde(serialize_with = "figure")]
    pub p90: f64,
    #[serde(serialize_with = "figure")]
    pub p99: f64,
    #[serde(serialize_with = "figure")]
    pub p999: f64,
    #[serde(serialize_with = "figure")]
    pub max: f64,
}

/// One round of a record.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Round {
    pub requests: u64,
    #[serde(serialize_with = "figure")]
    pub seconds: f64,
    #[serde(serialize_with = "seen", deserialize_with = "or_unseen")]
    pub cpu_us_per_request: f64,
    #[serde(serialize_with = "figure")]
    pub requests_per_second: f64,
    /// CPU of the load generator.
    #[serde(serialize_with = "figure")]
    pub client_us_per_request: f64,
    #[serde(serialize_with = "figure")]
    pub p50_ms: f64,
    #[serde(serialize_with = "figure")]
    pub p99_ms: f64,
    #[serde(default, serialize_with = "figure")]
    pub p999_ms: f64,
    pub errors: u64,
    pub disturbed: Option<String>,
}

/// Fewer rounds without disturbance say nothing about a ratio.
pub const ROUNDS_MIN: usize = 4;

/// Why a measurement has no verdict.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NoVerdict {
    /// Fewer than [`ROUNDS_MIN`] rounds.
    FewRounds,
    /// Fewer than [`ROUNDS_MIN`] rounds that nothing disturbed.
    Disturbed,
}

impl fmt::Display for NoVerdict {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            NoVerdict::FewRounds => write!(out, "fewer than {ROUNDS_MIN} rounds"),
            NoVerdict::Disturbed => write!(out, "fewer than {ROUNDS_MIN} undisturbed rounds"),
        }
    }
}

/// Why a file could not be read.
#[derive(Debug)]
pub struct Unreadable(String);

impl fmt::Display for Unreadable {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.0)
    }
}

impl std::error::Error for Unreadable {}

/// Six digits are more than is known. What is not a number, because nothing was answered, is 0.
fn figure<S: Serializer>(value: &f64, to: S) -> Result<S::Ok, S::Error> {
    to.serialize_f64(rounded(*value))
}

fn rounded(value: f64) -> f64 {
    let digits = format!("{value:.5e}").parse().unwrap_or(0.0);
    if value.is_finite() { digits } else { 0.0 }
}

/// A figure that could not be read is null.
fn seen<S: Serializer>(value: &f64, to: S) -> Result<S::Ok, S::Error> {
    if value.is_nan() { to.serialize_none() } else { figure(value, to) }
}

fn or_unseen<'de, D: Deserializer<'de>>(from: D) -> Result<f64, D::Error> {
    Ok(Option::deserialize(from)?.unwrap_or(f64::NAN))
}

/// The percentiles stay as they are: 99.999999 is not 100.
fn curve<S: Serializer>(points: &[(f64, f64)], to: S) -> Result<S::Ok, S::Error> {
    to.collect_seq(points.iter().map(|&(percentile, value)| (percentile, rounded(value))))
}

#[expect(clippy::ref_option, reason = "serde hands over a reference to the field")]
fn known_figure<S: Serializer>(value: &Option<f64>, to: S) -> Result<S::Ok, S::Error> {
    match value {
        Some(value) => figure(value, to),
        None => to.serialize_none(),
    }
}

impl Data {
    /// The records of one scenario, in the order they were measured.
    pub fn of_scenario<'a>(&'a self, scenario: &'a str) -> impl Iterator<Item = &'a Record> {
        self.records.iter().filter(move |record| record.scenario == scenario)
    }

    pub fn find(&self, key: &Key<'_>) -> Option<&Record> {
        self.records.iter().find(|record| record.key() == *key)
    }

    /// True if something was measured in this placement.
    pub fn has(&self, placement: Placement) -> bool {
        self.records.iter().any(|record| record.placement == placement)
    }

    pub fn to_json(&self) -> String {
        // A struct of numbers and texts always has a JSON form.
        serde_json::to_string_pretty(self).unwrap_or_default() + "\n"
    }

    pub fn from_json(text: &str) -> Result<Self, Unreadable> {
        #[derive(Deserialize)]
        struct Version {
            version: u32,
        }
        let Version { version } = serde_json::from_str(text)
            .map_err(|why| Unreadable(format!("this is not a data.json of a benchmark: {why}")))?;
        if version != VERSION {
            return Err(Unreadable(format!(
                "the file has version {version}, this program reads version {VERSION}"
            )));
        }
        let mut data: Self =
            serde_json::from_str(text).map_err(|why| Unreadable(why.to_string()))?;
        // Before a run could have both placements, all of it had the same.
        if data.pinned.is_some() && !data.has(Placement::Pinned) {
            data.records.iter_mut().for_each(|record| record.placement = Placement::Pinned);
        }
        Ok(data)
    }

    /// Reads a file; the error names it.
    pub fn read(path: &Path) -> Result<Self, Unreadable> {
        let named = |why: &dyn fmt::Display| Unreadable(format!("{}: {why}", path.display()));
        let bytes = fs::metadata(path).map_err(|why| named(&why))?.len();
        if bytes > FILE_BYTES_MAX {
            return Err(named(&format!("{bytes} bytes are not data.json")));
        }
        let text = fs::read_to_string(path).map_err(|why| named(&why))?;
        Self::from_json(&text).map_err(|why| named(&why))
    }

    /// Writes a file whole or not at all.
    pub fn write(&self, path: &Path) -> io::Result<()> {
        let partial = path.with_extension("json.new");
        fs::write(&partial, self.to_json())?;
        fs::rename(partial, path)
    }
}

/// What makes a record the same in two runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Key<'a> {
    pub scenario: &'a str,
    pub connections: u32,
    pub workers: u32,
    pub placement: Placement,
    pub server: &'a str,
}

impl Record {
    pub fn key(&self) -> Key<'_> {
        Key {
            scenario: &self.scenario,
            connections: self.connections,
            workers: self.workers,
            placement: self.placement,
            server: &self.server,
        }
    }

    /// Why ratios of these figures have no verdict; `None` if they have one.
    pub fn no_verdict(&self) -> Option<NoVerdict> {
        match self.undisturbed().count() {
            enough if enough >= ROUNDS_MIN => None,
            _ if self.rounds.len() < ROUNDS_MIN => Some(NoVerdict::FewRounds),
            _ => Some(NoVerdict::Disturbed),
        }
    }

    fn undisturbed(&self) -> impl Iterator<Item = &Round> {
        self.rounds.iter().filter(|round| round.disturbed.is_none())
    }

    /// The rounds that ratios are made of: those that were not disturbed. All of them if that
    /// leaves too few: then the ratio is shown, and nothing is concluded from it.
    pub fn rounds_of_ratio(&self) -> Vec<&Round> {
        match self.no_verdict() {
            None => self.undisturbed().collect(),
            Some(_) => self.rounds.iter().collect(),
        }
    }

    /// The figure of every round, in order.
    pub fn cpu_of_rounds(&self) -> Vec<f64> {
        self.rounds.iter().map(|round| round.cpu_us_per_request).collect()
    }

    /// The lowest and the highest figure of the rounds.
    pub fn cpu_range(&self) -> (f64, f64) {
        let rounds = self.rounds.iter().map(|round| round.cpu_us_per_request);
        let whole = (self.cpu_us_per_request, self.cpu_us_per_request);
        rounds.fold(whole, |(low, high), figure| (low.min(figure), high.max(figure)))
    }
}

#[cfg(test)]
mod tests;
