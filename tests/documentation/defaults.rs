//! The defaults that tables of the guides name are those of the generated reference.

use serde_json::Value;

/// Rows `| \`key\` | default |` behind a heading cell, and the declaration they speak of.
const TABLES: &[(&str, &str, &str)] = &[
    ("docs/guide/operating.md", "| `limits.` |", "config.records.bounds.Limits"),
    ("docs/guide/operating.md", "| `timeouts.` |", "config.records.bounds.Timeouts"),
    (
        "docs/guide/operating.md",
        "| `upstreams.NAME.timeouts.` |",
        "upstream.settings.TimeoutSettings",
    ),
];

#[test]
fn tables_of_defaults_agree_with_the_reference() {
    let read = |path: &str| std::fs::read_to_string(crate::workspace().join(path)).expect(path);
    let schema: Value = serde_json::from_str(&read("docs/reference/schema.json")).expect("JSON");
    let mut wrong = Vec::new();
    for (page, heading, declaration) in TABLES {
        let text = read(page);
        let table = text.lines().skip_while(|line| !line.starts_with(heading)).skip(2);
        let rows: Vec<_> = table.take_while(|line| line.starts_with("| `")).collect();
        assert!(rows.len() >= 3, "{page}: no table {heading}");
        for row in rows {
            let cells: Vec<_> = row.trim_matches('|').split('|').map(str::trim).collect();
            // A row may be of two keys that belong together.
            for (key, told) in cells[0].split(", ").zip(cells[1].split(", ")) {
                let key = key.trim_matches('`');
                let declared = &schema["$defs"][*declaration]["properties"][key]["default"];
                let declared = match declared {
                    Value::Null => "none".to_owned(),
                    Value::String(text) => text.clone(),
                    other => other.to_string(),
                };
                if declared != told {
                    wrong.push(format!("{page}: `{key}` is {declared} by default, not {told}"));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "\n{}", wrong.join("\n"));
}
