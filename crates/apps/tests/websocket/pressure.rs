//! Back-pressure in both directions.

use std::future::poll_fn;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{channel, sync_channel};

use apps::websocket::WebSocketSettings;
use bytes::Bytes;
use net::worker::block_on_local;
use offload::session::{Accepted, Message as Said, Received};
use offload::wait;
use tokio::sync::mpsc::unbounded_channel;
use wire::websocket::{Message, Opcode};

use crate::client::{Client, frame};
use crate::server::{next, start};

const MANY: usize = 400;
const LARGE: usize = 64 * 1024;

#[test]
fn a_client_is_held_back_if_the_application_does_not_read() {
    let (go, may) = channel::<()>();
    let may = std::sync::Mutex::new(may);
    let (counted, counts) = sync_channel(1);
    block_on_local(async {
        let (address, _) = start(WebSocketSettings::default(), move |mut handed| {
            handed.session.accept(Accepted::default()).unwrap();
            may.lock().unwrap().recv().unwrap();
            let mut count = 0;
            while let Received::Message(_) = next(&mut handed.session) {
                count += 1;
            }
            counted.send(count).unwrap();
        });
        let client = Client::connect(address).await;
        let message = frame(Opcode::Binary, true, &vec![7; LARGE]);
        let sent = Arc::new(AtomicUsize::new(0));
        let sends = async {
            for _ in 0..MANY {
                client.send(&message).await;
                sent.fetch_add(1, Ordering::SeqCst);
            }
            client.send(crate::client::goodbye(1000, "")).await;
        };
        let mut sends = std::pin::pin!(sends);
        // Far less than all of it fits into the buffers between; then the client must wait.
        let held = net::timer::within(std::time::Duration::from_millis(500), &mut sends).await;
        assert!(held.is_none(), "26 MB were taken although the application reads none");
        go.send(()).unwrap();
        sends.await;
        let count = tokio::task::spawn_blocking(move || counts.recv().unwrap()).await.unwrap();
        assert_eq!(count, MANY);
    });
}

#[test]
fn the_application_is_held_back_if_the_client_does_not_read() {
    let (told, mut tells) = unbounded_channel();
    block_on_local(async {
        let (address, _) = start(WebSocketSettings::default(), move |mut handed| {
            let session = &mut handed.session;
            session.accept(Accepted::default()).unwrap();
            let large = Bytes::from(vec![7; LARGE]);
            for sent in 0..MANY {
                let ready = poll_fn(|cx| {
                    let ready = session.poll_ready(cx);
                    if ready.is_pending() {
                        told.send(sent).unwrap();
                    }
                    ready
                });
                wait(ready).unwrap();
                session.send(Said::Binary(large.clone())).unwrap();
            }
            next(session);
        });
        let mut client = Client::connect(address).await;
        // Not necessarily at once: the kernel buffers a lot. But not all of it.
        assert!(tells.recv().await.is_some(), "the application never had to wait");
        for _ in 0..MANY {
            assert!(client.message().await == Some(Message::Binary(vec![7; LARGE])));
        }
    });
}

#[test]
fn very_many_small_messages_pass_in_order() {
    block_on_local(async {
        let address = crate::server::echoing(WebSocketSettings::default());
        let mut client = Client::connect(address).await;
        let bytes: Vec<u8> =
            (0..5000).flat_map(|n| frame(Opcode::Text, true, n.to_string().as_bytes())).collect();
        client.send(bytes).await;
        for n in 0..5000 {
            assert_eq!(client.message().await, Some(Message::Text(n.to_string().into_bytes())));
        }
    });
}
