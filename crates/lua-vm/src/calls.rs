//! Calls of a script's function for a request.
//!
//! Owns the objects that the function gets (request, response, headers, body) and the state they
//! stand for. [`begin`] starts the coroutine; the [`CallHandle`] waits for it, and dropping the
//! handle ends it.

mod body;
mod body_read;
pub(crate) mod call;
mod handle;
mod headers;
mod object;
mod object_kind;
mod own_fields;
mod progress;
mod request;
mod request_state;
mod response;
mod response_stream;
mod running;
mod streamed_body;

use mlua::{Function, Lua, Result};

use crate::vm::Vm;

pub use handle::{CallHandle, begin};
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
    body::open(lua, vm, decode)
}
