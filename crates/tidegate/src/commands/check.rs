//! `tidegate check [FILE]`: every mistake of a configuration at once.

use std::path::PathBuf;

use config::FileSource;

use super::up::exists;
use crate::failure::Failure;
use crate::output::print;

const EXAMPLES: &str = "\
A mistake is shown with its file, line and column, and the word that was probably meant. What is
right and may surprise is noted. Nothing is bound and nobody is asked: what the machine will say is
known only when the server starts.

Examples:
  tidegate check
  tidegate check site.yaml && tidegate ctl reload --wait";

/// Say what is wrong with a configuration, all at once
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Check {
    /// The configuration
    #[arg(default_value = super::DEFAULT_FILE)]
    file: PathBuf,
}

impl Check {
    pub(crate) fn run(self) -> Result<(), Failure> {
        exists(&self.file)?;
        let plan = super::load(&FileSource::new(self.file))?;
        let counted = [
            count(plan.routes.len(), "route"),
            count(plan.upstreams.len(), "upstream"),
            count(plan.listeners.len(), "listener"),
        ];
        let notes = config::notes(&plan).into_iter().map(|note| format!("note: {note}\n"));
        print(&format!("ok: {}\n{}", counted.join(", "), notes.collect::<String>()))
    }
}

fn count(number: usize, what: &str) -> String {
    match number {
        1 => format!("1 {what}"),
        _ => format!("{number} {what}s"),
    }
}
