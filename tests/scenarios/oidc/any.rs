//! `oidc` as the last of several methods: programs have a key, browsers a session.

use scenarios::{Launch, Tidegate, Upstream};

use super::provider::{Browser, Provider};
use super::{SECRET, SESSION, echo, event, rejected};

const KEY: &str = "x-api-key: key-of-batch\r\n";
const WRONG: &str = "x-api-key: another-key\r\n";
const HTML: &str = "accept: text/html\r\n";
const JSON: &str = "accept: application/json\r\n";

fn config(provider: &Provider, upstream: &Upstream, more: &str) -> String {
    format!(
        r#"
workers: 2
listeners: {{ web: {{ bind: "127.0.0.1:0" }} }}
admin: {{ bind: "127.0.0.1:0" }}
upstreams: {{ app: {{ servers: ["{}"] }} }}
consumers:
  - {{ name: batch, groups: [staff], keys: [{{ key: key-of-batch }}] }}
  - {{ name: ann, groups: [staff], jwt: {{ subject: a-17 }} }}
routes:
  - match: {{ path: "/{{*rest}}" }}
    filters:
      - auth:
          any:
            - key_auth: {{}}
            - oidc:
                issuer: "http://{}"
                client_id: shop
                client_secret: sesame open
                cookie_secrets: ["{SECRET}"]
                after_logout: /goodbye
                timeout: 1s
                {more}
      - allow: {{ groups: [staff] }}
      - request_headers: {{ set: {{ x-user: "<{{consumer}} {{claim.sub}}>" }} }}
    handler: {{ upstream: app }}
"#,
        upstream.address(),
        provider.address(),
    )
}

fn start(more: &str) -> (Provider, Upstream, Tidegate) {
    let (provider, upstream) = (Provider::start(), echo());
    let server = Tidegate::start(&config(&provider, &upstream, more));
    (provider, upstream, server)
}

fn wrong_keys(server: &Tidegate) -> f64 {
    let labels = [("filter", "key_auth"), ("reason", "invalid")];
    server.metrics().sum("tidegate_auth_refusals_total", &labels)
}

#[test]
fn programs_have_a_key_and_browsers_a_session() {
    let (provider, upstream, server) = start("");
    let program = |line: &str, fields: &str| {
        Browser::default().send(&server, line, &format!("{fields}cookie: own=1\r\n"))
    };
    let by_key = program("GET /orders", &format!("{KEY}{HTML}"));
    let head = by_key.text();
    assert_eq!((by_key.status, by_key.all("set-cookie").len()), (200, 0), "{head}");
    assert!(head.contains("\r\nx-user: <batch >\r\n") && !head.contains("key-of"), "{head}");
    let mut browser = Browser::default();
    let callback = browser.log_in(&server, &provider, "/orders?page=2");
    assert_eq!(callback.header("location"), Some("/orders?page=2"), "{}", callback.text());
    for (fields, user) in [("", "<ann a-17>"), (WRONG, "<ann a-17>"), (KEY, "<batch >")] {
        let page = browser.send(&server, "GET /", fields);
        let head = page.text();
        assert_eq!(page.status, 200, "{fields}: {head}");
        assert!(head.contains(&format!("\r\nx-user: {user}\r\n")), "{fields}: {head}");
        assert!(!head.contains("__host-") && !head.contains("x-api-key"), "{fields}: {head}");
    }
    assert_eq!((event(&server, "login"), wrong_keys(&server)), (1.0, 0.0));

    // The session outlives a reload, and the key is another one.
    let before = server.metrics().sum("tidegate_config_reloads_total", &[]);
    server.rewrite_config(&config(&provider, &upstream, "").replace("key-of-batch", "key-of-new"));
    server.wait_for_metric("tidegate_config_reloads_total", &[], before + 1.0);
    assert!(browser.get(&server, "/").text().contains("<ann a-17>"));
    assert_eq!(program("GET /orders", &format!("{KEY}{JSON}")).status, 401);
    assert_eq!(wrong_keys(&server), 1.0);
    // The paths of the login belong to it, whatever else a request has.
    let new_key = format!("{HTML}x-api-key: key-of-new\r\n");
    assert_eq!(program("GET /oidc/callback?code=1&state=2", &new_key).status, 400);
    let logout = browser.send(&server, "GET /oidc/logout", &new_key);
    let location = logout.header("location").unwrap_or_default();
    assert!(location.starts_with(&format!("{}/end?", provider.issuer())), "{location}");
    assert!(!browser.cookies.contains_key(SESSION), "{:?}", browser.cookies);
}

#[test]
fn a_page_without_a_credential_leads_to_the_login_and_another_request_gets_all_challenges() {
    let (provider, _upstream, server) = start("");
    for (fields, wrong) in [("", 0.0), (WRONG, 1.0)] {
        let page = Browser::default().send(&server, "GET /", &format!("{HTML}{fields}"));
        let location = page.header("location").unwrap_or_default();
        assert!(location.starts_with(&format!("{}/auth?", provider.issuer())), "{location}");
        assert_eq!((page.status, wrong_keys(&server)), (302, wrong));
    }
    for (line, fields) in [
        ("GET /", JSON.to_owned()),
        ("GET /", format!("{JSON}{WRONG}")),
        ("POST /", HTML.to_owned()),
    ] {
        let response = Browser::default().send(&server, line, &fields);
        let challenges = ["Cookie realm=\"tidegate\"", "ApiKey realm=\"tidegate\""];
        assert_eq!(response.status, 401, "{line} {fields}");
        assert_eq!(response.all("www-authenticate"), challenges);
    }
    assert_eq!((rejected(&server, "missing"), wrong_keys(&server)), (3.0, 2.0));
}

#[test]
fn only_the_token_of_a_session_is_forwarded_as_one() {
    let (provider, _upstream, server) = start("forward_access_token: true");
    let mut browser = Browser::default();
    browser.log_in(&server, &provider, "/");
    let forged = "authorization: Bearer forged\r\n";
    let by_key = Browser::default().send(&server, "GET /", &format!("{KEY}{forged}")).text();
    assert!(by_key.contains("<batch >") && !by_key.contains("authorization"), "{by_key}");
    let by_session = browser.send(&server, "GET /", &format!("{WRONG}{forged}")).text();
    assert!(by_session.contains("\r\nauthorization: bearer access-1\r\n"), "{by_session}");
    assert!(!by_session.contains("forged"), "{by_session}");
}

#[test]
fn it_is_the_last_method_or_an_error() {
    let (provider, upstream) = (Provider::start(), echo());
    let last = config(&provider, &upstream, "");
    let explain = |config: &str| {
        let files = Launch::new(config);
        files.run(&["explain", "tidegate.yaml", "GET", "http://shop.test/"])
    };
    let exit = explain(&last);
    assert!(exit.stdout.contains("any of key_auth (keys of consumers), oidc (http://"), "{exit:?}");
    let first = last
        .replace("            - key_auth: {}\n", "")
        .replace("      - allow:", "            - key_auth: {}\n      - allow:");
    let exit = explain(&first);
    assert!(exit.stderr.contains("put oidc at the end of the list"), "{exit:?}");
}
