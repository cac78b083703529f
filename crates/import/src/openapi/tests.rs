//! Operations as routes, schemas of both versions, and what has no counterpart.

use super::convert;
use serde_json::{Value, json};

/// The settings of `validate` in the route of this name.
fn settings(text: &str, name: &str) -> Vec<(String, Value)> {
    let route = text.split(&format!("- name: \"{name}\"\n")).nth(1).expect("a route");
    let lines = route.lines().take_while(|line| !line.trim_start().starts_with("handler"));
    let settings = lines.filter_map(|line| line.strip_prefix("          "));
    let read = |line: &str| {
        let (key, value) = line.split_once(": ").expect("a key");
        (key.to_owned(), serde_json::from_str(value).expect("JSON"))
    };
    settings.map(read).collect()
}

fn document(version: &str, more: &Value) -> Value {
    let mut document = json!({
        "openapi": version,
        "info": { "title": "Shop" },
        "servers": [{ "url": "https://{host}:8443/v1/",
                      "variables": { "host": { "default": "api.example" } } }],
        "paths": { "/items/{id}": {
            "parameters": [{ "name": "id", "in": "path", "required": true,
                             "schema": { "type": "integer" } }],
            "put": { "operationId": "put", "requestBody": { "required": true, "content": {
                "application/json": { "schema": { "$ref": "#/components/schemas/Item" } } } } },
        } },
    });
    document["components"]["schemas"] = more.clone();
    document
}

#[test]
fn operations_become_routes_with_schemas() {
    let item = json!({ "Item": { "type": "object", "description": "x", "properties": {
        "price": { "type": "number", "minimum": 0, "exclusiveMinimum": true, "nullable": true },
        "parent": { "$ref": "#/components/schemas/Item" },
    } } });
    let text = convert(&document("3.0.3", &item), "shop.json").unwrap();
    assert!(text.contains("api: { servers: [\"https://api.example:8443\"] }"), "{text}");
    assert!(text.contains("match: { path: \"/v1/items/{id}\", methods: [PUT] }"), "{text}");
    let found = settings(&text, "put");
    assert_eq!(found[0], ("path".into(), json!({ "properties": { "id": { "type": "integer" } } })));
    let body = json!({ "$ref": "#/$defs/Item", "$defs": { "Item": {
        "type": "object", "properties": {
            "price": { "type": ["number", "null"], "exclusiveMinimum": 0 },
            "parent": { "$ref": "#/$defs/Item" },
        } } } });
    assert_eq!(found[1], ("body".into(), body));
    assert_eq!(found.len(), 2);
}

#[test]
fn schemas_of_3_1_are_json_schema() {
    let item = json!({ "Item": { "type": ["string", "null"], "exclusiveMaximum": 5, "const": 1 } });
    let text = convert(&document("3.1.0", &item), "shop.json").unwrap();
    let (_, body) = settings(&text, "put").pop().unwrap();
    assert_eq!(body["$defs"]["Item"], item["Item"]);
}

#[test]
fn what_has_no_counterpart_is_named() {
    let text = convert(
        &json!({
            "openapi": "3.1.0",
            "security": [],
            "paths": {
                "/a.{ext}": { "get": {} },
                "/b": { "get": {
                    "security": [{}],
                    "parameters": [
                        { "name": "s", "in": "cookie", "schema": {} },
                        { "name": "o", "in": "query", "schema": { "type": "object" } },
                        { "name": "p", "in": "query", "schema": { "pattern": "(?=x)" } },
                        { "name": "r", "in": "query", "schema": { "$ref": "other.json#/x" } },
                    ],
                }, "post": { "requestBody": { "content": { "image/png": {} } } } },
            },
        }),
        "x.yaml",
    )
    .unwrap();
    let notes = text.split_whitespace().collect::<Vec<_>>().join(" ").replace(" # ", " ");
    for wanted in [
        "security: authentication is not converted",
        "no absolute URL",
        "paths /a.{ext} is left out",
        "GET /b: security is not converted",
        "s in cookie is not checked",
        "the form of o is not checked",
        "is not supported and not checked",
        "other.json#/x leads out of the document",
        "bodies are not checked, because of image/png",
    ] {
        assert!(notes.contains(wanted), "{wanted}\n{text}");
    }
}

#[test]
fn what_is_no_openapi_document_is_rejected() {
    for (document, why) in [
        (json!({}), "not an OpenAPI document"),
        (json!({ "openapi": "2.0" }), "is not supported"),
        (json!({ "openapi": "3.0.0" }), "has no operation"),
    ] {
        let error = convert(&document, "x").unwrap_err();
        assert!(error.contains(why), "{error}");
    }
}
