//! Another configuration in use while requests run: none is lost, what stays named stays open, and
//! what is wrong is refused whole.

use crate::load::{AfterClose, Load, Tally};
use scenarios::{Connection, Launch, Tidegate, Upstream, eventually, free_port};
use std::time::Duration;

const TOKEN: &str = "an-admin-token-of-some-length";

/// A configuration that says which one it is at `/version`; `more` are further routes.
fn config(version: usize, upstream: &Upstream, more: &str) -> String {
    let address = upstream.address();
    format!(
        r#"
workers: 2
listeners: {{ web: {{ bind: "127.0.0.1:0" }} }}
admin: {{ bind: "127.0.0.1:0", token: {TOKEN} }}
upstreams: {{ app: {{ servers: ["{address}"], timeouts: {{ connect: 15s }} }} }}
routes:
  - {{ match: {{ path: "/version" }}, handler: {{ respond: {{ body: "{version}" }} }} }}
  - {{ match: {{ path: "/up" }}, handler: {{ upstream: app }} }}
{more}
"#
    )
}

fn ok() -> Upstream {
    Upstream::responding("HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok")
}

fn get(path: &str) -> String {
    format!("GET {path} HTTP/1.1\r\nhost: a\r\n\r\n")
}

fn put_request(config: &str) -> String {
    format!(
        "PUT /v1/config HTTP/1.1\r\nhost: a\r\nauthorization: Bearer {TOKEN}\r\nif-match: *\r\n\
         content-type: application/yaml\r\ncontent-length: {}\r\n\r\n{config}",
        config.len()
    )
}

fn put(server: &Tidegate, config: &str) -> u16 {
    server.exchange("admin", put_request(config)).status
}

/// Waits until this version is in use. The workers take it over one after the other, and the reload
/// is over when it is counted.
fn wait_for(server: &Tidegate, version: usize) {
    eventually(&format!("version {version} serves"), || {
        server.exchange("web", get("/version")).text() == version.to_string()
    });
}

fn reload(server: &Tidegate, config: &str) {
    let before = server.metrics().sum("tidegate_config_reloads_total", &[]);
    server.rewrite_config(config);
    server.wait_for_metric("tidegate_config_reloads_total", &[], before + 1.0);
}

#[test]
fn twenty_reloads_under_load_lose_nothing() {
    let upstream = ok();
    let server = Tidegate::start(&config(0, &upstream, ""));
    let address = server.address("web");
    let think = Duration::from_millis(5);
    let own = Load::start(address, 20, &get("/version"), think, AfterClose::Reconnect);
    let proxied = Load::start(address, 20, &get("/up"), think, AfterClose::Reconnect);
    for version in 1..=20 {
        // Routes come and go, so that every Plan is another one.
        let extra =
            format!("  - {{ match: {{ path: /v{version} }}, handler: {{ upstream: app }} }}");
        let next = config(version, &upstream, &extra);
        match version % 3 {
            0 => server.rewrite_config(&next),
            1 => {
                server.rewrite_config(&next);
                server.signal("HUP");
            }
            _ => assert_eq!(put(&server, &next), 200, "{}", server.log().join("\n")),
        }
        wait_for(&server, version);
        own.wait_for(20);
    }
    for load in [own, proxied] {
        let Tally { answered, last, lost, .. } = load.stop();
        assert!(answered > 400, "{answered}");
        // Not one connection was even asked to end.
        assert_eq!((last, lost), (0, 0));
    }
    let metrics = server.metrics();
    assert_eq!(metrics.sum("tidegate_config_reload_failures_total", &[]), 0.0);
    assert!(metrics.sum("tidegate_config_reloads_total", &[]) >= 20.0);
}

#[test]
fn a_connection_and_the_pool_behind_it_outlive_reloads() {
    let upstream = ok();
    let first = config(0, &upstream, "").replace("workers: 2", "workers: 1");
    let server = Tidegate::start(&first);
    let mut client = server.connect("web");
    for version in 1..=5 {
        client.send(get("/up"));
        assert_eq!(client.read_response().text(), "ok");
        reload(&server, &config(version, &upstream, "").replace("workers: 2", "workers: 1"));
        client.send(get("/version"));
        assert_eq!(client.read_response().text(), version.to_string());
    }
    assert_eq!(upstream.accepted(), 1);
    assert_eq!(server.metrics().sum("tidegate_connections_accepted_total", &[]), 1.0);
}

#[test]
fn an_exchange_finishes_on_the_plan_it_began_with() {
    let upstream = Upstream::start(|peer| {
        peer.read_head();
        peer.send("HTTP/1.1 200 OK\r\ncontent-length: 8\r\n\r\nhalf");
        // The other half comes when the client asks for it in its own way: by a connection.
        peer.read_until_gone();
    });
    let (go_on, wait) = std::sync::mpsc::channel::<()>();
    let wait = std::sync::Mutex::new(wait);
    let slow = Upstream::start(move |peer| {
        peer.read_head();
        let _ = wait.lock().expect("no panic").recv();
        peer.send("HTTP/1.1 200 OK\r\nx-old: {}\r\ncontent-length: 3\r\n\r\nold");
        peer.at_end();
    });
    let server = Tidegate::start(&config(0, &slow, ""));
    let mut client = server.connect("web");
    client.send(get("/up"));
    server.wait_for_metric("tidegate_exchanges_in_flight", &[], 1.0);
    // The route leads elsewhere now, and its old upstream is not named any more.
    reload(&server, &config(1, &upstream, ""));
    go_on.send(()).expect("the upstream waits");
    assert_eq!(client.read_response().text(), "old");
    client.send(get("/version"));
    assert_eq!(client.read_response().text(), "1");
}

#[test]
fn a_tunnel_lives_on_when_its_route_upstream_and_listener_have_gone() {
    let chat = Upstream::start(|peer| {
        peer.read_head();
        peer.send("HTTP/1.1 101 Switching Protocols\r\nconnection: upgrade\r\nupgrade: x\r\n\r\n");
        while !peer.at_end() {
            let some = peer.read_exactly(peer.waiting());
            peer.send(some);
        }
    });
    let other = ok();
    let server = Tidegate::start(&config(0, &chat, ""));
    let mut client = server.connect("web");
    client.send("GET /up HTTP/1.1\r\nhost: a\r\nconnection: upgrade\r\nupgrade: x\r\n\r\n");
    assert_eq!(client.read_response().status, 101);
    let mut say = |word: &str| {
        client.send(word);
        client.expect(word);
    };
    say("before");
    reload(&server, &config(1, &other, ""));
    say("after the upstream");
    let moved = config(2, &other, "").replace("web: {", "elsewhere: {");
    reload(&server, &moved);
    say("after the listener");
    drop(chat);
}

#[test]
fn a_change_is_completed_when_its_client_has_gone() {
    let upstream = ok();
    let server = Tidegate::start(&config(0, &upstream, ""));
    let mut client = server.connect("web");
    for version in 1..=10 {
        let mut admin = server.connect("admin");
        admin.send(put_request(&config(version, &upstream, "")));
        admin.reset();
        wait_for(&server, version);
    }
    assert_eq!(put(&server, &config(11, &upstream, "")), 200);
    client.send(get("/version"));
    assert_eq!(client.read_response().text(), "11");
    // It is the socket of the start that still listens: no other one was opened in its place.
    let listens = server.log().into_iter().filter(|line| line.contains("listening name=web"));
    assert_eq!(listens.count(), 1, "{}", server.log().join("\n"));
}

#[test]
fn rate_limits_are_kept() {
    let upstream = ok();
    let limited = "  - match: { path: /limited }\n    \
                   filters: [{ rate_limit: { rate: 1/h, burst: 3 } }]\n    \
                   handler: { respond: { body: in } }";
    let server = Tidegate::start(&config(0, &upstream, limited));
    for status in [200, 200, 200, 429] {
        assert_eq!(server.exchange("web", get("/limited")).status, status);
    }
    for version in 1..=3 {
        reload(&server, &config(version, &upstream, limited));
        assert_eq!(server.exchange("web", get("/limited")).status, 429);
    }
}

#[test]
fn what_is_wrong_is_refused_and_the_old_serves_on() {
    let upstream = ok();
    let good = config(1, &upstream, "");
    let server = Tidegate::start(&good);
    let mut client = server.connect("web");
    let ready = || server.exchange("admin", get("/readyz"));
    assert_eq!(ready().text(), "ready\n");
    let wrong = good.replace("upstream: app }", "upstream: ap }");
    server.rewrite_config(&wrong);
    server.wait_for_metric("tidegate_config_reload_failures_total", &[], 1.0);
    let detail = ready();
    assert_eq!(detail.status, 200, "the configuration before it serves");
    assert!(detail.text().contains("tidegate.yaml:8:"), "{}", detail.text());
    assert!(detail.text().contains("\"ap\""), "{}", detail.text());
    let line = server.wait_for_log("configuration rejected");
    assert!(line.contains("tidegate.yaml:8:"), "{line}");
    client.send(get("/up"));
    assert_eq!(client.read_response().text(), "ok");
    // The same over the admin API: the file is left alone as well.
    assert_eq!(put(&server, "routes: [ {"), 422);
    let written = std::fs::read_to_string(server.path("tidegate.yaml")).expect("a file");
    assert_eq!(written, wrong);
    let metrics = server.metrics();
    assert_eq!(metrics.sum("tidegate_config_last_reload_successful", &[]), 0.0);
    reload(&server, &config(2, &upstream, ""));
    assert_eq!(ready().text(), "ready\n");
    assert_eq!(server.metrics().sum("tidegate_config_last_reload_successful", &[]), 1.0);
    client.send(get("/version"));
    assert_eq!(client.read_response().text(), "2");
}

#[test]
fn a_server_that_drains_takes_no_change() {
    let (go_on, wait) = std::sync::mpsc::channel::<()>();
    let wait = std::sync::Mutex::new(wait);
    let upstream = Upstream::start(move |peer| {
        peer.read_head();
        let _ = wait.lock().expect("no panic").recv();
        peer.send("HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok");
        peer.at_end();
    });
    let before = config(1, &upstream, "");
    let server = Tidegate::start(&before);
    let mut client = server.connect("web");
    client.send(get("/up"));
    server.wait_for_metric("tidegate_upstream_connections", &[], 1.0);
    server.signal("TERM");
    server.wait_for_log("draining");
    assert_eq!(put(&server, &config(2, &upstream, "")), 409);
    let written = std::fs::read_to_string(server.path("tidegate.yaml")).expect("a file");
    assert_eq!(written, before);
    go_on.send(()).expect("the upstream waits");
    assert_eq!(client.read_response().text(), "ok");
    assert_eq!(server.wait().code, Some(0));
}

/// What is missing or wrong in a file that only the refused configuration names is noticed when it
/// is fixed.
#[test]
fn what_a_refused_change_depends_on_is_watched() {
    let upstream = ok();
    let server = Tidegate::start(&config(1, &upstream, ""));
    server.address("web");
    let refused = |times: f64| {
        server.wait_for_metric("tidegate_config_reload_failures_total", &[], times);
    };
    let directory = "  - { match: { path: \"/f/{*f}\" }, handler: { files: ./directory } }";
    let next = config(2, &upstream, directory);
    server.rewrite_config(&format!("include: [more.yaml]\n{next}"));
    refused(1.0);
    server.write("more.yaml", "errors: { 404: { file: none.txt, contnt_type: a/b } }");
    refused(2.0);
    server.write("more.yaml", "errors: { 404: { file: none.txt } }");
    refused(3.0);
    server.write("none.txt", "nothing here");
    refused(4.0);
    std::fs::create_dir(server.path("directory")).expect("a directory can be made");
    wait_for(&server, 2);
    assert_eq!(server.exchange("web", get("/elsewhere")).text(), "nothing here");
}

#[test]
fn an_address_that_is_taken_refuses_the_whole_change() {
    let upstream = ok();
    let server = Tidegate::start(&config(1, &upstream, ""));
    server.address("web");
    let taken = upstream.address();
    let listeners =
        format!("{{ web: {{ bind: \"127.0.0.1:0\" }}, more: {{ bind: \"{taken}\" }} }}");
    let next = config(2, &upstream, "");
    server.rewrite_config(&next.replace("{ web: { bind: \"127.0.0.1:0\" } }", &listeners));
    server.wait_for_metric("tidegate_config_reload_failures_total", &[], 1.0);
    let line = server.wait_for_log("configuration rejected");
    assert!(line.contains(&taken.to_string()) && line.contains("in use"), "{line}");
    let ours = server.address("web").port();
    server.rewrite_config(&next.replace("127.0.0.1:0\" } }", &format!(":{ours}\" }} }}")));
    server.wait_for_log("in use (by this server: ");
    assert_eq!(server.exchange("web", get("/version")).text(), "1");
}

/// Clients of a listener that goes away finish what they are at.
#[test]
fn listeners_come_go_and_move_and_the_others_do_not_notice() {
    let upstream = ok();
    let listeners = |text: &str, version| {
        config(version, &upstream, "").replace("{ web: { bind: \"127.0.0.1:0\" } }", text)
    };
    let server = Tidegate::start(&config(1, &upstream, ""));
    let load =
        Load::start(server.address("web"), 10, &get("/up"), Duration::ZERO, AfterClose::Stop);

    let two = "{ web: { bind: \"127.0.0.1:0\" }, more: { bind: \"127.0.0.1:0\" } }";
    reload(&server, &listeners(two, 2));
    let mut client = server.connect("more");
    client.send(get("/version"));
    assert_eq!(client.read_response().text(), "2");
    let more =
        Load::start(server.address("more"), 10, &get("/up"), Duration::ZERO, AfterClose::Stop);
    more.wait_for(20);

    let gone = server.address("more");
    reload(&server, &listeners("{ web: { bind: \"127.0.0.1:0\" } }", 3));
    client.expect_closed();
    let Tally { last, lost, held_up, .. } = more.join();
    assert_eq!((last + held_up, lost), (10, 0), "each was told with its last answer");
    eventually("the address has no listener", || Connection::is_refused(gone));

    let Tally { last, lost, .. } = load.stop();
    assert_eq!((last, lost), (0, 0));
}

#[test]
fn a_listener_that_is_renamed_or_kept_keeps_its_socket() {
    let upstream = ok();
    let named = |name: &str, version| {
        let listeners = format!(
            "{{ {name}: {{ bind: \"unix:kept.sock\" }}, web: {{ bind: \"127.0.0.1:0\" }} }}"
        );
        config(version, &upstream, "").replace("{ web: { bind: \"127.0.0.1:0\" } }", &listeners)
    };
    let server = Tidegate::start(&named("one", 1));
    let socket = server.address_text("one").trim_start_matches("unix:").to_owned();
    let identity = || {
        use std::os::unix::fs::MetadataExt;
        std::fs::metadata(&socket).expect("the socket").ino()
    };
    let before = identity();
    reload(&server, &named("other", 2));
    assert_eq!(identity(), before, "the same socket");
    assert_eq!(server.exchange("web", get("/version")).text(), "2");
    reload(&server, &config(3, &upstream, ""));
    assert_eq!(server.exchange("web", get("/version")).text(), "3");
    assert!(!std::path::Path::new(&socket).exists(), "a socket without a listener is removed");
}

/// An address of a listener, a stream and a program, in any order: no connection is refused.
#[test]
fn an_address_passes_between_listeners_streams_and_programs() {
    const PROGRAM: &str = r#"return function(connection)
  connection:read("\r\n\r\n")
  connection:write("HTTP/1.1 200 OK\r\ncontent-length: 7\r\n\r\nprogram")
end"#;
    let upstream = Upstream::responding("HTTP/1.1 200 OK\r\ncontent-length: 6\r\n\r\nstream");
    let address: std::net::SocketAddr = ([127, 0, 0, 1], free_port()).into();
    let other = free_port();
    let with = |kind: &str, version| {
        let section = match kind {
            "stream" => format!("streams: [{{ bind: \"{address}\", upstream: app }}]"),
            "program" => format!("programs: [{{ bind: \"{address}\", lua: program.lua }}]"),
            _ => format!("streams: [{{ bind: \"127.0.0.1:{other}\", upstream: app }}]"),
        };
        let listener = match kind {
            "listener" => format!(", moving: {{ bind: \"{address}\" }}"),
            _ => String::new(),
        };
        let route = "  - { match: { path: /kind }, handler: { respond: { body: listener } } }";
        let web = "{ web: { bind: \"127.0.0.1:0\" }";
        let text = config(version, &upstream, route).replace(web, &format!("{web}{listener}"));
        format!("{text}{section}\n")
    };
    let first = with("listener", 0);
    let server = Launch::new(&first).file("program.lua", PROGRAM).start();
    server.address("web");
    let kinds = ["stream", "listener", "program", "stream", "program", "listener"];
    for (kind, version) in kinds.into_iter().zip(1..) {
        reload(&server, &with(kind, version));
        // More than one for each worker.
        for _ in 0..8 {
            let mut client = Connection::to(address);
            client.send("GET /kind HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n");
            assert_eq!(client.read_response().text(), kind, "version {version}");
        }
    }
    assert!(!server.log().iter().any(|line| line.contains("socket_missing")));
}
