//! The connections of HTTP/2 of one pool, which requests share.

use std::cell::{Cell, RefCell};
use std::future::poll_fn;
use std::pin::pin;
use std::rc::Rc;
use std::task::Poll;

use net::clock::{self, Moment};
use tokio::sync::{Mutex, MutexGuard, Notify};

use super::connection::Http2Connection;
use super::http1_demand::Http1Demand;
use crate::upgrade::Upgrade;

#[derive(Default)]
pub(crate) struct SharedConnections {
    /// The oldest first: a connection is filled before the next is used, so that superfluous ones
    /// become idle.
    list: RefCell<Vec<Rc<Http2Connection>>>,
    /// Held while a connection is made, which the requests that wait for the lock then share.
    connecting: Mutex<()>,
    /// Requests that wait for a stream, the oldest first. All later ones wait behind them: a server
    /// under load has a free stream for a new request at any moment, and none for the others.
    waiting: Cell<usize>,
    room: Notify,
    /// The server has chosen HTTP/1.1 last: no request waits for another's connection.
    pub(crate) is_http1: Cell<bool>,
    pub(crate) http1_demand: Rc<Http1Demand>,
}

/// A request that waits, as long as it does.
struct Waiting<'a>(&'a Cell<usize>);

impl Waiting<'_> {
    fn of(count: &Cell<usize>) -> Waiting<'_> {
        count.set(count.get() + 1);
        Waiting(count)
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.set(self.0.get() - 1);
    }
}

impl SharedConnections {
    pub(crate) fn add(&self, connection: Rc<Http2Connection>) {
        self.list.borrow_mut().push(connection);
    }

    /// Waits for a connection that takes one more request, in order of arrival; or for the right to
    /// make the next one.
    pub(crate) async fn wait(
        &self,
        upgrade: Upgrade,
        max_requests: u32,
    ) -> Result<Rc<Http2Connection>, MutexGuard<'_, ()>> {
        // A connection with room may have no tunnels: a tunnel waits for its turn alone.
        let is_tunnel = upgrade != Upgrade::None;
        let _waiting = (!is_tunnel).then(|| Waiting::of(&self.waiting));
        let mut connecting = pin!(self.connecting.lock());
        let mut room = pin!(self.room.notified());
        poll_fn(|cx| {
            if let Poll::Ready(turn) = connecting.as_mut().poll(cx) {
                return Poll::Ready(self.find(upgrade, max_requests).ok_or(turn));
            }
            while !is_tunnel && room.as_mut().poll(cx).is_ready() {
                if let Some(connection) = self.find(upgrade, max_requests) {
                    return Poll::Ready(Ok(connection));
                }
                room.set(self.room.notified());
            }
            Poll::Pending
        })
        .await
    }

    /// True if requests wait, before which a new one has no right to a stream.
    pub(crate) fn is_awaited(&self) -> bool {
        self.waiting.get() > 0
    }

    /// Passes the room of a request that has ended to the one that waits longest.
    pub(crate) fn request_ended(&self) {
        if self.is_awaited() {
            self.room.notify_one();
        }
    }

    /// A connection that takes one more request. Those that are over are given up: their last
    /// exchange ends them.
    pub(crate) fn find(&self, upgrade: Upgrade, max_requests: u32) -> Option<Rc<Http2Connection>> {
        let mut list = self.list.borrow_mut();
        if list.is_empty() || self.http1_demand.holds() {
            return None;
        }
        let now = clock::now();
        list.retain(|connection| {
            let is_over = connection.is_over(now, max_requests);
            if is_over {
                connection.close_when_unused();
            }
            !is_over
        });
        let suits = |connection: &&Rc<Http2Connection>| {
            let has_tunnels = connection.has_extended_connect();
            connection.has_room() && (upgrade != Upgrade::WebSocket || has_tunnels == Some(true))
        };
        list.iter().find(suits).cloned()
    }

    /// True if the server has shown that it has no extended CONNECT.
    pub(crate) fn lacks_extended_connect(&self) -> bool {
        let list = self.list.borrow();
        list.iter().any(|connection| connection.has_extended_connect() == Some(false))
    }

    /// Since when the connection that has been idle longest is idle.
    pub(crate) fn idle_since(&self) -> Option<Moment> {
        let list = self.list.borrow();
        list.iter().filter_map(|connection| connection.idle_since()).min()
    }

    /// Closes that connection at once, so that its descriptor is free.
    pub(crate) fn close_longest_idle(&self) {
        let mut list = self.list.borrow_mut();
        let idle = |at: &usize| Some((list[*at].idle_since()?, *at));
        if let Some((_, at)) = (0..list.len()).filter_map(|at| idle(&at)).min() {
            list.remove(at).close();
        }
    }
}

impl Drop for SharedConnections {
    /// The upstream, or this server of it, is gone from the configuration.
    fn drop(&mut self) {
        self.list.get_mut().iter().for_each(|connection| connection.close_when_unused());
    }
}
