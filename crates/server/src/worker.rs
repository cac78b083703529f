//! A worker's main loop, which executes the commands of the control thread.
//!
//! Owns the worker's instance of the plan, its services and its accept loops. A command is
//! acknowledged when it has been executed, which is how the control thread knows that a new plan is
//! served.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::{Rc, Weak};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use config::{ListenerPlan, ServerPlan};
use http_server::{ListenerSnapshot, LiveLog, Service};
use lua_host::{ProfileKind, RawProgram, WorkerProfile};
use message::TraceQueue;
use net::{BoundSocket, Listener};
use plugin::WorkerContext;
use streams::StreamService;
use telemetry::log::Level;
use telemetry::{WorkerMetrics, event};
use tokio::sync::{mpsc, oneshot};

use crate::accept::{AcceptContext, StopSignal, accept};
use crate::balance::Balance;
use crate::connection_limiter::ConnectionLimiter;
use crate::descriptors::IdleCloser;
use crate::instance::{self, Instance, credential_places};
use crate::listeners::key;
use crate::logs::AccessEnd;
use crate::raw_listeners::{AdoptedSocket, RawListeners, report_missing};

/// Interval at which a draining worker checks whether its connections have ended.
const DRAIN_LOOK: Duration = Duration::from_millis(20);

/// A command for a worker.
pub(crate) enum ThreadCommand {
    /// Adopt these sockets, by `listeners::key`, for the next plan: all of them or none.
    Adopt(BTreeMap<String, BoundSocket>, oneshot::Sender<Result<(), String>>),
    /// Close the adopted sockets: the plan was rejected.
    Forget,
    /// Serve this plan from now on.
    Serve(Box<Serving>),
    /// Record a profile of the worker's Lua code for this time, and serve as before.
    Profile(ProfileKind, Duration, oneshot::Sender<WorkerProfile>),
    /// Replace the worker's Lua VM; acknowledged with whether there is one.
    RestartLua(oneshot::Sender<bool>),
    /// Stop accepting and wait for open connections; acknowledged when all have ended.
    Drain(oneshot::Sender<()>),
    /// Stop at once.
    End,
}

/// A plan; its new sockets were adopted before.
pub(crate) struct Serving {
    pub(crate) plan: Arc<ServerPlan>,
    pub(crate) limiters: BTreeMap<String, Arc<ConnectionLimiter>>,
    pub(crate) server_limiter: Arc<ConnectionLimiter>,
    pub(crate) access: Option<AccessEnd>,
    /// Takes the traces of requests, if they are exported.
    pub(crate) traces: Option<Arc<TraceQueue>>,
    pub(crate) done: oneshot::Sender<()>,
}

struct OpenListener {
    name: Rc<RefCell<Rc<str>>>,
    service: Rc<Service>,
    /// Owned by the accept loop.
    socket: Weak<Listener>,
    stop: Rc<StopSignal>,
}

/// The state of the main loop.
pub(crate) struct Worker {
    context: WorkerContext,
    metrics: Arc<WorkerMetrics>,
    listeners: BTreeMap<String, OpenListener>,
    /// Sockets of the next plan.
    adopted: BTreeMap<String, AdoptedSocket>,
    /// Services of closed listeners whose connections have not all ended.
    closing: Vec<Rc<Service>>,
    streams: RawListeners<StreamService>,
    programs: RawListeners<RawProgram>,
    /// Keeps the generation alive; requests in flight hold the previous one.
    lua: Option<Rc<lua_host::Generation>>,
    /// The version that is served, read by the control thread.
    version: Arc<Mutex<String>>,
    balance: Option<Arc<Balance>>,
    idle_closer: Rc<IdleCloser>,
}

/// A draining worker takes no other command than `End`.
async fn until_end(commands: &mut mpsc::UnboundedReceiver<ThreadCommand>) {
    while let Some(command) = commands.recv().await {
        if let ThreadCommand::End = command {
            return;
        }
    }
}

impl Worker {
    pub(crate) fn new(
        context: WorkerContext,
        version: Arc<Mutex<String>>,
        balance: Option<Arc<Balance>>,
    ) -> Worker {
        let metrics = context.telemetry.worker(context.index);
        Worker {
            idle_closer: IdleCloser::new(&context),
            context,
            metrics,
            listeners: BTreeMap::new(),
            adopted: BTreeMap::new(),
            closing: Vec::new(),
            streams: RawListeners::default(),
            programs: RawListeners::default(),
            lua: None,
            version,
            balance,
        }
    }

    /// Executes commands until `End`, or until the control thread has exited.
    pub(crate) async fn run(mut self, mut commands: mpsc::UnboundedReceiver<ThreadCommand>) {
        while let Some(command) = commands.recv().await {
            match command {
                ThreadCommand::Adopt(sockets, done) => {
                    let _ = done.send(self.adopt(sockets));
                }
                ThreadCommand::Forget => self.adopted.clear(),
                ThreadCommand::Serve(serving) => self.serve(*serving).await,
                ThreadCommand::Profile(kind, span, done) => {
                    // Without a VM `done` is dropped.
                    if let Some(lua) = &self.lua {
                        lua.record_profile(kind, span, done);
                    }
                }
                ThreadCommand::RestartLua(done) => {
                    let _ = done.send(self.lua.as_ref().is_some_and(|lua| lua.restart()));
                }
                ThreadCommand::Drain(done) => {
                    tokio::select! {
                        () = self.drain() => {
                            let _ = done.send(());
                        }
                        () = until_end(&mut commands) => return,
                    }
                }
                ThreadCommand::End => return,
            }
        }
    }

    fn adopt(&mut self, sockets: BTreeMap<String, BoundSocket>) -> Result<(), String> {
        self.adopted.clear();
        for (key, socket) in sockets {
            let adopted = AdoptedSocket::adopt(socket)
                .map_err(|error| format!("cannot listen on {key}: {error}"));
            self.adopted.insert(key, adopted?);
        }
        Ok(())
    }

    async fn serve(&mut self, serving: Serving) {
        let access = serving.access.and_then(|end| end.begin(credential_places(&serving.plan)));
        let access = access.map(Rc::new);
        let subrequests = instance::subrequests(&serving.plan, &self.context);
        let (plan, inside, log) = (&serving.plan, subrequests.clone(), access.clone());
        let redis = plan.shared.as_ref();
        let lua = lua_host::Generation::begin(&self.context, &plan.lua, redis, inside, log);
        let live = self.context.shared.get((), LiveLog::default);
        let tracer = instance::tracer(&serving.plan, serving.traces, live);
        let instance = Instance::build(&serving.plan, &self.context, access.clone(), tracer).await;
        self.lua = Some(lua);
        instance.serve_within(&subrequests);
        let listeners: Vec<_> =
            plan.listeners.iter().map(|one| (key(one), one, Rc::new(instance.edge(one)))).collect();
        let streams = plan.streams.iter().map(|(listener, stream)| {
            (key(listener), StreamService::build(stream, &self.context, access.clone()))
        });
        let streams: Vec<_> = streams.collect();
        let programs = plan
            .programs
            .iter()
            .map(|(listener, program)| (key(listener), RawProgram::build(program, &self.context)));
        let programs: Vec<_> = programs.collect();
        let mut sockets = std::mem::take(&mut self.adopted);
        sockets.extend(self.close_others(&listeners));
        sockets.extend(self.streams.close_others(&streams));
        sockets.extend(self.programs.close_others(&programs));
        let limiters = |key: &str| {
            let own = serving.limiters.get(key).unwrap_or(&serving.server_limiter);
            [own.clone(), serving.server_limiter.clone()]
        };
        for (key, listener, edge) in listeners {
            let name: Rc<str> = Rc::from(&*listener.name);
            if let Some(open) = self.listeners.get(&key) {
                open.service.replace_snapshot(edge);
                *open.name.borrow_mut() = name;
            } else if let Some(AdoptedSocket::Listener(socket)) = sockets.remove(&key) {
                let limiters = limiters(&key);
                self.open(key, socket, name, edge, limiters);
            } else {
                report_missing(&key);
            }
        }
        let mut take = |key: &str| (sockets.remove(key), limiters(key));
        self.streams.follow(streams, &self.idle_closer, &mut take);
        self.programs.follow(programs, &self.idle_closer, &mut take);
        self.closing.retain(|service| service.open_connections() > 0);
        *self.version.lock().unwrap_or_else(PoisonError::into_inner) = serving.plan.version.clone();
        let _ = serving.done.send(());
    }

    fn open(
        &mut self,
        key: String,
        listener: Rc<Listener>,
        name: Rc<str>,
        edge: Rc<ListenerSnapshot>,
        limiters: [Arc<ConnectionLimiter>; 2],
    ) {
        let service = Service::new(edge, self.metrics.clone());
        self.idle_closer.add(&service);
        let stop = Rc::new(StopSignal::default());
        let name = Rc::new(RefCell::new(name));
        let accept_context = AcceptContext {
            name: name.clone(),
            service: service.clone(),
            limiters,
            reserve: None,
            idle_closer: Some(self.idle_closer.clone()),
            stop: stop.clone(),
            balance: self.balance.clone(),
        };
        let socket = Rc::downgrade(&listener);
        net::task::spawn_local(accept(listener, accept_context));
        self.listeners.insert(key, OpenListener { name, service, socket, stop });
    }

    /// Closes the listeners that are not wanted, and returns their sockets, each for another kind
    /// of handler. One that demands other client certificates than before is closed and opened, so
    /// that its connections end.
    fn close_others(
        &mut self,
        wanted: &[(String, &ListenerPlan, Rc<ListenerSnapshot>)],
    ) -> Vec<(String, AdoptedSocket)> {
        let is_kept = |key: &str, open: &OpenListener| {
            let next = wanted.iter().find(|(wanted, ..)| wanted == key);
            next.is_some_and(|(.., next)| open.service.snapshot().has_client_auth_of(next))
        };
        let gone = self.listeners.iter().filter(|(key, open)| !is_kept(key, open));
        let gone: Vec<String> = gone.map(|(key, _)| key.clone()).collect();
        let close = |key: String| Some((key.clone(), self.close(&key)?));
        gone.into_iter().filter_map(close).collect()
    }

    fn close(&mut self, key: &str) -> Option<AdoptedSocket> {
        let open = self.listeners.remove(key)?;
        open.stop.stop();
        open.service.drain();
        self.closing.push(open.service);
        open.socket.upgrade().map(AdoptedSocket::Listener)
    }

    async fn drain(&mut self) {
        let keys: Vec<String> = self.listeners.keys().cloned().collect();
        for key in keys {
            self.close(&key);
        }
        self.streams.close();
        self.programs.close();
        loop {
            // Lets the accept loops take queued connections before connections are counted.
            net::timer::sleep(DRAIN_LOOK).await;
            let open: usize = self.closing.iter().map(|service| service.open_connections()).sum();
            if open + self.streams.connections() + self.programs.connections() == 0 {
                break;
            }
        }
        event!(Level::Debug, "a worker is drained", worker = self.context.index);
    }
}
