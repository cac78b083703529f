//! The admin listener, which runs on the control thread.
//!
//! Takes over the sockets that were bound for the current plan (`admin_sockets`) and closes those
//! that the plan does not name. Idle connections cannot lock out other clients: time-outs are
//! short, and when all permits are taken a reserve with shorter time-outs remains.

use std::cell::RefCell;
use std::rc::{Rc, Weak};
use std::sync::Arc;
use std::time::Duration;

use admin::{Access, Admin, Sessions};
use config::{AdminPlan, MetricsAccess, ServerPlan};
use http_server::{ConnectionTimeouts, ListenerSnapshot, Service, TrustedProxies};
use message::{Bounds, Fault, Request, RouteBounds, TransferTimeout};
use net::{Bind, Listener, Listening};
use plugin::{Dispatch, Route};
use telemetry::{RouteMetrics, WorkerMetrics};

use crate::accept::{AcceptContext, ReserveCapacity, StopSignal, accept};
use crate::api::Api;
use crate::connection_limiter::ConnectionLimiter;
use crate::control::Control;
use crate::instance::{self, head_limits, http2_config};
use crate::listeners::SocketFile;
use crate::options::Bound;

/// Maximum size of a request body: a configuration.
const BODY_BYTES_MAX: u64 = 8 * 1024 * 1024;
/// Maximum time to a first byte, to the end of the headers, and between two parts of a body;
/// shorter if the configuration says so.
const TIMEOUT: Duration = Duration::from_secs(5);
/// Maximum time between two requests: scrapers send one every fifteen seconds.
const IDLE: Duration = Duration::from_secs(30);
/// Replaces all of these for connections in the reserve.
const HURRY: Duration = Duration::from_secs(1);

/// The listeners of the admin API.
pub(crate) struct AdminListener {
    control: Rc<Control>,
    metrics: Arc<WorkerMetrics>,
    /// The sessions of the console, which outlive a reload.
    sessions: Rc<Sessions>,
    unix: RefCell<Option<(OpenListener, Option<SocketFile>)>>,
    tcp: RefCell<Option<(Bind, OpenListener)>>,
}

struct OpenListener {
    /// Owned by the accept loop.
    socket: Weak<Listener>,
    service: Rc<Service>,
    reserve: Rc<Service>,
    stop: Rc<StopSignal>,
}

/// The settings of ordinary connections, and of those in the reserve.
struct ListenerSnapshots([Rc<ListenerSnapshot>; 2]);

impl OpenListener {
    fn replace_snapshots(&self, ListenerSnapshots([snapshot, reserve]): &ListenerSnapshots) {
        self.service.replace_snapshot(snapshot.clone());
        self.reserve.replace_snapshot(reserve.clone());
    }

    fn has_client_auth_of(&self, ListenerSnapshots([snapshot, _]): &ListenerSnapshots) -> bool {
        self.service.snapshot().has_client_auth_of(snapshot)
    }

    fn close(&self) {
        self.stop.stop();
        self.service.drain();
        self.reserve.drain();
    }
}

impl AdminListener {
    pub(crate) fn new(control: Rc<Control>) -> AdminListener {
        AdminListener {
            control,
            // Requests to the API are not counted with those to workers.
            metrics: Arc::new(WorkerMetrics::new()),
            sessions: Rc::default(),
            unix: RefCell::new(None),
            tcp: RefCell::new(None),
        }
    }

    /// Opens, moves and closes listeners as the plan says. Returns the address of the TCP listener,
    /// if there is one.
    pub(crate) fn follow(&self, plan: &ServerPlan) -> Result<Option<Bound>, String> {
        let snapshots = self.snapshots(plan, None);
        let fresh = self.control.admin_sockets.take();
        if let Some((listening, file)) = fresh.unix {
            let opened = (self.open(listening, &snapshots)?.1, file);
            if let Some((old, _)) = self.unix.replace(Some(opened)) {
                old.close();
            }
        } else if let Some((open, _)) = &*self.unix.borrow() {
            open.replace_snapshots(&snapshots);
        }
        let tls = plan.admin.tls.as_ref();
        self.follow_tcp(&plan.admin, fresh.tcp, &self.snapshots(plan, tls))
    }

    fn follow_tcp(
        &self,
        admin: &AdminPlan,
        fresh: Option<Listening>,
        snapshots: &ListenerSnapshots,
    ) -> Result<Option<Bound>, String> {
        let mut tcp = self.tcp.borrow_mut();
        let old = match fresh {
            Some(listening) => tcp.replace(self.open(listening, snapshots)?),
            None if admin.bind.is_none() => tcp.take(),
            None => {
                let open = tcp.as_ref().map(|(_, open)| open);
                let changed = open.filter(|open| !open.has_client_auth_of(snapshots));
                if let Some(socket) = changed.and_then(|open| open.socket.upgrade()) {
                    // Its connections end: they have not shown what is demanded now.
                    tcp.replace(self.open_on(socket, snapshots))
                } else {
                    open.into_iter().for_each(|open| open.replace_snapshots(snapshots));
                    None
                }
            }
        };
        if let Some((_, old)) = old {
            old.close();
        }
        let bound = |(local, _): &(Bind, OpenListener)| Bound {
            name: "admin".to_owned(),
            address: local.clone(),
        };
        Ok(tcp.as_ref().map(bound))
    }

    fn open(
        &self,
        listening: Listening,
        snapshots: &ListenerSnapshots,
    ) -> Result<(Bind, OpenListener), String> {
        let local = listening.local().clone();
        let socket = listening.into_sockets().pop().ok_or("admin API: no socket")?;
        let listener: Listener =
            socket.adopt().map_err(|error| format!("admin API on {local}: {error}"))?;
        Ok(self.open_on(Rc::new(listener), snapshots))
    }

    fn open_on(
        &self,
        listener: Rc<Listener>,
        snapshots: &ListenerSnapshots,
    ) -> (Bind, OpenListener) {
        let local = listener.local().clone();
        let ListenerSnapshots([snapshot, hurried]) = snapshots;
        let service = Service::new(snapshot.clone(), self.metrics.clone());
        let reserve = Service::new(hurried.clone(), self.metrics.clone());
        let stop = Rc::new(StopSignal::default());
        // The admin API and the workers each have a share of the descriptors.
        let (most, hurried) = self.control.descriptors.get().admin;
        let context = AcceptContext {
            name: Rc::new(RefCell::new(Rc::from("admin"))),
            service: service.clone(),
            // A connection takes a permit of each.
            limiters: [ConnectionLimiter::new(most), ConnectionLimiter::new(most)],
            reserve: Some(ReserveCapacity {
                service: reserve.clone(),
                limiter: ConnectionLimiter::new(hurried),
            }),
            idle_closer: None,
            stop: stop.clone(),
            balance: None,
        };
        let socket = Rc::downgrade(&listener);
        net::task::spawn_local(accept(listener, context));
        (local, OpenListener { socket, service, reserve, stop })
    }

    fn snapshots(&self, plan: &ServerPlan, tls: Option<&config::ListenerTls>) -> ListenerSnapshots {
        let access = Access {
            tokens: plan.admin.tokens.clone(),
            metrics_open: plan.admin.metrics == MetricsAccess::Open,
            hosts: plan.admin.hosts.clone(),
            config_secrets: plan.admin.config_secrets,
            console: plan.admin.console,
            sessions: self.sessions.clone(),
        };
        let control: Rc<dyn admin::Control> = Rc::new(Api(self.control.clone()));
        let handler = Rc::new(Admin::new(access, control));
        let metrics = Arc::new(RouteMetrics::new());
        let route =
            Rc::new(Route::new("admin", RouteBounds::default(), metrics, Vec::new(), handler));
        ListenerSnapshots([TIMEOUT, HURRY].map(|most| {
            let tls = tls.map(instance::listener_tls);
            Rc::new(ListenerSnapshot { tls, ..snapshot(plan, route.clone(), most) })
        }))
    }
}

fn with_shorter_timeouts(timeout: TransferTimeout, most: Duration) -> TransferTimeout {
    TransferTimeout { pause: timeout.pause.min(most), ..timeout }
}

/// Returns the settings of connections; `most` bounds all time-outs.
fn snapshot(plan: &ServerPlan, route: Rc<Route>, most: Duration) -> ListenerSnapshot {
    let timeouts = &plan.timeouts;
    let idle = if most == HURRY { HURRY } else { IDLE };
    ListenerSnapshot {
        proxy_protocol: None,
        tls: None,
        dispatch: Rc::new(AdminDispatch(route)),
        http1: true,
        http2: Some(http2_config(&plan.limits)),
        head_limits: head_limits(&plan.limits),
        timeouts: ConnectionTimeouts {
            handshake: timeouts.handshake.get().min(most),
            head: timeouts.head.get().min(most),
            idle: timeouts.idle.get().min(idle),
        },
        bounds: Bounds {
            body: BODY_BYTES_MAX,
            body_timeout: with_shorter_timeouts(timeouts.body_timeout(), most),
            body_total: None,
            write_timeout: with_shorter_timeouts(timeouts.write_timeout(), most),
        },
        half_close: false,
        trusted_proxies: TrustedProxies::default(),
        countries: None,
        pages: Arc::default(),
        access: None,
        tracer: None,
    }
}

/// Sends every request to the API.
struct AdminDispatch(Rc<Route>);

impl Dispatch for AdminDispatch {
    fn dispatch(&self, _: &mut Request) -> Result<Rc<Route>, Fault> {
        Ok(self.0.clone())
    }
}
