//! Tests both ends together: a gateway on this thread, processes on threads with loops of their
//! own, and an application of blocking code.

mod broken;
mod long;
mod process;
mod sessions;

use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use message::{Body, Fault, Headers, Inform, Request, Response, Target};
use net::worker::block_on_local;
use offload::{Arrival, Limits, Local, leave};
use telemetry::Telemetry;
use wire::Method;

use super::{BrokenCounters, Remote};
use crate::backend::{AppBackend, OfferError};
use crate::live_workers::{LiveWorker, LiveWorkers};
use crate::mux::STREAMS_MAX;
use process::Process;

const LIMITS: Limits = Limits {
    chunks: 16,
    bytes: 256 * 1024,
    answer: Duration::from_secs(60),
    pause: Duration::from_secs(60),
};

fn request(path: &str, body: Body) -> Request {
    let target = Target::new(Bytes::copy_from_slice(path.as_bytes())).unwrap();
    let mut request = Request::made_up(Method::Post, target, Headers::new());
    request.headers.append("host", "example.com");
    request.body = body;
    request
}

fn slots(processes: &[&Process]) -> Arc<LiveWorkers> {
    let slots = LiveWorkers::of(&plugin::Shared::default(), "app");
    slots.set(processes.iter().map(|process| process.slot()).collect());
    slots
}

fn remote(slots: Arc<LiveWorkers>) -> Rc<Remote> {
    // Long enough for a busy machine.
    let queue_timeout = Duration::from_secs(60);
    Rc::new(Remote::new(slots, BrokenCounters::new(&Telemetry::new(), "app"), queue_timeout))
}

fn offer(remote: &Rc<Remote>, mut request: Request) -> Result<Local, OfferError> {
    let (handed, local) = leave(&mut request, LIMITS);
    remote.offer(Arrival::Exchange(Box::new(handed))).map(|()| local)
}

async fn ask(remote: &Rc<Remote>, path: &str, body: impl Into<Body>) -> Result<Response, Fault> {
    offer(remote, request(path, body.into())).unwrap().await
}

async fn text(response: Result<Response, Fault>) -> String {
    let bytes = response.unwrap().body.collect(64 << 20).await.unwrap();
    String::from_utf8(bytes.to_vec()).unwrap()
}

#[test]
fn requests_and_responses_pass() {
    let process = Process::start();
    block_on_local(async {
        let remote = remote(slots(&[&process]));
        let answered = ask(&remote, "/echo", "hello").await.unwrap();
        assert_eq!(answered.reason.as_deref(), Some(&b"Fine"[..]));
        assert_eq!(text(Ok(answered)).await, "hello");
        assert_eq!(text(ask(&remote, "/echo", Body::Empty).await).await, "");
        let answered = ask(&remote, "/stream", "hello").await.unwrap();
        assert_eq!((answered.status, answered.body.length()), (200, None));
        assert_eq!(answered.headers.get("x-host"), Some(&b"example.com"[..]));
        assert_eq!(text(Ok(answered)).await, "hello");
        // The response does not wait for the body, nor the body for the response.
        let answered = ask(&remote, "/ignore", Body::from("y".repeat(1 << 20))).await;
        assert_eq!(answered.unwrap().status, 202);
    });
}

#[test]
fn a_fault_is_passed_on_unchanged() {
    let process = Process::start();
    block_on_local(async {
        let remote = remote(slots(&[&process]));
        let fault = ask(&remote, "/fail", "").await.err().unwrap();
        assert_eq!((fault.status, fault.slug(), &*fault.detail), (503, "app_full", "on purpose"));
        assert_eq!(fault.retry_after_s, Some(3));
        let fault = ask(&remote, "/drop", "").await.err().unwrap();
        assert_eq!((fault.status, fault.slug()), (500, "handover_dropped"));
        let mut answered = ask(&remote, "/break", "").await.unwrap();
        let fault = answered.body.collect(100).await.unwrap_err();
        assert_eq!((fault.status, fault.slug()), (500, "handover_dropped"));
        // The connection still works.
        assert_eq!(text(ask(&remote, "/echo", "still").await).await, "still");
    });
}

#[test]
fn interim_responses_and_trailers_pass() {
    struct Told(std::cell::RefCell<Vec<(u16, usize)>>);
    impl Inform for Told {
        fn inform(&self, status: u16, headers: &Headers) {
            self.0.borrow_mut().push((status, headers.len()));
        }
    }
    let process = Process::start();
    block_on_local(async {
        let remote = remote(slots(&[&process]));
        let told = std::rc::Rc::new(Told(Default::default()));
        let mut early = request("/early", Body::Empty);
        early.informer = Some(told.clone());
        assert_eq!(offer(&remote, early).unwrap().await.unwrap().status, 204);
        assert_eq!(*told.0.borrow(), [(103, 1)]);
        let mut answered = ask(&remote, "/trailers", "x").await.unwrap();
        let mut trailers = None;
        while let Some(frame) = answered.body.frame().await {
            if let message::Frame::Trailers(fields) = frame.unwrap() {
                trailers = Some(fields);
            }
        }
        assert_eq!(trailers.unwrap().get("x-sum"), Some(&b"1"[..]));
    });
}

#[test]
fn a_client_gets_100_only_when_the_application_reads() {
    use std::cell::Cell;
    use std::rc::Rc;
    use std::task::{Context, Poll};

    struct Asked(Rc<Cell<bool>>);
    impl message::BodyStream for Asked {
        fn poll_frame(
            &mut self,
            _: &mut Context<'_>,
        ) -> Poll<Option<Result<message::Frame, Fault>>> {
            let first = !self.0.replace(true);
            let data = || Ok(message::Frame::Data(Bytes::from_static(b"body")));
            Poll::Ready(first.then(data))
        }
        fn length(&self) -> Option<u64> {
            Some(4)
        }
    }
    let process = Process::start();
    block_on_local(async {
        let remote = remote(slots(&[&process]));
        for (path, asks) in [("/ignore", false), ("/echo", true)] {
            let asked = Rc::new(Cell::new(false));
            let mut expecting = request(path, Body::stream(Asked(asked.clone())));
            expecting.headers.append("expect", "100-continue");
            let answered = offer(&remote, expecting).unwrap().await.unwrap();
            assert_eq!((answered.status, asked.get()), (if asks { 200 } else { 202 }, asks));
        }
    });
}

#[test]
fn two_hundred_at_a_time_are_not_mixed_up() {
    const MANY: usize = 200;
    let process = Process::start();
    block_on_local(async {
        let remote = remote(slots(&[&process]));
        // The responses arrive together, in reverse order.
        let asked: Vec<_> = (0..MANY)
            .map(|number| {
                let body = Body::from(format!("{number} {}", "x".repeat(number * 100)));
                offer(&remote, request("/buffer/200", body)).unwrap()
            })
            .collect();
        for (number, local) in asked.into_iter().enumerate() {
            let expected = format!("{number} {}", "x".repeat(number * 100));
            assert_eq!(text(local.await).await, expected);
        }
    });
}

#[test]
fn queued_exchanges_time_out() {
    block_on_local(async {
        let path = std::path::PathBuf::from("/nonexistent/app.sock");
        let live = slots(&[]);
        live.set(vec![LiveWorker { slot: 0, generation: 1, path }]);
        let broken = BrokenCounters::new(&Telemetry::new(), "app");
        let remote = Rc::new(Remote::new(live, broken, Duration::from_millis(20)));
        for _ in 0..2 {
            let fault = ask(&remote, "/echo", "").await.err().unwrap();
            assert_eq!((fault.status, fault.slug()), (503, "app_absent"));
        }
    });
}

#[test]
fn exchanges_above_the_stream_limit_are_queued() {
    let process = Process::start();
    block_on_local(async {
        let remote = remote(slots(&[&process]));
        // Connects first: the queue before that is bounded.
        assert_eq!(text(ask(&remote, "/echo", "a").await).await, "a");
        let asked: Vec<_> = (0..STREAMS_MAX + 500)
            .map(|_| offer(&remote, request("/buffer/1", Body::Empty)).unwrap())
            .collect();
        for local in asked {
            assert_eq!(local.await.unwrap().status, 200);
        }
    });
}

#[test]
fn the_least_busy_process_is_chosen() {
    let (one, other) = (Process::start(), Process::start());
    block_on_local(async {
        let remote = remote(slots(&[&one, &other]));
        // Both are connected once both have answered.
        while one.seen() == 0 || other.seen() == 0 {
            assert_eq!(text(ask(&remote, "/echo", "a").await).await, "a");
        }
        let (before, held) = (one.seen() + other.seen(), one.seen());
        let waits: Vec<_> =
            (0..6).map(|_| offer(&remote, request("/buffer/3", Body::Empty)).unwrap()).collect();
        for local in waits {
            assert_eq!(local.await.unwrap().status, 200);
        }
        assert_eq!((one.seen() + other.seen(), one.seen()), (before + 6, held + 3));
    });
}

#[test]
fn no_process_is_503_and_a_starting_one_is_awaited() {
    let process = Process::start();
    block_on_local(async {
        let empty = slots(&[]);
        let remote = remote(empty.clone());
        assert!(matches!(offer(&remote, request("/echo", "".into())), Err(OfferError::Absent)));
        // It is not connected yet.
        empty.set(vec![process.slot()]);
        while remote.pool.processes.borrow().is_empty() {
            net::task::spawn_local(async {}).await.unwrap();
        }
        assert_eq!(text(ask(&remote, "/echo", "waited").await).await, "waited");
    });
}
