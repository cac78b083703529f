//! Wakes the requests that wait because every server of an upstream is at its `max_connections`.
//!
//! One signal per upstream, shared by its pools on all workers. An upstream without a
//! `max_connections` pays one load per request for it.

use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::Ordering::{Relaxed, SeqCst};
use std::sync::atomic::{AtomicBool, AtomicUsize, fence};

use plugin::Shared;
use tokio::sync::Notify;

/// Announces that a server of an upstream may take one more request.
#[derive(Debug, Default)]
pub struct RoomSignal {
    /// A server of the upstream has had a `max_connections`.
    is_enabled: AtomicBool,
    waiting: AtomicUsize,
    notify: Notify,
}

#[derive(PartialEq, Eq, Hash)]
struct UpstreamName(String);

impl RoomSignal {
    /// The signal of all workers for `upstream`.
    pub fn of(shared: &Shared, upstream: &str) -> Arc<RoomSignal> {
        shared.get(UpstreamName(upstream.to_owned()), RoomSignal::default)
    }

    /// Lets the pools announce each request that ends.
    pub(crate) fn enable(&self) {
        self.is_enabled.store(true, SeqCst);
    }

    /// Announces the end of a request, if a request may wait for it.
    pub(crate) fn request_ended(&self) {
        if self.is_enabled.load(Relaxed) {
            self.announce();
        }
    }

    /// Wakes every waiting request; each checks again.
    pub fn announce(&self) {
        // Pairs with the fence of the waiter: either it sees what is announced or this sees it.
        fence(SeqCst);
        if self.waiting.load(Relaxed) != 0 {
            self.notify.notify_waiters();
        }
    }

    /// Waits for the next announcement, unless `has_room` returns true.
    pub async fn announced_unless(&self, has_room: impl FnOnce() -> bool) {
        struct Waiting<'a>(&'a AtomicUsize);
        impl Drop for Waiting<'_> {
            fn drop(&mut self) {
                self.0.fetch_sub(1, Relaxed);
            }
        }
        self.waiting.fetch_add(1, Relaxed);
        let _waiting = Waiting(&self.waiting);
        let mut announced = pin!(self.notify.notified());
        announced.as_mut().enable();
        fence(SeqCst);
        if !has_room() {
            announced.await;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicI64;

    use net::worker::block_on_local;

    use super::*;

    /// Two workers hand one place to each other; a lost announcement would hang.
    #[test]
    fn no_announcement_is_lost_between_threads() {
        let signal = RoomSignal::default();
        signal.enable();
        let place = AtomicI64::new(0);
        let take_turns = |own: i64| {
            block_on_local(async {
                for _ in 0..10_000 {
                    while place.load(Relaxed) != own {
                        signal.announced_unless(|| place.load(Relaxed) == own).await;
                    }
                    place.store(1 - own, Relaxed);
                    signal.request_ended();
                }
            });
        };
        std::thread::scope(|scope| {
            scope.spawn(|| take_turns(0));
            take_turns(1);
        });
        assert_eq!(signal.waiting.load(Relaxed), 0);
    }
}
