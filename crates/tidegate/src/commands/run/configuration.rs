//! The configuration of a worker process: listeners, directories, the application.
//!
//! It is JSON, which is YAML and quotes any path. The supervisor binds the listeners and passes
//! them
//! by name.

use std::path::Path;

use serde_json::{Map, Value, json};

use super::listener_options::ListenerOptions;
use crate::commands::literal;
use crate::failure::Failure;

/// The address written for a descriptor: the socket has the real one.
pub(super) const ANYWHERE: &str = "127.0.0.1:0";

/// Returns the name of the listener for the address number `index`.
pub(super) fn listener_name(index: usize) -> String {
    match index {
        0 => "main".to_owned(),
        _ => format!("main-{}", index + 1),
    }
}

/// `target` is the application, `binds` are the listeners' addresses in their order.
pub(super) fn configuration(
    target: &str,
    options: &ListenerOptions,
    binds: &[String],
    tls: Option<Value>,
    access_log: Option<Value>,
) -> Result<Value, Failure> {
    let listener = |(index, bind): (usize, &String)| {
        // The application reads `%2F` as it always has: no route protects a prefix of it.
        let mut listener = json!({ "bind": literal(bind), "encoded_slashes": "keep" });
        set(&mut listener, "backlog", options.backlog);
        if let Some(peers) = options.proxies() {
            let from: Vec<_> = peers.iter().map(ToString::to_string).collect();
            listener["proxy_protocol"] = json!({ "from": from });
        }
        if let Some(tls) = &tls {
            listener["tls"] = tls.clone();
        }
        (listener_name(index), listener)
    };
    let listeners: Map<String, Value> = binds.iter().enumerate().map(listener).collect();
    let mut routes = Vec::new();
    for (number, (prefix, directory)) in (1..).zip(&options.mounts) {
        routes.push(mount(number, prefix, directory)?);
    }
    routes.push(json!({
        "name": "app",
        "match": { "path": "/{*rest}" },
        "handler": { "app": server::APPLICATION },
    }));
    let mut limits = json!({});
    set(&mut limits, "request_line", options.limit_request_line);
    set(&mut limits, "header_count", options.limit_request_fields);
    set(&mut limits, "headers", options.limit_headers);
    set(&mut limits, "body", options.limit_body);
    let mut timeouts = json!({});
    set(&mut timeouts, "idle", options.keep_alive);
    set(&mut timeouts, "body", options.body_timeout);
    let believed: Vec<_> = options.trusted_peers()?.iter().map(ToString::to_string).collect();
    let mut configuration = json!({
        "trusted_proxies": believed,
        "listeners": listeners,
        "apps": { server::APPLICATION: app(target, options) },
        "routes": routes,
        "limits": limits,
        "timeouts": timeouts,
    });
    if let Some(access) = access_log {
        configuration["log"] = json!({ "access": access });
    }
    Ok(configuration)
}

/// The default of the longest pause in a response.
const PAUSE: &str = "1h";

/// Returns the settings of the application that the worker needs; the supervisor has the others.
fn app(target: &str, options: &ListenerOptions) -> Value {
    let (mut limits, mut timeouts, mut websocket) = (json!({}), json!({}), json!({}));
    set(&mut limits, "in_flight", options.limit_concurrency);
    set(&mut timeouts, "answer", options.response_timeout);
    // A stream of events may be silent for long; servers of Python wait for ever.
    let pause = options.pause_timeout.map_or_else(|| PAUSE.to_owned(), |pause| pause.to_string());
    timeouts["pause"] = json!(pause);
    set(&mut websocket, "message_size", options.ws_max_size);
    set(&mut websocket, "queue", options.ws_max_queue);
    set(&mut websocket, "ping_every", options.ws_ping_interval);
    set(&mut websocket, "ping_timeout", options.ws_ping_timeout);
    if let Some(compression) = options.ws_per_message_deflate {
        websocket["compression"] = json!(compression);
    }
    json!({ "python": target, "limits": limits, "timeouts": timeouts, "websocket": websocket })
}

/// Writes a number as JSON, a value with a unit as text.
fn set(map: &mut Value, key: &str, value: Option<impl ToString>) {
    if let Some(value) = value {
        let text = value.to_string();
        map[key] = text.parse::<u64>().map_or_else(|_| json!(text), |number| json!(number));
    }
}

fn mount(number: usize, prefix: &str, directory: &Path) -> Result<Value, Failure> {
    let shown = directory.display();
    let found = std::fs::canonicalize(directory)
        .map_err(|error| Failure::Wrong(format!("cannot serve {shown}: {error}")))?;
    if !found.is_dir() {
        return Err(Failure::Wrong(format!("cannot serve {shown}: it is not a directory")));
    }
    let Some(root) = found.to_str() else {
        return Err(Failure::Wrong(format!("the name of {shown} is not UTF-8 text")));
    };
    Ok(json!({
        "name": format!("static-{number}"),
        "match": { "path": format!("{prefix}/{{*file}}") },
        "filters": [{ "rewrite": { "strip_prefix": prefix } }],
        "handler": { "files": { "root": literal(root) } },
    }))
}
