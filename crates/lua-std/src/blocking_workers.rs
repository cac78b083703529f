//! `hive`: functions that may block, each in a VM of its own, on a pool of threads.
//!
//! Promises that a worker runs one call at a time, in the order of the calls; that values are
//! copied; that threads, workers and the size of values are limited; and that a call runs to its
//! end even if its coroutine has ended. Programs only: nothing limits what the code of a worker
//! takes.

mod pool;

use std::rc::Rc;
use std::sync::Arc;
use std::thread;

use lua_vm::vm_message::{Message, into_values};
use lua_vm::{MovableVm, Vm, VmOptions, async_function, script};
use mlua::{
    AnyUserData, Error, IntoLua, IntoLuaMulti, Lua, LuaString, MultiValue, Result, Table, UserData,
    Value,
};
use tokio::sync::{Mutex, oneshot};

use crate::MODULES;
use crate::context::VmContext;
use crate::limits::{HIVE_IDLE_MS, HIVE_WORKERS};
use lua_vm::arguments::function;
use pool::ThreadPool;

/// The modules of a worker: those that neither wait nor use the program's state.
const PURE: &[&str] = &[
    "adt.buffer",
    "adt.list",
    "adt.queue",
    "compress.br",
    "compress.gzip",
    "compress.lz4",
    "compress.snappy",
    "compress.zstd",
    "crypto.cipher",
    "crypto.hash",
    "crypto.hmac",
    "crypto.pkey",
    "crypto.utils",
    "encoding.base64",
    "encoding.hex",
    "encoding.json",
    "errno",
    "perf",
    "re",
    "security.jwt",
    // What `perf` requires.
    "task",
];

/// A worker; `None` while its VM is on a thread, and for ever if it was lost there.
struct Worker {
    vm: Rc<Mutex<Option<MovableVm>>>,
    /// Counts the workers of the program's VM.
    _counted: Rc<()>,
}

impl UserData for Worker {}

/// What a call has given.
struct Called(std::result::Result<Vec<Message>, Message>);

impl IntoLuaMulti for Called {
    fn into_lua_multi(self, lua: &Lua) -> Result<MultiValue> {
        let (is_ok, values) = match self.0 {
            Ok(values) => (true, into_values(values, lua)?),
            Err(error) => (false, error.into_value(lua)?.into_lua_multi(lua)?),
        };
        let mut all = values;
        all.push_front(Value::Boolean(is_ok));
        Ok(all)
    }
}

pub(crate) fn open(lua: &Lua) -> Result<Table> {
    let cores = thread::available_parallelism().map_or(1, usize::from);
    let pool = Arc::new(ThreadPool::new(cores, 2 * cores, HIVE_IDLE_MS));
    let raw = lua.create_table()?;
    let count = Rc::new(());
    raw.set(
        "spawn",
        function(lua, "spawn", move |lua, (code, arguments)| {
            spawn(lua, &count, &code, &arguments)
        })?,
    )?;
    let threads = pool.clone();
    raw.set(
        "invoke",
        async_function::create(lua, move |_, (worker, arguments)| {
            invoke(&threads, &worker, &arguments)
        })?,
    )?;
    let threads = pool.clone();
    raw.set("threads", lua.create_function(move |_, ()| Ok(threads.threads()))?)?;
    let threads = pool.clone();
    let prune = move |_: &Lua, ()| {
        threads.prune();
        Ok(())
    };
    raw.set("prune", lua.create_function(prune)?)?;
    let limit = move |_: &Lua, (min, max): (i64, i64)| {
        let limits = usize::try_from(min).ok().zip(usize::try_from(max).ok());
        let limits = limits.filter(|(min, max)| min <= max && (1..=HIVE_WORKERS).contains(max));
        let Some((min, max)) = limits else {
            let text = format!(
                "bad argument #2 to 'limit' (0 <= min <= max, 1 <= max <= {HIVE_WORKERS} expected)"
            );
            return Err(Error::runtime(text));
        };
        pool.limit(min, max);
        Ok(())
    };
    raw.set("limit", function(lua, "limit", limit)?)?;
    script::open(lua, "hive", include_str!("../../../lua/hive.lua"), raw)
}

/// `true, worker`, or `false, error`.
fn spawn(
    lua: &Lua,
    count: &Rc<()>,
    code: &LuaString,
    arguments: &MultiValue,
) -> Result<(bool, Value)> {
    let vm = Vm::of(lua)?;
    if VmContext::of(&vm).member.is_none() {
        return Err(Error::runtime("hive is for programs (tidegate run), not for a server"));
    }
    if Rc::strong_count(count) > HIVE_WORKERS {
        // Those that the program no longer has.
        lua.gc_collect()?;
    }
    if Rc::strong_count(count) > HIVE_WORKERS {
        return Err(Error::runtime(format!("hive: there are {HIVE_WORKERS} workers")));
    }
    let VmOptions { path, cpath, .. } = vm.options();
    let options = VmOptions { path: path.clone(), cpath: cpath.clone(), ..Default::default() };
    let modules: Vec<_> =
        MODULES.iter().filter(|(name, ..)| PURE.contains(name)).copied().collect();
    let arguments = Message::copy_lenient(arguments)?;
    match MovableVm::load(options, &modules, &code.as_bytes(), arguments) {
        Ok(movable) => {
            let vm = Rc::new(Mutex::new(Some(movable)));
            let worker = Worker { vm, _counted: count.clone() };
            Ok((true, worker.into_lua(lua)?))
        }
        Err(error) => Ok((false, error.into_value(lua)?)),
    }
}

fn invoke(
    pool: &Arc<ThreadPool>,
    worker: &AnyUserData,
    arguments: &MultiValue,
) -> Result<impl Future<Output = Result<Called>> + 'static + use<>> {
    let vm = worker.borrow::<Worker>()?.vm.clone();
    let arguments = Message::copy_lenient(arguments)?;
    let pool = pool.clone();
    Ok(async move {
        let lost = || Error::runtime("hive: the worker was lost");
        // Fair: the calls of a worker run in their order.
        let mut place = vm.lock().await;
        let mut movable = place.take().ok_or_else(lost)?;
        let (tell, told) = oneshot::channel();
        pool.run(move || {
            let result = movable.call(arguments);
            // Without a receiver the VM is dropped here.
            let _ = tell.send((movable, result));
        })
        .map_err(|why| Error::runtime(format!("hive: cannot start a thread: {why}")))?;
        let (movable, result) = told.await.map_err(|_| lost())?;
        *place = Some(movable);
        Ok(Called(result))
    })
}

#[cfg(test)]
mod tests;
