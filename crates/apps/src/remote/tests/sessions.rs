//! WebSocket sessions over frames.

use std::future::poll_fn;
use std::task::Poll;

use offload::session::{
    Accepted, Closed, Decision, HandedSession, LocalSession, Message, OpenSession, Received, leave,
};
use offload::wait;
use tokio::sync::mpsc::UnboundedSender;

use super::*;

/// The application's side.
pub(super) fn ws_session(handed: HandedSession, says: &UnboundedSender<&'static str>) {
    let HandedSession { head, mut session } = handed;
    let mut headers = Headers::new();
    headers.append("x-host", head.headers.get("host").unwrap());
    let accepted = Accepted { subprotocol: Some("chat".into()), headers: headers.clone() };
    match head.target.path() {
        "/refuse" => return,
        "/deny" => {
            let answering = session.deny().unwrap();
            return answering.respond(401, headers, "unknown user");
        }
        "/deny-long" => {
            let mut sending = session.deny().unwrap().stream(403, headers, None);
            for _ in 0..1000 {
                wait(sending.send(vec![b'n'; 1000])).unwrap();
            }
            return sending.finish(None);
        }
        "/undecided" => {
            says.send("undecided").unwrap();
            let ended = wait(poll_fn(|cx| session.poll_receive(cx)));
            assert_eq!(ended, Received::Closed(Closed::new(Closed::ABNORMAL, "")));
            return says.send("gone").unwrap();
        }
        "/goodbye" => {
            session.accept(accepted).unwrap();
            session.send(Message::Text("one".into())).unwrap();
            return session.close(Closed::new(4000, "enough")).unwrap();
        }
        _ => session.accept(accepted).unwrap(),
    }
    loop {
        match wait(poll_fn(|cx| session.poll_receive(cx))) {
            Received::Message(message) => {
                if wait(poll_fn(|cx| session.poll_ready(cx))).is_err() {
                    continue;
                }
                session.send(message).unwrap();
            }
            Received::Closed(closed) if closed == Closed::new(1000, "done") => {
                return says.send("closed").unwrap();
            }
            Received::Closed(closed) if closed.code == Closed::RESTART => {
                return says.send("restarted").unwrap();
            }
            Received::Closed(closed) => {
                assert_eq!(closed.code, Closed::ABNORMAL);
                return says.send("broken").unwrap();
            }
        }
    }
}

fn begin(remote: &Rc<Remote>, path: &str) -> LocalSession {
    let (handed, local) = leave(&request(path, Body::Empty), LIMITS);
    assert!(remote.offer(Arrival::Session(Box::new(handed))).is_ok());
    local
}

async fn open(remote: &Rc<Remote>, path: &str) -> OpenSession {
    match begin(remote, path).await {
        Decision::Accepted(accepted, open) => {
            assert_eq!(accepted.subprotocol.as_deref(), Some("chat"));
            assert_eq!(accepted.headers.get("x-host"), Some(&b"example.com"[..]));
            open
        }
        Decision::Denied(_) => panic!("it was denied"),
    }
}

#[test]
fn messages_come_back_and_a_close_arrives() {
    let process = Process::start();
    block_on_local(async {
        let remote = remote(slots(&[&process]));
        let mut session = open(&remote, "/echo").await;
        let long = Message::Binary(vec![7; 3_000_000].into());
        let messages = [Message::Text("hällo".into()), long, Message::Text("".into())];
        for message in &messages {
            poll_fn(|cx| session.poll_room(cx)).await;
            session.give(message.clone());
            let back = poll_fn(|cx| session.poll_said(cx)).await;
            assert!(back == Received::Message(message.clone()));
        }
        session.end(Closed::new(1000, "done"));
        assert_eq!(process.said().await, "closed");
    });
}

#[test]
fn a_flood_passes_both_ways_with_bounded_memory() {
    const MANY: usize = 3_000;
    let process = Process::start();
    block_on_local(async {
        let remote = remote(slots(&[&process]));
        let mut session = open(&remote, "/echo").await;
        let message = Message::Text("m".repeat(2_000).into());
        let (mut given, mut taken, mut most) = (0, 0, 0);
        poll_fn(|cx| {
            loop {
                let said = session.poll_said(cx);
                if said.is_ready() {
                    taken += 1;
                    if taken == MANY {
                        return Poll::Ready(());
                    }
                } else if given < MANY && session.poll_room(cx).is_ready() {
                    session.give(message.clone());
                    given += 1;
                    most = most.max(given - taken);
                } else {
                    return Poll::Pending;
                }
            }
        })
        .await;
        // Four queues of 256 KiB, two windows, and the socket buffers.
        assert!(most < 1_500, "{most} messages were in flight");
    });
}

#[test]
fn a_denied_session_gets_its_response_and_a_dropped_one_rejected() {
    let process = Process::start();
    block_on_local(async {
        let remote = remote(slots(&[&process]));
        for (path, status, length) in [("/deny", 401, 12), ("/deny-long", 403, 1_000_000)] {
            let Decision::Denied(outcome) = begin(&remote, path).await else { panic!("accepted") };
            let mut answered = outcome.unwrap();
            let body = answered.body.collect(2_000_000).await.unwrap();
            assert_eq!((answered.status, body.len()), (status, length));
        }
        let Decision::Denied(outcome) = begin(&remote, "/refuse").await else { panic!("accepted") };
        let fault = outcome.err().unwrap();
        assert_eq!((fault.status, fault.slug()), (403, "websocket_refused"));
    });
}

#[test]
fn a_close_of_the_application_follows_its_messages() {
    let process = Process::start();
    block_on_local(async {
        let remote = remote(slots(&[&process]));
        let mut session = open(&remote, "/goodbye").await;
        let first = poll_fn(|cx| session.poll_said(cx)).await;
        assert_eq!(first, Received::Message(Message::Text("one".into())));
        let last = poll_fn(|cx| session.poll_said(cx)).await;
        assert_eq!(last, Received::Closed(Closed::new(4000, "enough")));
    });
}

#[test]
fn a_draining_process_ends_its_sessions() {
    let process = Process::start();
    block_on_local(async {
        let remote = remote(slots(&[&process]));
        let mut session = open(&remote, "/echo").await;
        session.give(Message::Text("first".into()));
        let back = poll_fn(|cx| session.poll_said(cx)).await;
        assert_eq!(back, Received::Message(Message::Text("first".into())));
        process.begin_to_drain();
        let end = poll_fn(|cx| session.poll_said(cx)).await;
        let Received::Closed(closed) = end else { panic!("{end:?}") };
        assert_eq!(closed.code, Closed::RESTART);
        assert_eq!(process.said().await, "restarted");
    });
}

#[test]
fn each_end_learns_that_the_other_is_gone() {
    let mut process = Process::start();
    block_on_local(async {
        let remote = remote(slots(&[&process]));
        let undecided = begin(&remote, "/undecided");
        let session = open(&remote, "/echo").await;
        assert_eq!(process.said().await, "undecided");
        drop(undecided);
        assert_eq!(process.said().await, "gone");
        drop(session);
        assert_eq!(process.said().await, "broken");
        let mut session = open(&remote, "/echo").await;
        let undecided = begin(&remote, "/undecided");
        assert_eq!(process.said().await, "undecided");
        process.die();
        let end = poll_fn(|cx| session.poll_said(cx)).await;
        assert_eq!(end, Received::Closed(Closed::new(Closed::INTERNAL, "")));
        let Decision::Denied(outcome) = undecided.await else { panic!("accepted") };
        assert_eq!(outcome.err().unwrap().status, 502);
    });
}
