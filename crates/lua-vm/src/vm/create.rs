//! Creation of a VM.

use std::cell::{Cell, OnceCell, RefCell};
use std::rc::Rc;

use mlua::{Lua, LuaOptions, Result, StdLib, ffi};
use telemetry::event;
use telemetry::log::Level;

use super::failed_tasks::FailedTasks;
use super::{Vm, VmOptions, VmRef};
use crate::calls::call::CallTable;
use crate::coroutine_close;
use crate::guard::Guard;
use crate::meter::Meter;
use crate::pcall;
use crate::preload::{self, Module};
use crate::stack::LuaState;
use crate::streams::Streams;
use crate::tasks::TaskTable;
use crate::timers::Timers;

impl Vm {
    /// Makes a VM with Lua's standard libraries and `modules`, in which nothing runs yet.
    pub fn new(options: VmOptions, modules: &[Module]) -> Result<Rc<Vm>> {
        // SAFETY: `debug` and C modules can break a state. `tidegate run` allows a program to break
        // itself; a server removes both.
        let lua = unsafe {
            Lua::unsafe_new_with(StdLib::ALL, LuaOptions::new().catch_rust_panics(false))
        };
        let mut main: LuaState = std::ptr::null_mut();
        // SAFETY: leaves the stack unchanged. A state's main thread lives as long as it does.
        unsafe {
            lua.exec_raw::<()>((), |state| {
                ffi::lua_rawgeti(state, ffi::LUA_REGISTRYINDEX, ffi::LUA_RIDX_MAINTHREAD);
                main = ffi::lua_tothread(state, -1);
                ffi::lua_settop(state, 0);
                ffi::lua_gc(state, ffi::LUA_GCGEN);
            })?;
        }
        let meter = Meter::new(&lua, main);
        let vm = Rc::new_cyclic(|weak| Vm {
            lua,
            meter,
            memory_report: OnceCell::new(),
            error_recorder: OnceCell::new(),
            main,
            weak: weak.clone(),
            tasks: RefCell::new(TaskTable::new()),
            timers: Timers::default(),
            streams: Streams::default(),
            turning: Cell::new(false),
            exit: Cell::new(None),
            ids: Cell::new(0),
            names: OnceCell::new(),
            guard: Guard::default(),
            hooks: Cell::default(),
            calls: CallTable::default(),
            warned: Rc::default(),
            failures: Cell::new(0),
            failed_tasks: FailedTasks::default(),
            first_failure: OnceCell::new(),
            turns: Cell::new(0),
            options,
        });
        vm.lua.set_app_data(VmRef(Rc::downgrade(&vm)));
        vm.log_warnings();
        pcall::install(&vm)?;
        coroutine_close::install(&vm)?;
        preload::preload(&vm.lua, modules)?;
        let VmOptions { path, cpath, .. } = &vm.options;
        preload::search_paths(&vm.lua, path.as_deref(), cpath.as_deref())?;
        Ok(vm)
    }

    /// Logs warnings of Lua, such as an error in a finalizer, and remembers that there was one.
    fn log_warnings(&self) {
        let warned = self.warned.clone();
        let text = RefCell::new(String::new());
        self.lua.set_warning_function(move |_, piece, more| {
            let mut text = text.borrow_mut();
            text.push_str(piece);
            if !more {
                // `@on` and `@off` control the warnings of the standalone interpreter.
                if !text.starts_with('@') {
                    warned.set(true);
                    event!(Level::Warn, "Lua warning", warning = *text);
                }
                text.clear();
            }
            Ok(())
        });
    }
}
