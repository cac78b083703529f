//! Tables of metrics hold no row that nothing moves: what stands in /metrics and in the reference
//! is counted somewhere.

use crate::source::{code_of, words_in};
use std::fs;
use std::path::Path;

const REASONS: &str = "crates/telemetry/src/reasons.rs";
const FAMILIES: &str = "crates/telemetry/src/families.rs";

/// What each row is called where it is counted: `CloseReason::Malformed`.
fn reasons(table: &str) -> Vec<String> {
    let mut rows = Vec::new();
    let mut kind = "";
    for line in table.lines().map(str::trim) {
        if let Some(name) = line.strip_suffix(" {") {
            kind = name;
        } else if line.ends_with("\";")
            && let Some((name, _)) = line.split_once(", \"")
        {
            rows.push(format!("{kind}::{name}"));
        }
    }
    rows
}

/// `REQUESTS = "tidegate_requests_total", …` is `REQUESTS`.
fn families(table: &str) -> Vec<String> {
    let names = table.lines().filter_map(|line| line.trim().split_once(" = \""));
    let is_name = |name: &&str| name.chars().all(|c| c.is_ascii_uppercase() || c == '_');
    names.map(|(name, _)| name).filter(is_name).map(str::to_owned).collect()
}

#[test]
fn every_row_of_a_table_of_metrics_is_counted_somewhere() {
    let workspace = &crate::root();
    let table = |name: &str| fs::read_to_string(workspace.join(name)).expect("a table");
    let mut rows = reasons(&table(REASONS));
    rows.extend(families(&table(FAMILIES)));
    assert!(rows.len() > 80, "only {} rows were found: have the tables moved?", rows.len());
    let mut code = String::new();
    gather(&workspace.join("crates"), workspace, &mut code);
    rows.retain(|name| words_in(&code, name).next().is_none());
    assert!(rows.is_empty(), "nothing counts\n{}", rows.join("\n"));
}

/// Code without its tests, the tables apart.
fn gather(directory: &Path, workspace: &Path, code: &mut String) {
    for entry in fs::read_dir(directory).expect("a readable directory") {
        let path = entry.expect("a readable entry").path();
        let name = path.strip_prefix(workspace).expect("inside").to_string_lossy().into_owned();
        if path.is_dir() && !path.ends_with("tests") {
            gather(&path, workspace, code);
        } else if name.ends_with(".rs")
            && !name.ends_with("tests.rs")
            && name != REASONS
            && name != FAMILIES
        {
            code.push_str(&code_of(&fs::read_to_string(&path).expect("text")));
        }
    }
}
