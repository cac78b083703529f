//! Upgrades.

use std::cell::Cell;
use std::io;
use std::task::{Context, Poll};

use net::worker::block_on_local;

use super::*;
use message::{Duplex, Ending};

/// The client's side, over a stream of its own.
struct ClientSide {
    stream: Stream,
    outgoing: Outgoing,
    finished: Rc<Cell<bool>>,
}

impl Duplex for ClientSide {
    fn poll_receive(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<Bytes>> {
        self.stream.poll_receive(cx)
    }

    fn poll_send(&mut self, cx: &mut Context<'_>, chunk: &mut Bytes) -> Poll<io::Result<()>> {
        self.outgoing.push(std::mem::take(chunk));
        while !self.outgoing.is_empty() {
            std::task::ready!(self.stream.poll_send(cx, &mut self.outgoing))?;
        }
        Poll::Ready(Ok(()))
    }

    fn finish(&mut self) {
        self.finished.set(true);
        self.stream.finish();
    }
}

struct Opened {
    client: Stream,
    server: Stream,
    tunnel: message::LocalFuture<'static, Ending>,
    finished: Rc<Cell<bool>>,
}

/// A tunnel through a server that has said `early` behind its head already.
async fn open(early: &str, options: ClientOptions) -> Opened {
    let (server, pool) = alone();
    let mut request = request(Method::Get);
    request.upgrade = true;
    request.headers.append("Connection", "Upgrade");
    request.headers.append("Upgrade", "websocket");
    let serve = async {
        let stream = server.accept().await;
        let head = read_head(&stream).await;
        assert!(head.contains("Upgrade: websocket\r\nConnection: Upgrade\r\n"), "{head}");
        let answer = "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\n\
                      Connection: Upgrade\r\nSec-WebSocket-Accept: x\r\n\r\n";
        send(&stream, format!("{answer}{early}")).await;
        stream
    };
    let (server, outcome) = tokio::join!(serve, ask_with(&pool, &request, Body::Empty, options));
    let response = outcome.unwrap();
    assert_eq!(response.status, 101);
    assert_eq!(response.headers.get("Upgrade"), Some(&b"websocket"[..]));
    let (client, end) = Stream::pair().unwrap();
    let finished = Rc::new(Cell::new(false));
    let duplex =
        ClientSide { stream: end, outgoing: Outgoing::default(), finished: finished.clone() };
    let tunnel = response.takeover.unwrap()(Box::new(duplex));
    Opened { client, server, tunnel, finished }
}

#[test]
fn both_directions_flow_and_ends_are_passed_on() {
    block_on_local(async {
        let Opened { client, server, tunnel, finished } = open("early", options()).await;
        let talk = async {
            assert_eq!(read_to(&client, "early").await, "early");
            send(&client, "ping").await;
            assert_eq!(read_to(&server, "ping").await, "ping");
            send(&server, "pong").await;
            assert_eq!(read_to(&client, "pong").await, "pong");
            client.finish();
            assert!(read_end(&server).await.is_empty());
            // The other direction is still open.
            assert!(!finished.get());
            send(&server, "bye").await;
            assert_eq!(read_to(&client, "bye").await, "bye");
            drop(server);
            assert!(read_end(&client).await.is_empty());
        };
        let ((), ending) = tokio::join!(talk, tunnel);
        assert_eq!(ending, Ending::Finished);
    });
}

#[test]
fn much_goes_through_both_ways_at_once() {
    block_on_local(async {
        let Opened { client, server, tunnel, .. } = open("", options()).await;
        let size = 4 * 1024 * 1024;
        let count = async |stream: &Stream| {
            let mut got = 0;
            while got < size {
                got += stream.receive().await.unwrap().len();
            }
            got
        };
        let talk = async {
            let (from_client, from_server, (), ()) = tokio::join!(
                count(&server),
                count(&client),
                send(&client, vec![1; size]),
                send(&server, vec![2; size]),
            );
            drop((client, server));
            (from_client, from_server)
        };
        let (counts, _) = tokio::join!(talk, tunnel);
        assert_eq!(counts, (size, size));
    });
}

#[test]
fn a_tunnel_ends_when_it_is_silent_and_not_when_it_is_slow() {
    net::manual_time::block_on(async {
        let options = ClientOptions { tunnel_idle: Duration::from_secs(30), ..options() };
        let Opened { client, server, tunnel, .. } = open("", options).await;
        let ending = net::task::spawn_local(tunnel);
        for _ in 0..5 {
            net::manual_time::advance(Duration::from_secs(29)).await;
            send(&client, "tick".to_owned()).await;
            assert_eq!(&server.receive().await.unwrap()[..], b"tick");
        }
        net::manual_time::advance(Duration::from_secs(29)).await;
        assert!(!ending.is_finished());
        net::manual_time::advance(Duration::from_secs(2)).await;
        assert_eq!(ending.await, Ok(Ending::Idle));
        assert!(read_end(&server).await.is_empty());
    });
}

#[test]
fn a_broken_side_ends_the_tunnel() {
    block_on_local(async {
        let Opened { client: _client, server, tunnel, .. } = open("", options()).await;
        server.abort();
        assert_eq!(tunnel.await, Ending::OtherGone);
    });
}
