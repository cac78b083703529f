//! The sockets of the admin API: bound while a Plan is prepared, so that an address that cannot be
//! had is known before anything has changed.
//!
//! The Unix socket always exists. Where the configuration names its path, not to get it is a
//! failure; the one we choose, in a folder of the user's, may be missing where the user has no such
//! folder, and then only a warning says so. A file that was made for nothing goes again.

use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};

use config::AdminPlan;
use net::{Bind, ListenOptions, Listening};
use telemetry::event;
use telemetry::log::Level;

use crate::listeners::SocketFile;

/// Where the Unix admin sockets of this user's servers are, one `PID.sock` each.
pub fn admin_socket_dir() -> PathBuf {
    match std::env::var_os("XDG_RUNTIME_DIR").filter(|folder| !folder.is_empty()) {
        Some(folder) => PathBuf::from(folder).join("tidegate"),
        None => std::env::temp_dir().join(format!("tidegate-{}", net::user_id())),
    }
}

/// Sockets that a Plan needs and that were not open: bound, but in nobody's hands yet.
#[derive(Default)]
pub(crate) struct AdminSockets {
    pub(crate) tcp: Option<Listening>,
    pub(crate) unix: Option<(Listening, Option<SocketFile>)>,
}

impl AdminSockets {
    /// Binds what the Plan names and the one before it did not.
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

    /// Takes newer ones over; those that nobody has taken since are closed.
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
    if let Some(folder) = path.parent().filter(|folder| !folder.as_os_str().is_empty()) {
        if folder == admin_socket_dir() {
            own_folder().map_err(|error| format!("admin API: {error}"))?;
        } else {
            make(folder).map_err(|error| format!("admin API: {error}"))?;
        }
    }
    // Whoever may open the socket needs no token.
    let options = ListenOptions { mode: Some(0o600), ..ListenOptions::default() };
    let listening = listen(&Bind::Unix(path.to_owned()), &options)?;
    let file = SocketFile::of(listening.local());
    Ok((listening, file))
}

/// The folder of this user's servers, made where it is not there.
pub(crate) fn own_folder() -> Result<PathBuf, String> {
    let folder = admin_socket_dir();
    make(&folder)?;
    check_ours(&folder)?;
    sweep(&folder);
    Ok(folder)
}

/// A folder for this user alone.
pub(crate) fn make(folder: &Path) -> Result<(), String> {
    let made = std::fs::DirBuilder::new().recursive(true).mode(0o700).create(folder);
    made.map_err(|error| format!("{}: {error}", folder.display()))
}

/// The folder may lie where everybody can write: whoever made it first could otherwise read what
/// `ctl` says, or answer in our name.
fn check_ours(folder: &Path) -> Result<(), String> {
    let is_ours = std::fs::symlink_metadata(folder).is_ok_and(|found| {
        found.is_dir() && found.uid() == net::user_id() && found.mode() & 0o077 == 0
    });
    let shown = folder.display();
    is_ours.then_some(()).ok_or_else(|| format!("{shown} is not a folder of this user's alone"))
}

/// Removes what killed servers have left behind, where the system tells who lives: `PID.sock`, and
/// folders `PID-N.apps`.
fn sweep(folder: &Path) {
    let processes = Path::new("/proc");
    if !processes.join("self").exists() {
        return;
    }
    for file in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        let name = file.file_name();
        let Some((stem, ending)) = name.to_str().and_then(|name| name.rsplit_once('.')) else {
            continue;
        };
        let process = stem.split('-').next().unwrap_or(stem);
        if process.parse::<u32>().is_err() || processes.join(process).exists() {
            continue;
        }
        // It may be gone already: somebody tidied the folder.
        let _ = match ending {
            "sock" => std::fs::remove_file(file.path()),
            "apps" => std::fs::remove_dir_all(file.path()),
            _ => Ok(()),
        };
    }
}
