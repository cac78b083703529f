//! HTTP/2 by prior knowledge: hello with few and with many streams of a connection, and gateways.

use super::{Case, Kind, Scenario, Serve};
use crate::peers::Protocol;
use std::time::Duration;

const fn case(name: &'static str, about: &'static str, serve: Serve, streams: u32) -> Case {
    let protocol = Protocol::Http2 { streams };
    Case { name, about, replays: None, serve, protocol, kind: Kind::Load }
}

pub(super) const HELLO: Scenario = Scenario {
    name: "h2-hello",
    about: "hello over HTTP/2, 10 and 100 streams of each connection",
    cases: &[
        case(
            "h2-hello-10",
            "GET of four bytes over HTTP/2 without TLS, 10 streams of each connection.",
            Serve::Hello,
            10,
        ),
        case("h2-hello-100", "The same with 100 streams.", Serve::Hello, 100),
    ],
    by_default: false,
};

pub(super) const PROXIED: Scenario = Scenario {
    name: "h2-proxied",
    about: "2 KiB from an HTTP/1.1 backend to a client of HTTP/2",
    cases: &[case(
        "h2-proxied",
        "GET of 2 KiB from one HTTP/1.1 backend over HTTP/2 without TLS, 10 streams of each \
         connection.",
        Serve::Gateway { delay: Duration::ZERO, keep: true },
        10,
    )],
    by_default: false,
};

pub(super) const GRPC: Scenario = Scenario {
    name: "grpc-unary",
    about: "gRPC calls through a gateway, 100 streams of each connection",
    cases: &[case(
        "grpc-unary",
        "Unary gRPC call through a gateway, 128 bytes there and back, HTTP/2 without TLS on both \
         sides, 100 streams of each connection.",
        Serve::Grpc { message_bytes: 128 },
        100,
    )],
    by_default: false,
};
