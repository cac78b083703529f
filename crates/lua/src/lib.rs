//! Lua programs, handlers and filters.
//!
//! Owns the VM of a worker: its state, its scheduler, its standard library. Promises Silly's
//! scheduling contract: what one event wakes runs, first in first out, before the next event is
//! looked at. Never blocks its worker, and never lets a script's error end the process.

mod modules;

pub use modules::preload;
