//! A watch of a script.

use std::cell::{Cell, RefCell};
use std::future::poll_fn;
use std::pin::pin;
use std::rc::Rc;
use std::task::Poll;
use std::time::Duration;

use etcd::messages::WatchResponse;
use etcd::{Watch, WatchError};
use mlua::{
    IntoLuaMulti, Lua, MultiValue, Result, Table, UserData, UserDataMethods, UserDataRef, Value,
};

use super::{Handle, ToTable, failure, requests};
use crate::http::WakerSet;
use lua_vm::{async_function, errno};

/// A watch, which one coroutine reads at a time.
pub(crate) struct Watcher {
    /// `None` while a coroutine reads, and after the end.
    watch: RefCell<Option<Watch>>,
    is_closed: Cell<bool>,
    closing: WakerSet,
}

struct WatcherHandle(Rc<Watcher>);

impl UserData for WatcherHandle {
    fn add_methods<M: UserDataMethods<Self>>(methods: &mut M) {
        methods.add_method("close", |_, WatcherHandle(watcher), ()| {
            watcher.close();
            Ok(())
        });
    }
}

/// What a read gives.
enum ReadResult {
    Events(WatchResponse),
    Failed(WatchError),
    TimedOut,
    Closed,
    Busy,
}

impl IntoLuaMulti for ReadResult {
    fn into_lua_multi(self, lua: &Lua) -> Result<MultiValue> {
        let fail = |why: &str| (Value::Nil, why).into_lua_multi(lua);
        match self {
            ReadResult::Events(response) => response.to_table(lua)?.into_lua_multi(lua),
            ReadResult::Failed(WatchError::Refused(error)) => failure(lua, &error),
            ReadResult::Failed(WatchError::Compacted(revision)) => {
                let why = "etcdserver: mvcc: required revision has been compacted";
                (Value::Nil, why, "out_of_range", revision).into_lua_multi(lua)
            }
            ReadResult::TimedOut => fail(&errno::of_number(libc::ETIMEDOUT)),
            ReadResult::Closed => fail(errno::CLOSED),
            ReadResult::Busy => fail("etcd: another coroutine reads this watch"),
        }
    }
}

/// What `watch` gives.
enum WatchResult {
    Created(WatcherHandle),
    Failed(ReadResult),
}

impl IntoLuaMulti for WatchResult {
    fn into_lua_multi(self, lua: &Lua) -> Result<MultiValue> {
        match self {
            WatchResult::Created(watcher) => watcher.into_lua_multi(lua),
            WatchResult::Failed(why) => why.into_lua_multi(lua),
        }
    }
}

impl Watcher {
    pub(super) fn close(&self) {
        self.is_closed.set(true);
        self.watch.take();
        self.closing.wake_all();
    }

    /// Waits for `work` with the watch, unless the watcher is closed first.
    async fn use_watch<T>(
        &self,
        ms: Option<u64>,
        work: impl AsyncFnOnce(&mut Watch) -> std::result::Result<T, WatchError>,
    ) -> std::result::Result<T, ReadResult> {
        if self.is_closed.get() {
            return Err(ReadResult::Closed);
        }
        let Some(mut watch) = self.watch.take() else { return Err(ReadResult::Busy) };
        let result = {
            let mut work = pin!(work(&mut watch));
            let closed = poll_fn(|cx| {
                if self.is_closed.get() {
                    return Poll::Ready(Err(ReadResult::Closed));
                }
                self.closing.wait(cx);
                work.as_mut().poll(cx).map_err(ReadResult::Failed)
            });
            let span = Duration::from_millis(ms.unwrap_or(u64::from(u32::MAX)));
            net::timer::within(span, closed).await.unwrap_or(Err(ReadResult::TimedOut))
        };
        match &result {
            Err(ReadResult::Failed(_)) => self.close(),
            _ if !self.is_closed.get() => *self.watch.borrow_mut() = Some(watch),
            _ => {}
        }
        result
    }
}

/// Adds `watch(client, request)` and `read(watcher[, ms])`.
pub(super) fn add(lua: &Lua, raw: &Table) -> Result<()> {
    let watch = |_: &Lua, (client, table): (UserDataRef<Handle>, Table)| {
        let (client, request) = (client.0.clone(), requests::watch("watch", &table)?);
        Ok(async move {
            if client.is_closed.get() {
                return Ok(WatchResult::Failed(ReadResult::Closed));
            }
            let watcher = Rc::new(Watcher {
                watch: RefCell::new(Some(Watch::new(client.etcd.clone(), request))),
                is_closed: Cell::new(false),
                closing: WakerSet::default(),
            });
            client.add_watcher(&watcher);
            let timeout = client.etcd.settings().timeout.as_millis();
            let timeout = Some(u64::try_from(timeout).unwrap_or(u64::MAX));
            let created = watcher.use_watch(timeout, async |watch| watch.created().await).await;
            Ok(match created {
                Ok(()) => WatchResult::Created(WatcherHandle(watcher)),
                Err(why) => WatchResult::Failed(why),
            })
        })
    };
    raw.set("watch", async_function::create(lua, watch)?)?;
    let read = |_: &Lua, (watcher, ms): (UserDataRef<WatcherHandle>, Option<u64>)| {
        let watcher = watcher.0.clone();
        Ok(async move {
            let result = watcher.use_watch(ms, async |watch| watch.next().await).await;
            Ok(result.map_or_else(|failed| failed, ReadResult::Events))
        })
    };
    raw.set("read", async_function::create(lua, read)?)
}
