//! Responses that are cut off, or too long.

use bytes::Bytes;
use message::{Fault, shared_body};
use net::worker::block_on_local;
use settings::node;

use crate::site::{Site, done, get, growing_response, response_with, text};

const KEPT: (&str, &str) = ("cache-control", "max-age=60");

#[test]
fn a_response_that_is_cut_off_is_not_stored_and_its_readers_get_an_error() {
    block_on_local(async {
        // The connection fails, the body ends early, and the body is longer than declared.
        for (length, broken, rest) in [
            (None, true, ""),
            (Some(100), true, ""),
            (Some(100), false, ""),
            (Some(4), false, "more"),
        ] {
            let (site, mut origin) = Site::plain();
            let route = site.worker(0);
            let (leader, follower) = (get(&route, "/").await, get(&route, "/").await);
            let (mut writer, content) = shared_body(1 << 20, length);
            origin.next_call().await.respond(growing_response(&[KEPT], &content));
            writer.push(Bytes::from_static(b"some")).unwrap();
            writer.push(Bytes::from_static(rest.as_bytes())).unwrap();
            match broken {
                true => writer.fail(Fault::internal("on purpose")),
                false => writer.finish(None),
            }
            for client in [leader, follower] {
                let got = done(client).await.unwrap();
                assert!(got.text().await.is_err(), "{length:?} {broken} {rest:?}");
            }
            let next = get(&route, "/").await;
            origin.next_call().await.respond(response_with(200, &[KEPT], "whole"));
            assert_eq!(text(next).await, "whole");
        }
    });
}

#[test]
fn a_response_that_becomes_too_long_continues_for_its_readers_alone() {
    block_on_local(async {
        let (site, mut origin) = Site::new(|| node!({ "store": "pages", "max_size": "1KiB" }));
        let route = site.worker(0);
        let (one, two) = (get(&route, "/").await, get(&route, "/").await);
        let (mut writer, content) = shared_body(1 << 30, None);
        origin.next_call().await.respond(growing_response(&[KEPT], &content));
        let clients = [done(one).await.unwrap(), done(two).await.unwrap()];
        let readers = clients.map(|got| tokio::task::spawn_local(got.text()));
        for _ in 0..100 {
            writer.push(vec![b'x'; 20_000].into()).unwrap();
        }
        writer.finish(None);
        for reader in readers {
            assert_eq!(reader.await.unwrap().unwrap().len(), 2_000_000);
        }
        // The cache remembers it: the next requests do not wait for each other.
        let (one, two) = (get(&route, "/").await, get(&route, "/").await);
        let calls = [origin.next_call().await, origin.next_call().await];
        for call in calls {
            call.respond(response_with(200, &[("cache-control", "no-store")], "short"));
        }
        assert_eq!((text(one).await, text(two).await), ("short".into(), "short".into()));
    });
}

#[test]
fn a_slow_reader_has_all_of_it_long_after_it_was_stored() {
    block_on_local(async {
        let (site, mut origin) = Site::plain();
        let route = site.worker(0);
        let (quick, slow) = (get(&route, "/").await, get(&route, "/").await);
        let (mut writer, content) = shared_body(1 << 20, None);
        origin.next_call().await.respond(growing_response(&[KEPT], &content));
        let slow = done(slow).await.unwrap();
        for piece in ["one ", "two ", "three"] {
            writer.push(Bytes::from_static(piece.as_bytes())).unwrap();
        }
        writer.finish(None);
        assert_eq!(text(quick).await, "one two three");
        assert_eq!(text(get(&route, "/").await).await, "one two three");
        assert_eq!(slow.text().await.unwrap(), "one two three");
        assert!(origin.is_idle());
    });
}

/// Fetches in flight share a budget: a response that gets no memory is forwarded to one client.
#[test]
fn what_finds_no_room_is_passed_on() {
    const LENGTH: u64 = 12 << 20;
    block_on_local(async {
        let (site, mut origin) = Site::with_memory("64MiB");
        let route = site.worker(0);
        let mut writers = Vec::new();
        let mut clients = Vec::new();
        // Each fetch takes 12 of the 64 MiB for fetches in flight.
        for at in 0..6 {
            let client = get(&route, &format!("/{at}")).await;
            let (writer, content) = shared_body(1 << 30, Some(LENGTH));
            origin.next_call().await.respond(growing_response(&[KEPT], &content));
            writers.push(writer);
            clients.push(done(client).await.unwrap());
        }
        let statuses: Vec<&str> = clients.iter().map(|got| got.field("cache-status")).collect();
        assert!(statuses[..5].iter().all(|statuses| statuses.contains("; stored")), "{statuses:?}");
        assert_eq!(statuses[5], "tidegate; fwd=uri-miss; detail=failed");
        for (mut writer, got) in writers.into_iter().zip(clients) {
            let reading = tokio::task::spawn_local(got.text());
            for _ in 0..12 {
                writer.push(vec![b'x'; 1 << 20].into()).unwrap();
                tokio::task::yield_now().await;
            }
            writer.finish(None);
            assert_eq!(reading.await.unwrap().unwrap().len() as u64, LENGTH);
        }
        // The shortage is not remembered, and memory is free again.
        let client = get(&route, "/6").await;
        let (writer, content) = shared_body(1 << 30, Some(LENGTH));
        origin.next_call().await.respond(growing_response(&[KEPT], &content));
        assert!(done(client).await.unwrap().field("cache-status").contains("; stored"));
        drop(writer);
    });
}
