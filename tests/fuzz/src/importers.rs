//! Configurations of other products: what an importer writes is a valid configuration.

use config::{Kinds, TextSource, load};
use import::gateway_api::Manifest;
use serde_json::{Value, json};

use crate::FuzzTarget;

pub(crate) const GATEWAY_API: FuzzTarget = FuzzTarget {
    check: |data| {
        let manifest = |(line, value)| Manifest { place: format!("m.yaml:{line}"), value };
        let manifests: Vec<Manifest> = match document(data, gateways) {
            Some(Value::Array(values)) => values.into_iter().enumerate().map(manifest).collect(),
            Some(value) => vec![manifest((1, value))],
            None => {
                import::gateway_api::split(&String::from_utf8_lossy(data));
                return;
            }
        };
        assert_valid(import::gateway_api::convert(&manifests, "m.yaml"));
    },
    seeds: || changes(&gateways()),
    dictionary: JSON,
    cases: 50,
};

pub(crate) const NGINX: FuzzTarget = FuzzTarget {
    check: |data| {
        let text = String::from_utf8_lossy(data);
        let included = |name: &str| {
            let (name, text) = (name.to_owned(), text.split("include").skip(1).collect());
            Ok(vec![import::nginx::Included { name, text }])
        };
        assert_valid(import::nginx::convert(&text, "nginx.conf", &included));
    },
    seeds: || crate::owned(&[SITE, POLICIES]),
    dictionary: &[
        "{",
        "}",
        ";",
        " ",
        "\n",
        "'",
        "\"",
        "\\",
        "$",
        "${",
        "$host",
        "$1",
        "~ ",
        "= ",
        "^~ ",
        "/",
        "*",
        "@a",
        "default_server",
        "location /a",
        "return 301 ",
        "proxy_pass http://",
        "auth_request /auth",
        "allow ",
        "deny all",
        "listen [::]:80",
        "server_name *.a.b",
        "unix:/a",
        "0",
        "99999999999",
        "ü",
    ],
    cases: 300,
};

pub(crate) const OPENAPI: FuzzTarget = FuzzTarget {
    check: |data| {
        if let Some(document) = document(data, api) {
            assert_valid(import::openapi::convert(&document, "openapi.json"));
        }
    },
    seeds: || changes(&api()),
    dictionary: JSON,
    cases: 100,
};

pub(crate) const SHENYU: FuzzTarget = FuzzTarget {
    check: |data| match document(data, export) {
        Some(document) => {
            let text = document.to_string();
            assert_valid(import::shenyu::convert(text.as_bytes(), "export.json"));
        }
        None => assert_valid(import::shenyu::convert(data, "export.zip")),
    },
    seeds: || changes(&export()),
    dictionary: JSON,
    cases: 30,
};

const JSON: &[&str] = &[
    "/",
    "\n",
    "{",
    "}",
    "[",
    "]",
    ":",
    ",",
    "\"",
    "\"a\"",
    "null",
    "true",
    "-1",
    "1e300",
    "0.5",
    "18446744073709551615",
    "\"/{a}${b}\"",
    "\"(?=x)\"",
    "\"**\"",
    "\"http://a b\"",
    "\"\\u0000\"",
    "\"#/x\"",
];

/// A server with locations, and with a redirect.
const SITE: &str = r#"http {
    upstream app { least_conn; server 10.0.0.1:8000 weight=2; server 10.0.0.2:8000 backup; }
    gzip on;
    server { listen 80 default_server; server_name _; return 301 https://$host$request_uri; }
    server {
        listen 80;
        server_name shop.example.com .shop.example.org;
        client_max_body_size 10m;
        location /api/ {
            proxy_pass http://app/v1/;
            proxy_set_header X-Real-IP $remote_addr;
            add_header X-Old "$arg_x" always;
        }
        location = /health { return 200 "ok"; }
        location ~ \.php$ { fastcgi_pass unix:/run/php.sock; }
        location /other/ { proxy_pass http://127.0.0.1:9000; }
    }
}
"#;

/// Locations with access rules, limits, a cache and rewrites.
const POLICIES: &str = r#"limit_req_zone $binary_remote_addr zone=each:10m rate=10r/s;
limit_conn_zone $server_name zone=site:10m;
server {
    listen 8080;
    location /limited/ {
        limit_req zone=each burst=20 nodelay;
        limit_conn site 100;
        limit_conn_status 429;
        proxy_cache pages;
        proxy_cache_valid 200 10m;
        rewrite ^/limited/(.*)$ /$1 break;
        proxy_pass http://127.0.0.1:9000;
    }
    location /inside/ { allow 10.0.0.0/8; allow ::1; deny all; return 200; }
    location /mixed/ { deny 10.0.0.1; allow 10.0.0.0/8; deny all; return 200; }
    location /asked/ { auth_request /auth; return 200; }
    location = /auth { internal; proxy_pass http://127.0.0.1:9001/verify; }
}
"#;

/// Manifests of the Gateway API.
fn gateways() -> Value {
    let object = |kind: &str, name: &str, spec: Value| {
        json!({ "apiVersion": "gateway.networking.k8s.io/v1", "kind": kind,
            "metadata": { "namespace": "shop", "name": name }, "spec": spec })
    };
    let secret = json!([{ "name": "cert" }]);
    let listeners = json!([
        { "name": "web", "port": 80, "protocol": "HTTP", "hostname": "*.example.com",
          "allowedRoutes": { "namespaces": { "from": "All" } } },
        { "name": "tls", "port": 443, "protocol": "HTTPS", "tls": { "certificateRefs": secret } },
        { "name": "pass", "port": 8443, "protocol": "TLS", "tls": { "mode": "Passthrough" } },
        { "name": "dns", "port": 53, "protocol": "UDP" },
    ]);
    let parent = json!([{ "name": "edge" }]);
    let a = json!([{ "name": "a", "port": 80, "weight": 3 }, { "name": "b", "port": 81 }]);
    let filters = json!([
        { "type": "RequestHeaderModifier", "requestHeaderModifier": {
            "set": [{ "name": "x-a", "value": "b" }], "remove": ["x-c"] } },
        { "type": "URLRewrite", "urlRewrite": { "hostname": "in.example.com",
            "path": { "type": "ReplacePrefixMatch", "replacePrefixMatch": "/v2" } } },
        { "type": "CORS", "cors": { "allowOrigins": ["https://a.example.com"],
            "allowMethods": ["GET"], "allowHeaders": ["x-a"], "allowCredentials": true } },
        { "type": "RequestMirror", "requestMirror": { "backendRef": { "name": "b", "port": 81 },
            "fraction": { "numerator": 1, "denominator": 3 } } },
    ]);
    let redirect = json!([{ "type": "RequestRedirect", "requestRedirect": { "scheme": "https",
        "hostname": "b.example.com", "port": 8443, "statusCode": 301,
        "path": { "type": "ReplaceFullPath", "replaceFullPath": "/new" } } }]);
    let header = json!({ "name": "x-a", "type": "RegularExpression", "value": "a+" });
    let matches = json!([{ "path": { "type": "PathPrefix", "value": "/v1" }, "method": "GET",
        "headers": [header], "queryParams": [{ "name": "q", "value": "1" }] }]);
    json!([
        object("Gateway", "edge", json!({ "listeners": listeners })),
        object("HTTPRoute", "web", json!({ "parentRefs": parent, "hostnames": ["a.example.com"],
            "rules": [
                { "matches": matches, "filters": filters, "backendRefs": a,
                  "timeouts": { "backendRequest": "1m30s" } },
                { "matches": [{ "path": { "type": "RegularExpression", "value": "/x.*" } }],
                  "filters": redirect },
            ] })),
        object("GRPCRoute", "calls", json!({ "parentRefs": parent, "rules": [
            { "matches": [{ "method": { "service": "a.B", "method": "C" } }],
              "backendRefs": a }] })),
        object("TLSRoute", "pass", json!({ "parentRefs": parent, "hostnames": ["c.example.com"],
            "rules": [{ "backendRefs": a }] })),
        object("UDPRoute", "dns", json!({ "parentRefs": parent,
            "rules": [{ "backendRefs": a }] })),
        object("BackendTLSPolicy", "b", json!({
            "targetRefs": [{ "kind": "Service", "name": "b" }],
            "validation": { "hostname": "b.internal", "wellKnownCACertificates": "System" } })),
        { "apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice",
          "metadata": { "namespace": "shop", "labels": { "kubernetes.io/service-name": "a" } },
          "ports": [{ "port": 8080 }], "endpoints": [{ "addresses": ["10.0.0.1"] }] },
    ])
}

/// An OpenAPI document.
fn api() -> Value {
    json!({
        "openapi": "3.0.3",
        "info": { "title": "Shop" },
        "servers": [{ "url": "https://{host}:8443/v1/",
            "variables": { "host": { "default": "api.example" } } }],
        "security": [{ "key": [] }],
        "components": {
            "schemas": { "Item": { "type": "object", "properties": {
                "price": { "type": "number", "minimum": 0, "exclusiveMinimum": true },
                "parent": { "$ref": "#/components/schemas/Item" } } } },
            "securitySchemes": {
                "key": { "type": "apiKey", "in": "header", "name": "X-Key" },
                "password": { "type": "http", "scheme": "basic" },
                "token": { "type": "http", "scheme": "bearer", "bearerFormat": "JWT" },
                "login": { "type": "openIdConnect",
                    "openIdConnectUrl": "https://id.example/.well-known/openid-configuration" },
            },
        },
        "paths": { "/items/{id}": {
            "parameters": [{ "name": "id", "in": "path", "schema": { "type": "integer" } }],
            "put": { "operationId": "put", "requestBody": { "required": true, "content": {
                "application/json": { "schema": { "$ref": "#/components/schemas/Item" } } } } },
            "post": { "security": [{ "token": ["read"], "password": [] }] },
            "delete": { "security": [{ "login": ["a b"] }, { "key": [], "token": [] }] },
            "get": { "security": [{ "login": ["read:items"] }], "parameters": [
                { "name": "q", "in": "query", "required": true,
                  "schema": { "type": "string", "pattern": "^a", "maxLength": 5 } }] },
        } },
    })
}

fn condition(kind: &str, operator: &str, value: &str) -> Value {
    json!({ "paramType": kind, "operator": operator, "paramName": "x", "paramValue": value })
}

/// An export of ShenYu's admin, with a selector and a rule of each plugin that is converted.
fn export() -> Value {
    let names = [
        "divide",
        "mock",
        "redirect",
        "keyAuth",
        "sign",
        "jwt",
        "rateLimiter",
        "sentinel",
        "resilience4j",
        "hystrix",
        "request",
        "contextPath",
        "rewrite",
        "modifyResponse",
        "cache",
        "aiProxy",
        "aiPrompt",
        "aiTokenLimiter",
    ];
    let handle = json!({
        "loadBalance": "hash", "retry": 3, "timeout": 3000, "requestMaxSize": 10,
        "responseContent": "${int|1-2}", "httpStatusCode": 200,
        "redirectURI": "https://a.example/", "keyName": "key", "key": "k", "replenishRate": 1,
        "burstCapacity": 2, "requestCount": 1, "algorithmName": "tokenBucket",
        "limitForPeriod": 50, "limitRefreshPeriod": 500, "circuitEnable": 1, "flowRuleEnable": 1,
        "flowRuleCount": 10, "degradeRuleEnable": 1, "degradeRuleGrade": 0, "degradeRuleCount": 5,
        "contextPath": "/a", "addPrefix": "/b", "regex": "/a", "replace": "/b",
        "timeoutSeconds": 10, "setHeaders": { "x-a": "b" }, "removeBodyKeys": ["$.c"],
        "header": { "setHeaders": { "x-a": "b" }, "removeHeaderKeys": ["x-c"] },
        "addBodyKeys": [{ "path": "$", "key": "a", "value": "b" }],
        "preRole": "user", "prepend": "a", "aiTokenLimitType": "header", "tokenLimit": 1,
        "timeWindowSeconds": 60,
    });
    let servers = json!([{ "protocol": "http://", "upstreamUrl": "127.0.0.1:1", "weight": 5 }]);
    let provider = |name: &str| {
        json!({ "provider": name, "baseUrl": "http://127.0.0.1:1/v1", "apiKey": "k", "model": "m",
            "stream": true })
    };
    let mut ai = provider("OpenAI");
    ai["fallbackConfig"] = provider("DeepSeek");
    let plugins = names.map(|name| {
        json!({ "id": name, "name": name, "sort": 1, "enabled": true,
            "config": { "secretKey": "a-secret-of-at-least-32-bytes-to-sign" } })
    });
    let selectors = names.map(|name| {
        let path = if ["divide", "aiProxy"].contains(&name) { "/**" } else { "/a/**" };
        json!({ "id": name, "pluginId": name, "name": name, "type": 1, "matchMode": 0, "sort": 1,
            "enabled": true, "continued": true,
            "handle": if name == "aiProxy" { &ai } else { &servers },
            "conditionList": [condition("uri", "match", path)] })
    });
    let rules = names.map(|name| {
        // Models have requests of their own: earlier plugins would respond to all of them.
        let value = if name.starts_with("ai") { "2" } else { "1" };
        json!({ "id": name, "selectorId": name, "name": name, "matchMode": 0, "sort": 1,
            "enabled": true, "handle": handle, "conditionDataList": [
                condition("uri", "startsWith", "/a"), condition("header", "=", value)] })
    });
    let apps = ["app", "app", "b c"].map(|key| {
        json!({ "id": "1", "appKey": key, "appSecret": "0123456789abcdef", "open": false,
            "enabled": true })
    });
    json!({ "plugin": plugins, "selector": selectors, "rule": rules, "auth": apps })
}

/// Inputs that each change one value of a document, and the document itself.
fn changes(document: &Value) -> Vec<Vec<u8>> {
    let odd = [
        "18446744073709551615",
        "-1",
        "1e300",
        "\"\"",
        "\"/{a}${b}\\\"\\n: [*\"",
        "\"x.*(?=y)\"",
        "null",
        "[1]",
        "{}",
        "\"a\\u0000b\"",
    ];
    let mut pointers = Vec::new();
    collect_pointers(document, "", &mut pointers);
    let values = odd.iter().cycle();
    let change = |(pointer, value): (&String, &&str)| format!("{pointer}\n{value}").into_bytes();
    let mut inputs: Vec<Vec<u8>> = pointers.iter().zip(values).map(change).collect();
    inputs.push(document.to_string().into_bytes());
    inputs
}

/// Collects the JSON Pointers of all values that are neither maps nor lists.
fn collect_pointers(value: &Value, pointer: &str, all: &mut Vec<String>) {
    match value {
        Value::Object(members) => members.iter().for_each(|(name, value)| {
            let name = name.replace('~', "~0").replace('/', "~1");
            collect_pointers(value, &format!("{pointer}/{name}"), all);
        }),
        Value::Array(items) => items.iter().enumerate().for_each(|(index, value)| {
            collect_pointers(value, &format!("{pointer}/{index}"), all);
        }),
        _ => all.push(pointer.to_owned()),
    }
}

/// The document of an input: JSON, or a JSON Pointer, a line break and the value that replaces the
/// one at this place of the seed.
fn document(data: &[u8], seed: fn() -> Value) -> Option<Value> {
    if !data.starts_with(b"/") {
        return serde_json::from_slice(data).ok();
    }
    let at = data.iter().position(|byte| *byte == b'\n')?;
    let pointer = std::str::from_utf8(&data[..at]).ok()?;
    let mut document = seed();
    *document.pointer_mut(pointer)? = serde_json::from_slice(&data[at + 1..]).ok()?;
    Some(document)
}

/// Asserts that the output of an importer passes `check`, unless the importer rejects the input.
///
/// What `check` reports by design: files that do not exist, so that no listener starts without its
/// certificate and no route without its users; and schemas that are invalid in the document.
fn assert_valid(imported: Result<String, String>) {
    let Ok(text) = imported else { return };
    let loaded = load(&TextSource::new("imported.yaml", &text), &|_| None, &Kinds::all());
    let Err(report) = loaded else { return };
    let report = report.render();
    let is_expected = |error: &str| {
        error.starts_with("error: this is not a valid JSON Schema") || error.contains("cannot read")
    };
    let mut errors = report.lines().filter(|line| line.starts_with("error"));
    assert!(errors.all(is_expected), "{report}\n{text}");
}
