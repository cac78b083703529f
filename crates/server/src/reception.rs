//! The admin listener: on the control thread, with a serving loop like any other.
//!
//! Takes the sockets over that were bound for the Plan in use (`admin_sockets`) and closes those
//! that it does not name. Whoever opens connections and says nothing does not lock others out:
//! there are short time-outs, and when all seats are taken some more whose holders must hurry.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use admin::{Access, Admin};
use config::{AdminPlan, MetricsAccess, Plan};
use exchange::serve::{ConnectionTimeouts, ListenerSnapshot, Patience, Service, TrustedProxies};
use exchange::{Bounds, Dispatch, Fault, Request, Route, RouteBounds};
use net::{Bind, Listener, Listening};
use telemetry::{RouteMetrics, WorkerMetrics};

use crate::accept::{Door, Reserve, Stop, accept};
use crate::api::Api;
use crate::control::Control;
use crate::instance::head_limits;
use crate::listeners::SocketFile;
use crate::options::Bound;
use crate::seats::Seats;

/// Largest request body: a configuration.
const BODY_BYTES_MAX: u64 = 8 * 1024 * 1024;
/// Longest time to a first byte, to the end of a head, and in which a body or an answer stands
/// still; the configuration's are shorter where it says so.
const PATIENCE: Duration = Duration::from_secs(5);
/// Longest time between two requests: scrapers come every fifteen seconds.
const IDLE: Duration = Duration::from_secs(30);
/// All of these for who sits in the reserve.
const HURRY: Duration = Duration::from_secs(1);

/// The open doors of the admin API.
pub(crate) struct Reception {
    control: Rc<Control>,
    metrics: Arc<WorkerMetrics>,
    unix: RefCell<Option<(Open, Option<SocketFile>)>>,
    tcp: RefCell<Option<(Bind, Open)>>,
}

struct Open {
    service: Rc<Service>,
    reserve: Rc<Service>,
    stop: Rc<Stop>,
}

/// What the Plan says about connections, and about those in the reserve.
struct Edges([Rc<ListenerSnapshot>; 2]);

impl Open {
    fn replace_edges(&self, Edges([edge, reserve]): &Edges) {
        self.service.replace_snapshot(edge.clone());
        self.reserve.replace_snapshot(reserve.clone());
    }

    fn close(&self) {
        self.stop.stop();
        self.service.drain();
        self.reserve.drain();
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
        let edges = self.edges(plan);
        let fresh = self.control.admin_sockets.take();
        if let Some((listening, file)) = fresh.unix {
            let opened = (self.open(listening, &edges)?.1, file);
            if let Some((old, _)) = self.unix.replace(Some(opened)) {
                old.close();
            }
        } else if let Some((open, _)) = &*self.unix.borrow() {
            open.replace_edges(&edges);
        }
        self.follow_tcp(&plan.admin, fresh.tcp, &edges)
    }

    fn follow_tcp(
        &self,
        admin: &AdminPlan,
        fresh: Option<Listening>,
        edges: &Edges,
    ) -> Result<Option<Bound>, String> {
        let mut tcp = self.tcp.borrow_mut();
        let old = match fresh {
            Some(listening) => tcp.replace(self.open(listening, edges)?),
            None if admin.bind.is_none() => tcp.take(),
            None => {
                if let Some((_, open)) = &*tcp {
                    open.replace_edges(edges);
                }
                None
            }
        };
        if let Some((_, old)) = old {
            old.close();
        }
        let bound =
            |(local, _): &(Bind, Open)| Bound { name: "admin".to_owned(), address: local.clone() };
        Ok(tcp.as_ref().map(bound))
    }

    fn open(&self, listening: Listening, edges: &Edges) -> Result<(Bind, Open), String> {
        let local = listening.local().clone();
        let socket = listening.into_sockets().pop().ok_or("admin API: no socket")?;
        let listener: Listener =
            socket.adopt().map_err(|error| format!("admin API on {local}: {error}"))?;
        let Edges([edge, hurried]) = edges;
        let service = Service::new(edge.clone(), self.metrics.clone());
        let reserve = Service::new(hurried.clone(), self.metrics.clone());
        let stop = Rc::new(Stop::default());
        // It must not starve the workers of descriptors, and they leave it as many as this.
        let (most, hurried) = self.control.descriptors.get().admin;
        let door = Door {
            name: Rc::new(RefCell::new(Rc::from("admin"))),
            service: service.clone(),
            // Two of their own: a connection takes one of each.
            seats: [Seats::new(most), Seats::new(most)],
            reserve: Some(Reserve { service: reserve.clone(), seats: Seats::new(hurried) }),
            relief: None,
            stop: stop.clone(),
            balance: None,
        };
        net::task::spawn_local(accept(listener, door));
        Ok((local, Open { service, reserve, stop }))
    }

    fn edges(&self, plan: &Plan) -> Edges {
        let access = Access {
            token: plan.admin.token.clone(),
            metrics_open: plan.admin.metrics == MetricsAccess::Open,
            hosts: plan.admin.hosts.clone(),
            config_secrets: plan.admin.config_secrets,
        };
        let control: Rc<dyn admin::Control> = Rc::new(Api(self.control.clone()));
        let handler = Rc::new(Admin::new(access, control));
        let metrics = Arc::new(RouteMetrics::new());
        let route =
            Rc::new(Route::new("admin", RouteBounds::default(), metrics, Vec::new(), handler));
        Edges([PATIENCE, HURRY].map(|most| Rc::new(edge(plan, route.clone(), most))))
    }
}

fn hurried(patience: Patience, most: Duration) -> Patience {
    Patience { pause: patience.pause.min(most), ..patience }
}

/// `most` bounds whatever the configuration allows a client to take its time for.
fn edge(plan: &Plan, route: Rc<Route>, most: Duration) -> ListenerSnapshot {
    let timeouts = &plan.timeouts;
    let idle = if most == HURRY { HURRY } else { IDLE };
    ListenerSnapshot {
        dispatch: Rc::new(Always(route)),
        head_limits: head_limits(&plan.limits),
        timeouts: ConnectionTimeouts {
            handshake: timeouts.handshake.get().min(most),
            head: timeouts.head.get().min(most),
            idle: timeouts.idle.get().min(idle),
        },
        bounds: Bounds {
            body: BODY_BYTES_MAX,
            body_patience: hurried(timeouts.body_patience(), most),
            body_total: None,
            write_patience: hurried(timeouts.write_patience(), most),
        },
        half_close: false,
        trusted_proxies: TrustedProxies::default(),
        pages: Arc::default(),
        access: None,
    }
}

/// Sends every request to the API.
struct Always(Rc<Route>);

impl Dispatch for Always {
    fn dispatch(&self, _: &mut Request) -> Result<Rc<Route>, Fault> {
        Ok(self.0.clone())
    }
}
