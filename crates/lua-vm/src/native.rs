//! Functions of the standard library that use Lua's stack directly.
//!
//! The module `lua_std::NAME` opens the functions of `native::NAME` and adds what is written in
//! Lua.

pub mod debugger;
pub mod json;
pub mod pb;
pub mod silly;
pub mod task;
pub mod tcp;
pub mod time;
pub mod tls;
