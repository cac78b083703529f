//! The VM of a worker under one plan.
//!
//! The VM is made when the first file of the plan is loaded, replaced when it exceeds its memory
//! limit or on request, and dropped when the last request and connection that use it have ended. So
//! a reload starts with fresh modules, and requests in flight end in the VM they started in.

use std::cell::{Cell, RefCell};
use std::rc::{Rc, Weak};
use std::sync::Arc;
use std::time::Duration;

use http_server::AccessLog;
use plugin::{Shared, Subrequests, WorkerContext};
use telemetry::log::Level;
use telemetry::{ErrorRecord, MarkKind, RecentErrors, Telemetry, WorkerMetrics, event};

use lua_std::http::{ListenerMetrics, observe};
use lua_std::profiler::{self, WorkerProfile};
use lua_std::{SharedTable, VmContext};
use lua_vm::calls::{self, RunningVm};
use lua_vm::limits::TURN_INSTRUCTIONS;
use lua_vm::profile::ProfileKind;
use lua_vm::{BindSocket, ErrorRecorder, Vm, VmOptions, drive, errors, guard};
use mlua::{Function, Table};
use redis::RedisPlan;
use tokio::sync::oneshot;

use crate::limits::{LAST_BYTES_MS, LOOP_LAG_EVERY};
use crate::sandbox;
use crate::script_addresses::ScriptAddresses;
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
    shared: Arc<SharedTable>,
    shared_redis: Option<Arc<RedisPlan>>,
    addresses: Arc<ScriptAddresses>,
    metrics: Arc<telemetry::Scripted>,
    subrequests: Rc<Subrequests>,
    observed: ListenerMetrics,
    memory: Cell<usize>,
    running: RefCell<Option<Rc<RunningVm>>>,
    files: RefCell<Vec<Weak<dyn ScriptFile>>>,
    telemetry: Arc<Telemetry>,
    errors: ErrorRecorder,
}

/// A file that is loaded into the VM of a generation.
pub(crate) trait ScriptFile {
    /// Loads it into the current VM, unless it is.
    fn load(&self);

    /// Drops what it has loaded.
    fn unload(&self);
}

/// The last errors of all VMs of a server.
pub fn script_errors(shared: &Shared) -> Arc<RecentErrors> {
    shared.get("Lua", RecentErrors::default)
}

/// The generation that is being built, for handlers and filters.
#[derive(Default)]
struct CurrentGeneration {
    current: RefCell<Weak<Generation>>,
    is_measured: Cell<bool>,
}

impl CurrentGeneration {
    /// Measures the lag of the worker's event loop as long as the worker has a VM.
    fn measure_loop(self: &Rc<Self>, worker: Arc<WorkerMetrics>) {
        if self.is_measured.replace(true) {
            return;
        }
        let seat = self.clone();
        net::task::spawn_local(async move {
            let lag = &worker.lua.loop_lag;
            while worker.lua.vms.get() > 0 {
                lag.expect(LOOP_LAG_EVERY);
                net::timer::sleep_precisely(LOOP_LAG_EVERY).await;
                lag.arrived();
            }
            lag.end();
            seat.is_measured.set(false);
        });
    }
}

impl Generation {
    /// Begins a new generation on this worker: handlers and filters that are built from now on
    /// belong to it. The caller owns it.
    pub fn begin(
        worker: &WorkerContext,
        settings: &ServingSettings,
        redis: Option<&Arc<RedisPlan>>,
        subrequests: Rc<Subrequests>,
        access: Option<Rc<AccessLog>>,
    ) -> Rc<Generation> {
        let seat = worker.local.get((), CurrentGeneration::default);
        let metrics = worker.telemetry.worker(worker.index);
        let generation = Rc::new(Generation {
            seat,
            name: format!("worker-{}", worker.index),
            native_modules: settings.native_modules,
            shared: worker.shared.get((), SharedTable::default),
            shared_redis: redis.filter(|_| settings.shared == SharedPlace::Redis).cloned(),
            addresses: worker.shared.get((), ScriptAddresses::default),
            metrics: worker.telemetry.scripted().clone(),
            subrequests,
            observed: ListenerMetrics {
                worker: metrics.clone(),
                route: worker.telemetry.route(worker.index, LISTENERS),
                access,
            },
            memory: Cell::new(0),
            running: RefCell::default(),
            files: RefCell::default(),
            telemetry: worker.telemetry.clone(),
            errors: ErrorRecorder {
                errors: script_errors(&worker.shared),
                worker: worker.index,
                metrics,
            },
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

    /// Adds a file, which is unloaded when the VM is replaced.
    pub(crate) fn add_file(&self, file: Weak<dyn ScriptFile>) {
        self.files.borrow_mut().push(file);
    }

    fn files(&self) -> Vec<Rc<dyn ScriptFile>> {
        self.files.borrow().iter().filter_map(Weak::upgrade).collect()
    }

    /// Records an error that ended no coroutine.
    pub(crate) fn record_error(&self, file: Option<String>, message: String) {
        self.errors.note(ErrorRecord { file, message, ..ErrorRecord::default() });
    }

    /// Replaces the VM and loads all files again, as they were read with the plan: calls and
    /// connections of the previous one end in it. False if there is none.
    pub fn restart(&self) -> bool {
        if !self.end_vm() {
            return false;
        }
        self.files().iter().for_each(|file| file.load());
        self.observed.worker.lua.restarted.inc();
        event!(Level::Info, "Lua VM restarted", vm = self.name);
        true
    }

    /// Drops the VM and what files have loaded into it: calls and connections in flight end in it.
    /// False if there is none.
    fn end_vm(&self) -> bool {
        let ended = self.running.take();
        self.files().iter().for_each(|file| file.unload());
        ended.is_some()
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
        let addresses = self.addresses.clone();
        let bind: BindSocket = Arc::new(move |bind, options| addresses.bind(bind, options));
        let vm = lua_std::open_vm(VmOptions { bind: Some(bind), ..Default::default() }, context)?;
        lua_std::count_into(&vm, self.metrics.clone());
        observe(&vm, self.observed.clone());
        sandbox::close(vm.lua(), self.native_modules)?;
        add_call_objects(&vm, &self.subrequests)?;
        guard::arm(&vm, &self.name, TURN_INSTRUCTIONS, self.memory.get())?;
        vm.report_memory(self.observed.worker.clone());
        vm.record_errors(self.errors.clone());
        self.seat.measure_loop(self.observed.worker.clone());
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

    /// Ends a VM that holds too much memory; the next request gets a new one.
    fn replace(&self, old: &RunningVm) {
        let is_current =
            self.running.borrow().as_deref().is_some_and(|running| std::ptr::eq(running, old));
        if !is_current {
            return;
        }
        self.observed.worker.lua.replaced.inc();
        event!(
            Level::Warn,
            "Lua VM exceeds its memory limit and is replaced",
            vm = self.name,
            bytes = self.memory.get()
        );
        let message = "a Lua VM exceeded its memory limit and was replaced";
        self.telemetry.marks().add(MarkKind::Bad, message);
        self.record_error(None, format!("{message}: {} bytes", self.memory.get()));
        self.end_vm();
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
