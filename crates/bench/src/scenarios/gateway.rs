//! `gateway`: 2 KiB through a proxy from a mock backend, without delay and after 20 ms, with reused
//! backend connections and, like the published page, with a new one per request.

use super::{Case, Kind, Scenario, Serve};
use crate::peers::Protocol;
use std::time::Duration;

const fn case(
    name: &'static str,
    about: &'static str,
    delay_ms: u64,
    keep: bool,
    replays: Option<&'static str>,
) -> Case {
    let delay = Duration::from_millis(delay_ms);
    Case {
        name,
        about,
        replays,
        serve: Serve::Gateway { delay, keep },
        protocol: Protocol::Http1,
        kind: Kind::Load,
    }
}

pub(super) const SCENARIO: Scenario = Scenario {
    name: "gateway",
    about: "2 KiB from a backend, after 0 and 20 ms, connections to it kept and not",
    cases: &[
        case("gateway", "GET of 2 KiB from one backend, kept alive on both sides.", 0, true, None),
        case("gateway-20ms", "The same from a backend that takes 20 ms.", 20, true, None),
        case(
            "gateway-close",
            "GET of 2 KiB from one backend, with a connection to it for each request.",
            0,
            false,
            None,
        ),
        case(
            "gateway-close-20ms",
            "The same from a backend that takes 20 ms: what the published page measured.",
            20,
            false,
            Some("gateway"),
        ),
    ],
    by_default: true,
};
