//! Raw TCP through the public API: accepting, stopping, limits.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::unix::net::UnixStream;

use super::*;
use crate::outgoing::Outgoing;

const TIMEOUT: Duration = Duration::from_secs(10);

fn any_port() -> Bind {
    Bind::Tcp("127.0.0.1:0".parse().unwrap())
}

fn options(workers: usize) -> ServeOptions {
    ServeOptions { workers, ..ServeOptions::default() }
}

async fn echo(stream: Stream, _: Peer) {
    while let Some(Ok(chunk)) = until_stopping(stream.receive()).await {
        if chunk.is_empty() {
            return;
        }
        let mut outgoing = Outgoing::default();
        outgoing.push(chunk);
        if stream.send_all(&mut outgoing).await.is_err() {
            return;
        }
    }
}

fn address(serving: &Serving) -> SocketAddr {
    match serving.local()[0] {
        Bind::Tcp(address) => address,
        Bind::Unix(_) => panic!("TCP was requested"),
    }
}

fn connect(serving: &Serving) -> TcpStream {
    let client = TcpStream::connect(address(serving)).unwrap();
    client.set_read_timeout(Some(TIMEOUT)).unwrap();
    client
}

fn request(client: &mut (impl Read + Write), bytes: &[u8]) -> io::Result<Vec<u8>> {
    client.write_all(bytes)?;
    let mut answer = vec![0; bytes.len()];
    client.read_exact(&mut answer)?;
    Ok(answer)
}

#[test]
fn every_bind_is_served_and_a_stop_lets_handlers_end() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("echo.sock");
    let binds = [any_port(), Bind::Unix(path.clone())];
    let serving = serve(&binds, &options(2), echo).unwrap();
    let mut clients: Vec<_> = (0..20).map(|_| connect(&serving)).collect();
    for client in &mut clients {
        assert_eq!(request(client, b"over TCP").unwrap(), b"over TCP");
    }
    let mut local = UnixStream::connect(&path).unwrap();
    assert_eq!(request(&mut local, b"over Unix").unwrap(), b"over Unix");

    assert_eq!(serving.stop(TIMEOUT), 0);
    for client in &mut clients {
        assert_eq!(client.read(&mut [0; 8]).unwrap(), 0);
    }
    assert!(!path.exists());
}

#[test]
fn connections_that_outlive_the_grace_period_are_aborted_and_counted() {
    let deaf = |stream: Stream, _: Peer| async move {
        while stream.receive().await.is_ok_and(|chunk| !chunk.is_empty()) {}
        std::future::pending::<()>().await;
    };
    let serving = serve(&[any_port()], &options(1), deaf).unwrap();
    let mut clients = [connect(&serving), connect(&serving)];
    assert_eq!(serving.stop(Duration::from_millis(20)), 2);
    for client in &mut clients {
        assert_eq!(client.read(&mut [0; 8]).unwrap(), 0);
    }
}

#[test]
fn connections_queued_by_the_kernel_are_served() {
    // The only worker is blocked, so that the connections are still queued when the stop comes.
    let (hold, held) = mpsc::channel::<()>();
    let held = Arc::new(std::sync::Mutex::new(held));
    let handler = move |stream: Stream, peer: Peer| {
        let held = held.clone();
        async move {
            let _ = held.lock().unwrap().recv();
            let mut outgoing = Outgoing::default();
            outgoing.push(bytes::Bytes::from_static(b"served"));
            let _ = stream.send_all(&mut outgoing).await;
            echo(stream, peer).await;
        }
    };
    let serving = serve(&[any_port()], &options(1), handler).unwrap();
    let mut clients: Vec<_> = (0..5).map(|_| connect(&serving)).collect();
    let stopping = std::thread::spawn(move || serving.stop(TIMEOUT));
    drop(hold);
    for client in &mut clients {
        let mut got = Vec::new();
        client.read_to_end(&mut got).unwrap();
        assert_eq!(got, b"served");
    }
    assert_eq!(stopping.join().unwrap(), 0);
}

#[test]
fn a_connection_above_the_limit_is_closed_and_a_released_permit_is_reused() {
    let options = ServeOptions { connections: 2, ..options(2) };
    let serving = serve(&[any_port()], &options, echo).unwrap();
    let mut seated = [connect(&serving), connect(&serving)];
    for client in &mut seated {
        request(client, b"hello").unwrap();
    }
    let refused = request(&mut connect(&serving), b"hello").unwrap_err();
    assert_ne!(refused.kind(), io::ErrorKind::WouldBlock, "closed, not left waiting");
    assert_eq!(request(&mut seated[1], b"still here").unwrap(), b"still here");
    drop(seated);
    // The permits are free once the workers have seen the end of both.
    while request(&mut connect(&serving), b"again").is_err() {}
}

#[test]
fn a_panicking_handler_affects_no_other_connection() {
    let handler = |stream: Stream, _: Peer| async move {
        let bytes = stream.receive().await.unwrap();
        assert_ne!(&bytes[..], b"panic", "as asked");
        let mut outgoing = Outgoing::default();
        outgoing.push(bytes);
        stream.send_all(&mut outgoing).await.unwrap();
    };
    let options = ServeOptions { connections: 1, ..options(1) };
    let serving = serve(&[any_port()], &options, handler).unwrap();
    assert!(request(&mut connect(&serving), b"panic").is_err());
    assert_eq!(request(&mut connect(&serving), b"hello").unwrap(), b"hello");
}

#[test]
fn an_address_in_use_is_a_readable_error() {
    let serving = serve(&[any_port()], &options(1), echo).unwrap();
    let taken = serve(serving.local(), &options(1), echo).unwrap_err();
    assert_eq!(taken.kind(), io::ErrorKind::AddrInUse);
    let expected = format!("cannot listen on {}: the address is in use", serving.local()[0]);
    assert_eq!(taken.to_string(), expected);
}
