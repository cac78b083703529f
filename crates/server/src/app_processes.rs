//! The applications of the process: a group of worker processes for each.
//!
//! Owns the groups and, for a gateway, the directory of their sockets. A plan that changes nothing
//! of an application leaves its processes running, one that changes something replaces them without
//! an interruption, and workers of this server only see processes that are ready. Independent of
//! the application's language.

mod launch;
mod show;

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use apps::{AppSettings, LiveWorker, LiveWorkers};
use plugin::Shared;
use settings::Size;
use store::{Database, StoreMetrics, StoreServer};
use telemetry::Telemetry;
use telemetry::event;
use telemetry::log::Level;

use crate::admin_sockets::{make, own_directory};
use crate::supervise::{GroupSettings, WorkerGroup, WorkerSockets};

pub(crate) use launch::{LogOptions, settings_of};

/// Number of servers in this process that have created socket directories: more than one in tests.
static SERVERS: AtomicU64 = AtomicU64::new(0);
/// Names that are tried for a directory among those of all users.
const DIRECTORY_NAMES: usize = 1000;

/// All applications, by name.
pub(crate) struct Apps {
    shared: Arc<Shared>,
    telemetry: Arc<Telemetry>,
    groups: RefCell<BTreeMap<String, App>>,
    directory: RefCell<Option<SocketDirectory>>,
    /// Numbers the socket directories.
    count: std::cell::Cell<u64>,
}

struct App {
    group: Rc<WorkerGroup>,
    target: String,
    /// The configured settings; `None` for an application that is run without a configuration.
    settings: Option<Arc<AppSettings>>,
    /// The store that the application's processes share.
    store: StoreServer,
}

/// The directory of the sockets; removed on drop.
struct SocketDirectory(PathBuf);

impl Drop for SocketDirectory {
    fn drop(&mut self) {
        // The next server of this user removes the rest.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

impl Apps {
    pub(crate) fn new(shared: Arc<Shared>, telemetry: Arc<Telemetry>) -> Apps {
        let (groups, directory) = (RefCell::default(), RefCell::default());
        Apps { shared, telemetry, groups, directory, count: std::cell::Cell::new(0) }
    }

    pub(crate) fn telemetry(&self) -> &Arc<Telemetry> {
        &self.telemetry
    }

    /// Sets the application of `tidegate run`.
    pub(crate) fn run(&self, target: &str, group: Rc<WorkerGroup>, store: StoreServer) {
        let name = group.name.clone();
        let app = App { group, target: target.to_owned(), settings: None, store };
        self.groups.borrow_mut().insert(name, app);
    }

    /// Returns the group of the application of `tidegate run`.
    pub(crate) fn running(&self) -> Option<Rc<WorkerGroup>> {
        let groups = self.groups.borrow();
        groups.values().find(|app| app.settings.is_none()).map(|app| app.group.clone())
    }

    /// Starts new applications of a plan before it is served; replaces changed ones in the
    /// background.
    pub(crate) fn follow(
        &self,
        plan: &[(String, Arc<AppSettings>)],
        directory: &Path,
        log_options: &LogOptions,
    ) {
        if self.running().is_some() {
            return;
        }
        let mut groups = self.groups.borrow_mut();
        for (name, settings) in plan {
            match groups.get_mut(name) {
                Some(app) => update_app(app, settings, directory, log_options),
                None => match self.start(name, settings, directory, log_options) {
                    Ok(app) => {
                        groups.insert(name.clone(), app);
                    }
                    Err(why) => {
                        event!(Level::Error, "an app cannot be started", app = name, because = why);
                    }
                },
            }
        }
    }

    /// Stops the groups that a plan does not name, after all workers serve that plan.
    pub(crate) fn stop_removed(&self, plan: &[(String, Arc<AppSettings>)]) {
        if self.running().is_some() {
            return;
        }
        let mut groups = self.groups.borrow_mut();
        let wanted = |name: &String| plan.iter().any(|(wanted, _)| wanted == name);
        let gone: Vec<String> = groups.keys().filter(|name| !wanted(name)).cloned().collect();
        for name in gone {
            if let Some(app) = groups.remove(&name) {
                net::task::spawn_local(async move {
                    app.group.stop().await;
                    // The store outlives the processes.
                    drop(app.store);
                });
            }
        }
    }

    fn start(
        &self,
        name: &str,
        settings: &Arc<AppSettings>,
        directory: &Path,
        log_options: &LogOptions,
    ) -> Result<App, String> {
        let sockets = self.sockets()?;
        let live = LiveWorkers::of(&self.shared, name);
        let store = self.store(name, &sockets, settings.limits.store)?;
        let path = Some(store.path().to_owned());
        let own = sockets.clone();
        let on_change = move |group: &WorkerGroup| live.set(live_slots(group, &own));
        let group = WorkerGroup::start(
            name,
            GroupSettings { store: path, ..settings_of(settings, directory, log_options) },
            WorkerSockets::Own(sockets),
            settings.workers as usize,
            &self.telemetry,
            on_change,
        );
        let target = settings.python.clone();
        Ok(App { group, target, settings: Some(settings.clone()), store })
    }

    /// Starts the store that the processes of an application share.
    pub(crate) fn store(
        &self,
        app: &str,
        sockets: &Path,
        memory: Size,
    ) -> Result<StoreServer, String> {
        let database = Database::new(memory.bytes_usize(), StoreMetrics::of(&self.telemetry, app));
        let started = StoreServer::start(&sockets.join("store.sock"), database);
        // Without it each process would silently have a store of its own.
        started.map_err(|error| format!("the store that its processes share: {error}"))
    }

    /// Creates a directory for the sockets of one group.
    pub(crate) fn sockets(&self) -> Result<PathBuf, String> {
        let mut directory = self.directory.borrow_mut();
        if directory.is_none() {
            let number = SERVERS.fetch_add(1, Ordering::Relaxed);
            let name = format!("{}-{number}.apps", std::process::id());
            *directory = Some(SocketDirectory(own_directory()?.join(name)));
        }
        let number = self.count.get();
        self.count.set(number + 1);
        // The app's name is not part of the path: paths of Unix sockets are short.
        let root = directory.as_ref().map(|directory| directory.0.clone()).unwrap_or_default();
        let path = root.join(number.to_string());
        make(&path)?;
        Ok(path)
    }

    /// Creates a directory for the sockets of workers of another user, which may pass it but
    /// neither list nor change it.
    pub(crate) fn passable_directory(&self) -> Result<PathBuf, String> {
        let path = new_directory(&std::env::temp_dir())?;
        let failed = |error: std::io::Error| format!("{}: {error}", path.display());
        self.directory.replace(Some(SocketDirectory(path.clone())));
        let mode = std::fs::Permissions::from_mode(0o711);
        std::fs::set_permissions(&path, mode).map_err(failed)?;
        Ok(path)
    }

    fn all(&self) -> Vec<Rc<WorkerGroup>> {
        self.groups.borrow().values().map(|app| app.group.clone()).collect()
    }

    fn find(&self, name: &str) -> Option<Rc<WorkerGroup>> {
        self.groups.borrow().get(name).map(|app| app.group.clone())
    }

    /// Replaces the processes of an application; the error says why that failed.
    pub(crate) async fn reload(&self, name: &str) -> Result<(), String> {
        let group = self.find(name).ok_or_else(|| format!("there is no app \"{name}\""))?;
        group.reload().await
    }

    /// Returns the number of client connections that the processes have accepted themselves.
    pub(crate) fn connections(&self) -> u64 {
        self.all().iter().map(|group| group.connections()).sum()
    }

    /// Closes the sockets on which the processes accept clients.
    pub(crate) fn stop_listening(&self) {
        self.all().iter().for_each(|group| group.stop_listening());
    }

    /// Stops all processes after their requests in flight. Returns the number of connections that
    /// were cut off by the time-out.
    pub(crate) async fn stop(&self) -> u64 {
        let stopping: Vec<_> = self
            .all()
            .into_iter()
            .map(|group| net::task::spawn_local(async move { group.stop().await }))
            .collect();
        let mut cut_off = 0;
        for group in stopping {
            // A group that panicked has ended as well.
            cut_off += group.await.unwrap_or_default();
        }
        self.groups.borrow_mut().clear();
        self.directory.take();
        cut_off
    }

    /// Kills all processes.
    pub(crate) fn kill(&self) {
        self.all().iter().for_each(|group| group.kill());
    }
}

/// Creates a directory with a name that is not taken. One that exists may be another user's, or
/// that of a killed server with the same process id, as in a container that is started again.
fn new_directory(parent: &Path) -> Result<PathBuf, String> {
    for _ in 0..DIRECTORY_NAMES {
        let number = SERVERS.fetch_add(1, Ordering::Relaxed);
        let path = parent.join(format!("tidegate-{}-{number}.apps", std::process::id()));
        match std::fs::create_dir(&path) {
            Ok(()) => return Ok(path),
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
            Err(error) => return Err(format!("{}: {error}", path.display())),
        }
    }
    let shown = parent.display();
    Err(format!("{shown} has {DIRECTORY_NAMES} directories of this process id: remove them"))
}

fn update_app(
    app: &mut App,
    settings: &Arc<AppSettings>,
    directory: &Path,
    log_options: &LogOptions,
) {
    let group = app.group.clone();
    app.target = settings.python.clone();
    app.settings = Some(settings.clone());
    app.store.database().resize(settings.limits.store.bytes_usize());
    let store = Some(app.store.path().to_owned());
    let wanted = GroupSettings { store, ..settings_of(settings, directory, log_options) };
    let is_another = *group.settings() != wanted;
    if is_another {
        group.change(wanted);
        let group = group.clone();
        // A failure is logged, and the previous processes continue.
        net::task::spawn_local(async move { group.renew().await });
    }
    group.set_workers(settings.workers as usize);
}

/// Returns the processes that accept requests, or soon will.
fn live_slots(group: &WorkerGroup, directory: &Path) -> Vec<LiveWorker> {
    let live = group.slots().into_iter().filter_map(|slot| {
        let generation = slot.expected()?;
        let path = WorkerSockets::path(directory, slot.index, generation);
        Some(LiveWorker { slot: u32::try_from(slot.index).ok()?, generation, path })
    });
    live.collect()
}

#[cfg(test)]
mod tests {
    use super::{SERVERS, new_directory};
    use std::sync::atomic::Ordering;

    #[test]
    fn a_directory_that_exists_is_passed_over() {
        let parent = tempfile::tempdir().unwrap();
        let first = new_directory(parent.path()).unwrap();
        let next = SERVERS.load(Ordering::Relaxed);
        for number in next..next + 50 {
            let name = format!("tidegate-{}-{number}.apps", std::process::id());
            std::fs::create_dir(parent.path().join(name)).unwrap();
        }
        let second = new_directory(parent.path()).unwrap();
        assert!(first != second && second.is_dir());
        assert_eq!(std::fs::read_dir(&second).unwrap().count(), 0);
        assert!(new_directory(&parent.path().join("none")).is_err());
    }
}
