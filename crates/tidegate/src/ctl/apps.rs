//! The output of `ctl apps`: the processes of applications and their last errors, from the JSON of
//! the admin API.

use serde_json::Value;

use super::errors::add_errors;
use super::status::{app_rows, list, text};
use crate::output::columns;

/// Formats the response of `/v1/apps`, of one application or of all.
pub(crate) fn apps_text(apps: &Value) -> String {
    let rows = app_rows(apps);
    if rows.len() == 1 {
        return "no application runs in processes of its own\n".to_owned();
    }
    let mut page = columns(&rows, 0);
    for app in list(apps, "apps") {
        for (member, what) in [
            ("failures", "failures of its processes"),
            ("errors", "exceptions of its requests and jobs"),
        ] {
            add_errors(&mut page, &format!("{}: the last {what}", text(app, "name")), &app[member]);
        }
    }
    page
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::apps_text;

    #[test]
    fn processes_and_the_last_errors() {
        let worker = json!({ "index": 0, "state": "ready", "process": 9, "requests": 4,
                             "in_flight": 1, "rss_bytes": 52428800, "restarts": { "exit": 1 } });
        let failure = json!({ "at": "then", "times": 1, "worker": 1, "request": null,
                              "message": "it was ended by signal 9", "traceback": "" });
        let error = json!({ "at": "now", "times": 3, "worker": 0, "request": "GET /a",
                            "message": "ValueError: \u{1b}[2J\nof two lines",
                            "traceback": "Traceback:\n  File \"shop.py\"\n" });
        let app = json!({ "name": "shop", "workers": [worker], "failures": [failure],
                          "errors": [error] });
        let expected = "\
APP   WORKER  STATE  PROCESS  REQUESTS  IN FLIGHT  MEMORY  RESTARTS
shop  0       ready  9        4         1          50 MiB  1

shop: the last failures of its processes
then worker 1: it was ended by signal 9

shop: the last exceptions of its requests and jobs
now GET /a, worker 0 (3 times): ValueError: \\u{1b}[2J
  of two lines
  Traceback:
    File \"shop.py\"
";
        assert_eq!(apps_text(&json!({ "apps": [app] })), expected);
        let none = apps_text(&json!({ "apps": [] }));
        assert_eq!(none, "no application runs in processes of its own\n");
    }
}
