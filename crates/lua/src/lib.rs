//! Lua programs, handlers and filters.
//!
//! Owns the VM of a worker: its state, its scheduler, its standard library. Promises Silly's
//! scheduling contract: what one event wakes runs, first in first out, before the next event is
//! looked at. Never blocks its worker, and never lets a script's error end the process.
//!
//! [`Vm`] is the whole of it; [`drive`] is its loop; `waits` is how a module waits for a future.

mod address;
#[cfg(test)]
mod documentation;
mod drive;
mod errno;
mod errors;
mod guard;
mod limits;
mod message;
mod meter;
mod modules;
pub mod program;
mod script;
mod serving;
mod stack;
mod streams;
mod tasks;
#[cfg(test)]
mod testing;
mod timers;
mod vm;
mod waits;
mod watchdog;

pub use drive::drive;
pub use serving::{
    FILTER, Generation, HANDLER, ProgramPlan, ProgramSettings, RawProgram, ServingSettings,
};
pub use tasks::{End, OnEnd, TaskId};
pub use vm::{Options, Turn, Vm};
