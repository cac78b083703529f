//! Date: in every response that is ours, as IMF-fixdate, and the origin's where there is one
//! (RFC 9110 6.6.1).

use crate::setup::{behind, responding};
use scenarios::{Tidegate, Upstream};
use std::time::{SystemTime, UNIX_EPOCH};

/// Seconds since 1970 of `Sun, 06 Nov 1994 08:49:37 GMT`, reckoned here and not by the server.
fn parse(date: &str) -> u64 {
    let words: Vec<&str> = date.split([' ', ':']).collect();
    let [weekday, day, month, year, hour, minute, second, "GMT"] = words[..] else {
        panic!("not IMF-fixdate: {date}")
    };
    assert!(weekday.len() == 4 && weekday.ends_with(',') && day.len() == 2, "{date}");
    let number = |word: &str| word.parse::<u64>().unwrap_or_else(|_| panic!("{date}"));
    let months = "JanFebMarAprMayJunJulAugSepOctNovDec";
    let month = months.find(month).unwrap_or_else(|| panic!("{date}")) as u64 / 3;
    let leap = |year: u64| {
        year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400))
    };
    let lengths = [31, 28 + u64::from(leap(number(year))), 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];
    let days = (1970..number(year)).map(|year| 365 + u64::from(leap(year))).sum::<u64>()
        + lengths[..month as usize].iter().sum::<u64>()
        + number(day)
        - 1;
    let names = ["Thu,", "Fri,", "Sat,", "Sun,", "Mon,", "Tue,", "Wed,"];
    assert_eq!(weekday, names[(days % 7) as usize], "{date}");
    ((days * 24 + number(hour)) * 60 + number(minute)) * 60 + number(second)
}

#[test]
fn our_own_responses_say_when_they_were_made() {
    let server = Tidegate::start(&responding(""));
    let seconds = || SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970").as_secs();
    for request in [
        "GET /ping HTTP/1.1\r\nhost: a\r\n\r\n",
        "GET /none HTTP/1.1\r\nhost: a\r\n\r\n",
        "no request at all\r\n\r\n",
    ] {
        let before = seconds();
        let response = server.exchange("web", request);
        let made = parse(response.header("date").expect("a Date"));
        // The clock of a worker may be a moment behind.
        assert!((before - 1..=seconds()).contains(&made), "{response:?}");
    }
}

#[test]
fn an_origins_date_is_kept_and_a_missing_one_added() {
    const OLD: &str = "Sun, 06 Nov 1994 08:49:37 GMT";
    assert_eq!(parse(OLD), 784_111_777);
    let upstream = Upstream::start(|peer| {
        peer.read_head();
        peer.send(format!("HTTP/1.1 200 OK\r\ndate: {OLD}\r\ncontent-length: 0\r\n\r\n"));
        peer.read_head();
        peer.send("HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n");
        peer.at_end();
    });
    let server = Tidegate::start(&behind(&upstream, "").replace("workers: 2", "workers: 1"));
    let mut client = server.connect("web");
    client.send("GET / HTTP/1.1\r\nhost: a\r\n\r\n");
    assert_eq!(client.read_response().header("date"), Some(OLD));
    client.send("GET / HTTP/1.1\r\nhost: a\r\n\r\n");
    assert!(parse(client.read_response().header("date").expect("a Date")) > 1_700_000_000);
}
