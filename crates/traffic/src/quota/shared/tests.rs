//! Two servers that share a quota, without Redis between them: its totals are those of the test.

use std::sync::Arc;

use plugin::{Keyed, KeyedLimits, KeyedMetrics};
use tempfile::TempDir;

use super::{QuotaMark, QuotaPeriod, QuotaTotals, SharedQuota};
use crate::quota::period::{Calendar, Period, Span, Zone};
use crate::quota::table::{Fingerprint, QuotaTable, TableMetrics};
use crate::shared_limits::Sharing;

struct Server {
    directory: TempDir,
    sharing: Arc<Sharing>,
    quota: SharedQuota,
}

fn zone() -> Zone {
    "UTC".parse().unwrap()
}

fn span() -> Span {
    Calendar::new(Period::Month, &zone()).at(net::clock::wall_secs())
}

fn open(directory: &TempDir, sharing: &Arc<Sharing>) -> SharedQuota {
    let path = directory.path().join("calls.quota");
    let counts = QuotaTable::open(&path, 64, TableMetrics::default()).unwrap();
    let zone = zone();
    let period = QuotaPeriod { period: Period::Month, zone: &zone };
    let limits = KeyedLimits { entries: 64, changes: 64 };
    let changed = Keyed::<QuotaMark>::new(limits, KeyedMetrics::default());
    SharedQuota::open(("calls", &path, 64), counts, &period, changed, sharing.clone()).unwrap()
}

impl Server {
    fn start(servers: u32) -> Server {
        let directory = tempfile::tempdir().unwrap();
        let sharing = Arc::new(Sharing::default());
        sharing.set_servers(servers);
        sharing.set_connected(true);
        let quota = open(&directory, &sharing);
        Server { directory, sharing, quota }
    }

    fn allowed(&self, limit: u32, requests: usize) -> usize {
        let take = |_: &usize| self.quota.take(key(), span(), limit, 1).is_allowed;
        (0..requests).filter(take).count()
    }

    /// Reports to a Redis that knows these totals then.
    fn settle(&self, used: u32, own: Option<u32>) -> u32 {
        let mark = QuotaMark::new(key());
        let mut news = self.quota.news(&mark, span());
        let reported = news.report.used;
        news.totals = Some(QuotaTotals { used, own: own.unwrap_or(reported) });
        self.quota.settle(&mark, news);
        reported
    }

    fn used(&self) -> u32 {
        self.quota.counts().used(key(), span()).0
    }
}

fn key() -> Fingerprint {
    Fingerprint::of(b"alice")
}

#[test]
fn the_use_of_other_servers_counts() {
    let server = Server::start(2);
    assert_eq!(server.allowed(10, 3), 3);
    // The other one has used 5.
    assert_eq!(server.settle(8, None), 3);
    assert_eq!(server.used(), 8);
    assert_eq!(server.allowed(10, 9), 2);
    assert_eq!(server.settle(10, None), 5, "the sum of this server's use");
    assert_eq!(server.allowed(10, 9), 0);
}

#[test]
fn without_redis_a_server_allows_its_share_of_the_rest() {
    let server = Server::start(3);
    server.settle(40, None);
    server.sharing.set_connected(false);
    assert_eq!(server.allowed(100, 90), 20);
    server.sharing.set_connected(true);
    // The others have used nothing: what they were taken to use is free again.
    assert_eq!(server.settle(60, None), 20);
    assert_eq!(server.allowed(100, 90), 40);
}

#[test]
fn a_restart_loses_neither_the_use_nor_the_identity() {
    let server = Server::start(1);
    assert_eq!(server.allowed(10, 4), 4);
    let Server { directory, sharing, quota } = server;
    let before = quota.server.clone();
    drop(quota);
    let quota = open(&directory, &sharing);
    assert_eq!(quota.server, before);
    assert!(quota.changed.peek(&key().bytes(), |_| ()).is_some(), "it is reported at the start");
    let server = Server { directory, sharing, quota };
    assert_eq!((server.used(), server.settle(4, None)), (4, 4));
}

#[test]
fn a_lost_file_continues_where_redis_has_it() {
    let server = Server::start(1);
    server.allowed(100, 2);
    // Redis knows 30 of this server, and 50 of all.
    assert_eq!(server.settle(50, Some(30)), 2);
    assert_eq!(server.used(), 50);
    assert_eq!(server.allowed(100, 5), 5);
    assert_eq!(server.settle(55, None), 35);
}

#[test]
fn a_reset_is_reported_once() {
    let server = Server::start(1);
    server.allowed(10, 9);
    server.quota.reset(key());
    assert_eq!(server.used(), 0);
    let resets = || {
        server.quota.changed.peek(&key().bytes(), |mark| {
            let mut news = server.quota.news(mark, span());
            let resets = news.report.resets;
            news.totals = Some(QuotaTotals { used: 0, own: news.report.used });
            server.quota.settle(mark, news);
            resets
        })
    };
    assert_eq!((resets(), resets()), (Some(true), Some(false)));
    assert_eq!(server.allowed(10, 20), 10);
}
