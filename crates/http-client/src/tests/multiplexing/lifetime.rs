//! When connections of HTTP/2 end, and how that is noticed.

use std::cell::Cell;

use net::manual_time::advance;

use super::*;

#[test]
fn an_idle_connection_is_closed() {
    block_on_local(async {
        let server = Server::start();
        let limits = PoolLimits { idle: Duration::from_millis(40), ..PoolLimits::default() };
        let pool = Pool::of(&context(), "test", &endpoint(&server), limits);
        let serve = async {
            let mut peer = Peer::accept(&server, Config::default()).await;
            let (stream, _) = peer.request().await;
            peer.respond(stream, b"ok").await;
            // The settings that the client acknowledges come before the end.
            read_end(&peer.stream).await;
        };
        let ask = async { assert_eq!(body(get(&pool).await).await, b"ok") };
        tokio::join!(serve, ask);
        assert!(pool.take(Upgrade::None).is_none());
    });
}

#[test]
fn a_request_after_a_silence_goes_with_a_ping() {
    net::manual_time::block_on(async {
        let (server, pool) = shared();
        let serve = async {
            let mut peer = Peer::accept(&server, Config::default()).await;
            let (stream, _) = peer.request().await;
            peer.respond(stream, b"first").await;
            // The protocol acknowledges the PING by itself.
            let (slow, _) = peer.request().await;
            peer.flush().await;
            let (stream, _) = peer.request().await;
            peer.respond(slow, b"slow").await;
            peer.respond(stream, b"third").await;
            // Now it no longer reacts at all.
            read_end(&peer.stream).await
        };
        let ask = async {
            assert_eq!(body(get(&pool).await).await, b"first");
            advance(Duration::from_secs(11)).await;
            let slow = async { body(get(&pool).await).await };
            let third = async {
                // Longer than a PING may take: it was acknowledged.
                advance(Duration::from_secs(12)).await;
                body(get(&pool).await).await
            };
            let (slow, third) = tokio::join!(slow, third);
            assert_eq!((slow, third), (b"slow".to_vec(), b"third".to_vec()));
            advance(Duration::from_secs(11)).await;
            let (lost, ()) = tokio::join!(get(&pool), advance(Duration::from_secs(11)));
            let fault = lost.err().unwrap();
            assert_eq!(
                (fault.kind, fault.retry),
                (FaultKind::ConnectionTerminated, Retry::IfIdempotent)
            );
            assert!(fault.detail.contains("PING"), "{fault}");
        };
        let (rest, ()) = tokio::join!(serve, ask);
        // A frame of type 6 on stream 0.
        assert!(rest.windows(9).any(|frame| frame == [0, 0, 8, 6, 0, 0, 0, 0, 0]));
    });
}

#[test]
fn a_connection_that_stays_silent_takes_no_more_requests() {
    net::manual_time::block_on(async {
        let (server, pool) = shared();
        let options = || ClientOptions { response: Duration::from_secs(5), ..options() };
        let serve = async {
            let mut first = Peer::accept(&server, Config::default()).await;
            let (stream, _) = first.request().await;
            first.respond(stream, b"ok").await;
            first.request().await;
            let mut second = Peer::accept(&server, Config::default()).await;
            let (stream, _) = second.request().await;
            second.respond(stream, b"new").await;
            (first, second)
        };
        let ask = async {
            assert_eq!(body(get(&pool).await).await, b"ok");
            advance(Duration::from_secs(1)).await;
            let request = request(Method::Get);
            let lost = ask_with(&pool, &request, Body::Empty, options());
            let (lost, ()) = tokio::join!(lost, advance(Duration::from_secs(6)));
            assert_eq!(lost.err().unwrap().kind, FaultKind::ResponseTimeout);
            assert_eq!(body(get(&pool).await).await, b"new");
        };
        tokio::join!(serve, ask);
    });
}

#[test]
fn idle_connections_are_closed_for_their_descriptors() {
    block_on_local(async {
        let server = Server::start();
        let context = context();
        let pool = Pool::of(&context, "test", &endpoint(&server), PoolLimits::default());
        let serve = async {
            let mut peer = Peer::accept(&server, Config::default()).await;
            let (first, _) = peer.request().await;
            // In use it is not closed.
            assert_eq!(crate::close_idle(&context), 0);
            peer.respond(first, b"ok").await;
            peer
        };
        let (peer, outcome) = tokio::join!(serve, get(&pool));
        assert_eq!(body(outcome).await, b"ok");
        let state = || Pool::state(&context.shared, "test", &endpoint(&server), 1);
        assert_eq!((state().shared, state().active), (1, 0));
        assert_eq!(crate::close_idle(&context), 1);
        assert!(pool.take(Upgrade::None).is_none());
        read_end(&peer.stream).await;
        assert_eq!(state().shared, 0);
    });
}

#[test]
fn the_write_time_out_begins_with_the_last_part_that_the_server_took() {
    net::manual_time::block_on(async {
        let (server, pool) = shared();
        let options = ClientOptions { write: Duration::from_secs(30), ..options() };
        let put = request(Method::Put);
        let body = Body::Bytes(Bytes::from(vec![0; 1 << 20]));
        let has_ended = Cell::new(false);
        let ask = async {
            let outcome = ask_with(&pool, &put, body, options).await;
            has_ended.set(true);
            outcome.err().unwrap()
        };
        let serve = async {
            const WINDOW: usize = 65_535;
            let config = Config { stream_window: WINDOW as u32, ..Config::default() };
            let mut peer = Peer::accept(&server, config).await;
            let (stream, _) = peer.request().await;
            for pause in [0, 29, 2] {
                advance(Duration::from_secs(pause)).await;
                assert!(!has_ended.get(), "the server has taken a part in time");
                peer.core.release(stream, WINDOW);
                peer.flush().await;
                let mut received = 0;
                while received < WINDOW {
                    let event = peer.event().await;
                    let Event::Data { data, .. } = event else { panic!("{event:?}") };
                    received += data.len();
                }
            }
            advance(Duration::from_secs(29)).await;
            assert!(!has_ended.get());
            advance(Duration::from_secs(2)).await;
            assert!(has_ended.get(), "the time-out has passed since the last part");
            peer
        };
        let (fault, _peer) = tokio::join!(ask, serve);
        assert_eq!((fault.status, fault.slug()), (504, "connection_write_timeout"));
    });
}
