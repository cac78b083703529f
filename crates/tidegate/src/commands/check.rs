//! `tidegate check [FILE]`: all errors of a configuration at once.

mod sarif;

use std::io::Read;
use std::path::{Path, PathBuf};

use config::{Document, FileSource, Incomplete, Source};

use super::up::exists;
use crate::failure::Failure;
use crate::output::{print, print_json};

const EXAMPLES: &str = "\
An error is shown with its file, line and column, and the word that was probably meant. A note is
about something that is valid and may surprise. Nothing is bound or connected: an address
in use, for example, is found when the server starts.

Examples:
  tidegate check
  tidegate check site.yaml && tidegate ctl reload --wait
  envsubst < template.yaml | tidegate check -
  tidegate check --allow-unset-env --json > check.sarif";

/// Validate a configuration and report all errors
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Check {
    /// The configuration; - is standard input, whose relative paths start at this directory
    #[arg(default_value = super::DEFAULT_FILE)]
    file: PathBuf,

    /// Print errors and notes to standard output as SARIF 2.1.0, for editors and CI
    #[arg(long)]
    json: bool,

    /// Accept environment variables that are not set; values that depend on them are not checked
    #[arg(long)]
    allow_unset_env: bool,
}

impl Check {
    pub(crate) fn run(self) -> Result<(), Failure> {
        let source: Box<dyn Source> = if self.file == Path::new("-") {
            Box::new(StandardInput::read()?)
        } else {
            exists(&self.file)?;
            Box::new(FileSource::new(self.file))
        };
        let (environment, kinds) = (&config::process_environment, config::Kinds::all());
        let checked = match self.allow_unset_env {
            true => config::load_with_unset_variables(&*source, environment, &kinds),
            false => config::load(&*source, environment, &kinds)
                .map(|loaded| Incomplete { plan: Some(loaded.plan), unset: Vec::new() }),
        };
        match (checked, self.json) {
            (Ok(checked), false) => print(&summary(&checked)),
            (Ok(checked), true) => print_json(&sarif::of_notes(&notes(&checked))),
            (Err(report), false) => Err(Failure::Errors(report.render())),
            (Err(report), true) => {
                print_json(&sarif::of_errors(&report))?;
                Err(Failure::Exit(2))
            }
        }
    }
}

fn notes(checked: &Incomplete) -> Vec<String> {
    let unset = checked.unset.iter();
    let unset = unset.map(|name| format!("{name} is not set: what depends on it was not checked"));
    unset.chain(checked.plan.iter().flat_map(|plan| config::notes(plan))).collect()
}

fn summary(checked: &Incomplete) -> String {
    let counted = match &checked.plan {
        Some(plan) => {
            let mut counts = vec![
                count(plan.routes.len(), "route"),
                count(plan.upstreams.len(), "upstream"),
                count(plan.listeners.len(), "listener"),
            ];
            if !plan.streams.is_empty() {
                counts.push(count(plan.streams.len(), "stream"));
            }
            counts.join(", ")
        }
        None => "no errors in what could be checked".to_owned(),
    };
    let notes = notes(checked).into_iter().map(|note| format!("note: {note}\n"));
    format!("ok: {counted}\n{}", notes.collect::<String>())
}

fn count(number: usize, what: &str) -> String {
    match number {
        1 => format!("1 {what}"),
        _ => format!("{number} {what}s"),
    }
}

/// A configuration on standard input, with includes from files.
struct StandardInput {
    document: Document,
}

impl StandardInput {
    fn read() -> Result<Self, Failure> {
        let failed = |error: std::io::Error| {
            Failure::Failed(format!("cannot read the configuration from standard input: {error}"))
        };
        let mut text = String::new();
        std::io::stdin().lock().read_to_string(&mut text).map_err(failed)?;
        let dir = std::env::current_dir().map_err(failed)?;
        Ok(StandardInput { document: Document { name: "stdin".to_owned(), text, dir: Some(dir) } })
    }
}

impl Source for StandardInput {
    fn main(&self) -> Result<Document, String> {
        Ok(self.document.clone())
    }

    fn included(&self, pattern: &str, dir: Option<&Path>) -> Result<Vec<Document>, String> {
        FileSource::new("stdin").included(pattern, dir)
    }
}
