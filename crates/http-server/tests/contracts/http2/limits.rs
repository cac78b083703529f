//! Time-outs, back-pressure and drains, with a clock that only the test moves. The limits are those
//! of `served`, as for HTTP/1.1.

use std::cell::{Cell, RefCell};
use std::rc::{Rc, Weak};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http_server::Service;
use message::{Body, BodyStream, Fault, Frame, HandlerResult, Inform, Request, Response};
use net::Stream;
use net::manual_time::{advance, block_on, idle};
use plugin::{Handler, MaybeFuture};
use telemetry::{CloseReason, LimitHit};
use tokio::sync::Semaphore;
use wire::h2::ErrorCode;

use super::client::{Http2Client, beginning, frame, send_raw};
use crate::client::{Answers, serve_stream};
use crate::middleware::Collecting;
use crate::served;

/// More than every window and buffer on the way.
const BIG_BYTES: usize = 32 << 20;

fn seconds(count: u64) -> Duration {
    Duration::from_secs(count)
}

/// A connection to a handler, and the service with its counters.
fn connect(handler: impl Handler + 'static) -> (Http2Client, Rc<Service>) {
    let service = served::service(Vec::new(), Rc::new(handler));
    let (ours, theirs) = Stream::pair().unwrap();
    serve_stream(ours, service.clone());
    (Http2Client::of(theirs), service)
}

/// Responds with the length of the request's body.
fn counting() -> impl Handler {
    Collecting(|body: Bytes| Ok(Response::text(200, body.len().to_string())))
}

/// Responds when the test permits it, without reading the body before.
struct Permitted(Rc<Semaphore>);

impl Handler for Permitted {
    fn name(&self) -> &'static str {
        "permitted"
    }

    fn handle<'a>(&'a self, request: &'a mut Request) -> MaybeFuture<'a, HandlerResult> {
        MaybeFuture::of(async move {
            self.0.acquire().await.unwrap().forget();
            let body = request.collect_body(BIG_BYTES as u64).await?;
            Ok(Response::text(200, body.len().to_string()))
        })
    }
}

#[test]
fn an_idle_connection_is_told_that_it_ends() {
    block_on(async {
        let (mut client, service) = connect(counting());
        for _ in 0..3 {
            let stream = client.open("GET", "/", true);
            assert_eq!(client.response(stream).await.status, 200);
            advance(seconds(74)).await;
            assert_eq!(service.open_connections(), 1);
        }
        advance(seconds(2)).await;
        assert_eq!(client.closed().await, Some(ErrorCode::NO_ERROR));
        assert_eq!(service.metrics.hits(LimitHit::Idle), 1);
    });
}

#[test]
fn an_idle_connection_releases_its_streams() {
    block_on(async {
        // A request refers to its stream.
        let streams: Rc<RefCell<Vec<Weak<dyn Inform>>>> = Rc::default();
        let noted = streams.clone();
        let handler = Answers(move |request: &mut Request| {
            noted.borrow_mut().push(Rc::downgrade(request.informer.as_ref().unwrap()));
            Ok(Response::text(200, ""))
        });
        let (mut client, service) = connect(handler);
        for round in 1..=2 {
            let stream = client.open("GET", "/", true);
            assert_eq!(client.response(stream).await.status, 200);
            advance(Duration::from_millis(999)).await;
            let is_kept = || streams.borrow().last().is_some_and(|it| it.strong_count() == 1);
            assert!(is_kept(), "round {round}: the next request may come at once");
            advance(Duration::from_millis(5)).await;
            assert!(!is_kept(), "round {round}");
        }
        assert_eq!(service.open_connections(), 1);
    });
}

#[test]
fn an_incomplete_frame_has_the_time_of_a_head() {
    block_on(async {
        let (client, service) = connect(counting());
        let head = frame(1, 4, 1, &[0x82, 0x86, 0x84]);
        send_raw(&client.stream, [beginning(), head[..10].to_vec()].concat()).await;
        advance(seconds(9)).await;
        assert_eq!(service.open_connections(), 1);
        advance(seconds(2)).await;
        drop(client);
        idle().await;
        assert_eq!(service.metrics.hits(LimitHit::SlowHead), 1);
        assert_eq!(service.metrics.closes(CloseReason::HeadTimeout), 1);
    });
}

#[test]
fn a_head_in_parts_is_timed_from_its_first_byte() {
    block_on(async {
        let times: Rc<RefCell<Vec<u32>>> = Rc::default();
        let noted = times.clone();
        let (client, _service) = connect(Answers(move |request: &mut Request| {
            noted.borrow_mut().push(request.head_us);
            Ok(Response::text(200, ""))
        }));
        // A GET of `/` from `a`.
        let fields = [0x82, 0x86, 0x84, 0x41, 1, b'a'];
        let whole = |stream| frame(1, 5, stream, &fields);
        let (first, rest) = (whole(1)[..10].to_vec(), whole(1)[10..].to_vec());
        send_raw(&client.stream, [beginning(), first].concat()).await;
        advance(seconds(2)).await;
        send_raw(&client.stream, [rest, whole(3), frame(1, 1, 5, &fields[..2])].concat()).await;
        advance(seconds(1)).await;
        send_raw(&client.stream, [frame(9, 4, 5, &fields[2..]), whole(7)].concat()).await;
        idle().await;
        assert_eq!(*times.borrow(), [2_000_000, 0, 1_000_000, 0]);
    });
}

#[test]
fn a_body_that_stops_is_rejected_and_the_connection_serves_on() {
    block_on(async {
        let (mut client, service) = connect(counting());
        let stream = client.open("POST", "/", false);
        client.protocol.send_data(stream, Bytes::from_static(b"half"), false).unwrap();
        client.flush().await;
        advance(seconds(29)).await;
        assert_eq!(service.metrics.hits(LimitHit::SlowBody), 0);
        advance(seconds(2)).await;
        assert_eq!(service.metrics.hits(LimitHit::SlowBody), 1);
        client.until(stream, "408", |received| received.is_whole).await;
        assert_eq!(client.seen(stream).status, 408);
        let next = client.open("GET", "/", true);
        assert_eq!(client.response(next).await.status, 200);
    });
}

#[test]
fn a_window_that_stays_closed_ends_its_stream_only() {
    block_on(async {
        let big = Answers(|request: &mut Request| {
            let length = if request.target.path() == "/big" { BIG_BYTES } else { 1 };
            Ok(Response::text(200, Bytes::from(vec![b'x'; length])))
        });
        let (mut client, service) = connect(big);
        client.holds_windows = true;
        let stalled = client.open("GET", "/big", true);
        let window = wire::h2::Config::default().stream_window as usize;
        client.until(stalled, "a window", |received| received.body.len() == window).await;
        advance(seconds(29)).await;
        assert_eq!(service.metrics.hits(LimitHit::SlowReader), 0);
        advance(seconds(2)).await;
        assert_eq!(service.metrics.hits(LimitHit::SlowReader), 1);
        let response = client.response(stalled).await;
        assert_eq!((response.reset, response.is_whole), (Some(ErrorCode::CANCEL), false));
        assert_eq!(service.open_connections(), 1);
    });
}

/// Content without an end, which counts what is read of it.
struct Endless(Rc<Cell<usize>>);

impl BodyStream for Endless {
    fn poll_frame(&mut self, _: &mut Context<'_>) -> Poll<Option<Result<Frame, Fault>>> {
        const PIECE: &[u8] = &[b'x'; 16 * 1024];
        self.0.set(self.0.get() + PIECE.len());
        Poll::Ready(Some(Ok(Frame::Data(Bytes::from_static(PIECE)))))
    }

    fn length(&self) -> Option<u64> {
        None
    }
}

#[test]
fn closed_windows_hold_two_pieces_of_each_stream() {
    block_on(async {
        let read = Rc::new(Cell::new(0));
        let counter = read.clone();
        let handler = Answers(move |_: &mut Request| {
            Ok(Response::text(200, Body::stream(Endless(counter.clone()))))
        });
        let service = served::service(Vec::new(), Rc::new(handler));
        let (ours, theirs) = Stream::pair().unwrap();
        serve_stream(ours, service.clone());
        const STREAMS: u32 = 100;
        // One piece is with the protocol, and the next waits for it.
        const HELD: usize = STREAMS as usize * 2 * 16 * 1024;
        // The window of every stream is zero.
        let mut bytes = [beginning(), frame(4, 0, 0, &[0, 4, 0, 0, 0, 0])].concat();
        for stream in 0..STREAMS {
            bytes.extend(frame(1, 5, 2 * stream + 1, &[0x82, 0x86, 0x84, 0x41, 1, b'a']));
        }
        send_raw(&theirs, bytes).await;
        idle().await;
        assert_eq!(service.metrics.requests_in_flight.get(), i64::from(STREAMS));
        assert_eq!(read.get(), HELD);
        advance(seconds(31)).await;
        // No stream can be served: the connection ends, and all of them with it.
        assert_eq!(service.metrics.hits(LimitHit::SlowReader), 1);
        assert_eq!(service.open_connections(), 0);
        assert_eq!(service.metrics.requests_in_flight.get(), 0);
        assert_eq!(read.get(), HELD);
    });
}

#[test]
fn an_application_that_does_not_read_stops_its_client() {
    block_on(async {
        let permits = Rc::new(Semaphore::new(0));
        let (mut client, _service) = connect(Permitted(permits.clone()));
        let stream = client.open("POST", "/", false);
        let content = Bytes::from(vec![b'x'; BIG_BYTES]);
        client.protocol.send_data(stream, content, true).unwrap();
        client.flush().await;
        // The settings of the server, and what its windows allow.
        client.turn().await;
        idle().await;
        client.flush().await;
        let sent = BIG_BYTES as u64 - client.protocol.pending(stream);
        assert_eq!(sent, u64::from(wire::h2::Config::default().stream_window));
        permits.add_permits(1);
        assert_eq!(client.response(stream).await.body, BIG_BYTES.to_string().as_bytes());
    });
}

#[test]
fn a_drain_loses_no_stream() {
    block_on(async {
        let permits = Rc::new(Semaphore::new(0));
        let (mut client, service) = connect(Permitted(permits.clone()));
        let first = client.open("GET", "/", true);
        client.flush().await;
        idle().await;
        // The client sends a request before it knows.
        service.drain();
        let second = client.open("GET", "/", true);
        client.flush().await;
        idle().await;
        permits.add_permits(2);
        assert_eq!(client.response(first).await.status, 200);
        assert_eq!(client.response(second).await.status, 200);
        assert_eq!(client.closed().await, Some(ErrorCode::NO_ERROR));
        drop(client);
        idle().await;
        assert_eq!(service.metrics.closes(CloseReason::Drain), 1);
    });
}

#[test]
fn a_drain_does_not_wait_for_a_client_that_does_not_acknowledge_it() {
    block_on(async {
        let (client, service) = connect(counting());
        send_raw(&client.stream, beginning()).await;
        idle().await;
        service.drain();
        advance(Duration::from_millis(499)).await;
        assert_eq!(service.metrics.closes(CloseReason::Drain), 0);
        advance(Duration::from_millis(5)).await;
        drop(client);
        idle().await;
        assert_eq!(service.metrics.closes(CloseReason::Drain), 1);
    });
}

#[test]
fn a_request_that_is_cancelled_ends() {
    block_on(async {
        let (mut client, service) = connect(Permitted(Rc::new(Semaphore::new(0))));
        let stream = client.open("GET", "/", true);
        client.flush().await;
        idle().await;
        assert_eq!(service.metrics.requests_in_flight.get(), 1);
        client.protocol.reset(stream, ErrorCode::CANCEL);
        client.flush().await;
        idle().await;
        assert_eq!(service.metrics.requests_in_flight.get(), 0);
        assert_eq!(service.open_connections(), 1);
    });
}
