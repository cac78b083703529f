//! Times as logs write them: RFC 3339 in UTC, and the form of the common log format.
//!
//! Takes Unix milliseconds; reads no clock except in `now_ms`.

use std::time::{SystemTime, UNIX_EPOCH};

/// Milliseconds since 1970, by the system's clock.
pub fn now_ms() -> u64 {
    let elapsed = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(elapsed.as_millis()).unwrap_or(u64::MAX)
}

struct Civil {
    year: u64,
    month: u64,
    day: u64,
    hour: u64,
    minute: u64,
    second: u64,
}

/// The proleptic Gregorian date of a day number, counted in eras of 400 years that begin in March.
fn civil(unix_s: u64) -> Civil {
    let (days, second) = (unix_s / 86_400, unix_s % 86_400);
    let shifted = days + 719_468; // days from 0000-03-01 to 1970-01-01
    let (era, day_of_era) = (shifted / 146_097, shifted % 146_097);
    let year_of_era =
        (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let march_month = (5 * day_of_year + 2) / 153;
    let month = if march_month < 10 { march_month + 3 } else { march_month - 9 };
    Civil {
        year: era * 400 + year_of_era + u64::from(month <= 2),
        month,
        day: day_of_year - (153 * march_month + 2) / 5 + 1,
        hour: second / 3_600,
        minute: second / 60 % 60,
        second: second % 60,
    }
}

fn digits(out: &mut Vec<u8>, value: u64, width: u32) {
    for place in (0..width).rev() {
        out.push(b'0' + (value / 10_u64.pow(place) % 10) as u8);
    }
}

fn clock(out: &mut Vec<u8>, t: &Civil) {
    digits(out, t.hour, 2);
    out.push(b':');
    digits(out, t.minute, 2);
    out.push(b':');
    digits(out, t.second, 2);
}

/// `2026-11-20T10:21:00.123Z` (RFC 3339).
pub fn rfc3339(unix_ms: u64, out: &mut Vec<u8>) {
    let t = civil(unix_ms / 1_000);
    digits(out, t.year, 4);
    out.push(b'-');
    digits(out, t.month, 2);
    out.push(b'-');
    digits(out, t.day, 2);
    out.push(b'T');
    clock(out, &t);
    out.push(b'.');
    digits(out, unix_ms % 1_000, 3);
    out.push(b'Z');
}

/// `20/Nov/2026:10:21:00 +0000`, as the common and combined log formats have it, without brackets.
pub fn common_log(unix_ms: u64, out: &mut Vec<u8>) {
    const MONTHS: &[u8; 36] = b"JanFebMarAprMayJunJulAugSepOctNovDec";
    let t = civil(unix_ms / 1_000);
    digits(out, t.day, 2);
    out.push(b'/');
    let start = (t.month as usize - 1) * 3;
    out.extend_from_slice(&MONTHS[start..start + 3]);
    out.push(b'/');
    digits(out, t.year, 4);
    out.push(b':');
    clock(out, &t);
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
