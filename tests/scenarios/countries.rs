//! Countries of clients: `allow` and `deny` by country, the variable, the condition and the log,
//! from a file that is replaced while the server runs.

use scenarios::{HttpResponse, Launch, Tidegate, country_file, eventually};

const CONFIG: &str = r#"
workers: 1
trusted_proxies: ["127.0.0.1"]
listeners: { web: { bind: "127.0.0.1:0" } }
admin: { bind: "127.0.0.1:0" }
log: { access: { format: json, path: access.log } }
geo: { country: countries.mmdb }
routes:
  - match: { path: /allowed }
    filters: [{ allow: { countries: [de, AT] } }]
    handler: { respond: { headers: { x-country: "{country}" } } }
  - match: { path: /denied }
    filters: [{ deny: { countries: [FR, unknown] } }]
    handler: { respond: { headers: { x-country: "{country}" } } }
  - match: { path: /local, when: { country: DE } }
    handler: { respond: { body: hallo } }
  - match: { path: /local }
    handler: { respond: { body: hello } }
"#;

/// 192.0.2.0/24 is in this country, 2001:db8::/32 in France.
fn database(country: &str) -> Vec<u8> {
    country_file(&[("::192.0.2.0", 120, country), ("2001:db8::", 32, "FR")])
}

fn get(server: &Tidegate, path: &str, client: &str) -> HttpResponse {
    let fields = format!("host: a\r\nx-forwarded-for: {client}\r\n");
    server.exchange("web", format!("GET {path} HTTP/1.1\r\n{fields}\r\n"))
}

#[test]
fn countries_decide_and_are_shown() {
    let server = Launch::new(CONFIG).file("countries.mmdb", database("DE")).start();
    for (path, client, status) in [
        ("/allowed", "192.0.2.7", 200),
        ("/allowed", "2001:db8::1", 403),
        ("/allowed", "198.51.100.1", 403),
        ("/denied", "192.0.2.7", 200),
        ("/denied", "2001:db8::1", 403),
        ("/denied", "198.51.100.1", 403),
    ] {
        let response = get(&server, path, client);
        assert_eq!(response.status, status, "{path} {client}");
        assert_eq!(response.header("x-country"), (status == 200).then_some("DE"));
    }
    let rejected = |filter| {
        let labels = [("filter", filter), ("reason", "access")];
        server.metrics().sum("tidegate_policy_rejections_total", &labels)
    };
    assert_eq!((rejected("allow"), rejected("deny")), (2.0, 2.0));
    assert_eq!(get(&server, "/local", "192.0.2.7").text(), "hallo");
    assert_eq!(get(&server, "/local", "2001:db8::1").text(), "hello");
    eventually("the countries in the access log", || {
        let log = std::fs::read_to_string(server.path("access.log")).unwrap_or_default();
        ["DE", "FR", "unknown"].iter().all(|country| {
            log.lines().any(|line| line.contains(&format!(r#""country":"{country}""#)))
        })
    });
    let config = server.path("tidegate.yaml");
    let config = config.to_str().expect("a path");
    let question = ["explain", config, "GET", "http://a/allowed", "--client-ip", "192.0.2.7"];
    let exit = Tidegate::run(&question);
    assert!(exit.stdout.contains("2 countries"), "{exit:?}");
}

#[test]
fn a_replaced_file_is_read_and_a_broken_one_is_not() {
    let server = Launch::new(CONFIG).file("countries.mmdb", database("DE")).start();
    assert_eq!(get(&server, "/allowed", "192.0.2.7").status, 200);
    server.write("countries.mmdb", b"not a database");
    server.wait_for_log("is not a MaxMind DB file");
    assert_eq!(get(&server, "/allowed", "192.0.2.7").status, 200);
    server.write("countries.mmdb", database("CH"));
    eventually("the new file is in use", || get(&server, "/allowed", "192.0.2.7").status == 403);
}

#[test]
fn a_country_needs_a_file_and_two_letters() {
    for (from, to, error) in [
        ("geo: { country: countries.mmdb }\n", "", "no file says which country a client is in"),
        ("countries.mmdb", "missing.mmdb", "cannot read"),
        ("[de, AT]", "[Germany]", "is not a country"),
    ] {
        let launch = Launch::new(&CONFIG.replace(from, to)).file("countries.mmdb", database("DE"));
        let path = launch.path("tidegate.yaml");
        let exit = launch.run(&["check", path.to_str().expect("a path")]);
        assert!(exit.stderr.contains(error), "{error}: {exit:?}");
    }
}
