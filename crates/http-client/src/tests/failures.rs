//! Servers that misbehave: the right fault, and a connection that is never used again.

use net::manual_time::advance;
use net::worker::block_on_local;

use super::*;
use message::Retry;

/// Fault of a GET whose answer is `answer` followed by the end of the connection: of the head, or
/// else of the body.
async fn fault_of(answer: impl AsRef<[u8]>) -> Fault {
    match get_answered(answer).await {
        (Err(fault), _) => fault,
        (Ok(_), body) => body.unwrap_err(),
    }
}

#[test]
fn truncated_and_malformed_responses_are_faults() {
    block_on_local(async {
        let endless = format!("HTTP/1.1 200 OK\r\n{}", "X-More: 1234567890\r\n".repeat(3000));
        let many = format!("HTTP/1.1 200 OK\r\n{}\r\n", "A: 1\r\n".repeat(200));
        let interim = "HTTP/1.1 103 Early Hints\r\n\r\n".repeat(17);
        for (answer, slug) in [
            ("", "connection_terminated"),
            ("HTTP/1.1 2", "http_response_incomplete"),
            ("HTTP/1.1 200 OK\r\nContent-Le", "http_response_incomplete"),
            ("HTTP/1.1 100 Continue\r\n\r\n", "http_response_incomplete"),
            ("HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhello", "http_response_incomplete"),
            (
                "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n",
                "http_response_incomplete",
            ),
            (
                "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhellooo",
                "http_response_transfer_coding",
            ),
            (
                "HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n",
                "http_response_transfer_coding",
            ),
            ("SSH-2.0-OpenSSH_9.2\r\n", "http_protocol_error"),
            ("HTTP/1.1 200 OK\r\nBad Name: 1\r\n\r\n", "http_protocol_error"),
            (
                "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\nhello",
                "http_protocol_error",
            ),
            ("HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\n\r\n", "http_protocol_error"),
            (&endless, "http_response_header_section_size"),
            (&many, "http_response_header_section_size"),
            (&interim, "http_protocol_error"),
        ] {
            let fault = fault_of(answer).await;
            let shown = &answer[..answer.len().min(60)];
            assert_eq!((fault.status, fault.slug()), (502, slug), "{shown:?}");
        }
    });
}

#[test]
fn nothing_is_retried_after_a_malformed_response_and_idempotent_requests_after_none() {
    block_on_local(async {
        assert_eq!(fault_of("junk\r\n\r\n").await.retry, Retry::Never);
        assert_eq!(fault_of("").await.retry, Retry::IfIdempotent);
    });
}

/// The server is done with its bytes before the client has sent any: they answer no request.
#[test]
#[allow(clippy::disallowed_types, reason = "accepts and writes while the worker does not run")]
fn a_server_that_speaks_first_is_not_sent_a_request() {
    block_on_local(async {
        for (bytes, slug) in [
            ("HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nevil", "http_protocol_error"),
            ("", "connection_terminated"),
        ] {
            let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
            let endpoint = Destination::Tcp(listener.local_addr().unwrap()).into();
            let pool = Pool::of(&context(), "test", &endpoint, PoolLimits::default());
            let mut ask = std::pin::pin!(get(&pool));
            // Connecting begins; the loop is not asked for its end before the bytes are there.
            let begun =
                std::future::poll_fn(|cx| std::task::Poll::Ready(ask.as_mut().poll(cx))).await;
            assert!(begun.is_pending());
            let (mut peer, _) = listener.accept().unwrap();
            std::io::Write::write_all(&mut peer, bytes.as_bytes()).unwrap();
            peer.shutdown(std::net::Shutdown::Write).unwrap();
            let fault = ask.await.err().expect("a fault");
            assert_eq!((fault.status, fault.slug(), fault.retry), (502, slug, Retry::Unsent));
            peer.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
            assert_eq!(std::io::Read::read(&mut peer, &mut [0]).unwrap_or(0), 0);
        }
    });
}

#[test]
fn a_refused_connection_says_so() {
    block_on_local(async {
        let (server, pool) = alone();
        drop(server);
        let fault = get(&pool).await.err().unwrap();
        assert_eq!((fault.status, fault.slug()), (502, "connection_refused"));
        assert_eq!(fault.retry, Retry::Unsent);
    });
}

#[test]
fn a_missing_unix_socket_is_a_refused_connection() {
    block_on_local(async {
        let path = std::env::temp_dir().join("tidegate-no-such.sock");
        let context = context();
        let pool =
            Pool::of(&context, "test", &Destination::Unix(path).into(), PoolLimits::default());
        let fault = get(&pool).await.err().unwrap();
        assert_eq!((fault.status, fault.slug()), (502, "connection_refused"));
    });
}

#[test]
fn bytes_behind_a_response_end_the_connection_but_not_the_response() {
    block_on_local(async {
        for answer in [
            "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok and more",
            "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok\
             HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nevil",
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\nX",
        ] {
            let (server, pool) = alone();
            let serve = server.answer_to_the_end(answer);
            let ask = async {
                let mut response = get(&pool).await.unwrap();
                response.body.collect(10).await.unwrap()
            };
            let (_, body) = tokio::join!(serve, ask);
            assert_eq!(&body[..], b"ok");
            assert!(pool.take(Upgrade::None).is_none(), "{answer}");
        }
    });
}

#[test]
fn a_reset_within_the_body_is_not_an_end() {
    block_on_local(async {
        let (server, pool) = alone();
        let serve = server.answer("HTTP/1.1 200 OK\r\n\r\nhello");
        let (stream, outcome) = tokio::join!(serve, get(&pool));
        let mut body = outcome.unwrap().body;
        assert!(matches!(body.frame().await, Some(Ok(_))));
        stream.abort();
        let fault = body.frame().await.unwrap().unwrap_err();
        assert_eq!((fault.status, fault.slug()), (502, "http_response_incomplete"));
        assert!(body.frame().await.is_none());
    });
}

#[test]
fn a_server_that_stalls_runs_into_the_time_out_of_that_step() {
    block_on_local(async {
        let short = Duration::from_millis(30);
        for (answer, options, slug) in [
            ("", ClientOptions { response: short, ..options() }, "http_response_timeout"),
            (
                "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200",
                ClientOptions { response: short, ..options() },
                "http_response_timeout",
            ),
            (
                "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhello",
                ClientOptions { read: short, ..options() },
                "connection_read_timeout",
            ),
        ] {
            let (server, pool) = alone();
            let serve = server.answer_to_the_end(answer);
            let ask = async {
                match ask_with(&pool, &request(Method::Get), Body::Empty, options).await {
                    Err(fault) => fault,
                    Ok(mut response) => response.body.collect(100).await.unwrap_err(),
                }
            };
            let (_, fault) = tokio::join!(serve, ask);
            assert_eq!((fault.status, fault.slug()), (504, slug));
            assert!(pool.take(Upgrade::None).is_none());
        }
    });
}

#[test]
fn a_body_that_pauses_for_less_than_the_read_time_out_is_complete() {
    net::manual_time::block_on(async {
        let (server, pool) = alone();
        let options = ClientOptions { read: Duration::from_secs(30), ..options() };
        let serve = server.answer("HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n");
        let get = request(Method::Get);
        let (stream, outcome) = tokio::join!(serve, ask_with(&pool, &get, Body::Empty, options));
        let mut body = outcome.unwrap().body;
        let received = net::task::spawn_local(async move { body.collect(100).await });
        for _ in 0..10 {
            advance(Duration::from_secs(29)).await;
            send(&stream, "x").await;
        }
        assert_eq!(&received.await.unwrap().unwrap()[..], b"xxxxxxxxxx");
    });
}

#[test]
fn a_server_that_does_not_read_runs_into_the_write_time_out() {
    block_on_local(async {
        let (server, pool) = alone();
        let options = ClientOptions { write: Duration::from_millis(30), ..options() };
        let put = request(Method::Put);
        let body = Body::Bytes(Bytes::from(vec![0; 64 * 1024 * 1024]));
        let (_stream, outcome) =
            tokio::join!(server.accept(), ask_with(&pool, &put, body, options));
        let fault = outcome.err().unwrap();
        assert_eq!((fault.status, fault.slug()), (504, "connection_write_timeout"));
    });
}

#[test]
fn dropping_the_response_closes_the_connection() {
    block_on_local(async {
        let (server, pool) = alone();
        let serve = server.answer_to_the_end("HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhello");
        let ask = async {
            let mut body = get(&pool).await.unwrap().body;
            body.frame().await.unwrap().unwrap();
            drop(body);
        };
        tokio::join!(serve, ask);
        assert!(pool.take(Upgrade::None).is_none());
        assert_eq!(pool.active(), 0);
    });
}

#[test]
fn dropping_the_exchange_closes_the_connection() {
    block_on_local(async {
        let (server, pool) = alone();
        let serve = async {
            let stream = server.accept().await;
            read_head(&stream).await;
            stream
        };
        // The request is dropped as soon as the server has it.
        let stream = tokio::select! {
            stream = serve => stream,
            _ = get(&pool) => panic!("the server does not respond"),
        };
        assert!(read_end(&stream).await.is_empty());
        assert_eq!(pool.active(), 0);
    });
}
