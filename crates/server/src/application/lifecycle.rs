//! Starts the processes of an application, waits for the first one and replaces them.

use std::rc::Rc;

use net::Listening;
use settings::Size;
use store::StoreServer;
use telemetry::event;
use telemetry::log::Level;

use crate::app_processes::Apps;
use crate::listeners::SocketFile;
use crate::options::{Bound, Failure};
use crate::supervise::{DevReload, DevWatch, GroupSettings, WorkerGroup, WorkerSockets};

/// The application's name in configurations, in logs and in metrics.
pub const APPLICATION: &str = "main";

/// An application whose resources are acquired.
pub(crate) struct PreparedApplication {
    pub(super) target: String,
    pub(super) settings: GroupSettings,
    pub(super) listening: Vec<(String, Listening)>,
    /// The files of Unix sockets that this process has created; removed on drop.
    pub(super) files: Vec<SocketFile>,
    pub(super) workers: usize,
    pub(super) reload: Option<DevReload>,
    /// Memory of the store that its processes share.
    pub(super) memory: Size,
}

/// A running application.
pub(crate) struct RunningApplication {
    group: Rc<WorkerGroup>,
    bound: Vec<Bound>,
    _files: Vec<SocketFile>,
    watch: Option<DevWatch>,
}

impl PreparedApplication {
    pub(crate) fn begin(mut self, apps: &Apps) -> Result<RunningApplication, Failure> {
        let store = self.start_store(apps).map_err(Failure::Start)?;
        self.settings.store = Some(store.path().to_owned());
        let bound = |(name, listening): &(String, Listening)| Bound {
            name: name.clone(),
            address: listening.local().clone(),
        };
        let bound = self.listening.iter().map(bound).collect();
        let sockets = WorkerSockets::shared(self.listening);
        let (settings, telemetry) = (self.settings, apps.telemetry());
        let group =
            WorkerGroup::start(APPLICATION, settings, sockets, self.workers, telemetry, |_| {});
        apps.run(&self.target, group.clone(), store);
        let watch = self.reload.map(DevWatch::new);
        Ok(RunningApplication { group, bound, _files: self.files, watch })
    }
}

impl PreparedApplication {
    /// Starts the store, with a socket that only the workers' user can connect to.
    fn start_store(&self, apps: &Apps) -> Result<StoreServer, String> {
        let Some(identity) = self.settings.launch.identity else {
            return apps.store(APPLICATION, &apps.sockets()?, self.memory);
        };
        let store = apps.store(APPLICATION, &apps.passable_directory()?, self.memory)?;
        let given = identity.own_file(store.path());
        given.map_err(|error| format!("the store cannot get its owner: {error}"))?;
        Ok(store)
    }
}

impl RunningApplication {
    /// Waits for the first worker; returns the addresses of the listeners.
    pub(crate) async fn first(&mut self) -> Result<Vec<Bound>, Failure> {
        let Some(watch) = &mut self.watch else {
            self.group.first().await.map_err(Failure::Start)?;
            return Ok(self.bound.clone());
        };
        // During development an error is logged and does not end the server: it will be fixed.
        loop {
            tokio::select! {
                () = self.group.until_ready() => return Ok(self.bound.clone()),
                _ = watch.changed() => {
                    let group = self.group.clone();
                    net::task::spawn_local(async move { group.reload().await });
                }
            }
        }
    }

    /// Returns when files have changed for which new processes are needed.
    pub(crate) async fn changed(begun: &mut Option<RunningApplication>) {
        match begun.as_mut().and_then(|begun| begun.watch.as_mut()) {
            Some(watch) => {
                let file = watch.changed().await;
                event!(Level::Info, "new workers, a file has changed", file = file.display());
            }
            None => std::future::pending().await,
        }
    }
}
