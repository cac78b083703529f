//! A Lua state with a scheduler.
//!
//! Owns the state, its coroutines ([`crate::tasks`]), its timers and its streams. Everything
//! happens in a **turn** ([`Vm::turn`]): one event, then all coroutines that it made ready, first
//! in first out, then one send for each stream that was written to. So the coroutines that one
//! event wakes run before the next event is handled, and no other coroutine runs between a write
//! and the next call that waits.
//!
//! Promises: a script's error never leaves a turn (it is logged with its traceback and the
//! coroutine ends); after `silly.exit` nothing runs; nothing of the VM is borrowed while Lua runs,
//! so a function may call anything here except [`Vm::turn`]. Never polls a future, never blocks,
//! and sets no hard limit on the state's allocator: pushing a value outside a protected call must
//! not fail.
//!
//! For modules: [`Vm::of`] finds the VM of a `&Lua`; [`Vm::fork`] queues a coroutine from anywhere;
//! [`Turn::start`] runs one at once, from an event; [`crate::async_function`] parks one until a
//! future is done.

use std::cell::{Cell, OnceCell, RefCell};
use std::ffi::c_int;
use std::ops::Deref;
use std::rc::{Rc, Weak};
use std::sync::Arc;

use message::Request;
use mlua::{Function, IntoLuaMulti, Lua, Result, ffi};
use telemetry::WorkerMetrics;

use crate::calls::call::CallTable;
use crate::error_recorder::ErrorRecorder;
use crate::guard::{self, Guard};
use crate::ids::TaskId;
use crate::limits::STACK_VALUES;
use crate::memory_report::MemoryReport;
use crate::meter::Meter;
use crate::profile;
use crate::stack::LuaState;
use crate::streams::Streams;
use crate::tasks::{EndObserver, OnTaskEnd, Task, TaskError, TaskStatus, TaskTable};
use crate::timers::Timers;
use crate::watchdog;

mod create;
mod ending;
mod failed_tasks;
mod hooks;
mod long_turn;
mod options;
mod profiling;

pub use options::{BindSocket, VmOptions};

/// A VM. Its creator owns it; everything inside the state has weak references to it.
pub struct Vm {
    // Dropped first: finalizers may still use the other fields.
    lua: Lua,
    main: LuaState,
    /// Dropped after the state.
    pub(crate) meter: Meter,
    memory_report: OnceCell<MemoryReport>,
    error_recorder: OnceCell<ErrorRecorder>,
    weak: Weak<Vm>,
    tasks: RefCell<TaskTable>,
    pub(crate) timers: Timers,
    pub(crate) streams: Streams,
    turning: Cell<bool>,
    exit: Cell<Option<i32>>,
    ids: Cell<i64>,
    names: OnceCell<Rc<net::Resolver>>,
    pub(crate) guard: Guard,
    hooks: Cell<hooks::TaskHooks>,
    pub(crate) calls: CallTable,
    warned: Rc<Cell<bool>>,
    failures: Cell<u64>,
    pub(crate) failed_tasks: failed_tasks::FailedTasks,
    /// The error of the first coroutine whose end is not observed.
    first_failure: OnceCell<TaskError>,
    /// Counts turns.
    turns: Cell<u64>,
    options: VmOptions,
}

struct VmRef(Weak<Vm>);

impl Vm {
    /// The VM of a state; an error while the VM is being dropped, when finalizers may still call
    /// anything.
    pub fn of(lua: &Lua) -> Result<Rc<Vm>> {
        let vm = lua.app_data_ref::<VmRef>().and_then(|handle| handle.0.upgrade());
        vm.ok_or_else(|| mlua::Error::runtime("this VM is over"))
    }

    pub fn lua(&self) -> &Lua {
        &self.lua
    }

    pub fn options(&self) -> &VmOptions {
        &self.options
    }

    /// Number of coroutines that ended with an uncaught error.
    pub fn failures(&self) -> u64 {
        self.failures.get()
    }

    /// The error of the first coroutine that ended with one and whose end nothing observes.
    pub fn first_failure(&self) -> Option<&TaskError> {
        self.first_failure.get()
    }

    /// True if Lua has issued a warning.
    pub fn was_warned(&self) -> bool {
        self.warned.get()
    }

    /// The resolver of host names.
    pub fn resolver(&self) -> Rc<net::Resolver> {
        self.names.get_or_init(|| Rc::new(net::Resolver::system())).clone()
    }

    pub fn weak(&self) -> Weak<Vm> {
        self.weak.clone()
    }

    /// The code given to `silly.exit`; from then on nothing runs.
    pub fn exit_code(&self) -> Option<i32> {
        self.exit.get()
    }

    /// Ends the program: nothing runs any more. The first code counts.
    pub fn exit(&self, code: i32) {
        if self.exit.get().is_none() {
            self.exit.set(Some(code));
            self.tasks.borrow_mut().clear_ready();
            self.timers.wake_loop();
        }
    }

    /// Handles one event and runs everything it makes ready. `None`, without the event, once the
    /// program has exited.
    ///
    /// # Panics
    /// If called while Lua runs, which would let an event overtake another.
    pub fn turn<R>(&self, event: impl FnOnce(&Turn<'_>) -> R) -> Option<R> {
        assert!(!self.turning.replace(true), "a turn inside a turn");
        self.guard.begin();
        let outer = watchdog::set_turning(self.when_signalled());
        self.turns.set(self.turns.get() + 1);
        let outcome = self.exit.get().is_none().then(|| event(&Turn { vm: self }));
        loop {
            self.drain();
            self.streams.end_turn(self);
            // A connection that broke while sending has woken its waiting coroutines.
            if self.tasks.borrow().ready_count() == 0 {
                break;
            }
        }
        if self.is_traced() {
            profile::turn_ends();
        }
        watchdog::set_turning(outer);
        self.guard.end();
        if let Some(report) = self.memory_report.get() {
            report.update(&self.meter);
        }
        self.turning.set(false);
        outcome
    }

    /// True during a turn, when no other may begin.
    pub fn is_turning(&self) -> bool {
        self.turning.get()
    }

    fn drain(&self) {
        loop {
            let next = self.tasks.borrow_mut().next_ready();
            match next {
                Some(index) => self.resume(index),
                None => return,
            }
        }
    }

    /// Queues a coroutine that calls `function`; it runs in this turn, or the next if there is
    /// none.
    pub fn fork(
        &self,
        function: &Function,
        arguments: impl IntoLuaMulti,
        ended: Option<OnTaskEnd>,
    ) -> Result<()> {
        let index = self.prepare(function, arguments, ended)?;
        let mut tasks = self.tasks.borrow_mut();
        let values = tasks.get(index).values;
        tasks.make_ready(index, values);
        Ok(())
    }

    /// Makes a coroutine with its function and arguments on its stack.
    fn prepare(
        &self,
        function: &Function,
        arguments: impl IntoLuaMulti,
        ended: Option<OnTaskEnd>,
    ) -> Result<u32> {
        let index = self.new_task();
        let thread = self.tasks.borrow_mut().get(index).thread;
        let pushed = self.push_on(thread, function).and_then(|_| self.push_on(thread, arguments));
        match pushed {
            Ok(values) => {
                let mut tasks = self.tasks.borrow_mut();
                tasks.get(index).values = values;
                if let Some(ended) = ended {
                    tasks.observe(index, EndObserver::Callback(ended));
                }
                Ok(index)
            }
            Err(error) => {
                self.retire(index);
                Err(error)
            }
        }
    }

    /// Pushes values on a thread that is not running; returns how many.
    fn push_on(&self, thread: LuaState, values: impl IntoLuaMulti) -> Result<c_int> {
        self.lua.exec_raw_lua(|raw| {
            // SAFETY: the values are pushed on the state's current stack and moved at once; a
            // thread that does not run has room for a call's worth of values, checked for more.
            unsafe {
                let count = values.push_into_stack_multi(raw)?;
                if ffi::lua_checkstack(thread, count + 1) == 0 {
                    ffi::lua_settop(raw.state(), -count - 1);
                    return Err(mlua::Error::StackError);
                }
                ffi::lua_xmove(raw.state(), thread, count);
                Ok(count)
            }
        })
    }

    /// A spare coroutine, with an empty stack and status [`TaskStatus::Spare`]; created if there is
    /// none.
    pub(crate) fn new_task(&self) -> u32 {
        if let Some(index) = self.tasks.borrow_mut().take_spare() {
            return index;
        }
        // SAFETY: a new thread is pushed on the main stack and anchored in the registry, which pops
        // it. No borrow is held: making a thread may run the collector.
        let (thread, anchor) = unsafe {
            let thread = ffi::lua_newthread(self.main);
            // The stack of a new thread has 720 bytes, that of a closed one 416, which is too small
            // for a function that waits.
            ffi::lua_closethread(thread, self.main);
            ffi::lua_checkstack(thread, STACK_VALUES);
            (thread, ffi::luaL_ref(self.main, ffi::LUA_REGISTRYINDEX))
        };
        self.tasks.borrow_mut().adopt(thread, anchor)
    }

    /// Runs a coroutine until it waits or ends. Its status is Ready, or Spare before its first run.
    pub(crate) fn resume(&self, index: u32) {
        self.call_begin_hook(index);
        let (thread, values) = {
            let mut tasks = self.tasks.borrow_mut();
            tasks.set_current(Some(index));
            let task = tasks.get(index);
            task.status = TaskStatus::Run;
            (task.thread, task.values)
        };
        let mut results = 0;
        // SAFETY: the thread is suspended or has a function below `values` arguments, unless a
        // script closed or resumed it itself: then its stack is too short for a resume.
        let status = unsafe {
            let function = c_int::from(ffi::lua_status(thread) == ffi::LUA_OK);
            if ffi::lua_gettop(thread) < values + function {
                self.tasks.borrow_mut().set_current(None);
                return self.abandon(index, thread);
            }
            self.meter.runs(Some(thread));
            if self.guard.counts() {
                guard::count(thread);
            }
            let status = ffi::lua_resume(thread, self.main, values, &raw mut results);
            self.meter.runs(None);
            status
        };
        {
            let mut tasks = self.tasks.borrow_mut();
            tasks.set_current(None);
            let task = tasks.get(index);
            task.values = 0;
            if status == ffi::LUA_YIELD {
                task.status = TaskStatus::Wait;
            }
        }
        match status {
            _ if self.guard.is_over() => self.stop(index, thread),
            // SAFETY: what the script itself yielded is on top of the thread's stack.
            ffi::LUA_YIELD => unsafe { ffi::lua_settop(thread, -results - 1) },
            ffi::LUA_OK => self.returned(index, thread, results),
            _ => self.failed(index, thread),
        }
    }

    /// The trace id of the running coroutine; 0 if it has none.
    pub fn trace_id(&self) -> u64 {
        self.tasks(|tasks| tasks.current().map_or(0, |index| tasks.get(index).trace))
    }

    /// The identity of the trace of the request that the running coroutine handles, if requests are
    /// traced.
    pub fn request_trace_id(&self) -> Option<String> {
        let call = self.tasks(|tasks| tasks.current().and_then(|index| tasks.call(index)))?;
        self.calls.with_request(call, Request::trace_id)?
    }

    /// Sets the trace id of the running coroutine.
    pub fn set_trace_id(&self, id: u64) {
        self.tasks(|tasks| {
            if let Some(index) = tasks.current() {
                tasks.get(index).trace = id;
            }
        });
    }

    /// The coroutine that runs, as one that may wait.
    pub fn current_task(&self) -> Option<TaskId> {
        self.tasks(|tasks| tasks.current().map(|index| tasks.id(index)))
    }

    /// True if the coroutine still waits where `task` was taken.
    pub fn is_waiting(&self, task: TaskId) -> bool {
        self.tasks(|tasks| tasks.find(task).is_some())
    }

    /// Closes the coroutine of a thread, as is done when its client has gone.
    pub fn cancel_thread(&self, thread: &mlua::Thread) {
        let thread = thread.to_pointer().cast_mut().cast();
        if let Some(index) = self.tasks(|tasks| tasks.of_thread(thread)) {
            self.cancel(index);
        }
    }

    /// Sets how much memory the VM may hold.
    pub fn set_memory_limit(&self, bytes: usize) {
        self.meter.set_limit(bytes);
    }

    /// Adds its memory to the metrics of its worker, from now on at the end of each turn.
    pub fn report_memory(&self, worker: Arc<WorkerMetrics>) {
        self.memory_report.get_or_init(|| MemoryReport::new(worker)).update(&self.meter);
    }

    /// Records the errors of its scripts from now on.
    pub fn record_errors(&self, recorder: ErrorRecorder) {
        self.error_recorder.get_or_init(|| recorder);
    }

    /// Bytes that the VM holds.
    pub fn memory_used(&self) -> usize {
        self.meter.used()
    }

    /// Connections that are not closed, or have bytes to send.
    pub fn connection_count(&self) -> usize {
        self.streams.count()
    }

    /// Timers that are set, and how many were set so far.
    pub fn timer_counts(&self) -> (usize, u64) {
        self.timers.counts()
    }

    /// Closes the listeners; the program exits with its last connection. True if there is none.
    pub fn begin_drain(&self) -> bool {
        self.streams.begin_drain(self)
    }

    /// Sends what the program wrote before it exited.
    pub async fn send_last_bytes(&self) {
        self.streams.last_bytes(self).await;
    }

    // For raw functions:

    /// The number of turns so far.
    pub(crate) fn turn_count(&self) -> u64 {
        self.turns.get()
    }

    pub(crate) fn next_id(&self) -> i64 {
        self.ids.set(self.ids.get() + 1);
        self.ids.get()
    }

    pub(crate) fn main(&self) -> LuaState {
        self.main
    }

    pub(crate) fn tasks<R>(&self, look: impl FnOnce(&mut TaskTable) -> R) -> R {
        look(&mut self.tasks.borrow_mut())
    }

    /// The running coroutine, if `state` is its thread and it may wait.
    pub(crate) fn waiter(&self, state: LuaState) -> Option<TaskId> {
        let tasks = self.tasks.borrow();
        tasks.running_on(state).map(|index| tasks.id(index))
    }

    /// The coroutine of a thread, or of null, if it waits.
    pub(crate) fn waiting_task(&self, thread: LuaState) -> Option<TaskId> {
        self.tasks(|tasks| {
            let index = if thread.is_null() { None } else { tasks.of_thread(thread) }?;
            (tasks.get(index).status == TaskStatus::Wait).then(|| tasks.id(index))
        })
    }

    /// Wakes a coroutine that waits, with values that `push` leaves on its stack.
    pub(crate) fn wake_with(&self, id: TaskId, push: impl FnOnce(LuaState) -> c_int) -> bool {
        let waiting = {
            let mut tasks = self.tasks.borrow_mut();
            tasks.find(id).and_then(|index| {
                let task: &mut Task = tasks.get(index);
                // SAFETY: the thread is anchored. One its script runs or closed is not waiting.
                let waits = task.status == TaskStatus::Wait
                    && unsafe { ffi::lua_status(task.thread) } == ffi::LUA_YIELD;
                waits.then_some((index, task.thread))
            })
        };
        let Some((index, thread)) = waiting else { return false };
        let values = push(thread);
        self.tasks.borrow_mut().make_ready(index, values);
        true
    }
}

impl Drop for Vm {
    fn drop(&mut self) {
        self.end_recordings();
        self.meter.restore();
    }
}

/// A turn in progress, passed to the handler of its event.
pub struct Turn<'a> {
    vm: &'a Vm,
}

impl Deref for Turn<'_> {
    type Target = Vm;

    fn deref(&self) -> &Vm {
        self.vm
    }
}

impl Turn<'_> {
    /// Sets how many instructions this turn may use.
    pub fn set_budget(&self, instructions: u64) {
        self.guard.allow(instructions);
    }

    /// Runs a new coroutine until it first waits; what it makes ready runs later in this turn.
    /// `ended` is called when it has ended, in this turn or a later one.
    pub fn start(
        &self,
        function: &Function,
        arguments: impl IntoLuaMulti,
        ended: Option<OnTaskEnd>,
    ) -> Result<()> {
        let index = self.prepare(function, arguments, ended)?;
        self.resume(index);
        Ok(())
    }

    /// Makes a waiting coroutine ready; false if it has ended or waits for nothing.
    pub fn wake(&self, task: TaskId, values: impl IntoLuaMulti) -> Result<bool> {
        let mut pushed = Ok(0);
        let woken = self.wake_with(task, |thread| {
            pushed = self.push_on(thread, values);
            *pushed.as_ref().unwrap_or(&0)
        });
        pushed.map(|_| woken)
    }

    /// Runs a coroutine that a raw caller has prepared.
    pub(crate) fn run(&self, index: u32, values: c_int) {
        self.tasks(|tasks| tasks.get(index).values = values);
        self.resume(index);
    }
}
