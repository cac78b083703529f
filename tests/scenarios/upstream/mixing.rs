//! Many clients, few connections, servers that fail in every way at once: a client that gets a
//! whole response gets his own, and afterwards nothing is left.

use super::{gateway, servers, wait_until_released};
use scenarios::{Connection, Tidegate, Upstream};
use std::sync::atomic::{AtomicUsize, Ordering};

const CLIENTS: usize = 8;
const REQUESTS: usize = 60;

/// Answers with the path that was asked for, in a way that the path names.
fn erratic() -> Upstream {
    Upstream::start_owned(|mut peer| {
        while !peer.at_end() {
            let head = peer.read_head();
            let path = head.split(' ').nth(1).unwrap_or_default().to_owned();
            let length = path.len();
            let whole = format!("HTTP/1.1 200 OK\r\ncontent-length: {length}\r\n\r\n{path}");
            let chunked = format!(
                "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n\
                 1\r\n/\r\n{:x}\r\n{}\r\n0\r\n\r\n",
                length - 1,
                &path[1..]
            );
            let way = path.rsplit('-').next().unwrap_or_default();
            match way {
                "whole" => peer.send(whole),
                "chunked" => peer.send(chunked),
                "pieces" => peer.send_byte_by_byte(chunked),
                "hints" => peer.send(format!("HTTP/1.1 103 Early Hints\r\n\r\n{whole}")),
                "twice" => return peer.send(whole.repeat(2)),
                "until-close" => return peer.send(format!("HTTP/1.1 200 OK\r\n\r\n{path}")),
                "close" => {
                    let close = whole.replace("\r\n\r\n", "\r\nconnection: close\r\n\r\n");
                    return peer.send(close);
                }
                "mute" => return,
                "reset" => return peer.reset(),
                "half" => return peer.send(&whole[..whole.len() - 3]),
                "halved" => return peer.send(&chunked[..chunked.len() - 9]),
                "nonsense" => return peer.send("HTTP/1.1 20\r\n\r\n"),
                other => panic!("no way is called {other}"),
            }
        }
    })
}

/// Ways to answer, and whether the client gets the response.
const WAYS: [(&str, bool); 12] = [
    ("whole", true),
    ("mute", false),
    ("chunked", true),
    ("reset", false),
    ("pieces", true),
    ("half", false),
    ("hints", true),
    ("halved", false),
    ("twice", true),
    ("nonsense", false),
    ("until-close", true),
    ("close", true),
];

/// One client: each of its requests names itself and the way in which it shall be answered.
fn talk(server: &Tidegate, client: usize, good: &AtomicUsize) {
    let mut connection: Option<Connection> = None;
    for turn in 0..REQUESTS {
        let (way, is_whole) = WAYS[(client * 5 + turn * 7) % WAYS.len()];
        let path = format!("/{client}-{turn}-{way}");
        let mut asking = connection.take().unwrap_or_else(|| server.connect("web"));
        asking.send(format!("GET {path} HTTP/1.1\r\nhost: a\r\n\r\n"));
        if way.starts_with("hal") {
            asking.read_head();
            let body = asking.read_until_gone();
            assert!(body.len() < path.len() + 20, "{path}: {body:?}");
            continue;
        }
        let mut response = asking.read_response();
        if response.status == 103 {
            response = asking.read_response();
        }
        if is_whole {
            assert_eq!((response.status, response.text()), (200, path));
            good.fetch_add(1, Ordering::SeqCst);
        } else {
            assert_eq!(response.status, 502, "{path}: {response:?}");
        }
        connection = Some(asking);
    }
}

#[test]
fn every_client_gets_its_own_response() {
    let upstreams = [erratic(), erratic()];
    let server = gateway(&format!(
        "{}, ejection: {{ failures: 0 }}, retries: {{ attempts: 2, budget: 100% }}",
        servers(&[&upstreams[0], &upstreams[1]])
    ));
    let open = |server: &Tidegate| server.metrics().sum("process_open_fds", &[]);
    let before = open(&server);
    let good = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        for client in 0..CLIENTS {
            let (server, good) = (&server, &good);
            scope.spawn(move || talk(server, client, good));
        }
    });
    assert!(good.load(Ordering::SeqCst) > CLIENTS * REQUESTS / 2);
    wait_until_released(&server);
    // Descriptors: what was open before, and the connections that are kept.
    let kept = server.metrics().sum("tidegate_upstream_connections", &[]);
    super::wait_until(&server, "no descriptor too many", |metrics| {
        metrics.sum("process_open_fds", &[]) <= before + kept
    });
}
