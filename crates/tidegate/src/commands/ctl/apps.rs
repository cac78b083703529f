//! `tidegate ctl apps`: the processes of applications, and the last errors.

use super::named::only_named;
use crate::ctl::{Client, apps_text, json_for_terminal};
use crate::failure::Failure;
use crate::output::print;

/// Show applications: their processes, and the last errors with their stacks
#[derive(Debug, clap::Args)]
pub(super) struct AppsOf {
    /// The application [default: all]
    name: Option<String>,

    /// Print the response of the API as JSON
    #[arg(long)]
    json: bool,
}

impl AppsOf {
    pub(super) fn run(self, client: &Client) -> Result<(), Failure> {
        let mut apps = client.ask("GET", "/v1/apps")?;
        if let Some(name) = &self.name {
            only_named(&mut apps["apps"], name, "app")?;
        }
        print(&match self.json {
            true => json_for_terminal(&format!("{apps:#}\n")),
            false => apps_text(&apps),
        })
    }
}
