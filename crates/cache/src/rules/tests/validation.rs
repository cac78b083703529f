//! RFC 9111 4.3.1 to 4.3.3: conditions to the origin, and those of clients.

use wire::conditional::PreconditionResult;

use super::{NOW, date, fields, lines};
use crate::rules::{conditions, precondition, validate};

fn conditions(stored: &str) -> Vec<String> {
    let mut request = fields("Accept: a");
    validate::add_conditions(&fields(stored), &mut request);
    lines(&request)[1..].to_vec()
}

#[test]
fn s4_3_1_the_entity_tag_is_sent() {
    assert_eq!(conditions("ETag: \"a\""), ["If-None-Match: \"a\""]);
    assert_eq!(conditions("ETag: W/\"a\""), ["If-None-Match: W/\"a\""]);
}

#[test]
fn s4_3_1_the_last_modified_date_is_sent() {
    let modified = date(-9);
    assert_eq!(
        conditions(&format!("ETag: \"a\"\nLast-Modified: {modified}")),
        ["If-None-Match: \"a\"".to_owned(), format!("If-Modified-Since: {modified}")]
    );
}

#[test]
fn s4_3_1_without_validators_there_is_no_condition() {
    assert!(conditions("Date: x").is_empty());
}

fn outcome(request: &str, status: u16, stored: &str) -> PreconditionResult {
    let (request, stored) = (fields(request), fields(stored));
    let etag = stored.get("ETag");
    conditions::conditions(&request, status, &stored, [etag, Some(b"\"origin\"")], NOW)
}

const TAGGED: &str = "ETag: \"a\"";

#[test]
fn s4_3_2_if_none_match_is_evaluated() {
    for matching in ["\"a\"", "W/\"a\"", "\"b\", \"a\"", "*", "\"origin\""] {
        let verdict = outcome(&format!("If-None-Match: {matching}"), 200, TAGGED);
        assert_eq!(verdict, PreconditionResult::NotModified, "{matching}");
    }
    let lines = "If-None-Match: \"b\"\nIf-None-Match: \"a\"";
    assert_eq!(outcome(lines, 200, TAGGED), PreconditionResult::NotModified);
    for other in ["\"b\"", "a", "\"A\"", "\"a-gzip\""] {
        let verdict = outcome(&format!("If-None-Match: {other}"), 200, TAGGED);
        assert_eq!(verdict, PreconditionResult::Proceed, "{other}");
    }
}

#[test]
fn s4_3_2_if_modified_since_is_evaluated() {
    let requested = |offset_s| format!("If-Modified-Since: {}", date(offset_s));
    let modified = format!("Last-Modified: {}\nDate: {}", date(-50), date(-10));
    assert_eq!(outcome(&requested(-50), 200, &modified), PreconditionResult::NotModified);
    assert_eq!(outcome(&requested(-49), 200, &modified), PreconditionResult::NotModified);
    assert_eq!(outcome(&requested(-51), 200, &modified), PreconditionResult::Proceed);
    let dated = format!("Date: {}", date(-10));
    assert_eq!(outcome(&requested(-10), 200, &dated), PreconditionResult::NotModified);
    assert_eq!(outcome(&requested(-11), 200, &dated), PreconditionResult::Proceed);
    assert_eq!(
        outcome(&requested(0), 200, ""),
        PreconditionResult::NotModified,
        "when it was received"
    );
    assert_eq!(outcome(&requested(-1), 200, ""), PreconditionResult::Proceed);
}

#[test]
fn s4_3_2_if_none_match_silences_if_modified_since() {
    let request = format!("If-None-Match: \"b\"\nIf-Modified-Since: {}", date(0));
    assert_eq!(outcome(&request, 200, TAGGED), PreconditionResult::Proceed);
}

#[test]
fn rfc9110_s13_2_1_other_responses_than_200_have_no_conditions() {
    for status in [404, 301, 204, 500] {
        assert_eq!(
            outcome("If-None-Match: *", status, TAGGED),
            PreconditionResult::Proceed,
            "{status}"
        );
    }
}

#[test]
fn rfc9110_s13_1_1_the_origin_gets_its_own_tags() {
    let sent = |value: &str| {
        let mut request = fields(&format!("If-Match: {value}"));
        precondition::restore_tags(&mut request);
        lines(&request)[1..].to_vec()
    };
    assert_eq!(sent("\"a-gzip\""), ["If-Match: \"a\""]);
    let several = "\"a-br\", \"b\" , \"c,d-identity\",\"e-zstd\"";
    assert_eq!(sent(several), ["If-Match: \"a\", \"c,d\", \"e\""]);
    for untouched in ["\"a\"", "*", "W/\"a-gzip\"", "a-gzip", "\"a-gzip", "\"-gzip-a\""] {
        assert!(sent(untouched).is_empty(), "{untouched}");
    }
    let mut none = fields("If-None-Match: \"a-gzip\"");
    precondition::restore_tags(&mut none);
    assert_eq!(none.len(), 1);
}

#[test]
fn s4_3_3_what_the_response_to_a_validation_means() {
    let declared = |status, text: &str| validate::classify(&fields(TAGGED), status, &fields(text));
    assert_eq!(declared(304, "ETag: \"a\""), validate::ValidationResponse::Revalidated);
    assert_eq!(declared(304, "ETag: \"b\""), validate::ValidationResponse::OtherRepresentation);
    for status in [200, 203, 206, 301, 404, 410, 501, 505, 520] {
        assert_eq!(declared(status, ""), validate::ValidationResponse::Full, "{status}");
    }
}

#[test]
fn rfc5861_s4_which_responses_are_errors() {
    for status in [500, 502, 503, 504] {
        let declared = validate::classify(&fields(TAGGED), status, &fields(""));
        assert_eq!(declared, validate::ValidationResponse::ServerError, "{status}");
    }
}
