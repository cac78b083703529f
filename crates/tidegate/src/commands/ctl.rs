//! `tidegate ctl`: control a running server.

mod apps;
mod caches;
mod fleet;
mod live_log;
mod lua;
mod named;
mod profile;
mod top;
mod upstreams;

use std::path::PathBuf;

use serde_json::{Value, json};

use crate::ctl::{AdminAddress, Client, find, overview, routes_table};
use crate::failure::Failure;
use crate::output::{print, print_json};

const EXAMPLES: &str = "\
Every server has an admin API on a Unix socket that only its user can open. If one server runs on
this machine, it is used; otherwise --admin or TIDEGATE_ADMIN names one. Over TCP the API requires
the token of `admin.token`.

Examples:
  tidegate ctl status
  tidegate ctl top
  tidegate ctl log --follow --status 5xx
  tidegate ctl log --follow --slow 200ms --where 'header.x-user == 7'
  tidegate ctl upstreams app --server 10.0.0.7:3000 --drain
  tidegate ctl log-level debug
  tidegate ctl reload --wait
  tidegate ctl reload --app shop
  tidegate ctl apps shop
  tidegate ctl lua
  tidegate ctl upstreams app --history
  tidegate ctl caches pages --top
  tidegate ctl caches pages --explain http://shop.example/a
  tidegate ctl purge pages --tag catalog --dry-run
  tidegate ctl purge pages --tag catalog --soft
  tidegate ctl profile --seconds 30 --out shop.svg
  tidegate ctl apply site/ --dry-run --etcd etcd://10.0.0.5,10.0.0.6/shop
  tidegate ctl nodes --etcd etcd://10.0.0.5,10.0.0.6/shop
  tidegate ctl --admin 10.0.0.7:9180 --token-file admin.token drain";

/// Control a running server
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Ctl {
    /// The address of its admin API: HOST:PORT, http://HOST:PORT or unix:/path [env:
    /// TIDEGATE_ADMIN]
    #[arg(long, value_name = "ADDRESS", global = true)]
    admin: Option<AdminAddress>,

    /// A file that holds the token; without it TIDEGATE_TOKEN is used, if set
    #[arg(long, value_name = "FILE", global = true)]
    token_file: Option<PathBuf>,

    #[command(subcommand)]
    what: CtlCommand,
}

#[derive(Debug, clap::Subcommand)]
enum CtlCommand {
    /// Show listeners, workers, upstreams and applications
    Status {
        /// Print the responses of the API as JSON
        #[arg(long)]
        json: bool,
    },
    /// Read the configuration again
    Reload {
        /// Return when the new configuration serves, or report why it does not (exit code 1)
        #[arg(long)]
        wait: bool,

        /// Replace the processes of this application instead, one after the other, and return when
        /// all are ready or one has failed
        #[arg(long, value_name = "NAME", conflicts_with = "wait")]
        app: Option<String>,

        /// Begin new Lua VMs instead, with the files as they were read last
        #[arg(long, conflicts_with_all = ["wait", "app"])]
        lua: bool,
    },
    Log(live_log::LogOf),
    Top(top::Top),
    /// Show routes in the order of matching, with their requests and latencies
    Routes {
        /// Print the response of the API as JSON
        #[arg(long)]
        json: bool,
    },
    Upstreams(upstreams::UpstreamsOf),
    Apps(apps::AppsOf),
    Lua(lua::LuaOf),
    /// Show the level of logged events, or replace it until the next reload
    LogLevel {
        /// error, warn, info or debug
        level: Option<String>,
    },
    Caches(caches::CachesOf),
    Purge(caches::Purge),
    Profile(profile::ProfileOf),
    Apply(fleet::Apply),
    History(fleet::HistoryOf),
    Rollback(fleet::Rollback),
    Nodes(fleet::Nodes),
    /// Accept no new connections, finish requests in flight, and exit
    Drain,
}

impl Ctl {
    pub(crate) fn run(self) -> Result<(), Failure> {
        // These need no server.
        let what = match self.what {
            CtlCommand::Apply(command) => return command.run(),
            CtlCommand::History(command) => return command.run(),
            CtlCommand::Rollback(command) => return command.run(),
            CtlCommand::Nodes(command) => return command.run(),
            what => what,
        };
        let client = Client::new(find(address(self.admin)?)?, token(self.token_file)?);
        match what {
            CtlCommand::Status { json } => status(&client, json),
            CtlCommand::Reload { app: Some(app), .. } => {
                client.ask("POST", &format!("/v1/apps/{app}/reload"))?;
                print("its processes are new\n")
            }
            CtlCommand::Reload { lua: true, .. } => {
                let restarted = client.ask("POST", "/v1/lua/restart")?;
                print(&format!("{} new Lua VMs\n", restarted["restarted"]))
            }
            CtlCommand::Reload { wait: true, .. } => reload(&client),
            CtlCommand::Reload { wait: false, .. } => {
                client.ask("POST", "/v1/reload")?;
                print("asked for a reload; `reload --wait` says how it ends\n")
            }
            CtlCommand::Log(command) => command.run(&client),
            CtlCommand::Top(command) => command.run(&client),
            CtlCommand::Routes { json } => {
                let routes = client.ask("GET", "/v1/routes")?;
                show(&routes, json, routes_table)
            }
            CtlCommand::Upstreams(command) => command.run(&client),
            CtlCommand::Apps(command) => command.run(&client),
            CtlCommand::Lua(command) => command.run(&client),
            CtlCommand::LogLevel { level } => log_level(&client, level),
            CtlCommand::Caches(command) => command.run(&client),
            CtlCommand::Purge(command) => command.run(&client),
            CtlCommand::Profile(command) => command.run(&client),
            CtlCommand::Apply(_)
            | CtlCommand::History(_)
            | CtlCommand::Rollback(_)
            | CtlCommand::Nodes(_) => Ok(()),
            CtlCommand::Drain => {
                client.ask("POST", "/v1/drain")?;
                print("draining\n")
            }
        }
    }
}

/// Prints a response of the API as JSON, or as text for people.
fn show(response: &Value, json: bool, text: impl FnOnce(&Value) -> String) -> Result<(), Failure> {
    if json { print_json(response) } else { print(&text(response)) }
}

fn status(client: &Client, json: bool) -> Result<(), Failure> {
    let ask = |target| client.ask("GET", target);
    let mut status = ask("/v1/status")?;
    let workers = ask("/v1/workers")?;
    let upstreams = ask("/v1/upstreams")?;
    let apps = ask("/v1/apps")?;
    if !json {
        return print(&overview(&status, &workers, &upstreams, &apps));
    }
    status["apps"] = apps["apps"].clone();
    status["workers"] = workers["workers"].clone();
    status["upstreams"] = upstreams["upstreams"].clone();
    print_json(&status)
}

fn log_level(client: &Client, level: Option<String>) -> Result<(), Failure> {
    let Some(level) = level else {
        let now = client.ask("GET", "/v1/log-level")?;
        return print(&format!("{}\n", now["level"].as_str().unwrap_or("-")));
    };
    client.put("/v1/log-level", &json!({ "level": level }))?;
    print(&format!("the level is {level} until the next reload\n"))
}

fn reload(client: &Client) -> Result<(), Failure> {
    let applied = client.ask("POST", "/v1/reload?wait")?;
    let version = applied["version"].as_str().unwrap_or_default();
    let mut said = format!("serving configuration {version}\n");
    for change in applied["changes"].as_array().into_iter().flatten().filter_map(Value::as_str) {
        said.push_str(&format!("  {change}\n"));
    }
    print(&said)
}

fn address(argument: Option<AdminAddress>) -> Result<Option<AdminAddress>, Failure> {
    if argument.is_some() {
        return Ok(argument);
    }
    match variable("TIDEGATE_ADMIN")? {
        None => Ok(None),
        Some(typed) => match typed.parse() {
            Ok(address) => Ok(Some(address)),
            Err(why) => Err(Failure::Wrong(format!("TIDEGATE_ADMIN: {why}"))),
        },
    }
}

fn token(file: Option<PathBuf>) -> Result<Option<String>, Failure> {
    let (token, origin) = match file {
        None => (variable("TIDEGATE_TOKEN")?, "TIDEGATE_TOKEN".to_owned()),
        Some(file) => {
            let shown = file.display().to_string();
            let read = std::fs::read_to_string(&file)
                .map_err(|error| Failure::Wrong(format!("cannot read {shown}: {error}")))?;
            (Some(read.trim_end().to_owned()), shown)
        }
    };
    match token {
        // It becomes part of a header field.
        Some(token) if token.is_empty() || !token.bytes().all(|byte| byte.is_ascii_graphic()) => {
            Err(Failure::Wrong(format!("{origin} holds no token: it is one word of ASCII")))
        }
        token => Ok(token),
    }
}

/// Returns an environment variable that is set and not empty.
fn variable(name: &str) -> Result<Option<String>, Failure> {
    match std::env::var(name) {
        Ok(value) if value.is_empty() => Ok(None),
        Ok(value) => Ok(Some(value)),
        Err(std::env::VarError::NotPresent) => Ok(None),
        Err(error) => Err(Failure::Wrong(format!("{name}: {error}"))),
    }
}
