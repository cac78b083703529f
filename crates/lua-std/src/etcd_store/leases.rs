//! Leases that a client renews until they are revoked or the client is closed.

use std::cell::RefCell;
use std::collections::HashMap;
use std::future::poll_fn;
use std::rc::Rc;
use std::task::Poll;
use std::time::Duration;

use etcd::{Etcd, EtcdError};
use mlua::{IntoLuaMulti, Lua, MultiValue, Result, Table, UserDataRef, Value};
use net::task::JoinHandle;

use super::{Handle, failure};
use crate::http::WakerSet;
use crate::limits::ETCD_LEASES;
use lua_vm::{async_function, errno};

#[derive(Default)]
pub(super) struct LeaseKeepers(RefCell<HashMap<i64, Keeper>>);

struct Keeper {
    task: JoinHandle<()>,
    end: Rc<LeaseEnd>,
}

/// Why a lease is not renewed any more.
#[derive(Default)]
struct LeaseEnd {
    error: RefCell<Option<EtcdError>>,
    ended: WakerSet,
}

impl Drop for Keeper {
    fn drop(&mut self) {
        self.task.abort();
        self.end.ended.wake_all();
    }
}

impl LeaseKeepers {
    /// Renews a lease from now on; false if there are too many.
    fn keep(&self, etcd: &Rc<Etcd>, id: i64, ttl: i64) -> bool {
        let mut keepers = self.0.borrow_mut();
        if keepers.len() >= ETCD_LEASES {
            // Those that were lost are of no use.
            keepers.retain(|_, keeper| keeper.end.error.borrow().is_none());
        }
        if keepers.len() >= ETCD_LEASES {
            return false;
        }
        let end = Rc::new(LeaseEnd::default());
        let (etcd, lost) = (etcd.clone(), end.clone());
        let task = net::task::spawn_local(async move {
            let error = etcd.keep_alive(id, ttl).await;
            lost.error.replace(Some(error));
            lost.ended.wake_all();
        });
        keepers.insert(id, Keeper { task, end });
        true
    }

    fn forget(&self, id: i64) {
        self.0.borrow_mut().remove(&id);
    }

    pub(super) fn clear(&self) {
        self.0.borrow_mut().clear();
    }

    fn end(&self, id: i64) -> Option<Rc<LeaseEnd>> {
        self.0.borrow().get(&id).map(|keeper| keeper.end.clone())
    }
}

/// `true, text, code` if the lease was lost; `nil, text` otherwise.
enum LeaseLoss {
    Lost(EtcdError),
    NotKept,
    TimedOut,
}

impl IntoLuaMulti for LeaseLoss {
    fn into_lua_multi(self, lua: &Lua) -> Result<MultiValue> {
        match self {
            LeaseLoss::Lost(error) => {
                let mut values = failure(lua, &error)?;
                values.pop_front();
                values.push_front(Value::Boolean(true));
                Ok(values)
            }
            LeaseLoss::NotKept => {
                (Value::Nil, "etcd: the client does not renew this lease").into_lua_multi(lua)
            }
            LeaseLoss::TimedOut => {
                (Value::Nil, errno::of_number(libc::ETIMEDOUT)).into_lua_multi(lua)
            }
        }
    }
}

/// Adds `keep(client, id, ttl)`, `forget(client, id)` and `lost(client, id[, ms])`.
pub(super) fn add(lua: &Lua, raw: &Table) -> Result<()> {
    let keep = |_: &Lua, (client, id, ttl): (UserDataRef<Handle>, i64, i64)| {
        let client = &client.0;
        Ok(!client.is_closed.get() && client.leases.keep(&client.etcd, id, ttl))
    };
    raw.set("keep", lua.create_function(keep)?)?;
    let forget = |_: &Lua, (client, id): (UserDataRef<Handle>, i64)| {
        client.0.leases.forget(id);
        Ok(())
    };
    raw.set("forget", lua.create_function(forget)?)?;
    let lost = |_: &Lua, (client, id, ms): (UserDataRef<Handle>, i64, Option<u64>)| {
        let client = client.0.clone();
        Ok(async move {
            let wait = poll_fn(|cx| {
                let Some(end) = client.leases.end(id) else {
                    return Poll::Ready(LeaseLoss::NotKept);
                };
                if let Some(error) = end.error.borrow().clone() {
                    return Poll::Ready(LeaseLoss::Lost(error));
                }
                end.ended.wait(cx);
                Poll::Pending
            });
            let span = Duration::from_millis(ms.unwrap_or(u64::from(u32::MAX)));
            Ok(net::timer::within(span, wait).await.unwrap_or(LeaseLoss::TimedOut))
        })
    };
    raw.set("lost", async_function::create(lua, lost)?)
}
