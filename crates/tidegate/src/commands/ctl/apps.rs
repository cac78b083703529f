//! `tidegate ctl apps`: the processes of applications, and the last errors.

use super::named::only_named;
use super::show;
use crate::ctl::{Client, apps_text};
use crate::failure::Failure;

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
        show(&apps, self.json, apps_text)
    }
}
