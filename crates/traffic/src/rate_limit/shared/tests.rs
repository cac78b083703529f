//! One cell of a shared limit, step by step.

use std::sync::Arc;

use plugin::{KeyedLimits, KeyedMetrics};
use settings::{Rate, node};

use super::{Gcra, Keyed, ONE, RateDecision, RateTotals, SharedCell, SharedRates, Sharing};
use plugin::testing::{context, errors, filter_in, get, passed, plan};

const SECOND: u64 = 1_000_000;

fn bucket(rate: &str, burst: u32) -> Gcra {
    Gcra::new(rate.parse::<Rate>().unwrap(), burst)
}

fn allowed(cell: &SharedCell, bucket: Gcra, now_us: u64, requests: u32) -> usize {
    let boost = sharing(1).boost();
    let take = |_: &u32| matches!(cell.take(bucket, 1, now_us, boost), RateDecision::Allowed(_));
    (0..requests).filter(take).count()
}

fn sharing(servers: u32) -> Sharing {
    let sharing = Sharing::default();
    sharing.set_servers(servers);
    sharing.set_connected(true);
    sharing
}

#[test]
fn a_server_begins_with_its_share_of_the_burst() {
    let limit = bucket("10/s", 9);
    for (servers, expected) in [(1, 9), (3, 3), (9, 1), (100, 1)] {
        let cell = SharedCell::new(servers);
        assert_eq!(allowed(&cell, limit, SECOND, 50), expected, "{servers}");
    }
}

#[test]
fn the_debt_of_others_counts() {
    let (limit, cell, three) = (bucket("10/s", 9), SharedCell::new(3), sharing(3));
    assert_eq!(allowed(&cell, limit, SECOND, 50), 3);
    let mut news = cell.news(SECOND + 1000);
    assert_eq!((news.report.new_us, news.report.late_us), (300_000, 1000));
    assert_eq!(news.report.most_us, 900_000 + 1_000_000);
    // No other server has used it: what remains of the burst is all for this server.
    news.totals = Some(RateTotals { debt_us: 300_000, total_us: 300_000 });
    cell.settle(news, &three);
    assert_eq!(allowed(&cell, limit, SECOND + 1000, 50), 6);
    let mut news = cell.news(SECOND + 2000);
    assert_eq!(news.report.new_us, 600_000);
    // Others have used as much at the same time, above the burst.
    news.totals = Some(RateTotals { debt_us: 1_500_000, total_us: 1_500_000 });
    cell.settle(news, &three);
    assert_eq!(allowed(&cell, limit, SECOND + 600_000, 50), 0);
    assert_eq!(allowed(&cell, limit, SECOND + 802_000, 50), 1);
}

#[test]
fn what_was_not_confirmed_is_reported_again() {
    let (limit, cell, one) = (bucket("10/s", 5), SharedCell::new(1), sharing(1));
    assert_eq!(allowed(&cell, limit, SECOND, 2), 2);
    let lost = cell.news(SECOND);
    assert_eq!(allowed(&cell, limit, SECOND, 1), 1);
    let mut again = cell.news(2 * SECOND);
    assert_eq!((lost.report.new_us, again.report.new_us), (200_000, 300_000));
    assert_eq!(again.report.late_us, SECOND);
    again.totals = Some(RateTotals { debt_us: -700_000, total_us: 300_000 });
    cell.settle(again, &one);
    let settled = cell.news(2 * SECOND);
    assert_eq!((settled.report.new_us, settled.report.late_us), (0, 0));
    assert_eq!(allowed(&cell, limit, 2 * SECOND, 50), 5);
}

#[test]
fn a_request_that_is_given_back_is_not_reported() {
    let (limit, cell, one) = (bucket("10/s", 5), SharedCell::new(1), sharing(1));
    allowed(&cell, limit, SECOND, 2);
    cell.give_back(limit, 1, ONE);
    let mut news = cell.news(SECOND);
    assert_eq!(news.report.new_us, 100_000);
    // Given back while it is in flight: it counts, once.
    cell.give_back(limit, 1, ONE);
    news.totals = Some(RateTotals { debt_us: 100_000, total_us: 100_000 });
    cell.settle(news, &one);
    assert_eq!(cell.news(SECOND).report.new_us, 0);
    assert_eq!(allowed(&cell, limit, SECOND, 50), 4);
}

#[test]
fn a_cell_that_was_made_again_takes_over_the_debt() {
    let (limit, one) = (bucket("10/s", 5), sharing(1));
    let evicted = SharedCell::new(1);
    allowed(&evicted, limit, SECOND, 4);
    let mut news = evicted.news(SECOND);
    news.totals = Some(RateTotals { debt_us: 400_000, total_us: 400_000 });
    let cell = SharedCell::new(1);
    cell.settle(news, &one);
    assert_eq!(allowed(&cell, limit, SECOND, 50), 1);
    assert_eq!(cell.news(SECOND).report.new_us, 100_000);
}

#[test]
fn keys_in_redis_do_not_show_the_key() {
    let rates = |name: &str, identity: &str| {
        let limits = KeyedLimits { entries: 8, changes: 8 };
        let cells = Keyed::new(limits, KeyedMetrics::default());
        SharedRates::new(name.to_owned(), identity, cells, Arc::default())
    };
    let key = |name: &str, identity: &str, key: &str| {
        String::from_utf8(rates(name, identity).redis_key("shop", key.as_bytes())).unwrap()
    };
    let secret = key("api", "header.x-key,64", "s3cret");
    assert!(secret.starts_with("shop:rate:api:") && !secret.contains("s3cret"), "{secret}");
    assert_eq!(secret, key("api", "header.x-key,64", "s3cret"));
    assert_ne!(secret, key("api", "header.x-key,56", "s3cret"));
    assert_ne!(secret, key("api", "header.x-key,64", "other"));
}

#[test]
fn the_setting_and_its_errors() {
    let worker = context();
    let shared = node!({ "rate": "1/h", "burst": 2, "shared": true, "name": "s" });
    let limit = filter_in(&super::super::KIND, &shared, &worker);
    let passes = || passed(limit.on_request(&mut get("/", &[]))).is_ok();
    assert_eq!([passes(), passes(), passes()], [true, true, false]);
    assert!(
        plan(&super::super::KIND, &shared).unwrap().describe().contains("shared by the servers")
    );
    let sliding = node!({ "rate": "1/h", "window": "sliding", "shared": true });
    let error = errors(&super::super::KIND, &sliding);
    assert!(error.contains("counts on one server only"), "{error}");
}
