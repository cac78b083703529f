//! An export of a namespace as ShenYu 2.7 writes it: servers of selectors are in
//! `discovery_upstream.json`, and `discovery.json` says whose they are.
//!
//! The files, their members and the initial plugins with their ids, roles and `sort` are those of
//! the classes `ConfigsExportImportEnum`, `NamespacePluginVO`, `SelectorVO`, `DiscoveryVO` and
//! `DiscoveryUpstreamVO`, and of the schema of ShenYu's admin. `JsonUtils` writes members without a
//! value too.

use scenarios::{Tidegate, Upstream};
use serde_json::{Value, json};

use super::{archive, get, imported, uri};

/// Some of the plugins that a new namespace has: id, name, role, `sort`, whether it is enabled.
const PLUGINS: [(&str, &str, &str, u64, bool); 8] = [
    ("1", "sign", "Authentication", 20, false),
    ("2", "waf", "Authentication", 50, false),
    ("3", "rewrite", "HttpProcess", 90, true),
    ("4", "rateLimiter", "FaultTolerance", 60, false),
    ("5", "divide", "Proxy", 200, true),
    ("6", "dubbo", "Proxy", 310, false),
    ("8", "springCloud", "Proxy", 200, false),
    ("26", "websocket", "Proxy", 200, true),
];

fn namespace_plugins() -> Value {
    let plugins = PLUGINS.map(|(id, name, role, sort, enabled)| {
        let config = match name {
            "divide" => json!("{\"multiSelectorHandle\":\"1\",\"multiRuleHandle\":\"0\"}"),
            "websocket" => json!("{\"multiSelectorHandle\":\"1\"}"),
            "waf" => json!("{\"model\":\"black\"}"),
            _ => Value::Null,
        };
        json!({ "id": format!("180161800000000000{id}"), "role": role, "name": name,
            "config": config, "sort": sort, "enabled": enabled,
            "dateCreated": "2026-01-01 10:00:00",
            "dateUpdated": "2026-01-01 10:00:00", "file": null, "pluginHandleList": [],
            "pluginId": id, "namespaceId": null, "pluginRelId": null, "pluginJar": null })
    });
    plugins.to_vec().into()
}

fn selector(id: &str, plugin: &str, path: &str) -> Value {
    json!({ "id": id, "pluginId": plugin, "name": path, "matchMode": 0, "matchModeName": "and",
        "type": 1, "typeName": "custom flow", "sort": 1, "enabled": true, "loged": true,
        "continued": true, "matchRestful": false, "handle": "[]",
        "selectorConditions": [uri("match", path)], "dateCreated": "2026-01-01 10:00:00",
        "dateUpdated": "2026-01-01 10:00:00", "discoveryHandler": null, "discoveryVO": null,
        "discoveryUpstreams": null, "selectorRules": null, "namespaceId": null })
}

fn rule(id: &str, selector: &str, path: &str, handle: &Value) -> Value {
    json!({ "id": id, "selectorId": selector, "matchMode": 0, "matchModeName": "and",
        "name": path, "enabled": true, "loged": true, "sort": 1, "handle": handle.to_string(),
        "ruleConditions": [uri("pathPattern", path)], "dateCreated": "2026-01-01 10:00:00",
        "dateUpdated": "2026-01-01 10:00:00", "namespaceId": null })
}

/// A `DiscoveryVO` of the level selector.
fn discovery(id: &str, kind: &str, selector: &str) -> Value {
    let handler = format!("handler-{id}");
    json!({ "id": id, "name": "divide", "type": kind, "level": "0", "serverList": "",
        "pluginName": "divide", "props": "{}", "namespaceId": null,
        "discoveryHandler": { "id": handler, "discoveryId": id, "handler": "{}",
            "listenerNode": "", "props": "{}" },
        "discoveryRel": { "id": format!("rel-{id}"), "pluginName": "divide",
            "discoveryHandlerId": handler, "selectorId": selector, "proxySelectorId": "" } })
}

fn server(handler: &str, url: &str, status: u64, gray: &str) -> Value {
    let props = json!({ "warmupTime": "10", "gray": gray, "healthCheckEnabled": "true" });
    json!({ "id": url, "discoveryHandlerId": handler, "protocol": "http://", "url": url,
        "status": status, "weight": 50, "props": props.to_string(), "startupTime": "0" })
}

fn export(shop: &str, users: &str) -> Vec<u8> {
    let divide = json!({ "loadBalance": "roundRobin", "retryStrategy": "current", "retry": 3,
        "timeout": 3000, "headerMaxSize": 10240, "requestMaxSize": 102_400 });
    let files = [
        ("meta.json", json!([])),
        ("plugin_template.json", json!([{ "id": "5", "name": "divide" }])),
        ("plugin_handle.json", json!([{ "id": "1", "pluginId": "5", "field": "upstreamHost" }])),
        ("namespace_plugin.json", namespace_plugins()),
        (
            "selector.json",
            json!([
                selector("11", "5", "/shop/**"),
                selector("12", "5", "/users/**"),
                selector("13", "3", "/shop/**"),
                selector("14", "6", "/rpc/**"),
            ]),
        ),
        (
            "rule.json",
            json!([
                rule("21", "11", "/shop/**", &divide),
                rule("22", "12", "/users/{id}", &divide),
                rule(
                    "23",
                    "13",
                    "/shop/old/**",
                    &json!({ "regex": "/shop/old/(.*)", "replace": "/shop/new/$1",
                    "percentage": 100, "rewriteMetaData": false })
                ),
            ]),
        ),
        ("dict.json", json!([{ "id": "1", "type": "degradeRuleGrade" }])),
        (
            "discovery.json",
            json!([discovery("31", "local", "11"), discovery("32", "zookeeper", "12")]),
        ),
        (
            "discovery_upstream.json",
            json!([
                server("handler-31", shop, 0, "false"),
                server("handler-31", "10.0.0.7:80", 1, "false"),
                server("handler-31", "10.0.0.8:80", 0, "true"),
                server("handler-32", users, 0, "false"),
            ]),
        ),
    ];
    archive(&files)
}

/// Responds with its name and the path.
fn named(name: &'static str) -> Upstream {
    Upstream::start(move |peer| {
        while !peer.at_end() {
            let head = peer.read_head();
            let path = head.split(' ').nth(1).unwrap_or_default();
            let body = format!("{name} {path}");
            peer.send(format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n{body}", body.len()));
        }
    })
}

#[test]
fn selectors_get_the_servers_that_discovery_links_to_them() {
    let (shop, users) = (named("shop"), named("users"));
    let text = imported(&export(&shop.address().to_string(), &users.address().to_string()));
    let server = Tidegate::start(&text.replace("\":9195\"", "\"127.0.0.1:0\""));
    for (path, status, body) in [
        ("/shop/a", 200, "shop /shop/a"),
        ("/shop/old/a", 200, "shop /shop/new/a"),
        ("/users/7", 200, "users /users/7"),
    ] {
        let response = get(&server, path, "");
        assert_eq!((response.status, &*response.text()), (status, body), "{path}\n{text}");
    }
    // No rule of the selector matches, and the plugin dubbo is disabled.
    assert_eq!(get(&server, "/users/7/orders", "").status, 404);
    assert_eq!(get(&server, "/rpc/a", "").status, 404);
    let notes = text.replace('#', "").split_whitespace().collect::<Vec<_>>().join(" ");
    for note in [
        "rule \"/shop/**\" (21): the server 10.0.0.7:80 is not in use",
        "rule \"/shop/**\" (21): the server 10.0.0.8:80 is for grey releases",
        "plugin.json: dubbo is disabled, with 1 selectors",
        "discovery.json: 2 objects are not carried over: registries",
    ] {
        assert!(notes.contains(note), "{note}\n{text}");
    }
}
