//! `tidegate bench`: measure Tidegate and other servers on this machine.
//!
//! Owns the options of the command; the crate `bench` does the work, from the outside: it starts
//! this
//! program again as the server that is measured, and as the floor.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use bench::live::Live;
use bench::load::Mode;
use bench::load::tools::Tool;
use bench::peers::{self, Finder};
use bench::report::data::{AGAINST, BARE_LOOP, BASELINE, Data, FLOOR, OURS, Placement};
use bench::report::{compare, html, page, terminal};
use bench::run::{self, ExternalTarget, Options};
use bench::{floor, interrupt, scenarios};
use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};

use crate::failure::Failure;
use crate::host::Host;
use crate::output::{print, print_bytes};

/// Rounds of a comparison of two binaries: enough for an interval of one or two percent.
const ROUNDS_AGAINST: u32 = 16;
/// Names the interpreter if `--python` does not.
const PYTHON: &str = "TIDEGATE_BENCH_PYTHON";

const EXAMPLES: &str = "\
Measures the CPU that a request costs the server, requests per second, latencies, memory and
errors. Installed servers are measured too; for a missing one a line says how to install it. Ctrl-C
ends a run early, leaves no process behind, and writes the results so far.

Examples:
  tidegate bench
  tidegate bench hello --peers nginx,haproxy --connections 1,100,512
  tidegate bench gateway --peer nginx=/opt/nginx/sbin/nginx --rounds 12 --out after
  tidegate bench hello gateway --against before/tidegate --placement pinned
  tidegate bench asgi-hello wsgi-hello --python .venv/bin/python
  tidegate bench compare before/data.json after/data.json --bound 5%
  tidegate bench --print-config nginx";

/// Measure Tidegate and other servers on this machine
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES, args_conflicts_with_subcommands = true)]
pub(crate) struct Bench {
    #[command(subcommand)]
    what: Option<BenchCommand>,

    #[command(flatten)]
    run: Run,
}

#[derive(Clone, Copy, Debug, Default, clap::ValueEnum)]
enum Placements {
    Unpinned,
    Pinned,
    #[default]
    Both,
}

#[derive(Debug, clap::Subcommand)]
enum BenchCommand {
    /// Compare two runs; exit code 1 if tidegate became more expensive by more than the bound
    Compare {
        /// data.json of the first run
        before: PathBuf,
        /// data.json of the second run
        after: PathBuf,
        /// The allowed increase of the cost of a request: 5% or 0.05
        #[arg(long, value_name = "SHARE", default_value = "5%", value_parser = share)]
        bound: f64,
    },
    /// Write the report of a run again from its data.json
    Report {
        /// data.json of the run
        data: PathBuf,
        #[command(flatten)]
        files: Files,
    },
    /// Serve as a floor server; started by a run
    #[command(hide = true)]
    Floor { arguments: Vec<String> },
}

/// The output of the command.
#[derive(Debug, clap::Args)]
struct Files {
    /// The directory for data.json and report.html
    #[arg(long, value_name = "DIR", default_value = "bench-results")]
    out: PathBuf,

    /// Also write a page in Markdown; text written by hand between its marks is kept
    #[arg(long, value_name = "FILE")]
    page: Option<PathBuf>,
}

#[derive(Debug, clap::Args)]
struct Run {
    /// What to measure [default: the most important ones, within five minutes]
    #[arg(value_name = "SCENARIO", value_parser = scenario_names())]
    scenarios: Vec<String>,

    /// All scenarios, more connections, more workers; prints the duration first
    #[arg(long)]
    full: bool,

    /// Servers to measure besides tidegate and the floor, instead of all that are installed
    #[arg(long, value_name = "NAMES", value_delimiter = ',', value_parser = peer_names())]
    peers: Option<Vec<String>>,

    /// The program of a peer: nginx=/opt/nginx/sbin/nginx
    #[arg(long, value_name = "NAME=PATH", value_parser = peer)]
    peer: Vec<(String, PathBuf)>,

    /// Compare this program with another Tidegate binary on the same scenarios, round by round; for
    /// Python applications, the `tidegate` of an environment with the other wheel
    #[arg(long, value_name = "BINARY", conflicts_with_all = ["target", "tool"])]
    against: Option<PathBuf>,

    /// The Python of applications and their servers, tidegate included [default:
    /// TIDEGATE_BENCH_PYTHON, the one of `make bench-peers`, or python3]
    #[arg(long, value_name = "PATH")]
    python: Option<PathBuf>,

    /// Numbers of connections, such as 1,16,100,512 [default: 100]
    #[arg(long, value_name = "NUMBERS", value_delimiter = ',')]
    connections: Vec<usize>,

    /// Numbers of workers of the servers, such as 1,2,4 [default: 1]
    #[arg(long, value_name = "NUMBERS", value_delimiter = ',')]
    workers: Vec<u32>,

    /// Seconds of a round
    #[arg(long, value_name = "N", default_value = "1", value_parser = seconds)]
    seconds: Duration,

    /// Rounds per server [default: 4, or 16 with --against]
    #[arg(long, value_name = "N")]
    rounds: Option<u32>,

    /// Seconds that the run may take longer than planned before it leaves out rounds
    #[arg(long, value_name = "N", default_value = "2", value_parser = seconds)]
    slack: Duration,

    /// Send this many requests per second whether or not the server keeps up (open loop)
    #[arg(long, value_name = "REQUESTS", value_parser = rate)]
    rate: Option<f64>,

    /// Use another load generator, in whole seconds
    #[arg(long, value_name = "PROGRAM", value_parser = tool_names(), conflicts_with = "rate")]
    tool: Option<String>,

    /// Threads of the load generator
    #[arg(long, value_name = "N", default_value_t = 1)]
    threads: usize,

    /// Idle connections of the scenario `connections`
    #[arg(long, value_name = "N", default_value_t = 10_000)]
    idle: usize,

    /// Where servers and the load generator run: where the kernel puts them, servers on the first
    /// cores and the load on the others, or everything once in each
    #[arg(long, value_name = "PLACEMENT", value_enum, default_value_t)]
    placement: Placements,

    /// The same as `--placement pinned`
    #[arg(long, conflicts_with = "placement")]
    pin: bool,

    /// Compare the body of every response, instead of one in sixteen
    #[arg(long)]
    verify: bool,

    /// Load this URL instead of starting servers
    #[arg(long, value_name = "URL", conflicts_with_all = ["scenarios", "peers", "full"])]
    target: Option<String>,

    /// Confirm that you may load a target on another machine
    #[arg(long, requires = "target")]
    i_own_this_target: bool,

    /// Print the exact configurations of a peer and their documentation pages, and exit
    #[arg(long, value_name = "PEER", value_parser = peer_names())]
    print_config: Option<String>,

    #[command(flatten)]
    files: Files,
}

impl Bench {
    pub(crate) fn run(self, host: &Host) -> Result<(), Failure> {
        match self.what {
            None => self.run.run(host),
            Some(BenchCommand::Compare { before, after, bound }) => {
                check_bound(&before, &after, bound)
            }
            Some(BenchCommand::Report { data, files }) => report(&read(&data)?, &files),
            Some(BenchCommand::Floor { arguments }) => {
                floor::serve(&arguments).map_err(|why| Failure::Failed(why.to_string()))
            }
        }
    }
}

impl Run {
    fn run(self, host: &Host) -> Result<(), Failure> {
        if let Some(name) = &self.print_config {
            let peer =
                peers::named(name).ok_or_else(|| Failure::Wrong(format!("no peer {name}")))?;
            return print_bytes(peer.configurations().as_bytes());
        }
        // Fails before minutes are spent on figures that cannot be written.
        directory(&self.files.out)?;
        let stop = interrupt::listen()
            .map_err(|why| Failure::Failed(format!("cannot listen for ctrl-C: {why}")))?;
        let options = self.options(stop, host)?;
        let schedule = run::plan(options).map_err(|why| Failure::Wrong(why.0))?;
        let live = Live::on_stderr(schedule.planned());
        for line in schedule.lines() {
            live.line(line);
        }
        let mut data = schedule.run(&live).map_err(Failure::Failed)?;
        if cfg!(debug_assertions) {
            data.notes.push(format!(
                "{OURS} and the floor are a debug build: their figures are meaningless."
            ));
        }
        drop(live);
        let path = self.files.out.join("data.json");
        data.write(&path).map_err(|why| cannot_write(&path, &why))?;
        // Prints what is in the file, digit for digit.
        let data = read(&path)?;
        print(&format!("{}\n{}\n", terminal::render(&data), path.display()))?;
        report(&data, &self.files)?;
        let failed = data.records.iter().filter(|it| it.server == OURS && it.errors > 0).count();
        match failed {
            0 => Ok(()),
            _ => Err(Failure::Failed(format!("{OURS} had errors in {failed} measurements"))),
        }
    }

    fn options(&self, stop: Arc<AtomicBool>, host: &Host) -> Result<Options, Failure> {
        let mut finder = finder(&self.peer, self.python.clone(), host)?;
        if let Some(path) = &self.against {
            // Servers run in other directories.
            let path = std::path::absolute(path).unwrap_or_else(|_| path.clone());
            finder.given.insert(AGAINST.to_owned(), path);
        }
        let mut options = Options::new(finder);
        options.scenarios.clone_from(&self.scenarios);
        options.peers = match (&self.peers, &self.against) {
            (None, None) => None,
            (None, Some(_)) => Some(vec![OURS.to_owned(), AGAINST.to_owned()]),
            (Some(named), other) => {
                let always = [OURS, FLOOR, BASELINE, BARE_LOOP].into_iter();
                let always = always.chain(other.as_ref().map(|_| AGAINST)).map(str::to_owned);
                Some(named.iter().cloned().chain(always).collect())
            }
        };
        options.full = self.full;
        options.connections.clone_from(&self.connections);
        options.workers.clone_from(&self.workers);
        options.round = self.seconds;
        options.rounds = self.rounds.unwrap_or(match self.against {
            Some(_) => ROUNDS_AGAINST,
            None => options.rounds,
        });
        options.slack = self.slack;
        options.threads = self.threads;
        options.mode = self.rate.map_or(Mode::Closed, |rate| Mode::Open { rate });
        options.tool = self.tool.as_deref().and_then(Tool::by_name);
        options.placements = match self.placement {
            _ if self.pin => vec![Placement::Pinned],
            Placements::Pinned => vec![Placement::Pinned],
            Placements::Unpinned => vec![Placement::Unpinned],
            // Where there are cores for it.
            Placements::Both => Vec::new(),
        };
        options.verify = self.verify;
        options.idle = self.idle;
        let is_own = self.i_own_this_target;
        options.external_target = self.target.clone().map(|url| ExternalTarget { url, is_own });
        options.command = std::env::args().collect::<Vec<_>>().join(" ");
        options.stop = stop;
        Ok(options)
    }
}

/// This program is both subject and floor; in the wheel it is a Python interpreter.
fn finder(
    given: &[(String, PathBuf)],
    python: Option<PathBuf>,
    host: &Host,
) -> Result<Finder, Failure> {
    let own = match &host.python {
        Some(command) => command.iter().map(|word| word.display().to_string()).collect(),
        None => {
            let own = std::env::current_exe()
                .map_err(|why| Failure::Failed(format!("cannot find this program: {why}")))?;
            vec![own.display().to_string()]
        }
    };
    let cache = std::env::var_os("XDG_CACHE_HOME")
        .map(PathBuf::from)
        .or_else(|| std::env::var_os("HOME").map(|home| Path::new(&home).join(".cache")));
    Ok(Finder {
        floor: [&own[..], &["bench", "floor"].map(str::to_owned)].concat(),
        subject: own,
        given: given.iter().cloned().collect::<BTreeMap<_, _>>(),
        cache: cache.map(|cache| cache.join("tidegate").join("bench")),
        python: match python.or_else(|| std::env::var_os(PYTHON).map(PathBuf::from)) {
            // A server runs in another directory.
            Some(path) => Some(std::path::absolute(&path).unwrap_or(path)),
            None => match host.python.as_ref().and_then(|command| command.first()) {
                Some(ours) => Some(ours.into()),
                None => peers::interpreter(),
            },
        },
    })
}

fn check_bound(before: &Path, after: &Path, bound: f64) -> Result<(), Failure> {
    let (before, after) = (read(before)?, read(after)?);
    let found = compare::compare(&before, &after, bound);
    print(&found.render())?;
    if found.is_empty() {
        return Err(Failure::Wrong(
            "the files have no measurement of tidegate in common".to_owned(),
        ));
    }
    match found.is_worse() {
        true => Err(Failure::Failed("tidegate became worse, beyond the bound".to_owned())),
        false => Ok(()),
    }
}

fn read(path: &Path) -> Result<Data, Failure> {
    Data::read(path).map_err(|why| Failure::Wrong(why.to_string()))
}

/// report.html, and the page if one is wanted.
fn report(data: &Data, files: &Files) -> Result<(), Failure> {
    directory(&files.out)?;
    let path = files.out.join("report.html");
    std::fs::write(&path, html::render(data)).map_err(|why| cannot_write(&path, &why))?;
    let mut written = format!("{}\n", path.display());
    if let Some(page) = &files.page {
        let before = std::fs::read_to_string(page).ok();
        let root = std::env::current_dir().unwrap_or_default();
        let text = page::render(data, before.as_deref(), &root.display().to_string());
        std::fs::write(page, text).map_err(|why| cannot_write(page, &why))?;
        written.push_str(&format!("{}\n", page.display()));
    }
    print(&written)
}

fn directory(path: &Path) -> Result<(), Failure> {
    std::fs::create_dir_all(path).map_err(|why| cannot_write(path, &why))
}

fn cannot_write(path: &Path, why: &std::io::Error) -> Failure {
    Failure::Failed(format!("cannot write {}: {why}", path.display()))
}

fn scenario_names() -> impl TypedValueParser<Value = String> {
    let names = scenarios::ALL.iter();
    PossibleValuesParser::new(names.map(|it| PossibleValue::new(it.name).help(it.about)))
}

fn peer_names() -> impl TypedValueParser<Value = String> {
    PossibleValuesParser::new(peers::ALL.iter().map(|peer| peer.name))
}

fn tool_names() -> impl TypedValueParser<Value = String> {
    PossibleValuesParser::new(Tool::ALL.map(Tool::name))
}

fn peer(typed: &str) -> Result<(String, PathBuf), String> {
    let (name, path) = typed.split_once('=').ok_or("is not NAME=PATH")?;
    match peers::named(name) {
        Some(_) => Ok((name.to_owned(), PathBuf::from(path))),
        None => {
            let names: Vec<_> = peers::ALL.iter().map(|peer| peer.name).collect();
            Err(format!("no peer \"{name}\": there are {}", names.join(", ")))
        }
    }
}

/// `5%` or `0.05`
fn share(typed: &str) -> Result<f64, String> {
    let (digits, unit) = match typed.strip_suffix('%') {
        Some(digits) => (digits.trim_end(), 100.0),
        None => (typed, 1.0),
    };
    let share = digits.parse::<f64>().ok().map(|number| number / unit);
    share
        .filter(|share| (0.0..=10.0).contains(share))
        .ok_or_else(|| format!("\"{typed}\" is not a share such as 5% or 0.05"))
}

fn seconds(typed: &str) -> Result<Duration, String> {
    let seconds = typed.trim_end_matches('s').parse::<f64>().ok();
    let seconds = seconds.filter(|seconds| (0.1..=3600.0).contains(seconds));
    seconds
        .map(Duration::from_secs_f64)
        .ok_or_else(|| format!("\"{typed}\" is not a number of seconds from 0.1 to 3600"))
}

fn rate(typed: &str) -> Result<f64, String> {
    let rate = typed.parse::<f64>().ok().filter(|rate| (1.0..=1e8).contains(rate));
    rate.ok_or_else(|| format!("\"{typed}\" is not a number of requests a second"))
}

#[cfg(test)]
mod tests {
    use super::{peer, seconds, share};

    #[test]
    fn bounds_are_shares() {
        assert_eq!([share("5%"), share("0.05"), share("12 %")], [Ok(0.05), Ok(0.05), Ok(0.12)]);
        for wrong in ["", "x", "-1%", "NaN", "5000%"] {
            assert!(share(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn rounds_have_a_length() {
        assert_eq!(seconds("0.5").map(|it| it.as_millis()), Ok(500));
        assert!(seconds("0").is_err() && seconds("inf").is_err());
    }

    #[test]
    fn only_known_peers_have_a_program() {
        assert!(peer("nginx=/usr/sbin/nginx").is_ok());
        assert!(peer("nginx").is_err() && peer("ngnix=/x").unwrap_err().contains("haproxy"));
    }
}
