//! Measures a lookup among 5 and among 5 000 routes, in nanoseconds: `cargo run -p router --release
//! --example lookup`. Prints, asserts nothing.
#![allow(clippy::print_stdout, reason = "printing is what it is for")]

use std::hint::black_box;
use std::time::Instant;

use message::{Headers, Request, Target};
use router::{Input, Match, RouteLookup, Router, Rule};
use settings::{Span, read};
use wire::Method;

const LOOKUPS: u32 = 2_000_000;
const ROUNDS: usize = 7;

/// A table and requests that match its routes.
struct Scene {
    name: &'static str,
    rule: fn(usize) -> Match,
    /// The host and the path that rule `n` matches.
    url: fn(usize) -> (String, String),
}

fn written(host: Option<String>, path: &str) -> Match {
    let mut matches: Match = read(&settings::node!({})).expect("an empty match");
    matches.host.0.extend(host.map(|host| host.parse().expect("a host")));
    matches.path.0.push(read(&settings::node!(path)).expect("a path"));
    matches
}

fn main() {
    let scenes = [
        Scene {
            name: "/api/resource-N/list (literals)",
            rule: |n| written(None, &format!("/api/resource-{n}/list")),
            url: |n| ("shop.example.com".into(), format!("/api/resource-{n}/list")),
        },
        Scene {
            name: "/api/resource-N/{id} (a parameter)",
            rule: |n| written(None, &format!("/api/resource-{n}/{{id}}")),
            url: |n| ("shop.example.com".into(), format!("/api/resource-{n}/4711")),
        },
        Scene {
            name: "/api/resource-N/{*rest} (a prefix)",
            rule: |n| written(None, &format!("/api/resource-{n}/{{*rest}}")),
            url: |n| ("shop.example.com".into(), format!("/api/resource-{n}/a/b")),
        },
        Scene {
            name: "host-N.example.com /api/items/{id}",
            rule: |n| written(Some(format!("host-{n}.example.com")), "/api/items/{id}"),
            url: |n| (format!("host-{n}.example.com"), "/api/items/4711".into()),
        },
        Scene {
            name: "*.host-N.example.com /api/items/{id}",
            rule: |n| written(Some(format!("*.host-{n}.example.com")), "/api/items/{id}"),
            url: |n| (format!("www.host-{n}.example.com:8080"), "/api/items/4711".into()),
        },
    ];
    println!("{:40} {:>9} {:>9}", "ns per lookup, best of rounds", "5", "5 000");
    for scene in scenes {
        let [few, many] = [5, 5000].map(|count| measure(&scene, count));
        println!("{:40} {few:9.1} {many:9.1}", scene.name);
    }
}

fn measure(scene: &Scene, count: usize) -> f64 {
    let rule =
        |n| Rule { name: format!("route-{n}"), span: Span::NOWHERE, matches: (scene.rule)(n) };
    let router = Router::compile((0..count).map(rule).collect()).expect("a table");
    // Equally many different requests whatever the size of the table, in an order the prefetcher
    // cannot predict.
    let requests: Vec<Request> = (0..1024).map(|n| request(scene, n * 7919 % count)).collect();
    for request in &requests {
        assert!(matches!(router.find(&Input::from(request)), RouteLookup::Route(..)));
    }
    let round = |_| {
        let began = Instant::now();
        for n in 0..LOOKUPS {
            let request = &requests[n as usize & 1023];
            black_box(router.find(black_box(&Input::from(request))));
        }
        began.elapsed().as_nanos() as f64 / f64::from(LOOKUPS)
    };
    (0..ROUNDS).map(round).fold(f64::MAX, f64::min)
}

fn request(scene: &Scene, n: usize) -> Request {
    let (host, path) = (scene.url)(n);
    let mut headers = Headers::new();
    headers.append("host", host);
    let target = Target::new(path.into()).expect("a path");
    Request::made_up(Method::Get, target, headers)
}
