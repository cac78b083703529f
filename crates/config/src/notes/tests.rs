//! Which settings get a note, and which do not.

use crate::{Kinds, TextSource, load};

fn noted(top: &str, filters: &str) -> Vec<String> {
    let text = format!(
        "{top}
listeners: {{ web: {{ bind: ':80' }} }}
caches: {{ pages: {{}} }}
routes: [{{ name: all, filters: [{filters}], handler: {{ respond: {{}} }} }}]
"
    );
    let loaded = load(&TextSource::new("t", &text), &|_| None, &Kinds::all());
    super::notes(&loaded.unwrap_or_else(|report| panic!("{report}")).plan)
}

/// The notes of two routes on a listener, each with its match, filters and handler.
fn slashes(rule: &str, protected: &str, open: &str) -> Vec<String> {
    let text = format!(
        "listeners: {{ web: {{ bind: ':80', encoded_slashes: {rule} }}, b: {{ bind: ':81' }} }}
upstreams: {{ app: {{ servers: ['10.0.0.1:80'] }}, other: {{ servers: ['10.0.0.2:80'] }} }}
routes:
  - {{ name: spare, match: {{ listener: b, path: /spare }}, handler: {{ upstream: other }} }}
  - {{ name: spare2, match: {{ listener: b, path: /spare2 }}, handler: {{ upstream: app }} }}
  - name: private
    filters: [{{ key_auth: {{ keys: [{{ consumer: ann, key: k }}] }} }}]
    {protected}
  - name: open
    {open}
"
    );
    let loaded = load(&TextSource::new("t", &text), &|_| None, &Kinds::all());
    super::notes(&loaded.unwrap_or_else(|report| panic!("{report}")).plan)
}

#[test]
fn an_open_way_around_a_protected_prefix_is_noted() {
    const APP: &str = "handler: { upstream: app }";
    let protected = "match: '/private/{*rest}', handler: { upstream: app }";
    let lines = |text: &str| text.replace(", handler", "\n    handler");
    let noted =
        |rule: &str, protected: &str, open: &str| slashes(rule, &lines(protected), &lines(open));
    for (protected, open) in [
        (protected, "match: '/{*rest}', handler: { upstream: app }"),
        (protected, "match: '/{one}', handler: { upstream: app }"),
        (protected, "match: {}, handler: { upstream: app }"),
        (protected, "match: { path: { regex: '^/pri' } }, handler: { upstream: app }"),
        (
            "match: '/private/{*rest}', handler: { upstream: app }",
            "match: '/{*rest}'
    filters: [{ circuit_breaker: { fallback: { upstream: app } } }], handler: { upstream: other }",
        ),
        (
            "match: { host: a.example, path: /api/keys }, handler: { files: / }",
            "match: { host: [b.example, a.example], path: '/{x}' }, handler: { files: / }",
        ),
    ] {
        let notes = noted("keep", protected, open);
        assert!(notes.len() == 1 && notes[0].starts_with("route \"private\": danger: "));
        assert!(notes[0].contains("listener \"web\"") && notes[0].contains("route \"open\""));
        for rule in ["refuse", "decode"] {
            assert_eq!(noted(rule, protected, open), [""; 0], "{open}");
        }
    }
    for open in [
        "match: '/{*rest}', handler: { upstream: other }",
        "match: '/public/{*rest}', handler: { upstream: app }",
        "match: { listener: b, path: '/{*rest}' }, handler: { upstream: app }",
        "match: '/{*rest}'
    filters: [{ circuit_breaker: { fallback: { respond: {} } } }], handler: { upstream: other }",
    ] {
        assert_eq!(noted("keep", protected, open), [""; 0], "{open}");
    }
    assert_eq!(
        noted(
            "keep",
            &format!("match: '/{{*rest}}', {APP}"),
            "match: /x, handler: { upstream: app }"
        ),
        [""; 0]
    );
}

#[test]
fn a_plain_cache_is_nothing_to_talk_about() {
    assert_eq!(noted("", "{ cache: pages }"), [""; 0]);
}

#[test]
fn what_one_client_could_do_to_others_is_noted() {
    let key = "{ key_auth: { keys: [{ consumer: ann, key: k }] } }";
    for (top, filters, said) in [
        ("", format!("{key}, {{ cache: pages }}"), "by: [consumer]"),
        (
            "",
            "{ cache: { store: pages, fetch: { drop_headers: [x-host] } } }".to_owned(),
            "danger: the cache sends on x-http-host-override, ",
        ),
        ("", "{ cache: { store: pages, ttl: { default: 1s } } }".to_owned(), "ttl.default"),
        ("", "{ cache: { store: pages, set_cookie: keep } }".to_owned(), "set_cookie: keep"),
    ] {
        let notes = noted(top, &filters);
        assert!(notes.len() == 1 && notes[0].contains(said), "{filters}: {notes:?}");
        assert!(notes[0].starts_with("route \"all\": "));
    }
}

#[test]
fn an_order_that_is_surely_wrong_is_noted() {
    let key = "{ key_auth: { keys: [{ consumer: ann, key: k }] } }";
    let cors = "{ cors: { origins: [\"https://a.example\"] } }";
    let rewrite = "{ rewrite: { strip_prefix: /a } }";
    for (one, other, said) in [
        (rewrite, key, "key_auth (line 4) is behind rewrite (line 3)"),
        (key, cors, "put cors before key_auth"),
        ("{ mock: {} }", key, "key_auth (line 4) is behind mock (line 3)"),
        ("{ allow: { groups: gold } }", key, "key_auth (line 4) is behind allow (line 3)"),
        ("{ deny: { consumers: bob } }", key, "put key_auth before deny"),
        (
            "{ allow: { when: { variable: claim.a, present: true } } }",
            key,
            "put key_auth before allow",
        ),
        (
            "{ request_headers: { set: { x-user: '{consumer}' } } }",
            key,
            "the consumer is not known yet: its name and claims are empty",
        ),
        ("{ query: { set: { user: '{claim.sub}' } } }", key, "put key_auth before query"),
        ("{ cookies: { set: { user: '{label.a}' } } }", key, "put key_auth before cookies"),
        ("{ rate_limit: { rate: 1/s, key: consumer } }", key, "put key_auth before rate_limit"),
        (
            "{ rate_limit: { limits: [{ rate: 1/s, key: consumer }] } }",
            key,
            "put key_auth before rate_limit",
        ),
        ("{ concurrency: { limit: 1, key: consumer } }", key, "before concurrency"),
        ("{ bandwidth: { request: 1MiB, key: consumer } }", key, "before bandwidth"),
        (
            "{ split: { variants: [{ name: a }, { name: b }], sticky: { key: consumer } } }",
            key,
            "put key_auth before split",
        ),
        (
            "{ split: { variants: [{ name: a, handler: { respond: {} } }, { name: b }] } }",
            key,
            "danger: variants with a handler respond to clients without credentials",
        ),
        ("{ compress: {} }", "{ cache: pages }", "compress (line 3) is before cache (line 4)"),
    ] {
        let notes = order_notes(&format!("{one},\n{other}"));
        assert!(notes.len() == 1 && notes[0].contains(said), "{notes:?}");
        assert_eq!(order_notes(&format!("{other},\n{one}")), [""; 0]);
    }
}

#[test]
fn conditions_and_values_that_need_the_consumer_are_noted() {
    let key = "{ key_auth: { keys: [{ consumer: ann, key: k }] } }";
    let when = "when: { group: gold }";
    for filter in [
        format!("rate_limit: {{ rate: 10/s, cost: [{{ {when}, cost: 2 }}] }}"),
        format!("quota: {{ name: a, limit: 10, cost: [{{ {when}, cost: 2 }}] }}"),
        format!("concurrency: {{ limit: 10, priorities: [{{ {when}, share: 50% }}] }}"),
        format!("mirror: {{ to: {{ respond: {{}} }}, {when} }}"),
        format!("fault: {{ abort: 500, {when} }}"),
        format!("waf: {{ rules: [{{ {when}, action: allow }}] }}"),
        format!("waf: {{ exclude: [{{ rules: xss, {when} }}] }}"),
        "csrf: { except: { consumer: ann } }".to_owned(),
        "rewrite: { template: '/{consumer}' }".to_owned(),
        "template: { request: { body: '[\"{consumer}\"]' } }".to_owned(),
        "json_body: { request: [{ add: /a, value: [{ b: '{claim.sub}' }] }] }".to_owned(),
    ] {
        let notes = order_notes(&format!("{{ {filter} }},\n{key}"));
        let wanted = "the consumer is not known yet";
        assert!(notes.iter().any(|note| note.contains(wanted)), "{filter}: {notes:?}");
        assert_eq!(order_notes(&format!("{key}, {{ {filter} }}")), [""; 0], "{filter}");
    }
}

#[test]
fn rules_that_need_no_consumer_stand_anywhere() {
    let key = "{ key_auth: { keys: [{ consumer: ann, key: k }] } }";
    for rule in [
        "{ deny: { ip: 10.0.0.0/8 } }",
        "{ rate_limit: { rate: 1/s } }",
        "{ split: { variants: [{ name: a }, { name: b }] } }",
        "{ response_headers: { set: { x-user: '{consumer}' } } }",
        "{ request_headers: { set: { x-client: '{client_ip}' } } }",
        "{ allow: { when: { header: user-agent, contains: curl } } }",
    ] {
        assert_eq!(order_notes(&format!("{rule}, {key}")), [""; 0]);
    }
}

#[test]
fn limits_of_consumers_that_no_filter_takes_are_noted() {
    let consumers = |filters: &str| {
        let text = format!(
            "listeners: {{ web: {{ bind: ':80' }} }}
consumers:
  - {{ name: bob, keys: [{{ key: b }}], limits: {{ rate: 1/s, quotas: {{ mothly: 1 }} }} }}
  - {{ name: ann, keys: [{{ key: a }}], limits: {{ rate: 1/s, quotas: {{ monthly: 1 }} }} }}
routes: [{{ filters: [{{ key_auth: {{}} }}, {filters}], handler: {{ respond: {{}} }} }}]
"
        );
        let loaded = load(&TextSource::new("t", &text), &|_| None, &Kinds::all());
        super::notes(&loaded.unwrap_or_else(|report| panic!("{report}")).plan)
    };
    let rate = |own| format!("{{ rate_limit: {{ rate: 1/s, key: consumer{own} }} }}");
    let own = ", consumer_limits: true";
    let quota =
        format!("{{ quota: {{ name: monthly, limit: 1, key: consumer{own} }} }}, {}", rate(own));
    let notes = consumers(&quota);
    assert!(notes.len() == 1 && notes[0].contains("`limits.quotas.mothly` of \"bob\" has no"));
    assert!(notes[0].ends_with("did you mean \"monthly\"?"), "{notes:?}");
    let notes = consumers(&rate(""));
    assert_eq!(notes.len(), 3, "{notes:?}");
    assert!(notes[0].contains("`limits.rate` of \"ann\" and 1 more has no"), "{notes:?}");
}

#[test]
fn keys_over_plain_http_are_noted() {
    let provider = |url: &str| {
        let text = format!(
            "listeners: {{ web: {{ bind: ':80' }} }}
identity: {{ main: {{ jwks: '{url}' }} }}
routes: [{{ filters: [{{ jwt: {{ identity: main }} }}], handler: {{ respond: {{}} }} }}]
"
        );
        let loaded = load(&TextSource::new("t", &text), &|_| None, &Kinds::all());
        let notes = super::notes(&loaded.unwrap_or_else(|report| panic!("{report}")).plan);
        notes.into_iter().filter(|note| note.contains("jwks")).collect::<Vec<_>>()
    };
    let notes = provider("http://id.example.com/keys");
    assert!(notes.len() == 1 && notes[0].starts_with("identity.main (line 2): "), "{notes:?}");
    for fine in
        ["https://id.example.com/k", "http://127.0.0.1:1/", "http://[::1]/", "http://localhost/"]
    {
        assert_eq!(provider(fine), [""; 0]);
    }
}

#[test]
fn credentials_over_plain_http_are_noted() {
    let id = |scheme| {
        [
            format!("forward_auth: {{ url: '{scheme}/verify' }}"),
            format!(
                "oidc: {{ issuer: '{scheme}', client_id: a, cookie_secrets: \
                 0123456789abcdef0123456789abcdef }}"
            ),
            format!("introspection: {{ url: '{scheme}/i', client_id: a, client_secret: b }}"),
            format!(
                "auth: {{ any: [{{ key_auth: {{}} }}, {{ introspection: {{ url: '{scheme}/i', \
                 client_id: a, client_secret: b }} }}] }}"
            ),
            format!("auth: {{ any: [{{ forward_auth: {{ url: '{scheme}/verify' }} }}] }}"),
            format!(
                "auth: {{ any: [{{ key_auth: {{}} }}, {{ oidc: {{ issuer: '{scheme}', client_id: \
                 a, cookie_secrets: 0123456789abcdef0123456789abcdef }} }}] }}"
            ),
        ]
    };
    for filter in id("http://id.test") {
        let notes = order_notes(&format!("{{ {filter} }}"));
        let name = filter.split(':').next().unwrap();
        let wanted = format!("danger: {name} (line 3) sends credentials to id.test");
        assert!(notes.len() == 1 && notes[0].contains(&wanted), "{notes:?}");
    }
    for filter in id("https://id.test").into_iter().chain(id("http://127.0.0.1:80")) {
        assert_eq!(order_notes(&format!("{{ {filter} }}")), [""; 0]);
    }
}

/// The notes on these filters, with the cache `pages` if they name it.
fn order_notes(filters: &str) -> Vec<String> {
    let caches = if filters.contains("pages") { "caches: { pages: {} }" } else { "" };
    let text = format!(
        "listeners: {{ web: {{ bind: ':80' }} }}
{caches}
routes: [{{ name: all, filters: [{filters}], handler: {{ respond: {{}} }} }}]
"
    );
    let loaded = load(&TextSource::new("t", &text), &|_| None, &Kinds::all());
    super::notes(&loaded.unwrap_or_else(|report| panic!("{report}")).plan)
}

#[test]
fn a_redirect_to_a_host_of_the_client_is_noted() {
    let redirect = |to: &str| {
        let text = format!(
            "listeners: {{ web: {{ bind: ':80' }} }}
routes: [{{ name: away, match: '/{{x}}', handler: {{ redirect: '{to}' }} }}]
"
        );
        let loaded = load(&TextSource::new("t", &text), &|_| None, &Kinds::all());
        super::notes(&loaded.unwrap_or_else(|report| panic!("{report}")).plan)
    };
    let notes = redirect("https://{path.x}/");
    assert!(notes.len() == 1 && notes[0].starts_with("route \"away\": danger: "), "{notes:?}");
    assert_eq!(redirect("https://{host}{path}"), [""; 0]);
}

#[test]
fn open_metrics_beyond_this_machine_are_noted() {
    let admin = |text: &str| noted(&format!("admin: {text}"), "{ cache: pages }");
    let notes = admin("{ bind: \":9180\" }");
    assert!(notes.len() == 1 && notes[0].contains("metrics: token"), "{notes:?}");
    assert_eq!(admin("{ bind: \":9180\", token: word, metrics: token }"), [""; 0]);
    assert_eq!(admin("{ bind: \"127.0.0.1:9180\" }"), [""; 0]);
}

#[test]
fn a_console_without_a_token_or_in_the_clear_is_noted() {
    let admin = |text: &str| noted(&format!("admin: {text}"), "{ cache: pages }");
    let locked = admin("{ bind: \"127.0.0.1:9180\", console: true }");
    assert!(locked.len() == 1 && locked[0].contains("a token to log in"), "{locked:?}");
    assert_eq!(admin("{ bind: \"127.0.0.1:9180\", console: true, token: word }"), [""; 0]);
    let clear = admin("{ bind: \":9180\", console: true, token: word, metrics: token }");
    assert!(clear.len() == 1 && clear[0].contains("in the clear"), "{clear:?}");
}

#[test]
fn what_keeps_clients_apart_gets_no_note() {
    let key = "{ key_auth: { keys: [{ consumer: ann, key: k }] } }";
    let cache = "{ cache: { store: pages, key: { by: [consumer] } } }";
    assert_eq!(noted("", &format!("{key}, {cache}")), [""; 0]);
    assert_eq!(noted("trusted_proxies: [10.0.0.0/8]", "{ cache: pages }"), [""; 0]);
}
