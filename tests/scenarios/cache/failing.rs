//! What an operator is told when something behind a cache fails.

use super::{Origin, config, get, origin_response};
use scenarios::{Launch, Tidegate, Upstream, eventually};

#[test]
fn a_disk_that_cannot_be_used_is_shown_by_ctl_caches() {
    let origin = Origin::start(|_, _| origin_response(200, "cache-control: max-age=60\r\n", b"hi"));
    let directory = tempfile::tempdir().expect("a directory");
    let file = directory.path().join("file");
    std::fs::write(&file, "not a directory").expect("a file");
    let disk = format!("16MiB, disk: {{ path: {}, size: 64MiB }}", file.display());
    let launch = Launch::new(&config(&origin, "", &disk));
    let server = launch.start();
    assert_eq!(get(&server, "/", "").status, 200);
    server.wait_for_log("disk cache disabled, serving from memory");
    let socket = server.path("admin.sock");
    let ctl = ["ctl", "--admin", &format!("unix:{}", socket.display()), "caches"];
    eventually("`ctl caches` reports the failed disk", || {
        let shown = Tidegate::run(&ctl);
        assert_eq!(shown.code, Some(0), "{shown:?}");
        let line = format!("disk of pages failed: {} cannot be opened: ", file.display());
        shown.stdout.contains(&line) && shown.stdout.contains(" failed ")
    });
}

/// The one that fetches and the one that shares its response: both lines name the server.
#[test]
fn a_response_that_breaks_off_behind_a_cache_names_its_server() {
    let (opener, gate) = scenarios::gate();
    let origin = Upstream::start(move |peer| {
        peer.read_head();
        peer.send(
            "HTTP/1.1 200 OK\r\ncache-control: max-age=60\r\ncontent-length: 100\r\n\r\npart",
        );
        gate.wait();
    });
    let address = origin.address();
    let server = Tidegate::start(&format!(
        r#"
workers: 1
listeners: {{ web: {{ bind: "127.0.0.1:0" }} }}
upstreams: {{ u: {{ servers: ["{address}"] }} }}
caches: {{ pages: {{ memory: 16MiB }} }}
routes:
  - match: {{ path: "/{{*rest}}" }}
    filters: [{{ cache: pages }}]
    handler: {{ upstream: u }}
"#
    ));
    let mut clients: Vec<_> = (0..2).map(|_| server.connect("web")).collect();
    for client in &mut clients {
        client.send("GET / HTTP/1.1\r\nhost: shop.example\r\n\r\n");
        client.read_until("part");
    }
    opener.open();
    for client in &mut clients {
        client.read_until_gone();
    }
    eventually("two responses were aborted", || {
        let log = server.log();
        let lines: Vec<_> =
            log.iter().filter(|line| line.contains("a response was aborted")).collect();
        let named = lines.iter().filter(|line| line.contains(&format!("server={address}"))).count();
        assert_eq!(named, lines.len(), "{lines:?}");
        named == 2
    });
}
