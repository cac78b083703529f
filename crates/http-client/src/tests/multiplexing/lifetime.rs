//! When connections of HTTP/2 end, and how that is noticed.

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
