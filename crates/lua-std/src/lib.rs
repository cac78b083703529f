//! The standard library of Lua programs: Silly's modules, and Tidegate's own.
//!
//! Every module is called `silly.NAME` and `tide.NAME`; Silly's names of 2024, `core.…`, are
//! aliases of the same table. There is one file per module, and one in `lua/` where part of it is
//! written in Lua. A module is opened when it is first required. [`open_vm`] makes a VM that has
//! all of them.

#![forbid(unsafe_code)]

mod addr;
mod base64;
mod blocking_workers;
mod cluster;
mod compress;
mod context;
mod crypto;
mod debugger;
pub mod definitions;
mod dns;
#[cfg(test)]
mod documentation;
mod drain;
mod env;
mod errno;
mod etcd_store;
mod fs;
mod group;
mod grpc;
mod hex;
mod hpack;
pub mod http;
mod json;
mod jwt;
mod limits;
mod logger;
mod mysql;
mod pb;
mod perf;
mod pool;
mod postgres;
mod process;
pub mod profiler;
pub mod program_admin;
mod prometheus;
mod re;
mod redis_store;
mod shared;
mod shared_redis;
mod shared_table;
mod shared_values;
mod signal;
mod silly;
mod sql_pool;
mod stream;
mod task;
mod tcp;
mod test;
#[cfg(test)]
mod testing;
#[cfg(test)]
mod tests;
mod time;
mod tls;
mod trace;
mod udp;
mod websocket;
mod worker;
mod zproto;

use lua_vm::Module;

pub use context::{VmContext, open_vm};
pub use group::{GroupMember, WorkerGroup};
pub use prometheus::count_into;
pub use shared_table::SharedTable;
pub use signal::watch_signals;
pub use worker::open_mailbox;

/// Opens a module that is written in Lua: a file of `lua/`.
macro_rules! script {
    ($name:literal) => {
        |lua| {
            let text = include_str!(concat!("../../../lua/", $name, ".lua"));
            lua_vm::script::open(lua, $name, text, lua.create_table()?)
        }
    };
}

/// All modules, one line each, sorted.
pub const MODULES: &[Module] = &[
    ("", &["core"], silly::open),
    ("adt.buffer", &[], script!("buffer")),
    ("adt.list", &["core.list"], script!("list")),
    ("adt.queue", &["core.queue"], script!("queue")),
    ("compress.br", &[], compress::open_br),
    ("compress.gzip", &["core.compress.gzip"], compress::open_gzip),
    ("compress.lz4", &[], compress::open_lz4),
    ("compress.snappy", &[], compress::open_snappy),
    ("compress.zstd", &[], compress::open_zstd),
    ("console", &["core.console"], script!("console")),
    ("crypto.cipher", &["core.crypto.cipher"], crypto::cipher::open),
    ("crypto.hash", &["core.crypto.hash"], crypto::hash::open),
    ("crypto.hmac", &["core.crypto.hmac"], crypto::hmac::open),
    ("crypto.pkey", &["core.crypto.pkey"], crypto::pkey::open),
    ("crypto.utils", &["core.crypto.utils"], crypto::random::open),
    ("debugger", &["core.debugger"], debugger::open),
    ("encoding.base64", &["core.base64", "core.encoding.base64"], base64::open),
    ("encoding.hex", &[], hex::open),
    ("encoding.json", &["core.json"], json::open),
    ("env", &["core.env"], env::open),
    ("errno", &["core.errno"], errno::open),
    ("fs", &[], fs::open),
    ("hive", &["core.hive"], blocking_workers::open),
    ("http2.hpack", &["http2.hpack"], hpack::open),
    ("internal.stdin", &["core.stdin"], script!("stdin")),
    ("logger", &["core.logger"], logger::open),
    ("metrics", &[], prometheus::open_metrics),
    ("metrics.collector.jemalloc", &["core.metrics.collector.jemalloc"], |lua| {
        prometheus::open_part(lua, "jemalloc")
    }),
    ("metrics.collector.process", &["core.metrics.collector.process"], |lua| {
        prometheus::open_part(lua, "process")
    }),
    ("metrics.collector.silly", &["core.metrics.collector.core"], |lua| {
        prometheus::open_part(lua, "silly")
    }),
    ("metrics.counter", &["core.metrics.counter"], |lua| prometheus::open_part(lua, "counter")),
    ("metrics.gauge", &["core.metrics.gauge"], |lua| prometheus::open_part(lua, "gauge")),
    ("metrics.histogram", &["core.metrics.histogram"], |lua| {
        prometheus::open_part(lua, "histogram")
    }),
    ("metrics.labels", &["core.metrics.labels"], |lua| prometheus::open_part(lua, "labels")),
    ("metrics.prometheus", &["core.metrics.prometheus"], prometheus::open),
    ("metrics.registry", &["core.metrics.registry"], |lua| prometheus::open_part(lua, "registry")),
    ("net", &["core.net"], script!("net")),
    ("net.addr", &["core.net.addr"], addr::open),
    ("net.cluster", &[], cluster::open),
    ("net.dns", &["core.dns", "core.net.dns"], dns::open),
    ("net.grpc", &["core.grpc"], grpc::open),
    ("net.grpc.code", &["core.grpc.code"], grpc::open_codes),
    ("net.grpc.registrar", &["core.grpc.registrar"], script!("grpc_registrar")),
    ("net.http", &["core.http", "core.net.http"], http::open),
    ("net.http.dom", &["core.http.dom"], script!("dom")),
    ("net.http.helper", &["core.http.helper"], http::open_helper),
    ("net.tcp", &["core.net.tcp", "core.tcp"], tcp::open),
    ("net.tls", &["core.net.tls", "core.tls"], tls::open),
    ("net.udp", &["core.net.udp", "core.udp"], udp::open),
    ("net.websocket", &["core.net.websocket", "core.websocket"], websocket::open),
    ("patch", &["core.patch"], script!("patch")),
    ("pb", &["pb"], pb::open),
    ("pb.buffer", &["pb.buffer"], pb::open_buffer),
    ("pb.conv", &["pb.conv"], pb::open_conversions),
    ("pb.io", &["pb.io"], script!("pb_io")),
    ("pb.slice", &["pb.slice"], pb::open_slice),
    ("pb.unsafe", &["pb.unsafe"], script!("pb_unsafe")),
    ("perf", &["core.perf"], perf::open),
    ("pool", &[], pool::open),
    ("process", &[], process::open),
    ("profiler", &[], profiler::open),
    ("protoc", &["protoc"], pb::open_compiler),
    ("re", &[], re::open),
    ("security.jwt", &["core.jwt"], jwt::open),
    ("shared", &[], shared::open),
    ("signal", &["core.signal"], signal::open),
    ("store.etcd", &["core.etcd"], etcd_store::open),
    ("store.mysql", &["core.db.mysql"], mysql::open),
    ("store.postgres", &[], postgres::open),
    ("store.redis", &["core.db.redis"], redis_store::open),
    ("stream", &[], stream::open),
    ("sync.channel", &["core.sync.channel"], script!("channel")),
    ("sync.mutex", &["core.sync.mutex"], script!("mutex")),
    ("sync.singleflight", &["core.sync.singleflight"], script!("singleflight")),
    ("sync.waitgroup", &["core.sync.waitgroup"], script!("waitgroup")),
    ("task", &["core.task"], task::open),
    ("test", &[], test::open),
    ("time", &["core.time"], time::open),
    ("tls.ctx", &[], tls::open_ctx),
    ("trace", &["core.trace"], trace::open),
    ("worker", &[], worker::open),
    ("zproto", &["zproto"], zproto::open),
];
