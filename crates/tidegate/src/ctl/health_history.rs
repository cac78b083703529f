//! The output of `ctl upstreams NAME --history`, from the JSON of the admin API.

use serde_json::Value;

use super::status::{heads, list, text};
use crate::output::columns;

/// Formats the response of `/v1/upstreams/NAME/history` as a table.
pub(crate) fn health_history_table(history: &Value) -> String {
    let mut rows = heads(["TIME", "SERVER", "STATE", "WHY"]);
    rows.extend(list(history, "changes").map(|change| {
        let member = |name| text(change, name);
        [member("at"), member("server"), member("state"), member("why")]
    }));
    match rows.len() {
        1 => "no server has changed its health\n".to_owned(),
        _ => columns(&rows, 0),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::health_history_table;

    #[test]
    fn changes_of_health() {
        let change =
            json!({ "at": "now", "server": "a:1", "state": "unhealthy", "why": "\u{1b}[2J" });
        let page = health_history_table(&json!({ "changes": [change] }));
        assert!(page.ends_with("now   a:1     unhealthy  \\u{1b}[2J\n"), "{page}");
        let none = health_history_table(&json!({ "changes": [] }));
        assert_eq!(none, "no server has changed its health\n");
    }
}
