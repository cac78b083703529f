//! A quota that several servers share.
//!
//! Two tables in files: the use of all servers as far as it is known here, by which requests are
//! decided, and what this server alone has used in the period. The latter is what Redis gets, as a
//! number that only grows: sent twice it counts once, and a Redis that has lost its data gets it
//! again with the next use of the key. Promises that neither a restart nor a killed process of
//! either side loses a request.

use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use message::LocalFuture;
use plugin::Keyed;
use plugin::keyed::{Batch, Exchanged, Remote};

use super::period::{Calendar, Period, Span, Zone};
use super::table::{Fingerprint, QuotaCount, QuotaTable, TableMetrics};
use crate::shared_limits::{BatchSender, QuotaReport, QuotaTotals, Settled, SettledKeys, Sharing};

/// The counts of a quota that servers share.
pub(super) struct SharedQuota {
    name: String,
    period: Period,
    zone: Zone,
    /// The use of all servers, as far as it is known.
    counts: QuotaTable,
    /// The use of this server.
    own: QuotaTable,
    /// This server, as long as its file exists.
    server: String,
    changed: Keyed<QuotaMark>,
    sharing: Arc<Sharing>,
}

/// A key that is to be settled.
pub(super) struct QuotaMark {
    key: Fingerprint,
    /// The use of all servers is to begin at zero.
    resets: AtomicBool,
}

impl QuotaMark {
    fn new(key: Fingerprint) -> QuotaMark {
        QuotaMark { key, resets: AtomicBool::new(false) }
    }
}

/// When the counts of a quota begin at zero.
pub(super) struct QuotaPeriod<'a> {
    pub(super) period: Period,
    pub(super) zone: &'a Zone,
}

impl SharedQuota {
    /// `counts` is the opened file of the quota at `path`; that of this server is next to it.
    pub(super) fn open(
        (name, path, entries): (&str, &Path, u32),
        counts: QuotaTable,
        period: &QuotaPeriod<'_>,
        changed: Keyed<QuotaMark>,
        sharing: Arc<Sharing>,
    ) -> io::Result<SharedQuota> {
        // Its entries are those of `counts`, which counts them.
        let own = path.with_extension("own.quota");
        let own = QuotaTable::open(&own, entries, TableMetrics::default())?;
        let quota = SharedQuota {
            name: name.to_owned(),
            period: period.period,
            zone: period.zone.clone(),
            counts,
            server: format!("{:016x}", own.identity()),
            own,
            changed,
            sharing,
        };
        // What a killed process had not sent.
        let span = Calendar::new(quota.period, &quota.zone).at(net::clock::wall_secs());
        quota.own.keys().filter(|key| quota.own.used(*key, span).0 > 0).for_each(|key| {
            quota.mark(key, |_| ());
        });
        Ok(quota)
    }

    pub(super) fn counts(&self) -> &QuotaTable {
        &self.counts
    }

    /// Takes the cost of a request from the quota of a key.
    pub(super) fn take(&self, key: Fingerprint, span: Span, limit: u32, cost: u32) -> QuotaCount {
        let charge = self.sharing.quota_charge();
        let count = self.counts.take_charged(key, span, limit, (cost, charge));
        if count.is_allowed && cost > 0 {
            self.own.add(key, span, cost);
        }
        // Also after a rejection: the use of others may have been reset.
        self.mark(key, |_| ());
        count
    }

    /// Adds an amount to the count of a key.
    pub(super) fn add(&self, key: Fingerprint, span: Span, amount: u32) {
        let charged = amount.saturating_mul(self.sharing.quota_charge());
        self.counts.add(key, span, charged);
        self.own.add(key, span, amount);
        self.mark(key, |_| ());
    }

    /// Sets the count of a key to zero, on all servers once it is settled.
    pub(super) fn reset(&self, key: Fingerprint) {
        self.counts.reset(key);
        self.mark(key, |mark| mark.resets.store(true, Ordering::Relaxed));
    }

    fn mark(&self, key: Fingerprint, using: impl FnOnce(&QuotaMark)) {
        self.changed.update(&key.bytes(), || QuotaMark::new(key), using);
    }

    fn news(&self, mark: &QuotaMark, span: Span) -> QuotaNews {
        let (used, end_s) = self.own.used(mark.key, span);
        let resets = mark.resets.load(Ordering::Relaxed);
        QuotaNews { key: mark.key, span, report: QuotaReport { used, end_s, resets }, totals: None }
    }

    /// Takes over what Redis replied.
    fn settle(&self, mark: &QuotaMark, news: QuotaNews) {
        let Some(totals) = news.totals else { return };
        let QuotaNews { key, span, report, .. } = news;
        if net::clock::wall_secs() >= report.end_s {
            // The next period has begun since it was sent.
            return;
        }
        if report.resets {
            mark.resets.store(false, Ordering::Relaxed);
        }
        if totals.own > report.used {
            // The file of this server has lost the key: it continues where it was.
            self.own.add(key, span, totals.own - report.used);
        }
        let sent = totals.own.max(report.used);
        self.counts.set(key, span, || {
            // Called again if a request has taken in between.
            totals.used.saturating_add(self.own.used(key, span).0.saturating_sub(sent))
        });
    }

    /// The key in Redis.
    fn redis_key(&self, prefix: &str, key: Fingerprint, span: Span) -> Vec<u8> {
        let key = u64::from_be_bytes(key.bytes());
        format!("{prefix}:quota:{}:{}:{key:016x}", self.name, span.start).into_bytes()
    }
}

impl Settled for SharedQuota {
    fn settle<'a>(&'a self, sender: &'a BatchSender) -> LocalFuture<'a, SettledKeys> {
        Box::pin(async move {
            let span = Calendar::new(self.period, &self.zone).at(net::clock::wall_secs());
            let remote = QuotaRemote { quota: self, sender, span };
            let none = || QuotaMark::new(Fingerprint::of(b""));
            self.changed.synchronise(&remote, none).await
        })
    }
}

/// What is sent about a key, and what is replied.
struct QuotaNews {
    key: Fingerprint,
    span: Span,
    report: QuotaReport,
    totals: Option<QuotaTotals>,
}

/// Redis, for the keys of one quota.
struct QuotaRemote<'a> {
    quota: &'a SharedQuota,
    sender: &'a BatchSender,
    span: Span,
}

impl Remote<QuotaMark> for QuotaRemote<'_> {
    type News = QuotaNews;

    fn news(&self, mark: &QuotaMark) -> QuotaNews {
        self.quota.news(mark, self.span)
    }

    async fn exchange(&self, batch: Batch<QuotaNews>) -> io::Result<Exchanged<QuotaNews>> {
        let mut exchanged = Exchanged { known: Batch::new(), failed: Vec::new() };
        if batch.is_empty() {
            return Ok(exchanged);
        }
        let (quota, prefix) = (self.quota, self.sender.prefix());
        let reports = batch
            .iter()
            .map(|(_, news)| (quota.redis_key(prefix, news.key, news.span), news.report));
        let replies = self.sender.quotas(&quota.server, reports).await?;
        for ((key, news), totals) in batch.into_iter().zip(replies) {
            match totals {
                Some(_) => exchanged.known.push((key, QuotaNews { totals, ..news })),
                None => exchanged.failed.push(key),
            }
        }
        Ok(exchanged)
    }

    fn merge(&self, mark: &QuotaMark, news: QuotaNews) {
        self.quota.settle(mark, news);
    }
}

#[cfg(test)]
mod tests;
