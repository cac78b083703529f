//! A future that is cancelled with the coroutine that waits for it.
//!
//! Promises that it is dropped when it is closed or collected: nothing of a disconnected client
//! stays in flight.

use std::cell::RefCell;

use bytes::Bytes;
use mlua::{
    Error, IntoLuaMulti, Lua, MetaMethod, MultiValue, Result, Table, UserData, UserDataMethods,
    UserDataRef, Value,
};
use net::task::{AbortHandle, JoinHandle};

use super::response::SubrequestResponse;
use lua_std::http::fields;
use lua_vm::errno;
use lua_vm::waits;

/// The result of the future.
pub(crate) enum SubrequestResult {
    Answered(SubrequestResponse),
    /// The content of a response.
    Read(Bytes),
    /// The reason of the failure, and its status; 0 if it has none.
    Failed(String, u16),
}

pub(crate) struct CancelOnDrop {
    task: RefCell<Option<JoinHandle<SubrequestResult>>>,
    abort: AbortHandle,
}

impl CancelOnDrop {
    pub(crate) fn begin(future: impl Future<Output = SubrequestResult> + 'static) -> CancelOnDrop {
        let task = net::task::spawn_local(future);
        CancelOnDrop { abort: task.abort_handle(), task: RefCell::new(Some(task)) }
    }
}

impl Drop for CancelOnDrop {
    fn drop(&mut self) {
        self.abort.abort();
    }
}

impl UserData for CancelOnDrop {
    fn add_methods<M: UserDataMethods<Self>>(methods: &mut M) {
        methods.add_meta_method(MetaMethod::Close, |_, errand, _: MultiValue| {
            errand.abort.abort();
            Ok(())
        });
    }
}

impl IntoLuaMulti for SubrequestResult {
    fn into_lua_multi(self, lua: &Lua) -> Result<MultiValue> {
        match self {
            SubrequestResult::Answered(content) => {
                let headers = fields::to_table(lua, content.headers())?;
                (content.status(), headers, content).into_lua_multi(lua)
            }
            SubrequestResult::Read(bytes) => lua.create_string(&bytes)?.into_lua_multi(lua),
            SubrequestResult::Failed(reason, 0) => (Value::Nil, reason).into_lua_multi(lua),
            SubrequestResult::Failed(reason, status) => {
                (Value::Nil, reason, status).into_lua_multi(lua)
            }
        }
    }
}

/// `wait(pending)`: waits for the result, once.
pub(crate) fn add(lua: &Lua, raw: &Table) -> Result<()> {
    let wait = waits::function(lua, |_, errand: UserDataRef<CancelOnDrop>| {
        let task = errand.task.take();
        let task = task.ok_or_else(|| Error::runtime("an errand is waited for once"))?;
        Ok(async move {
            // It was cancelled, or panicked, which is logged.
            let lost = |_| SubrequestResult::Failed(errno::CLOSED.to_owned(), 0);
            Ok(task.await.unwrap_or_else(lost))
        })
    })?;
    raw.set("wait", wait)
}
