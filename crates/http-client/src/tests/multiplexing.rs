//! Requests over HTTP/2, against the server's side of `wire::h2`.

mod lifetime;

use std::future::poll_fn;
use std::task::Poll;

use bytes::BytesMut;
use message::{FaultKind, Frame, Retry};
use net::worker::block_on_local;
use wire::h2::{Config, Connection, ErrorCode, Event, Field, Output, StreamKey};

use super::*;

/// A server's connection.
struct Peer {
    stream: Stream,
    core: Connection<Bytes>,
}

struct Joined<'a>(&'a mut BytesMut);

impl Output<Bytes> for Joined<'_> {
    fn frames(&mut self, bytes: &mut Vec<u8>) {
        self.0.extend_from_slice(bytes);
        bytes.clear();
    }

    fn payload(&mut self, payload: Bytes) {
        self.0.extend_from_slice(&payload);
    }
}

fn endpoint(server: &Server) -> Endpoint {
    Endpoint { prior_knowledge: true, ..server.endpoint.clone() }
}

/// A server and a pool that speaks HTTP/2 with it.
fn shared() -> (Server, Rc<Pool>) {
    let server = Server::start();
    let pool = Pool::of(&context(), "test", &endpoint(&server), PoolLimits::default());
    (server, pool)
}

impl Peer {
    async fn accept(server: &Server, config: Config) -> Peer {
        Peer { stream: server.accept().await, core: Connection::server(config) }
    }

    async fn flush(&mut self) {
        let mut bytes = BytesMut::new();
        self.core.write(&mut Joined(&mut bytes), usize::MAX);
        if !bytes.is_empty() {
            send(&self.stream, bytes).await;
        }
    }

    async fn event(&mut self) -> Event {
        loop {
            if let Some(event) = self.core.poll_event().expect("no violation") {
                return event;
            }
            self.flush().await;
            let chunk = self.stream.receive().await.unwrap();
            assert!(!chunk.is_empty(), "the client closed the connection");
            self.core.receive(chunk);
        }
    }

    /// The stream of the next request, and its head as lines.
    async fn request(&mut self) -> (StreamKey, String) {
        loop {
            if let Event::Request { stream, .. } = self.event().await {
                let fields = self.core.fields();
                let lines = fields.spans.iter().map(|field| {
                    let text =
                        |span: wire::h1::Span| String::from_utf8_lossy(span.of(&fields.text));
                    format!("{}: {}\r\n", text(field.name()), text(field.value()))
                });
                return (stream, lines.collect());
            }
        }
    }

    async fn respond(&mut self, stream: StreamKey, body: &'static [u8]) {
        self.core.respond(stream, 200, [], false).unwrap();
        self.core.send_data(stream, Bytes::from_static(body), true).unwrap();
        self.flush().await;
    }

    /// Serves until the connection ends, so that windows are updated.
    async fn until_reset(&mut self) -> (StreamKey, ErrorCode) {
        loop {
            if let Event::Reset { stream, code, .. } = self.event().await {
                return (stream, code);
            }
        }
    }
}

async fn body(outcome: Result<Response, Fault>) -> Vec<u8> {
    outcome.unwrap().body.collect(1 << 24).await.unwrap().to_vec()
}

#[test]
fn requests_share_a_connection_and_are_answered_in_any_order() {
    block_on_local(async {
        let (server, pool) = shared();
        let serve = async {
            let mut peer = Peer::accept(&server, Config::default()).await;
            let mut streams = Vec::new();
            for _ in 0..3 {
                streams.push(peer.request().await.0);
            }
            for (stream, body) in streams.into_iter().rev().zip([&b"three"[..], b"two", b"one"]) {
                peer.respond(stream, body).await;
            }
            let (stream, _) = peer.request().await;
            peer.respond(stream, b"later").await;
        };
        let ask = async {
            let (one, two, three) = tokio::join!(get(&pool), get(&pool), get(&pool));
            assert_eq!(body(one).await, b"one");
            assert_eq!(body(two).await, b"two");
            assert_eq!(body(three).await, b"three");
            assert_eq!(body(get(&pool).await).await, b"later");
        };
        tokio::join!(serve, ask);
        assert_eq!(pool.active(), 0);
    });
}

#[test]
fn a_request_has_the_fields_of_http_2_and_no_others() {
    block_on_local(async {
        let (server, pool) = shared();
        let mut request = request(Method::Post);
        for (name, value) in [
            ("Connection", "x-hop, te"),
            ("X-Hop", "1"),
            ("TE", "trailers, gzip"),
            ("Keep-Alive", "1"),
            ("Upgrade", "other"),
            ("Transfer-Encoding", "chunked"),
            ("X-Kept", "yes"),
        ] {
            request.headers.append(name, value);
        }
        request.upgrade = true;
        let serve = async {
            let mut peer = Peer::accept(&server, Config::default()).await;
            let (stream, text) = peer.request().await;
            peer.respond(stream, b"").await;
            text
        };
        let (text, outcome) = tokio::join!(serve, ask(&pool, &request, Body::from("abc")));
        assert_eq!(outcome.unwrap().status, 200);
        let mut names: Vec<&str> =
            text.lines().filter_map(|line| Some(line.split_once(": ")?.0)).collect();
        names.sort_unstable();
        assert_eq!(names, ["content-length", "host", "te", "via", "x-kept"]);
        assert!(text.contains("te: trailers\r\n") && text.contains("host: shop.example\r\n"));
    });
}

#[test]
fn large_bodies_and_trailers_pass_both_ways() {
    block_on_local(async {
        let (server, pool) = shared();
        const SIZE: usize = 3_000_000;
        let serve = async {
            let mut peer = Peer::accept(&server, Config::default()).await;
            let (stream, _) = peer.request().await;
            let mut received = 0;
            let trailer = loop {
                match peer.event().await {
                    Event::Data { data, .. } => {
                        received += data.len();
                        peer.core.release(stream, data.len());
                    }
                    Event::Trailers { .. } => {
                        break String::from_utf8(peer.core.fields().text.clone()).unwrap();
                    }
                    other => panic!("{other:?}"),
                }
            };
            assert_eq!((received, &*trailer), (SIZE, "x-sum: 1\r\n"));
            peer.core.respond(stream, 200, [], false).unwrap();
            let mut sent = 0;
            while sent < SIZE {
                if peer.core.is_ready(stream) {
                    let chunk = Bytes::from(vec![b'y'; 100_000]);
                    sent += chunk.len();
                    peer.core.send_data(stream, chunk, false).unwrap();
                }
                peer.flush().await;
                if !peer.core.is_ready(stream) {
                    let chunk = peer.stream.receive().await.unwrap();
                    peer.core.receive(chunk);
                    while peer.core.poll_event().unwrap().is_some() {}
                }
            }
            while !peer.core.is_ready(stream) {
                peer.flush().await;
                let chunk = peer.stream.receive().await.unwrap();
                peer.core.receive(chunk);
                while peer.core.poll_event().unwrap().is_some() {}
                peer.flush().await;
            }
            let field = Field { known: None, name: b"x-end", value: b"2" };
            peer.core.send_trailers(stream, [field]).unwrap();
            peer.flush().await;
        };
        let ask = async {
            let (mut writer, shared) = message::shared_body(u64::MAX, None);
            for _ in 0..SIZE / 100_000 {
                assert!(writer.push(Bytes::from(vec![b'x'; 100_000])).is_ok());
            }
            let mut trailers = Headers::new();
            trailers.append("x-sum", "1");
            writer.finish(Some(trailers));
            let mut response = ask(&pool, &request(Method::Post), shared.body()).await.unwrap();
            let (mut received, mut trailer) = (0, None);
            while let Some(frame) = response.body.frame().await {
                match frame.unwrap() {
                    Frame::Data(data) => received += data.len(),
                    Frame::Trailers(trailers) => trailer = Some(trailers),
                    Frame::File(_) => panic!("no file was sent"),
                }
            }
            assert_eq!(received, SIZE);
            assert_eq!(trailer.unwrap().get("x-end"), Some(&b"2"[..]));
        };
        tokio::join!(serve, ask);
    });
}

#[test]
fn what_the_server_has_not_processed_may_be_sent_again() {
    block_on_local(async {
        let (server, pool) = shared();
        let serve = async {
            let mut peer = Peer::accept(&server, Config::default()).await;
            let (stream, _) = peer.request().await;
            peer.core.reset(stream, ErrorCode::REFUSED_STREAM);
            peer.flush().await;
            let (stream, _) = peer.request().await;
            peer.core.reset(stream, ErrorCode::INTERNAL_ERROR);
            peer.flush().await;
            let (first, _) = peer.request().await;
            // The last stream that it processes; the next request is above it.
            peer.core.close_to_new_streams();
            peer.flush().await;
            peer.respond(first, b"last").await;
            let mut second = Peer::accept(&server, Config::default()).await;
            let (stream, _) = second.request().await;
            second.respond(stream, b"new").await;
            (peer, second)
        };
        let ask = async {
            let fault = get(&pool).await.err().unwrap();
            assert_eq!((fault.kind, fault.retry), (FaultKind::ConnectionTerminated, Retry::Unsent));
            let fault = get(&pool).await.err().unwrap();
            assert_eq!(fault.retry, Retry::IfIdempotent, "{fault}");
            assert_eq!(body(get(&pool).await).await, b"last");
            assert_eq!(body(get(&pool).await).await, b"new");
        };
        tokio::join!(serve, ask);
    });
}

#[test]
fn a_dropped_response_resets_its_stream_alone() {
    block_on_local(async {
        let (server, pool) = shared();
        let serve = async {
            let mut peer = Peer::accept(&server, Config::default()).await;
            let (first, _) = peer.request().await;
            peer.core.respond(first, 200, [], false).unwrap();
            peer.core.send_data(first, Bytes::from_static(b"half"), false).unwrap();
            peer.flush().await;
            let (reset, code) = peer.until_reset().await;
            assert_eq!((reset, code), (first, ErrorCode::CANCEL));
            let (second, _) = peer.request().await;
            peer.respond(second, b"whole").await;
        };
        let ask = async {
            let first = get(&pool).await.unwrap();
            assert_eq!(pool.active(), 1);
            let second = async {
                drop(first);
                get(&pool).await
            };
            assert_eq!(body(second.await).await, b"whole");
            assert_eq!(pool.active(), 0);
        };
        tokio::join!(serve, ask);
    });
}

#[test]
fn a_full_connection_gets_a_companion() {
    block_on_local(async {
        let (server, pool) = shared();
        let config = Config { max_streams: 1, ..Config::default() };
        let serve = async {
            let mut one = Peer::accept(&server, config.clone()).await;
            let (stream, _) = one.request().await;
            one.respond(stream, b"known").await;
            let (first, _) = one.request().await;
            let mut two = Peer::accept(&server, config.clone()).await;
            let (second, _) = two.request().await;
            two.respond(second, b"two").await;
            one.respond(first, b"one").await;
            (one, two)
        };
        let ask = async {
            assert_eq!(body(get(&pool).await).await, b"known");
            let (one, two) = tokio::join!(get(&pool), get(&pool));
            assert_eq!((body(one).await, body(two).await), (b"one".to_vec(), b"two".to_vec()));
        };
        tokio::join!(serve, ask);
    });
}

#[test]
fn a_free_stream_goes_to_the_request_that_waits_longest() {
    block_on_local(async {
        let (server, pool) = shared();
        let config = Config { max_streams: 1, ..Config::default() };
        let serve = async {
            let mut one = Peer::accept(&server, config.clone()).await;
            let (stream, _) = one.request().await;
            one.core.respond(stream, 200, [], false).unwrap();
            one.flush().await;
            let mut two = Peer::accept(&server, config.clone()).await;
            let (leader, _) = two.request().await;
            two.respond(leader, b"leader").await;
            let (stream, text) = one.request().await;
            one.respond(stream, b"waiting").await;
            (one, two, text)
        };
        let ask = async {
            let held = get(&pool).await.unwrap();
            let (leader, post) = (request(Method::Get), request(Method::Post));
            let mut leader = Box::pin(ask(&pool, &leader, Body::Empty));
            let mut waiting = Box::pin(ask(&pool, &post, Body::from("abc")));
            let is_pending = poll_fn(|cx| {
                let leader = leader.as_mut().poll(cx).is_pending();
                Poll::Ready(leader && waiting.as_mut().poll(cx).is_pending())
            });
            assert!(is_pending.await);
            drop(held);
            assert!(pool.take(Upgrade::None).is_none(), "a new request overtakes those that wait");
            let (leader, waiting) = tokio::join!(leader, waiting);
            assert_eq!(body(leader).await, b"leader");
            assert_eq!(body(waiting).await, b"waiting");
            assert!(pool.take(Upgrade::None).is_some());
        };
        let ((.., text), ()) = tokio::join!(serve, ask);
        assert!(text.contains("content-length: 3\r\n"), "{text}");
    });
}

#[test]
fn a_lost_connection_and_a_slow_response_are_faults() {
    block_on_local(async {
        let (server, pool) = shared();
        let serve = async {
            let mut peer = Peer::accept(&server, Config::default()).await;
            peer.request().await;
            drop(peer);
            let mut peer = Peer::accept(&server, Config::default()).await;
            let (stream, _) = peer.request().await;
            peer.core.respond(stream, 200, [], false).unwrap();
            peer.core.send_data(stream, Bytes::from_static(b"half"), false).unwrap();
            peer.flush().await;
            drop(peer);
            let mut peer = Peer::accept(&server, Config::default()).await;
            peer.request().await;
            peer
        };
        let ask = async {
            let fault = get(&pool).await.err().unwrap();
            let expected = (FaultKind::ConnectionTerminated, Retry::IfIdempotent);
            assert_eq!((fault.kind, fault.retry), expected);
            let mut response = get(&pool).await.unwrap();
            let fault = response.body.collect(100).await.err().unwrap();
            assert_eq!(fault.kind, FaultKind::ResponseIncomplete);
            let options = ClientOptions { response: Duration::from_millis(50), ..options() };
            let outcome = ask_with(&pool, &request(Method::Get), Body::Empty, options).await;
            assert_eq!(outcome.err().unwrap().kind, FaultKind::ResponseTimeout);
        };
        tokio::join!(serve, ask);
    });
}

#[test]
fn what_a_client_has_not_read_survives_its_stream_and_its_connection() {
    block_on_local(async {
        let (server, pool) = shared();
        let serve = async {
            let mut peer = Peer::accept(&server, Config::default()).await;
            let (first, _) = peer.request().await;
            peer.core.respond(first, 200, [], false).unwrap();
            peer.flush().await;
            // The request tells that the head has arrived.
            let (second, _) = peer.request().await;
            peer.core.send_data(first, Bytes::from_static(b"first"), true).unwrap();
            peer.respond(second, b"second").await;
            let (third, _) = peer.request().await;
            assert!(third.slot == first.slot || third.slot == second.slot);
            peer.respond(third, b"third").await;
        };
        let ask = async {
            let first = get(&pool).await;
            assert_eq!(body(get(&pool).await).await, b"second");
            assert_eq!(body(get(&pool).await).await, b"third");
            first
        };
        let ((), first) = tokio::join!(serve, ask);
        assert_eq!(body(first).await, b"first");
    });
}

#[test]
fn many_tiny_frames_cost_no_more_than_their_bytes() {
    block_on_local(async {
        let (server, pool) = shared();
        const FRAMES: usize = 20_000;
        let serve = async {
            let mut peer = Peer::accept(&server, Config::default()).await;
            let (stream, _) = peer.request().await;
            peer.core.respond(stream, 200, [], false).unwrap();
            for _ in 0..FRAMES {
                peer.core.send_data(stream, Bytes::from_static(b"x"), false).unwrap();
            }
            peer.flush().await;
            let (other, _) = peer.request().await;
            peer.respond(other, b"other").await;
            peer.core.send_data(stream, Bytes::from_static(b"!"), true).unwrap();
            peer.flush().await;
        };
        let ask = async {
            let mut first = get(&pool).await.unwrap();
            assert_eq!(body(get(&pool).await).await, b"other");
            let (mut received, mut frames) = (0, 0);
            while let Some(Ok(Frame::Data(data))) = first.body.frame().await {
                received += data.len();
                frames += 1;
            }
            assert_eq!(received, FRAMES + 1);
            // One per 16 KiB, and what came while the rest was read.
            assert!(frames <= 8, "{frames}");
        };
        tokio::join!(serve, ask);
    });
}
