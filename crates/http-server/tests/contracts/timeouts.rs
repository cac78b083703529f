//! Time-outs of a client's connection: with a manual clock, so that both what fires and what must
//! not fire is exact. The limits are those of `served`: 10 s for a handshake and for headers, 75 s
//! idle, 30 s for a body or a response that does not move, at least 240 bytes a second.

use std::rc::Rc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use http_server::Service;
use message::{Body, BodyStream, Fault, Frame, Request, Response};
use net::manual_time::{advance, block_on, idle};
use net::{Stream, Timer};

use crate::client::{Answers, Client, serve, serve_stream};
use crate::middleware::Collecting;
use crate::served;

const PING: &str = "GET / HTTP/1.1\r\nHost: a\r\n\r\n";
/// More than the buffers of the kernel hold.
const BIG_BYTES: usize = 32 << 20;

fn seconds(count: u64) -> Duration {
    Duration::from_secs(count)
}

/// A client of a route that responds with the length of the request's body.
async fn client() -> Client {
    let handler = Collecting(|body: Bytes| Ok(Response::text(200, format!("{}\n", body.len()))));
    Client::connect(serve(Vec::new(), handler)).await
}

#[test]
fn a_connection_without_a_byte_is_closed_after_its_handshake_time() {
    block_on(async {
        let client = client().await;
        advance(seconds(9)).await;
        assert!(client.is_open_and_silent().await);
        advance(seconds(2)).await;
        assert_eq!(client.rest().await, "");
    });
}

#[test]
fn headers_have_a_time_that_their_pauses_do_not_extend() {
    block_on(async {
        let client = client().await;
        client.send("GET / HTTP/1.1\r\n").await;
        for _ in 0..9 {
            advance(seconds(1)).await;
            client.send("x: y\r\n").await;
        }
        assert!(client.is_open_and_silent().await);
        advance(seconds(2)).await;
        assert!(client.rest().await.starts_with("HTTP/1.1 408 "));
    });
}

#[test]
fn a_head_in_parts_is_timed_from_its_first_byte() {
    block_on(async {
        let timed =
            |request: &mut Request| Ok(Response::text(200, format!("{:9}", request.head_us)));
        let mut client = Client::connect(serve(Vec::new(), Answers(timed))).await;
        client.send("GET / HTTP/1.1\r\n").await;
        advance(seconds(2)).await;
        client.send("Host: a\r\n\r\n").await;
        client.head().await;
        assert_eq!(client.read(9).await, "  2000000");
        client.send(PING).await;
        client.head().await;
        assert_eq!(client.read(9).await, "        0");
    });
}

#[test]
fn a_body_may_pause_as_long_as_it_moves_fast_enough() {
    block_on(async {
        let mut client = client().await;
        client.send("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 60000\r\n\r\n").await;
        // 10000 bytes earn more than the 25 s of a pause.
        for _ in 0..6 {
            advance(seconds(25)).await;
            assert!(client.is_open_and_silent().await);
            client.send(vec![b'x'; 10_000]).await;
            idle().await;
        }
        assert!(client.head().await.starts_with("HTTP/1.1 200 "));
    });
}

#[test]
fn a_body_that_stops_is_rejected() {
    block_on(async {
        let client = client().await;
        client.send("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 8\r\n\r\nhalf").await;
        advance(seconds(29)).await;
        assert!(client.is_open_and_silent().await);
        advance(seconds(2)).await;
        assert!(client.rest().await.starts_with("HTTP/1.1 408 "));
    });
}

#[test]
fn each_request_begins_the_idle_time_again() {
    block_on(async {
        let mut client = client().await;
        for _ in 0..4 {
            client.send(PING).await;
            assert!(client.head().await.starts_with("HTTP/1.1 200 "));
            assert_eq!(client.read(2).await, "0\n");
            advance(seconds(74)).await;
            assert!(client.is_open_and_silent().await);
        }
        advance(seconds(2)).await;
        assert_eq!(client.rest().await, "");
    });
}

#[test]
fn a_client_that_reads_slowly_has_its_response_and_one_that_does_not_is_cut_off() {
    let big = || Answers(|_: &mut _| Ok(Response::text(200, Bytes::from(vec![b'x'; BIG_BYTES]))));
    block_on(async {
        let mut client = Client::connect(serve(Vec::new(), big())).await;
        client.send(PING).await;
        client.head().await;
        for _ in 0..32 {
            // Each mebibyte earns the whole pause again.
            advance(seconds(25)).await;
            client.read(BIG_BYTES / 32).await;
        }

        let client = Client::connect(serve(Vec::new(), big())).await;
        client.send(PING).await;
        advance(seconds(29)).await;
        assert!(client.has_not_failed().await);
        advance(seconds(2)).await;
        assert!(client.rest().await.len() < BIG_BYTES);
    });
}

/// A body of one byte a minute.
struct Ticks {
    left: usize,
    timer: Timer,
}

impl Ticks {
    fn new(count: usize) -> Ticks {
        let timer = Timer::new();
        timer.set(seconds(60));
        Ticks { left: count, timer }
    }
}

impl BodyStream for Ticks {
    fn poll_frame(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Frame, Fault>>> {
        if self.left == 0 {
            return Poll::Ready(None);
        }
        ready!(self.timer.poll(cx));
        self.timer.set(seconds(60));
        self.left -= 1;
        Poll::Ready(Some(Ok(Frame::Data(Bytes::from_static(b".")))))
    }

    fn length(&self) -> Option<u64> {
        Some(self.left as u64)
    }
}

#[test]
fn a_handler_that_sends_slowly_is_not_taken_for_a_client_that_reads_slowly() {
    let ticks = || Answers(|_: &mut _| Ok(Response::text(200, Body::stream(Ticks::new(5)))));
    block_on(async {
        let mut client = Client::connect(serve(Vec::new(), ticks())).await;
        client.send(PING).await;
        assert!(client.head().await.contains("Content-Length: 5\r\n"));
        for _ in 0..5 {
            advance(seconds(59)).await;
            assert!(client.is_open_and_silent().await);
            advance(seconds(1)).await;
            assert_eq!(client.read(1).await, ".");
        }
        client.send(PING).await;
        assert!(client.head().await.starts_with("HTTP/1.1 200 "));
    });
}

/// An idle connection of a service, and its client.
async fn idle_connection(service: &Rc<Service>) -> Client {
    let (ours, theirs) = Stream::pair().unwrap();
    serve_stream(ours, service.clone());
    let mut client = Client::of(theirs);
    client.send(PING).await;
    client.head().await;
    assert_eq!(client.read(2).await, "0\n");
    client
}

#[test]
fn an_idle_connection_has_a_moment_for_one_more_request_when_the_server_drains() {
    block_on(async {
        let handler = Answers(|_: &mut _| Ok(Response::text(200, "0\n")));
        let service = served::service(Vec::new(), Rc::new(handler));
        let long_idle = idle_connection(&service).await;
        advance(Duration::from_millis(500)).await;
        let (silent, mut sends) =
            (idle_connection(&service).await, idle_connection(&service).await);
        service.drain();
        assert_eq!(long_idle.rest().await, "");
        advance(Duration::from_millis(499)).await;
        assert!(silent.is_open_and_silent().await);
        sends.send(PING).await;
        assert!(sends.head().await.contains("Connection: close\r\n"));
        assert_eq!(sends.rest().await, "0\n");
        advance(Duration::from_millis(1)).await;
        assert_eq!(silent.rest().await, "");
    });
}
