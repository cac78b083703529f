//! Valid purges, and requests that purge nothing.

use super::{pairs, parse_purge};
use crate::testing::text;
use cache::{PurgeRequest, PurgeWhat};
use message::Response;
use serde_json::{Value as Json, json};

fn wrong(body: &str) -> String {
    let mut response = Response::from(parse_purge(body).unwrap_err());
    assert_eq!(response.status, 400);
    text(&mut response)
}

#[test]
fn one_thing_is_purged_hard_or_softly() {
    let parse_purge = |body| {
        let PurgeRequest { what, soft } = parse_purge(body)?;
        Ok::<_, crate::problem::Problem>((what, soft))
    };
    let url = PurgeWhat::Url("http://a/".to_owned());
    assert_eq!(parse_purge(r#"{"url": "http://a/"}"#).unwrap(), (url, false));
    let tags = PurgeWhat::Tags(vec!["a".to_owned(), "b".to_owned()]);
    assert_eq!(parse_purge(r#"{"soft": true, "tags": ["a", "b"]}"#).unwrap(), (tags, true));
    let groups = PurgeWhat::Groups(vec!["g".to_owned()]);
    assert_eq!(parse_purge(r#"{"groups": "g"}"#).unwrap(), (groups, false));
    assert_eq!(parse_purge(r#"{"all": true}"#).unwrap(), (PurgeWhat::All, false));
}

#[test]
fn what_is_not_clear_purges_nothing() {
    for (body, expected) in [
        ("", "not JSON"),
        ("[]", "must be a JSON object"),
        ("{}", "says nothing to purge"),
        (r#"{"soft": true}"#, "says nothing to purge"),
        (r#"{"all": false}"#, "must be true"),
        (r#"{"url": ""}"#, "is empty"),
        (r#"{"prefix": ""}"#, "is empty"),
        (r#"{"tags": []}"#, "must be strings"),
        (r#"{"tags": ["a", 1]}"#, "must be strings"),
        (r#"{"url": "http://a/", "tags": ["a"]}"#, "only one of url, prefix"),
        (r#"{"tag": "a"}"#, r#"did you mean \"tags\"?"#),
        (r#"{"url": 1}"#, "must be a string, not 1"),
        (r#"{"all": true, "soft": 1}"#, "\\\"soft\\\" must be true or false"),
    ] {
        let out = wrong(body);
        assert!(out.contains(expected), "{body}: {out}");
    }
}

#[test]
fn parameters_are_decoded() {
    let found = pairs(Some(b"url=http://a/%3Fb%26c&header=x:%20y")).unwrap();
    let found: Vec<_> = found.iter().map(|(key, value)| (key.as_str(), value.as_str())).collect();
    assert_eq!(found, [("url", "http://a/?b&c"), ("header", "x: y")]);
    assert!(pairs(Some(b"url=%ff")).is_err());
}

#[test]
fn a_preview_says_what_a_purge_would_remove_and_removes_nothing() {
    let server = std::rc::Rc::new(crate::testing::FakeServer::new());
    let api = crate::testing::Api(server.clone());
    let preview = |cache: &str, body: &str| {
        let path = format!("/v1/caches/{cache}/preview");
        let (status, _, text) = api.send(wire::Method::Post, &path, None, body);
        (status, serde_json::from_str::<Json>(&text).unwrap())
    };
    let expected = json!({ "responses": 3, "is_upper_bound": false, "urls": ["tags false 20"] });
    assert_eq!(preview("pages", r#"{"tags": ["a"]}"#), (200, expected));
    assert_eq!(preview("pages", r#"{"all": true, "soft": true}"#).1["urls"][0], "all true 20");
    assert_eq!(preview("pages", "{}").0, 400);
    assert_eq!(preview("none", r#"{"all": true}"#).0, 404);
    assert!(server.purged.borrow().is_empty());
}
