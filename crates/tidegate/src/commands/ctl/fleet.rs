//! `tidegate ctl apply`, `history`, `rollback` and `nodes`: the configuration in etcd.

use std::path::PathBuf;

use server::EtcdAddress;
use settings::{Duration, Percent};

use super::variable;
use crate::etcd_arguments::EtcdArguments;
use crate::failure::Failure;
use crate::fleet::{AbortCondition, Application, AppliedChange, Fleet, Trial, read_documents};
use crate::output::{columns, print};

/// The fleet of a command.
#[derive(Debug, clap::Args)]
pub(crate) struct FleetArguments {
    /// Where its configuration is: etcd://HOST,…/PREFIX, or etcds:// with TLS [env: TIDEGATE_ETCD]
    #[arg(long, value_name = "URL")]
    etcd: Option<EtcdAddress>,

    #[command(flatten)]
    access: EtcdArguments,
}

impl FleetArguments {
    fn fleet(&self) -> Result<Fleet, Failure> {
        let address = match (&self.etcd, variable("TIDEGATE_ETCD")?) {
            (Some(address), _) => address.clone(),
            (None, Some(text)) => text.parse().map_err(Failure::Wrong)?,
            (None, None) => {
                let why = "name the configuration with --etcd URL or TIDEGATE_ETCD";
                return Err(Failure::Wrong(why.to_owned()));
            }
        };
        let settings = self.access.settings(&address)?;
        Ok(Fleet { address, settings })
    }
}

/// How a change is made.
#[derive(Debug, clap::Args)]
pub(crate) struct ApplicationArguments {
    /// Check it and show the changes, and write nothing
    #[arg(long)]
    dry_run: bool,

    /// Try it on this share of the servers first, such as 5%: then all have it, or none
    #[arg(long, value_name = "SHARE", conflicts_with = "dry_run")]
    canary: Option<Percent>,

    /// How long it is tried
    #[arg(long = "for", value_name = "TIME", default_value = "10m", requires = "canary")]
    duration: Duration,

    /// What ends the trial early: more errors (5xx) than this among the responses of its servers
    #[arg(long, value_name = "CONDITION", default_value = "errors > 1%", requires = "canary")]
    abort_if: AbortCondition,
}

impl From<ApplicationArguments> for Application {
    fn from(arguments: ApplicationArguments) -> Application {
        let ApplicationArguments { dry_run, canary, duration, abort_if } = arguments;
        match canary {
            Some(share) => Application::Canary(Trial { share, duration, abort_if }),
            None if dry_run => Application::DryRun,
            None => Application::AtOnce,
        }
    }
}

/// Make a file, or the documents of a directory, the configuration in etcd
#[derive(Debug, clap::Args)]
pub(crate) struct Apply {
    /// A file, or a directory whose files that end with .yaml, .yml or .json are the documents
    path: PathBuf,

    #[command(flatten)]
    how: ApplicationArguments,

    #[command(flatten)]
    fleet: FleetArguments,
}

impl Apply {
    pub(crate) fn run(self) -> Result<(), Failure> {
        let fleet = self.fleet.fleet()?;
        let texts = read_documents(&self.path)?;
        told(&fleet.apply(texts, &self.how.into())?)
    }
}

/// Show the configurations that were applied
#[derive(Debug, clap::Args)]
pub(crate) struct HistoryOf {
    #[command(flatten)]
    fleet: FleetArguments,
}

impl HistoryOf {
    pub(crate) fn run(self) -> Result<(), Failure> {
        let title = ["VERSION", "APPLIED", "BY", ""].map(str::to_owned);
        let entries = self.fleet.fleet()?.history()?;
        let rows = entries.into_iter().map(|entry| {
            let current = if entry.is_current { "current" } else { "" };
            [entry.version, entry.at, entry.by, current.to_owned()]
        });
        let rows: Vec<_> = [title].into_iter().chain(rows).collect();
        print(&columns(&rows, 0))
    }
}

/// Apply an earlier configuration again
#[derive(Debug, clap::Args)]
pub(crate) struct Rollback {
    /// A version of `ctl history`
    version: String,

    #[command(flatten)]
    how: ApplicationArguments,

    #[command(flatten)]
    fleet: FleetArguments,
}

impl Rollback {
    pub(crate) fn run(self) -> Result<(), Failure> {
        let fleet = self.fleet.fleet()?;
        let texts = fleet.version(&self.version)?;
        told(&fleet.apply(texts, &self.how.into())?)
    }
}

/// Show what each server of the fleet serves
#[derive(Debug, clap::Args)]
pub(crate) struct Nodes {
    #[command(flatten)]
    fleet: FleetArguments,
}

impl Nodes {
    pub(crate) fn run(self) -> Result<(), Failure> {
        let title = ["NODE", "VERSION", "REVISION", "SINCE", "STATE"].map(str::to_owned);
        let rows: Vec<_> = [title].into_iter().chain(self.fleet.fleet()?.nodes()?).collect();
        print(&columns(&rows, 0))
    }
}

fn told(applied: &AppliedChange) -> Result<(), Failure> {
    let mut text = match applied.revision {
        Some(revision) => format!("version {} is revision {revision}\n", applied.version),
        None if applied.changes.is_empty() => format!("version {} is applied\n", applied.version),
        None => format!("version {} would change\n", applied.version),
    };
    for change in &applied.changes {
        text.push_str(&format!("  {change}\n"));
    }
    for note in &applied.notes {
        text.push_str(&format!("note: {note}\n"));
    }
    print(&text)
}
