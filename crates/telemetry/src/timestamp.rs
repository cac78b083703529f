//! Timestamps of logs: RFC 3339 in UTC, and the common log format.
//!
//! Takes Unix milliseconds; reads no clock except in `now_ms`.

use std::time::{SystemTime, UNIX_EPOCH};

use jiff::Timestamp;
use jiff::civil::DateTime;
use jiff::tz::Offset;

/// Milliseconds since 1970, by the system's clock.
pub fn now_ms() -> u64 {
    let elapsed = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(elapsed.as_millis()).unwrap_or(u64::MAX)
}

/// The date and time in UTC; those of the last timestamp after the year 9999.
fn utc(unix_ms: u64) -> DateTime {
    let unix_ms = i64::try_from(unix_ms).unwrap_or(i64::MAX);
    Offset::UTC.to_datetime(Timestamp::from_millisecond(unix_ms).unwrap_or(Timestamp::MAX))
}

fn digits(out: &mut Vec<u8>, value: i16, width: u32) {
    for power in (0..width).rev() {
        out.push(b'0' + (value / 10_i16.pow(power) % 10) as u8);
    }
}

fn clock(out: &mut Vec<u8>, time: DateTime) {
    digits(out, time.hour().into(), 2);
    out.push(b':');
    digits(out, time.minute().into(), 2);
    out.push(b':');
    digits(out, time.second().into(), 2);
}

/// Appends `2026-11-20T10:21:00.123Z` (RFC 3339).
pub fn rfc3339(unix_ms: u64, out: &mut Vec<u8>) {
    let time = utc(unix_ms);
    digits(out, time.year(), 4);
    out.push(b'-');
    digits(out, time.month().into(), 2);
    out.push(b'-');
    digits(out, time.day().into(), 2);
    out.push(b'T');
    clock(out, time);
    out.push(b'.');
    digits(out, time.millisecond(), 3);
    out.push(b'Z');
}

/// Appends `20/Nov/2026:10:21:00 +0000`, as in the common and combined log formats, without
/// brackets.
pub fn common_log(unix_ms: u64, out: &mut Vec<u8>) {
    const MONTHS: &[u8; 36] = b"JanFebMarAprMayJunJulAugSepOctNovDec";
    let time = utc(unix_ms);
    digits(out, time.day().into(), 2);
    out.push(b'/');
    let start = (time.month() as usize - 1) * 3;
    out.extend_from_slice(&MONTHS[start..start + 3]);
    out.push(b'/');
    digits(out, time.year(), 4);
    out.push(b':');
    clock(out, time);
    out.extend_from_slice(b" +0000");
}

#[cfg(test)]
mod tests {
    use super::{common_log, rfc3339};

    fn both(unix_ms: u64) -> (String, String) {
        let (mut a, mut b) = (Vec::new(), Vec::new());
        rfc3339(unix_ms, &mut a);
        common_log(unix_ms, &mut b);
        (String::from_utf8(a).unwrap(), String::from_utf8(b).unwrap())
    }

    #[test]
    fn known_moments() {
        assert_eq!(both(0).0, "1970-01-01T00:00:00.000Z");
        assert_eq!(both(951_782_399_999).0, "2000-02-28T23:59:59.999Z");
        assert_eq!(both(951_782_400_000).0, "2000-02-29T00:00:00.000Z");
        assert_eq!(both(971_211_336_000).1, "10/Oct/2000:20:55:36 +0000");
        assert_eq!(both(4_107_542_400_000).0, "2100-03-01T00:00:00.000Z");
        assert_eq!(both(1_798_761_599_000).1, "31/Dec/2026:23:59:59 +0000");
    }
}
