//! The admin listener: on the control thread, with a serving loop like any other.
//!
//! Its Unix socket always exists, in a folder of the user's, so that `tidegate ctl` finds a server
//! that was told nothing. A TCP address is opened where the configuration names one, and moved when
//! it names another.

use std::cell::RefCell;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::Arc;

use admin::{Access, Admin};
use config::{AdminPlan, MetricsAccess, Plan};
use exchange::serve::{Edge, Service, TrustedProxies};
use exchange::{Bounds, Dispatch, Fault, Request, Route, RouteBounds};
use net::{Bind, ListenOptions, Listener, Listening};
use telemetry::log::Level;
use telemetry::{RouteMetrics, WorkerMetrics, event};

use crate::accept::{Door, Stop, accept};
use crate::api::Api;
use crate::control::Control;
use crate::instance::{connection_timeouts, head_limits};
use crate::options::Bound;
use crate::seats::Seats;

/// Connections the admin API may have at once: it must not starve the workers of descriptors.
const CONNECTIONS_MAX: usize = 256;
/// Largest request body: a configuration.
const BODY_BYTES_MAX: u64 = 8 * 1024 * 1024;

/// Where the Unix admin sockets of this user's servers are, one `PID.sock` each.
pub fn admin_socket_dir() -> PathBuf {
    match std::env::var_os("XDG_RUNTIME_DIR").filter(|folder| !folder.is_empty()) {
        Some(folder) => PathBuf::from(folder).join("tidegate"),
        None => std::env::temp_dir().join(format!("tidegate-{}", net::user_id())),
    }
}

/// The open doors of the admin API.
pub(crate) struct Reception {
    control: Rc<Control>,
    metrics: Arc<WorkerMetrics>,
    unix: RefCell<Option<(PathBuf, Open)>>,
    tcp: RefCell<Option<(Bind, Bind, Open)>>,
}

struct Open {
    service: Rc<Service>,
    stop: Rc<Stop>,
}

impl Open {
    fn close(&self) {
        self.stop.stop();
        self.service.drain();
    }
}

impl Reception {
    pub(crate) fn new(control: Rc<Control>) -> Reception {
        Reception {
            control,
            // Not one of the workers': what the API itself is asked is not counted with the rest.
            metrics: Arc::new(WorkerMetrics::new()),
            unix: RefCell::new(None),
            tcp: RefCell::new(None),
        }
    }

    /// Opens, moves and closes what the Plan says. The address of the TCP listener, where there is
    /// one.
    pub(crate) fn follow(&self, plan: &Plan) -> Result<Option<Bound>, String> {
        let edge = Rc::new(self.edge(plan));
        self.follow_unix(&plan.admin, &edge);
        self.follow_tcp(&plan.admin, &edge)
    }

    fn follow_unix(&self, admin: &AdminPlan, edge: &Rc<Edge>) {
        let path = match &admin.socket {
            Some(path) => path.to_path_buf(),
            None => admin_socket_dir().join(format!("{}.sock", std::process::id())),
        };
        let mut unix = self.unix.borrow_mut();
        match &*unix {
            Some((open_path, open)) if *open_path == path => {
                open.service.replace_edge(edge.clone());
                return;
            }
            Some((open_path, open)) => {
                open.close();
                remove(open_path);
            }
            None => {}
        }
        *unix = match self.open_unix(&path, edge) {
            Ok(open) => Some((path, open)),
            Err(error) => {
                event!(Level::Warn, "no admin socket; `tidegate ctl` needs --admin", error = error);
                None
            }
        };
    }

    fn open_unix(&self, path: &Path, edge: &Rc<Edge>) -> Result<Open, String> {
        if let Some(folder) = path.parent() {
            let made = std::fs::DirBuilder::new().recursive(true).mode(0o700).create(folder);
            made.map_err(|error| format!("{}: {error}", folder.display()))?;
            if folder == admin_socket_dir() {
                check_ours(folder)?;
                sweep(folder);
            }
        }
        let (open, _) = self.open(&Bind::Unix(path.to_owned()), edge)?;
        // Whoever may open the socket needs no token.
        let rights = std::fs::Permissions::from_mode(0o600);
        std::fs::set_permissions(path, rights)
            .map_err(|error| format!("{}: {error}", path.display()))?;
        Ok(open)
    }

    fn follow_tcp(&self, admin: &AdminPlan, edge: &Rc<Edge>) -> Result<Option<Bound>, String> {
        let mut tcp = self.tcp.borrow_mut();
        let bound = |local: &Bind| Bound { name: "admin".to_owned(), address: local.clone() };
        if let Some((asked, local, open)) = &*tcp
            && admin.bind.as_ref() == Some(asked)
        {
            open.service.replace_edge(edge.clone());
            return Ok(Some(bound(local)));
        }
        let opened = match &admin.bind {
            Some(bind) => {
                let (open, local) = self.open(bind, edge)?;
                Some((bind.clone(), local, open))
            }
            None => None,
        };
        let address = opened.as_ref().map(|(_, local, _)| bound(local));
        if let Some((_, _, open)) = std::mem::replace(&mut *tcp, opened) {
            open.close();
        }
        Ok(address)
    }

    fn open(&self, bind: &Bind, edge: &Rc<Edge>) -> Result<(Open, Bind), String> {
        let listening = Listening::bind(bind, 1, &ListenOptions::default())
            .map_err(|error| format!("admin API: {error}"))?;
        let local = listening.local().clone();
        let socket = listening.into_sockets().pop().ok_or("admin API: no socket")?;
        let listener: Listener =
            socket.adopt().map_err(|error| format!("admin API on {local}: {error}"))?;
        let service = Service::new(edge.clone(), self.metrics.clone());
        let stop = Rc::new(Stop::default());
        let seats = Seats::new(CONNECTIONS_MAX);
        let door = Door {
            name: Rc::new(RefCell::new(Rc::from("admin"))),
            service: service.clone(),
            seats: [seats.clone(), seats],
            stop: stop.clone(),
        };
        tokio::task::spawn_local(accept(listener, door));
        Ok((Open { service, stop }, local))
    }

    fn edge(&self, plan: &Plan) -> Edge {
        let access = Access {
            token: plan.admin.token.clone(),
            metrics_open: plan.admin.metrics == MetricsAccess::Open,
        };
        let control: Rc<dyn admin::Control> = Rc::new(Api(self.control.clone()));
        let route = Rc::new(Route {
            name: Rc::from("admin"),
            stages: Vec::new(),
            handler: Rc::new(Admin::new(access, control)),
            bounds: RouteBounds::default(),
            metrics: Arc::new(RouteMetrics::new()),
        });
        let timeouts = &plan.timeouts;
        Edge {
            dispatch: Rc::new(Always(route)),
            head_limits: head_limits(&plan.limits),
            timeouts: connection_timeouts(timeouts),
            bounds: Bounds {
                body: BODY_BYTES_MAX,
                body_pause: timeouts.body.get(),
                write_pause: timeouts.write.get(),
            },
            half_close: false,
            trusted_proxies: TrustedProxies::default(),
            pages: Arc::default(),
            access: None,
        }
    }
}

impl Drop for Reception {
    fn drop(&mut self) {
        if let Some((path, _)) = &*self.unix.borrow() {
            remove(path);
        }
    }
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

/// Removes sockets that killed servers have left behind, where the system tells who lives.
fn sweep(folder: &Path) {
    let processes = Path::new("/proc");
    if !processes.join("self").exists() {
        return;
    }
    for file in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        let name = file.file_name();
        let process = name.to_str().and_then(|name| name.strip_suffix(".sock"));
        if process.is_some_and(|process| !processes.join(process).exists()) {
            remove(&file.path());
        }
    }
}

fn remove(path: &Path) {
    // It may be gone already: somebody tidied the folder.
    let _ = std::fs::remove_file(path);
}

/// Sends every request to the API.
struct Always(Rc<Route>);

impl Dispatch for Always {
    fn dispatch(&self, _: &mut Request) -> Result<Rc<Route>, Fault> {
        Ok(self.0.clone())
    }
}
