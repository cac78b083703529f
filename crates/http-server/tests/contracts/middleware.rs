//! A surround holds the rest of the way: it may run it once, again, or not at all.

use std::cell::Cell;
use std::rc::Rc;

use bytes::Bytes;
use message::{Body, Fault, FaultKind, HandlerResult, Request, Response};
use net::worker::block_on_local;
use plugin::{Filter, Handler, MaybeFuture, Middleware, Next, Step};

use crate::client::{Answers, Client, filter, serve, surround};

/// Runs the rest of the way up to three times, with the same body.
struct Again;

impl Middleware for Again {
    fn name(&self) -> &'static str {
        "again"
    }

    fn call<'a>(
        self: Rc<Self>,
        request: &'a mut Request,
        next: Next,
    ) -> MaybeFuture<'a, HandlerResult> {
        MaybeFuture::of(async move {
            let body = request.collect_body(1024).await?;
            let mut outcome = Err(Fault::internal("not run"));
            for _ in 0..3 {
                let mut copy = request.for_background();
                copy.body = Body::from(body.clone());
                outcome = next.clone().run(&mut copy).await;
                if outcome.is_ok() {
                    break;
                }
            }
            outcome
        })
    }
}

#[test]
fn the_rest_of_the_way_may_run_again_with_the_same_body() {
    block_on_local(async {
        let runs = Rc::new(Cell::new(0));
        let counted = runs.clone();
        let handler = Collecting(move |body: Bytes| {
            counted.set(counted.get() + 1);
            if counted.get() < 3 {
                return Err(Fault::new(FaultKind::ConnectionRefused, ""));
            }
            Ok(Response::text(200, Body::from(body)))
        });
        let mut client = Client::connect(serve(vec![surround(Again)], handler)).await;
        client.send("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\n\r\nbody").await;
        assert!(client.head().await.starts_with("HTTP/1.1 200 "));
        assert_eq!(client.read(4).await, "body");
        assert_eq!(runs.get(), 3);
    });
}

/// A handler of a function of the body.
pub(crate) struct Collecting<F>(pub(crate) F);

impl<F: Fn(Bytes) -> HandlerResult> Handler for Collecting<F> {
    fn name(&self) -> &'static str {
        "collecting"
    }

    fn handle<'a>(&'a self, request: &'a mut Request) -> MaybeFuture<'a, HandlerResult> {
        MaybeFuture::of(async move { (self.0)(request.collect_body(1 << 16).await?) })
    }
}

/// Adds a field on the way back.
struct Marks(&'static str);

impl Filter for Marks {
    fn name(&self) -> &'static str {
        self.0
    }

    fn on_response<'a>(
        &'a self,
        request: &'a mut Request,
        response: &'a mut Response,
    ) -> MaybeFuture<'a, Step> {
        let path = request.target.path();
        response.headers.append("x-seen", format!("{} {path}", self.0));
        Step::Continue.into()
    }
}

/// Sends some requests elsewhere, and answers others itself.
struct Bends;

impl Middleware for Bends {
    fn name(&self) -> &'static str {
        "bends"
    }

    fn call<'a>(
        self: Rc<Self>,
        request: &'a mut Request,
        next: Next,
    ) -> MaybeFuture<'a, HandlerResult> {
        MaybeFuture::of(async move {
            if request.target.path() == "/mine" {
                return Ok(Response::text(200, "mine"));
            }
            let mut request = request.take();
            request.target.replace_path(b"/bent").map_err(|_| Fault::not_found())?;
            next.run(&mut request).await
        })
    }
}

#[test]
fn filters_before_it_see_the_request_as_it_was_and_those_behind_it_as_it_is() {
    block_on_local(async {
        let stages = vec![filter(Marks("before")), surround(Bends), filter(Marks("behind"))];
        let handler = Answers(|request: &mut Request| {
            Ok(Response::text(200, request.target.path().to_owned()))
        });
        let mut client = Client::connect(serve(stages, handler)).await;
        client.get("/straight").await;
        let head = client.head().await;
        assert!(head.contains("x-seen: behind /bent\r\nx-seen: before /straight\r\n"), "{head}");
        assert_eq!(client.read(5).await, "/bent");
        client.get("/mine").await;
        let head = client.head().await;
        assert!(head.contains("x-seen: before /mine\r\n") && !head.contains("behind"), "{head}");
        assert_eq!(client.read(4).await, "mine");
    });
}

/// Knows some answers without waiting, and says what it did not know.
struct Knows;

impl Middleware for Knows {
    fn name(&self) -> &'static str {
        "knows"
    }

    fn call<'a>(
        self: Rc<Self>,
        request: &'a mut Request,
        next: Next,
    ) -> MaybeFuture<'a, HandlerResult> {
        match request.target.path() {
            "/known" => Ok(Response::text(200, "known")).into(),
            "/refused" => {
                Err(Fault::new(FaultKind::Forbidden, "").with_field("x-by", "knows")).into()
            }
            path => {
                assert_eq!(path, "/other");
                MaybeFuture::Future(next.run(request))
            }
        }
    }
}

#[test]
fn a_response_that_is_known_at_once_passes_the_filters_before_it_and_nothing_else() {
    block_on_local(async {
        let stages = vec![filter(Marks("before")), surround(Knows), filter(Marks("behind"))];
        let handled = Rc::new(Cell::new(0));
        let counted = handled.clone();
        let handler = Answers(move |_: &mut Request| {
            counted.set(counted.get() + 1);
            Ok(Response::text(200, "asked"))
        });
        let mut client = Client::connect(serve(stages, handler)).await;
        for (path, body, runs) in [("/known", "known", 0), ("/other", "asked", 1)] {
            client.get(path).await;
            let head = client.head().await;
            let behind = head.contains(&format!("x-seen: behind {path}\r\n"));
            assert!(head.contains(&format!("x-seen: before {path}\r\n")), "{head}");
            assert_eq!((behind, handled.get()), (runs == 1, runs), "{head}");
            assert_eq!(client.read(5).await, body);
        }
        client.get("/refused").await;
        let head = client.head().await;
        assert!(head.starts_with("HTTP/1.1 403 ") && head.contains("x-by: knows\r\n"), "{head}");
        assert_eq!(handled.get(), 1);
    });
}

#[test]
fn a_request_without_an_immediate_response_continues_to_the_next_stages() {
    block_on_local(async {
        let stages = vec![surround(Knows), filter(Marks("between")), surround(Bends)];
        let handler = Answers(|request: &mut Request| {
            Ok(Response::text(200, request.target.path().to_owned()))
        });
        let mut client = Client::connect(serve(stages, handler)).await;
        client.get("/other").await;
        assert!(client.head().await.contains("x-seen: between /other\r\n"));
        assert_eq!(client.read(5).await, "/bent");
    });
}
