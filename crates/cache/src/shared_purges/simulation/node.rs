//! A server of the simulation.

use std::collections::HashMap;

use super::KEYS;
use crate::shared_purges::{Follower, LogPosition, LogProgress};

/// A server, with its cache of versions by key.
pub(super) struct Node {
    /// Counts starts: messages to an earlier one are lost.
    pub(super) life: u64,
    pub(super) is_up: bool,
    /// Paused until then; 0 if not.
    pub(super) paused_until: u64,
    pub(super) is_cut_off: bool,
    /// The rate of its clock, in thousandths.
    pub(super) rate: u64,
    pub(super) follower: Follower,
    pub(super) progress: LogProgress,
    /// Counts polls: the reply to an earlier one is not used.
    pub(super) poll: u64,
    pub(super) cache: HashMap<u64, u64>,
    /// Counts purges of a key: a response that was fetched before one is not stored.
    pub(super) epochs: HashMap<u64, u64>,
    pub(super) disk_position: Option<LogPosition>,
}

impl Node {
    pub(super) fn clock(&self, now: u64) -> u64 {
        now * self.rate / 1000
    }

    pub(super) fn purge(&mut self, key: u64) {
        self.cache.remove(&key);
        *self.epochs.entry(key).or_default() += 1;
    }

    pub(super) fn clear(&mut self) {
        (0..KEYS).for_each(|key| self.purge(key));
    }
}
