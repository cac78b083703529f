//! Every endpoint against a server that only pretends.

mod changes;
mod console;
mod documents;
mod roles;
mod sessions;

use super::Admin;
use crate::access::Access;
use crate::control::{ReloadStatus, ServerState};
use crate::testing::{FakeServer, access};
use bytes::Bytes;
use config::AdminRole;
use message::{Body, ConnectionFacts, Headers, Request, Response, Target};
use net::Peer;
use plugin::Handler;
use serde_json::Value as Json;
use std::rc::Rc;
use telemetry::families;
use wire::{Known, Method};

const TOKEN: &str = "s3cret-token";

struct Bench {
    server: Rc<FakeServer>,
    admin: Admin,
}

impl Bench {
    fn new() -> Self {
        Self::with(Some(TOKEN), true)
    }

    fn with(token: Option<&str>, metrics_open: bool) -> Self {
        let tokens: Vec<_> = token.into_iter().map(|token| (AdminRole::All, token)).collect();
        let access = Access { metrics_open, ..access(&tokens) };
        Self::of(access)
    }

    fn of(access: Access) -> Self {
        let server = Rc::new(FakeServer::new());
        Self { admin: Admin::new(access, server.clone()), server }
    }

    /// Sends a request with the operator's token.
    fn send_request(
        &self,
        line: &str,
        fields: &[(&str, &str)],
        body: &'static str,
    ) -> TestResponse {
        let bearer = format!("Bearer {TOKEN}");
        let fields = [&[("authorization", bearer.as_str())], fields].concat();
        self.send(request(line, &fields, body))
    }

    fn send(&self, mut request: Request) -> TestResponse {
        net::worker::block_on_local(async {
            let outcome = self.admin.handle(&mut request).resolve().await;
            TestResponse::new(outcome.unwrap()).await
        })
    }
}

struct TestResponse {
    status: u16,
    headers: Headers,
    body: String,
}

impl TestResponse {
    async fn new(mut response: Response) -> Self {
        let body = response.body.collect(1 << 20).await.unwrap();
        let body = String::from_utf8(body.to_vec()).unwrap();
        Self { status: response.status, headers: response.headers, body }
    }

    fn json(&self) -> Json {
        serde_json::from_str(&self.body).unwrap_or_else(|e| panic!("{e}: {}", self.body))
    }

    fn field(&self, name: Known) -> &str {
        self.headers.get_str(name).unwrap_or_default()
    }
}

fn request(line: &str, fields: &[(&str, &str)], body: &'static str) -> Request {
    let (method, target) = line.split_once(' ').unwrap();
    let mut headers = Headers::new();
    for (name, value) in fields {
        headers.append(*name, value);
    }
    let target = Target::new(Bytes::copy_from_slice(target.as_bytes())).unwrap();
    let mut request = Request::made_up(Method::from_bytes(method.as_bytes()), target, headers);
    request.body = Body::from(body);
    request
}

fn over_unix(mut request: Request) -> Request {
    request.facts = Rc::new(ConnectionFacts { peer: Peer::Unix, ..ConnectionFacts::internal() });
    request
}

#[test]
fn tokens() {
    let bench = Bench::new();
    let send_request = |fields: &[(&str, &str)]| bench.send(request("GET /v1/routes", fields, ""));
    let without = send_request(&[]);
    assert_eq!((without.status, without.field(Known::WwwAuthenticate)), (401, "Bearer"));
    let wrong = send_request(&[("authorization", "Bearer s3cret-tokeN")]);
    assert_eq!(wrong.status, 401);
    assert!(wrong.field(Known::WwwAuthenticate).contains("invalid_token"));
    assert!(!wrong.body.contains(TOKEN));
    assert_eq!(send_request(&[("authorization", "Basic s3cret-token")]).status, 401);
    assert_eq!(send_request(&[("authorization", "bearer s3cret-token")]).status, 200);
    assert_eq!(bench.send(over_unix(request("GET /v1/routes", &[], ""))).status, 200);
    assert_eq!(bench.send(request("GET /v1/nonsense", &[], "")).status, 401);
    assert_eq!(bench.send_request("GET /v1/nonsense", &[], "").status, 404);
    assert_eq!(bench.send(request("PUT /healthz", &[], "")).status, 405);
}

#[test]
fn without_a_token_only_the_socket_and_the_open_endpoints_serve() {
    let bench = Bench::with(None, true);
    let closed = bench.send(request("GET /v1/routes", &[("authorization", "Bearer ")], ""));
    assert_eq!(closed.status, 403);
    assert!(closed.json()["advice"].as_str().unwrap().contains("admin.token"));
    assert_eq!(bench.send(over_unix(request("GET /v1/routes", &[], ""))).status, 200);
    for path in ["GET /healthz", "GET /readyz", "GET /metrics"] {
        assert_eq!(bench.send(request(path, &[], "")).status, 200, "{path}");
    }
    let tokened = Bench::with(Some(TOKEN), false);
    assert_eq!(tokened.send(request("GET /metrics", &[], "")).status, 401);
    assert_eq!(tokened.send_request("GET /metrics", &[], "").status, 200);
}

#[test]
fn health_and_readiness() {
    let bench = Bench::new();
    assert_eq!(bench.send(request("GET /healthz", &[], "")).body, "ok\n");
    assert_eq!(bench.send(request("GET /readyz", &[], "")).body, "ready\n");
    let errors = vec!["tidegate.yaml:3:1: unknown key \"tiemout\"".to_owned()];
    *bench.server.last_reload.borrow_mut() = Some(ReloadStatus { at_ms: 5_000, errors });
    let refused = bench.send(request("GET /readyz", &[], ""));
    assert_eq!(refused.status, 200, "the configuration before it serves");
    assert!(refused.body.contains("tidegate.yaml:3:1"), "{}", refused.body);
    for state in [ServerState::Starting, ServerState::Draining] {
        bench.server.state.set(state);
        let unready = bench.send(request("GET /readyz", &[("accept", "application/json")], ""));
        assert_eq!(unready.status, 503);
        assert_eq!(unready.json()["state"], state.slug());
        assert_eq!(bench.send(request("GET /healthz", &[], "")).status, 200);
    }
}

#[test]
fn metrics() {
    let bench = Bench::new();
    bench.server.telemetry.worker(0).count_response(200);
    let answer = bench.send(request("GET /metrics", &[], ""));
    assert_eq!(answer.field(Known::ContentType), "text/plain; version=0.0.4; charset=utf-8");
    assert!(answer.body.contains("tidegate_responses_total{class=\"2xx\"} 1\n"));
    assert_eq!(answer.field(Known::CacheControl), "no-store");
}

#[test]
fn the_configuration_is_read_with_its_version() {
    let bench = Bench::new();
    let answer = bench.send_request("GET /v1/config", &[], "");
    assert_eq!((answer.status, answer.body.as_str()), (200, "workers: auto\n"));
    assert_eq!(answer.field(Known::ContentType), "application/yaml");
    assert_eq!(answer.field(Known::Etag), "\"v1\"");
    let same = bench.send_request("GET /v1/config", &[("if-none-match", "\"v0\", W/\"v1\"")], "");
    assert_eq!((same.status, same.body.as_str()), (304, ""));
}

#[test]
fn a_foreign_name_reads_nothing() {
    let bench = Bench::new();
    let status = |path: &str, host: &'static str| {
        bench.send(request(&format!("GET {path}"), &[("host", host)], "")).status
    };
    for host in ["127.0.0.1:9180", "[::1]:9180", "localhost", "tidegate:9180", "Metrics.Internal"] {
        assert_eq!(status("/metrics", host), 200, "{host}");
    }
    for path in ["/metrics", "/readyz", "/healthz"] {
        assert_eq!(status(path, "rebound.example:9180"), 421, "{path}");
    }
    // The token protects against DNS rebinding.
    let answer = bench.send_request("GET /v1/status", &[("host", "rebound.example")], "");
    assert_eq!(answer.status, 200);
}

#[test]
fn secrets_are_masked_unless_they_may_be_seen() {
    let bench = Bench::new();
    let fields = [("content-type", "application/yaml"), ("if-match", "*")];
    assert_eq!(bench.send_request("PUT /v1/config", &fields, "token: hidden\n").status, 200);
    let answer = bench.send_request("GET /v1/config", &[], "");
    assert_eq!((answer.status, answer.body.as_str()), (200, "token: ***\n"));
    assert_eq!(answer.field(Known::Etag), "\"v2\"");
    let refused = bench.send_request("GET /v1/config?secrets", &[], "");
    assert_eq!(refused.status, 403);
    assert!(!refused.body.contains("hidden"));
    let mut local = request("GET /v1/config?secrets", &[], "");
    local.facts = Rc::new(ConnectionFacts { peer: Peer::Unix, ..(*local.facts).clone() });
    let local = bench.send(local);
    assert_eq!((local.status, local.body.as_str()), (200, "token: hidden\n"));
}

#[test]
fn a_faulty_json_body_is_reported_as_json() {
    let bench = Bench::new();
    let fields = [("content-type", "application/json"), ("if-match", "*")];
    let answer = bench.send_request("PUT /v1/config", &fields, "{\n  \"workers\": 2,\n}");
    assert_eq!(answer.status, 422);
    let body = answer.json();
    assert!(body["detail"].as_str().unwrap().starts_with("the body is not JSON"), "{body}");
    assert!(!answer.body.to_lowercase().contains("yaml"), "{body}");
    let place = &body["errors"][0];
    assert_eq!((place["line"].as_u64(), place["column"].as_u64()), (Some(3), Some(1)), "{body}");
}

#[test]
fn the_configuration_is_replaced_whole_or_not() {
    let bench = Bench::new();
    let yaml = ("content-type", "application/yaml; charset=utf-8");
    let put = |fields: &[(&str, &str)], body| bench.send_request("PUT /v1/config", fields, body);

    let blind = put(&[yaml], "workers: 2\n");
    assert_eq!(blind.status, 428);
    assert!(blind.json()["advice"].as_str().unwrap().contains("If-Match"));
    let typeless = put(&[("content-type", "text/html"), ("if-match", "*")], "workers: 2\n");
    assert_eq!(typeless.status, 415);
    assert!(typeless.json()["detail"].as_str().unwrap().contains("text/html"));

    let done = put(&[yaml, ("if-match", "\"v1\"")], "workers: 2\n");
    assert_eq!((done.status, done.field(Known::Etag)), (200, "\"v2\""));
    assert_eq!(done.json()["changes"][0], "route \"a\" added");
    assert_eq!(bench.server.text.borrow().as_str(), "workers: 2\n");

    let stale = put(&[yaml, ("if-match", "\"v1\"")], "workers: 3\n");
    assert_eq!((stale.status, stale.field(Known::Etag)), (412, "\"v2\""));
    assert_eq!(put(&[yaml, ("if-match", "W/\"v2\"")], "workers: 3\n").status, 412);
    assert_eq!(put(&[yaml, ("if-match", "")], "workers: 3\n").status, 400);
    let json = ("content-type", "application/json");
    assert_eq!(put(&[json, ("if-match", "\"v0\", \"v2\"")], "{}").status, 200);
    assert_eq!(put(&[yaml, ("if-match", "*")], "workers: 4\n").status, 200);
    assert_eq!(bench.server.version.get(), 4);
}

#[test]
fn refusals_say_why_and_change_nothing() {
    let bench = Bench::new();
    let fields = [("content-type", "application/yaml"), ("if-match", "*")];
    let put = |body| bench.send_request("PUT /v1/config", &fields, body);

    let wrong = put("wrong: 1\n");
    assert_eq!((wrong.status, wrong.field(Known::ContentType)), (422, "application/problem+json"));
    let problem = wrong.json();
    assert!(problem["detail"].as_str().unwrap().contains("2 errors"));
    let placed = problem["errors"].as_array().unwrap().iter().find(|m| m["line"] == 1).unwrap();
    assert_eq!(placed["file"], "tidegate.yaml");
    assert_eq!(placed["column"], 1);
    assert_eq!(placed["message"], "unknown key \"wrong\"");
    assert_eq!(placed["help"], "leave it out");
    let placeless = problem["errors"].as_array().unwrap().iter().find(|m| m["file"].is_null());
    assert!(placeless.unwrap()["line"].is_null());
    assert!(problem["text"].as_str().unwrap().contains("--> tidegate.yaml:1:1"));

    let taken = put("taken\n");
    assert_eq!(taken.status, 409);
    assert!(taken.json()["detail"].as_str().unwrap().contains("127.0.0.1:80"));
    bench.server.read_only.set(true);
    assert_eq!(put("workers: 2\n").status, 409);
    bench.server.busy.set(true);
    let busy = put("workers: 2\n");
    assert_eq!((busy.status, busy.field(Known::RetryAfter)), (503, "1"));
    assert_eq!(bench.server.version.get(), 1);
}

#[test]
fn a_body_too_large_or_not_text_is_refused() {
    let bench = Bench::new();
    let bearer = format!("Bearer {TOKEN}");
    let fields = [
        ("authorization", bearer.as_str()),
        ("content-type", "application/yaml"),
        ("if-match", "*"),
    ];
    let mut large = request("PUT /v1/config", &fields, "");
    large.body = Body::from("#".repeat(crate::limits::CONFIG_BYTES as usize + 1));
    assert_eq!(bench.send(large).status, 413);
    let mut binary = request("PUT /v1/config", &fields, "");
    binary.body = Body::from(Bytes::from_static(b"workers: \xff\n"));
    let refused = bench.send(binary);
    assert_eq!(refused.status, 400);
    assert!(refused.body.contains("byte 9"), "{}", refused.body);
}

#[test]
fn history_and_rollback() {
    let bench = Bench::new();
    let history = bench.send_request("GET /v1/config/history", &[], "").json();
    assert_eq!(history["versions"][0]["current"], true);
    assert_eq!(history["versions"][1]["at"], "1970-01-01T00:00:01.000Z");
    let back = |body| bench.send_request("POST /v1/config/rollback", &[], body);
    assert_eq!(back("{\"version\": \"v0\"}").status, 200);
    assert_eq!(bench.server.text.borrow().as_str(), "workers: 1\n");
    assert_eq!(back("{\"version\": \"v77\"}").status, 404);
    assert_eq!(back("{\"versoin\": \"v0\"}").status, 400);
    assert_eq!(back("v0").status, 400);
    let stale = bench.send_request(
        "POST /v1/config/rollback",
        &[("if-match", "\"v1\"")],
        "{\"version\": \"v0\"}",
    );
    assert_eq!(stale.status, 412);
}

#[test]
fn reload_and_drain() {
    let bench = Bench::new();
    assert_eq!(bench.send_request("POST /v1/reload", &[], "").status, 202);
    assert_eq!((bench.server.reloads_requested.get(), bench.server.version.get()), (1, 1));
    let waited = bench.send_request("POST /v1/reload?wait", &[], "");
    assert_eq!((waited.status, waited.json()["version"].as_str()), (200, Some("v2")));
    "wrong".clone_into(&mut bench.server.text.borrow_mut());
    assert_eq!(bench.send_request("POST /v1/reload?wait=1", &[], "").status, 422);
    assert_eq!(bench.send_request("GET /v1/reload", &[], "").status, 405);
    assert_eq!(bench.send_request("POST /v1/drain", &[], "").status, 202);
    assert_eq!(bench.server.state.get(), ServerState::Draining);
}

#[test]
fn what_the_server_is_made_of() {
    let bench = Bench::new();
    bench.server.telemetry.route(0, "shop").finished(200, 1_500);
    let worker = bench.server.telemetry.worker(0);
    worker.connections_accepted.add(7);
    worker.lua.vms.inc();
    worker.lua.memory_bytes.set(2048);
    let routes = bench.send_request("GET /v1/routes", &[], "").json();
    assert_eq!(routes["routes"][0]["requests"]["2xx"], 1);
    assert_eq!(routes["routes"][0]["latency_below_us"]["p99"], 2_000);
    let upstreams = bench.send_request("GET /v1/upstreams", &[], "").json();
    assert_eq!(upstreams["upstreams"][0]["healthy"], 1);
    assert_eq!(upstreams["upstreams"][0]["servers"][1]["last_error"], "connection refused");
    let telemetry = &bench.server.telemetry;
    let labels = ["database"];
    telemetry.worker_counter(0, &families::STREAM_CONNECTIONS, &labels).add(3);
    telemetry.worker_counter(0, &families::STREAM_RECEIVED, &labels).add(5);
    let active = telemetry.worker_gauge(0, &families::STREAM_ACTIVE, &labels);
    active.inc();
    telemetry.counter(&families::STREAM_CLOSED, &["database", "tunnel_idle"]).inc();
    let stream = &bench.send_request("GET /v1/streams", &[], "").json()["streams"][0];
    assert_eq!((&stream["bind"], &stream["protocol"]), (&"127.0.0.1:5432".into(), &"tcp".into()));
    let upstream = serde_json::json!([{ "name": "catalog", "healthy": 1, "servers": 2 }]);
    assert_eq!(stream["upstreams"], upstream);
    let connections =
        serde_json::json!({ "active": 1, "accepted": 3, "closed": { "tunnel_idle": 1 } });
    assert_eq!(stream["connections"], connections);
    assert_eq!((&stream["received_bytes"], &stream["sent_bytes"]), (&5.into(), &0.into()));
    let workers = bench.send_request("GET /v1/workers", &[], "").json();
    assert_eq!(workers["workers"][0]["connections"]["accepted"], 7);
    assert_eq!(workers["workers"][0]["cpu"], 1);
    assert_eq!(workers["workers"][0]["lua"]["memory_bytes"], 2048);
    let status = bench.send_request("GET /v1/status", &[], "").json();
    assert_eq!(status["listeners"][0]["address"], "127.0.0.1:8080");
    assert_eq!(status["state"], "serving");
}

#[test]
fn explain_in_json_or_text() {
    let bench = Bench::new();
    let body = "{\"url\": \"http://shop.example.com/\"}";
    assert_eq!(bench.send_request("POST /v1/explain", &[], body).json()["route"], "shop");
    let explained = bench.send_request("POST /v1/explain", &[("accept", "text/plain")], body);
    assert_eq!(explained.body, "GET http://shop.example.com/ goes to shop\n");
    let wrong = bench.send_request("POST /v1/explain", &[], "{\"url\": \"ftp://x/\"}");
    assert_eq!(wrong.status, 400);
    assert!(wrong.body.contains("ftp://x/"));
}

#[test]
fn caches_are_shown_with_what_they_did() {
    let bench = Bench::new();
    let telemetry = &bench.server.telemetry;
    telemetry.worker_counter(0, &telemetry::families::CACHE_HITS, &["pages"]).add(5);
    telemetry.worker_counter(0, &telemetry::families::CACHE_MISSES, &["pages", "stale"]).add(2);
    let all = bench.send_request("GET /v1/caches", &[], "");
    let cache = &all.json()["caches"][0];
    assert_eq!((cache["name"].as_str(), cache["hits"].as_u64()), (Some("pages"), Some(5)));
    assert_eq!((cache["misses"]["stale"].as_u64(), cache["passes"].as_u64()), (Some(2), Some(0)));
    assert_eq!(bench.send_request("GET /v1/caches/pages", &[], "").json(), *cache);
    let missing = bench.send_request("GET /v1/caches/pagse", &[], "");
    assert_eq!(missing.status, 404);
    assert!(missing.body.contains("did you mean \\\"pages\\\"?"), "{}", missing.body);
}

#[test]
fn entries_come_in_pages() {
    let bench = Bench::new();
    let page = bench.send_request(
        "GET /v1/caches/pages/entries?prefix=http://a/&after=7&limit=2",
        &[],
        "",
    );
    let json = page.json();
    assert_eq!(json["next"], 7);
    assert_eq!(json["entries"][0]["url"], "http://a/");
    assert_eq!(
        (&json["entries"][0]["after"], &json["entries"][0]["limit"]),
        (&7.into(), &2.into())
    );
    let wrong = bench.send_request("GET /v1/caches/pages/entries?after=x", &[], "");
    assert!(wrong.status == 400 && wrong.body.contains("is not a number"), "{}", wrong.body);
}

#[test]
fn top_entries_are_limited() {
    let bench = Bench::new();
    let top = |query: &str| bench.send_request(&format!("GET /v1/caches/{query}"), &[], "");
    for (query, limit) in [("", 10), ("?limit=3", 3), ("?limit=1000", 100), ("?limit=0", 1)] {
        let json = top(&format!("pages/top{query}")).json();
        assert_eq!(json["by_hits"][0]["limit"], limit, "{query}");
        assert_eq!(json["by_memory"], serde_json::json!([]));
    }
    assert_eq!((top("pages/top?limit=x").status, top("none/top").status), (400, 404));
}

#[test]
fn a_purge_says_what_it_removed_or_what_was_wrong() {
    let bench = Bench::new();
    let purge = |body| bench.send_request("POST /v1/caches/pages/purge", &[], body);
    let done = purge(r#"{"tags": ["a"], "soft": true}"#);
    assert_eq!((done.status, &done.json()["purged"]), (200, &2.into()));
    let what = cache::PurgeWhat::Tags(vec!["a".to_owned()]);
    assert_eq!(*bench.server.purged.borrow(), [(what, true)]);
    let wait = |query: &str, body: &'static str| {
        bench.send_request(&format!("POST /v1/caches/{query}"), &[], body)
    };
    let all = r#"{"all": true}"#;
    let waited = wait("pages/purge?wait=3", all).json();
    assert_eq!((&waited["published"], &waited["number"]), (&true.into(), &7.into()));
    assert_eq!((&waited["confirmed"], &waited["applied"][0]), (&false.into(), &"a".into()));
    assert_eq!(waited["missing"][0], serde_json::json!({ "server": "b", "state": "behind" }));
    assert_eq!(waited["missing"][1], serde_json::json!({ "server": "c", "state": "away" }));
    assert_eq!(waited["problem"], "waited 3 s");
    assert_eq!(wait("pages/purge?wait", all).json()["problem"], "waited 10 s");
    for wrong in ["wait=61", "wait=x", "wait=-1", "later=1"] {
        assert_eq!(wait(&format!("pages/purge?{wrong}"), all).status, 400, "{wrong}");
    }
    let alone = wait("fleet/purge", all).json();
    assert_eq!((&alone["published"], &alone["problem"]), (&false.into(), &"no etcd".into()));
    let refused = wait("fleet/purge", r#"{"tags": ["a"]}"#);
    assert!(
        refused.status == 503 && refused.body.contains("nothing was purged"),
        "{}",
        refused.body
    );
    let wrong = purge(r#"{"url": "/a"}"#);
    assert!(wrong.status == 400 && wrong.body.contains("not an absolute URL"), "{}", wrong.body);
    assert_eq!(
        bench.send_request("POST /v1/caches/none/purge", &[], r#"{"all": true}"#).status,
        404
    );
    let open = bench.send(request("POST /v1/caches/pages/purge", &[], r#"{"all": true}"#));
    assert_eq!(open.status, 401);
}

#[test]
fn a_cache_explains_itself() {
    let bench = Bench::new();
    let line = "GET /v1/caches/pages/explain?url=http://a/&header=accept-language:%20de";
    let json = bench.send_request(line, &[], "").json();
    assert_eq!((&json["url"], &json["headers"][0][1]), (&"http://a/".into(), &"de".into()));
    let text = bench.send_request(line, &[("accept", "text/plain")], "");
    assert_eq!(text.body, "GET http://a/ is a hit\n");
    for (query, expected) in
        [("", "has no url"), ("?url=http://a/&header=x", "is not of the form name:value")]
    {
        let wrong = bench.send_request(&format!("GET /v1/caches/pages/explain{query}"), &[], "");
        assert!(wrong.status == 400 && wrong.body.contains(expected), "{}", wrong.body);
    }
}
