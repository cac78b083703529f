//! The connections of HTTP/2 of one pool, which requests share.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use net::clock::{self, Moment};

use super::connection::Http2Connection;
use crate::upgrade::Upgrade;

#[derive(Default)]
pub(crate) struct SharedConnections {
    /// The oldest first: a connection is filled before the next is used, so that superfluous ones
    /// become idle.
    list: RefCell<Vec<Rc<Http2Connection>>>,
    /// Held while a connection is made, which the requests that wait for the lock then share.
    pub(crate) connecting: tokio::sync::Mutex<()>,
    /// The server has chosen HTTP/1.1 last: no request waits for another's connection.
    pub(crate) is_http1: Cell<bool>,
}

impl SharedConnections {
    pub(crate) fn add(&self, connection: Rc<Http2Connection>) {
        self.list.borrow_mut().push(connection);
    }

    /// A connection that takes one more request. Those that are over are given up: their last
    /// exchange ends them.
    pub(crate) fn find(&self, upgrade: Upgrade, max_requests: u32) -> Option<Rc<Http2Connection>> {
        let mut list = self.list.borrow_mut();
        if list.is_empty() {
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
