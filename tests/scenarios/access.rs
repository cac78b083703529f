//! `allow` and `deny` by the address, the user agent and the referer of a request: use, rejection,
//! invalid settings, a reload and metrics.

use scenarios::{Launch, Tidegate};

const CONFIG: &str = r#"
workers: 2
trusted_proxies: ["127.0.0.1"]
listeners: { web: { bind: "127.0.0.1:0" } }
admin: { bind: "127.0.0.1:0" }
routes:
  - match: { path: /guarded }
    filters:
      - deny:
          ip: [198.51.100.0/24, "2001:db8:bad::/48"]
          when:
            - { header: user-agent, regex: "(?i)sqlmap|nikto" }
            - { header: referer, contains: "spam.example" }
    handler: { respond: {} }
  - match: { path: /office }
    filters:
      - deny: { ip: 192.0.2.66 }
      - allow:
          ip: [192.0.2.0/24, "2001:db8:1::/48"]
          when:
            - { header: user-agent, prefix: "office-sync/" }
            - { header: referer, prefix: "https://office.example/" }
    handler: { respond: {} }
"#;

fn status(server: &Tidegate, path: &str, client: &str, fields: &str) -> u16 {
    let fields = format!("host: a\r\nx-forwarded-for: {client}\r\n{fields}");
    server.exchange("web", format!("GET {path} HTTP/1.1\r\n{fields}\r\n")).status
}

/// The path, the client, its fields, and whether the request is allowed.
const REQUESTS: [(&str, &str, &str, bool); 17] = [
    ("/guarded", "192.0.2.7", "", true),
    ("/guarded", "192.0.2.7", "user-agent: Mozilla/5.0\r\nreferer: https://a.example/\r\n", true),
    ("/guarded", "198.51.100.7", "", false),
    ("/guarded", "::ffff:198.51.100.7", "", false),
    ("/guarded", "2001:db8:bad::7", "", false),
    ("/guarded", "2001:db8:bae::7", "", true),
    ("/guarded", "192.0.2.7", "user-agent: SQLMap/1.8\r\n", false),
    ("/guarded", "192.0.2.7", "user-agent: a\r\nuser-agent: nikto\r\n", false),
    ("/guarded", "192.0.2.7", "referer: https://www.spam.example/page\r\n", false),
    ("/office", "192.0.2.7", "", true),
    ("/office", "2001:db8:1::7", "", true),
    ("/office", "203.0.113.7", "", false),
    ("/office", "203.0.113.7", "user-agent: office-sync/2.1\r\n", true),
    ("/office", "203.0.113.7", "user-agent: not-office-sync/2.1\r\n", false),
    ("/office", "203.0.113.7", "referer: https://office.example/start\r\n", true),
    ("/office", "203.0.113.7", "referer: https://office.example.evil.example/\r\n", false),
    ("/office", "192.0.2.66", "user-agent: office-sync/2.1\r\n", false),
];

#[test]
fn addresses_user_agents_and_referers_decide() {
    let server = Tidegate::start(CONFIG);
    let rejected = |filter| {
        let labels = [("filter", filter), ("reason", "access")];
        server.metrics().sum("tidegate_policy_rejections_total", &labels)
    };
    for (path, client, fields, is_allowed) in REQUESTS {
        let expected = if is_allowed { 200 } else { 403 };
        assert_eq!(status(&server, path, client, fields), expected, "{path} {client} {fields}");
    }
    assert_eq!((rejected("deny"), rejected("allow")), (7.0, 3.0));

    // Other lists after a reload, and the same counters.
    let before = server.metrics().sum("tidegate_config_reloads_total", &[]);
    let changed = CONFIG.replace("198.51.100.0/24", "203.0.113.0/24").replace("nikto", "wpscan");
    server.rewrite_config(&changed.replace("office-sync/", "sync/"));
    server.wait_for_metric("tidegate_config_reloads_total", &[], before + 1.0);
    let (nikto, sync) = ("user-agent: nikto\r\n", "user-agent: office-sync/2.1\r\n");
    assert_eq!(status(&server, "/guarded", "198.51.100.7", nikto), 200);
    assert_eq!(status(&server, "/guarded", "203.0.113.7", ""), 403);
    assert_eq!(status(&server, "/guarded", "198.51.100.7", "user-agent: WPScan\r\n"), 403);
    assert_eq!(status(&server, "/office", "203.0.113.7", sync), 403);
    assert_eq!((rejected("deny"), rejected("allow")), (9.0, 4.0));
}

#[test]
fn lists_in_error_are_named() {
    for (from, to, error) in [
        ("192.0.2.66", "192.0.2.666", "192.0.2.666"),
        ("198.51.100.0/24", "198.51.100.1/24", "198.51.100.1/24"),
        ("(?i)sqlmap|nikto", "(sqlmap", "(sqlmap"),
        ("header: referer, contains", "heder: referer, contains", "heder"),
        ("ip: 192.0.2.66", "ips: 192.0.2.66", "did you mean \"ip\"?"),
    ] {
        let launch = Launch::new(&CONFIG.replacen(from, to, 1));
        let exit = launch.run(&["check", "tidegate.yaml"]);
        assert!(exit.code != Some(0) && exit.stderr.contains(error), "{error}: {exit:?}");
    }
}
