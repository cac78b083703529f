//! Finds the server under test, and builds it once if it is missing.
//!
//! `TIDEGATE_BINARY` names one that is built already (`make test` sets it). Otherwise cargo is
//! asked, which is quick when it is fresh: a scenario must never run against yesterday's server.

use std::path::PathBuf;
use std::process::Command;
use std::sync::OnceLock;

/// The path of the `tidegate` binary, of the same profile as the running test.
pub fn tidegate_binary() -> PathBuf {
    static BINARY: OnceLock<PathBuf> = OnceLock::new();
    BINARY.get_or_init(find).clone()
}

fn find() -> PathBuf {
    if let Some(named) = std::env::var_os("TIDEGATE_BINARY") {
        let path = PathBuf::from(named);
        assert!(path.is_file(), "TIDEGATE_BINARY names no file: {}", path.display());
        return path;
    }
    // target/PROFILE/deps/scenarios-HASH
    let test = std::env::current_exe().expect("a test knows where it is");
    let directory = test.ancestors().nth(2).expect("a test lies in target/PROFILE/deps");
    let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    cargo.args(["build", "--quiet", "--package", "tidegate"]).current_dir(workspace());
    if directory.ends_with("release") {
        cargo.arg("--release");
    }
    let status = cargo.status().expect("cargo starts");
    assert!(status.success(), "building tidegate failed: {status}");
    directory.join("tidegate")
}

/// The directory with the workspace's Cargo.toml.
pub(crate) fn workspace() -> PathBuf {
    let package = PathBuf::from(env!("CARGO_MANIFEST_DIR"));
    package.parent().expect("the package lies in the workspace").to_path_buf()
}
