//! What a file may look like: its contract, its size, its words. clippy and rustfmt do the rest.

use crate::layers::EMPTY_NAMES;
use crate::source::{code_lines, code_of, functions_in, tests_in, words_in};
use std::fs;
use std::path::Path;

/// Code lines of a file, without the tests in it; a file of tests has no more.
const FILE_LINES_MAX: usize = 500;
/// Code lines of a function, its signature included.
const FUNCTION_LINES_MAX: usize = 70;
const COLUMNS_MAX: usize = 100;

/// Crates that may use `unsafe`, always under a comment that says why it is sound.
const UNSAFE_CRATES: &[&str] =
    &["crates/net/", "crates/bench/", "crates/lua-vm/", "crates/python/"];
/// How far above its block that comment may begin.
const SAFETY_LINES: usize = 6;

/// Notes of work left undone. In two halves, or this file would hold them.
const UNFINISHED: &[&str] = &[concat!("TO", "DO"), concat!("FIX", "ME"), concat!("X", "XX")];
const SWITCHED_OFF: &[&str] =
    &[concat!("#[ig", "nore"), concat!("todo", "!("), concat!("unimple", "mented!(")];
/// What a merge leaves where two sides changed the same lines.
const CONFLICTS: &[&str] = &[concat!("<<<<", "<<< "), concat!(">>>>", ">>> ")];
/// Directories that exist on one machine only.
const MACHINE_PATHS: &[&str] =
    &[concat!("/wo", "rk/"), concat!("/ro", "ot/"), concat!("/ho", "me/"), concat!("/Us", "ers/")];

const DIRECTORIES_SKIPPED: &[&str] =
    &[".git", "target", "corpus", "artifacts", "node_modules", "__pycache__", "bench-results"];
const FILES_SKIPPED: &[&str] = &["LICENSE", "Cargo.lock"];

#[test]
fn every_file_is_tidy() {
    let workspace = &crate::root();
    let mut complaints = Vec::new();
    let mut files = 0;
    visit(workspace, &mut |path| {
        // What is not text is a fixture.
        let Ok(text) = fs::read_to_string(path) else { return };
        let name = path.strip_prefix(workspace).expect("inside").to_string_lossy();
        files += 1;
        complaints.extend(complaints_of(&name, &text));
    });
    assert!(files > 40, "only {files} files were found: is this the workspace?");
    assert!(complaints.is_empty(), "\n{}", complaints.join("\n"));
}

pub(crate) fn visit(directory: &Path, found: &mut impl FnMut(&Path)) {
    for entry in fs::read_dir(directory).expect("a readable directory") {
        let entry = entry.expect("a readable entry");
        let name = entry.file_name();
        let name = name.to_string_lossy();
        let kind = entry.file_type().expect("an entry has a type");
        if kind.is_dir() && !DIRECTORIES_SKIPPED.contains(&name.as_ref()) {
            visit(&entry.path(), found);
        } else if kind.is_file() && !FILES_SKIPPED.contains(&name.as_ref()) {
            found(&entry.path());
        }
    }
}

fn complaints_of(name: &str, text: &str) -> Vec<String> {
    let mut complaints = words(text);
    if name.ends_with(".rs") {
        complaints.extend(rust(name, text));
    }
    if name.ends_with(".rs") || name.ends_with(".py") || text.starts_with("#!/") {
        let wide = |(_, line): &(usize, &str)| line.chars().count() > COLUMNS_MAX;
        let lines = text.lines().enumerate().filter(wide);
        complaints.extend(lines.map(|(at, _)| format!("{}: past {COLUMNS_MAX} columns", at + 1)));
    }
    complaints.into_iter().map(|complaint| format!("{name}:{complaint}")).collect()
}

fn words(text: &str) -> Vec<String> {
    let mut complaints = Vec::new();
    for (at, line) in text.lines().enumerate() {
        let unfinished = UNFINISHED.iter().filter(|word| words_in(line, word).next().is_some());
        let banned = SWITCHED_OFF.iter().chain(MACHINE_PATHS).filter(|word| line.contains(**word));
        let conflict = CONFLICTS.iter().filter(|mark| line.starts_with(**mark));
        let found = unfinished.chain(banned).chain(conflict);
        complaints.extend(found.map(|word| format!("{}: {word}", at + 1)));
    }
    complaints
}

fn rust(name: &str, text: &str) -> Vec<String> {
    let mut complaints = Vec::new();
    if !text.starts_with("//!") {
        complaints.push("1: opens without its contract (//!)".to_owned());
    }
    let parts: Vec<&str> = name.trim_end_matches(".rs").split('/').collect();
    if let Some(empty) = parts.iter().find(|part| EMPTY_NAMES.contains(part)) {
        complaints.push(format!("1: {empty} is a name that says nothing"));
    }
    let code = code_of(text);
    let line_of = |at: usize| code[..at].matches('\n').count() + 1;
    complaints.extend(unsafe_blocks(name, text, &code));
    let is_test = parts.iter().any(|part| *part == "tests" || *part == "testing");
    let tests = if is_test { Vec::new() } else { tests_in(&code) };
    let in_tests = |at: usize| tests.iter().any(|range| range.contains(&at));
    let test_lines: usize = tests.iter().map(|range| code_lines(&code[range.clone()])).sum();
    let lines = code_lines(&code) - test_lines;
    if lines > FILE_LINES_MAX {
        complaints.push(format!("1: {lines} lines of code, past {FILE_LINES_MAX}"));
    }
    if is_test {
        return complaints;
    }
    for (function, range) in functions_in(&code) {
        let lines = code_lines(&code[range.clone()]);
        if lines > FUNCTION_LINES_MAX && !in_tests(range.start) {
            complaints.push(format!(
                "{}: fn {function} has {lines} lines, past {FUNCTION_LINES_MAX}",
                line_of(range.start)
            ));
        }
    }
    complaints
}

fn unsafe_blocks(name: &str, text: &str, code: &str) -> Vec<String> {
    let allowed = UNSAFE_CRATES.iter().any(|prefix| name.starts_with(prefix));
    let lines: Vec<&str> = text.lines().collect();
    let mut complaints = Vec::new();
    for (at, _) in words_in(code, "unsafe") {
        let line = code[..at].matches('\n').count();
        // A function that C calls declares no more than that; the blocks inside say why they hold.
        if code[at..].starts_with("unsafe extern") {
            continue;
        }
        let above = &lines[line.saturating_sub(SAFETY_LINES)..=line];
        if !allowed {
            complaints.push(format!("{}: unsafe outside {UNSAFE_CRATES:?}", line + 1));
        } else if !above.iter().any(|line| line.to_ascii_lowercase().contains("safety")) {
            complaints.push(format!("{}: unsafe without a SAFETY comment above it", line + 1));
        }
    }
    complaints
}

#[test]
fn each_untidiness_is_seen() {
    let count = |name: &str, text: &str| complaints_of(name, text).len();
    assert_eq!(count("crates/wire/src/date.rs", "//! Dates.\nfn a() {}\n"), 0);
    assert_eq!(count("crates/wire/src/date.rs", "fn a() {}\n"), 1, "no contract");
    assert_eq!(count("crates/wire/src/util/date.rs", "//! Dates.\n"), 1, "an empty name");

    let long = |lines: usize| format!("//! A.\nfn a() {{\n{}}}\n", "    b();\n".repeat(lines));
    assert_eq!(count("crates/a.rs", &long(FUNCTION_LINES_MAX - 2)), 0);
    assert_eq!(count("crates/a.rs", &long(FUNCTION_LINES_MAX - 1)), 1, "a long function");
    assert_eq!(count("crates/a/tests.rs", &long(FUNCTION_LINES_MAX)), 0, "a test");
    let test = long(FUNCTION_LINES_MAX).replace("fn a", "#[cfg(test)]\nmod tests");
    assert_eq!(count("crates/a.rs", &test), 0, "tests in the file");
    let file = |lines: usize| format!("//! A.\n{}", "use b;\n".repeat(lines));
    assert_eq!(count("crates/a.rs", &file(FILE_LINES_MAX)), 0);
    assert_eq!(count("crates/a.rs", &file(FILE_LINES_MAX + 1)), 1, "a long file");
    assert_eq!(count("crates/a/tests.rs", &file(FILE_LINES_MAX + 1)), 1, "a long file of tests");
    assert_eq!(count("tests/a.py", &"é".repeat(COLUMNS_MAX)), 0);
    assert_eq!(count("tests/a.py", &"é".repeat(COLUMNS_MAX + 1)), 1, "a long line");

    let block = "//! A.\nfn a() { unsafe { b() } }\n";
    let reasoned = "//! A.\n// SAFETY: nothing is touched.\nfn a() { unsafe { b() } }\n";
    assert_eq!(count("crates/net/src/a.rs", reasoned), 0);
    assert_eq!(count("crates/net/src/a.rs", block), 1, "no reason");
    assert_eq!(count("crates/wire/src/a.rs", reasoned), 1, "another crate");

    for word in UNFINISHED.iter().chain(SWITCHED_OFF).chain(MACHINE_PATHS) {
        assert_eq!(count("docs/a.md", &format!("see {word} there\n")), 1, "{word}");
    }
    for mark in CONFLICTS {
        assert_eq!(count("docs/a.md", &format!("{mark}main\n")), 1, "{mark}");
    }
}
