//! `routes`: the cost that a lookup among thousands of routes adds to a request.

use super::{Case, Kind, Scenario, Serve};
use crate::peers::Protocol;

/// Of the size of a large gateway.
const COUNT: usize = 5000;

pub(super) const SCENARIO: Scenario = Scenario {
    name: "routes",
    about: "a request among 5 000 routes, and the same among 5",
    cases: &[Case {
        name: "routes",
        about: "GET of four bytes by the last of 5 000 routes; `baseline` is tidegate with 5.",
        replays: None,
        serve: Serve::Routes { count: COUNT },
        protocol: Protocol::Http1,
        kind: Kind::Load,
    }],
    by_default: false,
};
