//! A Lua VM with a scheduler, for one worker.
//!
//! Owns the state, its coroutines, timers, sockets, memory meter and instruction budget, and every
//! function that uses Lua's C stack: all `unsafe` code of the Lua crates is here. Promises Silly's
//! scheduling contract: the coroutines that one event makes ready run, first in first out, before
//! the next event is handled. Never blocks its worker, and a script's error never ends the process.
//!
//! [`Vm`] is the VM and [`drive`] its event loop; [`async_function`] suspends a coroutine until a
//! future is done; [`calls`] runs a script's function for an HTTP request; [`native`] has the
//! functions of the standard library that are called too often, or do too much with the scheduler,
//! for mlua's safe API. The standard library itself is the crate `lua-std`: it gives [`Vm::new`] a
//! table of modules.

pub mod address;
pub mod arguments;
pub mod async_function;
mod block_heap;
mod blocks;
mod c_api;
pub mod calls;
mod coroutine_close;
mod drive;
pub mod errno;
mod error_recorder;
pub mod errors;
pub mod guard;
mod ids;
pub mod limits;
mod manual_clock;
mod memory_report;
mod meter;
mod movable_vm;
pub mod native;
mod pcall;
mod preload;
pub mod profile;
mod raw_function;
pub mod script;
mod stack;
pub mod streams;
mod tasks;
pub mod timers;
mod vm;
pub mod vm_message;
mod watchdog;

pub use drive::drive;
pub use error_recorder::ErrorRecorder;
pub use ids::TaskId;
pub use movable_vm::MovableVm;
pub use preload::{Module, OpenModule};
pub use tasks::{OnTaskEnd, TaskEnd, TaskError};
pub use vm::{BindSocket, Turn, Vm, VmOptions};
