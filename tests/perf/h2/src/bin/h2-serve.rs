//! A server around the HTTP/2 core of `wire`, with one thread for each connection, to be examined
//! by h2spec, h2load and curl without the rest of Tidegate:
//!
//! ```text
//! cd tests/perf/h2 && cargo run --bin h2-serve -- 127.0.0.1:8080
//! h2spec -h 127.0.0.1 -p 8080
//! ```

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::ExitCode;

use bytes::Bytes;
use wire::Known;
use wire::h2::{Config, Connection, Event, Field, Output, StreamKey};

fn main() -> ExitCode {
    let Some(address) = std::env::args().nth(1) else {
        eprintln!("usage: h2-serve HOST:PORT");
        return ExitCode::FAILURE;
    };
    let listener = match TcpListener::bind(&address) {
        Ok(listener) => listener,
        Err(error) => {
            eprintln!("h2-serve: {address}: {error}");
            return ExitCode::FAILURE;
        }
    };
    for stream in listener.incoming().flatten() {
        std::thread::spawn(move || serve(stream));
    }
    ExitCode::SUCCESS
}

#[derive(Default)]
struct Sent(Vec<u8>);

impl Output<Bytes> for Sent {
    fn frames(&mut self, bytes: &mut Vec<u8>) {
        self.0.append(bytes);
    }

    fn payload(&mut self, payload: Bytes) {
        self.0.extend_from_slice(&payload);
    }
}

/// Serves a connection to its end; `None` is an error of the socket.
fn serve(mut stream: TcpStream) -> Option<()> {
    stream.set_nodelay(true).ok()?;
    let mut connection = Connection::server(Config::default());
    let mut buffer = vec![0; 64 * 1024];
    loop {
        let mut sent = Sent::default();
        connection.write(&mut sent, usize::MAX);
        stream.write_all(&sent.0).ok()?;
        if connection.is_finished() {
            return Some(());
        }
        let len = stream.read(&mut buffer).ok()?;
        if len == 0 {
            return Some(());
        }
        connection.receive(Bytes::copy_from_slice(&buffer[..len]));
        // A violation ends the connection: its GOAWAY is sent above.
        while let Ok(Some(event)) = connection.poll_event() {
            handle(&mut connection, event);
        }
    }
}

/// Responds at the end of each request.
fn handle(connection: &mut Connection, event: Event) {
    match event {
        Event::Request { stream, ends: true, .. } | Event::Trailers { stream } => {
            respond(connection, stream, 200);
        }
        Event::Rejected { stream, reject } => respond(connection, stream, reject.status()),
        Event::Data { stream, data, ends } => {
            connection.release(stream, data.len());
            if ends {
                respond(connection, stream, 200);
            }
        }
        _ => {}
    }
}

fn respond(connection: &mut Connection, stream: StreamKey, status: u16) {
    let field = |known, value| Field { known: Some(known), name: b"", value };
    let fields = [
        field(Known::Server, &b"tidegate"[..]),
        field(Known::ContentType, b"text/plain"),
        field(Known::ContentLength, b"12"),
    ];
    let sent = connection.respond(stream, status, fields, false);
    if sent.is_ok() {
        // The stream was open a moment ago.
        let _ = connection.send_data(stream, Bytes::from_static(b"Hello, World"), true);
    }
}
