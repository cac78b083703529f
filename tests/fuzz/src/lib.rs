//! Fuzz targets: what must hold for any input of a parser.
//!
//! A target is a function of bytes that panics when an invariant is broken. `cargo test` runs each
//! target on its seeds and on inputs that proptest generates from them, the same ones in every
//! run. `make fuzz` runs them in libFuzzer, which sees the branches that an input takes. An input
//! that breaks a target is stored in `fuzz/artifacts`, from where both run it again.

mod ai_stream;
mod app_frames;
mod cache_rules;
mod condition_expression;
mod configuration;
mod consumer_changes;
mod content_range;
mod discovery;
mod disk_record;
mod etcd_messages;
#[cfg(test)]
mod generated;
mod grpc_protocol;
mod http1;
mod http2;
mod http2_states;
mod importers;
mod job_settings;
mod json_edit;
mod jwt;
mod log_template;
mod lua_debug_adapter;
mod lua_dom;
mod lua_json;
mod lua_pb;
mod lua_zproto;
mod message_signature;
mod mysql;
mod owner_markers;
mod path;
mod postgres;
mod preamble;
mod purge_log;
mod redis_cluster;
mod redis_reply;
mod route_table;
mod trace_context;
mod waf_body;
mod websocket;

/// A function that asserts invariants, and what inputs for it are made of.
#[derive(Clone, Copy)]
pub struct FuzzTarget {
    /// Panics if `data` breaks an invariant.
    pub check: fn(data: &[u8]),
    /// Inputs that reach most of the code.
    pub seeds: fn() -> Vec<Vec<u8>>,
    /// Text that means something to the parser.
    pub dictionary: &'static [&'static str],
    /// How many inputs `cargo test` generates: about half a second of them, unoptimised. They are
    /// the same ones in every run, so more of them would find little more.
    pub cases: u32,
}

/// Declares the targets, and a test of each.
macro_rules! targets {
    ($($name:ident: $target:expr,)*) => {
        /// All targets by name.
        pub const TARGETS: &[(&str, FuzzTarget)] = &[$((stringify!($name), $target)),*];

        $(#[test]
        fn $name() {
            generated::check(stringify!($name), &$target);
        })*
    };
}

targets! {
    ai_stream: ai_stream::TARGET,
    cache_rules: cache_rules::TARGET,
    chunked: http1::CHUNKED,
    client_hello: preamble::CLIENT_HELLO,
    condition_expression: condition_expression::TARGET,
    config: configuration::TARGET,
    consumer_changes: consumer_changes::TARGET,
    content_range: content_range::TARGET,
    cron: job_settings::CRON,
    discovery: discovery::TARGET,
    disk_record: disk_record::TARGET,
    etcd_messages: etcd_messages::TARGET,
    frames: app_frames::TARGET,
    grpc: grpc_protocol::TARGET,
    h2_bodies: http2::BODIES,
    h2_connection: http2::CONNECTION,
    h2_frames: http2::FRAMES,
    h2_streams: http2_states::TARGET,
    hpack: http2::HPACK,
    import_gateway_api: importers::GATEWAY_API,
    import_nginx: importers::NGINX,
    import_openapi: importers::OPENAPI,
    import_shenyu: importers::SHENYU,
    json_edit: json_edit::TARGET,
    jwt: jwt::TARGET,
    lua_debug_adapter: lua_debug_adapter::TARGET,
    lua_dom: lua_dom::TARGET,
    log_template: log_template::TARGET,
    lua_json: lua_json::TARGET,
    lua_zproto: lua_zproto::TARGET,
    message_signature: message_signature::TARGET,
    mysql: mysql::TARGET,
    owner_markers: owner_markers::TARGET,
    path: path::TARGET,
    postgres: postgres::TARGET,
    proto_source: lua_pb::SOURCE,
    protobuf: lua_pb::MESSAGE,
    proxy_protocol: preamble::PROXY_PROTOCOL,
    purge_log: purge_log::TARGET,
    redis_cluster: redis_cluster::TARGET,
    redis_reply: redis_reply::TARGET,
    redis_url: job_settings::REDIS_URL,
    request_head: http1::REQUEST_HEAD,
    response_head: http1::RESPONSE_HEAD,
    route_table: route_table::TARGET,
    trace_context: trace_context::TRACE_CONTEXT,
    waf_body: waf_body::TARGET,
    websocket: websocket::MESSAGES,
    websocket_frames: websocket::FRAMES,
}

fn owned<T: AsRef<[u8]>>(seeds: &[T]) -> Vec<Vec<u8>> {
    seeds.iter().map(|seed| seed.as_ref().to_vec()).collect()
}

/// Every split of a short message, some of a long one.
fn cuts(len: usize) -> impl Iterator<Item = usize> {
    (0..len).step_by((len / 64).max(1)).chain(len.saturating_sub(4)..len)
}
