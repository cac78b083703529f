//! `tidegate ctl log`: finished requests as they happen.

use super::caches::encoded;
use crate::ctl::{Client, request_text};
use crate::failure::Failure;
use crate::output::{print, print_bytes};
use crate::terminal::json_for_terminal;

/// Show the next finished request, with each step and its time; or all of them, as they happen
///
/// Requests are recorded from now on, and only while a client watches. Secrets in queries are
/// masked, control characters are escaped.
#[derive(Debug, clap::Args)]
pub(super) struct LogOf {
    /// Only requests of this route
    #[arg(long)]
    route: Option<String>,

    /// Only responses with this status: 404, 400-499 or 5xx
    #[arg(long)]
    status: Option<String>,

    /// Only requests that took at least this long, such as 200ms
    #[arg(long, value_name = "DURATION")]
    slow: Option<String>,

    /// Only requests that fulfil this condition: a variable, then ==, !=, =~, !~, ^=, $= or *= and
    /// a value, as in 'header.x-user == "7"'; may be repeated
    #[arg(long, value_name = "CONDITION")]
    r#where: Vec<String>,

    /// Show requests until interrupted
    #[arg(long, short)]
    follow: bool,

    /// End after this many requests [default: 1]
    #[arg(long, value_name = "N", conflicts_with = "follow")]
    count: Option<u64>,

    /// Print each request as JSON on a line of its own
    #[arg(long)]
    json: bool,
}

impl LogOf {
    pub(super) fn run(self, client: &Client) -> Result<(), Failure> {
        client.follow(&self.target(), |line| {
            if self.json {
                return print_bytes(format!("{}\n", json_for_terminal(line)).as_bytes());
            }
            let request = serde_json::from_str(line).map_err(|error| {
                Failure::Failed(format!("the server sent a line that is not JSON: {error}"))
            })?;
            print(&request_text(&request))
        })
    }

    fn target(&self) -> String {
        let single = [("route", &self.route), ("status", &self.status), ("slow", &self.slow)];
        let single = single.into_iter().filter_map(|(name, value)| Some((name, value.clone()?)));
        let conditions = self.r#where.iter().map(|condition| ("where", condition.clone()));
        let count = (!self.follow).then(|| ("count", self.count.unwrap_or(1).to_string()));
        let parameters: Vec<String> = single
            .chain(conditions)
            .chain(count)
            .map(|(name, value)| format!("{name}={}", encoded(&value)))
            .collect();
        match parameters.is_empty() {
            true => "/v1/log".to_owned(),
            false => format!("/v1/log?{}", parameters.join("&")),
        }
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::LogOf;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        log: LogOf,
    }

    fn target(words: &[&str]) -> Option<String> {
        let line = [&["log"], words].concat();
        Some(Line::try_parse_from(line).ok()?.log.target())
    }

    #[test]
    fn arguments_become_parameters() {
        assert_eq!(target(&[]).as_deref(), Some("/v1/log?count=1"));
        assert_eq!(target(&["--follow"]).as_deref(), Some("/v1/log"));
        let words = ["-f", "--status", "5xx", "--where", "header.a == \"7\"", "--where", "path"];
        let expected = "/v1/log?status=5xx&where=header.a%20%3D%3D%20%227%22&where=path";
        assert_eq!(target(&words).as_deref(), Some(expected));
        assert_eq!(target(&["--follow", "--count", "2"]), None);
    }
}
