//! Chooses the server for a request.
//!
//! Reads the view and this worker's measurements; never allocates, and examines two servers only
//! where the method allows it. Servers that were tried already, are full, or are in slow start and
//! not chosen yet are skipped.

use std::rc::Rc;

use http_client::PoolPermit;
use message::Request;
use plugin::variables;

use crate::ring;
use crate::settings::Balance;
use crate::view::{Peer, View};
use crate::worker_rng::WorkerRng;

/// The inputs of a choice.
pub(crate) struct Choice<'a> {
    pub(crate) view: &'a View,
    pub(crate) rng: &'a WorkerRng,
    /// Servers this request has been sent to before.
    pub(crate) tried: &'a [Rc<Peer>],
    pub(crate) now_us: u64,
}

/// A chosen server.
pub(crate) struct Chosen<'a> {
    pub(crate) peer: &'a Rc<Peer>,
    /// The request decides whether the server returns after an ejection.
    pub(crate) trial: Option<Trial<'a>>,
    pub(crate) permit: PoolPermit,
}

/// Releases a claimed trial when it is dropped.
pub(crate) struct Trial<'a>(pub(crate) &'a Peer);

impl Drop for Trial<'_> {
    fn drop(&mut self) {
        self.0.member.health.release_trial();
    }
}

impl<'a> Choice<'a> {
    /// A server for the request: one on trial, or one in rotation.
    pub(crate) fn server(&self, request: &Request) -> Option<Chosen<'a>> {
        loop {
            let on_trial = if self.view.trials.is_empty() { None } else { self.trial() };
            let trial = on_trial.map(|peer| Trial(peer));
            let peer = on_trial.or_else(|| self.pick(request))?;
            // Without one, another worker has filled the server since it was found open.
            if let Some(permit) = peer.permit() {
                return Some(Chosen { peer, trial, permit });
            }
        }
    }

    /// A server in rotation for the request.
    pub(crate) fn pick(&self, request: &Request) -> Option<&'a Rc<Peer>> {
        let usable = &self.view.usable;
        let at = match usable.as_slice() {
            [] => return None,
            [only] => *only,
            _ => match &self.view.settings.balance {
                Balance::P2c => return self.two_choices(),
                Balance::Random => return self.random(),
                Balance::RoundRobin => return self.round_robin(),
                Balance::LeastRequests => return self.least_requests(),
                Balance::Hash(key) => {
                    let key = ring::hash(&variables::key(key, request));
                    let ring = self.view.ring()?;
                    ring.find(key, |at| self.view.is_usable[at] && self.is_open(at))?
                }
            },
        };
        self.is_open(at).then(|| &self.view.peers[at])
    }

    /// A server whose ejection has ended and that is not on trial yet; this claims the trial.
    fn trial(&self) -> Option<&'a Rc<Peer>> {
        let open = self.view.trials.iter().copied().filter(|&at| self.is_open(at));
        open.map(|at| &self.view.peers[at]).find(|peer| peer.member.health.claim_trial())
    }

    fn is_open(&self, at: usize) -> bool {
        let peer = &self.view.peers[at];
        !self.tried.iter().any(|tried| tried.member.endpoint == peer.member.endpoint)
            && peer.has_room()
    }

    /// True if a server takes this request, judged by its slow start.
    fn is_warm(&self, at: usize) -> bool {
        let slow_start_ms = self.view.slow_start_ms;
        if slow_start_ms == 0 {
            return true;
        }
        let warmth = self.view.peers[at].warmth(slow_start_ms, self.now_us / 1000);
        warmth >= 1.0 || self.rng.fraction() < warmth
    }

    /// A server by weight, open or not.
    fn draw(&self) -> usize {
        let view = self.view;
        let place = match view.weight_sums.last() {
            None => self.rng.below(view.usable.len()),
            Some(sum) => {
                let ticket = self.rng.below(usize::try_from(*sum).unwrap_or(usize::MAX)) as u64;
                view.weight_sums.partition_point(|sum| *sum <= ticket)
            }
        };
        view.usable[place]
    }

    /// An open server, whatever its weight, if the draws found none.
    fn any_open(&self) -> Option<usize> {
        let usable = &self.view.usable;
        let from = self.rng.below(usable.len());
        let (before, after) = usable.split_at(from);
        after.iter().chain(before).copied().find(|&at| self.is_open(at))
    }

    fn random(&self) -> Option<&'a Rc<Peer>> {
        let drawn = (0..3).map(|_| self.draw()).find(|&at| self.is_open(at) && self.is_warm(at));
        drawn.or_else(|| self.any_open()).map(|at| &self.view.peers[at])
    }

    /// Power of two choices: nearly as good as the best server, without examining all of them, and
    /// workers that know only their own requests do not all choose the same one. A server that is
    /// never chosen gets an occasional request, so that its recovery is noticed ([`Stats::lost`]).
    ///
    /// [`Stats::lost`]: crate::view::Stats::lost
    fn two_choices(&self) -> Option<&'a Rc<Peer>> {
        let first = self.draw();
        let mut second = self.draw();
        if second == first && self.view.weight_sums.is_empty() {
            // A different one, so that two servers are compared: the next on the list.
            let usable = &self.view.usable;
            let place = usable.partition_point(|&at| at <= first);
            second = usable[place % usable.len()];
        }
        let takes = |at| self.is_open(at) && self.is_warm(at);
        let at = match (takes(first), takes(second)) {
            (true, true) => {
                let peer = |at: usize| &self.view.peers[at];
                let is_second = peer(second).is_better_than(peer(first), self.now_us);
                let (winner, loser) = if is_second { (second, first) } else { (first, second) };
                let is_due = loser != winner && peer(loser).stats.lost(self.now_us);
                if is_due { loser } else { winner }
            }
            (true, false) => first,
            (false, true) => second,
            (false, false) => self.any_open()?,
        };
        self.view.peers[at].stats.picked(self.now_us);
        Some(&self.view.peers[at])
    }

    /// Smooth weighted round robin: each server gains its weight; the highest is picked and loses
    /// the sum.
    fn round_robin(&self) -> Option<&'a Rc<Peer>> {
        let mut total = 0;
        let mut best: Option<&Rc<Peer>> = None;
        for &at in &self.view.usable {
            if !self.is_open(at) {
                continue;
            }
            let peer = &self.view.peers[at];
            let warmth = peer.warmth(self.view.slow_start_ms, self.now_us / 1000);
            let weight = ((f64::from(peer.member.weight) * warmth * 100.0) as i64).max(1);
            peer.stats.turn.set(peer.stats.turn.get() + weight);
            total += weight;
            if best.is_none_or(|best| peer.stats.turn.get() > best.stats.turn.get()) {
                best = Some(peer);
            }
        }
        let best = best?;
        best.stats.turn.set(best.stats.turn.get() - total);
        Some(best)
    }

    fn least_requests(&self) -> Option<&'a Rc<Peer>> {
        let usable = &self.view.usable;
        // Among equal servers the start rotates, so that it is not always the first.
        let (before, after) = usable.split_at(self.rng.below(usable.len()));
        let mut best: Option<(f64, &Rc<Peer>)> = None;
        for &at in after.iter().chain(before) {
            if !self.is_open(at) {
                continue;
            }
            let peer = &self.view.peers[at];
            let warmth = peer.warmth(self.view.slow_start_ms, self.now_us / 1000);
            let active = (peer.stats.pool.active_everywhere() + 1) as f64;
            let load = active / (f64::from(peer.member.weight) * warmth);
            if best.is_none_or(|(least, _)| load < least) {
                best = Some((load, peer));
            }
        }
        best.map(|(_, peer)| peer)
    }
}
