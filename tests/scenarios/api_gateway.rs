//! `examples/api-gateway`: each route and each statement of its README.

use std::path::Path;

use scenarios::{HttpResponse, Launch, Tidegate};

const KEY: &str = "x-api-key: warehouse-key\r\n";

fn example(file: &str) -> String {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("../examples/api-gateway");
    std::fs::read_to_string(directory.join(file)).expect("a file of the example")
}

/// The configuration of the example, on other ports.
fn config() -> String {
    let config = example("tidegate.yaml");
    assert!(config.contains("127.0.0.1:8080") && config.contains("127.0.0.1:9180"));
    config.replace(":8080", ":0").replace(":9180", ":0")
}

fn start(config: &str) -> Tidegate {
    Launch::new(config).file("demo.secret", example("demo.secret")).start()
}

/// The header with the token of the README.
fn token() -> String {
    let readme = example("README.md");
    let (_, token) = readme.split_once("'authorization: Bearer ").expect("a token");
    let (token, _) = token.split_once('\'').expect("its end");
    format!("authorization: Bearer {token}\r\n")
}

fn send(server: &Tidegate, line: &str, fields: &str) -> HttpResponse {
    server.exchange("web", format!("{line} HTTP/1.1\r\nhost: a\r\n{fields}\r\n"))
}

fn order(server: &Tidegate, fields: &str) -> (u16, String) {
    let response = send(server, "GET /orders/7", fields);
    (response.status, response.text())
}

fn version(number: u8) -> (u16, String) {
    (200, format!("order 7 of version {number}\n"))
}

#[test]
fn each_request_of_the_readme_gets_its_response() {
    // The machine may be slow: none of the requests comes back in time for the limit to forget it.
    let config = config();
    assert!(config.contains("rate: 10/m"), "{config}");
    let server = start(&config.replace("rate: 10/m", "rate: 10/h"));
    let canary = format!("{KEY}x-canary: 1\r\n");
    let rejected = send(&server, "GET /orders/7", "");
    assert_eq!(rejected.status, 401);
    assert!(rejected.header("x-request-id").is_some());
    // The first five requests of a consumer: the firewall rejects before the limit counts.
    let plain = order(&server, KEY);
    assert!([version(1), version(2)].contains(&plain), "{plain:?}");
    assert_eq!(order(&server, &canary), version(2));
    assert_eq!(send(&server, "GET /orders/7?q=<script>", "").status, 403);
    assert_eq!(send(&server, "GET /orders/7?q=<script>", KEY).status, 403);
    assert_eq!(send(&server, "GET /admin/", KEY).status, 403);
    assert_eq!(order(&server, KEY), plain, "a consumer keeps its version");
    assert_eq!(order(&server, KEY).0, 200);
    let limited = send(&server, "GET /orders/7", KEY);
    assert_eq!(limited.status, 429);
    assert!(limited.header("retry-after").is_some());
    // Another consumer has a limit of its own.
    let internal = send(&server, "GET /admin/", &token());
    assert_eq!((internal.status, internal.text().as_str()), (200, "for internal consumers\n"));
    assert_eq!(order(&server, &token()).0, 200);
    let forged = token().replacen(".", "x.", 1);
    assert_eq!(send(&server, "GET /admin/", &forged).status, 401);
    assert_eq!(send(&server, "GET /admin/", "x-api-key: another-key\r\n").status, 401);
    assert_eq!(send(&server, "GET /other", KEY).status, 404);
    let of_variant = |variant| {
        let labels = [("variant", variant), ("class", "2xx")];
        server.metrics().sum("tidegate_split_responses_total", &labels)
    };
    assert_eq!(of_variant("canary") + of_variant("stable"), 5.0);
    assert!(of_variant("canary") >= 1.0);
}

#[test]
fn a_page_of_the_shop_may_call_the_api_and_others_may_not() {
    let server = start(&config());
    let ask = |origin: &str| {
        let fields = format!(
            "origin: {origin}\r\naccess-control-request-method: GET\r\n\
             access-control-request-headers: x-api-key\r\n"
        );
        let response = send(&server, "OPTIONS /orders/7", &fields);
        (response.status, response.header("access-control-allow-origin").map(str::to_owned))
    };
    let shop = "https://shop.example.com";
    assert_eq!(ask(shop), (204, Some(shop.to_owned())));
    assert_eq!(ask("https://evil.example.com").1, None);
    // A page sees why its request is rejected.
    let rejected = send(&server, "GET /orders/7", &format!("origin: {shop}\r\n"));
    assert_eq!(rejected.status, 401);
    assert_eq!(rejected.header("access-control-allow-origin"), Some(shop));
}

#[test]
fn the_canary_is_mirrored_to_and_rolled_back_by_its_weight() {
    let config = config().replace("rate: 10/m, burst: 5", "rate: 100000/s, burst: 100000");
    let server = start(&config.replace("share: 10%", "share: 100%"));
    let reload = |config: &str| {
        let before = server.metrics().sum("tidegate_config_reloads_total", &[]);
        server.rewrite_config(config);
        server.wait_for_metric("tidegate_config_reloads_total", &[], before + 1.0);
    };
    let stable = config.replace("weight: 5", "weight: 0");
    reload(&stable.replace("share: 10%", "share: 100%"));
    for _ in 0..10 {
        assert_eq!(order(&server, KEY), version(1));
    }
    server.wait_for_metric("tidegate_mirror_requests_total", &[("result", "ok")], 10.0);
    reload(&config.replace("weight: 5", "weight: 95").replace("weight: 95 }", "weight: 0 }"));
    assert_eq!(order(&server, KEY), version(2));
}
