//! `tidegate import shenyu`: an archive in the format of the admin's export, and how the imported
//! routes respond.

mod discovered;

use std::io::Write as _;
use std::process::{Command, Stdio};
use std::time::{SystemTime, UNIX_EPOCH};

use flate2::{Compression, write::DeflateEncoder};
use scenarios::{HttpResponse, Launch, Tidegate, Upstream};
use serde_json::{Value, json};

/// An archive as Java's `ZipOutputStream` writes it: lengths follow the content.
fn archive(files: &[(&str, Value)]) -> Vec<u8> {
    let (mut out, mut directory) = (Vec::new(), Vec::new());
    let le = |number: usize, length: usize| (number as u128).to_le_bytes()[..length].to_vec();
    for (name, content) in files {
        let content = content.to_string();
        let mut encoder = DeflateEncoder::new(Vec::new(), Compression::default());
        encoder.write_all(content.as_bytes()).expect("a vector takes everything");
        let packed = encoder.finish().expect("a vector takes everything");
        let at = out.len();
        // Version 20, flag 8 (lengths follow), method 8, no time, no checksum or lengths yet.
        let fields = [le(20, 2), le(8, 2), le(8, 2), le(0, 4)].concat();
        let lengths = [le(0, 4), le(packed.len(), 4), le(content.len(), 4)].concat();
        out.extend([b"PK\x03\x04".to_vec(), fields.clone(), le(0, 12), le(name.len(), 2)].concat());
        out.extend([le(0, 2), name.as_bytes().to_vec(), packed].concat());
        out.extend([b"PK\x07\x08".to_vec(), lengths.clone()].concat());
        directory.extend([b"PK\x01\x02".to_vec(), le(20, 2), fields, lengths].concat());
        directory.extend([le(name.len(), 2), le(0, 12), le(at, 4)].concat());
        directory.extend(name.as_bytes());
    }
    let end = out.len();
    out.extend(&directory);
    let count = files.len();
    out.extend([b"PK\x05\x06".to_vec(), le(0, 4), le(count, 2), le(count, 2)].concat());
    out.extend([le(directory.len(), 4), le(end, 4), le(0, 2)].concat());
    out
}

const APP_SECRET: &str = "506EEB535CF740D7A755CB4B9F4A1536";

/// The fields of a GET that an app signs in version 1.0.0.
fn signed(key: &str, path: &str) -> String {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).expect("a time after 1970");
    let timestamp = now.as_millis();
    let text = format!("path{path}timestamp{timestamp}version1.0.0{APP_SECRET}");
    let mut md5sum = Command::new("md5sum");
    let mut md5sum = md5sum.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("md5sum");
    let mut stdin = md5sum.stdin.take().expect("a pipe");
    stdin.write_all(text.as_bytes()).expect("a pipe takes it");
    drop(stdin);
    let output = md5sum.wait_with_output().expect("md5sum ends").stdout;
    let sign = String::from_utf8_lossy(&output[..32]).to_uppercase();
    format!("appKey: {key}\r\nsign: {sign}\r\ntimestamp: {timestamp}\r\nversion: 1.0.0\r\n")
}

fn condition(kind: &str, operator: &str, name: &str, value: &str) -> Value {
    json!({ "id": "1", "paramType": kind, "paramTypeName": kind, "operator": operator,
        "operatorName": operator, "paramName": name, "paramValue": value })
}

fn uri(operator: &str, value: &str) -> Value {
    condition("uri", operator, "/", value)
}

/// A `SelectorVO`.
fn selector(id: &str, plugin: &str, sort: u64, conditions: &[Value], handle: &Value) -> Value {
    json!({ "id": id, "pluginId": plugin, "name": format!("selector-{id}"), "matchMode": 0,
        "matchModeName": "and", "type": 1, "typeName": "custom flow", "sort": sort,
        "enabled": true, "loged": true, "continued": true, "matchRestful": false,
        "handle": handle.to_string(), "selectorConditions": conditions,
        "dateCreated": "2026-01-01 10:00:00", "dateUpdated": "2026-01-01 10:00:00" })
}

/// A `RuleVO`.
fn rule(id: &str, selector: &str, sort: u64, conditions: &[Value], handle: &Value) -> Value {
    json!({ "id": id, "selectorId": selector, "matchMode": 0, "matchModeName": "and",
        "name": format!("rule-{id}"), "enabled": true, "loged": true, "sort": sort,
        "handle": handle.to_string(), "ruleConditions": conditions,
        "dateCreated": "2026-01-01 10:00:00", "dateUpdated": "2026-01-01 10:00:00" })
}

fn plugin(id: &str, name: &str, sort: u64, config: &Value) -> Value {
    json!({ "id": id, "role": "Proxy", "name": name, "config": config.to_string(), "sort": sort,
        "enabled": true, "dateCreated": "2026-01-01 10:00:00", "pluginHandleList": [] })
}

/// The files of an export with a service behind divide and rules of other plugins.
fn export(address: &str) -> Vec<(&'static str, Value)> {
    let none = json!({});
    let plugins = [
        ("mock", 1),
        ("sign", 20),
        ("waf", 50),
        ("rateLimiter", 60),
        ("contextPath", 80),
        ("rewrite", 90),
        ("redirect", 110),
        ("request", 120),
        ("keyAuth", 150),
        ("aiTokenLimiter", 171),
        ("loggingKafka", 180),
        ("divide", 200),
        ("modifyResponse", 220),
        ("dubbo", 310),
    ];
    let plugins = plugins.map(|(name, sort)| plugin(name, name, sort, &none));
    let server = json!([{ "upstreamHost": "localhost", "protocol": "http://",
        "upstreamUrl": address, "weight": 50, "status": true, "timestamp": 0, "warmup": 0 }]);
    let of = |id: &str, conditions: &[Value]| selector(id, id, 1, conditions, &none);
    let all = || uri("match", "/**");
    let selectors = [
        selector("divide", "divide", 1, &[uri("match", "/shop/**")], &server),
        of("mock", &[uri("=", "/mocked")]),
        of("redirect", &[uri("startsWith", "/old/")]),
        of("sign", &[uri("match", "/shop/signed/**")]),
        of("waf", &[all()]),
        of("rateLimiter", &[uri("match", "/shop/limited")]),
        of("contextPath", &[uri("match", "/shop/**")]),
        of("rewrite", &[uri("match", "/shop/**")]),
        of("request", &[uri("match", "/shop/**")]),
        of("keyAuth", &[uri("match", "/shop/private/**")]),
        of("modifyResponse", &[all()]),
        of("dubbo", &[all()]),
        of("loggingKafka", &[all()]),
        of("aiTokenLimiter", &[all()]),
    ];
    let rules = [
        rule(
            "low",
            "divide",
            9,
            &[uri("match", "/shop/**")],
            &json!({ "loadBalance": "random",
            "retry": 3, "timeout": 3000, "requestMaxSize": 64 }),
        ),
        rule("post", "divide", 1, &[condition("req_method", "=", "/", "post")], &none),
        rule(
            "mocked",
            "mock",
            1,
            &[uri("=", "/mocked")],
            &json!({ "httpStatusCode": 201,
            "responseContent": "{\"n\": ${int|7-7}}" }),
        ),
        rule(
            "moved",
            "redirect",
            1,
            &[uri("startsWith", "/old/")],
            &json!({ "redirectURI": "https://new.example.com/" }),
        ),
        rule("signed", "sign", 1, &[uri("match", "/shop/signed/**")], &none),
        rule(
            "scanner",
            "waf",
            1,
            &[condition("header", "contains", "user-agent", "nikto")],
            &json!({ "permission": "reject", "statusCode": "418" }),
        ),
        rule(
            "limit",
            "rateLimiter",
            1,
            &[uri("match", "/shop/limited")],
            &json!({
            "algorithmName": "tokenBucket", "replenishRate": 0.01, "burstCapacity": 2,
            "keyResolverName": "WHOLE_KEY_RESOLVER" }),
        ),
        rule(
            "context",
            "contextPath",
            1,
            &[uri("match", "/shop/**")],
            &json!({ "contextPath": "/shop", "addPrefix": "/v1", "percentage": 100 }),
        ),
        rule(
            "user",
            "rewrite",
            1,
            &[uri("regex", "/shop/user/.*")],
            &json!({ "regex": "/user/([0-9]+)", "replace": "/users/$1" }),
        ),
        rule(
            "headers",
            "request",
            1,
            &[uri("match", "/shop/**")],
            &json!({
            "header": { "setHeaders": { "x-gateway": "{1}" }, "removeHeaderKeys": ["x-secret"],
                "replaceHeaderKeys": { "x-old": "x-new" } },
            "parameter": { "addParameters": { "from": "gateway" } } }),
        ),
        rule(
            "key",
            "keyAuth",
            1,
            &[uri("match", "/shop/private/**")],
            &json!({ "keyName": "apiKey", "key": "secret-key" }),
        ),
        rule(
            "response",
            "modifyResponse",
            1,
            &[all()],
            &json!({ "setHeaders": { "x-modified": "yes" }, "statusCode": 201 }),
        ),
        rule("rpc", "dubbo", 1, &[all()], &none),
        rule("kafka", "loggingKafka", 1, &[all()], &none),
        rule("tokens", "aiTokenLimiter", 1, &[all()], &json!({ "tokenLimit": 100 })),
        rule("later", "divide", 1, &[condition("post", "=", "a", "1")], &none),
    ];
    let app = |id: &str, key: &str, secret: &str, open: bool, enabled: bool| {
        json!({ "id": id, "appKey": key, "appSecret": secret, "open": open, "enabled": enabled,
            "authParamVOList": [], "authPathVOList": [] })
    };
    let auth = json!([
        app("7", "app-1", APP_SECRET, false, true),
        app("71", "app-2", "506EEB535CF740D7A755CB4B9F4A1537", true, true),
        app("72", "app-3", "506EEB535CF740D7A755CB4B9F4A1538", false, false),
        app("73", "app-4", "too-short", false, true),
        app("74", "app-1", "506EEB535CF740D7A755CB4B9F4A1539", false, true),
    ]);
    let meta = json!([{ "id": "8", "appName": "rpc", "path": "/rpc/find", "rpcType": "dubbo",
        "serviceName": "Find", "methodName": "find", "enabled": true }]);
    vec![
        ("auth.json", auth),
        ("meta.json", meta),
        ("plugin.json", plugins.to_vec().into()),
        ("selector.json", selectors.to_vec().into()),
        ("rule.json", rules.to_vec().into()),
        ("dict.json", json!([{ "id": "9", "type": "degradeRuleGrade" }])),
    ]
}

/// Responds with the request head as the body.
fn echo() -> Upstream {
    Upstream::start(|peer| {
        while !peer.at_end() {
            let head = peer.read_head();
            if head.starts_with("POST") {
                peer.read_exactly(65);
            }
            peer.send(format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n{head}", head.len()));
        }
    })
}

/// What an export becomes.
fn imported(content: &[u8]) -> String {
    let launch = Launch::new("").file("export.zip", content);
    let exit = launch.run(&["import", "shenyu", "export.zip"]);
    assert!(exit.code == Some(0), "{}", exit.stderr);
    exit.stdout
}

fn get(server: &Tidegate, path: &str, fields: &str) -> HttpResponse {
    let mut client = server.connect("web");
    client.send(format!("GET {path} HTTP/1.1\r\nhost: a\r\n{fields}\r\n"));
    client.read_response()
}

#[test]
fn imported_routes_respond_as_the_rules_say() {
    let upstream = echo();
    let text = imported(&archive(&export(&upstream.address().to_string())));
    let server = Tidegate::start(&text.replace("\":9195\"", "\"127.0.0.1:0\""));

    let plain = get(&server, "/shop/user/42?q=1", "x-secret: s\r\nx-old: o\r\n");
    assert_eq!(plain.status, 200, "{text}");
    let head = plain.text().to_lowercase();
    assert!(head.starts_with("get /v1/users/42?q=1&from=gateway "), "{head}");
    for (field, is_there) in
        [("x-gateway: {1}", true), ("x-new: o", true), ("x-old", false), ("x-secret", false)]
    {
        assert_eq!(head.contains(field), is_there, "{field}: {head}");
    }
    assert_eq!(plain.header("x-modified"), Some("yes"));

    assert_eq!(get(&server, "/shop/a", "user-agent: nikto/2\r\n").status, 418);
    assert_eq!(get(&server, "/shop/private/a", "").status, 401);
    assert_eq!(get(&server, "/shop/private/a", "apikey: secret-key\r\n").status, 200);
    let by_app = |key: &str| get(&server, "/shop/signed/a", &signed(key, "/shop/signed/a")).status;
    assert_eq!(get(&server, "/shop/signed/a", "").status, 401);
    assert_eq!((by_app("app-1"), by_app("app-2"), by_app("app-3")), (200, 401, 401));
    let limited = [0; 3].map(|_| get(&server, "/shop/limited", "").status);
    assert_eq!(limited, [200, 200, 429]);
    let mocked = get(&server, "/mocked", "");
    assert_eq!((mocked.status, &*mocked.text()), (201, "{\"n\": 7}"));
    let moved = get(&server, "/old/a", "");
    assert_eq!(moved.header("location"), Some("https://new.example.com/"));
    assert_eq!(get(&server, "/other", "").status, 404);

    // The rule for POST has the lower `sort`, and no limit of the body.
    for (method, status) in [("PUT", 413), ("POST", 200)] {
        let mut client = server.connect("web");
        let body = "x".repeat(65);
        client.send(format!(
            "{method} /shop/a HTTP/1.1\r\nhost: a\r\ncontent-length: 65\r\n\r\n{body}"
        ));
        assert_eq!(client.read_response().status, status, "{method}");
    }
}

#[test]
fn what_is_not_carried_over_is_named_with_its_file_and_id() {
    let text = imported(&archive(&export("127.0.0.1:1")));
    let notes: String = text.lines().filter_map(|line| line.trim().strip_prefix("# ")).collect();
    let notes = notes.split_whitespace().collect::<Vec<_>>().join(" ");
    for note in [
        "rule.json: rule \"rule-rpc\" (rpc): dubbo is not carried over",
        "rule.json: rule \"rule-kafka\" (kafka): loggingKafka is not carried over",
        "(tokens): aiTokenLimiter is not carried over: write `token_limits` of `ai_proxy`",
        "rule.json: rule \"rule-later\" (later) is not carried over: the condition \"post\"",
        "rule.json: rule \"rule-signed\" (signed): bodies are not signed",
        "consumers: secrets are in clear text below",
        "rule.json: rule \"rule-response\" (response): changed statuses",
        "auth.json: app \"app-2\" (71) is not carried over: its paths are limited",
        "auth.json: app \"app-3\" (72) is not carried over: it is disabled",
        "auth.json: app \"app-4\" (73) is not carried over: its secret is shorter",
        "auth.json: app \"app-1\" (74) is not carried over: an earlier app",
        "meta.json: the RPC method of \"/rpc/find\" (8)",
        "dict.json: 1 objects",
    ] {
        assert!(notes.contains(note), "{note}\n{text}");
    }
    assert!(!text.contains("secret-key"), "{text}");
}

/// The JSON that the admin serves to gateways has the same objects.
#[test]
fn the_json_of_the_admin_is_read_too() {
    let files = export("127.0.0.1:1");
    let group = |name: &str| {
        let (_, objects) = files.iter().find(|(file, _)| *file == name).expect("the file");
        json!({ "md5": "", "lastModifyTime": 1, "data": objects })
    };
    let groups = json!({ "code": 200, "message": "success", "data": {
        "PLUGIN": group("plugin.json"), "SELECTOR": group("selector.json"),
        "RULE": group("rule.json") } });
    let text = imported(groups.to_string().as_bytes());
    let routes = |text: &str| text[text.find("routes:").expect("routes")..].to_owned();
    assert_eq!(routes(&text), routes(&imported(&archive(&files))));
}

/// An export with a model at a provider and a fallback, a prompt and a limit on tokens.
fn ai_export(main: &str, other: &str) -> Vec<u8> {
    let none = json!({});
    let (conditions, mut objects) = ([uri("match", "/ai/**")], Vec::new());
    let names = ["aiPrompt", "aiTokenLimiter", "aiProxy"];
    let plugins: Vec<Value> =
        (170..).zip(names).map(|(sort, name)| plugin(name, name, sort, &none)).collect();
    let fallback = json!({ "provider": "DeepSeek", "baseUrl": format!("http://{other}"),
        "apiKey": "sk-other", "model": "deepseek-chat" });
    let provider = json!({ "provider": "OpenAI", "apiKey": "sk-main", "model": "gpt-4o-mini",
        "baseUrl": format!("http://{main}/v1/chat/completions"), "temperature": "0.5",
        "proxyEnabled": "true", "fallbackConfig": fallback });
    let selectors = names.map(|name| {
        let handle = if name == "aiProxy" { &provider } else { &none };
        selector(name, name, 1, &conditions, handle)
    });
    for (name, handle) in [
        (
            "aiPrompt",
            json!({ "preRole": "SYSTEM", "prepend": "Be brief.", "postRole": "robot",
                "append": "beep" }),
        ),
        (
            "aiTokenLimiter",
            json!({ "aiTokenLimitType": "header", "keyName": "x-user", "timeWindowSeconds": 90,
                "tokenLimit": 5 }),
        ),
        ("aiProxy", none.clone()),
    ] {
        objects.push(rule(name, name, 1, &conditions, &handle));
    }
    archive(&[
        ("plugin.json", plugins.into()),
        ("selector.json", selectors.to_vec().into()),
        ("rule.json", objects.into()),
    ])
}

/// Responds with this status and, as a member, the head and the body of the request.
fn model(status: u16) -> Upstream {
    Upstream::start(move |peer| {
        let head = peer.read_head().to_lowercase();
        let length = head.lines().find_map(|line| line.strip_prefix("content-length: "));
        let length = length.and_then(|text| text.parse().ok()).expect("a length");
        let body = String::from_utf8(peer.read_exactly(length)).expect("JSON is UTF-8");
        let usage = json!({ "prompt_tokens": 4, "completion_tokens": 3 });
        let response = json!({ "usage": usage, "head": head, "body": body }).to_string();
        peer.send(format!(
            "HTTP/1.1 {status} X\r\ncontent-type: application/json\r\nconnection: close\r\n\
             content-length: {}\r\n\r\n{response}",
            response.len()
        ));
    })
}

#[test]
fn models_get_requests_with_their_prompt_and_limits() {
    let (main, other) = (model(500), model(200));
    let (main, other) = (main.address().to_string(), other.address().to_string());
    let text = imported(&ai_export(&main, &other));
    let notes: String = text.lines().filter_map(|line| line.trim().strip_prefix("# ")).collect();
    let notes = notes.split_whitespace().collect::<Vec<_>>().join(" ");
    for note in [
        "(aiPrompt): a message of the role \"robot\" is left out",
        "(aiTokenLimiter): the window of 90 s becomes 2 m",
        "(aiProxy): proxy keys are not part of an export",
        "(aiProxy): temperature and maxTokens are those of the client",
        "(aiProxy): the key of DeepSeek is in clear text below",
    ] {
        assert!(notes.contains(note), "{note}\n{text}");
    }
    let period = "\"period\":\"2m\"";
    let text = text.replace("\":9195\"", "\"127.0.0.1:0\"");
    let server =
        Tidegate::start(&text.replace(period, &format!("{period},\"directory\":\"quotas\"")));
    let ask = |user: &str| {
        let body = r#"{"messages":[{"role":"user","content":"hi"}]}"#;
        let request = format!(
            "POST /ai/ask HTTP/1.1\r\nhost: a\r\nx-user: {user}\r\n\
             content-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
            body.len()
        );
        server.exchange("web", request)
    };
    let response = ask("ann");
    assert_eq!(response.status, 200, "{text}");
    let seen: Value = serde_json::from_str(&response.text()).expect("JSON");
    let head = seen["head"].as_str().expect("a text");
    assert!(head.starts_with("post /v1/chat/completions http/1.1\r\n"), "{head}");
    assert!(head.contains("authorization: bearer sk-other\r\n"), "{head}");
    let body: Value = serde_json::from_str(seen["body"].as_str().expect("a text")).expect("JSON");
    assert_eq!(body["model"], "deepseek-chat");
    let messages = json!([{ "role": "system", "content": "Be brief." },
        { "role": "user", "content": "hi" }]);
    assert_eq!(body["messages"], messages);
    assert_eq!((ask("ann").status, ask("bob").status), (429, 200));
}

#[test]
fn settings_of_models_without_a_model_or_a_provider_are_named() {
    let none = json!({});
    let names = ["aiPrompt", "aiProxy", "divide"];
    let plugins: Vec<Value> =
        (170..).zip(names).map(|(sort, name)| plugin(name, name, sort, &none)).collect();
    let server = json!([{ "upstreamUrl": "127.0.0.1:1", "weight": 50, "status": true }]);
    let proxy = json!({ "provider": "OpenAI", "baseUrl": "ftp://a", "model": "m" });
    let selectors = [
        selector("aiPrompt", "aiPrompt", 1, &[uri("match", "/**")], &none),
        selector("aiProxy", "aiProxy", 1, &[uri("match", "/ai/**")], &proxy),
        selector("divide", "divide", 1, &[uri("match", "/shop/**")], &server),
    ];
    let rules =
        [("aiPrompt", "/**"), ("aiProxy", "/ai/**"), ("divide", "/shop/**")].map(|(name, path)| {
            let handle = json!({ "preRole": "user", "prepend": "hi" });
            rule(name, name, 1, &[uri("match", path)], &handle)
        });
    let text = imported(&archive(&[
        ("plugin.json", plugins.into()),
        ("selector.json", selectors.to_vec().into()),
        ("rule.json", rules.to_vec().into()),
    ]));
    for note in [
        "(aiPrompt): aiPrompt is carried over for routes of aiProxy only",
        "(aiProxy): OpenAI has no valid baseUrl and is left out",
        "(aiProxy) has no provider",
    ] {
        let text = text.replace('#', "").split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(text.contains(note), "{note}\n{text}");
    }
}

#[test]
fn what_is_not_an_export_is_rejected() {
    let whole = archive(&export("127.0.0.1:1"));
    for (content, why) in [
        (&whole[..whole.len() / 2], "no directory"),
        (b"[]".as_slice(), "not a map"),
        (b"{}", "no selectors"),
        (b"PK", "no directory"),
        (b"x", "expected value"),
    ] {
        let launch = Launch::new("").file("export.zip", content);
        let exit = launch.run(&["import", "shenyu", "export.zip"]);
        assert!(exit.code == Some(2) && exit.stderr.contains(why), "{why}: {}", exit.stderr);
    }
}
