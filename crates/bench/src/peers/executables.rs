//! Executables of this machine: finding them and running them to their end.

use super::process::{Line, Process};
use std::env;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Directories where distributions install servers; not on the PATH of ordinary users.
const SERVER_DIRECTORIES: &[&str] = &["/usr/local/sbin", "/usr/sbin", "/sbin"];

/// Runs a command; returns its output, or an error if it fails or exceeds the time-out.
pub(super) fn run_to_end(
    words: Vec<String>,
    directory: &Path,
    timeout: Duration,
) -> Result<String, String> {
    let name = words.first().cloned().unwrap_or_default();
    let line = Line { words, environment: Vec::new() };
    let log = tempfile::NamedTempFile::new().map_err(|why| why.to_string())?;
    let mut process =
        Process::start(&line, directory, log.path()).map_err(|why| format!("{name}: {why}"))?;
    match process.wait(timeout) {
        Ok(Some(status)) if status.success() => Ok(process.output()),
        Ok(Some(status)) => Err(format!("{name}: {status}: {}", process.output())),
        Ok(None) => Err(format!("{name}: did not end within {} s", timeout.as_secs())),
        Err(why) => Err(format!("{name}: {why}")),
    }
}

/// The first of these programs on PATH or in the directories of servers.
pub(super) fn on_path(names: &[&str]) -> Option<PathBuf> {
    let path = env::var_os("PATH").unwrap_or_default();
    let directories: Vec<PathBuf> =
        env::split_paths(&path).chain(SERVER_DIRECTORIES.iter().map(PathBuf::from)).collect();
    let candidates = names.iter().flat_map(|name| directories.iter().map(move |at| at.join(name)));
    candidates.into_iter().find(|path| is_program(path))
}

fn is_program(path: &Path) -> bool {
    path.metadata()
        .is_ok_and(|metadata| metadata.is_file() && metadata.permissions().mode() & 0o111 != 0)
}

pub(super) fn is_root() -> bool {
    Path::new("/proc/self").metadata().is_ok_and(|facts| facts.uid() == 0)
}
