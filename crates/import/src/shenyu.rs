//! Converts an export of the admin of Apache ShenYu: plugins, selectors, rules and upstreams.
//!
//! The routes have the order in which ShenYu tries rules. Every object that is not converted is
//! named in a note, with its file and its id.

mod ai;
mod app_keys;
mod archive;
mod conditions;
mod filters;
mod model;
mod responses;
mod routes;
mod upstreams;

use super::writer::{Writer, literal, quoted};
use model::{Export, Plugin};
use upstreams::Upstreams;

const HEAD: &str = "\
Lines that begin with \"note:\" name what is not carried over, with its file and id. Everywhere: \
filters have the order of ShenYu's plugins; keys are compared in constant time and not forwarded; \
limits are counted by this gateway, without Redis; bodies are counted, also without a \
Content-Length; responses are cached as RFC 9111 says.";

/// Returns our configuration as YAML, or why the input is not an export of ShenYu.
pub fn convert(content: &[u8], from: &str) -> Result<String, String> {
    let export = Export::new(archive::documents(content, from)?);
    if export.objects(&["selector.json"]).next().is_none() {
        return Err(format!("{from} has no selectors: it is not an export of ShenYu's admin"));
    }
    let mut notes = Vec::new();
    let plugins = export.plugins(&mut notes);
    other_plugins(&plugins, &mut notes);
    other_files(&export, &mut notes);
    let mut upstreams = Upstreams::default();
    let routes = routes::routes(&plugins, &export, &mut upstreams, &mut notes);
    if routes.is_empty() {
        return Err(format!("{from} has no enabled rule of a plugin that responds to HTTP"));
    }
    let consumers = match routes::use_filter(&routes, "hmac_auth") {
        true => app_keys::consumers(&export, &mut notes),
        false => Vec::new(),
    };
    let mut out = Writer::default();
    out.comment(0, &format!("Converted from {from} by `tidegate import shenyu`."));
    out.comment(0, HEAD);
    out.notes(0, &notes);
    out.empty_line();
    out.line(0, "listeners:");
    out.line(2, "web: { bind: \":9195\" }");
    out.empty_line();
    if !upstreams.all.is_empty() {
        out.line(0, "upstreams:");
        for (name, settings) in &upstreams.all {
            out.line(2, &format!("{}: {}", quoted(name), literal(settings)));
        }
        out.empty_line();
    }
    if !consumers.is_empty() {
        out.line(0, "consumers:");
        for consumer in &consumers {
            out.line(2, &format!("- {}", literal(consumer)));
        }
        out.empty_line();
    }
    if routes::use_filter(&routes, "cache") {
        out.line(0, "caches:");
        out.line(2, "shenyu: {}");
        out.empty_line();
    }
    out.line(0, "routes:");
    routes::write(&routes, &mut out);
    Ok(out.finish())
}

/// Notes about plugins whose rules become neither routes nor filters.
fn other_plugins(plugins: &[Plugin], notes: &mut Vec<String>) {
    for plugin in plugins {
        let name = &*plugin.name;
        if routes::responds(name) || filters::is_known(name) {
            continue;
        }
        let reason = match name {
            "dubbo" | "sofa" | "tars" | "motan" | "brpc" | "grpc" => {
                "it calls RPC services: expose them over HTTP, or use grpc_json for gRPC"
            }
            "tcp" => "write `streams`",
            "mqtt" => "it is a broker",
            "cryptorRequest" | "cryptorResponse" => "fields are encrypted by the application",
            name if name.starts_with("logging") => "a collector reads `log: access`",
            "aiRequestTransformer" | "aiResponseTransformer" => "models do not rewrite messages",
            "mcpServer" => "write a server of MCP behind an `upstream`",
            // These have no rules of their own.
            "uri" | "webClient" | "nettyHttpClient" | "response" | "global" | "metrics" => continue,
            _ => "there is no counterpart",
        };
        for entry in plugin.entries.iter().filter(|entry| entry.handle.is_some()) {
            notes.push(format!("{}: {name} is not carried over: {reason}", entry.place));
        }
    }
}

/// Notes about files of other objects.
fn other_files(export: &Export, notes: &mut Vec<String>) {
    for (file, count) in export.files() {
        let reason = match file {
            "plugin.json"
            | "namespace_plugin.json"
            | "selector.json"
            | "rule.json"
            | "auth.json"
            | "discovery_upstream.json" => continue,
            "meta.json" => "methods of RPC services",
            "proxy_selector.json" => "ports of the plugin tcp: write `streams`",
            "discovery.json" => "registries: upstreams have the servers of the export",
            _ => "forms of the dashboard",
        };
        notes.push(format!("{file}: {count} objects are not carried over: {reason}"));
    }
    let rpc = export
        .objects(&["meta.json"])
        .filter(|one| one["rpcType"] != "http" && one["rpcType"] != "springCloud");
    for method in rpc {
        let path = method["path"].as_str().unwrap_or_default();
        let id = method["id"].as_str().unwrap_or_default();
        notes.push(format!("meta.json: the RPC method of {path:?} ({id}) is not carried over"));
    }
}
