//! Answers that take no time leave together, and none is lost, mixed up or late because of it.
#![allow(clippy::disallowed_types, reason = "a client that reads while the worker runs a task")]

use std::cell::{Cell, RefCell};
use std::io::{self, Read, Write};
use std::os::unix::net::UnixStream;
use std::rc::Rc;

use message::{HandlerResult, Request, Response};
use net::Stream;
use net::worker::block_on_local;
use plugin::{Handler, MaybeFuture};
use tokio::task::yield_now;

use crate::client::{Client, serve, serve_stream};
use crate::served;

/// Answers with the path.
struct Instant {
    answered: Rc<Cell<usize>>,
}

impl Handler for Instant {
    fn name(&self) -> &'static str {
        "instant"
    }

    fn is_instant(&self) -> bool {
        true
    }

    fn handle<'a>(&'a self, request: &'a mut Request) -> MaybeFuture<'a, HandlerResult> {
        self.answered.set(self.answered.get() + 1);
        Ok(Response::text(200, request.target.path().to_owned())).into()
    }
}

/// More than may wait at a time, in one turn.
#[test]
fn each_of_many_clients_gets_its_own_response() {
    block_on_local(async {
        let answered = Rc::new(Cell::new(0));
        let address = serve(Vec::new(), Instant { answered: answered.clone() });
        let mut clients = Vec::new();
        for _ in 0..200 {
            clients.push(Client::connect(address).await);
        }
        for round in 1..=3 {
            for (number, client) in clients.iter().enumerate() {
                client.get(&format!("/{round}-{number}")).await;
            }
            for (number, client) in clients.iter_mut().enumerate() {
                let body = format!("/{round}-{number}");
                let length = format!("Content-Length: {}\r\n", body.len());
                assert!(client.head().await.contains(&length));
                assert_eq!(client.read(body.len()).await, body);
            }
            assert_eq!(answered.get(), round * 200);
        }
    });
}

/// Serves this end of a connection, the only one of its service.
fn serve_alone(stream: Stream, handler: Rc<dyn Handler>) {
    serve_stream(stream, served::service(Vec::new(), handler));
}

/// A served connection into which nothing more can be sent, its client, and what the client has to
/// read first.
fn full() -> (Client, usize) {
    let (ours, theirs) = Stream::pair().unwrap();
    let mut filled = 0;
    while let Ok(sent) = ours.try_send_slice(&[b'-'; 10_000]) {
        filled += sent;
    }
    serve_alone(ours, Rc::new(Instant { answered: Rc::default() }));
    (Client::of(theirs), filled)
}

#[test]
fn a_client_that_reads_late_gets_what_its_socket_did_not_take() {
    block_on_local(async {
        let (mut client, filled) = full();
        client.get("/late").await;
        for _ in 0..10 {
            yield_now().await; // until it is answered
        }
        client.read(filled).await;
        assert!(client.head().await.starts_with("HTTP/1.1 200 "));
        assert_eq!(client.read(5).await, "/late");
        client.get("/more").await;
        client.head().await;
        assert_eq!(client.read(5).await, "/more");
    });
}

/// It finds the request and the end in one turn.
#[test]
fn a_response_leaves_before_its_connection_ends() {
    block_on_local(async {
        let (mut client, filled) = full();
        client.get("/last").await;
        client.finish();
        client.read(filled).await;
        let answer = client.rest().await;
        assert!(answer.starts_with("HTTP/1.1 200 ") && answer.ends_with("/last"), "{answer}");
    });
}

/// The first read takes as much as one may, so the next request is taken in the same turn.
#[test]
fn no_response_overtakes_one_that_was_deferred() {
    block_on_local(async {
        let (ours, theirs) = Stream::pair().unwrap();
        serve_alone(ours, Rc::new(Instant { answered: Rc::default() }));
        let client = Client::of(theirs);
        let (begin, end) = ("GET /first HTTP/1.1\r\nHost: a\r\nX: ", "\r\n\r\n");
        let filling = "x".repeat(32 * 1024 - begin.len() - end.len());
        let last = "GET /last HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n";
        client.send(format!("{begin}{filling}{end}{last}")).await;
        let answers = client.rest().await;
        let (first, last) = (answers.find("/first"), answers.find("/last"));
        assert!(first.is_some() && first < last, "{answers}");
    });
}

/// Its response to `/look` has looked at what the other client has received.
struct Looking {
    is_instant: bool,
    other: RefCell<UnixStream>,
    seen: Rc<RefCell<Option<String>>>,
}

impl Handler for Looking {
    fn name(&self) -> &'static str {
        "looking"
    }

    fn is_instant(&self) -> bool {
        self.is_instant
    }

    fn handle<'a>(&'a self, request: &'a mut Request) -> MaybeFuture<'a, HandlerResult> {
        if request.target.path() == "/look" {
            let mut room = [0; 1000];
            let read = self.other.borrow_mut().read(&mut room).unwrap_or(0);
            self.seen.replace(Some(String::from_utf8_lossy(&room[..read]).into_owned()));
        }
        Ok(Response::text(200, "done")).into()
    }
}

/// What the first client has received when the handler of the second one looks, both in one turn.
fn seen_by(is_instant: bool) -> io::Result<String> {
    block_on_local(async {
        let (ours, theirs) = Stream::pair_for_child()?;
        let mut first = UnixStream::from(theirs);
        first.set_nonblocking(true)?;
        let seen = Rc::default();
        let looking = |is_instant| -> io::Result<Rc<Looking>> {
            let (other, seen) = (RefCell::new(first.try_clone()?), Rc::clone(&seen));
            Ok(Rc::new(Looking { is_instant, other, seen }))
        };
        serve_alone(ours, looking(true)?);
        let (ours, theirs) = Stream::pair()?;
        serve_alone(ours, looking(is_instant)?);
        let mut second = Client::of(theirs);
        let mut ask = async || -> io::Result<String> {
            // The previous event (there is space to send again) is seen before.
            for _ in 0..5 {
                yield_now().await;
            }
            // Both in one turn, in this order: neither waits between the two.
            first.write_all(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n")?;
            second.get("/look").await;
            second.head().await;
            second.read(4).await;
            // Where it was not seen, it is there by now.
            let seen = seen.take().unwrap_or_default();
            let unseen = seen.is_empty().then(|| first.read(&mut [0; 1000])).transpose()?;
            assert_ne!(unseen, Some(0));
            Ok(seen)
        };
        // From then on both connections are known to defer, or not to.
        ask().await?;
        ask().await
    })
}

#[test]
fn responses_wait_for_others_that_take_no_time_and_for_no_other() -> io::Result<()> {
    assert_eq!(seen_by(true)?, "");
    let seen = seen_by(false)?;
    assert!(seen.starts_with("HTTP/1.1 200 OK\r\n") && seen.ends_with("done"), "{seen:?}");
    Ok(())
}
