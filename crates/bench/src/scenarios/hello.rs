//! `hello`: four bytes from the configuration. Measures the cost of the server itself.

use super::{Case, Kind, Scenario, Serve};
use crate::peers::Protocol;

pub(super) const SCENARIO: Scenario = Scenario {
    name: "hello",
    about: "a four-byte response from the configuration",
    cases: &[Case {
        name: "hello",
        about: "GET of four bytes that the server has in its configuration.",
        replays: None,
        serve: Serve::Hello,
        protocol: Protocol::Http1,
        kind: Kind::Load,
    }],
    by_default: true,
};
