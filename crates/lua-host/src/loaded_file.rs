//! A file, loaded into the VM of a generation.
//!
//! Owns its environment and the functions it returned. Promises that a file is loaded again when
//! the VM was replaced, and that a load error is logged once.

use std::cell::RefCell;
use std::path::Path;
use std::rc::Rc;
use std::sync::Arc;

use mlua::{Lua, Result, Table, Value};
use telemetry::event;
use telemetry::log::Level;

use super::settings::ScriptSource;
use crate::generation::Generation;
use lua_vm::TaskEnd;
use lua_vm::calls::RunningVm;
use lua_vm::errors;

/// A VM, and the result of loading the file in it.
type LoadAttempt<T> = (Rc<RunningVm>, Option<Rc<T>>);

/// A file, and the value that it has returned in the current VM of its generation, as `T`.
pub(crate) struct LoadedFile<T> {
    pub(crate) source: Arc<ScriptSource>,
    generation: Rc<Generation>,
    read: fn(&Rc<RunningVm>, Value) -> Result<T>,
    /// The last attempt; `None` once its VM was replaced, which ends with its last call.
    known: Rc<RefCell<Option<LoadAttempt<T>>>>,
}

impl<T: 'static> LoadedFile<T> {
    /// Loads the file at once, so that errors are logged before a request arrives.
    pub(crate) fn new(
        source: Arc<ScriptSource>,
        generation: Rc<Generation>,
        read: fn(&Rc<RunningVm>, Value) -> Result<T>,
    ) -> LoadedFile<T> {
        generation.allow(source.memory);
        let known = Rc::new(RefCell::<Option<LoadAttempt<T>>>::default());
        let replaced = Rc::downgrade(&known);
        generation.on_replaced(move || {
            if let Some(known) = replaced.upgrade() {
                drop(known.take());
            }
        });
        let loaded = LoadedFile { source, generation, read, known };
        loaded.get();
        loaded
    }

    /// The value that the file returned; `None` if it could not be loaded.
    pub(crate) fn get(&self) -> Option<Rc<T>> {
        let running = self.generation.running()?;
        if let Some((known, value)) = &*self.known.borrow()
            && Rc::ptr_eq(known, &running)
        {
            return value.clone();
        }
        let value = match load(&running, &self.source).and_then(|v| (self.read)(&running, v)) {
            Ok(value) => Some(Rc::new(value)),
            Err(error) => {
                event!(
                    Level::Error,
                    "Lua file cannot be loaded",
                    file = self.source.path.display(),
                    error = errors::text(&error)
                );
                None
            }
        };
        let before = self.known.replace(Some((running, value.clone())));
        drop(before);
        value
    }
}

/// Runs a file in an environment of its own; returns what it returned.
fn load(running: &Rc<RunningVm>, source: &ScriptSource) -> Result<Value> {
    let lua = running.vm().lua();
    if let Some(folder) = source.path.parent() {
        search(lua, folder)?;
    }
    let environment = lua.create_table()?;
    let meta = lua.create_table()?;
    meta.set("__index", lua.globals())?;
    environment.set_metatable(Some(meta))?;
    let chunk = lua
        .load(&source.text[..])
        .set_name(format!("@{}", source.path.display()))
        .set_environment(environment)
        .into_function()?;
    let outcome: Rc<RefCell<Option<Result<Value>>>> = Rc::default();
    let ended = outcome.clone();
    let ended = move |_: &Lua, end: TaskEnd| {
        *ended.borrow_mut() = Some(match end {
            TaskEnd::Returned(mut values) => Ok(values.pop_front().unwrap_or(Value::Nil)),
            TaskEnd::Failed(error) => Err(mlua::Error::runtime(error.message)),
        });
    };
    let started = running.vm().turn(|turn| turn.start(&chunk, (), Some(Box::new(ended))));
    started.transpose()?;
    let outcome = outcome.borrow_mut().take();
    outcome.unwrap_or_else(|| Err(mlua::Error::runtime("a file cannot wait while it is loaded")))
}

/// Adds the directory of a file to the search path of `require`.
fn search(lua: &Lua, folder: &Path) -> Result<()> {
    let package: Table = lua.globals().get("package")?;
    let known: String = package.get("path")?;
    let own = format!("{}/?.lua;", folder.display());
    if !known.contains(&own) {
        package.set("path", own + &known)?;
    }
    Ok(())
}
