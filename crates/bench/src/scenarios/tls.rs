//! TLS 1.3: requests on open connections, handshakes, a file, and a gateway. Every server has the
//! same certificate (ECDSA P-256), key exchange (X25519) and cipher suite (AES-128-GCM).

use super::{Case, Kind, Scenario, Serve, files};
use crate::load::Handshakes;
use crate::peers::Protocol;
use std::time::Duration;

const KEPT: Protocol = Protocol::Https { handshakes: None };

const fn case(name: &'static str, about: &'static str, serve: Serve, protocol: Protocol) -> Case {
    Case { name, about, replays: None, serve, protocol, kind: Kind::Load }
}

pub(super) const HELLO: Scenario = Scenario {
    name: "tls-hello",
    about: "hello over TLS 1.3, connections kept",
    cases: &[case(
        "tls-hello",
        "GET of four bytes over TLS 1.3, on connections that stay open.",
        Serve::Hello,
        KEPT,
    )],
    by_default: false,
};

pub(super) const HANDSHAKE: Scenario = Scenario {
    name: "tls-handshake",
    about: "a TLS 1.3 connection for each hello, full handshakes and resumed ones",
    cases: &[
        case(
            "tls-handshake-full",
            "Connection, full TLS 1.3 handshake with ECDSA P-256, and GET of four bytes.",
            Serve::Hello,
            Protocol::Https { handshakes: Some(Handshakes::Full) },
        ),
        case(
            "tls-handshake-resumed",
            "The same with the ticket of a session before; a full handshake is an error.",
            Serve::Hello,
            Protocol::Https { handshakes: Some(Handshakes::Resumed) },
        ),
    ],
    by_default: false,
};

pub(super) const PROXIED: Scenario = Scenario {
    name: "tls-proxied",
    about: "2 KiB from a backend to a client of TLS 1.3",
    cases: &[case(
        "tls-proxied",
        "GET of 2 KiB from one backend without TLS, over TLS 1.3, kept alive on both sides.",
        Serve::Gateway { delay: Duration::ZERO, keep: true },
        KEPT,
    )],
    by_default: false,
};

pub(super) const FILE: Scenario = Scenario {
    name: "tls-file",
    about: "a large static file over TLS 1.3",
    cases: &[case("tls-file", "GET of a file of 1 MiB over TLS 1.3.", files::LARGE, KEPT)],
    by_default: false,
};
