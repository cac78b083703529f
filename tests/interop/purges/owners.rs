//! Servers that request responses from the owners of their URLs and share purges: what a confirmed
//! purge covers does not return from another server.

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use super::{Site, all_serve, durable, get, purge_page};
use crate::tools::has;
use scenarios::{Tidegate, free_port, temporary_directory};

const SERVERS: usize = 3;
const PAGES: usize = 5;

fn start(site: &Site, directory: &Path) -> [Tidegate; SERVERS] {
    let redis = format!("unix:{}", directory.join("redis.sock").display());
    let ports: [u16; SERVERS] = std::array::from_fn(|_| free_port());
    let fleet = ports.map(|port| format!("127.0.0.1:{port}")).join("\", \"");
    let owners = "owners: { upstream: fleet, within: 1m, secret: of-the-whole-fleet }";
    let routes = site
        .routes()
        .replace("upstreams: {", &format!("upstreams: {{ fleet: {{ servers: [\"{fleet}\"] }},"))
        .replace("store: pages,", &format!("store: pages, {owners},"));
    let servers = std::array::from_fn(|at| {
        let port = ports[at];
        Tidegate::start(&format!(
            r#"
listeners: {{ web: {{ bind: "127.0.0.1:{port}" }} }}
admin: {{ bind: "127.0.0.1:0", token: s3cret-token, metrics: open }}
shared: {{ redis: ["{redis}"], timeout: 2s }}
purges: {{ node: n{at}, alone: 1m }}
caches: {{ pages: {{ memory: 4MiB }} }}
{routes}"#
        ))
    });
    all_serve(&servers);
    servers
}

/// Ends the clients, also when an assertion fails.
struct Ends<'a>(&'a AtomicBool);

impl Drop for Ends<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::SeqCst);
    }
}

#[test]
fn no_server_gets_what_was_purged_from_an_owner() {
    if !has("redis-server") {
        return;
    }
    let (site, directory) = (Site::start(), temporary_directory());
    let _redis = durable(directory.path());
    let servers = start(&site, directory.path());
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        // Clients that request everything everywhere while it is purged.
        for client in 0..SERVERS {
            let (servers, is_over) = (&servers, &is_over);
            scope.spawn(move || {
                let mut count = client;
                while !is_over.load(Ordering::SeqCst) {
                    get(&servers[count % SERVERS], &format!("/{}", count / SERVERS % PAGES));
                    count += 1;
                }
            });
        }
        let _ends = Ends(&is_over);
        for round in 0..100 {
            let path = format!("/{}", round % PAGES);
            let version = site.change(&path);
            let server = &servers[round % SERVERS];
            let answer = purge_page(server, &path);
            assert_eq!(answer["confirmed"], true, "{answer}");
            for server in &servers {
                assert!(get(server, &path).0 >= version, "round {round}: {answer}");
            }
        }
    });
    let asked = |result: &str| -> f64 {
        let asked = |server: &Tidegate| {
            server.metrics().sum("tidegate_cache_owner_requests_total", &[("result", result)])
        };
        servers.iter().map(asked).sum()
    };
    assert!(asked("stored") > 0.0 && asked("fetched") > 0.0, "responses come from owners");
    assert_eq!(asked("timeout") + asked("failed"), 0.0);
}
