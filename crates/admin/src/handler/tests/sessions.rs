//! Sessions of the console: login, logout, expiry, and requests of other pages.

use super::*;
use crate::limits::{SESSION_IDLE, SESSION_LIFETIME, SESSIONS};
use crate::testing::text;
use config::AdminRole::{All, Read};
use net::manual_time::{advance, block_on};
use std::time::Duration;

const HOST: (&str, &str) = ("host", "localhost:9180");
const JSON: (&str, &str) = ("content-type", "application/json");
const LOGIN: &str = r#"{"token": "r-token"}"#;

fn bench() -> Bench {
    Bench::of(access(&[(Read, "r-token"), (All, "a-token")]))
}

/// A client that has logged in.
struct LoggedIn {
    cookie: String,
    proof: String,
}

async fn respond(bench: &Bench, mut request: Request) -> Response {
    bench.admin.handle(&mut request).resolve().await.unwrap()
}

async fn log_in(bench: &Bench) -> LoggedIn {
    let mut response = respond(bench, request("POST /v1/session", &[HOST, JSON], LOGIN)).await;
    assert_eq!(response.status, 200);
    let set = response.headers.get_str(Known::SetCookie).unwrap().to_owned();
    let cookie = set.split(';').next().unwrap().to_owned();
    let body = response.body.collect(1 << 20).await.unwrap();
    let body: Json = serde_json::from_slice(&body).unwrap();
    LoggedIn { cookie, proof: body["proof"].as_str().unwrap().to_owned() }
}

impl LoggedIn {
    async fn status(&self, bench: &Bench, line: &str, more: &[(&str, &str)]) -> u16 {
        let own = [("cookie", self.cookie.as_str()), ("tidegate-session", &self.proof)];
        respond(bench, request(line, &[&[HOST], &own[..], more].concat(), "")).await.status
    }
}

#[test]
fn a_session_has_the_role_of_its_token_until_it_ends() {
    let bench = bench();
    block_on(async {
        let client = log_in(&bench).await;
        assert_eq!(client.status(&bench, "GET /v1/routes", &[]).await, 200);
        assert_eq!(client.status(&bench, "POST /v1/drain", &[]).await, 403);
        assert_eq!(client.status(&bench, "DELETE /v1/session", &[]).await, 204);
        assert_eq!(client.status(&bench, "GET /v1/routes", &[]).await, 401);
    });
}

#[test]
fn the_cookie_is_for_no_script_no_other_site_and_no_other_path() {
    let bench = bench();
    let mut response = block_on(respond(&bench, request("POST /v1/session", &[HOST, JSON], LOGIN)));
    let cookie = response.headers.get_str(Known::SetCookie).unwrap().to_owned();
    for attribute in ["; Path=/v1/", "; Max-Age=43200", "; HttpOnly", "; SameSite=Strict"] {
        assert!(cookie.contains(attribute), "{cookie}");
    }
    let body = text(&mut response);
    let value = cookie.split(['=', ';']).nth(1).unwrap();
    assert!(value.len() > 40 && !body.contains(value) && !body.contains("r-token"), "{body}");
}

#[test]
fn the_cookie_alone_opens_nothing() {
    let bench = bench();
    block_on(async {
        let client = log_in(&bench).await;
        let cookie = ("cookie", client.cookie.as_str());
        let only = |fields: &[(&str, &str)]| request("GET /v1/routes", fields, "");
        assert_eq!(respond(&bench, only(&[HOST, cookie])).await.status, 403);
        let wrong = [HOST, cookie, ("tidegate-session", "guess")];
        assert_eq!(respond(&bench, only(&wrong)).await.status, 403);
        let proof = ("tidegate-session", client.proof.as_str());
        assert_eq!(respond(&bench, only(&[HOST, proof])).await.status, 401);
        let other = log_in(&bench).await;
        let mixed = [HOST, cookie, ("tidegate-session", other.proof.as_str())];
        assert_eq!(respond(&bench, only(&mixed)).await.status, 403);
        assert_eq!(client.status(&bench, "GET /v1/routes", &[]).await, 200);
    });
}

#[test]
fn requests_of_other_pages_and_of_foreign_names_are_refused() {
    let bench = bench();
    block_on(async {
        let client = log_in(&bench).await;
        for (fields, expected) in [
            (&[("sec-fetch-site", "same-origin")][..], 202),
            (&[("origin", "http://localhost:9180")], 202),
            (&[("sec-fetch-site", "same-site")], 403),
            (&[("sec-fetch-site", "cross-site")], 403),
            (&[("origin", "http://localhost:8080")], 403),
            (&[("origin", "null")], 403),
            (&[("origin", "http://localhost:9180"), ("origin", "http://a")], 403),
        ] {
            let token = [&[("authorization", "Bearer a-token"), HOST], fields].concat();
            let got = respond(&bench, request("POST /v1/reload", &token, "")).await.status;
            assert_eq!(got, 202, "a bearer token is sent by no page");
            // The role of this session may not reload, which is decided after the origin.
            let expected = if expected == 202 { 200 } else { expected };
            assert_eq!(client.status(&bench, "GET /v1/routes", fields).await, expected);
            let login = [&[HOST, JSON], fields].concat();
            let got = respond(&bench, request("POST /v1/session", &login, LOGIN)).await.status;
            assert_eq!(got, expected, "{fields:?}");
        }
        let rebound = [
            ("host", "rebound.example:9180"),
            ("cookie", client.cookie.as_str()),
            ("tidegate-session", &client.proof),
        ];
        assert_eq!(respond(&bench, request("GET /v1/routes", &rebound, "")).await.status, 421);
        let login = [("host", "rebound.example:9180"), JSON];
        let refused = respond(&bench, request("POST /v1/session", &login, LOGIN)).await;
        assert_eq!(refused.status, 421);
    });
}

#[test]
fn a_login_with_another_token_or_in_another_form_is_refused() {
    let bench = bench();
    let send = |fields: &[(&str, &str)], body| {
        bench.send(request("POST /v1/session", &[&[HOST], fields].concat(), body))
    };
    assert_eq!(send(&[JSON], r#"{"token": "x-token"}"#).status, 401);
    assert_eq!(send(&[JSON], r#"{"token": ""}"#).status, 401);
    assert_eq!(send(&[JSON], r#"{"token": 5}"#).status, 400);
    let mistyped = send(&[JSON], r#"{"tokne": "x"}"#);
    assert!(mistyped.status == 400 && mistyped.body.contains("did you mean"), "{}", mistyped.body);
    assert_eq!(send(&[("content-type", "text/plain")], LOGIN).status, 415);
    let off = Bench::of(Access { console: false, ..access(&[(Read, "r-token")]) });
    assert_eq!(off.send(request("POST /v1/session", &[HOST, JSON], LOGIN)).status, 404);
    let locked = Bench::of(access(&[]));
    assert_eq!(locked.send(request("POST /v1/session", &[HOST, JSON], LOGIN)).status, 403);
}

#[test]
fn a_session_ends_without_requests_and_after_its_lifetime() {
    let bench = bench();
    block_on(async {
        let idle = log_in(&bench).await;
        advance(SESSION_IDLE - Duration::from_secs(1)).await;
        assert_eq!(idle.status(&bench, "GET /v1/routes", &[]).await, 200);
        advance(SESSION_IDLE).await;
        assert_eq!(idle.status(&bench, "GET /v1/routes", &[]).await, 401);

        let busy = log_in(&bench).await;
        let half = SESSION_IDLE / 2;
        let mut left = SESSION_LIFETIME;
        while left > half {
            advance(half).await;
            left -= half;
            assert_eq!(busy.status(&bench, "GET /v1/routes", &[]).await, 200, "{left:?}");
        }
        advance(left).await;
        assert_eq!(busy.status(&bench, "GET /v1/routes", &[]).await, 401);
    });
}

#[test]
fn a_live_log_ends_with_its_session() {
    let bench = bench();
    block_on(async {
        let client = log_in(&bench).await;
        let fields = [HOST, ("cookie", &client.cookie), ("tidegate-session", &client.proof)];
        let mut response = respond(&bench, request("GET /v1/log", &fields, "")).await;
        assert_eq!(response.status, 200);
        assert_eq!(client.status(&bench, "DELETE /v1/session", &[]).await, 204);
        let body = net::task::spawn_local(async move { response.body.collect(1 << 20).await });
        advance(Duration::from_secs(1)).await;
        assert_eq!(&*body.await.unwrap().unwrap(), b"\n", "the first line, and no more");
    });
}

#[test]
fn the_number_of_sessions_is_limited() {
    let bench = bench();
    block_on(async {
        let first = log_in(&bench).await;
        let second = log_in(&bench).await;
        advance(Duration::from_secs(1)).await;
        assert_eq!(first.status(&bench, "GET /v1/routes", &[]).await, 200);
        for _ in 2..=SESSIONS {
            log_in(&bench).await;
        }
        assert_eq!(second.status(&bench, "GET /v1/routes", &[]).await, 401, "unused for longest");
        assert_eq!(first.status(&bench, "GET /v1/routes", &[]).await, 200);
    });
}

#[test]
fn a_reload_that_removes_the_token_ends_its_sessions() {
    let before = bench();
    block_on(async {
        let client = log_in(&before).await;
        let sessions = before.admin.access.sessions.clone();
        let kept = Access { sessions: sessions.clone(), ..access(&[(All, "r-token")]) };
        let kept = Bench::of(kept);
        assert_eq!(client.status(&kept, "POST /v1/reload", &[]).await, 202, "another role");
        let removed = Bench::of(Access { sessions, ..access(&[(All, "a-token")]) });
        assert_eq!(client.status(&removed, "GET /v1/routes", &[]).await, 401);
        assert_eq!(client.status(&kept, "GET /v1/routes", &[]).await, 401, "it does not return");
    });
}
