//! `filters`: the cost that a key check and a rate limit add to a proxied request.

use super::{Case, Kind, Scenario, Serve};
use crate::peers::Protocol;

pub(super) const SCENARIO: Scenario = Scenario {
    name: "filters",
    about: "a proxied request with a key and a rate limit, and the same without",
    cases: &[Case {
        name: "filters",
        about: "GET of 2 KiB from one backend by clients with a key, within a rate; `baseline` \
                is tidegate without both.",
        replays: None,
        serve: Serve::Guarded,
        protocol: Protocol::Http1,
        kind: Kind::Load,
    }],
    by_default: false,
};
