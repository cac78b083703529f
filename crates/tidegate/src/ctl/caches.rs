//! The output of `ctl caches`: one line per cache, from the JSON of the admin API.

use serde_json::Value;
use settings::Size;

use super::status::{heads, list, text};
use crate::output::{add_line, columns};

/// Formats the response of `/v1/caches` as a table.
pub(crate) fn table(caches: &Value) -> String {
    let mut rows = heads([
        "CACHE",
        "OBJECTS",
        "MEMORY",
        "OF",
        "DISK",
        "HITS",
        "STALE",
        "MISSES",
        "PASSES",
        "HIT RATIO",
        "ROUTES",
    ]);
    for cache in list(caches, "caches") {
        let [hits, stale, misses, passes] =
            ["hits", "stale", "misses", "passes"].map(|name| sum(&cache[name]));
        let asked = hits + stale + misses;
        let ratio = match asked {
            0 => "-".to_owned(),
            _ => format!("{:.1} %", (hits + stale) as f64 * 100.0 / asked as f64),
        };
        let routes: Vec<&str> = list(cache, "routes").filter_map(Value::as_str).collect();
        rows.push([
            text(cache, "name"),
            text(cache, "objects"),
            bytes(&cache["bytes"]),
            bytes(&cache["memory_bytes"]),
            disk(&cache["disk"]),
            hits.to_string(),
            stale.to_string(),
            misses.to_string(),
            passes.to_string(),
            ratio,
            routes.join(", "),
        ]);
    }
    if rows.len() == 1 {
        return "the configuration has no caches\n".to_owned();
    }
    let mut page = columns(&rows, 0);
    for cache in list(caches, "caches") {
        if let Some(why) = cache["disk"]["failed"].as_str() {
            let (name, path) = (text(cache, "name"), text(&cache["disk"], "path"));
            page.push('\n');
            add_line(&mut page, &format!("disk of {name} failed: {path} {why}"));
        }
    }
    page
}

/// Formats the response of `/v1/caches/NAME/top` as two tables.
pub(crate) fn top_entries_tables(top: &Value) -> String {
    let parts = [("Most hits", "by_hits"), ("Most memory", "by_memory")];
    let table = |(title, list_name): (&str, &str)| {
        let mut rows =
            heads(["HITS", "MEMORY", "CONTENT", "STATUS", "AGE", "FRESH", "CODING", "URL"]);
        for entry in list(top, list_name) {
            let seconds = |name: &str| match entry[name].as_i64() {
                Some(seconds) => format!("{seconds}s"),
                None => "-".to_owned(),
            };
            rows.push([
                text(entry, "hits"),
                bytes(&entry["memory_bytes"]),
                bytes(&entry["bytes"]),
                text(entry, "status"),
                seconds("age_s"),
                seconds("fresh_s"),
                entry["coding"].as_str().unwrap_or("-").to_owned(),
                text(entry, "url"),
            ]);
        }
        match rows.len() {
            1 => format!("{title}: none\n"),
            _ => format!("{title}\n{}", columns(&rows, 0)),
        }
    };
    parts.map(table).join("\n")
}

/// Formats the response of `/v1/caches/NAME/preview`.
pub(crate) fn preview_text(preview: &Value) -> String {
    let (urls, responses) = (list(preview, "urls"), text(preview, "responses"));
    let at_most = if preview["is_upper_bound"] == true { "at most " } else { "" };
    let mut page = format!("would purge {at_most}{responses}, nothing was purged\n");
    urls.filter_map(Value::as_str).for_each(|url| add_line(&mut page, &format!("  {url}")));
    page
}

/// Formats the content of a disk tier, or its failure.
fn disk(disk: &Value) -> String {
    match &disk["failed"] {
        Value::String(_) => "failed".to_owned(),
        _ => bytes(&disk["bytes"]),
    }
}

/// Formats a number, or the sum of numbers by reason.
pub(super) fn sum(value: &Value) -> u64 {
    match value {
        Value::Object(members) => members.values().filter_map(Value::as_u64).sum(),
        other => other.as_u64().unwrap_or(0),
    }
}

/// Formats a number of bytes with about three digits.
pub(super) fn bytes(value: &Value) -> String {
    let Some(bytes) = value.as_u64() else { return "-".to_owned() };
    match bytes {
        0..1024 => Size::from_bytes(bytes).to_string(),
        1024..1_048_576 => format!("{:.1}KiB", bytes as f64 / 1024.0),
        1_048_576..1_073_741_824 => format!("{:.1}MiB", bytes as f64 / 1_048_576.0),
        _ => format!("{:.1}GiB", bytes as f64 / 1_073_741_824.0),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::{preview_text, table, top_entries_tables};

    #[test]
    fn a_preview_names_some_urls() {
        let preview =
            json!({ "responses": 7, "is_upper_bound": true, "urls": ["http://a/\u{1b}[2J"] });
        let expected = "would purge at most 7, nothing was purged\n  http://a/\\u{1b}[2J\n";
        assert_eq!(preview_text(&preview), expected);
        let nothing = json!({ "responses": 0, "is_upper_bound": false, "urls": [] });
        assert_eq!(preview_text(&nothing), "would purge 0, nothing was purged\n");
    }

    #[test]
    fn the_top_responses_in_two_tables() {
        let entry = json!({
            "url": "http://a/\u{1b}[2J", "hits": 7, "memory_bytes": 2048, "bytes": 100,
            "status": 200, "age_s": 3, "fresh_s": -1, "coding": null,
        });
        let page = top_entries_tables(&json!({ "by_hits": [entry], "by_memory": [] }));
        let row = "7     2.0KiB  100B     200     3s   -1s    -       http://a/\\u{1b}[2J\n";
        assert!(page.starts_with("Most hits\n") && page.contains(row), "{page}");
        assert!(page.ends_with("\nMost memory: none\n"), "{page}");
    }

    #[test]
    fn caches_at_a_glance() {
        let caches = json!({ "caches": [{
            "name": "pages", "routes": ["shop", "blog"], "objects": 3, "bytes": 1536,
            "memory_bytes": 67108864, "hits": 6, "stale": { "error": 1 },
            "misses": { "uri-miss": 2, "stale": 1 }, "passes": 0,
        }] });
        let page = table(&caches);
        let row = "pages  3        1.5KiB  64.0MiB  -     6     1      3       0       70.0 %     ";
        assert!(page.contains(&format!("{row}shop, blog\n")), "{page}");
        let disk = |failed: Option<&str>| {
            let disk = json!({ "path": "/var/cache/a", "bytes": 2048, "failed": failed });
            table(&json!({ "caches": [{ "name": "pages", "disk": disk }] }))
        };
        assert!(disk(None).contains(" 2.0KiB "), "{}", disk(None));
        let failed = disk(Some("cannot be opened: Permission denied (os error 13)"));
        let line = "disk of pages failed: /var/cache/a cannot be opened: Permission denied";
        assert!(failed.contains(" failed  ") && failed.contains(line), "{failed}");
        assert_eq!(table(&json!({ "caches": [] })), "the configuration has no caches\n");
    }
}
