//! `grpc_web` and `grpc_json` through a whole server: calls, failures, settings in error and a
//! reload. `interop` has the clients of others.

use std::path::Path;

use scenarios::{HttpResponse, Launch, Tidegate, Upstream};

/// An `Order` whose `order_id` is 7.
const ORDER: &str = "\0\0\0\0\x03\n\x017";

/// Responds to calls with their messages; the order 8 does not exist.
fn orders() -> Upstream {
    Upstream::start(|peer| {
        while !peer.at_end() {
            let head = peer.read_head().to_lowercase();
            assert!(head.starts_with("post /shop.v1.orders/get "), "{head}");
            assert!(head.contains("\r\ncontent-type: application/grpc"), "{head}");
            assert!(head.contains("\r\nte: trailers\r\n"), "{head}");
            let chunked = head.contains("\r\ntransfer-encoding: chunked\r\n");
            let message = match chunked {
                true => peer.read_chunks(),
                false => peer.read_exactly(ORDER.len()),
            };
            let (data, trailers) = match message.last() {
                Some(b'8') => (String::new(), "grpc-status: 5\r\ngrpc-message: no order\r\n"),
                _ => (format!("{:x}\r\n{ORDER}\r\n", ORDER.len()), "grpc-status: 0\r\n"),
            };
            peer.send(format!(
                "HTTP/1.1 200 OK\r\ncontent-type: application/grpc\r\n\
                 transfer-encoding: chunked\r\n\r\n{data}0\r\n{trailers}\r\n"
            ));
        }
    })
}

fn config(upstream: &Upstream, web: &str, json: &str) -> String {
    let shop = Path::new(env!("CARGO_MANIFEST_DIR")).join("../examples/grpc/shop.pb");
    format!(
        r#"
workers: 2
listeners: {{ web: {{ bind: "127.0.0.1:0" }} }}
admin: {{ bind: "127.0.0.1:0" }}
upstreams: {{ orders: {{ servers: ["{}"] }}, gone: {{ servers: ["127.0.0.1:1"] }} }}
routes:
  - name: json
    match: {{ path: "/v1/{{*rest}}" }}
    filters: [{{ grpc_json: {{ descriptors: "{}"{json} }} }}]
    handler: {{ upstream: orders }}
  - name: gone
    match: {{ path: "/gone.Orders/Get" }}
    filters: [{{ grpc_web: {{ {web} }} }}]
    handler: {{ upstream: gone }}
  - name: web
    match: {{ path: "/{{*rest}}" }}
    filters: [{{ grpc_web: {{ {web} }} }}]
    handler: {{ upstream: orders }}
"#,
        upstream.address(),
        shop.display()
    )
}

fn call(server: &Tidegate, path: &str, message: &str) -> HttpResponse {
    server.exchange(
        "web",
        format!(
            "POST {path} HTTP/1.1\r\nhost: a\r\ncontent-type: application/grpc-web\r\n\
             content-length: {}\r\n\r\n{message}",
            message.len()
        ),
    )
}

fn get(server: &Tidegate, target: &str) -> (u16, String) {
    let request = format!("GET {target} HTTP/1.1\r\nhost: a\r\n\r\n");
    let response = server.exchange("web", request);
    (response.status, response.text())
}

#[test]
fn calls_are_translated_before_and_after_a_reload() {
    let upstream = orders();
    let server = Tidegate::start(&config(&upstream, "", ""));
    for turn in 1..=2 {
        let order = call(&server, "/shop.v1.Orders/Get", ORDER);
        assert_eq!(order.header("content-type"), Some("application/grpc-web"));
        let body = order.text();
        assert!(body.starts_with(ORDER) && body.contains("grpc-status:0\r\n"), "{body:?}");
        assert_eq!(order.header("grpc-status"), None);
        let failed = call(&server, "/gone.Orders/Get", ORDER).text();
        assert!(failed.contains("grpc-status:14\r\n"), "{failed:?}");
        assert_eq!(get(&server, "/v1/orders/7"), (200, r#"{"orderId":"7"}"#.to_owned()));
        let (status, missing) = get(&server, "/v1/orders/8");
        assert!(status == 404 && missing.contains("no order"), "{missing}");
        let (status, unknown) = get(&server, "/v1/orders/7?colour=red");
        assert!(status == 400 && unknown.contains("colour"), "{unknown}");
        assert_eq!(get(&server, "/v1/nothing").0, 404);
        for (route, code, count) in [
            ("web", "ok", turn),
            ("gone", "unavailable", turn),
            ("json", "ok", turn),
            ("json", "not_found", turn),
        ] {
            let labels = [("route", route), ("grpc_status", code)];
            server.wait_for_metric("tidegate_grpc_requests_total", &labels, f64::from(count));
        }
        if turn == 1 {
            let before = server.metrics().sum("tidegate_config_reloads_total", &[]);
            server.rewrite_config(&config(&upstream, "", ", message: 1MiB"));
            server.wait_for_metric("tidegate_config_reloads_total", &[], before + 1.0);
        }
    }
    let before = server.metrics().sum("tidegate_config_reloads_total", &[]);
    server.rewrite_config(&config(&upstream, "", ", unknown_fields: ignore"));
    server.wait_for_metric("tidegate_config_reloads_total", &[], before + 1.0);
    assert_eq!(get(&server, "/v1/orders/7?colour=red").0, 200);
}

#[test]
fn settings_in_error_are_named() {
    let upstream = orders();
    for (web, json, error) in [
        ("text: true", "", "unknown key"),
        ("", ", services: [shop.v1.Order]", "did you mean \"shop.v1.Orders\"?"),
        ("", ", message: 1B", "1KiB"),
        ("", ", unknown_fields: drop", "unknown_fields"),
    ] {
        let launch = Launch::new(&config(&upstream, web, json));
        let exit = launch.run(&["check", "tidegate.yaml"]);
        assert!(exit.code != Some(0) && exit.stderr.contains(error), "{error}: {exit:?}");
    }
    let missing = config(&upstream, "", "").replace("shop.pb", "nothing.pb");
    let exit = Launch::new(&missing).run(&["check", "tidegate.yaml"]);
    assert!(exit.code != Some(0) && exit.stderr.contains("nothing.pb"), "{exit:?}");
}
