//! Calls of a script's function for a request.
//!
//! Owns the objects that the function gets (request, response, headers, body) and the state they
//! stand for. [`begin`] starts the coroutine; the [`Ticket`] waits for it, and dropping the ticket
//! ends it.

mod call;
mod headers;
mod object;
mod outlet;
mod reading;
mod request;
mod request_state;
mod response;
mod running;
mod waiting;

use mlua::{Function, Lua, Result};

use crate::vm::Vm;

pub(crate) use call::{CallId, Calls};
pub use call::{Ticket, begin};
pub use object::{set_response, with_request};
pub use running::{FunctionRef, RunningVm};
pub use waiting::{CallProgress, failed};

/// Makes the objects of calls known to a VM. `pass` makes the result of a subrequest the response.
pub fn open(
    lua: &Lua,
    vm: &Vm,
    encode: &Function,
    decode: &Function,
    pass: &Function,
) -> Result<()> {
    headers::open(lua, vm)?;
    request::open(lua, vm)?;
    response::open(lua, vm, encode, pass)?;
    reading::open(lua, vm, decode)
}
