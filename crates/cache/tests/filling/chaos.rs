//! Clients, an origin and purges at random, against what must hold whatever they do.
//!
//! Every response of the origin has a number of its own in its body. A client that is given a whole
//! body is given one answer, as it was: of its own URL and language, not older than the last purge
//! before it asked, and never another client's if it was private. No request waits for ever.

use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;

use bytes::Bytes;
use cache::store::Purge;
use message::{Fault, SharedBody, SharedBodyWriter, shared_body};
use net::worker::block_on_local;
use tokio::task::JoinHandle;

use crate::site::{
    Call, ClientResponse, Got, Origin, Site, done, fault, get_with, growing_response, response_with,
};

const STEPS: usize = 4000;
const PATHS: [&str; 3] = ["/a", "/b", "/c"];
const LANGUAGES: [&str; 2] = ["en", "de"];

/// A response that the origin has sent once.
struct OriginResponse {
    path: String,
    language: String,
    private: bool,
    /// Purges of its URL before its request was sent.
    purges: usize,
    given: usize,
}

#[derive(Default)]
struct World {
    produced: Vec<OriginResponse>,
    purges: HashMap<String, usize>,
}

type Client = JoinHandle<Result<Got, Fault>>;

struct Chaos {
    random: fastrand::Rng,
    world: Rc<RefCell<World>>,
    calls: Vec<(Call, usize)>,
    bodies: Vec<(SharedBodyWriter, SharedBody, String)>,
    clients: Vec<JoinHandle<()>>,
}

impl Chaos {
    /// The origin responds to one of its requests.
    fn respond(&mut self) {
        if self.calls.is_empty() {
            return;
        }
        let at = self.random.usize(..self.calls.len());
        let (call, purges) = self.calls.swap_remove(at);
        let kind = self.random.usize(..12);
        let private = kind == 0;
        let mut world = self.world.borrow_mut();
        let number = world.produced.len();
        let language = call.field("accept-language").unwrap_or_default().to_owned();
        let path = call.target.clone();
        world.produced.push(OriginResponse { path, language, private, purges, given: 0 });
        drop(world);
        let produced = match kind {
            0 => "private",
            1..=3 => "max-age=0, stale-while-revalidate=1000, stale-if-error=1000",
            4 => "no-cache",
            _ => "max-age=1000",
        };
        let tag = format!("\"{number}\"");
        let fields = [("cache-control", produced), ("vary", "accept-language"), ("etag", &tag)];
        let body = format!("answer {number} {}", "x".repeat(self.random.usize(..50)));
        let condition = call.field("if-none-match").map(str::to_owned);
        let reply: ClientResponse = match (self.random.usize(..8), condition) {
            (0, _) => fault(502),
            (1, _) => response_with(503, &[], "busy"),
            // The stored response is still valid.
            (2..=4, Some(tag)) => {
                response_with(304, &[("etag", &tag), ("cache-control", produced)], "")
            }
            _ => {
                let length = (self.random.usize(..2) == 0).then_some(body.len() as u64);
                let (writer, content) = shared_body(1 << 20, length);
                self.bodies.push((writer, content.clone(), body));
                growing_response(&fields, &content)
            }
        };
        call.respond(reply);
    }

    /// One of the bodies continues, ends or breaks.
    fn continue_body(&mut self) {
        if self.bodies.is_empty() {
            return;
        }
        let at = self.random.usize(..self.bodies.len());
        let end = self.random.usize(..4) == 0;
        let (writer, content, body) = &mut self.bodies[at];
        let sent = content.length() as usize;
        let next = if end { body.len() } else { body.len().min(sent + 5) };
        writer.push(Bytes::copy_from_slice(&body.as_bytes()[sent..next])).unwrap();
        if end {
            let (writer, _, _) = self.bodies.swap_remove(at);
            match self.random.usize(..6) {
                0 => writer.fail(Fault::internal("on purpose")),
                _ => writer.finish(None),
            }
        }
    }

    /// Starts a client that checks its response.
    fn watch(&mut self, client: Client, path: &'static str, language: &'static str) {
        let world = self.world.clone();
        let purges = world.borrow().purges.get(path).copied().unwrap_or(0);
        let watching = async move {
            let Ok(got) = done(client).await else { return };
            if got.status != 200 {
                return assert_eq!(got.status, 503);
            }
            let Ok(text) = got.text().await else { return };
            let number = text.split(' ').nth(1).unwrap().parse::<usize>().unwrap();
            let produced = &mut world.borrow_mut().produced[number];
            assert_eq!((&*produced.path, &*produced.language), (path, language));
            assert!(produced.purges >= purges, "{text} was asked for before a purge");
            produced.given += 1;
            assert!(!produced.private || produced.given == 1, "{text} is private");
        };
        self.clients.push(tokio::task::spawn_local(watching));
    }

    /// Notes the requests that reached the origin.
    fn note_requests(&mut self, origin: &mut Origin) {
        while let Some(call) = origin.asked_already() {
            let purges = self.world.borrow().purges.get(&call.target).copied().unwrap_or(0);
            self.calls.push((call, purges));
        }
    }
}

fn run(seed: u64) {
    block_on_local(async move {
        let (site, mut origin) = Site::plain();
        let routes = [site.worker(0), site.worker(1)];
        let random = fastrand::Rng::with_seed(seed);
        let (world, calls, bodies) = (Rc::default(), Vec::new(), Vec::new());
        let mut chaos = Chaos { random, world, calls, bodies, clients: Vec::new() };
        for _ in 0..STEPS {
            let path = PATHS[chaos.random.usize(..PATHS.len())];
            let language = LANGUAGES[chaos.random.usize(..LANGUAGES.len())];
            match chaos.random.usize(..20) {
                0..=8 => {
                    let route = &routes[chaos.random.usize(..routes.len())];
                    let client = get_with(route, path, &[("accept-language", language)]).await;
                    match chaos.random.usize(..10) {
                        0 => client.abort(),
                        _ => chaos.watch(client, path, language),
                    }
                }
                9..=12 => chaos.respond(),
                13..=17 => chaos.continue_body(),
                18 => tokio::task::yield_now().await,
                _ if chaos.random.usize(..8) == 0 => {
                    // The requests so far were sent before the purge.
                    tokio::task::yield_now().await;
                    chaos.note_requests(&mut origin);
                    let url = format!("http://a{path}");
                    *chaos.world.borrow_mut().purges.entry(path.to_owned()).or_default() += 1;
                    site.cache().store().purge(&Purge::Url(url.as_bytes()), false);
                }
                _ => {}
            }
            chaos.note_requests(&mut origin);
        }
        // All requests get a response and end.
        while chaos.clients.iter().any(|client| !client.is_finished()) {
            chaos.note_requests(&mut origin);
            chaos.respond();
            chaos.continue_body();
            tokio::task::yield_now().await;
        }
        for client in chaos.clients {
            client.await.unwrap();
        }
        let given: usize =
            chaos.world.borrow().produced.iter().map(|produced| produced.given).sum();
        assert!(given > STEPS / 10, "only {given} were given anything");
    });
}

#[test]
fn whatever_clients_origin_and_purges_do_no_client_gets_a_response_for_another() {
    for seed in 1..=4 {
        run(u64::wrapping_mul(seed, 0x9E37_79B9_7F4A_7C15));
    }
}
