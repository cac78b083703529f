//! Waiting for a future: how a Rust function suspends the coroutine that calls it.
//!
//! ```ignore
//! table.set("lookup", async_function::create(lua, |_, (name, timeout): (String, Option<u64>)| {
//!     // Arguments are checked here, in the call; an error is raised at once.
//!     Ok(async move {
//!         // Runs as a task of the worker while other coroutines run. Holds no borrow of the VM.
//!         let address = resolve(name, timeout).await;
//!         // What it returns is what the call returns; `Err` is raised in the coroutine.
//!         Ok(address)
//!     })
//! })?)?;
//! ```
//!
//! Promises: the call returns in a turn of its own, once the future is done; the coroutine sees the
//! values (anything [`IntoLuaMulti`]: `(None::<String>, reason)` is `nil, reason`), or the error as
//! a string. The future is polled only while no Lua runs, so it may use what Lua uses. If the VM is
//! gone or has exited, or the coroutine was woken otherwise, the values are dropped. A future is
//! not cancelled: it ends by its own deadline.

use std::ffi::c_int;
use std::io;
use std::os::fd::OwnedFd;

use mlua::{FromLuaMulti, Function, IntoLuaMulti, Lua, Result, ffi};
use tokio::io::unix::AsyncFd;

use crate::errors;
use crate::ids::TaskId;
use crate::raw_function;
use crate::stack::{self, LuaState};
use crate::vm::Vm;

/// A Lua function that waits for the future `begin` makes of its arguments.
pub fn create<A, F, W, R>(lua: &Lua, begin: F) -> Result<Function>
where
    A: FromLuaMulti,
    F: Fn(&Lua, A) -> Result<W> + 'static,
    W: Future<Output = Result<R>> + 'static,
    R: IntoLuaMulti + 'static,
{
    let begin = lua.create_function(move |lua, arguments: A| {
        let vm = Vm::of(lua)?;
        let Some(task) = vm.tasks(|tasks| tasks.current().map(|index| tasks.id(index))) else {
            return Err(mlua::Error::runtime("there is no coroutine to wait"));
        };
        let future = begin(lua, arguments)?;
        spawn(&vm, task, future);
        Ok(())
    })?;
    let pointer: *const Vm = &*Vm::of(lua)?;
    // SAFETY: takes one function and leaves a closure over it and the VM, which owns the state.
    unsafe {
        lua.exec_raw(begin, |state| {
            ffi::lua_pushlightuserdata(state, pointer.cast_mut().cast());
            ffi::lua_insert(state, 1);
            ffi::lua_pushcclosure(state, wait, 2);
        })
    }
}

/// Registers a descriptor with the worker's event loop.
pub fn register(descriptor: OwnedFd) -> io::Result<AsyncFd<OwnedFd>> {
    // SAFETY: an `OwnedFd` has the same descriptor until it is dropped.
    Ok(unsafe { AsyncFd::register(descriptor) }?)
}

/// Runs `future` on this worker and then wakes `task` with `true, values` or `false, error`.
fn spawn<R: IntoLuaMulti + 'static>(
    vm: &Vm,
    task: TaskId,
    future: impl Future<Output = Result<R>> + 'static,
) {
    let vm = vm.weak();
    net::task::spawn_local(async move {
        let outcome = future.await;
        let Some(vm) = vm.upgrade() else { return };
        vm.turn(|turn| {
            let values = outcome.and_then(|values| {
                let mut values = values.into_lua_multi(turn.lua())?;
                values.push_front(mlua::Value::Boolean(true));
                Ok(values)
            });
            let woken = match values {
                Ok(values) => turn.wake(task, values),
                Err(error) => turn.wake(task, (false, errors::text(&error))),
            };
            // If there are too many values for the stack, the coroutine gets that error instead.
            if let Err(error) = woken {
                drop(turn.wake(task, (false, errors::text(&error))));
            }
        });
    });
}

unsafe extern "C-unwind" fn wait(state: LuaState) -> c_int {
    // SAFETY: the upvalues are those of `function`. Nothing here has to be dropped.
    unsafe {
        if raw_function::vm(state).waiter(state).is_none() {
            stack::raise(state, "only a coroutine of silly.task may wait, not one of its own");
        }
        ffi::lua_pushvalue(state, ffi::lua_upvalueindex(2));
        ffi::lua_insert(state, 1);
        ffi::lua_call(state, ffi::lua_gettop(state) - 1, 0);
        ffi::lua_yieldk(state, 0, 0, Some(woken))
    }
}

unsafe extern "C-unwind" fn woken(state: LuaState, _: c_int, _: ffi::lua_KContext) -> c_int {
    // SAFETY: the stack holds what `spawn` woke the coroutine with; a script that woke it gets the
    // script's value.
    unsafe {
        let values = ffi::lua_gettop(state);
        if ffi::lua_type(state, 1) != ffi::LUA_TBOOLEAN {
            return values;
        }
        if ffi::lua_toboolean(state, 1) == 0 && values == 2 {
            ffi::luaL_where(state, 1);
            ffi::lua_insert(state, 2);
            ffi::lua_concat(state, 2);
            ffi::lua_error(state);
        }
        ffi::lua_remove(state, 1);
        ffi::lua_gettop(state)
    }
}
