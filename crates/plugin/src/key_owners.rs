//! Servers of an upstream that own keys: a request is sent to the owner of a key, if that is
//! another server than this one.
//!
//! `upstream` implements it, and `cache` uses it, so that neither depends on the other.

use std::time::Duration;

use message::{HandlerResult, LocalFuture, Request};

/// The servers of an upstream, each of which owns a part of all keys.
pub trait KeyOwners {
    /// The server that owns a key, by rendezvous hashing over the servers in rotation: all servers
    /// of a fleet that see the same ones find the same. `None` if it is this server, or takes no
    /// further request.
    fn owner(&self, key: &[u8]) -> Option<Box<dyn KeyOwner>>;
}

/// The server that owns a key.
pub trait KeyOwner {
    /// Sends it a request, once, and waits for the head of the response for at most `within`.
    fn send<'a>(
        &'a self,
        request: &'a mut Request,
        within: Duration,
    ) -> LocalFuture<'a, HandlerResult>;

    /// Notes that it turned out to be this server: from now on its keys have no other owner.
    fn set_own(&self);
}
