//! What an application writes about its background jobs: times of cron, and where Redis is.

use store::{Cron, RedisUrl};

use crate::{FuzzTarget, owned};

pub(crate) const CRON: FuzzTarget = FuzzTarget {
    check: cron,
    seeds: || {
        owned(&[
            "*/15 0-6,22 1,31 jan-DEC *",
            "59 23 29 2 sun",
            "5/10 * */2 * 1-7/2",
            "@daily",
            "0 0 31 2 *",
        ])
    },
    dictionary: &["*", "*/", "-", ",", " ", "@hourly", "feb", "mon", "7", "59", "31", "0"],
    cases: 3_000,
};

pub(crate) const REDIS_URL: FuzzTarget = FuzzTarget {
    check: redis_url,
    seeds: || {
        owned(&[
            "redis://ann:pass%40word@cache.internal:7000/3?prefix=shop&visibility=5m",
            "rediss://[::1]/15",
            "unix://:secret@/run/redis.sock?db=4",
        ])
    },
    dictionary: &[
        "redis://", "unix:///", "@", ":", "%2F", "?", "&", "db=", "prefix=", "/", "[::1]",
    ],
    cases: 5000,
};

/// Any text as a cron expression. Each next time is later than the one before, on a whole minute,
/// and none that matches lies between them.
fn cron(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    let Ok(cron) = text.parse::<Cron>() else { return };
    let mut now = data.iter().fold(0, |sum: u64, byte| sum * 31 % 4_000_000_000 + u64::from(*byte));
    for _ in 0..5 {
        let next = cron.next_after(now).expect("a time before the year 9999");
        assert!(next > now && next % 60 == 0);
        assert_eq!(cron.next_after(now + (next - now) / 2), Some(next));
        now = next;
    }
}

/// Any text as a URL. What is shown of it is a URL of the same server without its credentials.
fn redis_url(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    let Ok(url) = text.parse::<RedisUrl>() else { return };
    assert_eq!(url.expose(), text);
    let shown = url.to_string();
    if shown.starts_with("redis") {
        assert!(!shown.contains('@'));
        assert_eq!(shown.parse::<RedisUrl>().expect("what is shown is a URL").to_string(), shown);
    }
}
