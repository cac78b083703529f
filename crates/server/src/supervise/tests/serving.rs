//! Whole worker processes that serve HTTP, with an application in Rust.

use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{SyncSender, sync_channel};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use message::Headers;
use net::{Bind, ListenOptions, Listening, Outgoing, Stream};
use offload::{Arrival, Event, RequestQueue};

use super::super::{Stats, WorkerGroup, WorkerSockets};
use super::{TIMEOUT, patient, run, settings};
use crate::spec::WorkerSpec;
use crate::{Application, HostedApplication, readiness_channel, run_worker};

/// A thread that responds with its process id.
struct Program {
    served: AtomicU64,
    is_over: AtomicBool,
    bell: Mutex<SyncSender<()>>,
}

impl Application for Program {
    fn stats(&self) -> Stats {
        Stats { requests: self.served.load(Ordering::Relaxed), ..Stats::default() }
    }

    fn lag_ms(&self) -> u64 {
        0
    }

    fn stop(&self) {
        self.is_over.store(true, Ordering::Release);
        // Notified before, the event is readable too.
        let _ = self.bell.lock().unwrap().try_send(());
    }

    fn dump(&self) -> String {
        "nowhere".to_owned()
    }
}

/// The worker process.
pub(super) fn serve(spec: &WorkerSpec) -> i32 {
    let (ring, rung) = sync_channel(1);
    let bell = ring.clone();
    let queue = RequestQueue::new(64, move || {
        // Notified before, the event is readable too.
        let _ = ring.try_send(());
    });
    let program = Arc::new(Program {
        served: AtomicU64::new(0),
        is_over: AtomicBool::new(false),
        bell: Mutex::new(bell),
    });
    let (readiness_sender, readiness) = readiness_channel();
    let hosted =
        HostedApplication { application: program.clone(), queue: queue.clone(), readiness };
    let spec = spec.clone();
    let serving = std::thread::spawn(move || run_worker(&spec, hosted));
    readiness_sender.ready();
    while !program.is_over.load(Ordering::Acquire) {
        match queue.take() {
            Some(Event::Arrived(Arrival::Exchange(handed), _)) => {
                program.served.fetch_add(1, Ordering::Relaxed);
                handed.answer.respond(200, Headers::new(), std::process::id().to_string());
            }
            Some(_) => {}
            None if queue.sleep() => {
                rung.recv().unwrap();
                queue.mark_awake();
            }
            None => {}
        }
    }
    i32::from(serving.join().unwrap())
}

pub(super) const CONFIG: &str = r#"{
    "listeners": { "web": { "bind": "127.0.0.1:0" } },
    "apps": { "test": { "python": "a:b" } },
    "routes": [
        { "match": { "path": "/quick" }, "handler": { "respond": { "body": "quick" } } },
        { "name": "app", "match": { "path": "/{*rest}" }, "handler": { "app": "test" } }
    ]
}"#;

/// Sends a request on a new connection; returns the body of a 200.
async fn ask(address: SocketAddr, path: &str) -> String {
    let (status, body) = converse(&Bind::Tcp(address), "GET", path).await;
    assert_eq!(status, 200, "{body}");
    body
}

/// Sends a request on a new connection; returns status and body.
pub(super) async fn converse(bind: &Bind, method: &str, path: &str) -> (u16, String) {
    let asking = async {
        let stream = match bind {
            Bind::Tcp(address) => Stream::connect_tcp(*address).await.unwrap(),
            Bind::Unix(path) => Stream::connect_unix(path).await.unwrap(),
        };
        let mut outgoing = Outgoing::default();
        let request = format!(
            "{method} {path} HTTP/1.1\r\nhost: a\r\nconnection: close\r\ncontent-length: 0\r\n\r\n"
        );
        outgoing.push(request.into());
        stream.send_all(&mut outgoing).await.unwrap();
        let mut answer = Vec::new();
        loop {
            match stream.receive().await.unwrap() {
                end if end.is_empty() => return String::from_utf8(answer).unwrap(),
                piece => answer.extend_from_slice(&piece),
            }
        }
    };
    let answer = net::timer::within(TIMEOUT, asking).await.expect("a response");
    let (head, body) = answer.split_once("\r\n\r\n").expect("a whole head");
    let status = head.split(' ').nth(1).and_then(|status| status.parse().ok());
    (status.expect("a status"), body.to_owned())
}

fn group() -> (Rc<WorkerGroup>, SocketAddr) {
    let any = Bind::Tcp(SocketAddr::from(([127, 0, 0, 1], 0)));
    let listening = Listening::bind(&any, 1, &ListenOptions::default()).unwrap();
    let Bind::Tcp(address) = *listening.local() else { panic!("TCP") };
    let mut settings = settings("serves", patient());
    settings.config = Some(CONFIG.replace("127.0.0.1:0", &address.to_string()));
    let sockets = WorkerSockets::shared(vec![("web".to_owned(), listening)]);
    (WorkerGroup::start("test", settings, sockets, 2, &Arc::default(), |_| {}), address)
}

#[test]
fn workers_serve_on_one_socket_and_a_reload_loses_no_request() {
    run(async {
        let (group, address) = group();
        // No process accepts yet: connections wait in the queue of the kernel.
        let first = ask(address, "/first").await;
        assert_eq!(group.first().await, Ok(()));
        let ids = || -> Vec<String> {
            let slots = group.slots();
            let current = slots.iter().filter_map(|slot| slot.current.borrow().clone());
            current.map(|running| running.id().to_string()).collect()
        };
        // A worker accepts a moment before the supervisor knows that it is ready.
        while group.ready() < 2 {
            net::timer::sleep(Duration::from_millis(4)).await;
        }
        assert!(ids().contains(&first));
        let over = Rc::new(std::cell::Cell::new(false));
        let clients: Vec<_> = (0..4)
            .map(|_| {
                let over = over.clone();
                net::task::spawn_local(async move {
                    let mut served = 0;
                    while !over.get() {
                        ask(address, "/").await;
                        assert_eq!(ask(address, "/quick").await, "quick");
                        served += 1;
                    }
                    served
                })
            })
            .collect();
        let before = ids();
        assert_eq!(group.reload().await, Ok(()));
        while !group.leaving().is_empty() {
            net::timer::sleep(Duration::from_millis(4)).await;
        }
        assert!(ids().iter().all(|id| !before.contains(id)));
        over.set(true);
        for client in clients {
            assert!(client.await.unwrap() > 0);
        }
        let running = group.slots()[0].current.borrow().clone().unwrap();
        let metrics = running.metrics().await.unwrap();
        assert!(metrics.contains("tidegate_requests_total"), "{metrics}");
        drop(running);
        assert!(net::timer::within(TIMEOUT, group.stop()).await.is_some());
    });
}

#[test]
fn a_killed_group_leaves_nothing() {
    run(async {
        let (group, address) = group();
        let id = ask(address, "/").await;
        let process: u32 = id.parse().unwrap();
        group.kill();
        while super::exists(process) {
            net::timer::sleep(Duration::from_millis(4)).await;
        }
        assert!(net::timer::within(TIMEOUT, group.stop()).await.is_some());
    });
}
