//! A rate limit that several servers share: the decision on this server, and its settlement.
//!
//! A cell has this server's view of the debt that all servers have made. Between two settlements a
//! request costs here as much as all servers together are expected to use in the same time: its
//! cost divided by this server's share of the recent use. A settlement replaces the view by the
//! debt in Redis and computes the share again.

#[cfg(test)]
mod simulation;
#[cfg(test)]
mod tests;

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use message::LocalFuture;
use plugin::Keyed;
use plugin::keyed::{Batch, Exchanged, Remote};
use sha2::{Digest as _, Sha256};

use super::{Gcra, RateDecision};
use crate::keyed_state;
use crate::shared_limits::{
    BatchSender, ONE, RateReport, RateTotals, Settled, SettledKeys, Sharing,
};

/// A debt in Redis exceeds the burst by at most this.
const EXCESS_US: u64 = 1_000_000;
/// A use that was made longer ago is settled as if it were made then.
const LATE_US_MAX: u64 = 3_600_000_000;
/// The part of the limit that is shared equally, whatever each server has used: the others can
/// grow, and of equal servers none takes all.
const EQUAL: f64 = 1.0 / 8.0;
/// No total was received yet.
const UNKNOWN: u64 = u64::MAX;

/// The cells of one limit.
pub(crate) struct SharedRates {
    /// What the keys in Redis have in common with those of other servers.
    name: String,
    identity: String,
    cells: Keyed<SharedCell>,
    sharing: Arc<Sharing>,
}

impl SharedRates {
    pub(crate) fn new(
        name: String,
        identity: &str,
        cells: Keyed<SharedCell>,
        sharing: Arc<Sharing>,
    ) -> SharedRates {
        SharedRates { name, identity: identity.to_owned(), cells, sharing }
    }

    /// Takes the cost of a request from the cell of a key.
    #[inline]
    pub(crate) fn take(&self, key: &[u8], bucket: Gcra, cost: u32, now_us: u64) -> RateDecision {
        let (make, boost) = (|| self.new_cell(), self.sharing.boost());
        keyed_state::with_made(&self.cells, key, make, |cell| {
            cell.take(bucket, cost, now_us, boost)
        })
    }

    /// Returns what [`SharedRates::take`] has just taken.
    pub(crate) fn give_back(&self, key: &[u8], bucket: Gcra, cost: u32) {
        let (make, boost) = (|| self.new_cell(), self.sharing.boost());
        keyed_state::with_made(&self.cells, key, make, |cell| cell.give_back(bucket, cost, boost));
    }

    /// A cell that knows nothing yet: its share is that of an equal server.
    fn new_cell(&self) -> SharedCell {
        SharedCell::new(self.sharing.servers())
    }

    /// The key in Redis: without the text of the key, which may be a secret.
    fn redis_key(&self, prefix: &str, key: &[u8]) -> Vec<u8> {
        let mut digest = Sha256::new();
        digest.update((self.identity.len() as u64).to_le_bytes());
        digest.update(&self.identity);
        digest.update(key);
        let mut redis_key = format!("{prefix}:rate:{}:", self.name).into_bytes();
        for byte in &digest.finalize()[..16] {
            let digit = |half: u8| b"0123456789abcdef"[usize::from(half & 15)];
            redis_key.extend([digit(byte >> 4), digit(*byte)]);
        }
        redis_key
    }
}

impl Settled for SharedRates {
    fn settle<'a>(&'a self, sender: &'a BatchSender) -> LocalFuture<'a, SettledKeys> {
        Box::pin(async move {
            let remote = RateRemote { rates: self, sender };
            self.cells.synchronise(&remote, || self.new_cell()).await
        })
    }
}

/// Redis, for the cells of one limit.
struct RateRemote<'a> {
    rates: &'a SharedRates,
    sender: &'a BatchSender,
}

impl Remote<SharedCell> for RateRemote<'_> {
    type News = RateNews;

    fn news(&self, cell: &SharedCell) -> RateNews {
        cell.news(net::clock::precise_us())
    }

    async fn exchange(&self, batch: Batch<RateNews>) -> io::Result<Exchanged<RateNews>> {
        let mut exchanged = Exchanged { known: Batch::new(), failed: Vec::new() };
        if batch.is_empty() {
            return Ok(exchanged);
        }
        let prefix = self.sender.prefix();
        let reports =
            batch.iter().map(|(key, news)| (self.rates.redis_key(prefix, key), news.report));
        let replies = self.sender.rates(reports).await?;
        for ((key, news), totals) in batch.into_iter().zip(replies) {
            match totals {
                Some(_) => exchanged.known.push((key, RateNews { totals, ..news })),
                None => exchanged.failed.push(key),
            }
        }
        Ok(exchanged)
    }

    fn merge(&self, cell: &SharedCell, news: RateNews) {
        cell.settle(news, &self.rates.sharing);
    }
}

/// One key on this server.
#[derive(Debug)]
pub(crate) struct SharedCell {
    /// When the debt of all servers is paid back, in nanoseconds on this server's clock.
    paid_at: AtomicU64,
    /// What this server has used, in nanoseconds of debt.
    used: AtomicU64,
    /// The part of it that Redis has counted.
    settled: AtomicU64,
    /// When the first use was made that is not settled.
    since_us: AtomicU64,
    /// The burst of the last bucket.
    burst_ns: AtomicU64,
    /// How many times its cost a request counts here, in units of [`ONE`].
    scale: AtomicU32,
    /// What all servers had used at the last settlement, in microseconds of debt.
    total_us: AtomicU64,
}

/// What is sent about a cell, and what is replied.
#[derive(Clone, Copy, Debug)]
pub(super) struct RateNews {
    at_us: u64,
    used: u64,
    pub(super) report: RateReport,
    pub(super) totals: Option<RateTotals>,
}

impl SharedCell {
    pub(super) fn new(servers: u32) -> SharedCell {
        SharedCell {
            paid_at: AtomicU64::new(0),
            used: AtomicU64::new(0),
            settled: AtomicU64::new(0),
            since_us: AtomicU64::new(0),
            burst_ns: AtomicU64::new(0),
            scale: AtomicU32::new(servers.max(1).saturating_mul(ONE)),
            total_us: AtomicU64::new(UNKNOWN),
        }
    }

    #[inline]
    pub(super) fn take(&self, bucket: Gcra, cost: u32, now_us: u64, boost: u32) -> RateDecision {
        let cost_ns = bucket.cost_ns(cost);
        let charge_ns = self.charge_ns(bucket, cost_ns, boost);
        let decision = bucket.take_ns(&self.paid_at, charge_ns, now_us * 1000);
        if matches!(decision, RateDecision::Allowed(_)) {
            // Before the use: Redis cuts a debt to the burst that is reported with it.
            self.burst_ns.store(bucket.burst_ns(), Ordering::Relaxed);
            let before = self.used.fetch_add(cost_ns, Ordering::Release);
            if before == self.settled.load(Ordering::Relaxed) {
                self.since_us.store(now_us, Ordering::Relaxed);
            }
        }
        decision
    }

    pub(super) fn give_back(&self, bucket: Gcra, cost: u32, boost: u32) {
        let cost_ns = bucket.cost_ns(cost);
        let charge_ns = self.charge_ns(bucket, cost_ns, boost);
        let order = Ordering::Relaxed;
        self.paid_at.fetch_sub(charge_ns, order);
        // What was settled in between stays used. The closure decides whether it is.
        let settled = self.settled.load(order);
        let _ = self.used.fetch_update(order, order, |used| {
            used.checked_sub(cost_ns).filter(|used| *used >= settled)
        });
    }

    /// What a request costs here: more than the whole burst only if its own cost is.
    #[inline]
    fn charge_ns(&self, bucket: Gcra, cost_ns: u64, boost: u32) -> u64 {
        scaled(cost_ns, self.scale.load(Ordering::Relaxed), boost)
            .min(bucket.burst_ns())
            .max(cost_ns)
    }

    /// What this server has to report at a time.
    pub(super) fn news(&self, now_us: u64) -> RateNews {
        let settled = self.settled.load(Ordering::Relaxed);
        let used = self.used.load(Ordering::Acquire).max(settled);
        let late_us = now_us.saturating_sub(self.since_us.load(Ordering::Relaxed));
        let report = RateReport {
            // Rounded so that nothing is lost over many settlements.
            new_us: used / 1000 - settled / 1000,
            late_us: if used == settled { 0 } else { late_us.min(LATE_US_MAX) },
            most_us: self.burst_ns.load(Ordering::Relaxed) / 1000 + EXCESS_US,
        };
        RateNews { at_us: now_us, used, report, totals: None }
    }

    /// Takes over what Redis replied.
    pub(super) fn settle(&self, news: RateNews, sharing: &Sharing) {
        let Some(totals) = news.totals else { return };
        let order = Ordering::Relaxed;
        // Less was used if a request was given back, or if this is another cell, made after this
        // one was evicted.
        self.used.fetch_max(news.used, order);
        self.since_us.store(news.at_us, order);
        self.settled.store(news.used, order);
        self.share(news.report, totals, sharing.servers());
        let debt_ns = totals.debt_us.saturating_mul(1000);
        let known = (news.at_us * 1000).saturating_add_signed(debt_ns);
        // An error is impossible: the closure always returns a new value. It is called again if a
        // request has taken in between.
        let _ = self.paid_at.fetch_update(order, order, |_| {
            let since_ns = self.used.load(order) - news.used;
            let scale = self.scale.load(order);
            Some(known.saturating_add(scaled(since_ns, scale, sharing.boost())))
        });
    }

    /// Computes this server's share of the use of all.
    fn share(&self, report: RateReport, totals: RateTotals, servers: u32) {
        let before = self.total_us.swap(totals.total_us, Ordering::Relaxed);
        let recent = match before {
            // Only this server has used the key so far.
            UNKNOWN if totals.total_us == report.new_us => totals.total_us,
            // The others have used it at times that are not known.
            UNKNOWN => 0,
            before => totals.total_us.saturating_sub(before),
        };
        if recent == 0 {
            return;
        }
        let now = (report.new_us as f64 / recent as f64).min(1.0);
        let known = f64::from(ONE) / f64::from(self.scale.load(Ordering::Relaxed));
        let share = match before {
            UNKNOWN => now,
            _ => f64::midpoint(known, now),
        };
        let share = share * (1.0 - EQUAL) + EQUAL / f64::from(servers);
        let scale = f64::from(ONE) / share;
        self.scale.store(scale as u32, Ordering::Relaxed);
    }
}

#[inline]
fn scaled(ns: u64, scale: u32, boost: u32) -> u64 {
    let factor = u128::from(scale) * u128::from(boost);
    let unit = u128::from(ONE * ONE);
    u64::try_from(u128::from(ns) * factor / unit).unwrap_or(u64::MAX)
}
