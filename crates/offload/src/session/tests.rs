//! Queues, wake-ups, decisions and ends, of both sides on one thread or two.

use std::future::poll_fn;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use bytes::Bytes;
use net::worker::block_on_local;
use wire::Method;

use super::{
    Accepted, Closed, Decision, HandedSession, LocalSession, Message, OpenSession, Received,
    Session, leave,
};
use crate::{Limits, ReceiverDropped, wait};
use message::{Headers, Request, Target};

const SMALL: Limits = Limits {
    chunks: 4,
    bytes: 1000,
    answer: Duration::from_secs(30),
    pause: Duration::from_secs(30),
};

fn parted(limits: Limits) -> (HandedSession, LocalSession) {
    let target = Target::new(Bytes::from_static(b"/talk")).unwrap();
    leave(&Request::made_up(Method::Get, target, Headers::new()), limits)
}

/// An accepted session.
fn open() -> (Session, OpenSession) {
    let (HandedSession { mut session, .. }, local) = parted(SMALL);
    session.accept(Accepted::default()).unwrap();
    match block_on_local(local) {
        Decision::Accepted(_, open) => (session, open),
        Decision::Denied(_) => panic!("it was accepted"),
    }
}

fn text(text: &'static str) -> Message {
    Message::Text(Bytes::from_static(text.as_bytes()))
}

fn thousand() -> Message {
    Message::Binary(Bytes::from(vec![0; 1000]))
}

/// Counts how often it is woken.
#[derive(Default)]
struct CountingWaker(AtomicUsize);

impl Wake for CountingWaker {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

impl CountingWaker {
    fn new() -> (Arc<CountingWaker>, Waker) {
        let counter = Arc::new(CountingWaker::default());
        (counter.clone(), Waker::from(counter))
    }

    fn wakes(&self) -> usize {
        self.0.load(Ordering::SeqCst)
    }
}

fn now<T>(poll: impl FnOnce(&mut Context<'_>) -> Poll<T>) -> Option<T> {
    match poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(value) => Some(value),
        Poll::Pending => None,
    }
}

#[test]
fn an_accepted_session_talks_both_ways() {
    fn is_send<T: Send>(_: &T) {}
    let (mut handed, local) = parted(SMALL);
    is_send(&handed);
    assert_eq!(handed.head.target.path(), "/talk");
    assert!(handed.session.is_undecided());
    let other = std::thread::spawn(move || {
        let session = &mut handed.session;
        let mut headers = Headers::new();
        headers.append("x-own", "1");
        session.accept(Accepted { subprotocol: Some("chat".into()), headers }).unwrap();
        loop {
            match wait(poll_fn(|cx| session.poll_receive(cx))) {
                Received::Message(message) => session.send(message).unwrap(),
                Received::Closed(closed) => return closed,
            }
        }
    });
    block_on_local(async {
        let Decision::Accepted(accepted, mut open) = local.await else { panic!("accepted") };
        assert_eq!(accepted.subprotocol.as_deref(), Some("chat"));
        assert!(accepted.headers.contains("x-own"));
        for message in [text("one"), thousand()] {
            open.give(message.clone());
            assert_eq!(poll_fn(|cx| open.poll_said(cx)).await, Received::Message(message));
        }
        open.end(Closed::new(1001, "going"));
    });
    assert_eq!(other.join().unwrap(), Closed::new(1001, "going"));
}

#[test]
fn what_is_not_accepted_is_denied() {
    let denied = |decide: fn(Session)| {
        let (handed, local) = parted(SMALL);
        decide(handed.session);
        match block_on_local(local) {
            Decision::Denied(outcome) => outcome,
            Decision::Accepted(..) => panic!("it was denied"),
        }
    };
    let fault = denied(drop).err().unwrap();
    assert_eq!((fault.status, fault.slug()), (403, "websocket_refused"));
    let answers = |mut session: Session| {
        let answering = session.deny().unwrap();
        assert!(session.deny().is_none());
        assert_eq!(session.accept(Accepted::default()), Err(ReceiverDropped));
        answering.respond(418, Headers::new(), "teapot");
    };
    assert_eq!(denied(answers).unwrap().status, 418);
    // The right to respond is dropped: that is a failure and not a 403.
    assert_eq!(denied(|mut session| drop(session.deny())).err().unwrap().status, 500);
}

#[test]
fn a_client_that_leaves_before_the_decision_is_reported() {
    let (mut handed, local) = parted(SMALL);
    let session = &mut handed.session;
    assert_eq!(now(|cx| session.poll_receive(cx)), None);
    drop(local);
    let end = now(|cx| session.poll_receive(cx));
    assert_eq!(end, Some(Received::Closed(Closed::new(1006, ""))));
    assert_eq!(session.accept(Accepted::default()), Err(ReceiverDropped));
}

#[test]
fn a_decision_has_a_deadline() {
    let (handed, local) = parted(Limits { answer: Duration::from_millis(8), ..SMALL });
    let Decision::Denied(outcome) = block_on_local(local) else { panic!("it was not accepted") };
    assert_eq!(outcome.err().unwrap().status, 504);
    assert!(handed.session.is_gone());
}

#[test]
fn both_ways_are_bounded_in_messages_and_bytes() {
    for (message, fits) in [(text("x"), 4), (thousand(), 1)] {
        let (mut session, mut open) = open();
        let (mut inward, mut outward) = (0, 0);
        while now(|cx| open.poll_room(cx)).is_some() {
            open.give(message.clone());
            inward += 1;
        }
        while now(|cx| session.poll_ready(cx)).is_some() {
            session.send(message.clone()).unwrap();
            outward += 1;
        }
        assert_eq!((inward, outward), (fits, fits));
    }
}

#[test]
fn a_waiter_for_space_is_woken_once_when_half_is_free() {
    let (mut session, mut open) = open();
    for _ in 0..4 {
        open.give(text("in"));
        session.send(text("out")).unwrap();
    }
    let (worker, waker) = CountingWaker::new();
    assert!(open.poll_room(&Context::from_waker(&waker)).is_pending());
    let (writer, waker) = CountingWaker::new();
    assert!(session.poll_ready(&Context::from_waker(&waker)).is_pending());
    for expected in [0, 1, 1] {
        assert!(now(|cx| session.poll_receive(cx)).is_some());
        assert!(now(|cx| open.poll_said(cx)).is_some());
        assert_eq!((worker.wakes(), writer.wakes()), (expected, expected));
    }
}

#[test]
fn many_messages_wake_a_reader_once() {
    let (mut session, mut open) = open();
    let (reader, waker) = CountingWaker::new();
    assert!(session.poll_receive(&Context::from_waker(&waker)).is_pending());
    let (worker, waker) = CountingWaker::new();
    assert!(open.poll_said(&Context::from_waker(&waker)).is_pending());
    for _ in 0..3 {
        open.give(text("in"));
        session.send(text("out")).unwrap();
    }
    assert_eq!((reader.wakes(), worker.wakes()), (1, 1));
}

#[test]
fn a_goodbye_goes_behind_what_was_sent_and_ends_the_session() {
    let (mut session, mut open) = open();
    open.give(text("unread"));
    session.send(text("last")).unwrap();
    session.close(Closed::new(3000, "enough")).unwrap();
    assert_eq!(session.send(text("more")), Err(ReceiverDropped));
    assert_eq!(session.close(Closed::new(1000, "")), Err(ReceiverDropped));
    assert_eq!(now(|cx| session.poll_ready(cx)), Some(Err(ReceiverDropped)));
    let goodbye = Received::Closed(Closed::new(3000, "enough"));
    assert_eq!(now(|cx| session.poll_receive(cx)), Some(goodbye.clone()));
    assert_eq!(now(|cx| session.poll_receive(cx)), Some(goodbye.clone()));
    assert_eq!(now(|cx| open.poll_said(cx)), Some(Received::Message(text("last"))));
    assert_eq!(now(|cx| open.poll_said(cx)), Some(goodbye));
    assert_eq!(now(|cx| open.poll_said(cx)), None);
}

#[test]
fn what_has_come_is_received_before_the_end() {
    let (mut session, mut open) = open();
    open.give(text("last"));
    let (writer, waker) = CountingWaker::new();
    while session.poll_ready(&Context::from_waker(&waker)).is_ready() {
        session.send(text("x")).unwrap();
    }
    drop(open);
    assert_eq!(writer.wakes(), 1);
    assert!(session.is_gone());
    assert_eq!(session.send(text("y")), Err(ReceiverDropped));
    assert_eq!(now(|cx| session.poll_receive(cx)), Some(Received::Message(text("last"))));
    let end = Received::Closed(Closed::new(1006, ""));
    assert_eq!(now(|cx| session.poll_receive(cx)), Some(end));
}

#[test]
fn a_session_that_is_dropped_is_closed_with_1011() {
    let (session, mut open) = open();
    for _ in 0..4 {
        open.give(text("unread"));
    }
    let (worker, waker) = CountingWaker::new();
    assert!(open.poll_room(&Context::from_waker(&waker)).is_pending());
    drop(session);
    assert_eq!(worker.wakes(), 1);
    assert!(now(|cx| open.poll_room(cx)).is_some(), "what comes is read and dropped");
    let goodbye = Received::Closed(Closed::new(1011, ""));
    assert_eq!(now(|cx| open.poll_said(cx)), Some(goodbye));
}
