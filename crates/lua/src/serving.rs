//! Lua inside a server: handlers, filters and raw TCP programs.
//!
//! Owns one VM for each worker and generation ([`Generation`]), in which each file has an
//! environment of its own. Promises that a function which ends without waiting is answered in the
//! same call, with no future made; that one which waits blocks nobody; that a client who goes away
//! ends its coroutine; and that an error of a script is a 500 without its text, with the traceback
//! in the log.

mod attached;
mod call;
mod filter;
mod filter_body;
mod generation;
mod handler;
mod headers;
mod loaded;
mod mentions;
mod object;
mod outlet;
mod program;
mod reading;
mod request;
mod response;
mod sandbox;
mod settings;
mod subrequest;
mod waiting;

use exchange::Subrequests;
use mlua::{Function, Lua, Result, Table};

use crate::vm::Vm;

pub(crate) use call::{CallId, Calls};
pub use filter::FILTER;
pub use generation::Generation;
pub use handler::HANDLER;
pub use program::{ProgramPlan, RawProgram};
pub use settings::{ProgramSettings, ServingSettings};

/// Makes what requests are seen through known to a VM.
fn open(lua: &Lua, vm: &Vm, subrequests: &std::rc::Rc<Subrequests>) -> Result<()> {
    let require: Function = lua.globals().get("require")?;
    let json: Table = require.call("tide.encoding.json")?;
    headers::open(lua, vm)?;
    request::open(lua, vm)?;
    let pass = subrequest::open(lua, subrequests)?;
    response::open(lua, vm, &json.get("encode")?, &pass)?;
    reading::open(lua, vm, &json.get("decode")?)
}
