//! What a server is sent.

use std::task::{Context, Poll};

use net::worker::block_on_local;
use wire::Known;

use super::*;
use message::{BodyStream, ConnectionFacts, Frame, Protocol};

struct Pieces(Vec<Frame>, Option<u64>);

impl BodyStream for Pieces {
    fn poll_frame(&mut self, _: &mut Context<'_>) -> Poll<Option<Result<Frame, Fault>>> {
        Poll::Ready((!self.0.is_empty()).then(|| Ok(self.0.remove(0))))
    }
    fn length(&self) -> Option<u64> {
        self.1
    }
}

fn data(text: &'static str) -> Frame {
    Frame::Data(Bytes::from_static(text.as_bytes()))
}

/// What a server receives, up to `end`.
async fn received(request: &Request, body: Body, end: &str, options: ClientOptions) -> String {
    let (server, pool) = alone();
    let serve = async {
        let stream = server.accept().await;
        let text = read_to(&stream, end).await;
        send(&stream, "HTTP/1.1 204 No Content\r\n\r\n").await;
        text
    };
    let (text, outcome) = tokio::join!(serve, ask_with(&pool, request, body, options));
    assert_eq!(outcome.unwrap().status, 204);
    text
}

fn from_client(mut request: Request) -> Request {
    request.facts = Rc::new(ConnectionFacts {
        peer: net::Peer::Tcp("192.0.2.7:4000".parse().unwrap()),
        protocol: Protocol::Http1,
        ..ConnectionFacts::internal()
    });
    request
}

#[test]
fn hop_by_hop_fields_stay_behind() {
    block_on_local(async {
        let mut request = from_client(request(Method::Get));
        for (name, value) in [
            ("Connection", "keep-alive, X-Secret, Host"),
            ("X-Secret", "1"),
            ("Keep-Alive", "timeout=5"),
            ("Proxy-Connection", "keep-alive"),
            ("Transfer-Encoding", "chunked"),
            ("Content-Length", "0"),
            ("Upgrade", "websocket"),
            ("TE", "gzip, trailers"),
            ("Expect", "100-continue"),
            ("X-Forwarded-For", "198.51.100.1"),
            ("Accept", "*/*"),
            ("Via", "1.0 other"),
        ] {
            request.headers.append(name, value);
        }
        let text = received(&request, Body::Empty, "\r\n\r\n", options()).await;
        assert_eq!(
            text,
            "GET /path?q=1 HTTP/1.1\r\nHost: shop.example\r\nAccept: */*\r\nVia: 1.0 other\r\n\
             TE: trailers\r\nConnection: TE\r\nContent-Length: 0\r\nVia: 1.1 tidegate\r\n\
             X-Forwarded-For: 198.51.100.1, 192.0.2.7\r\nX-Forwarded-Proto: http\r\n\
             X-Forwarded-Host: shop.example\r\n\r\n"
        );
    });
}

#[test]
fn connection_cannot_strip_fields_that_identify_the_client() {
    block_on_local(async {
        let mut request = from_client(request(Method::Get));
        request.headers.append("X-Forwarded-Proto", "https");
        request.headers.append("X-Forwarded-For", "198.51.100.1");
        request.headers.append("Connection", "X-Forwarded-Proto, X-Forwarded-For, Content-Length");
        let text = received(&request, Body::Empty, "\r\n\r\n", options()).await;
        assert!(text.contains("X-Forwarded-Proto: https\r\n"), "{text}");
        assert!(text.contains("X-Forwarded-For: 198.51.100.1, 192.0.2.7\r\n"), "{text}");
    });
}

#[test]
fn forwarded_is_sent_where_requested() {
    block_on_local(async {
        let mut request = from_client(request(Method::Get));
        request.facts = Rc::new(ConnectionFacts {
            peer: net::Peer::Tcp("[2001:db8::1]:1".parse().unwrap()),
            ..(*request.facts).clone()
        });
        let options = ClientOptions { forwarded: true, ..options() };
        let text = received(&request, Body::Empty, "\r\n\r\n", options).await;
        let expected = "Forwarded: for=\"[2001:db8::1]\";host=\"shop.example\";proto=http\r\n";
        assert!(text.contains(expected), "{text}");
    });
}

#[test]
fn bodies_are_framed_by_us() {
    block_on_local(async {
        let post = request(Method::Post);
        let mut with_trailer = Headers::new();
        with_trailer.append("X-Sum", "abc");
        with_trailer.append(Known::Host, "evil");
        let cases: [(Body, &str, &str); 5] = [
            (Body::Empty, "Content-Length: 0\r\n", "\r\n\r\n"),
            (Body::from("hello"), "Content-Length: 5\r\n", "\r\n\r\nhello"),
            (
                Body::stream(Pieces(vec![data("hel"), data("lo")], Some(5))),
                "Content-Length: 5\r\n",
                "\r\n\r\nhello",
            ),
            (
                Body::stream(Pieces(vec![data("hello"), data("")], None)),
                "Transfer-Encoding: chunked\r\n",
                "\r\n\r\n5\r\nhello\r\n0\r\n\r\n",
            ),
            (
                Body::stream(Pieces(vec![data("hello"), Frame::Trailers(with_trailer)], None)),
                "Transfer-Encoding: chunked\r\n",
                "\r\n\r\n5\r\nhello\r\n0\r\nX-Sum: abc\r\n\r\n",
            ),
        ];
        for (body, framing, end) in cases {
            let text = received(&post, body, end, options()).await;
            assert!(text.contains(framing), "{text}");
        }
    });
}

#[test]
fn a_large_body_arrives_whole() {
    block_on_local(async {
        let (server, pool) = alone();
        let size = 3 * 1024 * 1024;
        let serve = async {
            let stream = server.accept().await;
            let mut got = 0;
            let mut head = None;
            while got < size {
                let chunk = stream.receive().await.unwrap();
                if head.is_none() {
                    let end = chunk.windows(4).position(|end| end == b"\r\n\r\n").unwrap() + 4;
                    head = Some(String::from_utf8(chunk[..end].to_vec()).unwrap());
                    got += chunk.len() - end;
                } else {
                    got += chunk.len();
                }
            }
            send(&stream, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok").await;
            (stream, head.unwrap(), got)
        };
        let body = Body::Bytes(Bytes::from(vec![b'x'; size]));
        let request = request(Method::Put);
        let ((_stream, head, got), outcome) = tokio::join!(serve, ask(&pool, &request, body));
        assert!(head.contains(&format!("Content-Length: {size}\r\n")), "{head}");
        assert_eq!((got, outcome.unwrap().status), (size, 200));
        assert!(pool.take(Upgrade::None).is_some());
    });
}

#[test]
fn a_body_that_is_shorter_than_announced_is_never_completed() {
    block_on_local(async {
        let (server, pool) = alone();
        let serve = async {
            let stream = server.accept().await;
            read_to(&stream, "hello").await;
            read_end(&stream).await
        };
        let body = Body::stream(Pieces(vec![data("hello")], Some(7)));
        let request = request(Method::Post);
        let (rest, outcome) = tokio::join!(serve, ask(&pool, &request, body));
        assert_eq!(outcome.err().unwrap().status, 500);
        assert!(rest.is_empty());
        assert!(pool.take(Upgrade::None).is_none());
    });
}

/// A body that tells when it is asked for.
struct Shy {
    asked: Rc<std::cell::Cell<bool>>,
}

impl BodyStream for Shy {
    fn poll_frame(&mut self, _: &mut Context<'_>) -> Poll<Option<Result<Frame, Fault>>> {
        let first = !self.asked.replace(true);
        Poll::Ready(first.then(|| Ok(data("hello"))))
    }
    fn length(&self) -> Option<u64> {
        Some(5)
    }
}

#[test]
fn the_body_is_requested_only_when_the_head_is_out() {
    block_on_local(async {
        let (server, pool) = alone();
        let asked = Rc::new(std::cell::Cell::new(false));
        let lease = pool.connect(Duration::from_secs(20), None, Upgrade::None).await.unwrap();
        assert!(!asked.get());
        let options = Rc::new(options());
        let call = Call { options: &options, host: &HostField::Preserve, server: "server:1" };
        let serve = async {
            let stream = server.accept().await;
            assert!(read_to(&stream, "\r\n\r\nhello").await.starts_with("POST "));
            send(&stream, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n").await;
        };
        let request = request(Method::Post);
        let body = Body::stream(Shy { asked: asked.clone() });
        let ((), outcome) = tokio::join!(serve, send_request(lease, &request, body, &call));
        assert_eq!(outcome.unwrap().status, 200);
        assert!(asked.get());
    });
}
