//! A file, loaded into the VM of a generation.
//!
//! Owns its environment and the functions it returned. Promises that a file is loaded again when
//! the VM was replaced, and that one which cannot be loaded is logged once.

use std::cell::RefCell;
use std::path::Path;
use std::rc::Rc;
use std::sync::Arc;

use mlua::{Lua, Result, Table, Value};
use telemetry::event;
use telemetry::log::Level;

use super::settings::Source;
use crate::generation::Generation;
use lua_vm::End;
use lua_vm::calls::RunningVm;
use lua_vm::errors;

/// A VM, and what came of the file in it.
type Tried<T> = (Rc<RunningVm>, Option<Rc<T>>);

/// What a file returned, as `T`, for the VM of its generation at the time.
pub(crate) struct Loaded<T> {
    pub(crate) source: Arc<Source>,
    generation: Rc<Generation>,
    read: fn(&Rc<RunningVm>, Value) -> Result<T>,
    /// The VM it was tried in, and what came of it.
    known: RefCell<Option<Tried<T>>>,
}

impl<T> Loaded<T> {
    /// Loads the file at once: what is wrong with it is in the log before a request comes.
    pub(crate) fn new(
        source: Arc<Source>,
        generation: Rc<Generation>,
        read: fn(&Rc<RunningVm>, Value) -> Result<T>,
    ) -> Loaded<T> {
        generation.allow(source.memory);
        let loaded = Loaded { source, generation, read, known: RefCell::default() };
        loaded.get();
        loaded
    }

    /// What the file returned; `None` if it could not be loaded.
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
                    "a Lua file cannot be loaded",
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
fn load(running: &Rc<RunningVm>, source: &Source) -> Result<Value> {
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
    let ended = move |_: &Lua, end: End| {
        *ended.borrow_mut() = Some(match end {
            End::Returned(mut values) => Ok(values.pop_front().unwrap_or(Value::Nil)),
            End::Failed(why) => Err(mlua::Error::runtime(why)),
        });
    };
    let started = running.vm().turn(|turn| turn.start(&chunk, (), Some(Box::new(ended))));
    started.transpose()?;
    let outcome = outcome.borrow_mut().take();
    outcome.unwrap_or_else(|| Err(mlua::Error::runtime("a file cannot wait while it is loaded")))
}

/// Modules beside a file are found by `require`.
fn search(lua: &Lua, folder: &Path) -> Result<()> {
    let package: Table = lua.globals().get("package")?;
    let known: String = package.get("path")?;
    let own = format!("{}/?.lua;", folder.display());
    if !known.contains(&own) {
        package.set("path", own + &known)?;
    }
    Ok(())
}
