//! `programs: [{ bind, lua: FILE }]`: Lua functions that handle TCP connections.
//!
//! Promises a coroutine for each connection, that the connection ends when its function does, and
//! that connections of a former plan end in the VM they started in.

use std::any::Any;
use std::cell::Cell;
use std::path::Path;
use std::rc::Rc;
use std::sync::Arc;

use lua_vm::calls::{FunctionRef, RunningVm};
use lua_vm::limits::TURN_INSTRUCTIONS;
use lua_vm::native::tcp;
use mlua::{Error, Result, Value};
use net::Accepted;
use plugin::{Mentions, WorkerContext};
use settings::{Reader, Size};

use crate::generation::Generation;
use crate::limits::PROGRAM_MEMORY_BYTES;
use crate::loaded_file::LoadedFile;
use crate::settings::{ProgramSettings, ScriptSource};

/// The validated settings of a program.
pub struct ProgramPlan(Arc<ScriptSource>);

impl ProgramPlan {
    /// Reads the file that the settings name.
    pub fn read(settings: &ProgramSettings, reader: &mut Reader<'_>) -> Option<ProgramPlan> {
        let memory = Size::from_bytes(PROGRAM_MEMORY_BYTES);
        let file = &settings.lua;
        ScriptSource::read(file.span, &file.value, memory, TURN_INSTRUCTIONS, reader)
            .map(ProgramPlan)
    }

    /// Its file.
    pub fn file(&self) -> &Path {
        &self.0.path
    }

    /// The upstreams that its file mentions.
    pub fn mentions(&self) -> &Mentions {
        &self.0.mentions
    }
}

/// A program on one worker.
pub struct RawProgram {
    loaded: Rc<LoadedFile<FunctionRef>>,
    connections: Rc<Cell<usize>>,
}

impl RawProgram {
    pub fn build(plan: &ProgramPlan, worker: &WorkerContext) -> Rc<RawProgram> {
        let generation = Generation::current(worker);
        let loaded = LoadedFile::new(plan.0.clone(), generation, function);
        Rc::new(RawProgram { loaded, connections: Rc::default() })
    }

    /// Connections that have not ended.
    pub fn connections(&self) -> usize {
        self.connections.get()
    }

    /// Passes a connection to the program; `permit` is dropped when it ends.
    pub fn admit(&self, accepted: Accepted, permit: impl Any) {
        let Some(function) = self.loaded.get() else { return };
        let open =
            OpenConnection { connections: self.connections.clone(), _permit: Box::new(permit) };
        open.connections.set(open.connections.get() + 1);
        let running = function.running();
        running.vm().turn(|turn| tcp::serve_connection(turn, &function, accepted, open));
        running.check_memory();
    }
}

struct OpenConnection {
    connections: Rc<Cell<usize>>,
    _permit: Box<dyn Any>,
}

impl Drop for OpenConnection {
    fn drop(&mut self) {
        self.connections.set(self.connections.get() - 1);
    }
}

fn function(running: &Rc<RunningVm>, value: Value) -> Result<FunctionRef> {
    // Opening the module makes its metatables.
    let require: mlua::Function = running.vm().lua().globals().get("require")?;
    require.call::<Value>("tide.net.tcp")?;
    match value {
        Value::Function(function) => FunctionRef::new(running, function),
        other => {
            let found = other.type_name();
            Err(Error::runtime(format!("a program file returns a function, not a {found}")))
        }
    }
}
