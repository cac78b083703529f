//! A service without free descriptors keeps running and accepts the queued connection once one is
//! free. The only test of its process, because it lowers the process's limit.

use std::fs::File;
use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use rustix::process::{Resource, Rlimit, setrlimit};

use net::{Bind, Outgoing, Peer, ServeOptions, Stream, serve};

const DESCRIPTORS: u64 = 64;

async fn echo(stream: Stream, _: Peer) {
    while let Ok(chunk) = stream.receive().await {
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

fn request(client: &mut TcpStream) -> std::io::Result<[u8; 4]> {
    let mut answer = [0; 4];
    client.write_all(b"ping")?;
    client.read_exact(&mut answer)?;
    Ok(answer)
}

#[test]
fn a_service_without_descriptors_keeps_running() {
    let limit = Rlimit { current: Some(DESCRIPTORS), maximum: Some(DESCRIPTORS) };
    setrlimit(Resource::Nofile, limit).unwrap();

    let binds = [Bind::Tcp("127.0.0.1:0".parse().unwrap())];
    let options = ServeOptions { workers: 1, ..ServeOptions::default() };
    let serving = serve(&binds, &options, echo).unwrap();
    let Bind::Tcp(address) = serving.local()[0] else { panic!("TCP was requested") };
    let mut early = TcpStream::connect(address).unwrap();
    assert_eq!(&request(&mut early).unwrap(), b"ping");

    let mut taken: Vec<File> = std::iter::from_fn(|| File::open("/dev/null").ok()).collect();
    taken.pop();
    // The last descriptor is the client's: the server has none for its end.
    let mut late = TcpStream::connect(address).unwrap();
    late.set_read_timeout(Some(Duration::from_millis(150))).unwrap();
    let unanswered = request(&mut late).unwrap_err().kind();
    assert!(matches!(unanswered, ErrorKind::WouldBlock | ErrorKind::TimedOut), "{unanswered}");
    assert_eq!(&request(&mut early).unwrap(), b"ping", "other connections continue");

    drop(taken);
    late.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
    let mut answer = [0; 4];
    late.read_exact(&mut answer).unwrap();
    assert_eq!(&answer, b"ping");
}
