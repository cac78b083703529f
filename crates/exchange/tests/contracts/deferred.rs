//! Answers that take no time leave together, and none is lost, mixed up or late because of it.
#![allow(clippy::disallowed_types, reason = "a client that reads while the worker runs a task")]

use std::cell::{Cell, RefCell};
use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::rc::Rc;

use exchange::{Handler, LocalFuture, Outcome, Request, Response};
use net::worker::block_on_local;
use net::{Accepted, Bind, Peer, Stream};
use tokio::task::yield_now;

use crate::client::{Client, serve};
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

    fn answer(&self, request: &mut Request) -> Option<Outcome> {
        self.answered.set(self.answered.get() + 1);
        Some(Ok(Response::text(200, request.target.path().to_owned())))
    }

    fn handle<'a>(&'a self, _: &'a mut Request) -> LocalFuture<'a, Outcome> {
        unreachable!("it has answered")
    }
}

/// More than may wait at a time, in one turn.
#[test]
fn each_of_many_clients_gets_its_own_answer() {
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

/// A served connection into which nothing more can be sent, its client, and what the client has to
/// read first.
fn full() -> (Client, usize) {
    let (ours, theirs) = Stream::pair().unwrap();
    let mut filled = 0;
    while let Ok(sent) = ours.try_send_slice(&[b'-'; 10_000]) {
        filled += sent;
    }
    let accepted = Accepted { stream: ours, peer: Peer::Unix };
    let handler = Instant { answered: Rc::default() };
    let service = served::service(Vec::new(), Rc::new(handler));
    let local = Rc::new(Bind::Unix("/nowhere".into()));
    net::task::spawn_local(served::serve_one(accepted, service, local));
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
fn an_answer_leaves_before_its_connection_ends() {
    block_on_local(async {
        let (mut client, filled) = full();
        client.get("/last").await;
        client.finish();
        client.read(filled).await;
        let answer = client.rest().await;
        assert!(answer.starts_with("HTTP/1.1 200 ") && answer.ends_with("/last"), "{answer}");
    });
}

/// Instant until it has answered `/a`. What follows looks whether that answer has reached its
/// client.
struct Slow {
    has_answered: Cell<bool>,
    client: Rc<RefCell<Option<TcpStream>>>,
    seen: Rc<RefCell<Vec<u8>>>,
}

impl Handler for Slow {
    fn name(&self) -> &'static str {
        "slow"
    }

    fn is_instant(&self) -> bool {
        !self.has_answered.get()
    }

    fn answer(&self, request: &mut Request) -> Option<Outcome> {
        match request.target.path() {
            "/a" => self.has_answered.set(true),
            "/b" => {
                let mut room = [0; 1000];
                let read = self.client.borrow_mut().as_mut().unwrap().read(&mut room).unwrap_or(0);
                self.seen.borrow_mut().extend_from_slice(&room[..read]);
            }
            _ => {}
        }
        Some(Ok(Response::text(200, "done")))
    }

    fn handle<'a>(&'a self, _: &'a mut Request) -> LocalFuture<'a, Outcome> {
        unreachable!("it has answered")
    }
}

#[test]
fn answers_do_not_wait_for_what_may_take_its_time() -> io::Result<()> {
    block_on_local(async {
        let (reads, seen) = (Rc::new(RefCell::new(None)), Rc::new(RefCell::new(Vec::new())));
        let handler =
            Slow { has_answered: Cell::new(false), client: reads.clone(), seen: seen.clone() };
        let address = serve(Vec::new(), handler);
        let mut first = TcpStream::connect(address)?;
        first.set_nonblocking(true)?;
        let mut second = Client::connect(address).await;
        // Both connections are known to defer from now on.
        first.write_all(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n")?;
        second.get("/").await;
        second.head().await;
        second.read(4).await;
        let mut answer = [0; 1000];
        while first.read(&mut answer).is_err() {
            yield_now().await;
        }
        *reads.borrow_mut() = Some(first.try_clone()?);
        first.write_all(b"GET /a HTTP/1.1\r\nHost: a\r\n\r\n")?;
        second.get("/b").await;
        second.head().await;
        let seen = String::from_utf8_lossy(&seen.borrow()).into_owned();
        assert!(seen.starts_with("HTTP/1.1 200 OK\r\n") && seen.ends_with("done"), "{seen:?}");
        Ok(())
    })
}
