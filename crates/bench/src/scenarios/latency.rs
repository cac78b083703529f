//! `latency`: what a gateway adds to the latency of its backend when it is not overloaded.

use super::{Case, Kind, Scenario, Serve};
use crate::peers::Protocol;
use std::time::Duration;

pub(super) const SCENARIO: Scenario = Scenario {
    name: "latency",
    about: "what a proxy adds to the latency of its backend, at 70 % of what the slowest can do",
    cases: &[Case {
        name: "latency",
        about: "GET of 2 KiB from one backend in an open loop, at 70 % of the requests a second \
                that the slowest server can do; `direct` is the backend.",
        replays: None,
        serve: Serve::Gateway { delay: Duration::ZERO, keep: true },
        protocol: Protocol::Http1,
        kind: Kind::SeventyPercent,
    }],
    by_default: false,
};
