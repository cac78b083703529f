//! Calls of a script's function for a request.
//!
//! Owns the objects that the function gets (request, response, headers, body) and the state they
//! stand for. [`begin`] starts the coroutine; the [`CallHandle`] waits for it, and dropping the
//! ticket ends it.

mod body_read;
mod call;
mod headers;
mod object;
mod progress;
mod request;
mod request_state;
mod response;
mod response_stream;
mod running;

use mlua::{Function, Lua, Result};

use crate::vm::Vm;

pub use call::{CallHandle, begin};
pub(crate) use call::{CallId, CallTable};
pub use object::{set_response, with_request};
pub use progress::{CallProgress, failed};
pub use running::{FunctionRef, RunningVm};

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
    body_read::open(lua, vm, decode)
}
