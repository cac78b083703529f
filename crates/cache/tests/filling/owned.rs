//! Two servers of a fleet: what one requests from the other, the owner of the URL.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use cache::rules::tags;
use cache::shared_purges::{LogPosition, LogRead};
use cache::store::Purge;
use message::{Fault, FaultKind, HandlerResult, LocalFuture, Request, Response};
use net::worker::block_on_local;
use plugin::{
    Filter, Handler, HandlerPlan, KeyOwner, KeyOwners, MaybeFuture, Route, Stage, Step,
    WorkerContext,
};
use settings::{Node, node};
use tokio::sync::Notify;
use wire::Method;

use crate::site::{Origin, Site, begin, done, get, get_with, request, response_with, text};

const KEPT: (&str, &str) = ("cache-control", "max-age=600");
const SECRET: &str = "a secret of the whole fleet";

fn settings() -> Node {
    node!({ "store": "pages", "owners": { "upstream": "fleet", "secret": SECRET } })
}

thread_local! {
    /// The routes of the servers.
    static ROUTES: RefCell<HashMap<&'static str, Rc<Route>>> = RefCell::default();
    /// Requests to owners wait for it, if there is one.
    static GATE: RefCell<Option<Rc<Notify>>> = const { RefCell::new(None) };
    static WAITING: Cell<usize> = const { Cell::new(0) };
    static IS_OWN: Cell<bool> = const { Cell::new(false) };
}

/// An upstream that says of one server that it owns everything.
struct Fleet(Option<&'static str>);

impl HandlerPlan for Fleet {
    fn name(&self) -> &'static str {
        "upstream"
    }

    fn build(&self, _: &WorkerContext) -> Rc<dyn Handler> {
        Rc::new(Fleet(self.0))
    }
}

impl Handler for Fleet {
    fn name(&self) -> &'static str {
        "upstream"
    }

    fn handle<'a>(&'a self, _: &'a mut Request) -> MaybeFuture<'a, HandlerResult> {
        Err(Fault::internal("requests to owners only")).into()
    }

    fn key_owners(&self) -> Option<&dyn KeyOwners> {
        Some(self)
    }
}

impl KeyOwners for Fleet {
    fn owner(&self, _: &[u8]) -> Option<Box<dyn KeyOwner>> {
        let name = self.0.filter(|_| !IS_OWN.get())?;
        Some(Box::new(Owner(name)))
    }
}

struct Owner(&'static str);

impl Owner {
    async fn exchange(&self, request: &mut Request) -> HandlerResult {
        let gate = GATE.with_borrow(Clone::clone);
        if let Some(gate) = gate {
            WAITING.set(WAITING.get() + 1);
            gate.notified().await;
        }
        let mut received = Request::made_up(
            request.method.clone(),
            request.target.clone(),
            request.headers.clone(),
        );
        let route = ROUTES.with_borrow(|routes| routes.get(self.0).cloned());
        match route {
            Some(route) => route.run(&mut received).await,
            None => Err(Fault::new(FaultKind::ConnectionRefused, "no such server")),
        }
    }
}

impl KeyOwner for Owner {
    fn send<'a>(
        &'a self,
        request: &'a mut Request,
        within: Duration,
    ) -> LocalFuture<'a, HandlerResult> {
        Box::pin(async move {
            let late = || Err(Fault::new(FaultKind::ResponseTimeout, "too late"));
            net::timer::within(within, self.exchange(request)).await.unwrap_or_else(late)
        })
    }

    fn set_own(&self) {
        IS_OWN.set(true);
    }
}

/// A server of the fleet, with an origin of its own.
struct Server {
    site: Site,
    origin: Origin,
    route: Rc<Route>,
}

/// A server called `name`, for which `owner` owns everything.
fn server(name: &'static str, owner: Option<&'static str>) -> Server {
    server_behind(name, owner, Vec::new())
}

fn server_behind(name: &'static str, owner: Option<&'static str>, before: Vec<Stage>) -> Server {
    let (site, origin) = Site::new(settings);
    let route = site.worker_of_fleet(before, Arc::new(Fleet(owner)));
    ROUTES.with_borrow_mut(|routes| routes.insert(name, route.clone()));
    Server { site, origin, route }
}

/// Server `a`, and `b`, which owns everything.
fn fleet() -> (Server, Server) {
    (server("a", Some("b")), server("b", None))
}

impl Server {
    fn asked(&self, result: &str) -> u64 {
        self.site.counted("tidegate_cache_owner_requests_total", Some(result))
    }

    fn answered(&self, result: &str) -> u64 {
        self.site.counted("tidegate_cache_owner_responses_total", Some(result))
    }

    /// Serves a page from the origin of this server.
    async fn serves(&mut self, path: &str, fields: &[(&str, &str)], body: &'static str) {
        let client = get(&self.route, path).await;
        self.origin.next_call().await.respond(response_with(200, fields, body));
        assert_eq!(text(client).await, body);
    }
}

#[test]
fn the_owner_requests_from_the_origin_once_for_all() {
    block_on_local(async {
        let (mut a, mut b) = fleet();
        let clients =
            (get(&a.route, "/").await, get(&a.route, "/").await, get(&b.route, "/").await);
        let call = b.origin.next_call().await;
        assert_eq!((call.field("tidegate-ask"), call.field("host")), (None, Some("a")));
        call.respond(response_with(200, &[KEPT, ("x", "1")], "for all"));
        let got = done(clients.0).await.unwrap();
        let status = got.field("cache-status");
        assert!(status.starts_with("tidegate; fwd=uri-miss; stored; ttl="), "{status}");
        assert!(status.ends_with("; detail=owner-fetch"), "{status}");
        assert_eq!((got.field("x"), got.field("tidegate-owner")), ("1", ""));
        assert_eq!(got.text().await.unwrap(), "for all");
        assert_eq!(text(clients.1).await, "for all");
        assert_eq!(text(clients.2).await, "for all");
        let hit = done(get(&a.route, "/").await).await.unwrap();
        assert!(hit.field("cache-status").starts_with("tidegate; hit"), "{hit:?}");
        assert!(a.origin.is_idle() && b.origin.is_idle());
        assert_eq!((a.asked("fetched"), b.answered("fetched")), (1, 1));
    });
}

/// What a response says to caches reaches the server that asks, but no client.
#[test]
fn a_stored_response_comes_with_its_age_tags_and_variants() {
    block_on_local(async {
        let (mut a, mut b) = fleet();
        let fields = [
            ("cache-control", "no-store"),
            ("tidegate-cache-control", "max-age=600"),
            ("age", "100"),
            ("surrogate-key", "shop"),
            ("vary", "x-color"),
        ];
        b.serves("/", &fields, "old").await;
        let got = done(get(&a.route, "/").await).await.unwrap();
        assert!(got.field("cache-status").ends_with("; detail=owner-hit"), "{got:?}");
        assert!(got.field("age").parse::<u32>().unwrap() >= 100, "{got:?}");
        assert_eq!((got.field("surrogate-key"), got.field("tidegate-cache-control")), ("", ""));
        let red = get_with(&a.route, "/", &[("x-color", "red")]).await;
        b.origin.next_call().await.respond(response_with(200, &fields, "red"));
        assert_eq!(text(red).await, "red");
        assert_eq!(text(get(&a.route, "/").await).await, "old");
        assert_eq!(text(get_with(&a.route, "/", &[("x-color", "red")]).await).await, "red");
        assert_eq!(a.site.cache().store().purge(&Purge::Tags(&[tags::tag(b"shop")]), false), 2);
        assert!(a.origin.is_idle() && b.origin.is_idle());
    });
}

#[test]
fn what_may_not_be_shared_comes_from_the_origin() {
    block_on_local(async {
        let (mut a, mut b) = fleet();
        let private = [("cache-control", "private"), ("set-cookie", "a=1")];
        let client = get(&a.route, "/").await;
        b.origin.next_call().await.respond(response_with(200, &private, "of another client"));
        a.origin.next_call().await.respond(response_with(200, &private, "of this client"));
        let got = done(client).await.unwrap();
        assert_eq!(got.field("set-cookie"), "a=1");
        assert_eq!(got.text().await.unwrap(), "of this client");
        // Both remember it, so the owner is not asked again.
        let client = get(&a.route, "/").await;
        a.origin.next_call().await.respond(response_with(200, &private, "again"));
        assert_eq!(text(client).await, "again");
        let authorized = get_with(&a.route, "/other", &[("authorization", "Basic eA==")]).await;
        let call = a.origin.next_call().await;
        assert_eq!(call.field("authorization"), Some("Basic eA=="));
        call.respond(response_with(200, &[KEPT], "for one"));
        assert_eq!(text(authorized).await, "for one");
        assert!(b.origin.is_idle());
        assert_eq!((a.asked("declined"), b.answered("declined")), (1, 1));
    });
}

/// A server that is not one of the fleet has no secret, whatever it responds.
#[test]
fn the_response_of_another_server_is_not_used() {
    block_on_local(async {
        let mut a = server("a", Some("b"));
        let (site, mut origin) = Site::plain();
        ROUTES.with_borrow_mut(|routes| routes.insert("b", site.worker(0)));
        let client = get(&a.route, "/").await;
        let lie = [KEPT, ("tidegate-owner", "stored 00000000000000000000000000000000")];
        origin.next_call().await.respond(response_with(200, &lie, "a lie"));
        a.origin.next_call().await.respond(response_with(200, &[KEPT], "the truth"));
        assert_eq!(text(client).await, "the truth");
        assert_eq!(a.asked("failed"), 1);
    });
}

#[test]
fn the_origin_answers_when_the_owner_is_away_or_fails() {
    block_on_local(async {
        let (mut a, mut b) = fleet();
        let client = get(&a.route, "/fails").await;
        b.origin.next_call().await.respond(crate::site::fault(502));
        a.origin.next_call().await.respond(response_with(200, &[KEPT], "fetched here"));
        assert_eq!(text(client).await, "fetched here");
        ROUTES.with_borrow_mut(|routes| routes.remove("b"));
        a.serves("/", &[KEPT], "fetched here too").await;
        assert_eq!((a.asked("declined"), a.asked("failed")), (1, 1));
    });
}

#[test]
fn a_slow_owner_is_waited_for_until_the_deadline() {
    net::manual_time::block_on(async {
        let (mut a, mut b) = fleet();
        let client = get(&a.route, "/").await;
        let call = b.origin.next_call().await;
        net::manual_time::advance(Duration::from_millis(499)).await;
        assert!(a.origin.is_idle());
        net::manual_time::advance(Duration::from_millis(2)).await;
        a.origin.next_call().await.respond(response_with(200, &[KEPT], "at once"));
        assert_eq!(text(client).await, "at once");
        call.respond(response_with(200, &[KEPT], "late"));
        assert_eq!(a.asked("timeout"), 1);
    });
}

/// Two servers that take each other for the owner wait for neither.
#[test]
fn servers_that_ask_each_other_do_not_wait_for_each_other() {
    block_on_local(async {
        let (mut a, mut b) = (server("a", Some("b")), server("b", Some("a")));
        let gate = Rc::new(Notify::new());
        GATE.set(Some(gate.clone()));
        let (one, other) = (get(&a.route, "/").await, get(&b.route, "/").await);
        while WAITING.get() < 2 {
            tokio::task::yield_now().await;
        }
        gate.notify_waiters();
        a.origin.next_call().await.respond(response_with(200, &[KEPT], "of a"));
        b.origin.next_call().await.respond(response_with(200, &[KEPT], "of b"));
        assert_eq!((text(one).await, text(other).await), ("of a".to_owned(), "of b".to_owned()));
        assert_eq!((a.asked("declined"), b.asked("declined")), (1, 1));
        GATE.set(None);
        // An owner that takes another server for the owner requests from the origin.
        let client = get(&a.route, "/next").await;
        b.origin.next_call().await.respond(response_with(200, &[KEPT], "of b"));
        assert_eq!(text(client).await, "of b");
        assert_eq!(b.asked("declined"), 1);
    });
}

#[test]
fn a_server_that_asks_itself_notices() {
    block_on_local(async {
        let mut a = server("a", Some("a"));
        IS_OWN.set(false);
        a.serves("/", &[KEPT], "own").await;
        a.serves("/other", &[KEPT], "own").await;
        assert_eq!((a.asked("own"), a.answered("own")), (1, 1));
        IS_OWN.set(false);
    });
}

/// The marker of a request of another server, which has waited so long.
fn marker(age_s: u64, secret: &str) -> String {
    let time_s = net::clock::wall_secs() - age_s;
    let text = format!("{}{time_s:016x}p{}", "0".repeat(32), "0".repeat(32));
    cache::signed_ask(text.as_bytes(), secret.as_bytes()).unwrap().0
}

/// It passes the filters before the cache, also where the network shows it to others.
#[test]
fn a_marker_that_is_repeated_later_is_removed() {
    block_on_local(async {
        let (_, mut b) = fleet();
        let now = done(get_with(&b.route, "/", &[("tidegate-ask", &marker(0, SECRET))]).await);
        assert_eq!(now.await.unwrap().status, 421, "that of another key");
        let client = get_with(&b.route, "/", &[("tidegate-ask", &marker(70, SECRET))]).await;
        let call = b.origin.next_call().await;
        assert_eq!(call.field("tidegate-ask"), None);
        call.respond(response_with(200, &[KEPT], "as for any client"));
        let got = done(client).await.unwrap();
        assert_eq!((got.status, got.field("tidegate-owner")), (200, ""));
    });
}

#[test]
fn a_marker_that_a_client_wrote_is_removed() {
    block_on_local(async {
        let (mut a, mut b) = fleet();
        let forged = marker(0, "a server without the secret");
        let client = get_with(&a.route, "/", &[("tidegate-ask", &forged)]).await;
        let call = b.origin.next_call().await;
        assert_eq!(call.field("tidegate-ask"), None);
        call.respond(response_with(200, &[("cache-control", "no-store")], ""));
        let call = a.origin.next_call().await;
        assert_eq!(call.field("tidegate-ask"), None);
        call.respond(response_with(200, &[("cache-control", "no-store")], "once"));
        let got = done(client).await.unwrap();
        assert_eq!((got.status, got.field("tidegate-owner")), (200, ""));
        // The same for a request that passes the cache.
        let post = request(Method::Post, "/", &[("tidegate-ask", &forged)]);
        let client = begin(&a.route, post).await;
        let call = a.origin.next_call().await;
        assert_eq!(call.field("tidegate-ask"), None);
        call.respond(response_with(200, &[], ""));
        assert_eq!(done(client).await.unwrap().status, 200);
    });
}

/// A filter that changes the path, the response, and rejects requests without a field.
struct Strict;

impl Filter for Strict {
    fn name(&self) -> &'static str {
        "strict"
    }

    fn on_request<'a>(&'a self, request: &'a mut Request) -> MaybeFuture<'a, Step> {
        match request.headers.remove("x-key") {
            true => Step::Continue.into(),
            false => Step::Fail(Fault::new(FaultKind::Forbidden, "no key")).into(),
        }
    }

    fn on_response<'a>(
        &'a self,
        _: &'a mut Request,
        response: &'a mut Response,
    ) -> MaybeFuture<'a, Step> {
        response.headers.append("x-passed", "strict");
        Step::Continue.into()
    }
}

/// The filters before the cache have seen the request on the server that its client reached.
#[test]
fn filters_before_the_cache_run_once() {
    block_on_local(async {
        let strict = || vec![Stage::Filter(Rc::new(Strict))];
        let a = server_behind("a", Some("b"), strict());
        let mut b = server_behind("b", None, strict());
        let client = get_with(&a.route, "/", &[("x-key", "1")]).await;
        b.origin.next_call().await.respond(response_with(200, &[KEPT], "page"));
        let got = done(client).await.unwrap();
        assert_eq!(got.headers.get_all("x-passed").count(), 1);
        assert_eq!(got.text().await.unwrap(), "page");
        let refused = done(get(&b.route, "/").await).await;
        assert_eq!(refused.err().unwrap().status, 403);
    });
}

/// RFC 9111 4.4: what a request to this server has invalidated does not return from another one.
#[test]
fn a_local_purge_is_not_undone_by_the_owner() {
    block_on_local(async {
        let (mut a, mut b) = fleet();
        b.serves("/", &[KEPT, ("age", "100")], "old").await;
        b.serves("/b", &[KEPT, ("age", "100")], "other").await;
        let post = begin(&a.route, request(Method::Post, "/", &[])).await;
        a.origin.next_call().await.respond(response_with(200, &[], ""));
        assert_eq!(done(post).await.unwrap().status, 200);
        a.serves("/", &[KEPT], "new").await;
        assert_eq!(a.asked("outdated"), 1);
        a.site.cache().store().purge(&Purge::All, false);
        a.serves("/b", &[KEPT], "new").await;
        assert_eq!(a.asked("outdated"), 2);
    });
}

fn position(number: u64) -> LogPosition {
    LogPosition { log: "etcd:1".to_owned(), number, mark: String::new() }
}

/// A server that follows a log of purges has read everything up to a number.
fn follows(server: &Server, noted: u64, applied: u64) {
    let caches = server.site.caches();
    caches.set_shares_purges(true);
    let store = settings::read(&node!("16MiB")).unwrap();
    caches.apply([("pages", &store)], server.site.telemetry());
    let cache = server.site.cache();
    let gate = cache.store().purges();
    gate.set_joining();
    gate.set_joined();
    gate.serve_until(u64::MAX);
    let read = LogRead {
        entries: Vec::new(),
        position: position(noted),
        last: noted,
        has_gap: false,
        has_more: false,
    };
    caches.log_progress().note(&read);
    caches.log_progress().set_applied(&position(applied));
}

#[test]
fn a_response_without_a_purge_that_this_server_knows_of_is_not_used() {
    block_on_local(async {
        let (mut a, mut b) = fleet();
        follows(&a, 7, 7);
        follows(&b, 6, 6);
        b.serves("/", &[KEPT], "old").await;
        a.serves("/", &[KEPT], "new").await;
        assert_eq!(a.asked("outdated"), 1);
        // Now it knows of as much, and more.
        follows(&b, 8, 8);
        b.serves("/b", &[KEPT], "of b").await;
        assert_eq!(text(get(&a.route, "/b").await).await, "of b");
        assert_eq!(a.asked("stored"), 1);
        // A server that reads the log again does not know yet what it has missed.
        a.site.caches().log_progress().reset();
        a.serves("/c", &[KEPT], "of a").await;
        assert_eq!((a.asked("outdated"), b.origin.is_idle()), (2, true));
    });
}

/// The purge is applied while the owner responds.
#[test]
fn a_purge_during_the_request_keeps_the_response_out() {
    block_on_local(async {
        let (a, mut b) = fleet();
        follows(&a, 1, 1);
        follows(&b, 1, 1);
        let client = get(&a.route, "/").await;
        let call = b.origin.next_call().await;
        follows(&a, 2, 1);
        a.site.cache().store().purge(&Purge::All, false);
        call.respond(response_with(200, &[KEPT], "old"));
        assert_eq!(text(client).await, "old");
        follows(&b, 2, 2);
        b.site.cache().store().purge(&Purge::All, false);
        let client = get(&a.route, "/").await;
        b.origin.next_call().await.respond(response_with(200, &[KEPT], "new"));
        assert_eq!(text(client).await, "new");
        assert_eq!(a.asked("fetched"), 2);
    });
}
