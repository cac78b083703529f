//! Listeners of a VM: each accepted connection begins a coroutine, with TLS after the handshake.
//!
//! Promises that a listener lives until it is closed, even if its object is collected, that an
//! accept error never ends it, that it pauses when the process has no free descriptors, and that
//! handshakes are bounded in number and time.

use std::cell::{Cell, RefCell};
use std::ffi::c_int;
use std::io;
use std::rc::Rc;
use std::time::Duration;

use mlua::ffi;
use net::tls::ServerTls;
use net::{Accepted, Interest, Key, Listener, Peer, Stream};
use telemetry::event_limited;
use telemetry::log::Level;

use super::{StreamSource, Streams};
use crate::ids::StreamHandle;
use crate::limits::{EXHAUSTED_MS, TLS_HANDSHAKES};
use crate::native::tcp::push_connection;
use crate::stack;
use crate::timers::TimerAction;
use crate::vm::{Turn, Vm};

pub(super) struct ListenerEntry {
    key: Key,
    generation: u32,
    /// The registry reference of the accept function.
    accept: c_int,
    /// `None` in the clear.
    tls: Option<Rc<TlsListener>>,
}

/// The TLS of a listener.
pub struct TlsListener {
    server: RefCell<ServerTls>,
    timeout: Duration,
    handshakes: Cell<usize>,
}

impl TlsListener {
    /// `timeout` is that of a handshake.
    pub fn new(server: ServerTls, timeout: Duration) -> TlsListener {
        TlsListener { server: RefCell::new(server), timeout, handshakes: Cell::new(0) }
    }

    /// Replaces the settings; connections keep those of their handshake.
    pub fn replace(&self, server: ServerTls) {
        *self.server.borrow_mut() = server;
    }

    async fn handshake(&self, stream: Stream) -> Option<Stream> {
        let server = self.server.borrow().clone();
        net::timer::within(self.timeout, stream.accept_tls(&server)).await?.ok()
    }
}

/// The address of a peer as scripts see it.
pub fn address(peer: &Peer) -> String {
    match peer {
        Peer::Tcp(address) => {
            std::net::SocketAddr::new(address.ip().to_canonical(), address.port()).to_string()
        }
        Peer::Unix => "unix:".to_owned(),
    }
}

impl Streams {
    /// Adds a listener; `accept` is the registry reference of its accept function.
    pub(crate) fn listen(
        &self,
        listener: Listener,
        accept: c_int,
        tls: Option<Rc<TlsListener>>,
    ) -> StreamHandle {
        let mut inner = self.inner.borrow_mut();
        inner.generation = inner.generation.wrapping_add(1);
        let generation = inner.generation;
        let index = inner.listeners.vacant_key() as u32;
        let key = inner.driver.listen(listener, StreamSource::Listener(index));
        inner.listeners.insert(ListenerEntry { key, generation, accept, tls });
        StreamHandle { index, generation }
    }

    /// Closes a listener; false if it was closed.
    pub(crate) fn close_listener(&self, vm: &Vm, handle: StreamHandle) -> bool {
        let mut inner = self.inner.borrow_mut();
        let known = inner.listeners.get(handle.index as usize);
        if known.is_none_or(|listening| listening.generation != handle.generation) {
            return false;
        }
        let listening = inner.listeners.remove(handle.index as usize);
        inner.driver.remove(listening.key);
        drop(inner);
        // SAFETY: the reference was made for this listener and is released once.
        unsafe { ffi::luaL_unref(vm.main(), ffi::LUA_REGISTRYINDEX, listening.accept) };
        true
    }

    pub(super) fn close_listeners(&self, vm: &Vm) {
        let handle = |(index, listening): (usize, &ListenerEntry)| StreamHandle {
            index: index as u32,
            generation: listening.generation,
        };
        let all: Vec<StreamHandle> = self.inner.borrow().listeners.iter().map(handle).collect();
        for listener in all {
            self.close_listener(vm, listener);
        }
    }

    /// Resumes a paused listener.
    pub(crate) fn accept_again(&self, handle: StreamHandle) {
        let inner = &mut *self.inner.borrow_mut();
        if let Some(listening) = inner.listeners.get(handle.index as usize)
            && listening.generation == handle.generation
        {
            inner.driver.set_interest(listening.key, Interest::READ);
        }
    }

    pub(super) fn accepted(&self, turn: &Turn<'_>, key: Key, accepted: io::Result<Accepted>) {
        let mut inner = self.inner.borrow_mut();
        let Some(StreamSource::Listener(index)) = inner.driver.data(key).copied() else { return };
        let ListenerEntry { generation, accept, tls, .. } = &inner.listeners[index as usize];
        let (generation, accept, tls) = (*generation, *accept, tls.clone());
        match accepted {
            Err(error) if net::is_exhausted(&error) => {
                event_limited!(
                    1,
                    Level::Warn,
                    "out of file descriptors, accepting no connections until some are closed; \
                     raise LimitNOFILE or `ulimit -Hn`",
                    event = "descriptors_exhausted",
                    limit = net::descriptor_limit()
                );
                inner.driver.set_interest(key, Interest::NONE);
                turn.timers
                    .set(EXHAUSTED_MS, TimerAction::Accept(StreamHandle { index, generation }));
            }
            // This error concerns one connection only.
            Err(_) => {}
            Ok(Accepted { stream, peer }) => {
                drop(inner);
                match tls {
                    None => self.begin(turn, accept, self.insert(stream), &peer),
                    Some(tls) => {
                        secure(turn, StreamHandle { index, generation }, tls, stream, peer);
                    }
                }
            }
        }
    }

    /// Begins a connection whose handshake is complete, unless its listener is closed.
    fn begin_secure(&self, turn: &Turn<'_>, of: StreamHandle, stream: Stream, peer: &Peer) {
        let inner = self.inner.borrow();
        let entry = inner.listeners.get(of.index as usize);
        let Some(entry) = entry.filter(|entry| entry.generation == of.generation) else { return };
        let accept = entry.accept;
        drop(inner);
        self.begin(turn, accept, self.insert(stream), peer);
    }

    /// Calls `accept(connection, address)` in a new coroutine.
    fn begin(&self, turn: &Turn<'_>, accept: c_int, connection: StreamHandle, peer: &Peer) {
        let address = address(peer);
        let index = turn.new_task();
        let thread = turn.tasks(|tasks| tasks.get(index).thread);
        // SAFETY: the thread is empty and has room for a call's worth of values.
        unsafe {
            ffi::lua_rawgeti(thread, ffi::LUA_REGISTRYINDEX, i64::from(accept));
            stack::push(thread, address.as_bytes());
            push_connection(thread, connection);
            ffi::lua_insert(thread, -2);
        }
        drop(address);
        turn.run(index, 2);
    }
}

/// Performs the handshake with a client in a task of its own.
fn secure(turn: &Turn<'_>, of: StreamHandle, tls: Rc<TlsListener>, stream: Stream, peer: Peer) {
    if tls.handshakes.get() >= TLS_HANDSHAKES {
        event_limited!(
            1,
            Level::Warn,
            "too many TLS handshakes in progress, closing further connections of the listener",
            event = "tls_handshakes_limit",
            limit = TLS_HANDSHAKES
        );
        return;
    }
    tls.handshakes.set(tls.handshakes.get() + 1);
    let vm = turn.weak();
    net::task::spawn_local(async move {
        let stream = tls.handshake(stream).await;
        tls.handshakes.set(tls.handshakes.get() - 1);
        if let (Some(stream), Some(vm)) = (stream, vm.upgrade()) {
            vm.turn(|turn| turn.streams.begin_secure(turn, of, stream, &peer));
        }
    });
}
