//! The last errors of programs in the output of `ctl`, from the JSON of the admin API.

use serde_json::Value;

use super::status::text;
use crate::output::add_line;

/// Where an error happened: a member of its JSON, and what is shown in front of it.
const ORIGINS: [(&str, &str); 4] =
    [("request", ""), ("route", "route "), ("program", ""), ("file", "")];

/// Adds errors, the latest first: a line for each, and its stack. Nothing without errors.
pub(super) fn add_errors(page: &mut String, title: &str, errors: &Value) {
    let errors = errors.as_array().map(Vec::as_slice).unwrap_or_default();
    if !errors.is_empty() {
        page.push('\n');
        add_line(page, title);
    }
    for error in errors {
        let origins = ORIGINS.iter().filter_map(|(member, before)| {
            error[member].as_str().map(|origin| format!("{before}{origin}, "))
        });
        let times = error["times"].as_u64().filter(|times| *times > 1);
        let message = text(error, "message");
        let mut lines = message.lines();
        let first = format!(
            "{} {}worker {}{}: {}",
            text(error, "at"),
            origins.collect::<String>(),
            text(error, "worker"),
            times.map(|times| format!(" ({times} times)")).unwrap_or_default(),
            lines.next().unwrap_or_default()
        );
        add_line(page, &first);
        for line in lines.chain(error["traceback"].as_str().unwrap_or_default().lines()) {
            add_line(page, &format!("  {}", line.replace('\t', "  ")));
        }
    }
}
