//! Interim responses go out before the head, and 100 Continue with the first look at the body.

use std::cell::Cell;
use std::rc::Rc;

use message::{HandlerResult, Headers, Request, Response};
use net::worker::block_on_local;
use plugin::{Handler, MaybeFuture};
use tokio::sync::Semaphore;

use crate::client::{Client, serve};

/// Sends early hints, then waits to be let.
struct Hints {
    go_on: Rc<Semaphore>,
    kept: Rc<Cell<Option<Request>>>,
}

impl Handler for Hints {
    fn name(&self) -> &'static str {
        "hints"
    }

    fn handle<'a>(&'a self, request: &'a mut Request) -> MaybeFuture<'a, HandlerResult> {
        MaybeFuture::of(async move {
            let mut hints = Headers::new();
            hints.append("link", "</style.css>; rel=preload");
            request.inform(103, &hints);
            self.go_on.acquire().await.unwrap().forget();
            self.kept.set(Some(request.take()));
            Ok(Response::text(200, "page"))
        })
    }
}

fn hints() -> (Hints, Rc<Semaphore>, Rc<Cell<Option<Request>>>) {
    let (go_on, kept) = (Rc::new(Semaphore::new(0)), Rc::default());
    (Hints { go_on: go_on.clone(), kept: Rc::clone(&kept) }, go_on, kept)
}

#[test]
fn early_hints_arrive_while_the_response_is_made() {
    block_on_local(async {
        let (handler, go_on, kept) = hints();
        let mut client = Client::connect(serve(Vec::new(), handler)).await;
        client.get("/").await;
        let interim = client.head().await;
        assert_eq!(interim, "HTTP/1.1 103 Early Hints\r\nLink: </style.css>; rel=preload\r\n\r\n");
        go_on.add_permits(1);
        assert!(client.head().await.starts_with("HTTP/1.1 200 OK\r\n"));
        assert_eq!(client.read(4).await, "page");
        // Too late: the next bytes are those of the next answer.
        kept.take().unwrap().inform(103, &Headers::new());
        go_on.add_permits(1);
        client.get("/").await;
        assert!(client.head().await.starts_with("HTTP/1.1 103 "));
        assert!(client.head().await.starts_with("HTTP/1.1 200 "));
    });
}

#[test]
fn a_client_of_http_1_0_gets_no_interim_response() {
    block_on_local(async {
        let (handler, go_on, _) = hints();
        go_on.add_permits(1);
        let client = Client::connect(serve(Vec::new(), handler)).await;
        client.send("GET / HTTP/1.0\r\n\r\n").await;
        let answer = client.rest().await;
        assert!(answer.starts_with("HTTP/1.1 200 ") && answer.ends_with("page"), "{answer}");
    });
}

#[test]
fn a_client_that_expects_it_gets_100_continue_when_the_body_is_read() {
    struct Late(Rc<Semaphore>);
    impl Handler for Late {
        fn name(&self) -> &'static str {
            "late"
        }
        fn handle<'a>(&'a self, request: &'a mut Request) -> MaybeFuture<'a, HandlerResult> {
            MaybeFuture::of(async move {
                request.inform(103, &Headers::new());
                self.0.acquire().await.unwrap().forget();
                let body = request.collect_body(100).await?;
                Ok(Response::text(200, body))
            })
        }
    }
    block_on_local(async {
        let asks = Rc::new(Semaphore::new(0));
        let mut client = Client::connect(serve(Vec::new(), Late(asks.clone()))).await;
        let head = "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\n";
        client.send(format!("{head}Expect: 100-continue\r\n\r\n")).await;
        // It has been handled, and was not told yet.
        assert!(client.head().await.starts_with("HTTP/1.1 103 "));
        asks.add_permits(1);
        assert_eq!(client.head().await, "HTTP/1.1 100 Continue\r\n\r\n");
        client.send("body").await;
        assert!(client.head().await.starts_with("HTTP/1.1 200 "));
        assert_eq!(client.read(4).await, "body");
    });
}

#[test]
fn an_interim_status_is_not_a_response() {
    struct Interim;
    impl Handler for Interim {
        fn name(&self) -> &'static str {
            "interim"
        }

        fn handle<'a>(&'a self, _: &'a mut Request) -> MaybeFuture<'a, HandlerResult> {
            Ok(Response::new(103)).into()
        }
    }
    block_on_local(async {
        let mut client = Client::connect(serve(Vec::new(), Interim)).await;
        client.get("/").await;
        assert!(client.head().await.starts_with("HTTP/1.1 500 "));
    });
}
