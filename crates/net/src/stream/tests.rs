//! Streams over real sockets: no bytes are lost, none are retained, no task starves.

use super::*;
use crate::worker::block_on_local;

#[test]
fn bytes_arrive_and_then_the_end() {
    block_on_local(async {
        let (one, other) = Stream::pair().unwrap();
        let mut outgoing = Outgoing::default();
        outgoing.push(Bytes::from_static(b"hello "));
        outgoing.push(Bytes::from_static(b"world"));
        one.send_all(&mut outgoing).await.unwrap();
        assert_eq!(&other.receive().await.unwrap()[..], b"hello world");
        assert_eq!(one.try_send_slice(b"more").unwrap(), 4);
        let mut room = [0; 3];
        assert_eq!(poll_fn(|cx| other.poll_readable(cx)).await.ok(), Some(()));
        assert_eq!((other.try_receive_into(&mut room).unwrap(), &room), (3, b"mor"));
        assert_eq!((other.try_receive_into(&mut room).unwrap(), room[0]), (1, b'e'));
        let nothing = other.try_receive_into(&mut room).unwrap_err();
        assert_eq!(nothing.kind(), io::ErrorKind::WouldBlock);
        assert!(other.is_idle());
        one.finish();
        assert!(other.receive().await.unwrap().is_empty());
    });
}

/// Whether no failure is known once every event of the sockets has been taken.
async fn has_not_failed(stream: &Stream) -> bool {
    crate::manual_time::idle().await;
    crate::timer::within(std::time::Duration::ZERO, stream.failed()).await.is_none()
}

#[test]
fn a_reset_is_noticed_without_reading() {
    block_on_local(async {
        let bind = crate::Bind::Tcp("127.0.0.1:0".parse().unwrap());
        let options = crate::ListenOptions::default();
        let listening = crate::Listening::bind(&bind, 1, &options).unwrap();
        let crate::Bind::Tcp(address) = *listening.local() else { panic!("TCP") };
        let listener = listening.into_sockets().remove(0).adopt().unwrap();
        for resets in [false, true] {
            let client = Stream::connect_tcp(address).await.unwrap();
            let server = listener.accept().await.unwrap().stream;
            let mut outgoing = Outgoing::default();
            outgoing.push(Bytes::from_static(b"never read"));
            client.send_all(&mut outgoing).await.unwrap();
            poll_fn(|cx| server.poll_readable(cx)).await.unwrap();
            assert!(has_not_failed(&server).await);
            if resets {
                client.abort();
                server.failed().await;
            } else {
                // An end after bytes may come from a client that waits for its response.
                drop(client);
                assert!(has_not_failed(&server).await);
            }
        }
    });
}

#[test]
fn a_full_socket_waits_for_the_reader() {
    block_on_local(async {
        let (one, other) = Stream::pair().unwrap();
        let total = 4 * 1024 * 1024;
        let writer = crate::task::spawn_local(async move {
            let mut outgoing = Outgoing::default();
            outgoing.push(Bytes::from(vec![7u8; total]));
            one.send_all(&mut outgoing).await.unwrap();
        });
        let mut got = 0;
        while got < total {
            let chunk = other.receive().await.unwrap();
            assert!(chunk.iter().all(|byte| *byte == 7));
            got += chunk.len();
        }
        writer.await.unwrap();
        assert_eq!(got, total);
    });
}

/// Polls once, as long as the budget allows, with a peer that is always faster; returns the bytes
/// moved.
async fn one_turn(mut step: impl FnMut(&mut Context<'_>) -> Poll<io::Result<usize>>) -> usize {
    let mut moved = 0;
    poll_fn(|cx| {
        while let Poll::Ready(taken) = step(cx)
            && moved < 64 * 1024 * 1024
        {
            moved += taken.unwrap();
        }
        Poll::Ready(moved)
    })
    .await
}

#[test]
fn a_peer_that_is_always_faster_does_not_starve_the_worker() {
    use std::io::{Read, Write};
    block_on_local(async {
        let (one, mut other) = std::os::unix::net::UnixStream::pair().unwrap();
        one.set_nonblocking(true).unwrap();
        let one = Stream::from_descriptor(one.into(), false).unwrap();
        let mut room = vec![7; 32 * 1024];
        for _ in 0..3 {
            other.write_all(&room).unwrap();
        }
        poll_fn(|cx| one.poll_readable(cx)).await.unwrap();
        let received = one_turn(|cx| {
            let chunk = ready!(one.poll_receive(cx))?;
            other.write_all(&chunk)?;
            Poll::Ready(Ok(chunk.len()))
        });
        assert!(received.await < 8 * 1024 * 1024);
        tokio::task::yield_now().await;
        let mut outgoing = Outgoing::default();
        let sent = one_turn(|cx| {
            outgoing.push(Bytes::from_static(&[7; 32 * 1024]));
            let sent = ready!(one.poll_send(cx, &mut outgoing))?;
            other.read_exact(&mut room[..sent])?;
            Poll::Ready(Ok(sent))
        });
        assert!(sent.await < 8 * 1024 * 1024);
    });
}

#[test]
fn a_parked_connection_is_taken_over_by_another_worker() {
    let (parked, other) = block_on_local(async {
        let (one, other) = Stream::pair().unwrap();
        (one.park().unwrap(), other.park().unwrap())
    });
    assert!(parked.is_idle());
    std::thread::spawn(move || {
        block_on_local(async {
            let one = parked.adopt().unwrap();
            let mut outgoing = Outgoing::default();
            outgoing.push(Bytes::from_static(b"still here"));
            one.send_all(&mut outgoing).await.unwrap();
        });
    })
    .join()
    .unwrap();
    assert!(!other.is_idle());
}

#[test]
fn a_file_range_follows_its_head() {
    block_on_local(async {
        let (one, other) = Stream::pair().unwrap();
        let file = std::sync::Arc::new(std::fs::File::open("src/stream.rs").unwrap());
        let mut outgoing = Outgoing::default();
        outgoing.push(Bytes::from_static(b"head:"));
        outgoing.push_file(crate::FileRange { file, offset: 0, length: 17 });
        one.send_all(&mut outgoing).await.unwrap();
        one.finish();
        let mut got = Vec::new();
        loop {
            let chunk = other.receive().await.unwrap();
            if chunk.is_empty() {
                break;
            }
            got.extend_from_slice(&chunk);
        }
        assert_eq!(&got, b"head://! A byte stream");
    });
}

#[test]
fn a_truncated_file_is_an_error_at_once() {
    block_on_local(async {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let one = Stream::connect_tcp(listener.local_addr().unwrap()).await.unwrap();
        let file = std::sync::Arc::new(std::fs::File::open("src/stream.rs").unwrap());
        let length = file.metadata().unwrap().len() + 1;
        let mut outgoing = Outgoing::default();
        outgoing.push_file(crate::FileRange { file, offset: 0, length });
        let timeout = std::time::Duration::from_secs(5);
        let sent = crate::timer::within(timeout, one.send_all(&mut outgoing)).await;
        assert_eq!(sent.unwrap().unwrap_err().kind(), io::ErrorKind::UnexpectedEof);
    });
}
