//! Both sides of a hand-over, with the other one on a thread of its own unless its order matters.

use std::cell::Cell;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{self, Receiver, SyncSender};
use std::task::{Context, Poll};
use std::thread::JoinHandle;
use std::time::Duration;

use bytes::Bytes;
use net::worker::block_on_local;
use wire::Method;

use crate::{Limits, OffloadHandler, OffloadedRequest, ReceiverDropped, leave, wait};
use message::{
    Body, BodyStream, Fault, Frame, HandlerResult, Headers, Inform, Request, Response, Target,
    WINDOW_BYTES,
};
use net::FileRange;
use plugin::Handler;
use sources::{Never, Source};

mod sources;

const SMALL: Limits = Limits {
    chunks: 4,
    bytes: 4096,
    answer: Duration::from_secs(10),
    pause: Duration::from_secs(10),
};

fn request(body: Body) -> Request {
    let target = Target::new(Bytes::from_static(b"/a%20b/42?q=1")).unwrap();
    let mut request = Request::made_up(Method::Post, target, Headers::new());
    request.headers.append("x-own", "1");
    request.body = body;
    request
}

/// Starts a thread that serves each request with `serve`, until its queue is closed.
fn thread(
    serve: impl Fn(OffloadedRequest) + Send + 'static,
) -> (SyncSender<OffloadedRequest>, JoinHandle<()>) {
    let (queue, exchanges) = mpsc::sync_channel(8);
    let serving = move || exchanges.iter().for_each(serve);
    (queue, std::thread::spawn(serving))
}

/// Returns the result of a request that `serve` handles on another thread.
fn answered(
    mut request: Request,
    serve: impl Fn(OffloadedRequest) + Send + 'static,
) -> HandlerResult {
    let (queue, thread) = thread(serve);
    let outcome = block_on_local(async {
        let (handed, local) = leave(&mut request, SMALL);
        queue.send(handed).unwrap();
        drop(queue);
        let mut response = local.await?;
        response.body = Body::from(response.body.collect(1 << 30).await?);
        Ok(response)
    });
    // The panic of a thread is intended, and visible by what it dropped.
    let _ = thread.join();
    outcome
}

async fn text(response: &mut Response) -> String {
    String::from_utf8_lossy(&response.body.collect(1 << 20).await.unwrap()).into_owned()
}

#[test]
fn the_head_leaves_by_value() {
    fn is_send<T: Send>(_: &T) {}
    let mut request = request(Body::from("first"));
    let (handed, local) = leave(&mut request, SMALL);
    is_send(&handed);
    let OffloadedRequest { head, mut body, answer } = handed;
    assert_eq!((head.method, head.target.path()), (Method::Post, "/a b/42"));
    assert_eq!(head.target.raw(), b"/a%20b/42?q=1");
    assert_eq!(head.headers.get("x-own"), Some(&b"1"[..]));
    assert_eq!(head.body_length, Some(5));
    // The first piece is there without asking the worker.
    assert!(matches!(wait(body.frame()), Some(Ok(Frame::Data(data))) if data == "first"));
    assert!(wait(body.frame()).is_none());
    assert!(request.headers.contains("x-own"), "the log still needs the head");
    answer.respond(200, Headers::new(), "done");
    let mut response = block_on_local(local).unwrap();
    assert_eq!(response.body.length(), Some(4));
    assert_eq!(block_on_local(text(&mut response)), "done");
}

#[test]
fn a_long_body_is_requested_only_as_fast_as_it_is_read() {
    const PIECES: usize = 500;
    let (given, most) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let body = Body::stream(Source::new(PIECES, &given));
    let (counted, peak) = (given.clone(), most.clone());
    let outcome = answered(request(body), move |handed| {
        let (mut body, mut taken) = (handed.body, 0);
        while let Some(frame) = wait(body.frame()) {
            let Ok(Frame::Data(_)) = frame else { panic!("data was expected") };
            peak.fetch_max(counted.load(Ordering::SeqCst) - taken, Ordering::SeqCst);
            taken += 1;
        }
        handed.answer.respond(200, Headers::new(), taken.to_string());
    });
    assert_eq!(block_on_local(text(&mut outcome.unwrap())), PIECES.to_string());
    // One chunk more than the queue holds may have been taken.
    let most = most.load(Ordering::SeqCst);
    assert!((2..=SMALL.chunks + 1).contains(&most), "{most} were in flight");
}

#[test]
fn a_long_response_is_made_only_as_fast_as_it_is_taken() {
    const PIECES: usize = 500;
    let made = Arc::new(AtomicUsize::new(0));
    let counted = made.clone();
    let (queue, thread) = thread(move |handed| {
        let mut sending = handed.answer.stream(200, Headers::new(), None);
        for _ in 0..PIECES {
            // The length of a piece alone would fill the queue of bytes before that of pieces.
            wait(sending.send(vec![b'x'; 3000])).unwrap();
            counted.fetch_add(1, Ordering::SeqCst);
        }
        let mut trailers = Headers::new();
        trailers.append("x-sum", "7");
        sending.finish(Some(trailers));
    });
    block_on_local(async {
        let mut request = request(Body::Empty);
        let (handed, local) = leave(&mut request, SMALL);
        queue.send(handed).unwrap();
        let mut body = local.await.unwrap().body;
        let (mut taken, mut bytes) = (0, 0);
        loop {
            match body.frame().await.unwrap().unwrap() {
                Frame::Data(data) => bytes += data.len(),
                Frame::Trailers(fields) => {
                    assert_eq!(fields.get("x-sum"), Some(&b"7"[..]));
                    break;
                }
                Frame::File(_) => panic!("no file was sent"),
            }
            taken += 1;
            let ahead = made.load(Ordering::SeqCst).saturating_sub(taken);
            assert!(ahead <= 2, "{ahead} pieces of 3000 bytes wait where 4096 bytes may");
        }
        assert_eq!((taken, bytes), (PIECES, PIECES * 3000));
        assert!(body.frame().await.is_none());
    });
    drop(queue);
    thread.join().unwrap();
}

#[test]
fn both_bodies_stream_at_the_same_time_and_trailers_pass() {
    let given = Arc::default();
    let mut source = Source::new(100, &given);
    let mut trailers = Headers::new();
    trailers.append("x-end", "yes");
    source.trailers = Some(trailers);
    let (queue, thread) = thread(|handed| {
        let mut body = handed.body;
        let mut sending = handed.answer.stream(200, Headers::new(), None);
        loop {
            match wait(body.frame()).unwrap().unwrap() {
                Frame::Trailers(fields) => return sending.finish(Some(fields)),
                frame => {
                    wait(std::future::poll_fn(|cx| sending.poll_ready(cx))).unwrap();
                    sending.push(frame);
                }
            }
        }
    });
    block_on_local(async {
        let mut request = request(Body::stream(source));
        let (handed, local) = leave(&mut request, SMALL);
        queue.send(handed).unwrap();
        let mut body = local.await.unwrap().body;
        let mut bytes = 0;
        loop {
            match body.frame().await.unwrap().unwrap() {
                Frame::Data(data) => bytes += data.len(),
                Frame::Trailers(fields) => break assert!(fields.contains("x-end")),
                Frame::File(_) => panic!("no file was sent"),
            }
        }
        assert_eq!(bytes, 100_000);
    });
    drop(queue);
    thread.join().unwrap();
}

#[test]
fn the_other_side_learns_that_the_client_has_gone() {
    let (told, tells) = mpsc::channel();
    let (ready, is_ready) = mpsc::channel();
    let (queue, thread) = thread(move |handed| {
        let OffloadedRequest { mut body, mut answer, .. } = handed;
        ready.send(()).unwrap();
        // In sequence: the first wait ends because the client disconnects.
        told.send(wait(body.frame()).unwrap().unwrap_err().slug()).unwrap();
        wait(body.unwanted());
        wait(answer.unwanted());
        assert!(answer.is_unwanted());
        let mut sending = answer.stream(200, Headers::new(), None);
        assert_eq!(wait(sending.send("x")), Err(ReceiverDropped));
        told.send("sending").unwrap();
    });
    block_on_local(async {
        let mut request = request(Body::stream(Never));
        let (handed, local) = leave(&mut request, SMALL);
        queue.send(handed).unwrap();
        is_ready.recv().unwrap();
        drop(local);
    });
    let within = Duration::from_secs(10);
    assert_eq!(tells.recv_timeout(within).unwrap(), "client_gone");
    assert_eq!(tells.recv_timeout(within).unwrap(), "sending");
    drop(queue);
    thread.join().unwrap();
}

#[test]
fn what_the_other_side_drops_is_its_fault() {
    let dropped = |serve: fn(OffloadedRequest)| {
        let fault = answered(request(Body::Empty), serve).err().unwrap();
        (fault.status, fault.slug())
    };
    assert_eq!(dropped(drop), (500, "handover_dropped"));
    let panics = |handed: OffloadedRequest| {
        let _held = handed;
        panic!("on purpose")
    };
    assert_eq!(dropped(panics), (500, "handover_dropped"));
    let breaks_off = |handed: OffloadedRequest| {
        let mut sending = handed.answer.stream(200, Headers::new(), None);
        wait(sending.send("part")).unwrap();
    };
    assert_eq!(dropped(breaks_off), (500, "handover_dropped"));
    let fails = |handed: OffloadedRequest| handed.answer.fail(Fault::not_found());
    assert_eq!(dropped(fails), (404, "not_found"));
}

#[test]
fn a_body_that_fails_is_reported_and_is_the_cause() {
    struct TooLong;
    impl BodyStream for TooLong {
        fn poll_frame(&mut self, _: &mut Context<'_>) -> Poll<Option<Result<Frame, Fault>>> {
            Poll::Ready(Some(Err(Fault::body_too_large())))
        }
        fn length(&self) -> Option<u64> {
            None
        }
    }
    let gives_up = |mut handed: OffloadedRequest| {
        let fault = wait(handed.body.frame()).unwrap().unwrap_err();
        assert_eq!(fault.status, 413);
    };
    let outcome = answered(request(Body::stream(TooLong)), gives_up);
    assert_eq!(outcome.err().unwrap().status, 413);
    // The other side may ignore that the response is not needed.
    let does_not_care = |handed: OffloadedRequest| handed.answer.respond(202, Headers::new(), "");
    assert_eq!(answered(request(Body::stream(TooLong)), does_not_care).unwrap().status, 202);
}

#[test]
fn a_response_and_its_pauses_are_bounded() {
    let limits =
        Limits { answer: Duration::from_millis(20), pause: Duration::from_millis(20), ..SMALL };
    block_on_local(async {
        let mut request = request(Body::Empty);
        let (handed, local) = leave(&mut request, limits);
        let fault = local.await.err().unwrap();
        assert_eq!((fault.status, fault.slug()), (504, "handover_timeout"));
        assert!(handed.answer.is_unwanted());

        let (handed, local) = leave(&mut request, limits);
        let mut sending = handed.answer.stream(200, Headers::new(), Some(8));
        sending.push(Frame::Data(Bytes::from_static(b"half")));
        let mut body = local.await.unwrap().body;
        assert_eq!(body.length(), Some(8));
        assert!(matches!(body.frame().await, Some(Ok(Frame::Data(_)))));
        assert_eq!(body.frame().await.unwrap().unwrap_err().slug(), "handover_timeout");
    });
}

#[test]
fn a_slow_client_is_not_the_other_sides_fault() {
    net::manual_time::block_on(async {
        let limits = Limits { answer: Duration::from_secs(8), ..SMALL };
        let mut request = request(Body::stream(Never));
        let (_handed, local) = leave(&mut request, limits);
        let minute = Duration::from_secs(60);
        let (outcome, ()) = tokio::join!(
            net::timer::within(minute, local),
            net::manual_time::advance(minute + Duration::from_secs(1))
        );
        assert!(outcome.is_none());
    });
}

#[test]
fn a_client_that_waits_for_100_gets_it_when_the_other_side_polls() {
    struct Asked(Rc<Cell<bool>>);
    impl BodyStream for Asked {
        fn poll_frame(&mut self, _: &mut Context<'_>) -> Poll<Option<Result<Frame, Fault>>> {
            let first = !self.0.replace(true);
            Poll::Ready(first.then(|| Ok(Frame::Data(Bytes::from_static(b"body")))))
        }
        fn length(&self) -> Option<u64> {
            Some(4)
        }
    }
    block_on_local(async {
        let asked = Rc::new(Cell::new(false));
        let mut request = request(Body::stream(Asked(asked.clone())));
        request.headers.append("expect", "100-Continue");
        let (handed, local) = leave(&mut request, SMALL);
        let local = net::task::spawn_local(local);
        tokio::task::yield_now().await;
        assert!(!asked.get());
        let OffloadedRequest { mut body, answer, .. } = handed;
        assert!(matches!(body.frame().await, Some(Ok(Frame::Data(data))) if data == "body"));
        assert!(asked.get());
        answer.respond(200, Headers::new(), "");
        assert_eq!(local.await.unwrap().unwrap().status, 200);
    });
}

#[test]
fn a_body_without_a_reader_is_dropped() {
    struct HeldBody {
        _count: Rc<()>,
    }
    impl BodyStream for HeldBody {
        fn poll_frame(&mut self, _: &mut Context<'_>) -> Poll<Option<Result<Frame, Fault>>> {
            Poll::Pending
        }
        fn length(&self) -> Option<u64> {
            None
        }
    }
    block_on_local(async {
        let held = Rc::new(());
        let mut request = request(Body::stream(HeldBody { _count: held.clone() }));
        let (handed, local) = leave(&mut request, SMALL);
        let OffloadedRequest { body, answer, .. } = handed;
        let sending = answer.stream(200, Headers::new(), None);
        let mut answered = local.await.unwrap().body;
        let reading = net::task::spawn_local(async move { answered.frame().await.is_none() });
        tokio::task::yield_now().await;
        assert_eq!(Rc::strong_count(&held), 2);
        drop(body);
        tokio::task::yield_now().await;
        assert_eq!(Rc::strong_count(&held), 1, "the client's body can be read away now");
        sending.finish(None);
        assert!(reading.await.unwrap());
    });
}

/// The queue of a thread that is busy: one place, and its reader takes nothing.
fn busy() -> (OffloadHandler, Receiver<OffloadedRequest>) {
    let (queue, exchanges) = mpsc::sync_channel(1);
    (OffloadHandler::new(queue, SMALL), exchanges)
}

#[test]
fn a_full_queue_is_503_and_a_closed_one_500() {
    block_on_local(async {
        let (handler, exchanges) = busy();
        let (mut first, mut second) = (request(Body::Empty), request(Body::from("second")));
        let waiting = handler.handle(&mut first);
        let fault = handler.handle(&mut second).resolve().await.err().unwrap();
        assert_eq!((fault.status, fault.slug()), (503, "handover_full"));
        assert_eq!(fault.retry_after_s, Some(1));
        exchanges.recv().unwrap().answer.respond(200, Headers::new(), "");
        assert_eq!(waiting.resolve().await.unwrap().status, 200);
        drop(exchanges);
        let fault = handler.handle(&mut second).resolve().await.err().unwrap();
        assert_eq!((fault.status, fault.slug()), (500, "handover_closed"));
    });
}

#[test]
fn another_worker_can_continue_the_exchange() {
    let (queue, exchanges) = mpsc::sync_channel::<OffloadedRequest>(1);
    let work = move || async move {
        let OffloadedRequest { head, body, answer } = exchanges.recv().unwrap();
        let mut request = Request::made_up(head.method, head.target, head.headers);
        request.body = Body::stream(body);
        let body = request.collect_body(1 << 20).await.unwrap();
        answer.respond(200, Headers::new(), body);
    };
    let other = net::worker::spawn("other".to_owned(), None, work).unwrap();
    let given = Arc::default();
    let mut request = request(Body::stream(Source::new(50, &given)));
    block_on_local(async {
        let (handed, local) = leave(&mut request, SMALL);
        queue.send(handed).unwrap();
        assert_eq!(local.await.unwrap().body.length(), Some(50_000));
    });
    other.join().unwrap();
}

#[test]
fn a_file_is_sent_in_parts_unless_it_is_passed_on() {
    const LENGTH: u64 = 2 * WINDOW_BYTES + 5;
    let file = net::anonymous_file(&std::env::temp_dir()).unwrap();
    file.set_len(LENGTH + 1).unwrap();
    let file = Arc::new(file);
    for passes in [false, true] {
        let parts = block_on_local(async {
            let (handed, local) = leave(&mut request(Body::Empty), SMALL);
            let local = if passes { local.with_whole_files() } else { local };
            let mut sending = handed.answer.stream(200, Headers::new(), Some(LENGTH));
            let file = file.clone();
            sending.push(Frame::File(FileRange { file, offset: 1, length: LENGTH }));
            sending.finish(None);
            let mut body = local.await.unwrap().body;
            let mut parts = Vec::new();
            while let Some(frame) = body.frame().await {
                let Frame::File(range) = frame.unwrap() else { panic!("not a file") };
                parts.push((range.offset, range.length));
            }
            assert_eq!(body.length(), Some(0));
            parts
        });
        let expected = match passes {
            true => vec![(1, LENGTH)],
            false => {
                vec![(1, WINDOW_BYTES), (1 + WINDOW_BYTES, WINDOW_BYTES), (1 + 2 * WINDOW_BYTES, 5)]
            }
        };
        assert_eq!(parts, expected);
    }
}

#[test]
fn interim_responses_of_an_exchange_are_bounded() {
    struct Count(Cell<usize>);
    impl Inform for Count {
        fn inform(&self, status: u16, _: &Headers) {
            assert_eq!(status, 103);
            self.0.set(self.0.get() + 1);
        }
    }
    let count = Rc::new(Count(Cell::new(0)));
    block_on_local(async {
        let mut request = request(Body::Empty);
        request.informer = Some(count.clone());
        let (handed, mut local) = leave(&mut request, SMALL);
        for _ in 0..10 {
            handed.answer.inform(103, Headers::new());
            handed.answer.inform(103, Headers::new());
            // Those so far are passed on.
            let mut cx = Context::from_waker(std::task::Waker::noop());
            assert!(std::pin::Pin::new(&mut local).poll(&mut cx).is_pending());
        }
        handed.answer.respond(204, Headers::new(), "");
        assert_eq!(local.await.unwrap().status, 204);
    });
    assert_eq!(count.0.get(), 16);
}
