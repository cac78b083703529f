//! HTTP dates (RFC 9110 5.6.7): seconds since 1970 to text and back.
//!
//! Owns the three forms a recipient must read and the one a sender writes. Has no clock.

const SECONDS_PER_DAY: u64 = 86_400;
/// 9999-12-31T23:59:59Z, the last date that has four digits for its year.
const LAST: u64 = 253_402_300_799;
const DAYS: [&[u8; 3]; 7] = [b"Thu", b"Fri", b"Sat", b"Sun", b"Mon", b"Tue", b"Wed"];
const MONTHS: [&[u8; 3]; 12] = [
    b"Jan", b"Feb", b"Mar", b"Apr", b"May", b"Jun", b"Jul", b"Aug", b"Sep", b"Oct", b"Nov", b"Dec",
];

/// `Sun, 06 Nov 1994 08:49:37 GMT`. Times after the year 9999 show as its last second.
pub fn format_http_date(unix_secs: u64) -> [u8; 29] {
    let secs = unix_secs.min(LAST);
    let days = secs / SECONDS_PER_DAY;
    let of_day = secs % SECONDS_PER_DAY;
    let (year, month, day) = civil(days);
    let mut out = *b"Thu, 01 Jan 1970 00:00:00 GMT";
    out[..3].copy_from_slice(DAYS[(days % 7) as usize]);
    two_digits(&mut out[5..7], day);
    out[8..11].copy_from_slice(MONTHS[month as usize - 1]);
    two_digits(&mut out[12..14], year / 100);
    two_digits(&mut out[14..16], year % 100);
    two_digits(&mut out[17..19], of_day / 3600);
    two_digits(&mut out[20..22], of_day / 60 % 60);
    two_digits(&mut out[23..25], of_day % 60);
    out
}

fn two_digits(out: &mut [u8], value: u64) {
    out[0] = b'0' + (value / 10) as u8;
    out[1] = b'0' + (value % 10) as u8;
}

/// Days since 1970 to year, month, day in the proleptic Gregorian calendar: eras of 400 years that
/// begin in March, so that the leap day is the last of its year.
fn civil(days: u64) -> (u64, u64, u64) {
    let shifted = days + 719_468;
    let era = shifted / 146_097;
    let of_era = shifted % 146_097;
    let year_of_era = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let march_month = (5 * of_year + 2) / 153;
    let day = of_year - (153 * march_month + 2) / 5 + 1;
    let month = if march_month < 10 { march_month + 3 } else { march_month - 9 };
    (era * 400 + year_of_era + u64::from(month <= 2), month, day)
}

/// The inverse, for dates from 1970 on; `None` if the day is not in its month.
fn days_since_1970(year: u64, month: u64, day: u64) -> Option<u64> {
    if !(1970..=9999).contains(&year) || !(1..=31).contains(&day) {
        return None;
    }
    let shifted_year = year - u64::from(month <= 2);
    let march_month = (month + 9) % 12;
    let of_year = (153 * march_month + 2) / 5 + day - 1;
    let year_of_era = shifted_year % 400;
    let of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + of_year;
    let days = (shifted_year / 400 * 146_097 + of_era).checked_sub(719_468)?;
    (civil(days) == (year, month, day)).then_some(days)
}

/// Reads IMF-fixdate, the RFC 850 form or the asctime form; exact, and never before 1970. Two-digit
/// years are read as 1970 to 2069. The weekday must be one but is not compared with the date.
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
    moment(year, month(&text[8..11])?, number(&text[5..7])?, &text[17..25], &text[25..])
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
    // RFC 9110 asks for "not more than 50 years in the future", which needs a clock; a fixed window
    // does until 2070.
    let year = if year < 70 { 2000 + year } else { 1900 + year };
    moment(year, month(&rest[4..7])?, number(&rest[1..3])?, &rest[11..19], &rest[19..])
}

/// `Sun Nov  6 08:49:37 1994`
fn asctime(text: &[u8]) -> Option<u64> {
    if text.len() != 24 || !is_weekday(&text[..3]) {
        return None;
    }
    literals(text, &[(3, b' '), (7, b' '), (10, b' '), (19, b' ')])?;
    let day = if text[8] == b' ' { &text[9..10] } else { &text[8..10] };
    moment(number(&text[20..])?, month(&text[4..7])?, number(day)?, &text[11..19], b" GMT")
}

fn moment(year: u64, month: u64, day: u64, time: &[u8], zone: &[u8]) -> Option<u64> {
    if zone != b" GMT" {
        return None;
    }
    literals(time, &[(2, b':'), (5, b':')])?;
    let (hour, minute, second) = (number(&time[..2])?, number(&time[3..5])?, number(&time[6..])?);
    // 60 is a leap second, which Unix time does not count.
    if hour > 23 || minute > 59 || second > 60 {
        return None;
    }
    let days = days_since_1970(year, month, day)?;
    Some(days * SECONDS_PER_DAY + hour * 3600 + minute * 60 + second.min(59))
}

fn literals(text: &[u8], expected: &[(usize, u8)]) -> Option<()> {
    expected.iter().all(|&(at, byte)| text[at] == byte).then_some(())
}

fn number(digits: &[u8]) -> Option<u64> {
    crate::token::decimal(digits)
}

fn is_weekday(name: &[u8]) -> bool {
    DAYS.iter().any(|day| &day[..] == name)
}

fn month(name: &[u8]) -> Option<u64> {
    MONTHS.iter().position(|month| &month[..] == name).map(|at| at as u64 + 1)
}

#[cfg(test)]
mod tests {
    use super::{LAST, format_http_date, parse_http_date};

    #[test]
    fn the_example_of_the_rfc_in_its_three_forms() {
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
    fn what_is_not_a_date_is_none() {
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
