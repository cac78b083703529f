//! `tidegate ctl upstreams`: servers, their health and its history; draining and weights.

use serde_json::{Value, json};

use super::caches::encoded;
use super::named::only_named;
use super::show;
use crate::ctl::{Client, health_history_table, upstreams_table};
use crate::failure::Failure;
use crate::output::print;

/// Show upstreams and their servers, or change a server until the next reload
#[derive(Debug, clap::Args)]
#[command(group = clap::ArgGroup::new("change").args(["drain", "ready", "weight"]).multiple(true))]
pub(super) struct UpstreamsOf {
    /// The upstream [default: all]
    name: Option<String>,

    /// The server to change: its address, or its entry in `servers`
    #[arg(long, requires_all = ["name", "change"])]
    server: Option<String>,

    /// Give it no further requests; those in flight finish
    #[arg(long, requires = "server")]
    drain: bool,

    /// Give it requests again
    #[arg(long, requires = "server", conflicts_with = "drain")]
    ready: bool,

    /// Replace its weight, 1 to 1000
    #[arg(long, value_name = "N", requires = "server")]
    weight: Option<u32>,

    /// Show the last changes of the health of its servers instead
    #[arg(long, requires = "name", conflicts_with = "server")]
    history: bool,

    /// Print the response of the API as JSON
    #[arg(long)]
    json: bool,
}

impl UpstreamsOf {
    pub(super) fn run(self, client: &Client) -> Result<(), Failure> {
        if let (Some(name), true) = (&self.name, self.history) {
            let path = format!("/v1/upstreams/{}/history", encoded(name));
            let history = client.ask("GET", &path)?;
            return show(&history, self.json, health_history_table);
        }
        if let (Some(name), Some(server)) = (&self.name, &self.server) {
            client.post(&format!("/v1/upstreams/{}/servers", encoded(name)), &self.body(server))?;
            if !self.json {
                print(&format!("changed {server} until the next reload\n"))?;
            }
        }
        let mut upstreams = client.ask("GET", "/v1/upstreams")?;
        if let Some(name) = &self.name {
            only_named(&mut upstreams["upstreams"], name, "upstream")?;
        }
        show(&upstreams, self.json, upstreams_table)
    }

    fn body(&self, server: &str) -> Value {
        let mut body = json!({ "server": server });
        if self.drain || self.ready {
            body["drain"] = json!(self.drain);
        }
        if let Some(weight) = self.weight {
            body["weight"] = json!(weight);
        }
        body
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;
    use serde_json::{Value, json};

    use super::UpstreamsOf;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        upstreams: UpstreamsOf,
    }

    fn body(words: &[&str]) -> Option<Value> {
        let line = [&["upstreams", "app", "--server", "a:1"], words].concat();
        Some(Line::try_parse_from(line).ok()?.upstreams.body("a:1"))
    }

    #[test]
    fn a_change_names_a_server_and_what_changes() {
        assert_eq!(body(&["--drain"]), Some(json!({ "server": "a:1", "drain": true })));
        let both = body(&["--ready", "--weight", "3"]);
        assert_eq!(both, Some(json!({ "server": "a:1", "drain": false, "weight": 3 })));
        assert_eq!(body(&["--drain", "--ready"]), None);
        assert_eq!(body(&[]), None);
        assert!(Line::try_parse_from(["upstreams", "app", "--drain"]).is_err());
        assert!(Line::try_parse_from(["upstreams"]).is_ok());
        assert!(Line::try_parse_from(["upstreams", "app", "--history"]).is_ok());
        assert!(Line::try_parse_from(["upstreams", "--history"]).is_err());
    }
}
