//! What comes of a server's answers.

use net::worker::block_on_local;
use wire::Known;

use super::*;
use message::{Frame, Inform};

#[test]
fn every_framing_is_read_to_its_end() {
    block_on_local(async {
        for answer in [
            "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello",
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n",
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n\
             2\r\nhe\r\n3;x=y\r\nllo\r\n0\r\n\r\n",
            "HTTP/1.1 200 OK\r\n\r\nhello",
            "HTTP/1.0 200 OK\r\nConnection: close\r\n\r\nhello",
            "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 102 Processing\r\n\r\n\
             HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello",
        ] {
            let (outcome, body) = get_answered(answer).await;
            assert_eq!(outcome.unwrap().status, 200, "{answer}");
            assert_eq!(&body.unwrap()[..], b"hello", "{answer}");
        }
    });
}

#[test]
fn a_response_split_at_every_byte_is_the_same_response() {
    block_on_local(async {
        let answer = "HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n\
                      HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n\
                      2\r\nhe\r\n3\r\nllo\r\n0\r\n\r\n";
        for at in 1..answer.len() {
            let (server, pool) = alone();
            let serve = async {
                let stream = server.accept().await;
                read_head(&stream).await;
                send(&stream, &answer[..at]).await;
                tokio::task::yield_now().await;
                send(&stream, &answer[at..]).await;
                stream
            };
            let ask = async {
                let mut response = get(&pool).await.unwrap();
                response.body.collect(100).await.unwrap()
            };
            let (_stream, body) = tokio::join!(serve, ask);
            assert_eq!(&body[..], b"hello", "split at {at}");
            assert!(pool.take(Upgrade::None).is_some(), "split at {at}");
        }
    });
}

#[test]
fn a_body_that_came_with_its_head_frees_the_connection_at_once() {
    block_on_local(async {
        for (answer, length) in [
            ("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello", 5),
            ("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n", 5),
            ("HTTP/1.1 304 Not Modified\r\nContent-Length: 5\r\n\r\n", 0),
            ("HTTP/1.1 204 No Content\r\n\r\n", 0),
        ] {
            let (server, pool) = alone();
            let serve = server.answer(answer);
            let (_stream, outcome) = tokio::join!(serve, get(&pool));
            let response = outcome.unwrap();
            assert_eq!(response.body.length(), Some(length), "{answer}");
            assert!(!matches!(response.body, Body::Stream(_)), "{answer}");
            assert!(pool.take(Upgrade::None).is_some_and(|lease| lease.is_reused()), "{answer}");
        }
    });
}

#[test]
fn the_response_to_head_keeps_its_length_and_has_no_body() {
    block_on_local(async {
        let (server, pool) = alone();
        let serve = async {
            let stream = server.accept().await;
            assert!(read_head(&stream).await.starts_with("HEAD "));
            send(&stream, "HTTP/1.1 200 OK\r\nContent-Length: 500\r\n\r\n").await;
            stream
        };
        let head = request(Method::Head);
        let (_stream, outcome) = tokio::join!(serve, ask(&pool, &head, Body::Empty));
        let response = outcome.unwrap();
        assert_eq!(response.headers.get(Known::ContentLength), Some(&b"500"[..]));
        assert!(response.body.is_empty());
        assert!(pool.take(Upgrade::None).is_some());
    });
}

#[test]
fn hop_by_hop_fields_of_a_response_stay_behind() {
    block_on_local(async {
        let (outcome, _) = get_answered(
            "HTTP/1.1 200 OK\r\nConnection: close, X-Internal\r\nX-Internal: 1\r\n\
             Keep-Alive: timeout=5\r\nUpgrade: h2c\r\nX-Kept: 1\r\nContent-Length: 0\r\n\r\n",
        )
        .await;
        let names: Vec<_> = outcome
            .unwrap()
            .headers
            .iter()
            .map(|field| String::from_utf8_lossy(field.name).into_owned())
            .collect();
        assert_eq!(names, ["X-Kept", "Content-Length"]);
    });
}

#[test]
fn trailers_are_passed_on() {
    block_on_local(async {
        let (server, pool) = alone();
        let serve = async {
            let stream = server.accept().await;
            read_head(&stream).await;
            let answer = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n\
                          5\r\nhello\r\n0\r\nX-Sum: abc\r\nHost: evil\r\n\r\n";
            send(&stream, answer).await;
            stream
        };
        let ask = async {
            let mut body = get(&pool).await.unwrap().body;
            assert!(matches!(body.frame().await, Some(Ok(Frame::Data(data))) if data == "hello"));
            let Some(Ok(Frame::Trailers(trailers))) = body.frame().await else {
                panic!("trailers were sent")
            };
            assert!(body.frame().await.is_none());
            trailers
        };
        let (_stream, trailers) = tokio::join!(serve, ask);
        assert_eq!(trailers.get("x-sum"), Some(&b"abc"[..]));
        assert_eq!(trailers.len(), 1);
        assert!(pool.take(Upgrade::None).is_some());
    });
}

#[derive(Default)]
struct Hints(std::cell::RefCell<Vec<(u16, Vec<u8>)>>);

impl Inform for Hints {
    fn inform(&self, status: u16, headers: &Headers) {
        let link = headers.get(Known::Link).unwrap_or_default().to_vec();
        self.0.borrow_mut().push((status, link));
    }
}

#[test]
fn early_hints_are_passed_on_and_continue_is_not() {
    block_on_local(async {
        let (server, pool) = alone();
        let hints = Rc::new(Hints::default());
        let mut request = request(Method::Get);
        request.informer = Some(hints.clone());
        let serve = async {
            let stream = server.accept().await;
            read_head(&stream).await;
            let answer = "HTTP/1.1 100 Continue\r\n\r\n\
                          HTTP/1.1 103 Early Hints\r\nLink: </style.css>\r\n\r\n\
                          HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n";
            send(&stream, answer).await;
            stream
        };
        let (_stream, outcome) = tokio::join!(serve, ask(&pool, &request, Body::Empty));
        assert_eq!(outcome.unwrap().status, 200);
        assert_eq!(*hints.0.borrow(), [(103, b"</style.css>".to_vec())]);
    });
}

#[test]
fn a_streamed_body_is_read_no_faster_than_requested() {
    block_on_local(async {
        let (server, pool) = alone();
        let size = 8 * 1024 * 1024;
        let serve = async {
            let stream = server.accept().await;
            read_head(&stream).await;
            send(&stream, format!("HTTP/1.1 200 OK\r\nContent-Length: {size}\r\n\r\n")).await;
            send(&stream, vec![b'x'; size]).await;
            stream
        };
        let ask = async {
            let response = get(&pool).await.unwrap();
            assert_eq!(response.body.length(), Some(size as u64));
            let mut body = response.body;
            let mut got = 0;
            while let Some(frame) = body.frame().await {
                let Frame::Data(data) = frame.unwrap() else { panic!("only data was sent") };
                got += data.len();
                if got == size {
                    // The last piece is in our hands: the connection is free already.
                    assert!(pool.take(Upgrade::None).is_some());
                }
            }
            got
        };
        let (_stream, got) = tokio::join!(serve, ask);
        assert_eq!(got, size);
    });
}

#[test]
fn a_response_that_begins_early_does_not_stop_the_request() {
    let size = 4 * 1024 * 1024;
    for (head, end) in [
        ("HTTP/1.1 200 OK\r\nConnection: close\r\n\r\nreceiving ", "done"),
        ("HTTP/1.0 200 OK\r\nContent-Length: 14\r\n\r\nreceiving ", "done"),
        (
            "HTTP/1.1 422 Unprocessable Content\r\nTransfer-Encoding: chunked\r\n\r\n\
             a\r\nreceiving \r\n",
            "4\r\ndone\r\n0\r\n\r\n",
        ),
    ] {
        block_on_local(async {
            let (server, pool) = alone();
            let serve = async {
                let stream = server.accept().await;
                let mut taken = stream.receive().await.unwrap().len();
                send(&stream, head).await;
                while taken < size {
                    let chunk = stream.receive().await.unwrap();
                    assert!(!chunk.is_empty(), "{taken} bytes were sent");
                    taken += chunk.len();
                }
                send(&stream, end).await;
            };
            let put = request(Method::Put);
            let body = Body::Bytes(Bytes::from(vec![0; size]));
            let ask = async { ask(&pool, &put, body).await.unwrap().body.collect(100).await };
            let ((), body) = tokio::join!(serve, ask);
            assert_eq!(&body.unwrap()[..], b"receiving done", "{head}");
        });
    }
}

#[test]
fn a_refusal_in_pieces_arrives_from_a_server_that_reads_no_more() {
    let size = 64 * 1024 * 1024;
    for closes in [false, true] {
        block_on_local(async {
            let (server, pool) = alone();
            let serve = async {
                let stream = server.accept().await;
                stream.receive().await.unwrap();
                let head = "HTTP/1.1 413 Content Too Large\r\nConnection: close\r\n\
                            Content-Length: 8\r\n\r\n";
                send(&stream, head).await;
                tokio::task::yield_now().await;
                send(&stream, "too much").await;
                if !closes {
                    read_end(&stream).await;
                }
            };
            let put = request(Method::Put);
            let body = Body::Bytes(Bytes::from(vec![0; size]));
            let ask = async { ask(&pool, &put, body).await.unwrap().body.collect(100).await };
            let ((), body) = tokio::join!(serve, ask);
            assert_eq!(&body.unwrap()[..], b"too much", "closes: {closes}");
        });
    }
}

#[test]
fn a_whole_early_response_stops_the_request() {
    block_on_local(async {
        let (server, pool) = alone();
        let serve = async {
            let stream = server.accept().await;
            stream.receive().await.unwrap();
            let answer = "HTTP/1.1 413 Content Too Large\r\nContent-Length: 2\r\n\r\nno";
            send(&stream, answer).await;
            // Until the client gives up.
            read_end(&stream).await.len()
        };
        let size = 64 * 1024 * 1024;
        let put = request(Method::Put);
        let ask = async {
            let mut response =
                ask(&pool, &put, Body::Bytes(Bytes::from(vec![0; size]))).await.unwrap();
            assert_eq!(response.status, 413);
            response.body.collect(10).await.unwrap()
        };
        let (taken, body) = tokio::join!(serve, ask);
        assert_eq!(&body[..], b"no");
        assert!(taken < size, "the whole body was sent");
        assert!(pool.take(Upgrade::None).is_none());
    });
}
