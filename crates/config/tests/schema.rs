//! The JSON Schema and the reference page against the reader: what one accepts the other does, and
//! every key is in both.

use std::path::Path;

use config::{FileSource, Kinds, Source, TextSource, load};
use serde_json::Value;

fn contract() -> FileSource {
    FileSource::new(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/valid/contract.yaml"))
}

/// The YAML of a configuration as JSON, by way of the reader that the product uses.
fn json(text: &str) -> Value {
    config::document_json(&TextSource::new("t.yaml", text)).unwrap_or_else(|r| panic!("{r}"))
}

#[test]
fn the_example_of_the_contract_is_accepted_by_both() {
    let loaded =
        load(&contract(), &|_| None, &Kinds::all()).unwrap_or_else(|report| panic!("{report}"));
    let plan = &loaded.plan;
    let names: Vec<_> = plan.routes.iter().map(|route| route.name.as_str()).collect();
    assert_eq!(names, ["catalog", "/app/{*rest}", "/ping", "/old/{id}", "/{*file}"]);
    assert_eq!(plan.routes[0].filters.len(), 3);
    assert_eq!(plan.caches.iter().map(|(name, _)| name.as_str()).collect::<Vec<_>>(), ["pages"]);
    let bounds = plan.routes[0].bounds.as_ref().expect("bounds of the route");
    assert_eq!(bounds.body_pause, Some(std::time::Duration::from_secs(10)));
    assert_eq!(plan.upstreams[0].1.settings.servers.len(), 3);
    let tokens: Vec<_> = plan.admin.tokens.iter().map(|token| token.secret.expose()).collect();
    assert_eq!(tokens, [b"a-test-token"]);
    let read: Vec<_> = loaded.files.iter().filter_map(|file| file.file_name()).collect();
    assert_eq!(read, ["admin.token", "sorry.html"]);

    let schema = config::schema();
    let validator = jsonschema::draft202012::new(&schema).unwrap();
    let document = json(&contract().main().unwrap().text);
    let errors: Vec<_> = validator.iter_errors(&document).map(|e| e.to_string()).collect();
    assert!(errors.is_empty(), "{errors:#?}");
}

#[test]
fn the_schema_refuses_what_the_reader_refuses() {
    let schema = config::schema();
    let validator = jsonschema::draft202012::new(&schema).unwrap();
    for text in [
        "rutes: []",
        "apps: { a: { python: 5, workers: 0 } }",
        "caches: { a: { memory: 5 } }",
        "listeners: { web: { bind: \":80\", tls: { certificates: 5 } } }",
        "listeners: { web: {} }",
        "timeouts: { head: 5 }",
        "limits: { header_count: 100000 }",
        "workers: 0",
        "log: { level: loud }",
        "routes: [{ match: {} }]",
        "routes: [{ handler: { apps: x } }]",
        "routes: [{ handler: { respond: { sttaus: 200 } } }]",
        "routes: [{ handler: { respond: {}, redirect: / } }]",
        "chains: { a: [{ nothing: {} }] }",
    ] {
        let document = json(text);
        assert!(!validator.is_valid(&document), "{text}");
        assert!(load(&TextSource::new("t", text), &|_| None, &Kinds::all()).is_err(), "{text}");
    }
}

/// Every key of every declaration, by the path of definitions in the schema.
fn keys(schema: &Value, found: &mut Vec<String>) {
    match schema {
        Value::Object(map) => {
            if let Some(Value::Object(properties)) = map.get("properties") {
                for (key, about) in properties {
                    found.push(key.clone());
                    let described = about["description"].is_string()
                        || about["anyOf"][0]["description"].is_string()
                        || map.contains_key("required") && properties.len() == 1;
                    assert!(described, "{key} has no description");
                }
            }
            map.values().for_each(|value| keys(value, found));
        }
        Value::Array(items) => items.iter().for_each(|value| keys(value, found)),
        _ => {}
    }
}

#[test]
fn every_key_of_the_contract_is_in_the_schema_and_on_the_page() {
    let mut found = Vec::new();
    keys(&config::schema(), &mut found);
    let page = config::reference_markdown();
    for key in [
        "workers",
        "trusted_proxies",
        "listeners",
        "upstreams",
        "chains",
        "defaults",
        "routes",
        "errors",
        "admin",
        "log",
        "limits",
        "timeouts",
        "include",
        "bind",
        "half_close",
        "backlog",
        "servers",
        "address",
        "weight",
        "backup",
        "balance",
        "health",
        "interval",
        "healthy_after",
        "unhealthy_after",
        "connect",
        "response",
        "read",
        "idle",
        "retries",
        "attempts",
        "budget",
        "match",
        "listener",
        "host",
        "path",
        "methods",
        "when",
        "priority",
        "filters",
        "handler",
        "status",
        "body",
        "delay",
        "body_size",
        "to",
        "token",
        "level",
        "access",
        "format",
        "sample",
        "request_line",
        "headers",
        "header_count",
        "connections",
        "handshake",
        "head",
        "write",
        "drain",
        "drain_delay",
    ] {
        assert!(found.iter().any(|k| k == key), "{key} is not in the schema");
        assert!(page.contains(&format!("**`{key}`**")), "{key} is not on the page");
    }
    for kind in [
        "upstream",
        "files",
        "respond",
        "redirect",
        "cert_auth",
        "key_auth",
        "rate_limit",
        "compress",
        "rewrite",
    ] {
        assert!(page.contains(&format!("**`{{ {kind}: ")), "{kind} is not on the page");
    }
}

#[test]
fn every_declaration_of_the_product_holds() {
    settings::verify::<config::Settings>().unwrap();
}
