//! `http.listen`: a listener whose requests start coroutines.
//!
//! Owns the accept loop and the one route of all requests. Connections run the serving loop of
//! `http-server`, with its limits and time-outs; a handler that never waits responds within the
//! loop's call. Promises that an accept error never ends a listener, and that clients leave file
//! descriptors for the program.

use std::cell::{Cell, RefCell};
use std::future::poll_fn;
use std::rc::{Rc, Weak};
use std::slice;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use http_server::AccessLog;
use http_server::{
    ConnectionTimeouts, ListenerSnapshot, ListenerTls, Service, TrustedProxies, close_longest_idle,
    refuse, serve,
};
use message::{
    Bounds, ConnectionFacts, ConnectionTimes, Fault, FaultKind, HandlerResult, Protocol, Request,
    RouteBounds,
};
use mlua::{Function, Lua, Result, Table, UserData, UserDataMethods, Value};
use net::{Accepted, Bind, BoundSocket, Listener};
use plugin::problem::ErrorPages;
use plugin::{Dispatch, Handler, MaybeFuture, Route};
use telemetry::log::Level;
use telemetry::{LimitHit, RouteMetrics, WorkerMetrics, event_limited};

use super::server_exchange::{ResponseWait, ServerExchange};
use super::stream::Stream;
use super::waker_set::WakerSet;
use crate::context::VmContext;
use crate::limits;
use crate::tls::server_tls;
use lua_vm::TaskEnd;
use lua_vm::Vm;
use lua_vm::errno;
use lua_vm::limits::{BACKLOG, EXHAUSTED_MS};
use lua_vm::native;

/// Runs a script's function for every request.
struct ProgramHandler {
    vm: Weak<Vm>,
    begin: Function,
}

impl ProgramHandler {
    fn start(&self, inbound: &Rc<ServerExchange>) -> std::result::Result<(), Fault> {
        let over = || Fault::new(FaultKind::Unavailable, "the program has ended");
        let vm = self.vm.upgrade().ok_or_else(over)?;
        let of = inbound.clone();
        let ended = move |_: &Lua, end: TaskEnd| match end {
            TaskEnd::Returned(_) => of.finish(None),
            TaskEnd::Failed(error) => {
                of.fail(Fault::internal(error.message));
            }
        };
        let stream = Stream(inbound.clone());
        let started = vm.turn(|turn| turn.start(&self.begin, stream, Some(Box::new(ended))));
        started.ok_or_else(over)?.map_err(|error| Fault::internal(error.to_string()))
    }
}

impl Handler for ProgramHandler {
    fn name(&self) -> &'static str {
        "lua"
    }

    fn handle<'a>(&'a self, request: &'a mut Request) -> MaybeFuture<'a, HandlerResult> {
        let inbound = ServerExchange::new(request);
        if let Err(fault) = self.start(&inbound) {
            return Err(fault).into();
        }
        if let Some(outcome) = inbound.take_outcome() {
            return outcome.into();
        }
        let waiting = ResponseWait(inbound);
        MaybeFuture::of(async move { poll_fn(|cx| waiting.0.poll_outcome(cx)).await })
    }
}

/// A dispatch with one route.
struct SingleRoute(Rc<Route>);

impl Dispatch for SingleRoute {
    fn dispatch(&self, _: &mut Request) -> std::result::Result<Rc<Route>, Fault> {
        Ok(self.0.clone())
    }
}

/// The metrics and access log of a VM's listeners; without them each listener has its own metrics.
#[derive(Clone, Default)]
pub struct ListenerMetrics {
    pub worker: Arc<WorkerMetrics>,
    pub route: Arc<RouteMetrics>,
    pub access: Option<Rc<AccessLog>>,
}

/// Sets the metrics and access log of a VM's listeners.
pub fn observe(vm: &Vm, observed: ListenerMetrics) {
    vm.lua().set_app_data(observed);
}

fn listener_snapshot(
    vm: &Vm,
    begin: Function,
    options: &HttpListenOptions,
    observed: &ListenerMetrics,
    tls: Option<ListenerTls>,
) -> ListenerSnapshot {
    let handler = ProgramHandler { vm: vm.weak(), begin };
    let metrics = observed.route.clone();
    let route = Route::new("lua", RouteBounds::default(), metrics, Vec::new(), Rc::new(handler));
    ListenerSnapshot {
        proxy_protocol: None,
        tls,
        dispatch: Rc::new(SingleRoute(Rc::new(route))),
        http1: true,
        http2: Some(wire::h2::Config::default()),
        head_limits: wire::h1::HeadLimits::default(),
        timeouts: ConnectionTimeouts {
            handshake: options.head,
            head: options.head,
            idle: options.idle,
        },
        bounds: Bounds {
            body: options.body,
            body_timeout: options.body_timeout.unwrap_or(Bounds::default().body_timeout),
            ..Bounds::default()
        },
        half_close: true,
        trusted_proxies: TrustedProxies::default(),
        countries: None,
        pages: Arc::new(ErrorPages::default()),
        access: observed.access.clone(),
        tracer: None,
    }
}

/// The options of a listener.
struct HttpListenOptions {
    backlog: u32,
    body: u64,
    /// Without a rate: what a program sets bounds pauses alone.
    body_timeout: Option<message::TransferTimeout>,
    head: Duration,
    idle: Duration,
    connections: usize,
}

impl HttpListenOptions {
    fn read(conf: &Table) -> Result<HttpListenOptions> {
        let number = |key: &str, default: u64| -> Result<u64> {
            Ok(conf.get::<Option<u64>>(key)?.unwrap_or(default))
        };
        Ok(HttpListenOptions {
            backlog: u32::try_from(number("backlog", u64::from(BACKLOG))?)
                .unwrap_or(BACKLOG)
                .max(1),
            body: number("max_body", limits::HTTP_BODY_BYTES as u64)?,
            body_timeout: conf.get::<Option<u32>>("body_timeout")?.map(|ms| {
                message::TransferTimeout { pause: Duration::from_millis(ms.into()), rate: 0 }
            }),
            head: Duration::from_millis(number("head_timeout", limits::HTTP_HEAD_MS)?),
            idle: Duration::from_millis(number("idle_timeout", limits::HTTP_IDLE_MS)?),
            connections: usize::try_from(number(
                "max_connections",
                limits::HTTP_CONNECTIONS as u64,
            )?)
            .unwrap_or(usize::MAX),
        })
    }
}

/// The TLS of a listener with `tls = true`.
fn listener_tls(
    lua: &Lua,
    conf: &Table,
) -> Result<std::result::Result<Option<ListenerTls>, String>> {
    if !conf.get::<Option<bool>>("tls")?.unwrap_or_default() {
        return Ok(Ok(None));
    }
    let server = server_tls(lua, conf, &[b"h2", b"http/1.1"])?;
    Ok(server.map(|server| Some(ListenerTls { server, redirects_plain: false, hsts: None })))
}

/// `listen(address, begin, options) → listener | nil, err`: `begin` gets a raw stream.
pub(super) fn listen(
    lua: &Lua,
    (address, begin, conf): (String, Function, Table),
) -> Result<(Value, Option<String>)> {
    let vm = Vm::of(lua)?;
    let options = HttpListenOptions::read(&conf)?;
    let tls = match listener_tls(lua, &conf)? {
        Ok(tls) => tls,
        Err(why) => return Ok((Value::Nil, Some(why))),
    };
    let bound = native::tcp::bind(&vm, &address, options.backlog)
        .and_then(|socket: BoundSocket| socket.adopt().map_err(|error| errno::of_error(&error)));
    let listener = match bound {
        Ok(listener) => listener,
        Err(reason) => return Ok((Value::Nil, Some(reason))),
    };
    let observed = lua.app_data_ref::<ListenerMetrics>().map(|observed| observed.clone());
    let observed = observed.unwrap_or_default();
    let snapshot = Rc::new(listener_snapshot(&vm, begin, &options, &observed, tls));
    let door = Rc::new(HttpListener {
        local: listener.local().clone(),
        service: Service::new(snapshot, observed.worker),
        connections: options.connections,
        descriptors: descriptors_for_clients(&vm),
        closed: Cell::new(false),
        closing: WakerSet::default(),
        left: WakerSet::default(),
    });
    let open = lua.app_data_ref::<HttpListeners>().map(|doors| doors.clone()).unwrap_or_default();
    open.0.0.borrow_mut().retain(|door| door.strong_count() > 0);
    open.0.0.borrow_mut().push(Rc::downgrade(&door));
    lua.set_app_data(open);
    net::task::spawn_local(accept(listener, door.clone()));
    Ok((Value::UserData(lua.create_userdata(Open(door))?), None))
}

/// How many client connections of one worker leave the program a quarter of the descriptors that
/// are free now.
fn descriptors_for_clients(vm: &Vm) -> usize {
    let free = net::descriptor_limit().saturating_sub(net::open_descriptors());
    let workers = VmContext::of(vm).member.map_or(1, |member| member.group.workers());
    let connections = usize::try_from(free / 4 * 3).unwrap_or(usize::MAX) / workers;
    connections.max(1)
}

/// A listener and its connections.
struct HttpListener {
    local: Bind,
    service: Rc<Service>,
    connections: usize,
    /// The connections that the process's file descriptors allow.
    descriptors: usize,
    closed: Cell<bool>,
    closing: WakerSet,
    /// Notified when a connection has ended.
    left: WakerSet,
}

/// The listeners of a VM. They end with it, as it handles their requests.
#[derive(Clone, Default)]
struct HttpListeners(Rc<Opened>);

#[derive(Default)]
struct Opened(RefCell<Vec<Weak<HttpListener>>>);

impl Drop for Opened {
    fn drop(&mut self) {
        for door in self.0.take().iter().filter_map(Weak::upgrade) {
            door.close();
        }
    }
}

impl HttpListener {
    /// Stops accepting, and ends every connection after its exchange.
    fn close(&self) -> bool {
        let first = !self.closed.replace(true);
        self.closing.wake_all();
        self.service.drain();
        first
    }

    /// Closes connections that have been idle longest, because there are too few descriptors.
    /// Returns how many.
    fn close_idle(&self) -> usize {
        self.service.metrics.hit(LimitHit::Descriptors);
        let idle_for = Duration::from_millis(limits::HTTP_SHED_IDLE_MS);
        let closed = close_longest_idle(slice::from_ref(&self.service), idle_for);
        event_limited!(
            1,
            Level::Warn,
            "out of file descriptors, closing the longest idle connections; raise LimitNOFILE or \
             `ulimit -Hn`",
            event = "descriptors_exhausted",
            limit = net::descriptor_limit(),
            connections = self.service.open_connections(),
            closed = closed
        );
        closed
    }

    fn admit(self: &Rc<Self>, accepted: Accepted, local: &Rc<Bind>) {
        let open = self.service.open_connections();
        let is_full = open >= self.descriptors && self.close_idle() == 0;
        if is_full || open >= self.connections {
            // Under TLS it would take a handshake to tell: the connection is only closed.
            if self.service.snapshot().tls.is_none() {
                net::task::spawn_local(refuse(accepted));
            }
            return;
        }
        let facts = ConnectionFacts {
            peer: accepted.peer.clone(),
            local: local.clone(),
            listener: Rc::from("lua"),
            protocol: Protocol::Http1,
            tls: None,
            times: ConnectionTimes::default(),
        };
        let door = self.clone();
        net::task::spawn_local(async move {
            serve(accepted, door.service.clone(), facts).await;
            door.left.wake_all();
        });
    }
}

async fn accept(listener: Listener, door: Rc<HttpListener>) {
    let local = Rc::new(listener.local().clone());
    loop {
        let accepted = poll_fn(|cx| {
            if door.closed.get() {
                return Poll::Ready(None);
            }
            door.closing.wait(cx);
            listener.poll_accept(cx).map(Some)
        })
        .await;
        match accepted {
            None => return,
            Some(Ok(accepted)) => door.admit(accepted, &local),
            Some(Err(error)) if net::is_exhausted(&error) => {
                door.close_idle();
                net::timer::sleep(Duration::from_millis(EXHAUSTED_MS)).await;
            }
            // This error concerns one connection only.
            Some(Err(_)) => door.service.metrics.accept_errors.inc(),
        }
    }
}

/// Drains the listeners of a VM, if it has any; ready once no connection is open.
pub(crate) fn drain(vm: &Vm) -> Option<impl Future<Output = ()> + use<>> {
    let doors = vm.lua().app_data_ref::<HttpListeners>().map(|doors| doors.clone())?;
    let doors: Vec<Rc<HttpListener>> = doors.0.0.take().iter().filter_map(Weak::upgrade).collect();
    for door in &doors {
        door.close();
    }
    Some(async move {
        for door in doors {
            poll_fn(|cx| {
                if door.service.open_connections() == 0 {
                    return Poll::Ready(());
                }
                door.left.wait(cx);
                Poll::Pending
            })
            .await;
        }
    })
}

/// The userdata of a listener, which lives until it is closed, even if this is collected.
struct Open(Rc<HttpListener>);

impl UserData for Open {
    fn add_fields<F: mlua::UserDataFields<Self>>(fields: &mut F) {
        fields.add_field_method_get("addr", |_, Open(door)| Ok(door.local.to_string()));
    }

    fn add_methods<M: UserDataMethods<Self>>(methods: &mut M) {
        methods.add_method("stat", |lua, Open(door), ()| {
            let metrics = &door.service.metrics;
            let stat = lua.create_table()?;
            stat.set("connections", door.service.open_connections())?;
            stat.set("accepted", metrics.connections_accepted.get())?;
            stat.set("in_flight", metrics.requests_in_flight.get())?;
            stat.set("received", metrics.bytes_received.get())?;
            stat.set("sent", metrics.bytes_sent.get())?;
            for (class, name) in ["2xx", "3xx", "4xx", "5xx"].into_iter().enumerate() {
                stat.set(name, metrics.responses(class + 1))?;
            }
            Ok(stat)
        });
        methods.add_method("close", |_, Open(door), ()| {
            let first = door.close();
            Ok((first, (!first).then_some(errno::CLOSED)))
        });
    }
}
