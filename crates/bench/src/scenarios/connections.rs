//! `connections`: the memory of an idle connection, and the effect of many of them on latency.

use super::{Case, Kind, Scenario, Serve};
use crate::peers::Protocol;
use claimed_port::ephemeral_ports;
use std::fs;

const fn case(name: &'static str, about: &'static str, protocol: Protocol) -> Case {
    Case { name, about, replays: None, serve: Serve::Hello, protocol, kind: Kind::Idle }
}

/// An open call on each connection: less that of `connections-h2` it is the memory of a stream.
const CALLS: Case = Case {
    serve: Serve::Grpc { message_bytes: 128 },
    ..case(
        "connections-grpc",
        "gRPC calls through a gateway by 100 connections along with those that have an open call.",
        Protocol::Http2 { streams: 1 },
    )
};

pub(super) const SCENARIO: Scenario = Scenario {
    name: "connections",
    about: "memory of idle connections, and latency with them",
    cases: &[
        case(
            "connections",
            "GET of four bytes by 100 connections along with the idle ones.",
            Protocol::Http1,
        ),
        case("connections-tls", "The same over TLS 1.3.", Protocol::Https { handshakes: None }),
        case(
            "connections-h2",
            "The same over HTTP/2, without TLS, one stream at a time.",
            Protocol::Http2 { streams: 1 },
        ),
        CALLS,
    ],
    by_default: false,
};

/// Descriptors that are left for everything else.
pub(crate) const DESCRIPTORS_KEPT: usize = 1024;
/// Ports that are left for everything else.
const PORTS_KEPT: usize = 4096;

/// Loopback addresses that connections come from.
const ADDRESSES_MAX: usize = 200;

/// How many idle connections may come from one address: each needs a port.
pub(crate) fn ports_of_an_address() -> usize {
    let ports =
        ephemeral_ports().map_or(PORTS_KEPT, |ports| ports.len().saturating_sub(PORTS_KEPT));
    ports.max(1)
}

/// How many idle connections this machine has room for, at most `wanted`: each needs descriptors
/// here and in the server, and a port.
pub(crate) fn room_for(wanted: usize) -> usize {
    let limits = fs::read_to_string("/proc/self/limits").unwrap_or_default();
    let files = limits.lines().find_map(|line| {
        line.strip_prefix("Max open files")?.split_whitespace().next()?.parse::<usize>().ok()
    });
    // A proxy wants to have two for each, whether or not it will use both.
    let descriptors = files.map_or(wanted, |files| (files / 2).saturating_sub(DESCRIPTORS_KEPT));
    wanted.min(descriptors).min(ports_of_an_address() * ADDRESSES_MAX)
}
