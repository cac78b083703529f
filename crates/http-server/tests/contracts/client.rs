//! A client that says exactly what a test wants, and a server with one route on the same loop.

use std::future::poll_fn;
use std::net::SocketAddr;
use std::rc::Rc;
use std::task::Poll;
use std::time::Duration;

use bytes::Bytes;
use http_server::Service;
use message::{HandlerResult, Request};
use net::{Accepted, Bind, Outgoing, Peer, Stream};
use plugin::{Filter, Handler, MaybeFuture, Middleware, Stage};

use crate::served;

const TIMEOUT: Duration = Duration::from_secs(10);

/// Serves on this loop; it ends with the test.
pub(crate) fn serve(stages: Vec<Stage>, handler: impl Handler + 'static) -> SocketAddr {
    let socket = served::listen(SocketAddr::from(([127, 0, 0, 1], 0))).unwrap();
    let address = socket.0;
    net::task::spawn_local(served::serve_route(socket, stages, Rc::new(handler)));
    address
}

/// Serves this end of a connection.
pub(crate) fn serve_stream(stream: Stream, service: Rc<Service>) {
    let accepted = Accepted { stream, peer: Peer::Unix };
    let local = Rc::new(Bind::Unix("/nowhere".into()));
    net::task::spawn_local(served::serve_one(accepted, service, local));
}

pub(crate) fn filter(filter: impl Filter + 'static) -> Stage {
    Stage::Filter(Rc::new(filter))
}

pub(crate) fn surround(surround: impl Middleware + 'static) -> Stage {
    Stage::Middleware(Rc::new(surround))
}

/// A handler of a function.
pub(crate) struct Answers<F>(pub(crate) F);

impl<F: Fn(&mut Request) -> HandlerResult> Handler for Answers<F> {
    fn name(&self) -> &'static str {
        "answers"
    }

    fn handle<'a>(&'a self, request: &'a mut Request) -> MaybeFuture<'a, HandlerResult> {
        MaybeFuture::of(async move { (self.0)(request) })
    }
}

/// A connection to what is tested.
pub(crate) struct Client {
    stream: Stream,
    received: Vec<u8>,
}

impl Client {
    pub(crate) async fn connect(address: SocketAddr) -> Client {
        Client::of(Stream::connect_tcp(address).await.unwrap())
    }

    /// A client of this end.
    pub(crate) fn of(stream: Stream) -> Client {
        Client { stream, received: Vec::new() }
    }

    pub(crate) async fn send(&self, bytes: impl AsRef<[u8]>) {
        let mut outgoing = Outgoing::default();
        outgoing.push(Bytes::copy_from_slice(bytes.as_ref()));
        self.stream.send_all(&mut outgoing).await.unwrap();
    }

    pub(crate) async fn get(&self, path: &str) {
        self.send(format!("GET {path} HTTP/1.1\r\nHost: a\r\n\r\n")).await;
    }

    /// Takes everything up to and including `end`.
    pub(crate) async fn read_to(&mut self, end: &str) -> String {
        let end = end.as_bytes();
        loop {
            let found = self.received.windows(end.len()).position(|window| window == end);
            if let Some(at) = found {
                let rest = self.received.split_off(at + end.len());
                let taken = std::mem::replace(&mut self.received, rest);
                return String::from_utf8(taken).unwrap();
            }
            let received = net::timer::within(TIMEOUT, self.stream.receive()).await;
            let chunk = received.expect("something within ten seconds").unwrap();
            let so_far = String::from_utf8_lossy(&self.received);
            assert!(!chunk.is_empty(), "closed after {so_far:?}, without {end:?}");
            self.received.extend_from_slice(&chunk);
        }
    }

    /// A response head, without the blank line behind it.
    pub(crate) async fn head(&mut self) -> String {
        self.read_to("\r\n\r\n").await
    }

    /// Exactly so many bytes, as text.
    pub(crate) async fn read(&mut self, length: usize) -> String {
        while self.received.len() < length {
            let received = net::timer::within(TIMEOUT, self.stream.receive()).await;
            let chunk = received.expect("something within ten seconds").unwrap();
            assert!(!chunk.is_empty(), "closed after {} bytes", self.received.len());
            self.received.extend_from_slice(&chunk);
        }
        let rest = self.received.split_off(length);
        String::from_utf8(std::mem::replace(&mut self.received, rest)).unwrap()
    }

    /// Says that nothing more will be sent.
    pub(crate) fn finish(&self) {
        self.stream.finish();
    }

    /// Whether the server has neither sent anything nor closed once the event loop is idle.
    pub(crate) async fn is_open_and_silent(&self) -> bool {
        net::manual_time::idle().await;
        poll_fn(|cx| Poll::Ready(self.stream.poll_readable(cx).is_pending())).await
    }

    /// Whether the connection was not reset, once the event loop is idle.
    pub(crate) async fn has_not_failed(&self) -> bool {
        net::manual_time::idle().await;
        net::timer::within(Duration::ZERO, self.stream.failed()).await.is_none()
    }

    /// What comes until the connection ends, in whichever way.
    pub(crate) async fn rest(mut self) -> String {
        while let Ok(chunk) = net::timer::within(TIMEOUT, self.stream.receive()).await.unwrap() {
            if chunk.is_empty() {
                break;
            }
            self.received.extend_from_slice(&chunk);
        }
        String::from_utf8(self.received).unwrap()
    }
}
