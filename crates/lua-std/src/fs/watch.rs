//! Events of a directory, by inotify.
//!
//! Promises that no event is lost silently: when the kernel drops events, an event reports that.
//! Only the directory itself is watched, not its subdirectories.

use std::cell::RefCell;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::rc::Rc;
use std::time::Duration;

use inotify::{EventMask, Inotify, WatchMask};
use mlua::{AnyUserData, IntoLua, Lua, Result, Table, UserData, Value};
use tokio::io::unix::AsyncFd;
use tokio::sync::Notify;

use super::{Bytes, FsResult, PathArgument, text};
use crate::limits::WATCH_READ_BYTES;
use lua_vm::async_function;

/// The inotify instance and its readiness.
struct EventSource {
    inotify: Inotify,
    readable: AsyncFd<OwnedFd>,
}

/// `None` while a coroutine reads, and once it is closed.
struct Watch(Rc<RefCell<WatchState>>);

#[derive(Default)]
struct WatchState {
    source: Option<EventSource>,
    closed: bool,
    /// Notified when it is closed while a coroutine reads.
    closing: Rc<Notify>,
}

impl UserData for Watch {}

type WatchEvent = (&'static str, Option<Bytes>);

struct WatchEvents(Vec<WatchEvent>);

impl IntoLua for WatchEvents {
    fn into_lua(self, lua: &Lua) -> Result<Value> {
        let list = lua.create_table_with_capacity(self.0.len(), 0)?;
        for (kind, name) in self.0 {
            let event = lua.create_table_with_capacity(0, 2)?;
            event.set("kind", kind)?;
            event.set("name", name)?;
            list.push(event)?;
        }
        Ok(Value::Table(list))
    }
}

pub(super) fn open(lua: &Lua, raw: &Table) -> Result<()> {
    let watch = |lua: &Lua, PathArgument(path): PathArgument| {
        let made = begin(&path).map(|source| Watch(Rc::new(RefCell::new(source))));
        match made {
            Ok(watch) => Ok((Some(lua.create_userdata(watch)?), None)),
            Err(error) => Ok((None, Some(lua_vm::errno::of_error(&error)))),
        }
    };
    raw.set("watch", lua.create_function(watch)?)?;
    let read = async_function::create(lua, |_, (watch, ms): (AnyUserData, Option<u64>)| {
        let inner = watch.borrow::<Watch>()?.0.clone();
        let source = inner.borrow_mut().source.take();
        let closing = inner.borrow().closing.clone();
        if source.is_none() && !inner.borrow().closed {
            return Err(mlua::Error::runtime("another task reads from this watch"));
        }
        Ok(async move {
            let Some(mut source) = source else {
                return Ok(FsResult(Err(io::Error::other(lua_vm::errno::CLOSED))));
            };
            let found = async {
                tokio::select! {
                    biased;
                    () = closing.notified() => Err(io::Error::other(lua_vm::errno::CLOSED)),
                    found = next(&mut source) => found,
                }
            };
            let found = match ms {
                None => found.await,
                Some(ms) => {
                    let found = net::timer::within(Duration::from_millis(ms), found);
                    found.await.unwrap_or_else(|| Err(io::ErrorKind::TimedOut.into()))
                }
            };
            let mut inner = inner.borrow_mut();
            if !inner.closed {
                inner.source = Some(source);
            }
            Ok(FsResult(found))
        })
    })?;
    raw.set("watch_read", read)?;
    let close = |_: &Lua, watch: AnyUserData| {
        let watch = watch.borrow::<Watch>()?;
        let mut inner = watch.0.borrow_mut();
        (inner.source, inner.closed) = (None, true);
        inner.closing.notify_one();
        Ok(())
    };
    raw.set("watch_close", lua.create_function(close)?)
}

/// Opens a watch of a directory, which does not block.
fn begin(path: &std::path::Path) -> io::Result<WatchState> {
    let inotify = Inotify::init()?;
    let mask = WatchMask::CREATE
        | WatchMask::CLOSE_WRITE
        | WatchMask::MODIFY
        | WatchMask::DELETE
        | WatchMask::MOVE
        | WatchMask::DELETE_SELF
        | WatchMask::MOVE_SELF
        | WatchMask::ONLYDIR;
    inotify.watches().add(path, mask)?;
    let readable = async_function::register(inotify.as_fd().try_clone_to_owned()?)?;
    Ok(WatchState { source: Some(EventSource { inotify, readable }), ..WatchState::default() })
}

async fn next(source: &mut EventSource) -> io::Result<WatchEvents> {
    let mut buffer = [0; WATCH_READ_BYTES];
    loop {
        let mut ready = source.readable.readable().await?;
        let read = ready.try_io(|_| {
            let events = source.inotify.read_events(&mut buffer)?;
            Ok(events.filter_map(|event| described(event.mask, event.name)).collect::<Vec<_>>())
        });
        match read {
            Ok(Ok(events)) if events.is_empty() => {}
            Ok(found) => return found.map(WatchEvents),
            Err(_would_block) => {}
        }
    }
}

fn described(mask: EventMask, name: Option<&std::ffi::OsStr>) -> Option<WatchEvent> {
    let kinds = [
        (EventMask::Q_OVERFLOW, "lost"),
        (EventMask::CREATE, "create"),
        (EventMask::MOVED_TO, "create"),
        (EventMask::DELETE, "remove"),
        (EventMask::MOVED_FROM, "remove"),
        (EventMask::CLOSE_WRITE, "written"),
        (EventMask::MODIFY, "modify"),
        (EventMask::DELETE_SELF, "gone"),
        (EventMask::MOVE_SELF, "gone"),
    ];
    let (_, kind) = kinds.into_iter().find(|(flag, _)| mask.contains(*flag))?;
    Some((kind, name.map(text)))
}
