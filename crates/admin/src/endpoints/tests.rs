//! The table of endpoints, and what is found in it.

use super::{Action, ENDPOINTS, Guard, find, flag, guard};
use crate::testing::text;
use message::Response;
use wire::{Known, Method};

fn problem(method: Method, path: &str, query: Option<&[u8]>) -> (u16, String) {
    let mut response = Response::from(find(&method, path, query).unwrap_err());
    (response.status, text(&mut response))
}

#[test]
fn every_endpoint_is_found_and_no_two_are_the_same() {
    for endpoint in ENDPOINTS {
        let method = Method::from_bytes(endpoint.method.as_bytes());
        let found = find(&method, endpoint.path, None).unwrap().0;
        assert_eq!(found.action, endpoint.action);
        assert!(endpoint.text.ends_with('.'), "{}", endpoint.text);
    }
    assert_eq!(find(&Method::Head, "/metrics", None).unwrap().0.action, Action::Metrics);
    assert!(find(&Method::Get, "/healthz", Some(b"_=1")).is_ok());
}

#[test]
fn mistyped_paths_and_parameters_get_the_nearest() {
    let (status, text) = problem(Method::Get, "/v1/route", None);
    assert!(status == 404 && text.contains("did you mean /v1/routes?"), "{text}");
    let (status, text) = problem(Method::Post, "/v1/reload", Some(b"wiat"));
    assert!(status == 400 && text.contains("did you mean \\\"wait\\\"?"), "{text}");
    let (status, text) = problem(Method::Get, "/elsewhere/entirely", None);
    assert!(status == 404 && !text.contains("did you mean"), "{text}");
}

#[test]
fn a_name_may_be_anything_but_empty() {
    let found =
        |path| find(&Method::Get, path, None).map(|(endpoint, name)| (endpoint.action, name));
    assert_eq!(found("/v1/caches/pages").unwrap(), (Action::Cache, "pages"));
    assert_eq!(found("/v1/caches/a/b/explain").unwrap(), (Action::CacheExplain, "a/b"));
    assert!(found("/v1/caches/").is_err());
    let (status, _) = problem(Method::Get, "/v1/caches/pages/purge", None);
    assert_eq!(status, 405);
}

#[test]
fn a_wrong_method_names_the_right_ones() {
    let response = Response::from(find(&Method::Delete, "/v1/config", None).unwrap_err());
    assert_eq!(response.status, 405);
    assert_eq!(response.headers.get_str(Known::Allow), Some("GET, PUT, HEAD"));
}

#[test]
fn unknown_paths_are_closed() {
    assert_eq!(guard(&Method::Get, "/healthz"), Guard::Open);
    assert_eq!(guard(&Method::Put, "/healthz"), Guard::Open);
    assert_eq!(guard(&Method::Head, "/v1/config"), Guard::Read);
    assert_eq!(guard(&Method::Put, "/v1/config"), Guard::All);
    assert_eq!(guard(&Method::Delete, "/v1/config"), Guard::Any);
    assert_eq!(guard(&Method::Get, "/no/such"), Guard::Any);
}

#[test]
fn what_changes_something_needs_more_than_reading() {
    for endpoint in ENDPOINTS {
        let may_change = matches!(endpoint.guard, Guard::Purge | Guard::Write | Guard::All);
        let is_check = endpoint.action == Action::CheckConfig;
        assert_eq!(endpoint.is_change(), may_change && !is_check, "{endpoint:?}");
    }
}

#[test]
fn flags() {
    assert!(flag(Some(b"wait"), "wait"));
    assert!(flag(Some(b"a=b&wait=true"), "wait"));
    assert!(!flag(Some(b"wait=false"), "wait"));
    assert!(!flag(Some(b"waiting"), "wait"));
    assert!(!flag(None, "wait"));
}
