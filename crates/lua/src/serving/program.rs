//! `programs: [{ bind, lua: FILE }]`: functions of Lua that speak TCP.
//!
//! Promises a coroutine for each connection, that the connection ends when its function does, and
//! that connections of a former Plan end in the VM they began in.

use std::any::Any;
use std::cell::Cell;
use std::rc::Rc;
use std::sync::Arc;

use exchange::{Mentions, WorkerContext};
use mlua::{Error, Lua, Result, Value, ffi};
use net::Accepted;
use settings::{Reader, Size};

use super::generation::{Generation, Running};
use super::loaded::{Kept, Loaded};
use super::settings::{ProgramSettings, Source};
use crate::limits::{PROGRAM_MEMORY_BYTES, TURN_INSTRUCTIONS};
use crate::modules::push_connection;
use crate::stack;
use crate::streams::peer_address;
use crate::tasks::{End, Ended, OnEnd};

/// A program, checked and frozen.
pub struct ProgramPlan(Arc<Source>);

impl ProgramPlan {
    /// Reads the file that the settings name.
    pub fn read(settings: &ProgramSettings, reader: &mut Reader<'_>) -> Option<ProgramPlan> {
        let memory = Size::from_bytes(PROGRAM_MEMORY_BYTES);
        let file = &settings.lua;
        Source::read(file.span, &file.value, memory, TURN_INSTRUCTIONS, reader).map(ProgramPlan)
    }

    /// What its file says of upstreams.
    pub fn mentions(&self) -> &Mentions {
        &self.0.mentions
    }
}

/// A program on one worker.
pub struct RawProgram {
    loaded: Loaded<Kept>,
    connections: Rc<Cell<usize>>,
}

impl RawProgram {
    pub fn build(plan: &ProgramPlan, worker: &WorkerContext) -> Rc<RawProgram> {
        let generation = Generation::current(worker);
        let loaded = Loaded::new(plan.0.clone(), generation, function);
        Rc::new(RawProgram { loaded, connections: Rc::default() })
    }

    /// Connections that have not ended.
    pub fn connections(&self) -> usize {
        self.connections.get()
    }

    /// Gives a connection to the program; `seat` is dropped when it ends.
    pub fn admit(&self, accepted: Accepted, seat: impl Any) {
        let Some(kept) = self.loaded.get() else { return };
        let Accepted { stream, peer } = accepted;
        let address = peer_address(&peer);
        let running = kept.running.clone();
        running.vm.turn(|turn| {
            let handle = turn.streams.insert(stream);
            let open = Open { connections: self.connections.clone(), _seat: Box::new(seat) };
            open.connections.set(open.connections.get() + 1);
            let held = kept.clone();
            // Holds the VM as long as the connection is open.
            let ended: OnEnd = Box::new(move |_: &Lua, _: End| {
                let vm = &held.running.vm;
                vm.streams.close(vm, handle);
                drop(open);
            });
            let index = turn.new_task();
            let thread = turn.tasks(|tasks| {
                let task = tasks.get(index);
                task.ended = Ended::Told(ended);
                task.thread
            });
            // SAFETY: the thread is empty and has room for a call's worth of values.
            unsafe {
                ffi::lua_rawgeti(thread, ffi::LUA_REGISTRYINDEX, i64::from(kept.reference));
                stack::push(thread, address.as_bytes());
                push_connection(thread, handle);
                ffi::lua_insert(thread, -2);
            }
            turn.run(index, 2);
        });
        running.weigh();
    }
}

struct Open {
    connections: Rc<Cell<usize>>,
    _seat: Box<dyn Any>,
}

impl Drop for Open {
    fn drop(&mut self) {
        self.connections.set(self.connections.get() - 1);
    }
}

fn function(running: &Rc<Running>, value: Value) -> Result<Kept> {
    // Its metatables come with the module.
    let require: mlua::Function = running.vm.lua().globals().get("require")?;
    require.call::<Value>("tide.net.tcp")?;
    match value {
        Value::Function(function) => Kept::new(running, function),
        other => {
            let found = other.type_name();
            Err(Error::runtime(format!("a program file returns a function, not a {found}")))
        }
    }
}
