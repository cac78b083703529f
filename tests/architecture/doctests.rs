//! Documentation tests: a crate without one says so in its manifest, and a crate with one does not.
//!
//! For each crate that may have some, rustdoc reads the whole crate in search of them, one crate
//! after the other, which took a minute of `make test`.

use crate::tidy::visit;
use std::fs;

/// The line of a manifest, in `[lib]`.
const SWITCHED_OFF: &str = "\ndoctest = false\n";
/// The words after the signs of a block that rustdoc compiles.
const COMPILED: &[&str] = &["", "rust", "no_run", "should_panic", "compile_fail"];

#[test]
fn only_crates_with_documentation_tests_are_searched_for_them() {
    let workspace = &crate::root();
    let mut manifests = Vec::new();
    for group in ["crates", "examples", "tests", "python"] {
        visit(&workspace.join(group), &mut |path| {
            if path.ends_with("Cargo.toml") && path.with_file_name("src/lib.rs").exists() {
                manifests.push(path.to_owned());
            }
        });
    }
    assert!(manifests.len() > 30, "only {} crates were found", manifests.len());
    let mut complaints = Vec::new();
    for manifest in manifests {
        let mut has_tests = false;
        visit(&manifest.with_file_name("src"), &mut |path| {
            let is_rust = path.extension().is_some_and(|kind| kind == "rs");
            has_tests |= is_rust && fs::read_to_string(path).is_ok_and(|text| is_tested(&text));
        });
        let text = fs::read_to_string(&manifest).expect("a manifest");
        let name = manifest.strip_prefix(workspace).expect("inside").display();
        match (has_tests, text.contains(SWITCHED_OFF)) {
            (true, true) => complaints.push(format!("{name}: has a documentation test")),
            (false, false) => complaints.push(format!("{name}: [lib] lacks doctest = false")),
            _ => {}
        }
    }
    assert!(complaints.is_empty(), "\n{}", complaints.join("\n"));
}

/// True if the doc comments have a block of code that rustdoc compiles.
fn is_tested(text: &str) -> bool {
    let mut is_inside = false;
    text.lines().map(str::trim_start).any(|line| {
        let comment = line.strip_prefix("//!").or_else(|| line.strip_prefix("///"));
        let Some(info) = comment.and_then(|text| text.trim_start().strip_prefix("```")) else {
            is_inside &= comment.is_some();
            return false;
        };
        is_inside = !is_inside;
        is_inside && COMPILED.contains(&info.trim())
    })
}

#[test]
fn a_documentation_test_is_seen() {
    assert!(is_tested("//! A.\n//!\n//! ```\n//! a();\n//! ```\n"));
    assert!(is_tested(
        "/// ```text\n/// a\n/// ```\n/// ```no_run\n/// a();\n/// ```\nfn a() {}\n"
    ));
    for text in ["/// ```text\n/// a\n/// ```\nfn a() {}\n", "// ```\n", "//! ```ignore\n//! ```\n"]
    {
        assert!(!is_tested(text), "{text}");
    }
}
