//! What `require` finds: one file per module.
//!
//! Owns the names. Every module answers to `silly.NAME` and `tide.NAME`; the names of 2024,
//! `core.…`, are aliases of the same table. A module is opened when it is first required.

mod addr;
mod arguments;
mod base64;
mod compress;
mod crypto;
mod dns;
mod env;
mod errno;
mod fs;
mod hex;
pub(crate) mod http;
mod json;
mod jwt;
mod logger;
mod perf;
mod pool;
mod process;
mod prometheus;
mod re;
mod redis;
mod shared;
mod signal;
mod silly;
mod stream;
mod task;
mod tcp;
mod time;
mod trace;
mod udp;
mod websocket;
mod worker;

use mlua::{Lua, Result, Table};

use crate::vm::Options;

pub(crate) use http::drain as drain_http;
pub(crate) use prometheus::count_into;
pub(crate) use shared::Table as SharedTable;
pub(crate) use signal::{Handlers as SignalHandlers, watch_signals};
pub(crate) use tcp::push_connection;
pub(crate) use time::call as call_timer;
pub(crate) use worker::open_mailbox;

/// A module that is all Lua: a file of `lua/`.
macro_rules! script {
    ($name:literal) => {
        |lua| {
            let text = include_str!(concat!("../../../lua/", $name, ".lua"));
            crate::script::open(lua, $name, text, lua.create_table()?)
        }
    };
}

/// Builds the table of a module, once per VM.
type Open = fn(&Lua) -> Result<Table>;

/// Name below `silly.` and `tide.`, further full names, and what builds it. One line each, sorted.
const MODULES: &[(&str, &[&str], Open)] = &[
    ("", &["core"], silly::open),
    ("adt.buffer", &[], script!("buffer")),
    ("adt.list", &["core.list"], script!("list")),
    ("adt.queue", &["core.queue"], script!("queue")),
    ("compress.br", &[], compress::open_br),
    ("compress.gzip", &[], compress::open_gzip),
    ("compress.lz4", &[], compress::open_lz4),
    ("compress.snappy", &[], compress::open_snappy),
    ("compress.zstd", &[], compress::open_zstd),
    ("console", &["core.console"], script!("console")),
    ("crypto.cipher", &[], crypto::cipher::open),
    ("crypto.hash", &[], crypto::hash::open),
    ("crypto.hmac", &[], crypto::hmac::open),
    ("crypto.pkey", &[], crypto::pkey::open),
    ("crypto.utils", &[], crypto::random::open),
    ("encoding.base64", &["core.encoding.base64"], base64::open),
    ("encoding.hex", &[], hex::open),
    ("encoding.json", &["core.json"], json::open),
    ("env", &["core.env"], env::open),
    ("errno", &["core.errno"], errno::open),
    ("fs", &[], fs::open),
    ("logger", &["core.logger"], logger::open),
    ("metrics.prometheus", &[], prometheus::open),
    ("net.addr", &["core.net.addr"], addr::open),
    ("net.dns", &["core.dns", "core.net.dns"], dns::open),
    ("net.http", &["core.http", "core.net.http"], http::open),
    ("net.http.helper", &["core.http.helper"], http::open_helper),
    ("net.tcp", &["core.net.tcp", "core.tcp"], tcp::open),
    ("net.udp", &["core.net.udp", "core.udp"], udp::open),
    ("net.websocket", &["core.net.websocket", "core.websocket"], websocket::open),
    ("patch", &["core.patch"], script!("patch")),
    ("perf", &["core.perf"], perf::open),
    ("pool", &[], pool::open),
    ("process", &[], process::open),
    ("re", &[], re::open),
    ("security.jwt", &[], jwt::open),
    ("shared", &[], shared::open),
    ("signal", &["core.signal"], signal::open),
    ("store.redis", &["core.db.redis"], redis::open),
    ("stream", &[], stream::open),
    ("sync.channel", &["core.sync.channel"], script!("channel")),
    ("sync.mutex", &["core.sync.mutex"], script!("mutex")),
    ("sync.singleflight", &["core.sync.singleflight"], script!("singleflight")),
    ("sync.waitgroup", &["core.sync.waitgroup"], script!("waitgroup")),
    ("task", &["core.task"], task::open),
    ("time", &["core.time"], time::open),
    ("trace", &["core.trace"], trace::open),
    ("worker", &[], worker::open),
];

/// Makes every module known to `require` in `lua`.
pub(crate) fn preload(lua: &Lua) -> Result<()> {
    let package: Table = lua.globals().get("package")?;
    let loaders: Table = package.get("preload")?;
    for &(name, aliases, open) in MODULES {
        let loaded = lua.create_registry_value(mlua::Value::Nil)?;
        let loaded = std::rc::Rc::new(std::cell::RefCell::new(loaded));
        let loader = lua.create_function(move |lua, _: mlua::MultiValue| {
            let known: mlua::Value = lua.registry_value(&loaded.borrow())?;
            if let mlua::Value::Table(table) = known {
                return Ok(table);
            }
            let table = open(lua)?;
            lua.replace_registry_value(&mut loaded.borrow_mut(), &table)?;
            Ok(table)
        })?;
        for family in ["silly", "tide"] {
            let dot = if name.is_empty() { "" } else { "." };
            loaders.set(format!("{family}{dot}{name}"), &loader)?;
        }
        for alias in aliases {
            loaders.set(*alias, &loader)?;
        }
    }
    Ok(())
}

/// Where `require` looks for files: beside the binary, in `lualib` here, where the options say, and
/// in Lua's own places.
pub(crate) fn search_paths(lua: &Lua, options: &Options) -> Result<()> {
    let package: Table = lua.globals().get("package")?;
    let folder = std::env::current_exe().ok().and_then(|exe| Some(exe.parent()?.to_owned()));
    let beside = folder.map(|folder| folder.display().to_string()).unwrap_or_default();
    for (key, library, pattern, option) in
        [("path", "lualib", "?.lua", &options.path), ("cpath", "luaclib", "?.so", &options.cpath)]
    {
        let mut path = format!("{beside}/{library}/{pattern};./{library}/{pattern};");
        if let Some(option) = option {
            path.push_str(option);
            path.push(';');
        }
        let known: String = package.get(key)?;
        package.set(key, path + &known)?;
    }
    Ok(())
}
