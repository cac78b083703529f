//! The rest of the route, run without its client (extension point 6).

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::time::Duration;

use message::{Body, HandlerResult, Protocol, Request, Response};
use net::worker::block_on_local;
use plugin::{BackgroundPermit, Handler, MaybeFuture, Middleware, Next};
use tokio::sync::{mpsc, oneshot};

use crate::client::{Answers, Client, serve, surround};

/// Responds immediately, and runs a copy of the request in the background.
struct Mirror {
    ended: RefCell<Option<oneshot::Sender<HandlerResult>>>,
    within: Duration,
}

impl Middleware for Mirror {
    fn name(&self) -> &'static str {
        "mirror"
    }

    fn call<'a>(
        self: Rc<Self>,
        request: &'a mut Request,
        next: Next,
    ) -> MaybeFuture<'a, HandlerResult> {
        let mut copy = request.for_background();
        let ended = self.ended.take().unwrap();
        let within = self.within;
        BackgroundPermit::take()
            .unwrap()
            .run(async move {
                let _ = ended.send(next.run_within(within, &mut copy).await);
            })
            .detach();
        Ok(Response::text(200, "at once")).into()
    }
}

/// Says when it is asked and when it is dropped, and never answers unless it is let.
struct PendingHandler {
    news: mpsc::UnboundedSender<String>,
    answers: Cell<bool>,
}

struct Dropped(mpsc::UnboundedSender<String>);

impl Drop for Dropped {
    fn drop(&mut self) {
        let _ = self.0.send("dropped".to_owned());
    }
}

impl Handler for PendingHandler {
    fn name(&self) -> &'static str {
        "held"
    }

    fn handle<'a>(&'a self, request: &'a mut Request) -> MaybeFuture<'a, HandlerResult> {
        MaybeFuture::of(async move {
            let _dropped = Dropped(self.news.clone());
            let background = request.facts.protocol == Protocol::Background;
            assert!(background && request.informer.is_none() && request.body.is_empty());
            let host = String::from_utf8_lossy(request.host()).into_owned();
            let _ = self.news.send(format!("asked for {host}{}", request.target.path()));
            if !self.answers.get() {
                std::future::pending::<()>().await;
            }
            Ok(Response::text(200, "in background"))
        })
    }
}

/// A mirrored request, up to its client's answer; what became of the copy comes later.
async fn mirrored(
    within: Duration,
    answers: bool,
) -> (mpsc::UnboundedReceiver<String>, oneshot::Receiver<HandlerResult>) {
    let (news, mut heard) = mpsc::unbounded_channel();
    let (ended, ends) = oneshot::channel();
    let mirror = Mirror { ended: RefCell::new(Some(ended)), within };
    let handler = PendingHandler { news, answers: Cell::new(answers) };
    let mut client = Client::connect(serve(vec![surround(mirror)], handler)).await;
    client.get("/mirrored").await;
    client.head().await;
    assert_eq!(client.read(7).await, "at once");
    drop(client);
    assert_eq!(heard.recv().await.unwrap(), "asked for a/mirrored");
    (heard, ends)
}

#[test]
fn it_continues_when_its_client_has_its_response() {
    block_on_local(async {
        let (_news, ends) = mirrored(Duration::from_secs(10), true).await;
        let mut response = ends.await.unwrap().unwrap();
        assert_eq!(&response.body.collect(100).await.unwrap()[..], b"in background");
    });
}

#[test]
fn its_deadline_drops_it() {
    block_on_local(async {
        let (mut news, ends) = mirrored(Duration::from_millis(20), false).await;
        assert_eq!(ends.await.unwrap().err().unwrap().status, 504);
        assert_eq!(news.recv().await.unwrap(), "dropped");
    });
}

#[test]
fn its_client_going_away_drops_it_unless_it_runs_apart() {
    struct Through;
    impl Middleware for Through {
        fn name(&self) -> &'static str {
            "through"
        }
        fn call<'a>(
            self: Rc<Self>,
            request: &'a mut Request,
            next: Next,
        ) -> MaybeFuture<'a, HandlerResult> {
            let mut copy = request.for_background();
            MaybeFuture::of(async move { next.run(&mut copy).await })
        }
    }
    block_on_local(async {
        let (news, mut heard) = mpsc::unbounded_channel();
        let handler = PendingHandler { news, answers: Cell::new(false) };
        let client = Client::connect(serve(vec![surround(Through)], handler)).await;
        client.get("/").await;
        assert_eq!(heard.recv().await.unwrap(), "asked for a/");
        drop(client);
        assert_eq!(heard.recv().await.unwrap(), "dropped");
    });
}

#[test]
fn what_the_handler_notes_for_the_log_comes_back_from_the_clients_own_run() {
    struct Reads(Rc<RefCell<Vec<Option<Rc<str>>>>>);
    impl plugin::Filter for Reads {
        fn name(&self) -> &'static str {
            "reads"
        }
        fn on_response<'a>(
            &'a self,
            request: &'a mut Request,
            _: &'a mut Response,
        ) -> MaybeFuture<'a, plugin::Step> {
            self.0.borrow_mut().push(request.notes.upstream.clone());
            plugin::Step::Continue.into()
        }
    }
    struct Twice;
    impl Middleware for Twice {
        fn name(&self) -> &'static str {
            "twice"
        }
        fn call<'a>(
            self: Rc<Self>,
            request: &'a mut Request,
            next: Next,
        ) -> MaybeFuture<'a, HandlerResult> {
            MaybeFuture::of(async move {
                let mut copy = request.for_background();
                copy.target.replace_path(b"/copy").unwrap();
                let outcome = next.clone().run(request).await;
                next.run(&mut copy).await?;
                outcome
            })
        }
    }
    block_on_local(async {
        let seen = Rc::new(RefCell::new(Vec::new()));
        let stages = vec![crate::client::filter(Reads(seen.clone())), surround(Twice)];
        let handler = Answers(|request: &mut Request| {
            request.notes.upstream = Some(Rc::from(request.target.path()));
            Ok(Response::text(200, Body::Empty))
        });
        let mut client = Client::connect(serve(stages, handler)).await;
        client.get("/own").await;
        client.head().await;
        assert_eq!(seen.take(), [Some(Rc::from("/own"))]);
    });
}
