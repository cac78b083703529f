//! `ping`: the PING of RESP, as published by Lua and Haskell frameworks.

use super::{Case, Kind, Scenario, Serve};
use crate::load::Command;
use crate::peers::Protocol;

const fn case(
    name: &'static str,
    about: &'static str,
    command: Command,
    pipeline: u32,
    replays: Option<&'static str>,
) -> Case {
    Case {
        name,
        about,
        replays,
        serve: Serve::Ping { command, pipeline },
        protocol: Protocol::Http1,
        kind: Kind::Load,
    }
}

pub(super) const SCENARIO: Scenario = Scenario {
    name: "ping",
    about: "PING of RESP, inline and as an array, one and sixteen at a time",
    cases: &[
        case("ping-inline", "PING in a line of its own.", Command::Inline, 1, Some("ping")),
        case("ping-bulk", "PING as an array of one text.", Command::MultiBulk, 1, Some("ping")),
        case("ping-inline-16", "Sixteen lines of PING at a time.", Command::Inline, 16, None),
        case("ping-bulk-16", "Sixteen arrays at a time.", Command::MultiBulk, 16, None),
    ],
    by_default: true,
};
