//! Which connections are used again, and by which worker.

use std::future::poll_fn;

use net::manual_time::advance;
use net::worker::block_on_local;

use super::*;

const OK: &str = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";

/// Answers one request on a connection.
async fn answer(stream: &Stream, answer: &str) {
    read_head(stream).await;
    send(stream, answer).await;
}

/// Makes a kept connection; the server's end of it.
async fn keep_one(server: &Server, pool: &Rc<Pool>) -> Stream {
    let (stream, outcome) = tokio::join!(server.answer(OK), get(pool));
    assert_eq!(outcome.unwrap().status, 200);
    stream
}

/// Makes two at the same time, of which the pool keeps what it may.
async fn keep_two(server: &Server, pool: &Rc<Pool>) -> (Stream, Stream) {
    let serve = async {
        let (one, other) = (server.accept().await, server.accept().await);
        tokio::join!(answer(&one, OK), answer(&other, OK));
        (one, other)
    };
    let (streams, first, second) = tokio::join!(serve, get(pool), get(pool));
    assert!(first.is_ok() && second.is_ok());
    streams
}

#[test]
fn a_clean_connection_carries_the_next_request() {
    block_on_local(async {
        let server = Server::start();
        let context = context();
        let pool = server.pool(&context);
        let stream = keep_one(&server, &pool).await;
        for _ in 0..3 {
            let ((), outcome) = tokio::join!(answer(&stream, OK), get(&pool));
            assert_eq!(outcome.unwrap().status, 200);
        }
        let state = Pool::state(&context.shared, "test", &server.endpoint, 1);
        assert_eq!((state.active, state.idle, state.parked), (0, 1, 0));
    });
}

#[test]
fn connections_that_say_close_are_not_kept() {
    block_on_local(async {
        for answer in [
            "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\nok",
            "HTTP/1.0 200 OK\r\nContent-Length: 2\r\n\r\nok",
        ] {
            let (server, pool) = alone();
            let serve = server.answer_to_the_end(answer);
            let (_, outcome) = tokio::join!(serve, get(&pool));
            assert_eq!(outcome.unwrap().status, 200);
            assert!(pool.take(Upgrade::None).is_none());
        }
    });
}

#[test]
fn an_unrequested_response_ends_an_idle_connection() {
    block_on_local(async {
        let (server, pool) = alone();
        let stream = keep_one(&server, &pool).await;
        send(&stream, OK).await;
        // Once the event loop has seen it.
        let end = read_end(&stream);
        let taken = async {
            poll_fn(|cx| {
                let poll = pool.peek_readable(cx);
                assert!(poll.is_ready() || pool.idle_count() == 1);
                poll
            })
            .await;
            pool.take(Upgrade::None).is_none()
        };
        let (_, refused) = tokio::join!(end, taken);
        assert!(refused);
    });
}

#[test]
fn a_connection_closed_while_idle_is_known_dead() {
    block_on_local(async {
        let (server, pool) = alone();
        drop(keep_one(&server, &pool).await);
        poll_fn(|cx| pool.peek_readable(cx)).await;
        assert!(pool.take(Upgrade::None).is_none());
    });
}

#[test]
fn limits_bound_requests_and_number() {
    block_on_local(async {
        let (server, pool) = alone();
        pool.set_limits(PoolLimits { max_requests: 1, ..PoolLimits::default() });
        let stream = keep_one(&server, &pool).await;
        assert!(pool.take(Upgrade::None).is_none());
        read_end(&stream).await;
        pool.set_limits(PoolLimits { max_idle: 0, ..PoolLimits::default() });
        let stream = keep_one(&server, &pool).await;
        assert!(pool.take(Upgrade::None).is_none());
        read_end(&stream).await;
        pool.set_limits(PoolLimits { max_idle: 1, ..PoolLimits::default() });
        let streams = keep_two(&server, &pool).await;
        assert!(pool.take(Upgrade::None).is_some());
        assert_eq!(pool.idle_count(), 0);
        drop(streams);
    });
}

#[test]
fn idle_connections_end_with_their_time() {
    net::manual_time::block_on(async {
        let (server, pool) = alone();
        let idle = Duration::from_secs(40);
        pool.set_limits(PoolLimits { idle, ..PoolLimits::default() });
        let stream = keep_one(&server, &pool).await;
        // Up to an eighth shorter, so that not all end at once.
        advance(idle - idle / 8 - Duration::from_secs(1)).await;
        assert_eq!(pool.idle_count(), 1);
        // The sweeper closes it; no request uses the pool.
        advance(idle).await;
        assert_eq!(pool.idle_count(), 0);
        assert!(read_end(&stream).await.is_empty());
    });
}

#[test]
fn a_parked_connection_is_taken_over_by_another_worker() {
    let shared: Arc<Shared> = Arc::default();
    let (tell, told) = std::sync::mpsc::channel();
    let (go, may_go) = tokio::sync::oneshot::channel::<()>();
    let first = {
        let shared = shared.clone();
        std::thread::spawn(move || {
            block_on_local(async {
                let server = Server::start();
                let context = context_of(&shared, 0, 2);
                let pool = server.pool(&context);
                let stream = keep_one(&server, &pool).await;
                // The keeper parks it after a second.
                while Pool::state(&shared, "test", &server.endpoint, 2).parked == 0 {
                    net::timer::sleep(Duration::from_millis(20)).await;
                }
                assert_eq!(pool.idle_count(), 0);
                tell.send(server.endpoint.clone()).unwrap();
                // The same connection carries the other worker's request.
                answer(&stream, OK).await;
                may_go.await.unwrap();
            });
        })
    };
    let endpoint = told.recv().unwrap();
    block_on_local(async {
        let context = context_of(&shared, 1, 2);
        let pool = Pool::of(&context, "test", &endpoint, PoolLimits::default());
        let lease = pool.take(Upgrade::None).expect("a parked connection");
        assert!(lease.is_reused());
        let options = Rc::new(options());
        let call = Call { options: &options, host: &HostField::Preserve, server: "server:1" };
        let request = request(Method::Get);
        let response = send_request(lease, &request, Body::Empty, &call).await.unwrap();
        assert_eq!(response.status, 200);
        let state = Pool::state(&shared, "test", &endpoint, 2);
        assert_eq!((state.active, state.idle, state.parked), (0, 1, 0));
    });
    go.send(()).unwrap();
    first.join().unwrap();
}

#[test]
fn what_is_above_a_workers_share_is_parked() {
    block_on_local(async {
        let shared: Arc<Shared> = Arc::default();
        let server = Server::start();
        let context = context_of(&shared, 0, 2);
        let pool = server.pool(&context);
        pool.set_limits(PoolLimits { max_idle: 2, ..PoolLimits::default() });
        let _streams = keep_two(&server, &pool).await;
        let state = Pool::state(&shared, "test", &server.endpoint, 2);
        assert_eq!((state.active, state.idle, state.parked), (0, 1, 1));
        // Its own worker takes it back once it has none.
        let leases = (pool.take(Upgrade::None), pool.take(Upgrade::None));
        assert!(leases.0.is_some() && leases.1.is_some());
    });
}

#[test]
fn a_connection_that_died_while_parked_is_passed_over() {
    block_on_local(async {
        let shared: Arc<Shared> = Arc::default();
        let server = Server::start();
        let context = context_of(&shared, 0, 2);
        let pool = server.pool(&context);
        pool.set_limits(PoolLimits { max_idle: 2, ..PoolLimits::default() });
        drop(keep_two(&server, &pool).await);
        // Both ends are closed by now, as the kernel knows at once on one machine.
        poll_fn(|cx| pool.peek_readable(cx)).await;
        assert!(pool.take(Upgrade::None).is_none());
        let state = Pool::state(&shared, "test", &server.endpoint, 2);
        assert_eq!((state.active, state.idle, state.parked), (0, 0, 0));
    });
}
