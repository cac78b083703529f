//! Requests that are retried, and those that must not be.

use std::task::{Context, Poll};

use message::{BodyStream, Frame};
use net::worker::block_on_local;
use telemetry::{Value, families};

use super::*;

/// A body in several chunks.
struct Pieces(Vec<&'static [u8]>);

impl BodyStream for Pieces {
    fn poll_frame(&mut self, _: &mut Context<'_>) -> Poll<Option<Result<Frame, Fault>>> {
        let next = (!self.0.is_empty()).then(|| self.0.remove(0));
        Poll::Ready(next.map(|piece| Ok(Frame::Data(Bytes::from_static(piece)))))
    }
    fn length(&self) -> Option<u64> {
        None
    }
}

/// A gateway whose servers are picked in their order.
fn in_order(servers: &[&str]) -> Gateway {
    Gateway::new(with(servers, node!({ "balance": "round_robin" })))
}

#[test]
fn a_refused_connection_is_retried_with_another_server_whatever_the_method() {
    block_on_local(async {
        let server = Server::start(Does::Respond(200));
        let gateway = in_order(&[NOWHERE, &server.text()]);
        let mut post = request(Method::Post, Body::from("the end"));
        let response = gateway.send(&mut post).await.unwrap();
        assert_eq!((response.status, post.notes.upstream_attempts), (200, 2));
        assert_eq!(post.notes.upstream.as_deref(), Some(server.text().as_str()));
        let retries = gateway.counted(&families::UPSTREAM_RETRIES, &["test"]);
        assert_eq!(retries, Some(Value::Counter(1)));
    });
}

#[test]
fn a_sent_request_is_tried_again_only_if_it_is_idempotent() {
    block_on_local(async {
        let bad = Server::start(Does::Close);
        let good = Server::start(Does::Respond(200));
        let gateway = in_order(&[&bad.text(), &good.text()]);
        let mut post = request(Method::Post, Body::from("the end"));
        let fault = gateway.send(&mut post).await.err().unwrap();
        assert_eq!((fault.status, fault.slug()), (502, "connection_terminated"));
        assert_eq!(fault.next_hop.as_deref(), Some("test"));
        assert_eq!((bad.requests.get(), good.requests.get()), (1, 0));
        let gateway = in_order(&[&bad.text(), &good.text()]);
        let mut put = request(Method::Put, Body::from("the end"));
        assert_eq!(gateway.send(&mut put).await.unwrap().status, 200);
        assert_eq!((bad.requests.get(), good.requests.get()), (2, 1));
    });
}

#[test]
fn a_small_stream_is_sent_again_whole_and_a_large_one_is_not() {
    block_on_local(async {
        static LARGE: [u8; 80 * 1024] = [b'x'; 80 * 1024];
        let bad = Server::start(Does::Close);
        let good = Server::start(Does::Respond(200));
        let gateway = in_order(&[&bad.text(), &good.text()]);
        let body = Body::stream(Pieces(vec![b"one ", b"two"]));
        let mut put = request(Method::Put, body);
        assert_eq!(gateway.send(&mut put).await.unwrap().status, 200);
        assert_eq!(good.requests.get(), 1);
        let gateway = in_order(&[&bad.text(), &good.text()]);
        let body = Body::stream(Pieces(vec![&LARGE, b"end"]));
        let mut put = request(Method::Put, body);
        assert_eq!(gateway.send(&mut put).await.err().unwrap().status, 502);
        assert_eq!(good.requests.get(), 1);
    });
}

#[test]
fn attempts_count_the_first_try_and_each_goes_to_another_server() {
    block_on_local(async {
        let servers: Vec<Server> = (0..4).map(|_| Server::start(Does::Close)).collect();
        let texts: Vec<String> = servers.iter().map(Server::text).collect();
        let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
        let more = node!({ "retries": { "attempts": 3 } });
        let gateway = Gateway::new(with(&texts, more));
        let mut get = request(Method::Get, Body::Empty);
        assert_eq!(gateway.send(&mut get).await.err().unwrap().status, 502);
        assert_eq!(get.notes.upstream_attempts, 3);
        let asked: usize = servers.iter().map(|server| server.requests.get()).sum();
        assert_eq!(asked, 3);
        assert!(servers.iter().all(|server| server.requests.get() <= 1));
    });
}

#[test]
fn retries_stop_when_the_budget_is_spent() {
    // A second later another retry is allowed.
    net::manual_time::block_on(async {
        let (one, other) = (Server::start(Does::Close), Server::start(Does::Close));
        let more = node!({ "retries": { "budget": "0%" }, "ejection": { "failures": 0 } });
        let gateway = Gateway::new(with(&[&one.text(), &other.text()], more));
        for _ in 0..10 {
            assert_eq!(gateway.status().await, 502);
        }
        // Ten requests, and the three retries that are always allowed.
        assert_eq!(one.requests.get() + other.requests.get(), 13);
        let denied = gateway.counted(&families::UPSTREAM_RETRIES_DENIED, &["test"]);
        assert_eq!(denied, Some(Value::Counter(7)));
    });
}

#[test]
fn statuses_are_tried_again_only_where_the_settings_say_so() {
    block_on_local(async {
        let bad = Server::start(Does::Respond(503));
        let good = Server::start(Does::Respond(200));
        let gateway = in_order(&[&bad.text(), &good.text()]);
        assert_eq!(gateway.status().await, 503);
        let more = node!({ "balance": "round_robin", "retries": { "statuses": [503] } });
        let gateway = Gateway::new(with(&[&bad.text(), &good.text()], more));
        assert_eq!(gateway.status().await, 200);
        let mut post = request(Method::Post, Body::from("the end"));
        gateway.send(&mut post).await.unwrap();
        assert_eq!(post.notes.upstream_attempts, 1);
    });
}

#[test]
fn a_connection_that_died_in_the_pool_is_not_a_failure_of_its_server() {
    block_on_local(async {
        let server = Server::start(Does::Respond(200));
        let more = node!({ "retries": { "attempts": 1 }, "ejection": { "failures": 1 } });
        let gateway = Gateway::new(with(&[&server.text()], more));
        assert_eq!(gateway.status().await, 200);
        // It closes the pooled connection instead of responding, then accepts a new one.
        server.does.set(Does::Close);
        let restore = async {
            while server.requests.get() < 2 {
                tokio::task::yield_now().await;
            }
            server.does.set(Does::Respond(200));
        };
        let (status, ()) = tokio::join!(gateway.status(), restore);
        assert_eq!((status, server.connections.get()), (200, 2));
        assert_eq!(gateway.states(), ["healthy"]);
    });
}

#[test]
fn a_slow_server_is_504_and_a_client_that_leaves_ends_its_request() {
    block_on_local(async {
        let server = Server::start(Does::Hang);
        let more = node!({ "timeouts": { "response": "30ms" } });
        let gateway = Gateway::new(with(&[&server.text()], more));
        let fault = gateway.get().await.err().unwrap();
        assert_eq!((fault.status, fault.slug()), (504, "http_response_timeout"));
        let gateway = Gateway::new(with(&[&server.text()], node!({})));
        let before = server.requests.get();
        tokio::select! {
            _ = gateway.get() => panic!("the server does not respond"),
            () = async {
                while server.requests.get() == before {
                    tokio::task::yield_now().await;
                }
            } => {}
        }
        let status = gateway.upstreams.status(&gateway.context.shared, 1);
        assert_eq!(status[0].servers[0].connections.active, 0);
        assert_eq!(status[0].servers[0].failures, 0);
    });
}

#[test]
fn a_server_that_ends_a_call_at_its_deadline_has_not_failed() {
    block_on_local(async {
        let server = Server::start(Does::Close);
        let more = node!({ "ejection": { "failures": 1 } });
        let gateway = Gateway::new(with(&[&server.text()], more));
        let mut call = request(Method::Post, Body::from("the end"));
        call.headers.append("grpc-timeout", "0n");
        message::GrpcCall::begin(&mut call, Some(wire::grpc::Form::Grpc)).unwrap();
        let fault = gateway.send(&mut call).await.err().unwrap();
        assert_eq!((fault.slug(), server.requests.get()), ("deadline", 1));
        assert_eq!(gateway.states(), ["healthy"]);
    });
}
