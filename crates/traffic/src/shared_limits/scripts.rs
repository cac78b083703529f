//! The scripts that Redis runs, and what they return.
//!
//! Each is one step on one key, so that it runs on a Cluster, and takes the time of Redis: the
//! clocks of servers may differ.

use std::io;

use redis::{RedisCommand, Script};

/// Adds what a server has used to the debt of a key. The debt is `p`, the time at which it is paid
/// back, and begins when the use began; `u` is the sum of all uses. A key without a debt for a
/// minute vanishes.
const RATE: &str = "\
local t = redis.call('TIME')
local now = t[1] * 1000000 + t[2]
local known = redis.call('HMGET', KEYS[1], 'p', 'u')
local paid, total = tonumber(known[1] or now), tonumber(known[2] or 0)
local new = tonumber(ARGV[1])
if new > 0 then
  paid = math.min(math.max(paid, now - ARGV[2]) + new, now + ARGV[3])
  total = total + new
  redis.call('HSET', KEYS[1], 'p', string.format('%.0f', paid), 'u', string.format('%.0f', total))
  redis.call('PEXPIRE', KEYS[1], string.format('%.0f', math.max(paid - now, 0) / 1000 + 60000))
end
return {math.floor(paid - now), total}";

/// Replaces what a server has used in a period, and returns the use of all. A field for each
/// server, `t` for their sum, and `r` for the sum at the last reset. A lower number than the known
/// one is old or of a server that has lost its file: it changes nothing.
const QUOTA: &str = "\
local known = redis.call('HMGET', KEYS[1], ARGV[1], 't', 'r')
local seen, total, reset = tonumber(known[1] or 0), tonumber(known[2] or 0), tonumber(known[3] or 0)
local used = tonumber(ARGV[2])
if used > seen then
  total = total + used - seen
  seen = used
  redis.call('HSET', KEYS[1], ARGV[1], ARGV[2], 't', string.format('%.0f', total))
  redis.call('EXPIREAT', KEYS[1], ARGV[3])
end
if ARGV[4] == '1' and total > reset then
  reset = total
  redis.call('HSET', KEYS[1], 'r', string.format('%.0f', reset))
end
return {total - reset, seen}";

/// Notes that a server is there, forgets those that have not been for a while, and returns how many
/// there are.
const SERVERS: &str = "\
local t = redis.call('TIME')
local now = t[1] * 1000 + math.floor(t[2] / 1000)
redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', now)
if ARGV[2] == '0' then
  redis.call('ZREM', KEYS[1], ARGV[1])
else
  redis.call('ZADD', KEYS[1], string.format('%.0f', now + ARGV[2]), ARGV[1])
  redis.call('PEXPIRE', KEYS[1], ARGV[2])
end
return {redis.call('ZCARD', KEYS[1]), 0}";

/// How long a server counts after it was last heard of.
const SERVER_MS: u64 = 5000;
/// How long the counts of a quota are stored after their period.
const QUOTA_KEPT_S: u64 = 86400;

/// The scripts, ready to be called.
pub(super) struct Scripts {
    rate: Script,
    quota: Script,
    servers: Script,
}

/// What a server reports about one key of a rate limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RateReport {
    /// What was used since the last report, in microseconds of debt.
    pub(crate) new_us: u64,
    /// How long ago the first of it was used.
    pub(crate) late_us: u64,
    /// The longest debt.
    pub(crate) most_us: u64,
}

/// What Redis knows about one key of a rate limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RateTotals {
    /// The debt of all servers; negative if it was paid back some time ago.
    pub(crate) debt_us: i64,
    /// What all servers have used.
    pub(crate) total_us: u64,
}

/// What a server reports about one key of a quota.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct QuotaReport {
    /// What this server has used in the period.
    pub(crate) used: u32,
    /// When the period ends, in seconds since 1970.
    pub(crate) end_s: u64,
    /// The use of all servers begins at zero again.
    pub(crate) resets: bool,
}

/// What Redis knows about one key of a quota.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct QuotaTotals {
    /// What all servers have used since the last reset.
    pub(crate) used: u32,
    /// The highest number that this server has reported.
    pub(crate) own: u32,
}

impl Scripts {
    pub(super) fn new() -> Scripts {
        Scripts {
            rate: Script::new(RATE),
            quota: Script::new(QUOTA),
            servers: Script::new(SERVERS),
        }
    }

    pub(super) fn all(&self) -> Vec<Script> {
        vec![self.rate.clone(), self.quota.clone(), self.servers.clone()]
    }

    pub(super) fn rate(&self, key: &[u8], report: RateReport) -> RedisCommand {
        let RateReport { new_us, late_us, most_us } = report;
        let words = [new_us, late_us, most_us].map(|number| number.to_string());
        RedisCommand::script(&self.rate, key, &words.each_ref().map(|word| word.as_bytes()))
    }

    pub(super) fn quota(&self, key: &[u8], server: &str, report: QuotaReport) -> RedisCommand {
        let (used, end) = (report.used.to_string(), (report.end_s + QUOTA_KEPT_S).to_string());
        let resets: &[u8] = if report.resets { b"1" } else { b"0" };
        let words = [server.as_bytes(), used.as_bytes(), end.as_bytes(), resets];
        RedisCommand::script(&self.quota, key, &words)
    }

    /// `is_leaving` removes the server.
    pub(super) fn servers(&self, prefix: &str, server: &str, is_leaving: bool) -> RedisCommand {
        let lasts = if is_leaving { 0 } else { SERVER_MS }.to_string();
        let key = format!("{prefix}:servers");
        RedisCommand::script(&self.servers, key.as_bytes(), &[server.as_bytes(), lasts.as_bytes()])
    }
}

/// The error of a reply that none of the scripts returns.
pub(super) fn malformed() -> io::Error {
    io::Error::other("a malformed reply of a script")
}
