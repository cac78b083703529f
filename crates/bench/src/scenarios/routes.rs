//! `routes`: the cost that a lookup among many routes adds to a request.

use super::{Case, Kind, Scenario, Serve};
use crate::peers::Protocol;

const fn case(name: &'static str, about: &'static str, count: usize) -> Case {
    Case {
        name,
        about,
        replays: None,
        serve: Serve::Routes { count },
        protocol: Protocol::Http1,
        kind: Kind::Load,
    }
}

pub(super) const SCENARIO: Scenario = Scenario {
    name: "routes",
    about: "a request among 5 000 routes, and the same among 5",
    cases: &[case(
        "routes",
        "GET of four bytes by the last of 5 000 routes; `baseline` is tidegate with 5.",
        5000,
    )],
    by_default: false,
};

/// A scenario of its own: loading so many routes takes a debug binary too long.
pub(super) const MANY: Scenario = Scenario {
    name: "routes-100000",
    about: "a request among 100 000 routes, and the same among 5",
    cases: &[case("routes-100000", "GET of four bytes by the last of 100 000 routes.", 100_000)],
    by_default: false,
};
