//! The server of an upstream that owns a key, and a request to it.
//!
//! Rendezvous hashing: of all servers in rotation the one whose hash with the key is the largest.
//! Servers that see the same members find the same owner without having talked to each other, and a
//! member that comes or goes moves only its own keys. This server counts as in rotation.

use std::rc::Rc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use http_client::PoolPermit;
use message::{Body, Fault, FaultKind, HandlerResult, LocalFuture, Request};
use net::clock;
use plugin::{KeyOwner, KeyOwners};

use crate::balance::Trial;
use crate::handler::{UpstreamHandler, attempt, record_result};
use crate::local::LocalCluster;
use crate::replay::Replay;
use crate::ring;
use crate::view::{Peer, View};

/// The candidate that owns a key, by its index; candidates are the hashes of their names.
fn rendezvous(key: u64, candidates: impl Iterator<Item = (usize, u64)>) -> Option<usize> {
    let score = |(at, name): (usize, u64)| (ring::mix(key ^ name), at);
    candidates.map(score).max().map(|(_, at)| at)
}

impl KeyOwners for UpstreamHandler {
    fn owner(&self, key: &[u8]) -> Option<Box<dyn KeyOwner>> {
        let local = self.local.as_ref()?;
        let view = local.view(clock::now().as_ms());
        let (peer, is_trial, permit) = owner_of(&view, ring::hash(key))?;
        Some(Box::new(Owner { local: local.clone(), view, peer, is_trial, permit }))
    }
}

/// The owner of a key, whether the request is the trial of an ejected server, and its permit.
fn owner_of(view: &View, key: u64) -> Option<(Rc<Peer>, bool, PoolPermit)> {
    let owner = |with_trials: bool| {
        let is_candidate = |at: &usize| {
            let is_own = view.peers[*at].member.health.is_own.load(Ordering::Relaxed);
            is_own || view.is_usable[*at] || with_trials && view.trials.contains(at)
        };
        let all = (0..view.peers.len()).filter(is_candidate);
        let peer = &view.peers[rendezvous(key, all.map(|at| (at, view.peers[at].member.place)))?];
        Some(peer)
    };
    let found = owner(!view.trials.is_empty())?;
    let is_trial =
        |peer: &Rc<Peer>| view.trials.iter().any(|&at| Rc::ptr_eq(&view.peers[at], peer));
    let is_own = |peer: &Rc<Peer>| peer.member.health.is_own.load(Ordering::Relaxed);
    let (peer, on_trial) = match is_trial(found) && !is_own(found) {
        true if found.member.health.claim_trial() => (found, true),
        true => (owner(false)?, false),
        false => (found, false),
    };
    let permit = if is_own(peer) { None } else { peer.permit() };
    if on_trial && permit.is_none() {
        peer.member.health.release_trial();
    }
    Some((peer.clone(), on_trial, permit?))
}

struct Owner {
    local: Rc<LocalCluster>,
    view: Rc<View>,
    peer: Rc<Peer>,
    /// It was ejected, and this request decides whether it returns.
    is_trial: bool,
    permit: PoolPermit,
}

impl Owner {
    async fn send_within(&self, request: &mut Request, within: Duration) -> HandlerResult {
        let (view, peer) = (&*self.view, &*self.peer);
        request.notes.upstream = Some(peer.name.clone());
        request.notes.upstream_attempts += 1;
        let began_us = clock::now_us();
        let mut body = Replay::new(Body::Empty, false);
        let attempting = attempt(view, peer, request, &mut body, &self.permit);
        let sent = net::timer::within(within, attempting).await;
        // Too late counts as a failure, so that a server that hangs is not waited for each time.
        let mut outcome = sent.unwrap_or_else(|| {
            Err(Fault::new(FaultKind::ResponseTimeout, "the owner of the key took too long"))
        });
        record_result(&self.local, view, peer, self.is_trial, began_us, request, &mut outcome);
        outcome
    }
}

impl KeyOwner for Owner {
    fn send<'a>(
        &'a self,
        request: &'a mut Request,
        within: Duration,
    ) -> LocalFuture<'a, HandlerResult> {
        Box::pin(self.send_within(request, within))
    }

    fn set_own(&self) {
        self.peer.member.health.is_own.store(true, Ordering::Relaxed);
    }
}

impl Drop for Owner {
    fn drop(&mut self) {
        if self.is_trial {
            drop(Trial(&self.peer));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::rendezvous;
    use crate::ring::hash;

    const KEYS: usize = 20_000;

    fn owners(names: &[&str]) -> Vec<String> {
        let owner = |key: usize| {
            let candidates = names.iter().map(|name| hash(name.as_bytes())).enumerate();
            let at = rendezvous(hash(format!("http://a/{key}").as_bytes()), candidates);
            names[at.unwrap()].to_owned()
        };
        (0..KEYS).map(owner).collect()
    }

    fn share(owners: &[String], name: &str) -> f64 {
        owners.iter().filter(|owner| *owner == name).count() as f64 / KEYS as f64
    }

    #[test]
    fn every_server_owns_the_same_share() {
        let names = ["10.0.0.1:80", "10.0.0.2:80", "10.0.0.3:80", "10.0.0.4:80"];
        let owners = owners(&names);
        for name in names {
            let share = share(&owners, name);
            assert!((share - 0.25).abs() < 0.02, "{name} owns {share}");
        }
    }

    #[test]
    fn a_server_that_leaves_moves_only_its_own_keys() {
        let before = owners(&["a:1", "b:1", "c:1", "d:1"]);
        // In another order: each server lists the others as it likes.
        let after = owners(&["d:1", "b:1", "a:1"]);
        for (before, after) in before.iter().zip(&after) {
            assert!(before == after || before == "c:1", "a key of {before} moved to {after}");
        }
        for name in ["a:1", "b:1", "d:1"] {
            let share = share(&after, name);
            assert!((share - 1.0 / 3.0).abs() < 0.02, "{name} owns {share}");
        }
    }

    #[test]
    fn without_a_server_a_key_has_no_owner() {
        assert_eq!(rendezvous(1, std::iter::empty()), None);
    }
}
