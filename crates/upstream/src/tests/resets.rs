//! Connections that their server resets while they are established: `connect` itself fails.

use std::future::poll_fn;
use std::pin::pin;
use std::task::Poll;

use net::worker::block_on_local;
use telemetry::{Value, families};

use super::*;
use crate::StreamUpstream;

/// Runs a future that connects to the listener. The kernel establishes the connection, and resets
/// it when the listener is closed, before the future has looked at it.
async fn reset_while_connecting<T>(listening: Listening, connecting: impl Future<Output = T>) -> T {
    let mut connecting = pin!(connecting);
    let is_ready = poll_fn(|cx| Poll::Ready(connecting.as_mut().poll(cx).is_ready())).await;
    assert!(!is_ready, "the gateway waits for the connection");
    drop(listening);
    connecting.await
}

fn errors(gateway: &Gateway) -> Option<Value> {
    gateway.counted(&families::UPSTREAM_CONNECTS, &["test", "error"])
}

/// A gateway that connects to the listener first, then to the server.
fn before(listening: &Listening, server: &Server, more: Node) -> Gateway {
    Gateway::new(with(&[&listening.local().to_string(), &server.text()], more))
}

#[test]
fn a_request_goes_to_another_server_whatever_its_method() {
    block_on_local(async {
        let (resetting, server) = (listening(), Server::start(Does::Respond(200)));
        let more = node!({ "balance": "round_robin", "ejection": { "failures": 1 } });
        let gateway = before(&resetting, &server, more);
        let mut post = request(Method::Post, Body::from("the end"));
        let response = reset_while_connecting(resetting, gateway.send(&mut post)).await.unwrap();
        assert_eq!((response.status, post.notes.upstream_attempts), (200, 2));
        assert_eq!(errors(&gateway), Some(Value::Counter(1)));
        assert_eq!(gateway.states(), ["ejected", "healthy"]);
    });
}

#[test]
fn a_stream_goes_to_another_server() {
    block_on_local(async {
        let (resetting, server) = (listening(), Server::start(Does::Respond(200)));
        let gateway = before(&resetting, &server, node!({ "balance": "round_robin" }));
        let upstream = StreamUpstream::of("test", &gateway.context).unwrap();
        let mut client = request(Method::Get, Body::Empty);
        let lease = reset_while_connecting(resetting, upstream.connect(&mut client)).await;
        assert!(lease.is_ok());
        assert_eq!(client.notes.upstream.as_deref(), Some(server.text().as_str()));
        assert_eq!(client.notes.upstream_attempts, 2);
        assert_eq!(errors(&gateway), Some(Value::Counter(1)));
    });
}

#[test]
fn without_another_server_the_fault_names_the_reset() {
    block_on_local(async {
        let resetting = listening();
        let gateway = Gateway::new(with(&[&resetting.local().to_string()], node!({})));
        let mut post = request(Method::Post, Body::from("the end"));
        let fault = reset_while_connecting(resetting, gateway.send(&mut post)).await.err().unwrap();
        assert_eq!((fault.status, fault.slug()), (502, "connection_terminated"));
        assert!(fault.detail.starts_with("cannot connect: Connection reset"), "{fault:?}");
    });
}
