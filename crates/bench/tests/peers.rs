//! Every peer that is installed here starts in every role, answers, and is gone afterwards.
//!
//! A peer that is missing is a line on stderr. The small servers are built into a directory of the
//! test if their toolchain is there.
#![allow(
    clippy::disallowed_types,
    reason = "bench is outside the rule that only net opens sockets"
)]
#![allow(clippy::unwrap_used, reason = "helpers of tests")]

use bench::floor::{Behaviour, Content, Floor};
use bench::peers::{
    ALL, Backend, CacheRequest, DOCUMENT_PATH, Finder, FoundPeer, Guard, HELLO_BODY, HELLO_PATH,
    Peer, Protocol, ROUTED_PATH, Role, RunContext, Running, Site,
};
use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

fn finder() -> Finder {
    let tidegate = std::env::var("TIDEGATE_BINARY").map_or_else(
        |_| {
            let test = std::env::current_exe().unwrap();
            test.parent().and_then(Path::parent).unwrap().join("tidegate")
        },
        PathBuf::from,
    );
    Finder {
        subject: vec![tidegate.display().to_string()],
        floor: vec![env!("CARGO_BIN_EXE_floor").to_owned()],
        given: given(),
        cache: Some(std::env::temp_dir().join("tidegate-bench-test-peers")),
        // What is Python is in tests/python.rs.
        python: None,
    }
}

/// `TIDEGATE_BENCH_PEERS=envoy=/opt/envoy,granian=…`: programs that are not on the PATH.
fn given() -> BTreeMap<String, PathBuf> {
    let named = std::env::var("TIDEGATE_BENCH_PEERS").unwrap_or_default();
    let pairs = named.split(',').filter_map(|pair| pair.split_once('='));
    pairs.map(|(name, path)| (name.to_owned(), PathBuf::from(path))).collect()
}

/// Requests `path` with these header fields, each with its line end.
fn ask(address: SocketAddr, path: &str, fields: &str) -> String {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    let request = format!("GET {path} HTTP/1.1\r\nHost: {address}\r\n{fields}\r\n");
    stream.write_all(request.as_bytes()).unwrap();
    let mut received = Vec::new();
    let mut buffer = [0; 4096];
    loop {
        let text = String::from_utf8_lossy(&received).into_owned();
        if let Some((head, body)) = text.split_once("\r\n\r\n") {
            let length = head.lines().find_map(|line| {
                let (name, value) = line.split_once(": ")?;
                name.eq_ignore_ascii_case("content-length").then(|| value.parse().ok())?
            });
            if length == Some(body.len()) {
                return text;
            }
        }
        let count = stream.read(&mut buffer).unwrap_or_else(|why| panic!("{why} after {text:?}"));
        assert!(count > 0, "closed after {text:?}");
        received.extend_from_slice(&buffer[..count]);
    }
}

struct Around {
    directory: tempfile::TempDir,
    stop: AtomicBool,
}

impl Around {
    fn new() -> Self {
        Self { directory: tempfile::tempdir().unwrap(), stop: AtomicBool::new(false) }
    }

    fn context(&self) -> RunContext<'_> {
        let deadline = Instant::now() + Duration::from_secs(60);
        RunContext::new(self.directory.path().to_owned(), &self.stop, deadline)
    }
}

fn can(peer: &Peer, role: &Role, reloads: bool) -> bool {
    let (address, directory) = (SocketAddr::from(([127, 0, 0, 1], 1)), PathBuf::new());
    peer.can(&Site { reloads, ..Site::new(role.clone(), address, directory) })
}

fn check(found: &FoundPeer, around: &Around, role: &Role, path: &str, body: &str) {
    let name = found.peer.name;
    let mut server = Running::start(found, role, Protocol::Http1, 1, false, &around.context())
        .unwrap_or_else(|why| panic!("{}: {why}", role.name()));
    let fields = match role {
        Role::Guarded { by, .. } => by.field(),
        _ => String::new(),
    };
    for _ in 0..2 {
        let answer = ask(server.address, path, &fields);
        assert!(answer.starts_with("HTTP/1.1 200 "), "{name}: {answer}");
        assert!(answer.ends_with(&format!("\r\n\r\n{body}")), "{name}: {answer}");
    }
    assert!(!server.ended(), "{name}: {}", server.said());
    let (address, id) = (server.address, server.id());
    // The floor checks nothing, and the baseline allows every request.
    if matches!(role, Role::Guarded { .. }) && !["floor", "baseline"].contains(&name) {
        assert!(refuses_without_a_key(address, path), "{name}");
    }
    drop(server);
    assert!(TcpStream::connect(address).is_err(), "{name} still accepts");
    assert!(!Path::new(&format!("/proc/{id}")).exists(), "{name} still runs");
}

#[test]
fn each_peer_starts_responds_and_is_gone_afterwards() {
    let (finder, around) = (finder(), Around::new());
    let behaviour = |keep, content| Behaviour {
        body_bytes: 100,
        delay: Duration::from_millis(1),
        keep,
        content,
    };
    let [kept, closed] =
        [true, false].map(|keep| behaviour(keep, Content::Text)).map(|behaviour| {
            Backend::start(&finder, Floor::Backend(behaviour), &around.context()).unwrap()
        });
    let listed = behaviour(true, Content::Listing);
    let listed = Backend::start(&finder, Floor::Backend(listed), &around.context()).unwrap();
    let listing = String::from_utf8(bench::floor::listing(100)).unwrap();
    let document = String::from_utf8(bench::floor::body(100)).unwrap();
    let root = around.directory.path().join("files");
    std::fs::create_dir(&root).unwrap();
    std::fs::write(root.join("a.txt"), "a file").unwrap();
    std::fs::write(root.join(DOCUMENT_PATH.trim_matches('/')), &listing).unwrap();
    let roles = [
        (Role::Hello, HELLO_PATH, HELLO_BODY),
        (Role::Gateway { backend: kept.address, keep: true }, DOCUMENT_PATH, &document),
        (Role::Gateway { backend: closed.address, keep: false }, DOCUMENT_PATH, &document),
        (Role::Routes { count: 50 }, ROUTED_PATH, HELLO_BODY),
        (Role::Guarded { backend: kept.address, by: Guard::Key }, DOCUMENT_PATH, &document),
        (
            Role::Guarded { backend: kept.address, by: Guard::KeyAndHeaders },
            DOCUMENT_PATH,
            &document,
        ),
        (Role::Guarded { backend: kept.address, by: Guard::Password }, DOCUMENT_PATH, &document),
        (Role::Guarded { backend: kept.address, by: Guard::Token }, DOCUMENT_PATH, &document),
        (Role::Files { root: root.clone() }, "/a.txt", "a file"),
        (
            Role::Cached { backend: listed.address, root, asked: CacheRequest::Small },
            DOCUMENT_PATH,
            &listing,
        ),
    ];
    let mut checked = Vec::new();
    for peer in ALL {
        let found = match finder.find(peer) {
            Ok(found) => found,
            Err(why) => {
                eprintln!("skipped: {} {why}", peer.name);
                continue;
            }
        };
        assert!(!found.version.is_empty());
        for (role, path, body) in roles.iter().filter(|(role, ..)| can(peer, role, false)) {
            check(&found, &around, role, path, body);
            checked.push(format!("{} {}", peer.name, role.name()));
        }
    }
    eprintln!("checked: {}", checked.join(", "));
    assert!(checked.iter().any(|one| one == "floor gateway, not kept-alive"), "{checked:?}");
}

/// Also those that answer each other's protocols: both forms of PING, two at a time.
#[test]
fn each_peer_that_supports_ping_responds() {
    let (finder, around) = (finder(), Around::new());
    let mut checked = Vec::new();
    for found in ALL.iter().filter(|peer| can(peer, &Role::Ping, false)) {
        let Ok(found) = finder.find(found) else { continue };
        let server =
            Running::start(&found, &Role::Ping, Protocol::Http1, 1, false, &around.context())
                .unwrap();
        let mut stream = TcpStream::connect(server.address).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        for commands in ["PING\r\nPING\r\n", "*1\r\n$4\r\nPING\r\n*1\r\n$4\r\nPING\r\n"] {
            stream.write_all(commands.as_bytes()).unwrap();
            let mut answer = [0; 14];
            stream.read_exact(&mut answer).unwrap();
            assert_eq!(&answer, b"+PONG\r\n+PONG\r\n", "{}", found.peer.name);
        }
        checked.push(found.peer.name);
    }
    eprintln!("checked: {checked:?}");
    assert!(checked.contains(&"floor"));
}

#[test]
fn each_peer_that_can_reload_serves_the_new_configuration() {
    let (finder, around) = (finder(), Around::new());
    for found in ALL.iter().filter_map(|peer| finder.find(peer).ok()) {
        if !can(found.peer, &Role::Hello, true) {
            continue;
        }
        let name = found.peer.name;
        let mut server =
            Running::start(&found, &Role::Hello, Protocol::Http1, 1, true, &around.context())
                .unwrap();
        // A signal that comes before a server is wholly up may be lost: then it is sent again.
        let deadline = Instant::now() + Duration::from_secs(60);
        loop {
            server.reload().unwrap();
            let path = server.revision_path();
            let told = Instant::now();
            while !answers_2xx(server.address, &path) && told.elapsed() < Duration::from_secs(10) {
                // It has to share the processors with what asks.
                std::thread::sleep(Duration::from_millis(10));
            }
            if answers_2xx(server.address, &path) {
                break;
            }
            assert!(Instant::now() < deadline, "{name}: {}", server.said());
        }
        assert!(ask(server.address, HELLO_PATH, "").ends_with(HELLO_BODY), "{name}");
    }
}

fn answers_2xx(address: SocketAddr, path: &str) -> bool {
    asked_once(address, path).is_some_and(|answer| answer.starts_with("HTTP/1.1 2"))
}

fn refuses_without_a_key(address: SocketAddr, path: &str) -> bool {
    asked_once(address, path).is_some_and(|answer| answer.starts_with("HTTP/1.1 401 "))
}

/// Without a key.
fn asked_once(address: SocketAddr, path: &str) -> Option<String> {
    let mut stream = TcpStream::connect(address).ok()?;
    let request = format!("GET {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n");
    let mut answer = String::new();
    stream.write_all(request.as_bytes()).and_then(|()| stream.read_to_string(&mut answer)).ok()?;
    Some(answer)
}

#[test]
fn a_server_that_cannot_start_says_why() {
    let around = Around::new();
    let mut finder = finder();
    finder.floor = vec!["sh".into(), "-c".into(), "echo out of luck >&2; exit 1".into()];
    let floor = bench::peers::named("floor").unwrap();
    let found = finder.find(floor).unwrap();
    let why = Running::start(&found, &Role::Hello, Protocol::Http1, 1, false, &around.context())
        .err()
        .unwrap();
    assert_eq!(why, "floor ended at once: out of luck");
}
