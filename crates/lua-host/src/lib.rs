//! Lua in Tidegate: programs of their own, and handlers, filters and raw TCP programs of a server.
//!
//! Owns one VM for each worker and plan ([`Generation`]), in which each file has an environment of
//! its own. Promises that a function which ends without waiting is answered in the same call, with
//! no future made; that one which waits blocks no other request; that a client that disconnects
//! ends its coroutine; and that a script's error is a 500 without its text, with the traceback in
//! the log.

#![forbid(unsafe_code)]

mod filter;
mod filter_body;
mod generation;
mod handler;
mod limits;
mod loaded_file;
mod mentions;
pub mod program;
mod raw_program;
mod sandbox;
mod script_addresses;
mod settings;
mod subrequest;
pub mod test_run;

pub use filter::FILTER;
pub use generation::{Generation, script_errors};
pub use handler::HANDLER;
pub use lua_std::definitions::files as definitions;
pub use lua_std::profiler::{
    ProfileError, ProfileFormat, WorkerProfile, add_up as add_up_profiles,
};
pub use lua_vm::profile::ProfileKind;
pub use raw_program::{ProgramPlan, RawProgram};
pub use settings::{ProgramSettings, ServingSettings};
