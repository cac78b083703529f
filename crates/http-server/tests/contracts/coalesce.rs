//! The example `coalesce`: one run for identical requests of two workers, and a body that grows
//! while it is read on both (extension point 6).

#[path = "../../examples/coalesce/coalesce.rs"]
mod sharing;

use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::JoinHandle;

use bytes::Bytes;
use message::{Body, Request, Response, SharedBody, SharedBodyWriter, shared_body};
use net::worker::block_on_local;
use plugin::Stage;
use sharing::{Coalesce, Flights};
use tokio::sync::oneshot;

use crate::client::{Answers, Client};
use crate::served;

const SHARED_BYTES_MAX: u64 = 10_000;

/// Two workers that share their flights. Each run of their handler is counted, and answers with a
/// body the test adds to.
struct Two {
    addresses: [SocketAddr; 2],
    runs: Arc<AtomicUsize>,
    stops: Vec<oneshot::Sender<()>>,
    threads: Vec<JoinHandle<()>>,
}

impl Two {
    fn start(source: &SharedBody) -> Two {
        let (flights, runs) = (Arc::new(Flights::default()), Arc::new(AtomicUsize::new(0)));
        let anywhere = SocketAddr::from(([127, 0, 0, 1], 0));
        let sockets = [(); 2].map(|()| served::listen(anywhere).unwrap());
        let addresses = [sockets[0].0, sockets[1].0];
        let mut two = Two { addresses, runs, stops: Vec::new(), threads: Vec::new() };
        for socket in sockets {
            let (flights, runs, source) = (flights.clone(), two.runs.clone(), source.clone());
            let (stop, stopped) = oneshot::channel();
            let work = move || async move {
                let handler = Answers(move |request: &mut Request| {
                    runs.fetch_add(1, Ordering::SeqCst);
                    let private = request.target.path() == "/private";
                    let body = if private { Body::from("yours") } else { source.body() };
                    let mut response = Response::text(200, body);
                    if private {
                        response.headers.append("set-cookie", "a=b");
                    }
                    Ok(response)
                });
                let stage = Stage::Middleware(Rc::new(Coalesce::new(flights, SHARED_BYTES_MAX)));
                tokio::select! {
                    ended = served::serve_route(socket, vec![stage], Rc::new(handler)) => {
                        ended.unwrap();
                    }
                    _ = stopped => {}
                }
            };
            two.threads.push(net::worker::spawn("coalescing".to_owned(), None, work).unwrap());
            two.stops.push(stop);
        }
        two
    }

    fn runs(&self) -> usize {
        self.runs.load(Ordering::SeqCst)
    }
}

impl Drop for Two {
    fn drop(&mut self) {
        self.stops.clear();
        for thread in self.threads.drain(..) {
            thread.join().unwrap();
        }
    }
}

fn source() -> (SharedBodyWriter, Two) {
    let (writer, source) = shared_body(1 << 20, Some(10));
    (writer, Two::start(&source))
}

async fn begin(address: SocketAddr, path: &str) -> Client {
    let mut client = Client::connect(address).await;
    client.get(path).await;
    let head = client.head().await;
    assert!(head.contains("Content-Length: 10\r\n"), "{head}");
    client
}

#[test]
fn requests_of_two_workers_share_one_run_and_see_it_grow() {
    block_on_local(async {
        let (mut writer, two) = source();
        let mut clients = vec![begin(two.addresses[0], "/").await];
        writer.push(Bytes::from_static(b"first")).unwrap();
        assert_eq!(clients[0].read(5).await, "first");
        for address in [two.addresses[1], two.addresses[0], two.addresses[1]] {
            let mut client = begin(address, "/").await;
            assert_eq!(client.read(5).await, "first", "from the beginning");
            clients.push(client);
        }
        assert_eq!(two.runs(), 1);
        writer.push(Bytes::from_static(b"-last")).unwrap();
        writer.finish(None);
        for client in &mut clients {
            assert_eq!(client.read(5).await, "-last");
        }
        // It has ended: the next request leads the next run.
        let mut client = begin(two.addresses[0], "/other").await;
        assert_eq!((client.read(10).await.as_str(), two.runs()), ("first-last", 2));
    });
}

#[test]
fn others_do_not_notice_that_the_first_client_leaves() {
    block_on_local(async {
        let (mut writer, two) = source();
        let mut leader = begin(two.addresses[0], "/").await;
        writer.push(Bytes::from_static(b"first")).unwrap();
        leader.read(5).await;
        let mut follower = begin(two.addresses[1], "/").await;
        drop(leader);
        assert_eq!(follower.read(5).await, "first");
        writer.push(Bytes::from_static(b"-last")).unwrap();
        writer.finish(None);
        assert_eq!(follower.read(5).await, "-last");
        assert_eq!(two.runs(), 1);
    });
}

#[test]
fn what_is_for_one_is_not_shared() {
    block_on_local(async {
        let (_writer, two) = source();
        for address in two.addresses {
            let mut client = Client::connect(address).await;
            client.get("/private").await;
            assert!(client.head().await.contains("Set-Cookie: a=b\r\n"));
            assert_eq!(client.read(5).await, "yours");
        }
        assert_eq!(two.runs(), 2);
    });
}
