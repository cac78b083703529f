//! Errors and notes of a configuration as SARIF 2.1.0 (OASIS), which editors and CI systems read.

use std::fmt::Write;

use serde_json::{Value, json};
use settings::{Diagnostic, Report};

const SCHEMA: &str = "https://json.schemastore.org/sarif-2.1.0.json";

/// The rule of all notes.
const NOTE: &str = "note";

pub(super) fn of_errors(report: &Report) -> Value {
    let errors = report.errors();
    let results = errors.iter().map(|error| result(report, error)).collect();
    log(errors.iter().map(|error| error.rule).collect(), results)
}

pub(super) fn of_notes(notes: &[String]) -> Value {
    let result =
        |note: &String| json!({ "ruleId": NOTE, "level": "note", "message": { "text": note } });
    log(vec![NOTE; notes.len().min(1)], notes.iter().map(result).collect())
}

/// Returns a log with one run, also without results: readers take it as the new state.
fn log(mut rules: Vec<&str>, results: Vec<Value>) -> Value {
    rules.sort_unstable();
    rules.dedup();
    let rules: Vec<Value> = rules.into_iter().map(|rule| json!({ "id": rule })).collect();
    let driver = json!({
        "name": "tidegate",
        "version": env!("CARGO_PKG_VERSION"),
        "informationUri": env!("CARGO_PKG_REPOSITORY"),
        "rules": rules,
    });
    let run = json!({
        "tool": { "driver": driver },
        "columnKind": "unicodeCodePoints",
        "results": results,
    });
    json!({ "$schema": SCHEMA, "version": "2.1.0", "runs": [run] })
}

fn result(report: &Report, error: &Diagnostic) -> Value {
    let text = match &error.help {
        Some(help) => format!("{} (help: {help})", error.message),
        None => error.message.clone(),
    };
    let mut result = json!({
        "ruleId": error.rule,
        "level": "error",
        "message": { "text": text },
    });
    if let Some(file) = report.file(error.span) {
        result["locations"] = json!([{
            "physicalLocation": {
                "artifactLocation": { "uri": uri(file) },
                "region": {
                    "startLine": error.span.line,
                    "startColumn": error.span.column,
                    "endLine": error.span.end_line,
                    "endColumn": error.span.end_column,
                },
            },
        }]);
    }
    result
}

/// Returns a path as a URI, relative if the path is (RFC 3986).
fn uri(path: &str) -> String {
    let mut uri = String::from(if path.starts_with('/') { "file://" } else { "" });
    for byte in path.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' | b'/' => {
                uri.push(char::from(byte));
            }
            // Writing to a string cannot fail.
            _ => drop(write!(uri, "%{byte:02X}")),
        }
    }
    uri
}

#[cfg(test)]
mod tests {
    use super::uri;

    #[test]
    fn paths_are_uris() {
        assert_eq!(uri("conf d/a:b.yaml"), "conf%20d/a%3Ab.yaml");
        assert_eq!(uri("/etc/ü.yaml"), "file:///etc/%C3%BC.yaml");
    }
}
