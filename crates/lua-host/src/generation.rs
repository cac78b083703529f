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

use lua_std::http::{Observed, observe};
use lua_std::{SharedTable, VmContext};
use lua_vm::calls::{self, RunningVm};
use lua_vm::limits::TURN_INSTRUCTIONS;
use lua_vm::{Options, Vm, drive, errors, guard};
use mlua::{Function, Table};

use crate::limits::LAST_BYTES_MS;
use crate::sandbox;
use crate::settings::ServingSettings;
use crate::subrequest;

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
    running: RefCell<Option<Rc<RunningVm>>>,
}

/// Where plans find the generation that is being built.
#[derive(Default)]
struct Seat {
    current: RefCell<Weak<Generation>>,
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
    pub(crate) fn current(worker: &WorkerContext) -> Rc<Generation> {
        let seat = worker.local.get((), Seat::default);
        let known = seat.current.borrow().upgrade();
        known.unwrap_or_else(|| {
            let settings = ServingSettings { native_modules: false };
            Generation::begin(worker, &settings, Rc::default(), None)
        })
    }

    /// The VM may hold at least this much.
    pub(crate) fn allow(&self, memory: usize) {
        self.memory.set(self.memory.get().max(memory));
        if let Some(running) = &*self.running.borrow() {
            running.vm().set_memory_limit(self.memory.get());
        }
    }

    /// The VM; made if there is none.
    pub(crate) fn running(self: &Rc<Self>) -> Option<Rc<RunningVm>> {
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

    fn make(self: &Rc<Self>) -> mlua::Result<Rc<RunningVm>> {
        let context = VmContext { shared: Some(self.shared.clone()), member: None };
        let vm = lua_std::open_vm(Options::default(), context)?;
        lua_std::count_into(&vm, self.metrics.clone());
        observe(&vm, self.observed.clone());
        sandbox::close(vm.lua(), self.native_modules)?;
        open_calls(&vm, &self.subrequests)?;
        guard::arm(&vm, &self.name, TURN_INSTRUCTIONS, self.memory.get())?;
        let driven = vm.clone();
        net::task::spawn_local(async move {
            drive(driven.clone()).await;
            let within = Duration::from_millis(LAST_BYTES_MS);
            net::timer::within(within, driven.send_last_bytes()).await;
        });
        let generation = Rc::downgrade(self);
        Ok(Rc::new(RunningVm::new(vm, move |running| {
            if let Some(generation) = generation.upgrade() {
                generation.replace(running);
            }
        })))
    }

    /// Drops a VM that holds too much memory: calls in flight end in it, and the next request gets
    /// a new one.
    fn replace(&self, old: &RunningVm) {
        let mut running = self.running.borrow_mut();
        if running.as_deref().is_none_or(|running| !std::ptr::eq(running, old)) {
            return;
        }
        let old = running.take();
        event!(
            Level::Warn,
            "Lua VM exceeds its memory limit and is replaced",
            vm = self.name,
            bytes = self.memory.get()
        );
        drop(running);
        drop(old);
    }
}

/// Makes what requests are seen through known to a VM.
fn open_calls(vm: &Vm, subrequests: &Rc<Subrequests>) -> mlua::Result<()> {
    let lua = vm.lua();
    let require: Function = lua.globals().get("require")?;
    let json: Table = require.call("tide.encoding.json")?;
    let pass = subrequest::open(lua, subrequests)?;
    calls::open(lua, vm, &json.get("encode")?, &json.get("decode")?, &pass)
}
