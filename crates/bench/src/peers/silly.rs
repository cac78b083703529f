//! Silly, a Lua framework: one thread for sockets, one for Lua.
//!
//! Its modules: <https://github.com/findstr/silly/tree/master/docs/src/en/reference>

use super::{Peer, Program, Role, Setup, Site};

pub(super) const PEER: Peer = Peer {
    name: "silly",
    program: Program::Installed {
        names: &["silly"],
        version: "--version",
        how: "built from https://github.com/findstr/silly by make, then --peer silly=PATH",
    },
    start_seconds: 0.3,
    setup,
};

/// The program, for a Lua interpreter with these modules.
pub(super) const PING: &str = include_str!("../../peers/lua/ping.lua");

fn setup(site: &Site) -> Option<Setup> {
    if site.role != Role::Ping || site.workers > 1 {
        return None;
    }
    let listen = format!("--listen={}", site.address);
    let page = "https://github.com/findstr/silly/blob/master/docs/src/en/reference/env.md";
    Some(
        Setup::new(&["ping.lua", &listen]).file("ping.lua", PING.to_owned()).note("--listen", page),
    )
}
