//! The cost of filters per request, in process: `cargo bench -p config --profile quick`.
//!
//! Prints nanoseconds for making a request and a response, and what key_auth, rate_limit and both
//! add to it. The least of many rounds, because the machine is shared. The budget itself is a ratio
//! measured through the whole server; this shows where its nanoseconds go.

#![allow(clippy::print_stdout)] // it is a program for the terminal

use std::hint::black_box;
use std::rc::Rc;
use std::time::Instant;

use message::{Headers, Request, Response, Target};
use plugin::{Filter, MaybeFuture, Stage, Step, WorkerContext};
use settings::{Node, Reader, Report, node};
use wire::{Known, Method};

const REQUESTS: u32 = 20_000;
const ROUNDS: u32 = 50;

fn main() {
    let context = WorkerContext::default();
    let build = |name: &str, settings: &Node| {
        let kinds = config::Kinds::all().filters;
        let kind = kinds.into_iter().find(|kind| kind.name == name).expect("a known filter");
        let mut report = Report::new();
        let plan = (kind.read)(settings, &mut Reader::new(&mut report)).expect("valid settings");
        match plan.build(&context) {
            Stage::Filter(filter) => filter,
            Stage::Middleware(_) => unreachable!("none of these is a middleware"),
        }
    };
    let keys =
        node!({ "keys": [{ "consumer": "alice", "key": "0123456789abcdef0123456789abcdef" }] });
    let auth = build("key_auth", &keys);
    let limit = build("rate_limit", &node!({ "rate": "1000000000/s", "burst": 1000000 }));
    let quiet = node!({ "rate": "1000000000/s", "burst": 1000000, "headers": false });
    let quiet = build("rate_limit", &quiet);
    let alone = least(&[]);
    println!("a request and a response  {alone:7.1} ns");
    for (name, chain) in [
        ("key_auth", std::slice::from_ref(&auth)),
        ("rate_limit", std::slice::from_ref(&limit)),
        ("rate_limit, no headers", std::slice::from_ref(&quiet)),
        ("key_auth and rate_limit", &[auth.clone(), limit.clone()]),
    ] {
        println!("{name:25} {:+7.1} ns", least(chain) - alone);
    }
}

fn least(chain: &[Rc<dyn Filter>]) -> f64 {
    (0..ROUNDS).map(|_| round(chain)).fold(f64::INFINITY, f64::min)
}

fn round(chain: &[Rc<dyn Filter>]) -> f64 {
    let mut headers = Headers::new();
    for (name, value) in [
        ("host", "shop.example.com"),
        ("user-agent", "wrk"),
        ("accept", "*/*"),
        ("x-api-key", "0123456789abcdef0123456789abcdef"),
    ] {
        headers.append(name, value);
    }
    let target = Target::new(bytes::Bytes::from_static(b"/api/catalog/42")).expect("a good path");
    // As the worker's loop does at each turn; it also refills the rate limit.
    net::clock::refresh();
    let begin = Instant::now();
    for _ in 0..REQUESTS {
        let mut request = Request::made_up(Method::Get, target.clone(), headers.clone());
        let mut response = Response::new(200);
        response.headers.append(Known::ContentType, "application/json");
        for filter in chain {
            assert!(matches!(filter.on_request(&mut request), MaybeFuture::Ready(Step::Continue)));
        }
        for filter in chain.iter().rev() {
            filter.on_response(&mut request, &mut response);
        }
        black_box((request, response));
    }
    begin.elapsed().as_nanos() as f64 / f64::from(REQUESTS)
}
