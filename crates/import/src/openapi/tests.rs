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
fn what_only_responses_have_is_not_required_of_requests() {
    let item = json!({
        "Item": {
            "required": ["id", "name", "made", "by"],
            "properties": {
                "id": { "type": "integer", "readOnly": true },
                "name": { "type": "string", "readOnly": false },
                "made": { "$ref": "#/components/schemas/Time" },
            },
            "allOf": [
                { "$ref": "#/components/schemas/Owned" },
                { "required": ["by", "to"], "properties": { "to": { "type": "string" } } },
            ],
        },
        "Time": { "type": "string", "readOnly": true },
        "Owned": { "required": ["by"], "properties": { "by": { "readOnly": true } } },
    });
    for version in ["3.0.3", "3.1.0"] {
        let text = convert(&document(version, &item), "shop.json").unwrap();
        let (_, body) = settings(&text, "put").pop().unwrap();
        let defs = &body["$defs"];
        assert_eq!(defs["Item"]["required"], json!(["name"]), "{text}");
        assert_eq!(defs["Item"]["allOf"][1]["required"], json!(["to"]));
        assert_eq!(defs["Owned"]["required"], json!([]));
    }
}

#[test]
fn what_has_no_counterpart_is_named() {
    let text = convert(
        &json!({
            "openapi": "3.1.0",
            "security": [{ "secret": [] }],
            "paths": {
                "/a.{ext}": { "get": {} },
                "/b": { "get": {
                    "parameters": [
                        { "name": "s", "in": "cookie", "schema": {} },
                        { "name": "o", "in": "query", "schema": { "type": "object" } },
                        { "name": "p", "in": "query", "schema": { "pattern": "(?=x)" } },
                        { "name": "k", "in": "query", "schema": { "maximun": 5, "x-a": 1 } },
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
        "no absolute URL",
        "paths /a.{ext} is left out",
        "securitySchemes secret: a scheme that is not declared has no counterpart",
        "GET /b: no scheme has a counterpart, the route is closed",
        "s in cookie is not checked",
        "the form of o is not checked",
        "is not supported and not checked",
        "the keyword \"maximun\" is not one of JSON Schema",
        "other.json#/x leads out of the document",
        "bodies are not checked, because of image/png",
    ] {
        assert!(notes.contains(wanted), "{wanted}\n{text}");
    }
}

/// The filters before `validate` of an operation with these requirements, and the text of all.
fn required(security: &Value) -> (Vec<Value>, String) {
    let document = json!({
        "openapi": "3.1.0",
        "components": { "securitySchemes": {
            "key": { "type": "apiKey", "in": "header", "name": "X-Key" },
            "query": { "type": "apiKey", "in": "query", "name": "key" },
            "cookie": { "type": "apiKey", "in": "cookie", "name": "key" },
            "odd": { "type": "apiKey", "in": "header", "name": "a b" },
            "password": { "type": "http", "scheme": "Basic" },
            "digest": { "type": "http", "scheme": "digest" },
            "opaque": { "type": "http", "scheme": "bearer" },
            "token": { "type": "http", "scheme": "bearer", "bearerFormat": "JWT" },
            "certificate": { "type": "mutualTLS" },
            "login": { "type": "openIdConnect", "openIdConnectUrl":
                "https://id.test/a/.well-known/openid-configuration" },
            "link": { "$ref": "#/components/securitySchemes/key" },
        } },
        "paths": { "/a": { "get": { "operationId": "a", "security": security } } },
    });
    let text = convert(&document, "x.json").unwrap();
    let lines = text.lines().filter_map(|line| line.strip_prefix("      - "));
    (lines.map(|line| serde_json::from_str(line).unwrap()).collect(), text)
}

#[test]
fn requirements_become_filters_that_authenticate() {
    let key = json!({ "key_auth": { "from": { "header": "X-Key" } } });
    let basic = json!({ "basic_auth": {} });
    let closed = json!({ "deny": { "ip": ["0.0.0.0/0", "::/0"] } });
    let scope = |pattern: &str| {
        let when = json!({ "variable": "claim.scope", "regex": pattern });
        json!({ "allow": { "when": when } })
    };
    for (security, filters, note) in [
        (json!([]), vec![], ""),
        (json!([{ "key": [] }]), vec![key.clone()], "write the consumers"),
        (json!([{ "link": [] }]), vec![key.clone()], ""),
        (json!([{ "query": [] }]), vec![json!({ "key_auth": { "from": { "query": "key" } } })], ""),
        (json!([{ "opaque": [] }]), vec![json!({ "key_auth": { "from": "bearer" } })], "issuer"),
        (json!([{ "certificate": ["admin"] }]), vec![json!({ "cert_auth": {} })], "roles"),
        (json!([{ "password": [], "key": [] }]), vec![basic.clone(), key.clone()], ""),
        (
            json!([{ "password": [] }, { "key": [] }]),
            vec![json!({ "auth": { "any": [basic, key] } })],
            "",
        ),
        (
            json!([{ "token": ["read:a.b", "<x>"] }]),
            vec![
                json!({ "jwt": { "identity": "token" } }),
                scope("(^| )read:a\\.b( |$)"),
                scope("(^| )<x>( |$)"),
            ],
            "the URL of its keys in identity",
        ),
        (
            json!([{ "login": [] }]),
            vec![json!({ "jwt": { "identity": "login" } })],
            "\"issuer\":\"https://id.test/a\"",
        ),
        // An alternative without a counterpart is none, and nothing opens a route.
        (json!([{ "cookie": [] }, { "key": [] }]), vec![key.clone()], "apiKey has no counterpart"),
        (json!([{ "key": [], "digest": [] }]), vec![closed.clone()], "http has no counterpart"),
        (json!([{ "key": [], "token": [] }, { "odd": [] }]), vec![closed.clone()], "is closed"),
        (json!([{ "key": [], "token": [] }, { "key": [] }]), vec![key.clone()], "key and token as"),
        (json!([{ "nowhere": [] }]), vec![closed], "not declared"),
        (json!([{ "key": [] }, {}]), vec![], "authentication is optional"),
        (
            json!([{ "token": ["a"] }, { "key": [] }]),
            vec![json!({ "auth": { "any": [
                { "jwt": { "identity": "token" } },
                { "key_auth": { "from": { "header": "X-Key" } } },
            ] } })],
            "scopes of alternatives are not checked: a",
        ),
    ] {
        let (found, text) = required(&security);
        assert_eq!(found, filters, "{security}\n{text}");
        // A provider that no filter names would be an error.
        let uses_provider = filters.iter().any(|filter| filter.to_string().contains("identity"));
        assert_eq!(text.contains("\nidentity:"), uses_provider, "{text}");
        let notes = text.split_whitespace().collect::<Vec<_>>().join(" ").replace(" # ", " ");
        assert!(notes.contains(note), "{note}\n{text}");
    }
}

#[test]
fn requirements_of_the_document_hold_for_operations_without_their_own() {
    let document = json!({
        "openapi": "3.0.0",
        "security": [{ "password": [] }],
        "components": { "securitySchemes": {
            "password": { "type": "http", "scheme": "basic" } } },
        "paths": { "/a": { "get": {}, "put": { "security": [] } } },
    });
    let text = convert(&document, "x.json").unwrap();
    let routes: Vec<&str> = text.split("- name: ").skip(1).collect();
    assert!(routes[0].contains("- {\"basic_auth\":{}}"), "{text}");
    assert!(!routes[1].contains("basic_auth"), "{text}");
}

#[test]
fn what_is_not_an_openapi_document_is_rejected() {
    for (document, why) in [
        (json!({}), "not an OpenAPI document"),
        (json!({ "openapi": "2.0" }), "is not supported"),
        (json!({ "openapi": "3.0.0" }), "has no operation"),
    ] {
        let error = convert(&document, "x").unwrap_err();
        assert!(error.contains(why), "{error}");
    }
}
