//! lua-cjson in Lua's own interpreter: what Lua programs use for JSON elsewhere.

use super::{Operation, Peer, Program, Role, Setup, Site};

pub(super) const PEER: Peer = Peer {
    name: "lua-cjson",
    program: Program::Installed {
        names: &["lua5.4", "luajit", "lua5.1"],
        version: "-v",
        how: "apt-get install lua5.4 lua-cjson",
    },
    start_seconds: 0.05,
    setup,
};

const PROGRAM: &str = include_str!("../../peers/lua/json.lua");

fn setup(site: &Site) -> Option<Setup> {
    let page = "https://github.com/openresty/lua-cjson#readme";
    runner("cjson", site, &[]).map(|setup| setup.note("--module", page))
}

/// The program with a module that has `encode` and `decode`, for a Lua interpreter started after
/// `before`.
pub(super) fn runner(module: &str, site: &Site, before: &[&str]) -> Option<Setup> {
    let Role::Json { document, operation, time } = &site.role else { return None };
    let operation = match operation {
        Operation::Decode => "decode",
        Operation::Encode => "encode",
    };
    let words = [
        "json.lua".to_owned(),
        format!("--module={module}"),
        format!("--document={}", document.display()),
        format!("--operation={operation}"),
        format!("--seconds={}", time.as_secs_f64()),
    ];
    let words: Vec<&str> = before.iter().copied().chain(words.iter().map(String::as_str)).collect();
    Some(Setup::new(&words).file("json.lua", PROGRAM.to_owned()))
}
