//! The servers that both generators load, as processes of their own.

use std::io::{self, BufRead, BufReader, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use bench::load::Unsent;
use bytes::Bytes;
use rustls::crypto::aws_lc_rs::Ticketer;
use rustls::pki_types::PrivateKeyDer;
use rustls::{ServerConfig, ServerConnection, StreamOwned};
use wire::h2::{Config, Connection, Event, StreamKey};

/// Long enough that the CPU time of either client in a handshake does not matter.
const TLS_DELAY: Duration = Duration::from_millis(50);
const PONG: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\npong";

/// A child that listens; ended when dropped.
pub(super) struct Server {
    child: Child,
    pub(super) address: SocketAddr,
    /// As DER, of a server that has one.
    pub(super) certificate: Vec<u8>,
}

impl Server {
    /// This program again, as one of its servers.
    pub(super) fn ours(kind: &str) -> io::Result<Self> {
        let program = std::env::current_exe()?;
        let mut child = Command::new(program).arg(kind).stdout(Stdio::piped()).spawn()?;
        let mut line = String::new();
        if let Some(output) = child.stdout.take() {
            BufReader::new(output).read_line(&mut line)?;
        }
        let said = line.trim().strip_prefix("listening ").unwrap_or_default();
        let (address, certificate) = said.split_once(' ').unwrap_or((said, ""));
        let Ok(address) = address.parse() else {
            child.kill()?;
            return Err(io::Error::other(format!("{kind} said {line}")));
        };
        let bytes = certificate.split(',').filter_map(|byte| byte.parse().ok());
        Ok(Self { child, address, certificate: bytes.collect() })
    }

    /// `None` if it is not installed.
    pub(super) fn redis() -> io::Result<Option<Self>> {
        let address = TcpListener::bind("127.0.0.1:0")?.local_addr()?;
        let started = Command::new("redis-server")
            .args(["--port", &address.port().to_string(), "--bind", "127.0.0.1"])
            .args(["--save", "", "--appendonly", "no"])
            .stdout(Stdio::null())
            .spawn();
        let Ok(child) = started else { return Ok(None) };
        let server = Self { child, address, certificate: Vec::new() };
        for _ in 0..500 {
            if TcpStream::connect(address).is_ok() {
                return Ok(Some(server));
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        Err(io::Error::other("redis-server does not accept"))
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Serves each connection on its own thread, with a number of its own, and prints the address.
pub(super) fn paced(serve: fn(TcpStream, u64) -> io::Result<()>) -> io::Result<()> {
    accept(TcpListener::bind("127.0.0.1:0")?, "", serve)
}

/// Responds after a fixed delay over TLS 1.3, once for each connection: a client that makes one
/// after the other sees too few for the random ones to be alike.
pub(super) fn paced_tls() -> io::Result<()> {
    let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]);
    let made = made.map_err(io::Error::other)?;
    let key =
        PrivateKeyDer::try_from(made.signing_key.serialize_der()).map_err(io::Error::other)?;
    let mut config = ServerConfig::builder()
        .with_no_client_auth()
        .with_single_cert(vec![made.cert.der().clone()], key)
        .map_err(io::Error::other)?;
    // openssl uses a ticket again and again.
    config.ticketer = Ticketer::new().map_err(io::Error::other)?;
    let config = Arc::new(config);
    let certificate: Vec<String> = made.cert.der().iter().map(u8::to_string).collect();
    accept(TcpListener::bind("127.0.0.1:0")?, &certificate.join(","), move |stream, _| {
        let tls = ServerConnection::new(config.clone()).map_err(io::Error::other)?;
        let mut stream = StreamOwned::new(tls, stream);
        let mut request = [0; 4096];
        let _ = stream.read(&mut request)?;
        std::thread::sleep(TLS_DELAY);
        stream.write_all(PONG)?;
        stream.conn.send_close_notify();
        stream.flush()
    })
}

fn accept(
    listener: TcpListener,
    said: &str,
    serve: impl Fn(TcpStream, u64) -> io::Result<()> + Send + Sync + 'static,
) -> io::Result<()> {
    let mut stdout = io::stdout().lock();
    writeln!(stdout, "listening {} {said}", listener.local_addr()?)?;
    stdout.flush()?;
    let serve = Arc::new(serve);
    for (number, stream) in listener.incoming().enumerate() {
        let (stream, serve) = (stream?, Arc::clone(&serve));
        stream.set_nodelay(true)?;
        // A client that is gone ends its thread.
        std::thread::spawn(move || drop(serve(stream, number as u64)));
    }
    Ok(())
}

/// From 2 to 12 ms, one in fifty 40 ms, in an order that is always the same.
fn delay(rng: &mut fastrand::Rng) -> Duration {
    Duration::from_micros(if rng.u8(..50) == 0 { 40_000 } else { rng.u64(2_000..12_000) })
}

/// Responds after the delay in HTTP/1.1, or in RESP if the first byte is not `G`.
pub(super) fn respond(mut stream: TcpStream, number: u64) -> io::Result<()> {
    let mut rng = fastrand::Rng::with_seed(number);
    let mut buffer = [0; 4096];
    loop {
        let count = stream.read(&mut buffer)?;
        let request = &buffer[..count];
        if request.is_empty() {
            return Ok(());
        }
        // redis-benchmark asks for two settings before it begins, in one write each.
        if request.starts_with(b"*") && request.windows(6).any(|word| word == b"CONFIG") {
            let settings = request.windows(6).filter(|word| *word == b"CONFIG").count();
            stream.write_all(&b"*0\r\n".repeat(settings))?;
            continue;
        }
        std::thread::sleep(delay(&mut rng));
        let answer = if request.starts_with(b"G") { PONG } else { b"+PONG\r\n" };
        stream.write_all(answer)?;
    }
}

/// Responds in HTTP/2; each stream has its own delay.
pub(super) fn respond_streams(mut stream: TcpStream, number: u64) -> io::Result<()> {
    let mut rng = fastrand::Rng::with_seed(number);
    let mut connection = Connection::<Bytes>::server(Config::default());
    let mut due: Vec<(Instant, StreamKey)> = Vec::new();
    let mut buffer = [0; 4096];
    loop {
        let now = Instant::now();
        due.retain(|(at, key)| {
            if *at <= now {
                // A stream that its client has reset gets nothing.
                let _ = connection
                    .respond(*key, 200, [], false)
                    .and_then(|()| connection.send_data(*key, Bytes::from_static(b"pong"), true));
            }
            *at > now
        });
        let mut out = Unsent::default();
        connection.write(&mut out, usize::MAX);
        stream.write_all(out.rest())?;
        let next = due.iter().map(|(at, _)| at.saturating_duration_since(now)).min();
        stream.set_read_timeout(next)?;
        match stream.read(&mut buffer) {
            Ok(0) => return Ok(()),
            Ok(count) => connection.receive(Bytes::copy_from_slice(&buffer[..count])),
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {}
            Err(error) => return Err(error),
        }
        let broken = |violation| io::Error::other(format!("{violation:?}"));
        while let Some(event) = connection.poll_event().map_err(broken)? {
            if let Event::Request { stream, .. } = event {
                due.push((Instant::now() + delay(&mut rng), stream));
            }
        }
    }
}
