//! Applies the rules through the whole filter: a table of first requests, their responses, and how
//! a second request is handled. Time passes by Age.

use net::worker::block_on_local;

use super::site::{Site, done, get_with, response_with};

/// How the second request is handled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum SecondResponse {
    /// The stored response is sent.
    Hit,
    /// The origin is requested without a condition.
    Fetched,
    /// The stored response is revalidated at the origin.
    Revalidated,
    /// The origin is not requested: 504.
    GatewayTimeout,
}

/// Fields, a line each.
fn fields(text: &str) -> Vec<(&str, &str)> {
    let lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
    lines.filter_map(|line| line.split_once(": ")).collect()
}

async fn second(first: &str, (status, declared): (u16, &str), then: &str) -> SecondResponse {
    let (site, mut origin) = Site::plain();
    let route = site.worker(0);
    let client = get_with(&route, "/", &fields(first)).await;
    origin.next_call().await.respond(response_with(status, &fields(declared), "content"));
    let got = done(client).await.unwrap();
    assert_eq!(got.status, status);
    got.text().await.unwrap();
    let mut client = get_with(&route, "/", &fields(then)).await;
    let got = tokio::select! {
        call = origin.next_call() => {
            let confirms = call.field("if-none-match").is_some();
            call.respond(response_with(200, &[], "updated"));
            done(client).await.unwrap();
            return if confirms { SecondResponse::Revalidated } else { SecondResponse::Fetched };
        }
        got = &mut client => got.unwrap(),
    };
    match got {
        Ok(got) => {
            assert!(got.field("cache-status").contains("; hit"), "{:?}", got.headers);
            assert!(got.field("age").parse::<u32>().is_ok());
            SecondResponse::Hit
        }
        Err(fault) => {
            assert_eq!(fault.status, 504);
            SecondResponse::GatewayTimeout
        }
    }
}

/// Section, first request, status and fields of its response, second request, how the second is
/// handled.
type Row = (&'static str, &'static str, u16, &'static str, &'static str, SecondResponse);

const TABLE: &[Row] = {
    use SecondResponse::{Fetched, GatewayTimeout, Hit, Revalidated};
    &[
        ("3", "", 200, "cache-control: max-age=600", "", Hit),
        ("3", "", 200, "", "", Fetched),
        ("3", "", 200, "cache-control: max-age=600, no-store", "", Fetched),
        ("3", "", 200, "cache-control: max-age=600, private", "", Fetched),
        ("3", "", 404, "cache-control: max-age=600", "", Hit),
        ("3", "", 599, "cache-control: max-age=600", "", Hit),
        ("3", "", 429, "cache-control: max-age=600", "", Fetched),
        ("3.1", "", 200, "cache-control: max-age=600\nset-cookie: a=b", "", Fetched),
        (
            "3.1",
            "",
            200,
            "cache-control: max-age=600, private=\"set-cookie\"\nset-cookie: a=b",
            "",
            Hit,
        ),
        ("3.3", "", 206, "cache-control: max-age=600\ncontent-range: bytes 0-6/9", "", Fetched),
        ("3.3", "", 200, "cache-control: max-age=600\ncontent-range: bytes 0-6/9", "", Hit),
        ("3.5", "authorization: a", 200, "cache-control: max-age=600", "", Fetched),
        ("3.5", "authorization: a", 200, "cache-control: max-age=600", "authorization: a", Fetched),
        (
            "3.5",
            "authorization: a",
            200,
            "cache-control: max-age=600, public",
            "authorization: b",
            Hit,
        ),
        ("3.5", "authorization: a", 200, "cache-control: s-maxage=600", "", Hit),
        ("4.1", "x: 1", 200, "cache-control: max-age=600\nvary: x", "x: 1", Hit),
        ("4.1", "x: 1", 200, "cache-control: max-age=600\nvary: x", "x: 2", Fetched),
        ("4.1", "x: 1", 200, "cache-control: max-age=600\nvary: x", "", Fetched),
        ("4.1", "", 200, "cache-control: max-age=600\nvary: *", "", Fetched),
        (
            "4.1",
            "accept-encoding: br",
            200,
            "cache-control: max-age=600\nvary: accept-encoding",
            "accept-encoding: gzip",
            Hit,
        ),
        ("4.2", "", 200, "cache-control: max-age=600\nage: 500", "", Hit),
        ("4.2", "", 200, "cache-control: max-age=600\nage: 600\netag: \"a\"", "", Revalidated),
        ("4.2", "", 200, "expires: Fri, 01 Jan 2100 00:00:00 GMT", "", Hit),
        ("5.3", "", 200, "expires: 0\netag: \"a\"", "", Revalidated),
        ("5.3", "", 200, "cache-control: max-age=600\nexpires: 0", "", Hit),
        ("4.2.1", "", 200, "cache-control: max-age=x\netag: \"a\"", "", Revalidated),
        (
            "4.2.4",
            "",
            200,
            "cache-control: max-age=600\nage: 610\netag: \"a\"",
            "cache-control: max-stale",
            Hit,
        ),
        (
            "4.2.4",
            "",
            200,
            "cache-control: max-age=600, must-revalidate\nage: 610\netag: \"a\"",
            "cache-control: max-stale",
            Revalidated,
        ),
        (
            "5.2.1.1",
            "",
            200,
            "cache-control: max-age=600\nage: 9\netag: \"a\"",
            "cache-control: max-age=8",
            Revalidated,
        ),
        (
            "5.2.1.3",
            "",
            200,
            "cache-control: max-age=600\nage: 9\netag: \"a\"",
            "cache-control: min-fresh=595",
            Revalidated,
        ),
        (
            "5.2.1.4",
            "",
            200,
            "cache-control: max-age=600\netag: \"a\"",
            "cache-control: no-cache",
            Revalidated,
        ),
        (
            "5.4",
            "",
            200,
            "cache-control: max-age=600\netag: \"a\"",
            "pragma: no-cache",
            Revalidated,
        ),
        ("5.2.1.5", "cache-control: no-store", 200, "cache-control: max-age=600", "", Fetched),
        ("5.2.1.5", "", 200, "cache-control: max-age=600", "cache-control: no-store", Hit),
        ("5.2.1.7", "", 200, "cache-control: max-age=600", "cache-control: only-if-cached", Hit),
        (
            "5.2.1.7",
            "",
            200,
            "cache-control: max-age=9\nage: 9\netag: \"a\"",
            "cache-control: only-if-cached",
            GatewayTimeout,
        ),
        ("5.2.1.7", "", 200, "", "cache-control: only-if-cached", GatewayTimeout),
        ("5.2.2.3", "", 200, "cache-control: max-age=600, no-store, must-understand", "", Hit),
        ("5.2.2.4", "", 200, "cache-control: max-age=600, no-cache\netag: \"a\"", "", Revalidated),
        ("5.2.2.4", "", 200, "cache-control: max-age=600, no-cache=\"x\"\nx: 1", "", Hit),
        (
            "RFC 5861 3",
            "",
            200,
            "cache-control: max-age=9, stale-while-revalidate=9\nage: 19\netag: \"a\"",
            "",
            Revalidated,
        ),
        (
            "RFC 8246",
            "",
            200,
            "cache-control: max-age=600, immutable\nage: 9",
            "cache-control: max-age=0",
            Hit,
        ),
        ("RFC 9213", "", 200, "cache-control: no-store\ncdn-cache-control: max-age=600", "", Hit),
        (
            "RFC 9213",
            "",
            200,
            "cache-control: max-age=600\ntidegate-cache-control: no-store",
            "",
            Fetched,
        ),
        ("RFC 9213", "", 200, "cache-control: max-age=600\ncdn-cache-control: max-age=,", "", Hit),
    ]
};

#[test]
fn what_the_rules_say_is_done() {
    block_on_local(async {
        let mut wrong = Vec::new();
        for &(section, first, status, declared, then, expected) in TABLE {
            let became = second(first, (status, declared), then).await;
            if became != expected {
                wrong.push(format!(
                    "{section}: {declared:?}, then {then:?}: {became:?}, not {expected:?}"
                ));
            }
        }
        assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    });
}
