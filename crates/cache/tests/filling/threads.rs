//! Two workers and a thread that purges, concurrently: purged responses are not served.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use cache::store::Purge;
use message::{HandlerResult, Request, Response};
use plugin::{Handler, MaybeFuture};

use crate::site::{Site, get, text};

const PAGES: usize = 4;
const ROUNDS: usize = 100;
const AT_ONCE: usize = 8;

#[derive(Default)]
struct World {
    /// What each page says now.
    now: [AtomicU64; PAGES],
    /// What each page must say at least: what it said before came out of the cache.
    least: [AtomicU64; PAGES],
    fetches: AtomicU64,
    /// How often a worker's clients were all answered.
    turns: AtomicU64,
    over: AtomicBool,
}

/// Says what a page says now, some turns of the loop later.
struct Pages(Arc<World>);

impl Handler for Pages {
    fn name(&self) -> &'static str {
        "pages"
    }

    fn handle<'a>(&'a self, request: &'a mut Request) -> MaybeFuture<'a, HandlerResult> {
        MaybeFuture::of(async move {
            let fetches = self.0.fetches.fetch_add(1, Ordering::Relaxed);
            let page: usize = request.target.path()[1..].parse().unwrap();
            let says = self.0.now[page].load(Ordering::SeqCst);
            for _ in 0..fetches % 7 {
                tokio::task::yield_now().await;
            }
            let mut response = Response::text(200, says.to_string());
            response.headers.append("cache-control", "max-age=1000");
            Ok(response)
        })
    }
}

/// One worker: some clients at a time, each of which has to see what was purged before it asked.
async fn serve(site: Site, world: Arc<World>, index: usize) {
    let route = site.worker_with(index, Pages(world.clone()));
    let mut turn = index;
    while !world.over.load(Ordering::SeqCst) {
        let mut clients = Vec::new();
        for _ in 0..AT_ONCE {
            turn += 1;
            let page = turn % PAGES;
            let least = world.least[page].load(Ordering::SeqCst);
            clients.push((get(&route, &format!("/{page}")).await, least));
        }
        for (client, least) in clients {
            let says: u64 = text(client).await.parse().unwrap();
            assert!(says >= least, "{says} after {least} was purged");
        }
        world.turns.fetch_add(1, Ordering::SeqCst);
    }
}

#[test]
fn what_was_changed_and_purged_is_not_seen_any_more() {
    let (site, _origin) = Site::plain();
    let world = Arc::new(World::default());
    let workers: Vec<_> = (0..2)
        .map(|index| {
            let (site, world) = (site.clone(), world.clone());
            let work = move || serve(site, world, index);
            net::worker::spawn(format!("worker-{index}"), None, work).unwrap()
        })
        .collect();
    // A request has been made, so the cache exists.
    let failed = || workers.iter().any(|worker| worker.is_finished());
    while world.turns.load(Ordering::SeqCst) == 0 && !failed() {
        std::thread::yield_now();
    }
    let cache = site.cache();
    for round in 1..=ROUNDS {
        let page = round % PAGES;
        let says = world.now[page].fetch_add(1, Ordering::SeqCst) + 1;
        cache.store().purge(&Purge::Url(format!("http://a/{page}").as_bytes()), false);
        world.least[page].store(says, Ordering::SeqCst);
        // The workers get on between two changes.
        let turns = world.turns.load(Ordering::SeqCst);
        while world.turns.load(Ordering::SeqCst) == turns && !failed() {
            std::thread::yield_now();
        }
    }
    world.over.store(true, Ordering::SeqCst);
    for worker in workers {
        worker.join().unwrap();
    }
}
