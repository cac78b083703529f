//! The VM of a worker under one Plan.
//!
//! Owns its life: made when the first file of the Plan is loaded, replaced when it holds too much
//! memory, gone when the last request and the last connection that use it have ended. So a reload
//! begins with fresh modules, and what is under way ends as it began.

use std::cell::{Cell, RefCell};
use std::rc::{Rc, Weak};
use std::time::Duration;

use exchange::{AccessLog, Subrequests, WorkerContext};
use telemetry::event;
use telemetry::log::Level;

use super::sandbox;
use super::settings::ServingSettings;
use crate::errors;
use crate::guard;
use crate::limits::{LAST_BYTES_MS, TURN_INSTRUCTIONS};
use crate::modules::SharedTable;
use crate::modules::http::{Observed, observe};
use crate::vm::{Options, Vm};

/// What requests of listeners that scripts have opened are counted as: no route can be called so.
const LISTENERS: &str = "(lua listeners)";

/// What a worker has of Lua under one Plan.
pub struct Generation {
    seat: Rc<Seat>,
    name: String,
    native_modules: bool,
    shared: std::sync::Arc<SharedTable>,
    metrics: std::sync::Arc<telemetry::Scripted>,
    subrequests: Rc<Subrequests>,
    observed: Observed,
    memory: Cell<usize>,
    running: RefCell<Option<Rc<Running>>>,
}

/// Where plans find the generation that is being built.
#[derive(Default)]
struct Seat {
    current: RefCell<Weak<Generation>>,
}

/// A VM with its loop.
pub(super) struct Running {
    pub(super) vm: Rc<Vm>,
    generation: Weak<Generation>,
}

impl Generation {
    /// What is built from now on on this worker belongs to a new generation. Whoever begins it
    /// holds it.
    pub fn begin(
        worker: &WorkerContext,
        settings: &ServingSettings,
        subrequests: Rc<Subrequests>,
        access: Option<Rc<AccessLog>>,
    ) -> Rc<Generation> {
        let seat = worker.local.get((), Seat::default);
        let generation = Rc::new(Generation {
            seat,
            name: format!("worker-{}", worker.index),
            native_modules: settings.native_modules,
            shared: worker.shared.get((), SharedTable::default),
            metrics: worker.telemetry.scripted().clone(),
            subrequests,
            observed: Observed {
                worker: worker.telemetry.worker(worker.index),
                route: worker.telemetry.route(worker.index, LISTENERS),
                access,
            },
            memory: Cell::new(0),
            running: RefCell::default(),
        });
        *generation.seat.current.borrow_mut() = Rc::downgrade(&generation);
        generation
    }

    /// The generation under construction.
    pub(super) fn current(worker: &WorkerContext) -> Rc<Generation> {
        let seat = worker.local.get((), Seat::default);
        let known = seat.current.borrow().upgrade();
        known.unwrap_or_else(|| {
            let settings = ServingSettings { native_modules: false };
            Generation::begin(worker, &settings, Rc::default(), None)
        })
    }

    /// The VM may hold at least this much.
    pub(super) fn allow(&self, memory: usize) {
        self.memory.set(self.memory.get().max(memory));
        if let Some(running) = &*self.running.borrow() {
            running.vm.meter.set_limit(self.memory.get());
        }
    }

    /// The VM; made if there is none.
    pub(super) fn running(self: &Rc<Self>) -> Option<Rc<Running>> {
        if let Some(running) = &*self.running.borrow() {
            return Some(running.clone());
        }
        match self.make() {
            Ok(running) => {
                *self.running.borrow_mut() = Some(running.clone());
                Some(running)
            }
            Err(error) => {
                let error = errors::text(&error);
                event!(Level::Error, "a Lua VM cannot be made", error = error);
                None
            }
        }
    }

    fn make(self: &Rc<Self>) -> mlua::Result<Rc<Running>> {
        let options = Options { shared: Some(self.shared.clone()), ..Options::default() };
        let vm = Vm::new(options)?;
        crate::modules::count_into(&vm, self.metrics.clone());
        observe(&vm, self.observed.clone());
        sandbox::close(vm.lua(), self.native_modules)?;
        super::open(vm.lua(), &vm, &self.subrequests)?;
        guard::arm(&vm, &self.name, TURN_INSTRUCTIONS, self.memory.get())?;
        let driven = vm.clone();
        net::task::spawn_local(async move {
            crate::drive(driven.clone()).await;
            let within = Duration::from_millis(LAST_BYTES_MS);
            net::timer::within(within, driven.streams.last_bytes(&driven)).await;
        });
        Ok(Rc::new(Running { vm, generation: Rc::downgrade(self) }))
    }
}

impl Running {
    /// Has the VM replaced if it holds too much: what is under way ends in the old one.
    pub(super) fn weigh(self: &Rc<Self>) {
        if !self.vm.guard.is_too_large(&self.vm, self.vm.main()) {
            return;
        }
        let Some(generation) = self.generation.upgrade() else { return };
        let mut running = generation.running.borrow_mut();
        if running.as_ref().is_some_and(|running| Rc::ptr_eq(running, self)) {
            let old = running.take();
            event!(
                Level::Warn,
                "a Lua VM holds more memory than it may and is replaced",
                vm = generation.name,
                bytes = generation.memory.get()
            );
            drop(running);
            drop(old);
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.vm.exit(0);
    }
}
