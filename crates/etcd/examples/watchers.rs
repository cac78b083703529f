//! Many simulated nodes that follow one etcd, as `tidegate up etcd://…` does: each has a connection
//! with a watch, a lease, and a report that it writes for each change.
//!
//! `cargo run --release -p etcd --example watchers -- http://127.0.0.1:2379 1000` prints for each
//! change how long it took until all had received it.

#![allow(clippy::print_stdout, reason = "its result")]

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::time::{Duration, Instant};

use etcd::messages::{LeaseGrantRequest, PutRequest, WatchCreateRequest, prefix_end};
use etcd::{Etcd, EtcdError, EtcdSettings, Watch, parse_endpoint};
use net::Resolver;
use net::timer;
use plugin::WorkerContext;

const PREFIX: &str = "/watchers/config/";
const CHANGES: u64 = 10;
/// Bytes of the document that changes.
const DOCUMENT_BYTES: usize = 10_000;
const LEASE_S: i64 = 15;
const WITHIN: Duration = Duration::from_secs(120);

/// What all nodes have received.
#[derive(Default)]
struct Progress {
    /// The change that is awaited.
    wanted: Cell<u64>,
    nodes: Cell<usize>,
    /// Why a node has failed.
    failure: RefCell<Option<String>>,
}

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [url, count] = &arguments[..] else { return fail("usage: watchers URL COUNT") };
    let Ok(count) = count.parse() else { return fail("COUNT is not a number") };
    if let Err(why) = net::worker::block_on_local(measure(url, count)) {
        fail(&why);
    }
}

fn fail(why: &str) {
    eprintln!("watchers: {why}");
    std::process::exit(1);
}

async fn measure(url: &str, count: usize) -> Result<(), String> {
    let writer = client(url)?;
    let progress = Rc::new(Progress::default());
    for node in 0..count {
        let (etcd, progress) = (client(url)?, progress.clone());
        net::task::spawn_local(async move {
            if let Err(error) = follow(etcd, node, &progress).await {
                progress.failure.replace(Some(format!("node {node}: {error}")));
            }
        });
    }
    // The first one finds out when all watch.
    for change in 0..=CHANGES {
        progress.nodes.set(0);
        progress.wanted.set(change);
        let began = Instant::now();
        let value = format!("{change} {}", "x".repeat(DOCUMENT_BYTES));
        let key = format!("{PREFIX}site.yaml").into();
        let put = PutRequest { key, value: value.into(), ..PutRequest::default() };
        writer.put(&put).await.map_err(|error| error.to_string())?;
        while progress.nodes.get() < count {
            if let Some(why) = progress.failure.take() {
                return Err(why);
            }
            if began.elapsed() > WITHIN {
                return Err(format!("only {} of {count} nodes", progress.nodes.get()));
            }
            timer::sleep(Duration::from_millis(1)).await;
        }
        if change > 0 {
            let seconds = began.elapsed().as_secs_f64();
            println!("change {change}: {count} nodes converged in {seconds:.3} s");
        }
    }
    Ok(())
}

fn client(url: &str) -> Result<Rc<Etcd>, String> {
    let settings = EtcdSettings::new(vec![parse_endpoint(url)?]);
    let settings = EtcdSettings { timeout: Duration::from_secs(60), ..settings };
    let names = Rc::new(Resolver::system());
    Ok(Rc::new(Etcd::new(&WorkerContext::default(), names, settings)?))
}

async fn follow(etcd: Rc<Etcd>, node: usize, progress: &Progress) -> Result<(), EtcdError> {
    let lease = etcd.lease_grant(&LeaseGrantRequest { ttl: LEASE_S, id: 0 }).await?.id;
    let keeper = etcd.clone();
    net::task::spawn_local(async move { keeper.keep_alive(lease, LEASE_S).await });
    let request = WatchCreateRequest {
        key: PREFIX.into(),
        range_end: prefix_end(PREFIX.as_bytes()),
        start_revision: 1,
        ..WatchCreateRequest::default()
    };
    let mut watch = Watch::new(etcd.clone(), request);
    loop {
        let Ok(response) = watch.next().await else { return Ok(()) };
        let last = response.events.iter().filter_map(|event| event.kv.as_ref()).next_back();
        let Some(kv) = last else { continue };
        let change = kv.value.split(|byte| *byte == b' ').next().unwrap_or_default();
        if change == progress.wanted.get().to_string().as_bytes() {
            progress.nodes.set(progress.nodes.get() + 1);
        }
        let (key, value) = (format!("/watchers/status/{node}"), "serving");
        let report =
            PutRequest { key: key.into(), value: value.into(), lease, ..PutRequest::default() };
        etcd.put(&report).await?;
    }
}
