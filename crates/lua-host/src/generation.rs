//! The VM of a worker under one plan.
//!
//! The VM is made when the first file of the plan is loaded, replaced when it exceeds its memory
//! limit, and dropped when the last request and connection that use it have ended. So a reload
//! starts with fresh modules, and requests in flight end in the VM they started in.

use std::cell::{Cell, RefCell};
use std::rc::{Rc, Weak};
use std::time::Duration;

use http_server::AccessLog;
use plugin::{Subrequests, WorkerContext};
use telemetry::event;
use telemetry::log::Level;

use lua_std::http::{ListenerMetrics, observe};
use lua_std::profiler::{self, WorkerProfile};
use lua_std::{SharedTable, VmContext};
use lua_vm::calls::{self, RunningVm};
use lua_vm::limits::TURN_INSTRUCTIONS;
use lua_vm::profile::ProfileKind;
use lua_vm::{Vm, VmOptions, drive, errors, guard};
use mlua::{Function, Table};
use redis::RedisPlan;
use tokio::sync::oneshot;

use crate::limits::LAST_BYTES_MS;
use crate::sandbox;
use crate::settings::{ServingSettings, SharedPlace};
use crate::subrequest;

/// The route name of requests on listeners that scripts have opened; no route of a configuration
/// can have it.
const LISTENERS: &str = "(lua listeners)";

/// The Lua state of a worker under one plan.
pub struct Generation {
    seat: Rc<CurrentGeneration>,
    name: String,
    native_modules: bool,
    shared: std::sync::Arc<SharedTable>,
    shared_redis: Option<std::sync::Arc<RedisPlan>>,
    metrics: std::sync::Arc<telemetry::Scripted>,
    subrequests: Rc<Subrequests>,
    observed: ListenerMetrics,
    memory: Cell<usize>,
    running: RefCell<Option<Rc<RunningVm>>>,
    /// Drop what files have loaded in the VM.
    unload: RefCell<Vec<Box<dyn Fn()>>>,
}

/// The generation that is being built, for handlers and filters.
#[derive(Default)]
struct CurrentGeneration {
    current: RefCell<Weak<Generation>>,
}

impl Generation {
    /// Begins a new generation on this worker: handlers and filters that are built from now on
    /// belong to it. The caller owns it.
    pub fn begin(
        worker: &WorkerContext,
        settings: &ServingSettings,
        redis: Option<&std::sync::Arc<RedisPlan>>,
        subrequests: Rc<Subrequests>,
        access: Option<Rc<AccessLog>>,
    ) -> Rc<Generation> {
        let seat = worker.local.get((), CurrentGeneration::default);
        let generation = Rc::new(Generation {
            seat,
            name: format!("worker-{}", worker.index),
            native_modules: settings.native_modules,
            shared: worker.shared.get((), SharedTable::default),
            shared_redis: redis.filter(|_| settings.shared == SharedPlace::Redis).cloned(),
            metrics: worker.telemetry.scripted().clone(),
            subrequests,
            observed: ListenerMetrics {
                worker: worker.telemetry.worker(worker.index),
                route: worker.telemetry.route(worker.index, LISTENERS),
                access,
            },
            memory: Cell::new(0),
            running: RefCell::default(),
            unload: RefCell::default(),
        });
        *generation.seat.current.borrow_mut() = Rc::downgrade(&generation);
        generation
    }

    /// The generation under construction.
    pub(crate) fn current(worker: &WorkerContext) -> Rc<Generation> {
        let seat = worker.local.get((), CurrentGeneration::default);
        let known = seat.current.borrow().upgrade();
        known.unwrap_or_else(|| {
            let shared = SharedPlace::Memory;
            let settings = ServingSettings { native_modules: false, shared };
            Generation::begin(worker, &settings, None, Rc::default(), None)
        })
    }

    /// Raises the memory limit of the VM to at least this.
    pub(crate) fn allow(&self, memory: usize) {
        self.memory.set(self.memory.get().max(memory));
        if let Some(running) = &*self.running.borrow() {
            running.vm().set_memory_limit(self.memory.get());
        }
    }

    /// Has `unload` called when the VM is replaced.
    pub(crate) fn on_replaced(&self, unload: impl Fn() + 'static) {
        self.unload.borrow_mut().push(Box::new(unload));
    }

    /// The VM; created if there is none.
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
                event!(Level::Error, "Lua VM cannot be created", error = error);
                None
            }
        }
    }

    /// Records a profile of the VM, if a file was loaded into one.
    pub fn record_profile(
        &self,
        kind: ProfileKind,
        span: Duration,
        done: oneshot::Sender<WorkerProfile>,
    ) {
        let vm = self.running.borrow().as_ref().map(|running| running.vm().clone());
        profiler::record(vm, kind, span, done);
    }

    fn make(self: &Rc<Self>) -> mlua::Result<Rc<RunningVm>> {
        let context = VmContext {
            shared: Some(self.shared.clone()),
            shared_redis: self.shared_redis.clone(),
            ..Default::default()
        };
        let vm = lua_std::open_vm(VmOptions::default(), context)?;
        lua_std::count_into(&vm, self.metrics.clone());
        observe(&vm, self.observed.clone());
        sandbox::close(vm.lua(), self.native_modules)?;
        add_call_objects(&vm, &self.subrequests)?;
        guard::arm(&vm, &self.name, TURN_INSTRUCTIONS, self.memory.get())?;
        vm.report_memory(self.observed.worker.clone());
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
        self.observed.worker.lua.replaced.inc();
        event!(
            Level::Warn,
            "Lua VM exceeds its memory limit and is replaced",
            vm = self.name,
            bytes = self.memory.get()
        );
        drop(running);
        self.unload.borrow().iter().for_each(|unload| unload());
        drop(old);
    }
}

/// Adds the objects of requests and responses to a VM.
fn add_call_objects(vm: &Vm, subrequests: &Rc<Subrequests>) -> mlua::Result<()> {
    let lua = vm.lua();
    let require: Function = lua.globals().get("require")?;
    let json: Table = require.call("tide.encoding.json")?;
    let pass = subrequest::open(lua, subrequests)?;
    calls::open(lua, vm, &json.get("encode")?, &json.get("decode")?, &pass)
}
