//! Detects changes of configuration files.
//!
//! Watches the directory instead of the file: editors and `PUT /v1/config` replace a file by
//! renaming another over it, which ends a watch of the file. A thread waits for the kernel's events
//! and forwards them; it runs as long as the process.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use inotify::{Inotify, WatchDescriptor, WatchMask, Watches};
use telemetry::event;
use telemetry::log::Level;
use tokio::sync::mpsc;

/// Changes within this time (an editor writes, renames, sets times) are one change.
const SETTLE: Duration = Duration::from_millis(100);
/// A file that keeps changing is read after this many times [`SETTLE`].
const SETTLES: usize = 20;

/// The events of a changed file.
const MASK: WatchMask = WatchMask::CLOSE_WRITE
    .union(WatchMask::MOVED_TO)
    .union(WatchMask::MOVED_FROM)
    .union(WatchMask::CREATE)
    .union(WatchMask::DELETE);

/// A watch descriptor and the name that changed in its directory.
type ChangedName = (i32, Option<OsString>);

/// Watches the directories of files.
pub(crate) struct Watch {
    /// `None` if the system has no inotify instance left.
    watches: Option<Watches>,
    events: mpsc::UnboundedReceiver<ChangedName>,
    directories: BTreeMap<i32, (WatchDescriptor, PathBuf)>,
    names: BTreeSet<(PathBuf, Option<OsString>)>,
    /// A change that has not been reported yet.
    pending: bool,
}

impl Watch {
    pub(crate) fn new() -> io::Result<Watch> {
        let inotify = Inotify::init()?;
        let watches = inotify.watches();
        let (sender, events) = mpsc::unbounded_channel();
        std::thread::Builder::new()
            .name("file-watch".to_owned())
            .spawn(move || hand_over(inotify, &sender))?;
        let (directories, names) = (BTreeMap::new(), BTreeSet::new());
        Ok(Watch { watches: Some(watches), events, directories, names, pending: false })
    }

    /// A watch that detects nothing. The number of inotify instances of a user is limited
    /// (inotify(7), `max_user_instances`); serving without one is better than not serving.
    pub(crate) fn detecting_nothing() -> Watch {
        let (_, events) = mpsc::unbounded_channel();
        let (directories, names) = (BTreeMap::new(), BTreeSet::new());
        Watch { watches: None, events, directories, names, pending: false }
    }

    /// Watches exactly these paths from now on: files by name, directories with all their entries,
    /// and the symbolic links in a path. Directories that are watched already stay watched, so that
    /// changes during a reload are not missed. Returns true if a path was not watched before:
    /// earlier changes of it were missed.
    pub(crate) fn set(&mut self, paths: &[PathBuf]) -> bool {
        let Some(watches) = &mut self.watches else { return false };
        let names: BTreeSet<_> = paths
            .iter()
            .flat_map(|path| with_links(path))
            .map(|path| watch_target(&path))
            .collect();
        let mut is_wider = !names.is_subset(&self.names);
        self.names = names;
        let names = &self.names;
        let is_wanted = |directory: &Path| names.iter().any(|(wanted, _)| wanted == directory);
        let (kept, gone): (BTreeMap<_, _>, BTreeMap<_, _>) =
            std::mem::take(&mut self.directories).into_iter().partition(|(_, (_, f))| is_wanted(f));
        self.directories = kept;
        for (_, (descriptor, _)) in gone {
            // The watch ends with its directory.
            let _ = watches.remove(descriptor);
        }
        let wanted: BTreeSet<PathBuf> =
            self.names.iter().map(|(directory, _)| directory.clone()).collect();
        for directory in wanted {
            // A directory that was removed and created again needs a new watch; adding an existing
            // one has no effect.
            match watches.add(&directory, MASK) {
                Ok(descriptor) => {
                    let id = descriptor.get_watch_descriptor_id();
                    is_wider |= self.directories.insert(id, (descriptor, directory)).is_none();
                }
                Err(error) => {
                    let directory = directory.display();
                    event!(Level::Warn, "cannot watch", directory = directory, error = error);
                }
            }
        }
        is_wider
    }

    /// Returns after a file has changed and then not changed for a moment. Dropping this future
    /// loses no change.
    pub(crate) async fn changed(&mut self) {
        while !self.pending {
            match self.events.recv().await {
                // Without the thread nothing is watched any more; SIGHUP still reloads.
                None => std::future::pending().await,
                Some(happened) => self.pending = self.matches(&happened),
            }
        }
        for _ in 0..SETTLES {
            let before = self.stamps();
            net::timer::sleep(SETTLE).await;
            let mut again = false;
            while let Ok(happened) = self.events.try_recv() {
                again |= self.matches(&happened);
            }
            // Not every program renames a finished file into place: a file that is being written
            // shows it only by its length and time.
            if !again && before == self.stamps() {
                break;
            }
        }
        self.pending = false;
    }

    /// Returns length and time of each file.
    fn stamps(&self) -> Vec<Option<(u64, SystemTime)>> {
        let stamp = |(directory, name): &(PathBuf, Option<OsString>)| {
            let found = std::fs::metadata(directory.join(name.as_ref()?)).ok()?;
            Some((found.len(), found.modified().ok()?))
        };
        self.names.iter().map(stamp).collect()
    }

    fn matches(&self, (id, name): &ChangedName) -> bool {
        let directory = self.directories.get(id).map(|(_, directory)| directory);
        self.names.iter().any(|(watched, wanted)| {
            Some(watched) == directory && (wanted.is_none() || wanted == name)
        })
    }
}

/// Returns the directory to watch for a path and the name in it; `None` for all names of a
/// directory. Different spellings of a directory are one watch of the kernel, so the spelling is
/// canonical.
fn watch_target(path: &Path) -> (PathBuf, Option<OsString>) {
    let (directory, name) = if path.is_dir() && !path.is_symlink() {
        (path, None)
    } else {
        let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty());
        (parent.unwrap_or(Path::new(".")), path.file_name().map(OsString::from))
    };
    (directory.canonicalize().unwrap_or(directory.to_owned()), name)
}

/// Returns a path, preceded by the symbolic links in it, each as a path. A mounted ConfigMap or
/// Secret of Kubernetes changes by a link that is exchanged next to the file, and `current ->
/// releases/7` by one above it.
fn with_links(path: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut whole = path.to_owned();
    // Each iteration resolves one link; the bound is the kernel's (path_resolution(7)).
    for _ in 0..40 {
        let Some((link, rest)) = first_link(&whole) else { break };
        let Ok(target) = std::fs::read_link(&link) else { break };
        whole = link.parent().unwrap_or(Path::new("")).join(target).join(rest);
        found.push(link);
    }
    found.push(whole);
    found
}

/// Splits a path at its first symbolic link.
fn first_link(path: &Path) -> Option<(PathBuf, PathBuf)> {
    let mut parts = path.components();
    let mut walked = PathBuf::new();
    while let Some(part) = parts.next() {
        walked.push(part);
        if walked.is_symlink() {
            return Some((walked, parts.as_path().to_owned()));
        }
    }
    None
}

/// Forwards events until the receiver is dropped.
fn hand_over(mut inotify: Inotify, sender: &mpsc::UnboundedSender<ChangedName>) {
    let mut buffer = [0; 4096];
    loop {
        let events = match inotify.read_events_blocking(&mut buffer) {
            Ok(events) => events,
            Err(error) => {
                event!(Level::Error, "files are no longer watched, SIGHUP reloads", error = error);
                return;
            }
        };
        for event in events {
            let id = event.wd.get_watch_descriptor_id();
            if sender.send((id, event.name.map(OsString::from))).is_err() {
                return;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    /// Waits until a change is pending, whose event comes from another thread. Cancelled while the
    /// change settles: the next call reports it.
    async fn until_pending(watch: &mut Watch) {
        while !watch.pending {
            tokio::select! { () = watch.changed() => {}, () = tokio::task::yield_now() => {} }
        }
    }

    #[test]
    fn without_inotify_no_change_is_reported() {
        net::worker::block_on_local(async {
            let mut watch = Watch::detecting_nothing();
            watch.set(&[std::env::temp_dir()]);
            assert!(net::timer::within(SETTLE, watch.changed()).await.is_none());
        });
    }

    #[test]
    fn a_file_that_is_replaced_is_noticed_and_its_neighbour_is_not() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("a.yaml");
        std::fs::write(&path, "one").unwrap();
        net::worker::block_on_local(async {
            let mut watch = Watch::new().unwrap();
            watch.set(std::slice::from_ref(&path));
            std::fs::write(directory.path().join("other"), "x").unwrap();
            let quiet = net::timer::within(Duration::from_millis(50), watch.changed()).await;
            assert!(quiet.is_none());
            std::fs::write(directory.path().join("new"), "two").unwrap();
            std::fs::rename(directory.path().join("new"), &path).unwrap();
            until_pending(&mut watch).await;
            watch.changed().await;
        });
    }

    #[test]
    fn a_file_that_is_still_being_written_is_waited_for() {
        const PARTS: usize = 8;
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("a.yaml");
        std::fs::write(&path, "one").unwrap();
        net::manual_time::block_on(async {
            let mut watch = Watch::new().unwrap();
            watch.set(std::slice::from_ref(&path));
            std::fs::write(&path, "two").unwrap();
            until_pending(&mut watch).await;
            let write = async {
                let mut file = std::fs::File::create(&path).unwrap();
                for part in 0..PARTS {
                    file.write_all(&[b'0' + part as u8]).unwrap();
                    net::manual_time::advance(SETTLE / 3).await;
                }
                file.write_all(b"end").unwrap();
                net::manual_time::advance(2 * SETTLE).await;
            };
            let changed = async {
                watch.changed().await;
                std::fs::read_to_string(&path).unwrap()
            };
            let ((), read) = tokio::join!(write, changed);
            assert_eq!(read, "01234567end");
        });
    }

    #[test]
    fn a_wider_watch_is_reported() {
        let (one, two) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let (in_one, in_two) = (one.path().join("a"), two.path().join("a"));
        let mut watch = Watch::new().unwrap();
        assert!(watch.set(std::slice::from_ref(&in_one)));
        assert!(watch.set(&[in_one.clone(), one.path().join("b")]));
        assert!(watch.set(&[in_one.clone(), in_two]));
        assert!(!watch.set(&[in_one]));
    }

    #[test]
    fn a_change_while_the_watch_is_replaced_is_noticed() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("a.yaml");
        std::fs::write(&path, "one").unwrap();
        net::worker::block_on_local(async {
            let mut watch = Watch::new().unwrap();
            watch.set(std::slice::from_ref(&path));
            for _ in 0..3 {
                std::fs::write(&path, "two").unwrap();
                watch.set(&[path.clone(), directory.path().join("b.yaml")]);
                let timeout = Duration::from_secs(10);
                assert!(net::timer::within(timeout, watch.changed()).await.is_some());
            }
        });
    }

    #[test]
    fn links_that_are_exchanged_are_noticed() {
        use std::os::unix::fs::symlink;

        let directory = tempfile::tempdir().unwrap();
        let at = |name: &str| directory.path().join(name);
        for version in ["v1", "v2"] {
            std::fs::create_dir(at(version)).unwrap();
            std::fs::write(at(version).join("a.yaml"), version).unwrap();
        }
        symlink("v1", at("data")).unwrap();
        symlink("data/a.yaml", at("a.yaml")).unwrap();
        net::worker::block_on_local(async {
            let mut watch = Watch::new().unwrap();
            watch.set(&[at("a.yaml")]);
            symlink("v2", at("next")).unwrap();
            std::fs::rename(at("next"), at("data")).unwrap();
            watch.changed().await;
            assert_eq!(std::fs::read_to_string(at("a.yaml")).unwrap(), "v2");
        });
    }
}
