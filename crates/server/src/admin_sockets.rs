//! The sockets of the admin API. They are bound while a plan is prepared, so that an unavailable
//! address is reported before anything has changed.
//!
//! There is always a Unix socket. If the configuration names its path, failing to bind it is an
//! error. The default path, in a directory of the user, may be unavailable: then a warning is
//! logged. Files of unused sockets are removed.

use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};

use config::AdminPlan;
use net::{Bind, ListenOptions, Listening};
use telemetry::event;
use telemetry::log::Level;

use crate::listeners::SocketFile;

/// The directory of the admin sockets of this user's servers: one `PID.sock` each.
pub fn admin_socket_dir() -> PathBuf {
    match std::env::var_os("XDG_RUNTIME_DIR").filter(|directory| !directory.is_empty()) {
        Some(directory) => PathBuf::from(directory).join("tidegate"),
        None => std::env::temp_dir().join(format!("tidegate-{}", net::user_id())),
    }
}

/// New sockets of a plan: bound, but not yet given to the listener.
#[derive(Default)]
pub(crate) struct AdminSockets {
    pub(crate) tcp: Option<Listening>,
    pub(crate) unix: Option<(Listening, Option<SocketFile>)>,
}

impl AdminSockets {
    /// Binds the addresses that the plan names and the previous one did not.
    pub(crate) fn bind(
        plan: &AdminPlan,
        before: Option<&AdminPlan>,
    ) -> Result<AdminSockets, String> {
        let mut sockets = AdminSockets::default();
        if before.is_none_or(|before| before.socket != plan.socket) {
            sockets.unix = bind_unix(plan)?;
        }
        if before.is_none_or(|before| before.bind != plan.bind)
            && let Some(bind) = &plan.bind
        {
            sockets.tcp = Some(listen(bind, &ListenOptions::default())?);
        }
        Ok(sockets)
    }

    /// Adds newer sockets; those that they replace are closed if the listener has not taken them.
    pub(crate) fn add(&mut self, newer: AdminSockets) {
        let AdminSockets { tcp, unix } = newer;
        self.tcp = tcp.or(self.tcp.take());
        self.unix = unix.or(self.unix.take());
    }
}

fn listen(bind: &Bind, options: &ListenOptions) -> Result<Listening, String> {
    Listening::bind(bind, 1, options).map_err(|error| format!("admin API: {error}"))
}

fn bind_unix(plan: &AdminPlan) -> Result<Option<(Listening, Option<SocketFile>)>, String> {
    if let Some(path) = &plan.socket {
        return open(path).map(Some);
    }
    let path = admin_socket_dir().join(format!("{}.sock", std::process::id()));
    match open(&path) {
        Ok(opened) => Ok(Some(opened)),
        Err(error) => {
            event!(Level::Warn, "no admin socket; `tidegate ctl` needs --admin", error = error);
            Ok(None)
        }
    }
}

fn open(path: &Path) -> Result<(Listening, Option<SocketFile>), String> {
    if let Some(directory) = path.parent().filter(|directory| !directory.as_os_str().is_empty()) {
        if directory == admin_socket_dir() {
            own_directory().map_err(|error| format!("admin API: {error}"))?;
        } else {
            make(directory).map_err(|error| format!("admin API: {error}"))?;
        }
    }
    // File permissions protect the socket: no token is needed.
    let options = ListenOptions { mode: Some(0o600), ..ListenOptions::default() };
    let listening = listen(&Bind::Unix(path.to_owned()), &options)?;
    let file = SocketFile::of(listening.local());
    Ok((listening, file))
}

/// Returns the directory of this user's servers and creates it if it is missing.
pub(crate) fn own_directory() -> Result<PathBuf, String> {
    let directory = admin_socket_dir();
    make(&directory)?;
    check_ours(&directory)?;
    sweep(&directory);
    Ok(directory)
}

/// Creates a directory that only this user can access.
pub(crate) fn make(directory: &Path) -> Result<(), String> {
    let made = std::fs::DirBuilder::new().recursive(true).mode(0o700).create(directory);
    made.map_err(|error| format!("{}: {error}", directory.display()))
}

/// Rejects a directory of another user: the parent may be writable by all users, and the owner
/// could read what `ctl` sends, or respond in the server's name.
fn check_ours(directory: &Path) -> Result<(), String> {
    let is_ours = std::fs::symlink_metadata(directory).is_ok_and(|found| {
        found.is_dir() && found.uid() == net::user_id() && found.mode() & 0o077 == 0
    });
    let shown = directory.display();
    is_ours.then_some(()).ok_or_else(|| format!("{shown} is not a directory of this user's alone"))
}

/// Removes what killed servers have left: `PID.sock` and directories `PID-N.apps` of processes that
/// are not in /proc.
fn sweep(directory: &Path) {
    let processes = Path::new("/proc");
    if !processes.join("self").exists() {
        return;
    }
    for file in std::fs::read_dir(directory).into_iter().flatten().flatten() {
        let name = file.file_name();
        let Some((stem, ending)) = name.to_str().and_then(|name| name.rsplit_once('.')) else {
            continue;
        };
        let process = stem.split('-').next().unwrap_or(stem);
        if process.parse::<u32>().is_err() || processes.join(process).exists() {
            continue;
        }
        // It may have been removed already.
        let _ = match ending {
            "sock" => std::fs::remove_file(file.path()),
            "apps" => std::fs::remove_dir_all(file.path()),
            _ => Ok(()),
        };
    }
}
