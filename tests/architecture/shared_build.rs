//! The wheel that is tested shares the build of the tests: a feature of a dependency that only one
//! of them has would build that crate, and all above it, twice (docs/design/measuring.md).

use std::collections::BTreeSet;
use std::process::Command;

/// Each package that is built for a selection, with its features.
fn packages(selection: &[&str]) -> BTreeSet<String> {
    let workspace = &crate::root();
    let output = Command::new(env!("CARGO"))
        .current_dir(workspace)
        .args(["tree", "--offline", "--locked", "--prefix=none", "--format={p} [{f}]"])
        .args(selection)
        .output()
        .expect("cargo");
    let complaint = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{complaint}");
    // A package is named again without what is below it.
    let text = String::from_utf8_lossy(&output.stdout);
    text.lines().map(|line| line.trim_end_matches(" (*)").to_owned()).collect()
}

#[test]
fn the_tested_wheel_has_the_features_of_the_workspace() {
    let tests = packages(&[
        "--workspace",
        "--exclude=python",
        "--exclude=wheel",
        "--features=net/loaded_late",
        "--edges=normal,build,dev",
    ]);
    let wheel = packages(&["--package=wheel", "--features=wheel/tested", "--edges=normal,build"]);
    let package = |line: &str| line.split(" [").next().unwrap_or_default().to_owned();
    let shared: BTreeSet<String> = tests.iter().map(|line| package(line)).collect();
    let is_different = |line: &&String| !tests.contains(*line) && shared.contains(&package(line));
    let different: Vec<_> = wheel.iter().filter(is_different).collect();
    assert!(shared.len() > 100 && wheel.len() > 100, "is this the workspace?");
    assert!(different.is_empty(), "built twice, see `tested` in python/Cargo.toml: {different:?}");
}
