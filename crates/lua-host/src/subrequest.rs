//! `tide.upstream(name)` and `tide.route(request)`: subrequests of scripts.
//!
//! Converts a script's values to a request and sends it. Scripts see the Lua part,
//! `lua/subrequest.lua`; upstreams and routes are those of the plan ([`plugin::Subrequests`]).
//! Promises that at most [`SUBREQUESTS`] are in flight in a VM, and that a subrequest is cancelled
//! when its coroutine is closed, as when the client disconnects.

mod cancel_on_drop;
mod changes;
mod response;

use std::cell::Cell;
use std::rc::Rc;

use message::{HandlerResult, Headers, Request, Target};
use mlua::{AnyUserData, Error, Function, Lua, LuaString, Result, Table, UserData, UserDataRef};
use plugin::{Handler, Subrequests};
use wire::Method;

use crate::limits::SUBREQUESTS;
use cancel_on_drop::CancelOnDrop;
use changes::Changes;
use lua_vm::calls;
use lua_vm::errno;
use lua_vm::script;
use response::{SubrequestResponse, SubrequestResult};

/// The userdata of an upstream.
struct Upstream(Rc<dyn Handler>);

impl UserData for Upstream {}

/// A permit for one subrequest in flight.
struct SubrequestPermit(Rc<Cell<usize>>);

impl SubrequestPermit {
    fn take(taken: &Rc<Cell<usize>>) -> Option<SubrequestPermit> {
        (taken.get() < SUBREQUESTS).then(|| {
            taken.set(taken.get() + 1);
            SubrequestPermit(taken.clone())
        })
    }
}

impl Drop for SubrequestPermit {
    fn drop(&mut self) {
        self.0.set(self.0.get() - 1);
    }
}

/// Adds both functions to the module `tide`; returns the function that makes a subrequest's
/// response the response.
pub(crate) fn open(lua: &Lua, subrequests: &Rc<Subrequests>) -> Result<Function> {
    let raw = lua.create_table()?;
    let plan = subrequests.clone();
    let upstream = lua.create_function(move |_, name: LuaString| {
        let name = name.to_string_lossy();
        Ok(match plan.upstream(&name) {
            Some(handler) => (Some(Upstream(handler)), None),
            None => (None, Some(unknown(&plan, &name))),
        })
    })?;
    raw.set("upstream", upstream)?;
    raw.set("is_request", lua.create_function(is_request)?)?;
    raw.set("send", sender(lua, subrequests.clone())?)?;
    raw.set("pass", lua.create_function(pass)?)?;
    raw.set("read", lua.create_function(read)?)?;
    response::add(lua, &raw)?;
    cancel_on_drop::add(lua, &raw)?;
    let made = script::open(lua, "subrequest", include_str!("../../../lua/subrequest.lua"), raw)?;
    let require: Function = lua.globals().get("require")?;
    let tide: Table = require.call("tide")?;
    for name in ["upstream", "route"] {
        tide.set(name, made.get::<Function>(name)?)?;
    }
    made.get("pass")
}

fn unknown(plan: &Subrequests, name: &str) -> String {
    let near = settings::nearest(name, plan.upstream_names());
    let hint = near.map(|near| format!(", did you mean {near:?}?")).unwrap_or_default();
    format!("there is no upstream {name:?}{hint}")
}

fn is_request(lua: &Lua, value: mlua::Value) -> Result<bool> {
    let object = value.as_userdata();
    Ok(object.is_some_and(|object| calls::with_request(lua, object, |_| ()).is_some()))
}

/// `send(function, upstream | nil, request | nil, changes, body | nil) → pending | nil, err`
fn sender(lua: &Lua, subrequests: Rc<Subrequests>) -> Result<Function> {
    type SendArguments =
        (String, Option<UserDataRef<Upstream>>, Option<AnyUserData>, Table, Option<LuaString>);
    let taken = Rc::new(Cell::new(0));
    lua.create_function(move |lua, (name, upstream, parent, table, body): SendArguments| {
        let mut request = match parent {
            Some(object) => script_subrequest(lua, &object)?,
            None => {
                let root = Target::new("/".into());
                let root = root.map_err(|_| Error::runtime("the path / cannot be read"))?;
                Request::made_up(Method::Get, root, Headers::new())
            }
        };
        let changes = Changes::read(&name, &table)?;
        let within = changes.within;
        changes.apply(&mut request, body.as_ref().map(|body| body.as_bytes()).as_deref());
        let Some(permit) = SubrequestPermit::take(&taken) else {
            return Ok((None, Some("too many subrequests are in flight")));
        };
        let (handler, plan) = (upstream.map(|upstream| upstream.0.clone()), subrequests.clone());
        let pending = CancelOnDrop::begin(async move {
            let _permit = permit;
            let sent = send(handler, plan, request);
            match within {
                None => response::of(sent.await).await,
                Some(span) => {
                    let response = async { response::of(sent.await).await };
                    let late = || SubrequestResult::Failed(errno::of_number(libc::ETIMEDOUT), 504);
                    net::timer::within(span, response).await.unwrap_or_else(late)
                }
            }
        });
        Ok((Some(pending), None))
    })
}

/// Makes a subrequest of the script's request.
fn script_subrequest(lua: &Lua, object: &AnyUserData) -> Result<Request> {
    calls::with_request(lua, object, Request::subrequest)
        .ok_or_else(|| Error::runtime("this request is over"))
}

/// Sends a request to an upstream, or through the routes.
async fn send(
    upstream: Option<Rc<dyn Handler>>,
    plan: Rc<Subrequests>,
    mut request: Request,
) -> HandlerResult {
    match upstream {
        Some(handler) => handler.handle(&mut request).resolve().await,
        None => plan.route(request).await,
    }
}

/// `read(content, limit) → pending`
fn read(
    _: &Lua,
    (content, limit): (UserDataRef<SubrequestResponse>, Option<i64>),
) -> Result<CancelOnDrop> {
    let limit = response::limit_of(limit)?;
    let content = content.clone();
    Ok(CancelOnDrop::begin(async move {
        match content.read(limit).await {
            Ok(bytes) => SubrequestResult::Content(bytes),
            Err(reason) => SubrequestResult::Failed(reason, 0),
        }
    }))
}

/// `pass(response, content)`: makes `content` the response, with the fields that were set before.
fn pass(
    lua: &Lua,
    (object, content): (AnyUserData, UserDataRef<SubrequestResponse>),
) -> Result<()> {
    calls::set_response(lua, &object, || content.response())
}
