//! HTTP dates (RFC 9110 5.6.7): seconds since 1970 to text and back.
//!
//! Owns the three forms a recipient must accept and the one a sender generates; the calendar is
//! jiff's, whose own RFC 2822 form allows more than RFC 9110 does. Has no clock.

use jiff::SignedDuration;
use jiff::civil::{DateTime, date};

const EPOCH: DateTime = date(1970, 1, 1).at(0, 0, 0, 0);
/// The last date that has four digits for its year.
const LAST: DateTime = date(9999, 12, 31).at(23, 59, 59, 0);
const DAYS: [&[u8; 3]; 7] = [b"Mon", b"Tue", b"Wed", b"Thu", b"Fri", b"Sat", b"Sun"];
const MONTHS: [&[u8; 3]; 12] = [
    b"Jan", b"Feb", b"Mar", b"Apr", b"May", b"Jun", b"Jul", b"Aug", b"Sep", b"Oct", b"Nov", b"Dec",
];

/// Formats `Sun, 06 Nov 1994 08:49:37 GMT`. Times after the year 9999 become its last second.
pub fn format_http_date(unix_secs: u64) -> [u8; 29] {
    let since_epoch = SignedDuration::from_secs(i64::try_from(unix_secs).unwrap_or(i64::MAX));
    let time = EPOCH.checked_add(since_epoch).unwrap_or(LAST);
    let mut out = *b"Thu, 01 Jan 1970 00:00:00 GMT";
    out[..3].copy_from_slice(DAYS[time.weekday().to_monday_zero_offset() as usize]);
    two_digits(&mut out[5..7], time.day());
    out[8..11].copy_from_slice(MONTHS[time.month() as usize - 1]);
    two_digits(&mut out[12..14], (time.year() / 100) as i8);
    two_digits(&mut out[14..16], (time.year() % 100) as i8);
    two_digits(&mut out[17..19], time.hour());
    two_digits(&mut out[20..22], time.minute());
    two_digits(&mut out[23..25], time.second());
    out
}

fn two_digits(out: &mut [u8], value: i8) {
    out[0] = b'0' + (value / 10) as u8;
    out[1] = b'0' + (value % 10) as u8;
}

/// Parses IMF-fixdate, the RFC 850 form or the asctime form, strictly, from 1970 on. Two-digit
/// years are 1970 to 2069. The weekday must be a name but is not compared with the date.
pub fn parse_http_date(text: &[u8]) -> Option<u64> {
    let comma = memchr::memchr(b',', text);
    match comma {
        Some(3) => imf_fixdate(text),
        Some(comma) => rfc850(text, comma),
        None => asctime(text),
    }
}

/// `Sun, 06 Nov 1994 08:49:37 GMT`
fn imf_fixdate(text: &[u8]) -> Option<u64> {
    if text.len() != 29 || !is_weekday(&text[..3]) {
        return None;
    }
    literals(text, &[(4, b' '), (7, b' '), (11, b' '), (16, b' ')])?;
    let year = number(&text[12..16])?;
    seconds_since_1970(year, month(&text[8..11])?, number(&text[5..7])?, &text[17..25], &text[25..])
}

/// `Sunday, 06-Nov-94 08:49:37 GMT`
fn rfc850(text: &[u8], comma: usize) -> Option<u64> {
    let full: [&[u8]; 7] =
        [b"Sunday", b"Monday", b"Tuesday", b"Wednesday", b"Thursday", b"Friday", b"Saturday"];
    let rest = &text[comma + 1..];
    if rest.len() != 23 || !full.contains(&&text[..comma]) {
        return None;
    }
    literals(rest, &[(0, b' '), (3, b'-'), (7, b'-'), (10, b' ')])?;
    let year = number(&rest[8..10])?;
    // RFC 9110 requires "not more than 50 years in the future", which needs a clock; a fixed window
    // is correct until 2070.
    let year = if year < 70 { 2000 + year } else { 1900 + year };
    seconds_since_1970(year, month(&rest[4..7])?, number(&rest[1..3])?, &rest[11..19], &rest[19..])
}

/// `Sun Nov  6 08:49:37 1994`
fn asctime(text: &[u8]) -> Option<u64> {
    if text.len() != 24 || !is_weekday(&text[..3]) {
        return None;
    }
    literals(text, &[(3, b' '), (7, b' '), (10, b' '), (19, b' ')])?;
    let day = if text[8] == b' ' { &text[9..10] } else { &text[8..10] };
    seconds_since_1970(
        number(&text[20..])?,
        month(&text[4..7])?,
        number(day)?,
        &text[11..19],
        b" GMT",
    )
}

fn seconds_since_1970(year: i16, month: i8, day: i16, time: &[u8], zone: &[u8]) -> Option<u64> {
    if zone != b" GMT" {
        return None;
    }
    literals(time, &[(2, b':'), (5, b':')])?;
    let (hour, minute, second) = (number(&time[..2])?, number(&time[3..5])?, number(&time[6..])?);
    // 60 is a leap second, which Unix time does not count.
    let second = if second == 60 { 59 } else { second };
    let small = |number: i16| i8::try_from(number).ok();
    let (hour, minute, second) = (small(hour)?, small(minute)?, small(second)?);
    let time = DateTime::new(year, month, small(day)?, hour, minute, second, 0).ok()?;
    u64::try_from(time.duration_since(EPOCH).as_secs()).ok()
}

fn literals(text: &[u8], expected: &[(usize, u8)]) -> Option<()> {
    expected.iter().all(|&(at, byte)| text[at] == byte).then_some(())
}

fn number(digits: &[u8]) -> Option<i16> {
    crate::token::decimal(digits)?.try_into().ok()
}

fn is_weekday(name: &[u8]) -> bool {
    DAYS.iter().any(|day| &day[..] == name)
}

fn month(name: &[u8]) -> Option<i8> {
    MONTHS.iter().position(|month| &month[..] == name).map(|at| at as i8 + 1)
}

#[cfg(test)]
mod tests {
    use super::{format_http_date, parse_http_date};

    /// 9999-12-31T23:59:59Z.
    const LAST: u64 = 253_402_300_799;

    #[test]
    fn the_three_forms_of_rfc_9110_are_parsed() {
        let at = 784_111_777;
        assert_eq!(&format_http_date(at), b"Sun, 06 Nov 1994 08:49:37 GMT");
        for form in [
            "Sun, 06 Nov 1994 08:49:37 GMT",
            "Sunday, 06-Nov-94 08:49:37 GMT",
            "Sun Nov  6 08:49:37 1994",
        ] {
            assert_eq!(parse_http_date(form.as_bytes()), Some(at), "{form}");
        }
    }

    #[test]
    fn every_day_round_trips_through_four_centuries() {
        for day in 0..146_097u64 * 2 {
            let at = day * 86_400 + day % 86_400;
            assert_eq!(parse_http_date(&format_http_date(at)), Some(at));
        }
        assert_eq!(parse_http_date(&format_http_date(LAST)), Some(LAST));
        assert_eq!(&format_http_date(u64::MAX), b"Fri, 31 Dec 9999 23:59:59 GMT");
        assert_eq!(&format_http_date(951_782_400), b"Tue, 29 Feb 2000 00:00:00 GMT");
    }

    #[test]
    fn invalid_dates_are_rejected() {
        for bad in [
            "",
            "0",
            "Sun, 06 Nov 1994 08:49:37",
            "Sun, 06 Nov 1994 08:49:37 UTC",
            "Sun, 6 Nov 1994 08:49:37 GMT",
            "Sun, 31 Feb 1994 08:49:37 GMT",
            "Sun, 29 Feb 1900 08:49:37 GMT",
            "Sun, 00 Nov 1994 08:49:37 GMT",
            "Sun, 06 Nov 1994 24:00:00 GMT",
            "Sun, 06 Nov 1994 08:60:37 GMT",
            "Sun, 06 nov 1994 08:49:37 GMT",
            "Xxx, 06 Nov 1994 08:49:37 GMT",
            "Sun, 06 Nov 1969 08:49:37 GMT",
            "Sun,_06 Nov 1994 08:49:37 GMT",
            "Sunday, 06-Nov-94 08:49:37 GM",
            "Sun Nov 66 08:49:37 1994",
            "Sun, 06 Nov +994 08:49:37 GMT",
        ] {
            assert_eq!(parse_http_date(bad.as_bytes()), None, "{bad}");
        }
    }
}
