//! A future that is cancelled with the coroutine that waits for it.
//!
//! Promises that it is dropped when it is closed or collected: nothing of a disconnected client
//! stays in flight.

use std::cell::RefCell;

use mlua::{
    Error, Lua, MetaMethod, MultiValue, Result, Table, UserData, UserDataMethods, UserDataRef,
};
use net::task::{AbortHandle, JoinHandle};

use super::response::SubrequestResult;
use lua_vm::async_function;
use lua_vm::errno;

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
        methods.add_meta_method(MetaMethod::Close, |_, pending, _: MultiValue| {
            pending.abort.abort();
            Ok(())
        });
    }
}

/// `wait(pending)`: waits for the result, once.
pub(crate) fn add(lua: &Lua, raw: &Table) -> Result<()> {
    let wait = async_function::create(lua, |_, pending: UserDataRef<CancelOnDrop>| {
        let task = pending.task.take();
        let task =
            task.ok_or_else(|| Error::runtime("a subrequest can be waited for only once"))?;
        Ok(async move {
            // It was cancelled, or panicked, which is logged.
            let lost = |_| SubrequestResult::Failed(errno::CLOSED.to_owned(), 0);
            Ok(task.await.unwrap_or_else(lost))
        })
    })?;
    raw.set("wait", wait)
}
