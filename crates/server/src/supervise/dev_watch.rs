//! Detects changes of an application's files during development.
//!
//! Watches directory trees and compares the source files: other files there (logs, databases,
//! compiled code) are ignored.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use telemetry::event;
use telemetry::log::Level;

use super::limits::{WATCHED_DEPTH, WATCHED_FILES, WATCHED_FOLDERS};
use super::policy::DevReload;
use crate::watch::Watch;

/// Length and modification time of a file.
type Stamp = (u64, Option<SystemTime>);

/// The watched directories and the state of their files.
pub struct DevWatch {
    rules: DevReload,
    watch: Watch,
    seen: BTreeMap<PathBuf, Stamp>,
}

impl DevWatch {
    /// Watches from now on; called on a thread with an event loop.
    pub fn new(rules: DevReload) -> DevWatch {
        let watch = Watch::new().unwrap_or_else(|error| {
            event!(Level::Warn, "files cannot be watched, SIGHUP reloads", error = error);
            Watch::detecting_nothing()
        });
        let mut this = DevWatch { rules, watch, seen: BTreeMap::new() };
        this.seen = this.scan();
        this
    }

    /// Returns the path of a file that has changed, or was added or removed.
    pub async fn changed(&mut self) -> PathBuf {
        loop {
            // A change during the previous scan is detected by this one.
            let now = self.scan();
            let changed = now.iter().find(|(path, stamp)| self.seen.get(*path) != Some(stamp));
            let gone = || self.seen.keys().find(|path| !now.contains_key(*path));
            if let Some(path) = changed.map(|(path, _)| path).or_else(gone).cloned() {
                net::timer::sleep(self.rules.delay).await;
                self.seen = self.scan();
                return path;
            }
            self.watch.changed().await;
        }
    }

    /// Returns the state of every source file, and watches the directories of all.
    fn scan(&mut self) -> BTreeMap<PathBuf, Stamp> {
        loop {
            let (mut directories, mut files) = (Vec::new(), BTreeMap::new());
            for directory in &self.rules.directories {
                walk(directory, WATCHED_DEPTH, &self.rules, &mut directories, &mut files);
            }
            for file in &self.rules.files {
                files.extend(stamp(file).map(|stamp| (file.clone(), stamp)));
                directories.push(directory_of(file).to_owned());
            }
            // Changes in a directory before it was watched were missed: scan again.
            if !self.watch.set(&directories) {
                return files;
            }
        }
    }
}

fn walk(
    directory: &Path,
    depth: usize,
    rules: &DevReload,
    directories: &mut Vec<PathBuf>,
    files: &mut BTreeMap<PathBuf, Stamp>,
) {
    if depth == 0 || directories.len() >= WATCHED_FOLDERS {
        return;
    }
    let Ok(entries) = std::fs::read_dir(directory) else { return };
    directories.push(directory.to_owned());
    for entry in entries.flatten() {
        let (name, path) = (entry.file_name(), entry.path());
        let Ok(kind) = entry.file_type() else { continue };
        if kind.is_dir() {
            if !is_foreign(&name, &path) {
                walk(&path, depth - 1, rules, directories, files);
            }
        } else if rules.counts(&name) && files.len() < WATCHED_FILES {
            files.extend(stamp(&path).map(|stamp| (path, stamp)));
        }
    }
}

/// Returns true for directories without sources: hidden ones, compiled code, Python environments.
fn is_foreign(name: &OsStr, path: &Path) -> bool {
    let name = name.to_string_lossy();
    name.starts_with('.')
        || matches!(&*name, "__pycache__" | "node_modules")
        || path.join("pyvenv.cfg").exists()
}

fn directory_of(file: &Path) -> &Path {
    let parent = file.parent().filter(|parent| !parent.as_os_str().is_empty());
    parent.unwrap_or(Path::new("."))
}

fn stamp(path: &Path) -> Option<Stamp> {
    let found = std::fs::metadata(path).ok()?;
    Some((found.len(), found.modified().ok()))
}

impl DevReload {
    fn counts(&self, name: &OsStr) -> bool {
        let name = name.to_string_lossy();
        let among = |patterns: &[String]| patterns.iter().any(|pattern| fits(pattern, &name));
        among(&self.include) && !among(&self.exclude)
    }
}

/// Returns true if a name matches a pattern in which `*` is any text and `?` any character.
fn fits(pattern: &str, name: &str) -> bool {
    let mut rest = pattern.chars();
    match rest.next() {
        None => name.is_empty(),
        Some('*') => {
            let rest = rest.as_str();
            name.char_indices().any(|(at, _)| fits(rest, &name[at..])) || fits(rest, "")
        }
        Some(wanted) => {
            let mut left = name.chars();
            left.next().is_some_and(|found| wanted == '?' || wanted == found)
                && fits(rest.as_str(), left.as_str())
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn patterns() {
        for (pattern, name) in
            [("*.py", "app.py"), ("*", ""), ("a?c", "abc"), ("test_*.p*", "test_a.py"), ("a", "a")]
        {
            assert!(fits(pattern, name), "{pattern} {name}");
        }
        for (pattern, name) in [("*.py", "app.pyc"), ("?", ""), ("a?c", "ac"), ("", "a")] {
            assert!(!fits(pattern, name), "{pattern} {name}");
        }
    }

    #[test]
    fn sources_count_and_other_files_do_not() {
        let (directory, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let at = |name: &str| directory.path().join(name);
        for name in ["deep/er", "env", "__pycache__"] {
            std::fs::create_dir_all(at(name)).unwrap();
        }
        for name in ["app.py", "deep/er/views.py", "env/pyvenv.cfg", "env/x.py", "log"] {
            std::fs::write(at(name), "one").unwrap();
        }
        let rules = DevReload {
            directories: vec![directory.path().to_owned()],
            include: vec!["*.py".to_owned()],
            exclude: vec!["test_*".to_owned()],
            files: vec![other.path().join("settings.toml")],
            ..DevReload::default()
        };
        net::worker::block_on_local(async {
            let mut watch = DevWatch::new(rules);
            let seen: Vec<_> = watch.seen.keys().cloned().collect();
            assert_eq!(seen, [at("app.py"), at("deep/er/views.py")]);
            for (name, text) in [("log", "longer"), ("test_app.py", "x"), ("env/x.py", "longer")] {
                std::fs::write(at(name), text).unwrap();
            }
            std::fs::write(at("deep/er/views.py"), "longer").unwrap();
            assert_eq!(watch.changed().await, at("deep/er/views.py"));
            std::fs::create_dir(at("new")).unwrap();
            std::fs::write(at("new/urls.py"), "x").unwrap();
            assert_eq!(watch.changed().await, at("new/urls.py"));
            std::fs::write(at("new/urls.py"), "longer").unwrap();
            assert_eq!(watch.changed().await, at("new/urls.py"));
            std::fs::remove_file(at("app.py")).unwrap();
            assert_eq!(watch.changed().await, at("app.py"));
            std::fs::write(other.path().join("unwatched.toml"), "x").unwrap();
            std::fs::write(other.path().join("settings.toml"), "x").unwrap();
            assert_eq!(watch.changed().await, other.path().join("settings.toml"));
        });
    }

    #[test]
    fn changes_within_the_delay_are_one() {
        let directory = tempfile::tempdir().unwrap();
        let at = |name: &str| directory.path().join(name);
        let delay = Duration::from_secs(1);
        let rules = DevReload {
            directories: vec![directory.path().to_owned()],
            include: vec!["*.py".to_owned()],
            delay,
            ..DevReload::default()
        };
        net::manual_time::block_on(async {
            let mut watch = DevWatch::new(rules);
            std::fs::write(at("app.py"), "one").unwrap();
            let others = async {
                net::manual_time::advance(delay / 2).await;
                std::fs::write(at("urls.py"), "one").unwrap();
                net::manual_time::advance(delay / 2).await;
            };
            let (path, ()) = tokio::join!(watch.changed(), others);
            assert_eq!(path, at("app.py"));
            let seen: Vec<_> = watch.seen.keys().cloned().collect();
            assert_eq!(seen, [at("app.py"), at("urls.py")]);
        });
    }
}
