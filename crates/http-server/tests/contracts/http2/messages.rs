//! Requests and responses on streams.

use std::cell::{Cell, RefCell};
use std::rc::{Rc, Weak};

use bytes::Bytes;
use message::{Body, HandlerResult, Headers, Inform, Request, Response};
use net::Stream;
use net::worker::block_on_local;
use plugin::{Handler, MaybeFuture};
use telemetry::CloseReason;
use wire::h2::ErrorCode;

use super::client::{Http2Client, field, goaway_at_end, send_raw};
use crate::client::{Answers, serve, serve_stream};
use crate::middleware::Collecting;
use crate::served;

#[test]
fn nothing_of_a_request_without_content_outlives_its_response() {
    block_on_local(async {
        // A request refers to its stream, so this tells how many others still do.
        let streams: Rc<RefCell<Vec<Weak<dyn Inform>>>> = Rc::default();
        let noted = streams.clone();
        let handler = Answers(move |request: &mut Request| {
            noted.borrow_mut().push(Rc::downgrade(request.informer.as_ref().unwrap()));
            Ok(Response::text(200, "hello"))
        });
        let mut client = Http2Client::connect(serve(Vec::new(), handler)).await;
        for _ in 0..3 {
            let stream = client.open("GET", "/", true);
            let response = client.response(stream).await;
            assert_eq!((response.status, &response.body[..]), (200, &b"hello"[..]));
        }
        // The connection keeps one stream, for the next request.
        let counts: Vec<usize> = streams.borrow().iter().map(Weak::strong_count).collect();
        assert_eq!(counts, [1, 1, 1]);
        assert!(streams.borrow().iter().all(|stream| stream.ptr_eq(&streams.borrow()[0])));
    });
}

#[test]
fn content_and_trailers_pass_in_both_directions() {
    block_on_local(async {
        // The request's own body, with its trailers, is the response.
        let echo = Answers(|request: &mut Request| {
            Ok(Response::text(200, std::mem::replace(&mut request.body, Body::Empty)))
        });
        let mut client = Http2Client::connect(serve(Vec::new(), echo)).await;
        let stream = client.open("POST", "/", false);
        let content = Bytes::from(vec![b'x'; 50_000]);
        client.protocol.send_data(stream, content.clone(), false).unwrap();
        client.flush().await;
        client.protocol.send_trailers(stream, [field("grpc-status", "0")]).unwrap();
        let response = client.response(stream).await;
        assert_eq!(response.body, content);
        assert_eq!(response.trailers.as_deref(), Some("grpc-status: 0\r\n"));
    });
}

/// Sends early hints, and then waits for the request's body.
struct Hints;

impl Handler for Hints {
    fn name(&self) -> &'static str {
        "hints"
    }

    fn handle<'a>(&'a self, request: &'a mut Request) -> MaybeFuture<'a, HandlerResult> {
        MaybeFuture::of(async move {
            request.inform(103, &Headers::new());
            Ok(Response::text(200, request.collect_body(100).await?))
        })
    }
}

#[test]
fn interim_responses_come_before_the_response() {
    block_on_local(async {
        let mut client = Http2Client::connect(serve(Vec::new(), Hints)).await;
        let expects = [field("expect", "100-continue")];
        let stream = client.open_with("POST", "/", &expects, false);
        client.until(stream, "100", |received| received.interim == [103, 100]).await;
        client.protocol.send_data(stream, Bytes::from_static(b"body"), true).unwrap();
        let response = client.response(stream).await;
        assert_eq!((response.status, &response.body[..]), (200, &b"body"[..]));
    });
}

#[test]
fn a_malformed_preface_ends_as_http_2() {
    block_on_local(async {
        for bytes in ["PRI * HTTP/2.0\r\n\r\nXX\r\n\r\n", "PRI * HTTP/3.0\r\n\r\nSM\r\n\r\n"] {
            let handler = Answers(|_: &mut Request| Ok(Response::text(200, "hello")));
            let service = served::service(Vec::new(), Rc::new(handler));
            let (ours, theirs) = Stream::pair().unwrap();
            serve_stream(ours, service.clone());
            send_raw(&theirs, bytes.into()).await;
            let code = goaway_at_end(&theirs).await;
            assert_eq!(code, Some(ErrorCode::PROTOCOL_ERROR), "{bytes:?}");
            while service.open_connections() > 0 {
                tokio::task::yield_now().await;
            }
            assert_eq!(service.metrics.closes(CloseReason::Http2Error), 1, "{bytes:?}");
        }
    });
}

#[test]
fn content_that_comes_with_its_head_needs_no_100() {
    block_on_local(async {
        let mut client = Http2Client::connect(serve(Vec::new(), Hints)).await;
        let expects = [field("expect", "100-continue")];
        let stream = client.open_with("POST", "/", &expects, false);
        client.protocol.send_data(stream, Bytes::from_static(b"body"), true).unwrap();
        let response = client.response(stream).await;
        assert_eq!((response.interim, response.status), (vec![103], 200));
        assert_eq!(response.body, b"body");
    });
}

#[test]
fn responses_that_have_no_content_end_with_their_fields() {
    block_on_local(async {
        let handler = Answers(|request: &mut Request| {
            let status = request.target.path()[1..].parse().unwrap();
            Ok(Response::text(status, "content"))
        });
        let mut client = Http2Client::connect(serve(Vec::new(), handler)).await;
        for (method, path, length) in [
            ("GET", "/204", None),
            ("GET", "/304", None),
            ("HEAD", "/200", Some("content-length: 7\r\n")),
            ("HEAD", "/404", Some("content-length: 7\r\n")),
        ] {
            let stream = client.open(method, path, true);
            let response = client.response(stream).await;
            assert_eq!(format!("/{}", response.status), path);
            assert!(response.body.is_empty(), "{method} {path}: {response:?}");
            if let Some(length) = length {
                assert!(response.fields.contains(length), "{method} {path}: {response:?}");
            }
        }
    });
}

/// A client of a route that responds with the length of the request's body, of at most 64 KiB.
async fn counting() -> Http2Client {
    let handler = Collecting(|body: Bytes| Ok(Response::text(200, body.len().to_string())));
    Http2Client::connect(serve(Vec::new(), handler)).await
}

#[test]
fn a_body_above_the_limit_is_rejected_as_soon_as_it_is_known() {
    block_on_local(async {
        let mut client = counting().await;
        let announced = [field("content-length", "1000000000")];
        let stream = client.open_with("POST", "/", &announced, false);
        // The stream stays until the client had time to send the rest; the response is there.
        client.until(stream, "a response", |received| received.is_whole).await;
        assert_eq!(client.seen(stream).status, 413);
        // Without a length the content is counted.
        let stream = client.open("POST", "/", false);
        let content = Bytes::from(vec![b'x'; (1 << 16) + 1]);
        client.protocol.send_data(stream, content, true).unwrap();
        assert_eq!(client.response(stream).await.status, 413);
        let stream = client.open("POST", "/", true);
        assert_eq!(client.response(stream).await.body, b"0");
    });
}

#[test]
fn a_response_may_come_before_the_end_of_its_request() {
    block_on_local(async {
        let handler = Answers(|_: &mut Request| Ok(Response::text(200, "early")));
        let mut client = Http2Client::connect(serve(Vec::new(), handler)).await;
        let stream = client.open("POST", "/", false);
        client.until(stream, "a response", |received| received.is_whole).await;
        assert_eq!(client.seen(stream).body, b"early");
        // The rest, of more than every window, is read and discarded.
        for part in 0..32 {
            let content = Bytes::from(vec![b'x'; 1 << 17]);
            client.protocol.send_data(stream, content, part == 31).unwrap();
            client.flush().await;
            while client.protocol.pending(stream) > 0 {
                client.turn().await;
            }
        }
        assert_eq!(client.seen(stream).reset, None);
        let next = client.open("GET", "/", true);
        assert_eq!(client.response(next).await.body, b"early");
        assert!(!client.protocol.is_open(stream));
    });
}

#[test]
fn malformed_messages_are_reset_and_reach_no_handler() {
    block_on_local(async {
        let served = Rc::new(Cell::new(0));
        let counted = served.clone();
        let handler = Answers(move |_: &mut Request| {
            counted.set(counted.get() + 1);
            Ok(Response::text(200, ""))
        });
        let mut client = Http2Client::connect(serve(Vec::new(), handler)).await;
        for (name, value) in [
            ("connection", "close"),
            ("transfer-encoding", "chunked"),
            ("x y", "1"),
            ("x:y", "1"),
            ("x", "a\rb"),
            ("x", "a\nb"),
            ("x", "a\0b"),
            ("x", " a"),
            ("te", "gzip"),
            ("host", "b"),
            ("content-length", "1"),
            ("content-length", "+0"),
            ("x\u{e9}", "1"),
            (":path", "/"),
        ] {
            let stream = client.open_unchecked("/", name, value);
            let reset = client.response(stream).await.reset;
            assert_eq!(reset, Some(ErrorCode::PROTOCOL_ERROR), "{name}: {value:?}");
        }
        for path in ["", "x", "//a b", "/\0", "/\r\n", "/a#b", "*"] {
            let stream = client.open_unchecked(path, "x", "1");
            let reset = client.response(stream).await.reset;
            assert_eq!(reset, Some(ErrorCode::PROTOCOL_ERROR), "{path:?}");
        }
        assert_eq!(served.get(), 0);
        let stream = client.open("GET", "/", true);
        assert_eq!(client.response(stream).await.status, 200);
    });
}
