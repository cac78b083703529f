//! Something that is done for a coroutine, and given up when the coroutine is.
//!
//! Promises that an errand which is closed, or forgotten, is dropped where it waits: of a client
//! that goes away nothing stays under way.

use std::cell::RefCell;

use bytes::Bytes;
use mlua::{
    Error, IntoLuaMulti, Lua, MetaMethod, MultiValue, Result, Table, UserData, UserDataMethods,
    UserDataRef, Value,
};
use net::task::{AbortHandle, JoinHandle};

use super::answer::Content;
use lua_std::http::fields;
use lua_vm::errno;
use lua_vm::waits;

/// What comes of an errand.
pub(crate) enum Done {
    Answered(Content),
    /// The content of an answer.
    Read(Bytes),
    /// Why not, and the status that says so; 0 where none does.
    Failed(String, u16),
}

pub(crate) struct Errand {
    task: RefCell<Option<JoinHandle<Done>>>,
    abort: AbortHandle,
}

impl Errand {
    pub(crate) fn begin(future: impl Future<Output = Done> + 'static) -> Errand {
        let task = net::task::spawn_local(future);
        Errand { abort: task.abort_handle(), task: RefCell::new(Some(task)) }
    }
}

impl Drop for Errand {
    fn drop(&mut self) {
        self.abort.abort();
    }
}

impl UserData for Errand {
    fn add_methods<M: UserDataMethods<Self>>(methods: &mut M) {
        methods.add_meta_method(MetaMethod::Close, |_, errand, _: MultiValue| {
            errand.abort.abort();
            Ok(())
        });
    }
}

impl IntoLuaMulti for Done {
    fn into_lua_multi(self, lua: &Lua) -> Result<MultiValue> {
        match self {
            Done::Answered(content) => {
                let headers = fields::to_table(lua, content.headers())?;
                (content.status(), headers, content).into_lua_multi(lua)
            }
            Done::Read(bytes) => lua.create_string(&bytes)?.into_lua_multi(lua),
            Done::Failed(reason, 0) => (Value::Nil, reason).into_lua_multi(lua),
            Done::Failed(reason, status) => (Value::Nil, reason, status).into_lua_multi(lua),
        }
    }
}

/// `wait(errand)`: what comes of it, once.
pub(crate) fn add(lua: &Lua, raw: &Table) -> Result<()> {
    let wait = waits::function(lua, |_, errand: UserDataRef<Errand>| {
        let task = errand.task.take();
        let task = task.ok_or_else(|| Error::runtime("an errand is waited for once"))?;
        Ok(async move {
            // It was given up, or failed in a way that is in the log.
            let lost = |_| Done::Failed(errno::CLOSED.to_owned(), 0);
            Ok(task.await.unwrap_or_else(lost))
        })
    })?;
    raw.set("wait", wait)
}
