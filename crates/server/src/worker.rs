//! A worker's main loop: it takes orders from the control thread and keeps doors open.
//!
//! Owns the worker's instance of the Plan, its services and its accept loops. An order is answered
//! when it is carried out, which is how the control thread knows that a new Plan serves.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use config::Plan;
use exchange::serve::{Edge, Service};
use exchange::{AccessLog, WorkerContext};
use net::{BoundSocket, Listener};
use telemetry::log::Level;
use telemetry::{WorkerMetrics, event};
use tokio::sync::{mpsc, oneshot};

use crate::accept::{Door, Stop, accept};
use crate::instance::{Instance, secret_queries};
use crate::listeners::key;
use crate::logs::AccessEnd;
use crate::programs::Programs;
use crate::seats::Seats;

/// How often a draining worker looks whether its connections have ended.
const DRAIN_LOOK: Duration = Duration::from_millis(20);

/// What a worker is told.
pub(crate) enum Order {
    /// Serve this Plan from now on.
    Serve(Box<Serving>),
    /// Take no more connections and let those that are open end; answered when none is left.
    Drain(oneshot::Sender<()>),
}

/// A Plan and the sockets that come with it.
pub(crate) struct Serving {
    pub(crate) plan: Arc<Plan>,
    /// Sockets that are new to this worker, by `listeners::key`.
    pub(crate) sockets: BTreeMap<String, BoundSocket>,
    pub(crate) seats: BTreeMap<String, Arc<Seats>>,
    pub(crate) all_seats: Arc<Seats>,
    pub(crate) access: Option<AccessEnd>,
    pub(crate) done: oneshot::Sender<Result<(), String>>,
}

struct Open {
    name: Rc<RefCell<Rc<str>>>,
    service: Rc<Service>,
    stop: Rc<Stop>,
}

/// The state of the loop.
pub(crate) struct Worker {
    context: WorkerContext,
    metrics: Arc<WorkerMetrics>,
    doors: BTreeMap<String, Open>,
    /// Services of closed listeners whose connections have not all ended.
    closing: Vec<Rc<Service>>,
    programs: Programs,
    /// Held so that it is there; requests under way hold the one before.
    lua: Option<Rc<lua::Generation>>,
    /// The version served, for the control thread to look at.
    version: Arc<Mutex<String>>,
}

impl Worker {
    pub(crate) fn new(context: WorkerContext, version: Arc<Mutex<String>>) -> Worker {
        let metrics = context.telemetry.worker(context.index);
        Worker {
            context,
            metrics,
            doors: BTreeMap::new(),
            closing: Vec::new(),
            programs: Programs::default(),
            lua: None,
            version,
        }
    }

    /// Carries out orders until there is nobody left to give any.
    pub(crate) async fn run(mut self, mut orders: mpsc::UnboundedReceiver<Order>) {
        while let Some(order) = orders.recv().await {
            match order {
                Order::Serve(serving) => self.serve(*serving),
                Order::Drain(done) => {
                    self.drain().await;
                    let _ = done.send(());
                }
            }
        }
    }

    fn serve(&mut self, serving: Serving) {
        let access = serving.access.map(|end| {
            let secrets = secret_queries(&serving.plan);
            Rc::new(AccessLog::new(end.ring, end.format, end.sample, secrets))
        });
        self.lua = Some(lua::Generation::begin(&self.context, &serving.plan.lua));
        let instance = Instance::build(&serving.plan, &self.context, access);
        let mut sockets = serving.sockets;
        let mut failed = None;
        let wanted: Vec<String> = serving.plan.listeners.iter().map(key).collect();
        let gone: Vec<String> =
            self.doors.keys().filter(|key| !wanted.contains(key)).cloned().collect();
        for key in gone {
            self.close(&key);
        }
        for (listener, key) in serving.plan.listeners.iter().zip(wanted) {
            let edge = Rc::new(instance.edge(listener));
            let name: Rc<str> = Rc::from(&*listener.name);
            if let Some(open) = self.doors.get(&key) {
                open.service.replace_edge(edge);
                *open.name.borrow_mut() = name;
            } else if let Some(socket) = sockets.remove(&key) {
                let own = serving.seats.get(&key).unwrap_or(&serving.all_seats);
                let seats = [own.clone(), serving.all_seats.clone()];
                match socket.adopt() {
                    Ok(bound) => self.open(key, bound, name, edge, seats),
                    Err(error) => failed = Some(format!("listener {name}: {error}")),
                }
            }
        }
        let programs = &serving.plan.programs;
        let opened = self.programs.follow(programs, &self.context, |key| {
            let own = serving.seats.get(key).unwrap_or(&serving.all_seats);
            (sockets.remove(key), [own.clone(), serving.all_seats.clone()])
        });
        failed = failed.or(opened.err());
        self.closing.retain(|service| service.open_connections() > 0);
        *self.version.lock().unwrap_or_else(PoisonError::into_inner) = serving.plan.version.clone();
        let _ = serving.done.send(failed.map_or(Ok(()), Err));
    }

    fn open(
        &mut self,
        key: String,
        listener: Listener,
        name: Rc<str>,
        edge: Rc<Edge>,
        seats: [Arc<Seats>; 2],
    ) {
        let service = Service::new(edge, self.metrics.clone());
        let stop = Rc::new(Stop::default());
        let name = Rc::new(RefCell::new(name));
        let door = Door {
            name: name.clone(),
            service: service.clone(),
            seats,
            reserve: None,
            stop: stop.clone(),
        };
        net::task::spawn_local(accept(listener, door));
        self.doors.insert(key, Open { name, service, stop });
    }

    fn close(&mut self, key: &str) {
        if let Some(open) = self.doors.remove(key) {
            open.stop.stop();
            open.service.drain();
            self.closing.push(open.service);
        }
    }

    async fn drain(&mut self) {
        let keys: Vec<String> = self.doors.keys().cloned().collect();
        for key in keys {
            self.close(&key);
        }
        self.programs.close();
        loop {
            // Let the accept loops take what was queued before anything is counted.
            net::timer::sleep(DRAIN_LOOK).await;
            let open: usize = self.closing.iter().map(|service| service.open_connections()).sum();
            if open + self.programs.connections() == 0 {
                break;
            }
        }
        event!(Level::Debug, "a worker is drained", worker = self.context.index);
    }
}
