//! The example `elsewhere`: blocking code on another thread responds (extension point 8).

#[path = "../../examples/elsewhere/answering.rs"]
mod answering;

use std::net::SocketAddr;
use std::sync::mpsc::sync_channel;
use std::time::Duration;

use message::Headers;
use net::worker::block_on_local;
use offload::{Limits, OffloadHandler, OffloadedRequest, wait};

use crate::client::{Client, serve};

fn start() -> SocketAddr {
    let queue = answering::start(4).unwrap();
    serve(Vec::new(), OffloadHandler::new(queue, Limits::default()))
}

#[test]
fn blocking_code_responds() {
    block_on_local(async {
        let mut client = Client::connect(start()).await;
        let head = "POST /text HTTP/1.1\r\nHost: a\r\nContent-Length: 13\r\n";
        client.send(format!("{head}\r\none two three")).await;
        let answer = client.head().await;
        assert!(answer.contains("Content-Length: 15\r\n"), "{answer}");
        assert_eq!(client.read(15).await, "/text: 3 words\n");
        // Again, on the same connection, with 100 Continue by the thread's first read of the body.
        client.send(format!("{head}Expect: 100-continue\r\n\r\n")).await;
        assert!(client.head().await.starts_with("HTTP/1.1 100 "));
        client.send("four five six").await;
        client.head().await;
        assert_eq!(client.read(15).await, "/text: 3 words\n");
    });
}

#[test]
fn a_body_much_longer_than_the_queues_passes_both_ways() {
    block_on_local(async {
        let address = start();
        let mut client = Client::connect(address).await;
        client.send("POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n").await;
        let page = "word ".repeat(10_000);
        for _ in 0..40 {
            client.send(format!("{:x}\r\n{page}\r\n", page.len())).await;
        }
        client.send("0\r\n\r\n").await;
        client.head().await;
        assert_eq!(client.read_to("\n").await, "/: 400000 words\n");

        client.get("/count?to=200000").await;
        assert!(client.head().await.contains("Transfer-Encoding: chunked\r\n"));
        let body = client.read_to("0\r\nx-counted: 200000\r\n\r\n").await;
        assert!(body.contains("\n199999\n200000\n"));
    });
}

#[test]
fn a_client_that_leaves_is_noticed_and_the_thread_continues() {
    block_on_local(async {
        let address = start();
        let mut leaves = Client::connect(address).await;
        leaves.get("/count?to=1000000000000").await;
        leaves.read_to("\n1000\n").await;
        drop(leaves);
        // There is one thread: it answers because it has stopped counting.
        let mut client = Client::connect(address).await;
        client.get("/").await;
        client.head().await;
        assert_eq!(client.read_to("\n").await, "/: 0 words\n");
        client.get("/count?to=x").await;
        assert!(client.head().await.starts_with("HTTP/1.1 400 "));
    });
}

#[test]
fn a_full_queue_gets_503_at_once() {
    block_on_local(async {
        let (queue, exchanges) = sync_channel::<OffloadedRequest>(1);
        let address = serve(Vec::new(), OffloadHandler::new(queue, Limits::default()));
        let mut first = Client::connect(address).await;
        first.get("/").await;
        let mut second = Client::connect(address).await;
        // Whichever came first waits in the queue.
        second.get("/").await;
        let (refused, waiting) = tokio::select! {
            head = first.head() => (head, &mut second),
            head = second.head() => (head, &mut first),
        };
        assert!(refused.starts_with("HTTP/1.1 503 "), "{refused}");
        assert!(refused.contains("Retry-After: 1\r\n"), "{refused}");
        exchanges.recv().unwrap().answer.respond(200, Headers::new(), "late");
        waiting.head().await;
        assert_eq!(waiting.read(4).await, "late");
    });
}

#[test]
fn a_response_that_is_dropped_in_its_middle_cannot_pass_for_whole() {
    block_on_local(async {
        let (queue, exchanges) = sync_channel::<OffloadedRequest>(1);
        let breaking = std::thread::spawn(move || {
            let unanswered = exchanges.recv().unwrap();
            drop(unanswered);
            let mut sending = exchanges.recv().unwrap().answer.stream(200, Headers::new(), None);
            wait(sending.send("part")).unwrap();
        });
        let limits = Limits { answer: Duration::from_secs(10), ..Limits::default() };
        let mut client =
            Client::connect(serve(Vec::new(), OffloadHandler::new(queue, limits))).await;
        client.get("/").await;
        assert!(client.head().await.starts_with("HTTP/1.1 500 "));
        client.read_to("Error\n").await;
        client.get("/").await;
        let answer = client.rest().await;
        assert!(answer.ends_with("4\r\npart\r\n"), "{answer}");
        breaking.join().unwrap();
    });
}
