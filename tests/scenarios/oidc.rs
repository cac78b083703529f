//! Logins at a provider of OpenID Connect: what a browser sees, what the upstream sees, and what
//! becomes of a provider that lies, fails or is gone.

mod any;
mod provider;

use scenarios::{Launch, Tidegate, Upstream, eventually};

use provider::{Browser, Lie, Provider, field};

const SECRET: &str = "0123456789abcdef0123456789abcdef";
const OTHER_SECRET: &str = "fedcba9876543210fedcba9876543210";
const SESSION: &str = "__Host-tidegate_session";

fn config(provider: &Provider, upstream: &Upstream, secrets: &[&str], more: &str) -> String {
    format!(
        r#"
workers: 2
listeners: {{ web: {{ bind: "127.0.0.1:0" }} }}
admin: {{ bind: "127.0.0.1:0" }}
upstreams: {{ app: {{ servers: ["{}"] }} }}
consumers: [{{ name: ann, groups: [staff], jwt: {{ subject: a-17 }} }}]
routes:
  - match: {{ path: "/{{*rest}}" }}
    filters:
      - oidc:
          issuer: "http://{}"
          client_id: shop
          client_secret: sesame open
          cookie_secrets: {secrets:?}
          after_logout: /goodbye
          timeout: 1m
          {more}
      - allow: {{ groups: [staff] }}
      - request_headers: {{ set: {{ x-user: "{{consumer}} {{claim.sub}} {{claim.email}}" }} }}
    handler: {{ upstream: app }}
"#,
        upstream.address(),
        provider.address(),
    )
}

/// Responds with the head of the request as the body.
fn echo() -> Upstream {
    Upstream::start(|peer| {
        while !peer.at_end() {
            let head = peer.read_head().to_lowercase();
            peer.send(format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n{head}", head.len()));
        }
    })
}

fn start(more: &str) -> (Provider, Upstream, Tidegate) {
    let (provider, upstream) = (Provider::start(), echo());
    let server = Tidegate::start(&config(&provider, &upstream, &[SECRET], more));
    (provider, upstream, server)
}

fn event(server: &Tidegate, event: &str) -> f64 {
    server.metrics().sum("tidegate_oidc_events_total", &[("event", event)])
}

fn rejected(server: &Tidegate, reason: &str) -> f64 {
    let labels = [("filter", "oidc"), ("reason", reason)];
    server.metrics().sum("tidegate_auth_refusals_total", &labels)
}

#[test]
fn a_page_leads_to_the_provider_and_back() {
    let (provider, _upstream, server) = start("userinfo: true");
    let mut browser = Browser::default();
    let response = browser.log_in(&server, &provider, "/orders?page=2");
    let location = response.header("location");
    assert_eq!((response.status, location), (302, Some("/orders?page=2")), "{}", response.text());
    assert!(!browser.cookies.keys().any(|name| name.contains(".login.")), "{:?}", browser.cookies);
    let fields = "cookie: own=1\r\nauthorization: Basic eDp5\r\n";
    let page = browser.send(&server, "GET /orders?page=2", fields);
    let head = page.text();
    assert_eq!(page.status, 200, "{head}");
    assert!(head.contains("\r\nx-user: ann a-17 ann@example.com\r\n"), "{head}");
    assert!(head.contains("\r\ncookie: own=1\r\n") && !head.contains("__host-"), "{head}");
    assert!(head.contains("\r\nauthorization: basic edp5\r\n"), "{head}");
    assert!(!head.contains("access-1"), "{head}");
    assert_eq!(event(&server, "login"), 1.0);
    // Nothing of a login is in the log.
    assert!(!server.log().iter().any(|line| line.contains("code-") || line.contains("access-1")));
}

#[test]
fn requests_that_are_not_pages_get_401() {
    let (_provider, _upstream, server) = start("");
    for (line, fields) in [
        ("POST /", "accept: text/html\r\n"),
        ("GET /", "accept: application/json\r\n"),
        ("GET /", "accept: */*\r\nsec-fetch-mode: cors\r\n"),
        ("GET /", "accept: */*\r\nx-requested-with: XMLHttpRequest\r\n"),
    ] {
        let response = Browser::default().send(&server, line, fields);
        assert_eq!(response.status, 401, "{line} {fields}");
        let challenge = response.header("www-authenticate");
        assert_eq!(challenge, Some("Cookie realm=\"tidegate\""));
    }
    assert_eq!(rejected(&server, "missing"), 4.0);
}

#[test]
fn tabs_log_in_at_a_time_and_a_state_counts_once() {
    let (provider, _upstream, server) = start("");
    let mut browser = Browser::default();
    let one = browser.begin(&server, &provider, "/one");
    let two = browser.begin(&server, &provider, "/two");
    let before = browser.clone();
    assert_eq!(browser.get(&server, &one).header("location"), Some("/one"));
    assert_eq!(browser.get(&server, &two).header("location"), Some("/two"));
    // Without its cookie a state is of no login; with it, the code was used.
    let replayed = browser.get(&server, &one);
    assert_eq!((replayed.status, replayed.all("set-cookie").len()), (400, 0));
    let stolen = before.clone().get(&server, &one);
    assert_eq!(stolen.status, 403);
    assert!(
        stolen
            .all("set-cookie")
            .iter()
            .all(|cookie| !cookie.starts_with(SESSION) || cookie.contains(".login."))
    );
    // The state of one login with the cookie of another browser.
    let mut other = Browser::default();
    other.begin(&server, &provider, "/");
    assert_eq!(other.get(&server, &two).status, 400);
    assert_eq!(rejected(&server, "invalid"), 3.0);
}

#[test]
fn a_provider_that_lies_begins_no_session() {
    let (provider, _upstream, server) = start("");
    for (lie, status) in [
        (Lie::Nonce, 403),
        (Lie::Issuer, 403),
        (Lie::Audience, 403),
        (Lie::Party, 403),
        (Lie::Expired, 403),
        (Lie::Unsigned, 403),
        (Lie::OtherKey, 403),
        (Lie::NoIdToken, 403),
        (Lie::AccessTokenHash, 403),
        (Lie::NoSubject, 403),
        (Lie::InvalidGrant, 403),
        (Lie::Status500, 503),
        (Lie::NoJson, 503),
        (Lie::TooLong, 503),
        (Lie::None, 302),
    ] {
        provider.lie(lie);
        let mut browser = Browser::default();
        let response = browser.log_in(&server, &provider, "/");
        assert_eq!(response.status, status, "{lie:?}: {}", response.text());
        assert_eq!(browser.cookies.contains_key(SESSION), lie == Lie::None, "{lie:?}");
    }
    assert_eq!(rejected(&server, "provider"), 3.0);
    // The response of another provider (RFC 9207), and one without a login.
    let mut browser = Browser::default();
    let callback = browser.begin(&server, &provider, "/");
    let mixed_up = format!("{callback}&iss=https%3A%2F%2Fevil.example");
    assert_eq!(browser.clone().get(&server, &mixed_up).status, 403);
    let refused = callback.replace("code=", "error=access_denied&x=");
    assert_eq!(browser.get(&server, &refused).status, 403);
}

#[test]
fn a_provider_that_hangs_begins_no_session() {
    let (provider, upstream) = (Provider::start(), echo());
    let text = config(&provider, &upstream, &[SECRET], "");
    let text = text.replace("timeout: 1m", "timeout: 1s").replace("workers: 2", "workers: 1");
    let server = Tidegate::start(&text);
    // A busy machine may be too slow for a second; what was fetched is kept.
    eventually("the provider is known", || Browser::default().get(&server, "/").status == 302);
    let before = rejected(&server, "provider");
    provider.lie(Lie::Hangs);
    let mut browser = Browser::default();
    assert_eq!(browser.log_in(&server, &provider, "/").status, 503);
    assert!(!browser.cookies.contains_key(SESSION));
    assert_eq!(rejected(&server, "provider") - before, 1.0);
}

#[test]
fn tokens_are_refreshed_once_and_a_refused_refresh_ends_the_session() {
    let (provider, _upstream, server) = start("forward_access_token: true");
    provider.expires_in(1);
    let mut browser = Browser::default();
    browser.log_in(&server, &provider, "/");
    provider.expires_in(3600);
    let old = browser.clone();
    std::thread::scope(|scope| {
        for _ in 0..8 {
            let (old, server) = (&old, &server);
            let mut browser = old.clone();
            scope.spawn(move || {
                let page = browser.get(server, "/");
                assert_eq!(page.status, 200);
                assert!(page.text().contains("\r\nauthorization: bearer access-1\r\n"));
                assert_ne!(browser.cookies[SESSION], old.cookies[SESSION]);
            });
        }
    });
    assert_eq!(provider.refreshes(), 1);
    assert_eq!(event(&server, "refresh"), 1.0);
    // A provider that fails leaves the session; one that refuses ends it.
    provider.expires_in(1);
    for (lie, status) in [(Lie::Status500, 200), (Lie::InvalidGrant, 302), (Lie::Nonce, 200)] {
        provider.lie(Lie::None);
        let mut browser = Browser::default();
        browser.log_in(&server, &provider, "/");
        provider.lie(lie);
        let page = browser.get(&server, "/");
        assert_eq!(page.status, status, "{lie:?}: {}", page.text());
        assert_eq!(browser.cookies.contains_key(SESSION), status == 200);
    }
    assert_eq!(event(&server, "refresh_failed"), 2.0);
}

#[test]
fn rotated_tokens_are_stored_although_the_userinfo_cannot_be_read() {
    let (provider, _upstream, server) = start("userinfo: true");
    provider.expires_in(1);
    let mut browser = Browser::default();
    browser.log_in(&server, &provider, "/");
    for lie in [Lie::NoUserinfo, Lie::None] {
        provider.lie(lie);
        let page = browser.get(&server, "/");
        assert_eq!(page.status, 200, "{lie:?}: {}", page.text());
        assert!(
            page.text().contains("\r\nx-user: ann a-17 ann@example.com\r\n"),
            "{}",
            page.text()
        );
    }
    assert_eq!(provider.refresh_tokens(), ["refresh-1", "refresh-2"]);
    assert_eq!(event(&server, "refresh"), 2.0);
}

#[test]
fn a_logout_ends_the_session_here_and_at_the_provider() {
    let (provider, _upstream, server) = start("");
    let mut browser = Browser::default();
    browser.log_in(&server, &provider, "/");
    let response = browser.get(&server, "/oidc/logout");
    let location = response.header("location").expect("a location");
    assert!(location.starts_with(&format!("http://{}/end?", provider.address())), "{location}");
    assert_eq!(field(location, "post_logout_redirect_uri"), "http://shop.test/goodbye");
    assert_eq!(field(location, "id_token_hint").split('.').count(), 3);
    assert!(!browser.cookies.contains_key(SESSION));
    assert_eq!(browser.get(&server, "/").status, 302);
    assert_eq!(event(&server, "logout"), 1.0);
}

#[test]
fn sessions_outlive_reloads_and_the_provider_but_not_their_secret() {
    let (provider, upstream, server) = start("");
    let mut browser = Browser::default();
    browser.log_in(&server, &provider, "/");
    let reload = |secrets: &[&str]| {
        let before = server.metrics().sum("tidegate_config_reloads_total", &[]);
        server.rewrite_config(&config(&provider, &upstream, secrets, ""));
        server.wait_for_metric("tidegate_config_reloads_total", &[], before + 1.0);
    };
    reload(&[OTHER_SECRET, SECRET]);
    assert_eq!(browser.get(&server, "/").status, 200);
    reload(&[OTHER_SECRET]);
    assert_eq!(browser.clone().get(&server, "/").status, 302);
    let response = browser.log_in(&server, &provider, "/");
    assert_eq!(response.status, 302);
    drop(provider);
    assert_eq!(browser.get(&server, "/").status, 200);
}

#[test]
fn a_login_without_its_provider_is_503() {
    let (provider, upstream) = (Provider::start(), echo());
    let text = config(&provider, &upstream, &[SECRET], "");
    // Port 1 has no listener.
    let server = Tidegate::start(&text.replace(&provider.address().to_string(), "127.0.0.1:1"));
    assert_eq!(Browser::default().get(&server, "/").status, 503);
    assert_eq!(rejected(&server, "provider"), 1.0);
    server.wait_for_log("a request to the identity provider failed");
}

#[test]
fn a_browser_that_drops_its_session_is_not_redirected_for_ever() {
    let (provider, _upstream, server) = start("");
    let mut browser = Browser::default();
    for _ in 0..5 {
        assert_eq!(browser.log_in(&server, &provider, "/").status, 302);
        browser.cookies.remove(SESSION);
    }
    assert_eq!(browser.get(&server, "/").status, 403);
    assert_eq!(rejected(&server, "loop"), 1.0);
}

#[test]
fn a_session_that_was_changed_is_none() {
    let (provider, _upstream, server) = start("");
    let mut browser = Browser::default();
    browser.log_in(&server, &provider, "/");
    let session = browser.cookies[SESSION].clone();
    for at in [0, 1, 5, 40, session.len() - 1] {
        let mut altered = session.clone().into_bytes();
        altered[at] = if altered[at] == b'A' { b'B' } else { b'A' };
        let altered = String::from_utf8(altered).expect("text");
        browser.cookies.insert(SESSION.to_owned(), altered);
        assert_eq!(browser.get(&server, "/").status, 302, "byte {at}");
    }
}

#[test]
fn a_client_without_a_secret_proves_by_pkce_that_the_login_is_its_own() {
    let (provider, upstream) = (Provider::start(), echo());
    provider.is_for_a_public_client();
    provider.expires_in(1);
    let text = config(&provider, &upstream, &[SECRET], "");
    let server = Tidegate::start(&text.replace("client_secret: sesame open", ""));
    let mut browser = Browser::default();
    let mut other = Browser::default();
    let stolen = other.begin(&server, &provider, "/");
    let own = browser.begin(&server, &provider, "/");
    // The code of another login has another challenge.
    let code = |target: &str| field(target, "code");
    let mixed = own.replace(&code(&own), &code(&stolen));
    assert_eq!(browser.clone().get(&server, &mixed).status, 403);
    assert_eq!(browser.get(&server, &own).status, 302);
    // Tokens are refreshed without a secret too.
    assert_eq!(browser.get(&server, "/").status, 200);
    assert_eq!((provider.refreshes(), event(&server, "refresh_failed")), (1, 0.0));
}

#[test]
fn a_large_session_takes_several_cookies_and_one_that_is_too_large_begins_none() {
    let (provider, _upstream, server) = start("");
    let mut browser = Browser::default();
    let parts = |browser: &Browser| {
        let is_part = |name: &&String| {
            let rest = name.strip_prefix(SESSION);
            rest.is_some_and(|rest| rest.is_empty() || rest[1..].parse::<u8>().is_ok())
        };
        browser.cookies.keys().filter(is_part).count()
    };
    for (length, cookies) in [(3, 1), (3000, 3), (3, 1), (7000, 3), (11_000, 5)] {
        provider.name_length(length);
        let response = browser.log_in(&server, &provider, "/");
        assert_eq!((response.status, parts(&browser)), (302, cookies), "{length}");
        let page = browser.get(&server, "/");
        assert!(page.status == 200 && !page.text().contains("__host-"), "{length}");
        browser.cookies.retain(|name, _| !name.contains("attempts"));
        let logged_out = browser.get(&server, "/oidc/logout");
        assert_eq!((logged_out.status, parts(&browser)), (302, 0));
    }
    provider.name_length(16_000);
    let response = browser.log_in(&server, &provider, "/");
    assert_eq!((response.status, parts(&browser)), (403, 0));
}

#[test]
fn a_provider_is_reached_at_another_address_than_by_browsers() {
    let (provider, upstream) = (Provider::start(), echo());
    let with = |address: &str, more: &str| {
        let text =
            config(&provider, &upstream, &[SECRET], &format!("to: {{ upstream: id }}{more}"));
        let own = format!("http://{}", provider.address());
        text.replace(&own, "https://id.test").replace(
            "upstreams: { ",
            &format!("upstreams: {{ id: {{ servers: [\"{address}\"] }}, "),
        )
    };
    provider.is_known_as("https://id.test");
    let server = Tidegate::start(&with("127.0.0.1:1", ""));
    let mut browser = Browser::default();
    assert_eq!(browser.get(&server, "/").status, 503);
    // The latest configuration counts, also for a provider that is the same.
    let before = server.metrics().sum("tidegate_config_reloads_total", &[]);
    server.rewrite_config(&with(&provider.address().to_string(), "\n          idle: 2h"));
    server.wait_for_metric("tidegate_config_reloads_total", &[], before + 1.0);
    assert_eq!(browser.log_in(&server, &provider, "/").status, 302);
    let page = browser.get(&server, "/");
    assert!(page.text().contains("x-user: ann a-17"), "{}", page.text());
}

#[test]
fn settings_are_checked_and_explained() {
    let (provider, upstream) = (Provider::start(), echo());
    let text = config(&provider, &upstream, &[SECRET], "");
    let launch = Launch::new(&text.replace(SECRET, "short-secret"));
    let path = launch.path("tidegate.yaml");
    let exit = launch.run(&["check", path.to_str().expect("a path")]);
    assert!(exit.stderr.contains("a secret of at least 32 bytes is required"), "{exit:?}");
    assert!(!exit.stderr.contains("short-secret"), "{exit:?}");
    let launch = Launch::new(&text);
    let path = launch.path("tidegate.yaml");
    let exit = launch.run(&["explain", path.to_str().expect("a path"), "GET", "/"]);
    assert!(exit.stdout.contains("as shop, callback /oidc/callback"), "{exit:?}");
    assert!(!exit.stdout.contains(SECRET) && !exit.stdout.contains("sesame"), "{exit:?}");
    assert_eq!(provider.upstream.accepted(), 0);
}
