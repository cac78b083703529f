//! The cost of a hit compared with a fixed response of the same body: `cargo bench -p cache
//! --profile quick`.
//!
//! A client and a server on one worker, one connection, one request after the other. Takes `hit` or
//! `respond` and a number of requests. Prints nothing, for `valgrind --tool=callgrind` counts: the
//! difference of two runs is the cost of the additional requests, including the client's part.

#![allow(clippy::unwrap_used)] // a program for the terminal, without input

use std::net::SocketAddr;
use std::rc::Rc;

use bytes::Bytes;
use message::{Body, HandlerResult, Headers, Request, Response};
use net::{Outgoing, Stream};
use plugin::{Handler, MaybeFuture, Stage, WorkerContext};
use settings::{Node, Reader, Report, node};

#[path = "../../http-server/examples/served/mod.rs"]
mod served;

const CONTENT_BYTES: usize = 1024;

fn main() {
    let mut words = std::env::args().skip(1).filter(|word| !word.starts_with("--"));
    let way = words.next().unwrap_or_else(|| "hit".to_owned());
    let requests: u32 = words.next().map_or(1000, |count| count.parse().unwrap());
    net::worker::block_on_local(run(&way, requests));
}

fn worker() -> WorkerContext {
    WorkerContext::default()
}

async fn run(way: &str, requests: u32) {
    let socket = served::listen(SocketAddr::from(([127, 0, 0, 1], 0))).unwrap();
    let address = socket.0;
    let worker = worker();
    let (stages, handler) = match way {
        "respond" => (Vec::new(), Rc::new(Fixed::new()) as Rc<dyn Handler>),
        "hit" => (vec![cache(&worker)], Rc::new(Origin) as Rc<dyn Handler>),
        other => panic!("hit or respond, not {other}"),
    };
    net::task::spawn_local(served::serve_route(socket, stages, handler));
    let stream = Stream::connect_tcp(address).await.unwrap();
    let request = "GET /static/app.js HTTP/1.1\r\nHost: shop.example:8080\r\nUser-Agent: cost\r\n\
         Accept: */*\r\n\r\n";
    for _ in 0..requests {
        let mut outgoing = Outgoing::default();
        outgoing.push(Bytes::from_static(request.as_bytes()));
        stream.send_all(&mut outgoing).await.unwrap();
        // A head and its content leave in one piece.
        let answer = stream.receive().await.unwrap();
        assert!(answer.len() > CONTENT_BYTES, "{answer:?}");
    }
}

/// A fixed response, as the handler `respond` makes it.
struct Fixed {
    headers: Headers,
    body: Rc<[u8]>,
}

impl Fixed {
    fn new() -> Fixed {
        let mut headers = Headers::new();
        headers.append("Content-Type", "text/plain; charset=utf-8");
        Fixed { headers, body: Rc::from([b'x'; CONTENT_BYTES]) }
    }
}

impl Handler for Fixed {
    fn name(&self) -> &'static str {
        "fixed"
    }

    fn is_instant(&self) -> bool {
        true
    }

    fn handle<'a>(&'a self, _: &'a mut Request) -> MaybeFuture<'a, HandlerResult> {
        let mut response = Response::new(200);
        response.headers = self.headers.clone();
        response.body = Body::Kept(self.body.clone());
        Ok(response).into()
    }
}

fn cache(worker: &WorkerContext) -> Stage {
    plan(&node!("pages"), cache::FILTER.read).build_on("one".into(), worker)
}

fn plan<T>(settings: &Node, read: fn(&Node, &mut Reader<'_>) -> Option<T>) -> T {
    read(settings, &mut Reader::new(&mut Report::new())).unwrap()
}

struct Origin;

impl Handler for Origin {
    fn name(&self) -> &'static str {
        "origin"
    }

    fn handle<'a>(&'a self, _: &'a mut Request) -> MaybeFuture<'a, HandlerResult> {
        let mut response = Response::new(200);
        let mut headers = Headers::new();
        for (name, value) in [
            ("Content-Type", "text/javascript"),
            ("Cache-Control", "public, max-age=31536000"),
            ("ETag", "\"6553f100-400\""),
            ("Last-Modified", "Tue, 14 Nov 2023 22:13:20 GMT"),
        ] {
            headers.append(name, value);
        }
        response.headers = headers;
        response.body = Bytes::from(vec![b'x'; CONTENT_BYTES]).into();
        Ok(response).into()
    }
}
