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
use crate::generation::{Generation, ScriptFile};
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
    known: RefCell<Option<LoadAttempt<T>>>,
}

/// Why a file has no value.
enum LoadError {
    /// An error of its code, which was reported with its traceback.
    Reported(String),
    Other(mlua::Error),
}

impl From<mlua::Error> for LoadError {
    fn from(error: mlua::Error) -> LoadError {
        LoadError::Other(error)
    }
}

impl<T: 'static> LoadedFile<T> {
    /// Loads the file at once, so that errors are logged before a request arrives.
    pub(crate) fn new(
        source: Arc<ScriptSource>,
        generation: Rc<Generation>,
        read: fn(&Rc<RunningVm>, Value) -> Result<T>,
    ) -> Rc<LoadedFile<T>> {
        generation.allow(source.memory);
        let known = RefCell::default();
        let loaded = Rc::new(LoadedFile { source, generation, read, known });
        let file: Rc<dyn ScriptFile> = loaded.clone();
        loaded.generation.add_file(Rc::downgrade(&file));
        loaded.load();
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
        let value = load(&running, &self.source)
            .and_then(|value| Ok((self.read)(&running, value)?))
            .inspect_err(|why| self.report(why));
        let value = value.ok().map(Rc::new);
        let before = self.known.replace(Some((running, value.clone())));
        drop(before);
        value
    }

    fn report(&self, why: &LoadError) {
        let file = self.source.path.display();
        let error = match why {
            LoadError::Reported(message) => message.clone(),
            LoadError::Other(error) => {
                let message = errors::text(error);
                self.generation.record_error(Some(file.to_string()), message.clone());
                message
            }
        };
        event!(Level::Error, "Lua file cannot be loaded", file = file, error = error);
    }
}

impl<T: 'static> ScriptFile for LoadedFile<T> {
    fn load(&self) {
        self.get();
    }

    fn unload(&self) {
        drop(self.known.take());
    }
}

/// Runs a file in an environment of its own; returns what it returned.
fn load(running: &Rc<RunningVm>, source: &ScriptSource) -> std::result::Result<Value, LoadError> {
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
    let outcome: Rc<RefCell<Option<std::result::Result<Value, LoadError>>>> = Rc::default();
    let ended = outcome.clone();
    let ended = move |_: &Lua, end: TaskEnd| {
        *ended.borrow_mut() = Some(match end {
            TaskEnd::Returned(mut values) => Ok(values.pop_front().unwrap_or(Value::Nil)),
            TaskEnd::Failed(error) => Err(LoadError::Reported(error.message)),
        });
    };
    let started = running.vm().turn(|turn| turn.start(&chunk, (), Some(Box::new(ended))));
    started.transpose()?;
    let outcome = outcome.borrow_mut().take();
    let waits = || mlua::Error::runtime("a file cannot wait while it is loaded");
    outcome.unwrap_or_else(|| Err(LoadError::Other(waits())))
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
