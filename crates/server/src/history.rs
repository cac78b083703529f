//! Earlier configurations, next to the configuration file.
//!
//! The versions of `tidegate.yaml` are in `tidegate.yaml.history/`: one file, named
//! `UNIX_MS-VERSION.yaml`, for each version that was applied or replaced over the admin API. The
//! number is bounded; the oldest are deleted. Only the server's user can read them, because a
//! configuration may contain secrets and the permissions of the file itself may be narrower than
//! those of new files.

use std::fs;
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use admin::ConfigVersion;

/// Number of stored versions.
const KEPT: usize = 20;

pub(crate) struct History {
    directory: PathBuf,
}

impl History {
    /// Returns the history of a configuration file.
    pub(crate) fn of(file: &Path) -> History {
        let mut name = file.as_os_str().to_owned();
        name.push(".history");
        History { directory: PathBuf::from(name) }
    }

    /// Stores a version; one that is stored already becomes the newest.
    pub(crate) fn keep(&self, version: &str, text: &str, at_ms: u64) -> io::Result<()> {
        fs::DirBuilder::new().recursive(true).mode(0o700).create(&self.directory)?;
        for (_, known, path) in self.entries() {
            if known == version {
                fs::remove_file(path)?;
            }
        }
        let mut options = fs::OpenOptions::new();
        options.write(true).create(true).truncate(true).mode(0o600);
        options
            .open(self.directory.join(format!("{at_ms:013}-{version}.yaml")))?
            .write_all(text.as_bytes())?;
        for (_, _, path) in self.entries().into_iter().skip(KEPT) {
            fs::remove_file(path)?;
        }
        Ok(())
    }

    /// Returns the stored versions, the newest first.
    pub(crate) fn versions(&self, current: &str) -> Vec<ConfigVersion> {
        let entries = self.entries().into_iter();
        entries
            .map(|(at_ms, version, _)| ConfigVersion {
                current: version == current,
                version,
                at_ms,
            })
            .collect()
    }

    /// Returns the text of a version.
    pub(crate) fn text(&self, version: &str) -> Option<String> {
        let (_, _, path) = self.entries().into_iter().find(|(_, known, _)| known == version)?;
        fs::read_to_string(path).ok()
    }

    fn entries(&self) -> Vec<(u64, String, PathBuf)> {
        let files = fs::read_dir(&self.directory).into_iter().flatten().flatten();
        let mut entries: Vec<_> = files
            .filter_map(|file| {
                let name = file.file_name().into_string().ok()?;
                let (at_ms, version) = name.strip_suffix(".yaml")?.split_once('-')?;
                Some((at_ms.parse().ok()?, version.to_owned(), file.path()))
            })
            .collect();
        entries.sort_by(|a, b| b.cmp(a));
        entries
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn versions_come_back_newest_first_and_are_bounded() {
        let directory = tempfile::tempdir().unwrap();
        let history = History::of(&directory.path().join("t.yaml"));
        for at_ms in 0..KEPT as u64 + 5 {
            history.keep(&format!("v{at_ms}"), &format!("text {at_ms}"), at_ms).unwrap();
        }
        let versions = history.versions("v24");
        assert_eq!(versions.len(), KEPT);
        assert!(versions[0].current && versions[0].version == "v24");
        assert_eq!(history.text("v7").unwrap(), "text 7");
        assert_eq!(history.text("v0"), None);
        history.keep("v7", "text 7", 99).unwrap();
        assert_eq!(history.versions("")[0].version, "v7");
        assert_eq!(history.versions("").len(), KEPT);
        for (_, _, path) in history.entries() {
            assert_eq!(fs::metadata(path).unwrap().permissions().mode() & 0o077, 0);
        }
    }
}
