//! Each setting of `circuit_breaker`, on a route.

use std::rc::Rc;
use std::time::Duration;

use message::{Fault, FaultKind, HandlerResult, Request, Response};
use net::manual_time;
use plugin::testing::{context, errors, get, plan, route_with};
use plugin::{MaybeFuture, Route, WorkerContext};
use settings::{Node, node};
use telemetry::families;

use super::{CircuitBreakers, KIND};

#[test]
fn the_declaration_is_valid() {
    settings::verify::<super::CircuitBreaker>().unwrap();
}

/// Responds with the status that the request names, after as many milliseconds; 0 is a connection
/// that is refused, 1 a limit that is reached.
fn handler(request: &mut Request) -> MaybeFuture<'_, HandlerResult> {
    let number = |name: &str| request.headers.get_str(name).and_then(|text| text.parse().ok());
    let (status, after_ms) = (number("status").unwrap_or(200), number("after-ms").unwrap_or(0));
    let fault = match status {
        0 => Some(FaultKind::ConnectionRefused),
        1 => Some(FaultKind::ConcurrencyLimited),
        _ => None,
    };
    if let Some(kind) = fault {
        return Err(Fault::new(kind, "")).into();
    }
    MaybeFuture::of(async move {
        net::timer::sleep_precisely(Duration::from_millis(u64::from(after_ms))).await;
        Ok(Response::new(status))
    })
}

fn fallback(_: &mut Request) -> MaybeFuture<'_, HandlerResult> {
    Ok(Response::new(203)).into()
}

fn route(node: &Node, context: &WorkerContext) -> Rc<Route> {
    route_with(&KIND, node, context, handler, fallback)
}

async fn status(route: &Rc<Route>, status: &str) -> u16 {
    match route.run(&mut get("/", &[("status", status)])).await {
        Ok(response) => response.status,
        Err(fault) => fault.status,
    }
}

fn settings() -> Node {
    node!({ "min_requests": 4, "open": "5s", "probes": 2, "name": "api" })
}

#[test]
fn failures_open_it_and_probes_close_it() {
    manual_time::block_on(async {
        let context = context();
        let breaker = route(&settings(), &context);
        let shown = context.telemetry.gauge(&families::CIRCUIT_STATE, &["api"]);
        for sent in ["200", "503", "200", "0"] {
            assert_eq!(shown.get(), 0);
            status(&breaker, sent).await;
        }
        assert_eq!(shown.get(), 2);
        let fault = breaker.run(&mut get("/", &[])).await.err().unwrap();
        assert_eq!(
            (fault.status, fault.slug(), fault.retry_after_s),
            (503, "circuit_open", Some(5))
        );
        manual_time::advance(Duration::from_secs(5)).await;
        assert_eq!([status(&breaker, "200").await, shown.get() as u16], [200, 1]);
        assert_eq!([status(&breaker, "200").await, shown.get() as u16], [200, 0]);
        let telemetry = &context.telemetry;
        assert_eq!(telemetry.counter(&families::CIRCUIT_OPENED, &["api"]).get(), 1);
        let rejected = telemetry.worker_counter(0, &families::CIRCUIT_REJECTED, &["api"]);
        assert_eq!(rejected.get(), 1);
    });
}

#[test]
fn only_the_servers_failures_count() {
    manual_time::block_on(async {
        let breaker = route(&settings(), &context());
        for _ in 0..20 {
            assert_eq!(status(&breaker, "404").await, 404);
            // A limit behind the breaker: no handler has failed.
            assert_eq!(status(&breaker, "1").await, 503);
        }
        assert_eq!(status(&breaker, "200").await, 200);
        let own = node!({ "min_requests": 2, "statuses": [404] });
        let breaker = route(&own, &context());
        for sent in ["503", "503", "404", "404"] {
            status(&breaker, sent).await;
        }
        assert_eq!(status(&breaker, "200").await, 503);
    });
}

#[test]
fn slow_responses_open_it() {
    manual_time::block_on(async {
        let settings = node!({ "min_requests": 2, "slow": "100ms", "slow_ratio": "100%" });
        let breaker = route(&settings, &context());
        for _ in 0..2 {
            let running = breaker.clone();
            net::task::spawn_local(async move {
                running.run(&mut get("/", &[("after-ms", "101")])).await.unwrap();
            });
        }
        manual_time::advance(Duration::from_millis(100)).await;
        assert_eq!(status(&breaker, "200").await, 200, "one of three was slow");
        manual_time::advance(Duration::from_millis(1)).await;
        assert_eq!(status(&breaker, "200").await, 200, "two of three are not all");
        let all =
            route(&node!({ "min_requests": 2, "slow": "100ms", "slow_ratio": "60%" }), &context());
        for _ in 0..2 {
            let running = all.clone();
            let task = net::task::spawn_local(async move {
                running.run(&mut get("/", &[("after-ms", "101")])).await.unwrap();
            });
            manual_time::advance(Duration::from_millis(101)).await;
            assert!(task.is_finished());
        }
        assert_eq!(status(&all, "200").await, 503);
    });
}

#[test]
fn the_fallback_responds_and_a_reload_keeps_it_open() {
    manual_time::block_on(async {
        let context = context();
        let old = route(&settings(), &context);
        for _ in 0..4 {
            status(&old, "500").await;
        }
        let with_fallback =
            node!({ "min_requests": 9, "fallback": { "respond": {} }, "name": "api" });
        let new = route(&with_fallback, &context);
        drop(old);
        assert_eq!(status(&new, "200").await, 203);
        let other = route(&node!({ "name": "other" }), &context);
        assert_eq!(status(&other, "200").await, 200);
    });
}

#[test]
fn a_breaker_is_listed_with_its_counts_as_long_as_its_route_uses_it() {
    manual_time::block_on(async {
        let context = context();
        let list = context.shared.get((), CircuitBreakers::default);
        let breaker = route(&settings(), &context);
        let listed = || list.of_routes().into_iter().next();
        let shown = || listed().map(|(_, one)| (one.state, one.requests, one.failed, one.slow));
        let (of, first) = listed().expect("a breaker");
        assert_eq!((&*of, &*first.name, first.since_ms), ("test", "api", None));
        for sent in ["200", "503", "200"] {
            status(&breaker, sent).await;
        }
        assert_eq!(shown(), Some(("closed", 3, 1, 0)));
        status(&breaker, "0").await;
        assert_eq!(shown(), Some(("open", 4, 2, 0)));
        assert!(listed().is_some_and(|(_, one)| one.since_ms.is_some()));
        manual_time::advance(Duration::from_secs(10)).await;
        assert_eq!(shown(), Some(("open", 0, 0, 0)));
        // As after a reload.
        let again = route(&settings(), &context);
        drop(breaker);
        assert_eq!(shown(), Some(("open", 0, 0, 0)));
        drop(again);
        assert_eq!(listed(), None);
    });
}

#[test]
fn a_probe_that_is_cancelled_makes_room_for_another() {
    manual_time::block_on(async {
        let settings = node!({ "min_requests": 1, "open": "1s", "probes": 1 });
        let breaker = route(&settings, &context());
        status(&breaker, "500").await;
        manual_time::advance(Duration::from_secs(1)).await;
        let probe = breaker.clone();
        let task = net::task::spawn_local(async move {
            let _ = probe.run(&mut get("/", &[("after-ms", "60000")])).await;
        });
        manual_time::idle().await;
        assert_eq!(status(&breaker, "200").await, 503);
        task.abort();
        manual_time::idle().await;
        assert_eq!(status(&breaker, "200").await, 200);
    });
}

#[test]
fn errors_are_named() {
    for (settings, why) in [
        (node!({ "failure_ratio": "0%" }), "between 1% and 100%"),
        (node!({ "statuses": [200] }), "between 400 and 599"),
        (node!({ "window": "1ms" }), "between 100ms and 1h"),
        (node!({ "probs": 1 }), "did you mean \"probes\"?"),
        (node!({ "fallback": "respond" }), "respond"),
    ] {
        let report = errors(&KIND, &settings);
        assert!(report.contains(why), "{report}\nwanted {why}");
    }
    let shown = plan(&KIND, &node!({})).unwrap().describe();
    assert_eq!(shown, "opens at 50% failures of 20 or more in 10s, for 10s");
}
