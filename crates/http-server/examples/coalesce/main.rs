//! A server that asks for each resource once, however many clients want it at the same time
//! (extension point 6).
//!
//! `cargo run -p http-server --example coalesce -- 127.0.0.1:8080`, then several
//! `curl -N localhost:8080/` at once, on two workers: all of them see the same run.

mod coalesce;
#[path = "../served/mod.rs"]
mod served;

use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use coalesce::{Coalesce, Flights};
use message::{Body, BodyStream, Fault, Frame, HandlerResult, Request, Response};
use net::Timer;
use plugin::{Handler, MaybeFuture, Stage};

/// Longest body that is shared.
const SHARED_BYTES_MAX: u64 = 1024 * 1024;
const LINES: u64 = 10;
const LINE: &[u8; 16] = b"run 000, line 0\n";

/// Takes ten seconds for ten lines.
struct Slow(Arc<AtomicUsize>);

struct Lines {
    run: usize,
    at: u64,
    timer: Timer,
}

impl Handler for Slow {
    fn name(&self) -> &'static str {
        "slow"
    }

    fn handle<'a>(&'a self, _: &'a mut Request) -> MaybeFuture<'a, HandlerResult> {
        let run = self.0.fetch_add(1, Ordering::Relaxed) % 1000;
        let lines = Lines { run, at: 0, timer: Timer::new() };
        lines.timer.set(Duration::ZERO);
        Ok(Response::text(200, Body::stream(lines))).into()
    }
}

impl BodyStream for Lines {
    fn poll_frame(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Frame, Fault>>> {
        if self.at == LINES {
            return Poll::Ready(None);
        }
        ready!(self.timer.poll(cx));
        self.timer.set(Duration::from_secs(1));
        let line = format!("run {:03}, line {}\n", self.run, self.at);
        self.at += 1;
        Poll::Ready(Some(Ok(Frame::Data(Bytes::from(line)))))
    }

    fn length(&self) -> Option<u64> {
        Some((LINES - self.at) * LINE.len() as u64)
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let address = std::env::args().nth(1).unwrap_or_else(|| "127.0.0.1:0".to_owned());
    let first: SocketAddr = address.parse()?;
    let (flights, runs) = (Arc::new(Flights::default()), Arc::new(AtomicUsize::new(0)));
    let mut workers = Vec::new();
    for worker in 0..2u16 {
        let port = if first.port() == 0 { 0 } else { first.port() + worker };
        let socket = served::listen(SocketAddr::new(first.ip(), port))?;
        eprintln!("worker {worker} listens on {}", socket.0);
        let (flights, runs) = (flights.clone(), runs.clone());
        let work = move || async move {
            let stage = Stage::Middleware(Rc::new(Coalesce::new(flights, SHARED_BYTES_MAX)));
            if let Err(error) = served::serve_route(socket, vec![stage], Rc::new(Slow(runs))).await
            {
                eprintln!("worker {worker}: {error}");
            }
        };
        workers.push(net::worker::spawn(format!("worker-{worker}"), None, work)?);
    }
    for worker in workers {
        worker.join().map_err(|_| "a worker panicked")?;
    }
    Ok(())
}
