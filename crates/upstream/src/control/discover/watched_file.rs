//! Servers from a file, which is read again when it has changed.
//!
//! Its time, size and inode are compared at intervals: that notices a file that is renamed, a
//! symbolic link that is replaced, and changes on network file systems, which send no events.

use std::fs::File;
use std::io::Read;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::Arc;
use std::time::SystemTime;

use net::timer;

use crate::cluster::Cluster;
use crate::discover_settings::FileSourceSettings;
use crate::discovered::read_list;
use crate::limits::{DISCOVERY_BYTES, FILE_SETTLES};
use crate::server_address::ServerProtocol;

pub(super) async fn keep(
    cluster: &Arc<Cluster>,
    settings: &FileSourceSettings,
    protocol: ServerProtocol,
) {
    let mut known = None;
    loop {
        let path = settings.path.clone();
        let read = net::blocking(move || read_changed(&path, known)).await;
        match read.unwrap_or_else(|error| Err(error.to_string())) {
            Ok(None) => cluster.discovery_confirmed(),
            Ok(Some((version, content))) => match read_list(&content, protocol) {
                Ok(found) => {
                    cluster.discovered(found);
                    known = version;
                }
                Err(why) => cluster.discovery_failed(&why),
            },
            Err(why) => cluster.discovery_failed(&why),
        }
        timer::sleep(settings.interval.get()).await;
    }
}

/// What identifies the content of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct FileVersion {
    modified: SystemTime,
    length: u64,
    inode: u64,
}

/// A changed file: its version, unless the next change may have the same one, and its content.
type ChangedFile = (Option<FileVersion>, Vec<u8>);

/// Reads the file unless it has the known version. Blocks.
fn read_changed(path: &Path, known: Option<FileVersion>) -> Result<Option<ChangedFile>, String> {
    let file = File::open(path).map_err(|error| error.to_string())?;
    let about = file.metadata().map_err(|error| error.to_string())?;
    if !about.is_file() {
        return Err("it is not a file".to_owned());
    }
    let modified = about.modified().map_err(|error| error.to_string())?;
    let version = FileVersion { modified, length: about.len(), inode: about.ino() };
    if known == Some(version) {
        return Ok(None);
    }
    let mut content = Vec::new();
    let limit = DISCOVERY_BYTES as u64 + 1;
    file.take(limit).read_to_end(&mut content).map_err(|error| error.to_string())?;
    let is_settled = modified.elapsed().is_ok_and(|age| age >= FILE_SETTLES);
    Ok(Some((is_settled.then_some(version), content)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn a_settled_file_is_read_once() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("servers");
        assert!(read_changed(&path, None).is_err());
        assert!(read_changed(directory.path(), None).unwrap_err().contains("not a file"));
        std::fs::write(&path, "a:1").unwrap();
        let set_modified = |time| {
            File::options().write(true).open(&path).unwrap().set_modified(time).unwrap();
        };
        // However long the test takes until it is read.
        set_modified(SystemTime::now() + Duration::from_secs(60));
        let (version, content) = read_changed(&path, None).unwrap().unwrap();
        assert_eq!((version, content.as_slice()), (None, &b"a:1"[..]), "it may change again");
        set_modified(SystemTime::now() - 2 * FILE_SETTLES);
        let (version, _) = read_changed(&path, None).unwrap().unwrap();
        assert!(version.is_some());
        assert_eq!(read_changed(&path, version), Ok(None));
        std::fs::write(&path, "b:1").unwrap();
        assert!(read_changed(&path, version).unwrap().is_some());
    }
}
