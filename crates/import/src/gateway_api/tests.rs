//! What manifests become, object by object.

use serde_json::{Value, json};

use super::{Manifest, convert, split};

fn manifest(value: Value) -> Manifest {
    Manifest { place: "m.yaml:1".to_owned(), value }
}

fn object(kind: &str, name: &str, spec: Value) -> Manifest {
    manifest(json!({
        "apiVersion": "gateway.networking.k8s.io/v1", "kind": kind,
        "metadata": { "namespace": "shop", "name": name }, "spec": spec,
    }))
}

fn gateway() -> Manifest {
    let listener = json!({ "name": "web", "port": 80, "protocol": "HTTP" });
    object("Gateway", "edge", json!({ "gatewayClassName": "x", "listeners": [listener] }))
}

fn route(name: &str, hosts: &[&str], rule: Value) -> Manifest {
    let spec = json!({ "parentRefs": [{ "name": "edge" }], "hostnames": hosts, "rules": [rule] });
    object("HTTPRoute", name, spec)
}

fn to(name: &str) -> Value {
    json!([{ "name": name, "port": 8080 }])
}

fn converted(manifests: Vec<Manifest>) -> String {
    convert(&manifests, "m.yaml").unwrap()
}

/// The lines from the first route on.
fn routes(text: &str) -> Vec<&str> {
    text.lines().skip_while(|line| *line != "routes:").skip(1).map(str::trim).collect()
}

#[test]
fn documents_are_separated_and_have_the_lines_of_the_file() {
    let documents = split("# a comment\n---\na: 1\n--- # b\nb: 2\n---\n---\n...\n");
    let places: Vec<_> = documents.iter().map(|(line, text)| (*line, text.trim())).collect();
    assert_eq!(places, [(3, "a: 1"), (5, "b: 2")]);
    assert!(documents[1].1.starts_with("\n\n\n\nb"));
}

#[test]
fn a_route_has_its_path_host_and_upstream() {
    let path = json!({ "matches": [{ "path": { "type": "PathPrefix", "value": "/cart/" } }],
        "backendRefs": to("cart") });
    let text = converted(vec![gateway(), route("cart", &["shop.example.com"], path)]);
    assert!(text.contains("http-80: { bind: \":80\" }"), "{text}");
    let servers = r#""shop-cart-8080": {"servers":["cart.shop.svc.cluster.local:8080"]}"#;
    assert!(text.contains(servers), "{text}");
    let matched =
        r#"match: {"listener":["http-80"],"host":["shop.example.com"],"path":"/cart/{*rest}"}"#;
    assert_eq!(
        routes(&text),
        ["- name: \"shop-cart\"", matched, "handler: {\"upstream\":\"shop-cart-8080\"}"]
    );
}

#[test]
fn what_may_not_be_passed_over_gets_500() {
    let rule = |filters: Value, backends: Value| {
        route("r", &[], json!({ "filters": filters, "backendRefs": backends }))
    };
    let other = json!([{ "name": "a", "namespace": "far", "port": 1 }]);
    let extension = json!([{ "type": "ExtensionRef" }]);
    for (filters, backends) in [
        (json!([]), json!([])),
        (json!([]), other.clone()),
        (json!([]), json!([{ "name": "a" }])),
        (json!([]), json!([{ "name": "a", "port": 80, "weight": 0 }])),
        (json!([]), json!([{ "name": "a", "kind": "Bucket", "port": 80 }])),
        (extension, to("a")),
    ] {
        let text = converted(vec![gateway(), rule(filters, backends)]);
        assert!(text.contains("handler: {\"respond\":{\"status\":500}}"), "{text}");
        assert!(text.contains("500"), "{text}");
    }
    let grant = manifest(json!({
        "apiVersion": "gateway.networking.k8s.io/v1beta1", "kind": "ReferenceGrant",
        "metadata": { "namespace": "far", "name": "g" },
        "spec": {
            "from": [{ "group": "gateway.networking.k8s.io", "kind": "HTTPRoute",
                "namespace": "shop" }],
            "to": [{ "group": "", "kind": "Service", "name": "a" }],
        },
    }));
    let text = converted(vec![gateway(), rule(json!([]), other), grant]);
    assert!(text.contains("a.far.svc.cluster.local:1"), "{text}");
}

#[test]
fn shares_are_a_split_and_missing_ones_get_500() {
    let backends = json!([
        { "name": "a", "port": 80, "weight": 9 },
        { "name": "b", "port": 80 },
        { "name": "c", "kind": "Bucket", "port": 80, "weight": 2 },
    ]);
    let text = converted(vec![gateway(), route("r", &[], json!({ "backendRefs": backends }))]);
    for part in [
        r#"{"name":"shop-a-80","weight":9,"handler":{"upstream":"shop-a-80"}}"#,
        r#"{"name":"shop-b-80","weight":1,"handler":{"upstream":"shop-b-80"}}"#,
        r#"{"name":"missing","weight":2,"handler":{"respond":{"status":500}}}"#,
    ] {
        assert!(text.contains(part), "{text}");
    }
}

/// The order of the specification: a method is more special than any number of headers.
#[test]
fn priorities_are_written_where_our_order_differs() {
    let header = |name| json!({ "name": name, "value": "1" });
    let of = |matches: Value| json!({ "matches": [matches], "backendRefs": to("a") });
    let method = route("b", &[], of(json!({ "method": "GET" })));
    let headers = route("a", &[], of(json!({ "headers": [header("x-a"), header("x-b")] })));
    let text = converted(vec![gateway(), headers, method]);
    let lines = routes(&text);
    assert!(lines[1].contains("\"methods\":[\"GET\"]") && lines[1].contains("\"priority\":2"));
    assert!(lines[4].contains("x-a") && lines[4].contains("\"priority\":1"), "{lines:?}");
    // Of one header and two, the second is more special here as well.
    let one = route("a", &[], of(json!({ "headers": [header("x-a")] })));
    let two = route("b", &[], of(json!({ "headers": [header("x-a"), header("x-b")] })));
    let text = converted(vec![gateway(), one, two]);
    assert!(!text.contains("priority"), "{text}");
    // The older one comes first, then the lesser name.
    let same = |name: &str| route(name, &[], of(json!({})));
    let text = converted(vec![gateway(), same("b"), same("a")]);
    assert_eq!(routes(&text)[0], "- name: \"shop-a\"");
}

#[test]
fn hosts_are_those_of_listener_and_route_together() {
    let listener = json!({ "name": "web", "port": 80, "protocol": "HTTP",
        "hostname": "*.example.com" });
    let gateway = || object("Gateway", "edge", json!({ "listeners": [listener] }));
    let rule = || json!({ "backendRefs": to("a") });
    for (written, expected) in [
        (&[][..], "\"*.example.com\""),
        (&["a.example.com", "other.org"], "\"a.example.com\""),
        (&["*.a.example.com"], "\"*.a.example.com\""),
        (&["*.com"], "\"*.example.com\""),
    ] {
        let text = converted(vec![gateway(), route("r", written, rule())]);
        assert!(text.contains(&format!("\"host\":[{expected}]")), "{text}");
    }
    for nowhere in [&["example.com"][..], &["other.org"]] {
        let manifests = [gateway(), route("r", nowhere, rule())];
        let why = convert(&manifests, "m.yaml").unwrap_err();
        assert!(why.contains("no route that is attached"), "{why}");
    }
}

#[test]
fn filters_become_ours() {
    let filters = json!([
        { "type": "RequestHeaderModifier", "requestHeaderModifier": {
            "set": [{ "name": "x-a", "value": "{1}" }], "remove": ["x-b"] } },
        { "type": "URLRewrite", "urlRewrite": { "hostname": "in.example.com",
            "path": { "type": "ReplacePrefixMatch", "replacePrefixMatch": "/v2" } } },
        { "type": "RequestMirror", "requestMirror": { "backendRef": { "name": "b", "port": 80 },
            "percent": 5 } },
    ]);
    let rule = json!({ "matches": [{ "path": { "value": "/v1" } }], "filters": filters,
        "backendRefs": to("a"), "timeouts": { "backendRequest": "1m30s" } });
    let text = converted(vec![gateway(), route("r", &[], rule)]);
    for part in [
        r#"- {"request_headers":{"set":{"x-a":"{{1}}"},"remove":["x-b"]}}"#,
        r#"- {"rewrite":{"strip_prefix":"/v1","add_prefix":"/v2"}}"#,
        r#"- {"mirror":{"to":{"upstream":"shop-b-80"},"share":"5%"}}"#,
        r#""timeouts":{"response":"90000ms"}"#,
    ] {
        assert!(text.contains(part), "{text}");
    }
    let cors = |settings: Value| {
        let filter = json!([{ "type": "CORS", "cors": settings }]);
        let rule = json!({ "filters": filter, "backendRefs": to("a") });
        converted(vec![gateway(), route("r", &[], rule)])
    };
    let text = cors(json!({ "allowOrigins": ["https://*.a.org", "http://b.org:81"],
        "allowMethods": ["GET", "OPTIONS"], "allowHeaders": ["*"], "allowCredentials": true,
        "maxAge": 60 }));
    let origins = r#"- {"cors":{"origins":["https://*.a.org","http://b.org:81"],"methods":["GET","#;
    assert!(text.contains(origins), "{text}");
    let more = r#""OPTIONS"],"headers":["*"],"credentials":true,"max_age":"60s"}}"#;
    assert!(text.contains(more), "{text}");
    let text = cors(json!({ "allowOrigins": ["*"], "allowCredentials": true }));
    assert!(text.contains("CORS with credentials") && text.contains("500"), "{text}");
    let redirect = |settings: Value| {
        let filter = json!([{ "type": "RequestRedirect", "requestRedirect": settings }]);
        converted(vec![gateway(), route("r", &[], json!({ "filters": filter }))])
    };
    let text = redirect(json!({ "scheme": "https", "statusCode": 301 }));
    assert!(text.contains(r#"{"redirect":{"to":"https://{host}{path}","status":301}}"#), "{text}");
    let text = redirect(json!({ "hostname": "b.org", "port": 8080 }));
    assert!(text.contains(r#""to":"{scheme}://b.org:8080{path}""#), "{text}");
}

#[test]
fn calls_of_grpc_are_paths() {
    let of = |method: Value| {
        let rule = json!({ "matches": [{ "method": method }], "backendRefs": to("a") });
        let spec = json!({ "parentRefs": [{ "name": "edge" }], "rules": [rule] });
        converted(vec![gateway(), object("GRPCRoute", "g", spec)])
    };
    for (method, path) in [
        (json!({ "service": "a.B" }), r#""path":"/a.B/{*rest}""#),
        (json!({ "service": "a.B", "method": "C" }), r#""path":"/a.B/C""#),
        (json!({ "method": "C" }), r#""path":{"regex":"^(?:/[^/]+/C)$"}"#),
        (Value::Null, r#""path":"/{*rest}""#),
    ] {
        let text = of(method);
        assert!(text.contains(path) && text.contains("h2c://a.shop"), "{text}");
    }
}

#[test]
fn endpoints_and_tls_of_a_service_are_used() {
    let service = manifest(json!({ "apiVersion": "v1", "kind": "Service",
        "metadata": { "namespace": "shop", "name": "a" },
        "spec": { "ports": [{ "name": "web", "port": 8080, "targetPort": 9000 }] } }));
    let slice = manifest(json!({ "apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice",
        "metadata": { "namespace": "shop", "name": "a-1",
            "labels": { "kubernetes.io/service-name": "a" } },
        "ports": [{ "name": "web", "port": 9000 }],
        "endpoints": [{ "addresses": ["10.0.0.1"] }, { "addresses": ["fd00::1"] },
            { "addresses": ["10.0.0.9"], "conditions": { "ready": false } }] }));
    let policy = object(
        "BackendTLSPolicy",
        "t",
        json!({
        "targetRefs": [{ "group": "", "kind": "Service", "name": "a" }],
        "validation": { "hostname": "a.internal",
            "caCertificateRefs": [{ "kind": "ConfigMap", "name": "ca" }] } }),
    );
    let rule = json!({ "backendRefs": to("a") });
    let text = converted(vec![gateway(), service, slice, policy, route("r", &[], rule)]);
    let servers = r#""servers":["https://10.0.0.1:9000","https://[fd00::1]:9000"]"#;
    assert!(text.contains(servers), "{text}");
    assert!(text.contains(r#""tls":{"server_name":"a.internal","ca":"shop-ca.crt"}"#), "{text}");
}

#[test]
fn other_protocols_become_streams() {
    let listener = |name: &str, port: u16, protocol: &str, tls: Value| -> Value {
        json!({ "name": name, "port": port, "protocol": protocol, "tls": tls })
    };
    let gateway = object(
        "Gateway",
        "edge",
        json!({ "listeners": [
        listener("tls", 443, "TLS", json!({ "mode": "Passthrough" })),
        listener("db", 5432, "TCP", Value::Null),
        listener("dns", 53, "UDP", Value::Null),
    ] }),
    );
    let of = |kind: &str, section: &str, hosts: Value| {
        let backends = json!([{ "name": section, "port": 1 }, { "name": "b", "port": 2 }]);
        let parent = json!([{ "name": "edge", "sectionName": section }]);
        let rules = json!([{ "backendRefs": backends }]);
        object(kind, section, json!({ "parentRefs": parent, "hostnames": hosts, "rules": rules }))
    };
    let text = converted(vec![
        gateway,
        of("TLSRoute", "tls", json!(["a.example.com"])),
        of("TCPRoute", "db", Value::Null),
        of("UDPRoute", "dns", Value::Null),
    ]);
    for part in [
        r#"- {"name":"tls-443","bind":":443","sni":{"a.example.com":"shop-tls"}}"#,
        r#"- {"name":"tcp-5432","bind":":5432","upstream":"shop-db"}"#,
        r#"- {"name":"udp-53","bind":":53","protocol":"udp","upstream":"shop-dns"}"#,
        r#"{"address":"b.shop.svc.cluster.local:2","weight":10}"#,
    ] {
        assert!(text.contains(part), "{text}");
    }
}

#[test]
fn what_is_not_carried_over_is_named_with_its_place() {
    let rule = json!({ "backendRefs": to("a"), "retry": { "attempts": 2 } });
    let odd = manifest(json!({ "apiVersion": "example.com/v1", "kind": "Cache",
        "metadata": { "name": "c" } }));
    let text = converted(vec![gateway(), odd, route("r", &[], rule)]);
    assert!(text.contains("note: m.yaml:1 Cache default/c (example.com/v1) is not converted"));
    assert!(text.contains("note: m.yaml:1 HTTPRoute shop/r rule 1: retry is not carried over"));
    let far = object("HTTPRoute", "far", json!({ "parentRefs": [{ "name": "none" }] }));
    let text = converted(vec![gateway(), far, route("r", &[], json!({ "backendRefs": to("a") }))]);
    assert!(text.contains("HTTPRoute shop/far: no listener of Gateway shop/none accepts it"));
    let alone = object("HTTPRoute", "alone", json!({}));
    let text =
        converted(vec![gateway(), alone, route("r", &[], json!({ "backendRefs": to("a") }))]);
    assert!(text.contains("shop/alone is left out: it names no Gateway"), "{text}");
    assert!(convert(&[gateway()], "m.yaml").unwrap_err().contains("no route"));
    assert!(convert(&[], "m.yaml").unwrap_err().contains("no Gateway"));
}
