//! `lua-hello`: the cost that a Lua handler adds to a trivial response.

use super::{Case, Kind, Scenario, Serve};
use crate::peers::Protocol;

pub(super) const SCENARIO: Scenario = Scenario {
    name: "lua-hello",
    about: "a four-byte response from a Lua handler, and the same from the configuration",
    cases: &[Case {
        name: "lua-hello",
        about: "GET of four bytes from a Lua handler; `baseline` is tidegate's `respond`.",
        replays: None,
        serve: Serve::LuaHello,
        protocol: Protocol::Http1,
        kind: Kind::Load,
    }],
    by_default: false,
};
