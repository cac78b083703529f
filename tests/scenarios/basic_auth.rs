//! `basic_auth` across reloads: which passwords are accepted, although some are remembered, and
//! what is counted.

use scenarios::{HttpResponse, Tidegate};

use crate::consumers::{BCRYPT, BOB};

/// `open`, by htpasswd.
const OPEN_HASH: &str = "$2b$04$KQDicS1lmzQNQBpfdNysS.fc7NaSy/SwAgDRYSqQXwnKAIZL4q94q";
/// `bob:open`.
const BOB_OPEN: &str = "authorization: Basic Ym9iOm9wZW4=\r\n";

/// `hash` is that of bob's password, as a user of the filter and as a consumer.
fn config(user: &str, hash: &str) -> String {
    format!(
        r#"
workers: 2
listeners: {{ web: {{ bind: "127.0.0.1:0" }} }}
admin: {{ bind: "127.0.0.1:0" }}
consumers: [{{ name: {user}, groups: [gold], password: "{hash}" }}]
routes:
  - match: {{ path: /users }}
    filters:
      - basic_auth: {{ users: [{{ consumer: {user}, password: "{hash}" }}], remember: 1h }}
    handler: {{ respond: {{ headers: {{ x-seen: "{{consumer}}" }} }} }}
  - match: {{ path: /consumers }}
    filters: [{{ basic_auth: {{ remember: 1h, realm: shop }} }}]
    handler: {{ respond: {{ headers: {{ x-seen: "{{consumer}} {{groups}}" }} }} }}
"#
    )
}

fn get(server: &Tidegate, path: &str, fields: &str) -> HttpResponse {
    server.exchange("web", format!("GET {path} HTTP/1.1\r\nhost: a\r\n{fields}\r\n"))
}

/// The consumers that both routes see, more than once: each worker remembers passwords by itself.
fn seen(server: &Tidegate, fields: &str) -> [Option<String>; 2] {
    ["/users", "/consumers"].map(|path| {
        let responses = (0..6).map(|_| get(server, path, fields));
        let mut seen: Vec<_> =
            responses.map(|response| response.header("x-seen").map(str::to_owned)).collect();
        seen.dedup();
        assert_eq!(seen.len(), 1, "{path}: {seen:?}");
        seen.remove(0)
    })
}

#[test]
fn a_reload_decides_about_passwords_that_are_remembered() {
    let server = Tidegate::start(&config("bob", BCRYPT));
    let reload = |config: &str| {
        let before = server.metrics().sum("tidegate_config_reloads_total", &[]);
        server.rewrite_config(config);
        server.wait_for_metric("tidegate_config_reloads_total", &[], before + 1.0);
    };
    let rejected = |reason| {
        let labels = [("filter", "basic_auth"), ("reason", reason)];
        server.metrics().sum("tidegate_auth_refusals_total", &labels)
    };
    let bob = [Some("bob".to_owned()), Some("bob gold".to_owned())];
    let none = [None, None];
    assert_eq!(seen(&server, BOB), bob);
    assert_eq!(seen(&server, BOB_OPEN), none);
    assert_eq!(seen(&server, ""), none);
    assert_eq!((rejected("invalid"), rejected("missing")), (12.0, 12.0));
    let response = get(&server, "/consumers", BOB_OPEN);
    let challenge = "Basic realm=\"shop\", charset=\"UTF-8\"";
    assert_eq!((response.status, response.header("www-authenticate")), (401, Some(challenge)));

    // The same passwords, another one, and another user with it.
    reload(&config("bob", BCRYPT).replace("realm: shop", "realm: store"));
    assert!(get(&server, "/consumers", "").header("www-authenticate").unwrap().contains("store"));
    assert_eq!(seen(&server, BOB), bob);
    reload(&config("bob", OPEN_HASH));
    assert_eq!(seen(&server, BOB), none);
    assert_eq!(seen(&server, BOB_OPEN), bob);
    reload(&config("ann", OPEN_HASH));
    assert_eq!(seen(&server, BOB_OPEN), none);
    let rejections = (rejected("invalid"), rejected("missing"));
    assert_eq!(rejections, (37.0, 13.0), "the counters survive reloads");

    // A password in clear text is an error, and the configuration before stays in use.
    server.rewrite_config(&config("bob", "sesame-in-clear"));
    server.wait_for_log("configuration rejected");
    assert_eq!(seen(&server, BOB_OPEN), none);
    assert!(!server.log().iter().any(|line| line.contains("sesame-in-clear")));
}
