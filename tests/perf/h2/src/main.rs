//! Instructions that a server spends on HTTP/2, by our core and by the crate `h2`.
//!
//! Both get the same recorded bytes of a client, a batch of requests in each read, and give the
//! same responses to a sink, so that no socket and no scheduler is measured. The difference between
//! two counts, divided by the difference of their requests, gives the instructions of one request.
//! Those of `record`, which only makes the input, are subtracted:
//!
//! ```text
//! cd tests/perf/h2 && cargo build
//! for n in 1000 2000; do
//!   valgrind --tool=callgrind --callgrind-out-file=/dev/null \
//!     target/debug/h2-instructions wire 10 hello $n
//! done
//! ```

use std::collections::VecDeque;
use std::hint::black_box;
use std::io;
use std::pin::Pin;
use std::process::ExitCode;
use std::task::{Context, Poll};

use bytes::Bytes;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use wire::h2::{Config, Connection, Event, Field, Output, RequestLine};
use wire::{Known, Method};

const DATE: &str = "Sun, 22 Nov 2026 12:00:00 GMT";
const USAGE: &str = "usage: h2-instructions record|wire|h2 STREAMS hello|16k BATCHES";

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [which, streams, body, batches] = &args[..] else {
        eprintln!("{USAGE}");
        return ExitCode::FAILURE;
    };
    let (Ok(streams), Ok(batches)) = (streams.parse(), batches.parse()) else {
        eprintln!("{USAGE}");
        return ExitCode::FAILURE;
    };
    let body = match &body[..] {
        "hello" => Bytes::from_static(b"Hello, World"),
        _ => Bytes::from(vec![b'x'; 16 * 1024]),
    };
    let input = record(streams, batches);
    let served = match &which[..] {
        "record" => (streams * batches, 0),
        "wire" => serve_by_wire(input, &body),
        _ => serve_by_h2(input, body),
    };
    println!("{} requests, {} bytes sent", served.0, served.1);
    if served.0 == streams * batches { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

#[derive(Default)]
struct Sink {
    bytes: usize,
    last: Vec<u8>,
}

impl Output<Bytes> for Sink {
    fn frames(&mut self, bytes: &mut Vec<u8>) {
        self.bytes += bytes.len();
        self.last.clear();
        std::mem::swap(&mut self.last, bytes);
    }

    fn payload(&mut self, payload: Bytes) {
        self.bytes += payload.len();
        black_box(&payload);
    }
}

/// What a client sends, a batch in each element. Its windows never close.
fn record(streams: usize, batches: usize) -> VecDeque<Bytes> {
    let mut client = Connection::<Bytes>::client(Config {
        stream_window: 0x7fff_ffff,
        connection_window: 0x7fff_ffff,
        ..Config::default()
    });
    let mut server = Connection::<Bytes>::server(Config::default());
    let fields = [
        (Known::UserAgent, "h2load nghttp2/1.52.0"),
        (Known::Accept, "*/*"),
        (Known::AcceptEncoding, "gzip"),
    ];
    let fields = fields.map(|(known, value)| Field {
        known: Some(known),
        name: known.as_str().as_bytes(),
        value: value.as_bytes(),
    });
    let mut input = VecDeque::new();
    // Bodies of 16 KiB fill a window of 2 GiB after 131,000 requests.
    assert!(streams * batches < 131_000, "too many requests for one connection");
    for _ in 0..batches {
        for _ in 0..streams {
            let line = RequestLine {
                method: &Method::Get,
                secure: false,
                authority: b"127.0.0.1:8080",
                path: b"/hello",
                protocol: None,
            };
            client.request(line, fields, true).expect("a stream");
        }
        let mut sink = Sink::default();
        client.write(&mut sink, usize::MAX);
        let chunk = Bytes::from(sink.last);
        input.push_back(chunk.clone());
        // The client may open the next streams once these have ended.
        server.receive(chunk);
        while let Some(event) = server.poll_event().expect("valid frames") {
            if let Event::Request { stream, .. } = event {
                server.respond(stream, 204, [], true).expect("an open stream");
            }
        }
        let mut sink = Sink::default();
        server.write(&mut sink, usize::MAX);
        client.receive(Bytes::from(sink.last));
        while client.poll_event().expect("valid frames").is_some() {}
    }
    input
}

fn serve_by_wire(input: VecDeque<Bytes>, body: &Bytes) -> (usize, usize) {
    let mut server = Connection::<Bytes>::server(Config::default());
    let mut sink = Sink::default();
    let mut served = 0;
    let length = body.len().to_string();
    let field = |known: Known, value| Field { known: Some(known), name: b"", value };
    for chunk in input {
        server.receive(chunk);
        while let Some(event) = server.poll_event().expect("valid frames") {
            let Event::Request { stream, head, .. } = event else { continue };
            black_box((&head, server.fields()));
            let fields = [
                field(Known::Server, &b"tidegate"[..]),
                field(Known::Date, DATE.as_bytes()),
                field(Known::ContentType, b"text/plain"),
                field(Known::ContentLength, length.as_bytes()),
            ];
            server.respond(stream, 200, fields, false).expect("an open stream");
            server.send_data(stream, body.clone(), true).expect("an open stream");
            served += 1;
        }
        server.write(&mut sink, usize::MAX);
    }
    (served, sink.bytes)
}

/// Reads the recorded batches and counts what is written.
struct Recorded {
    input: VecDeque<Bytes>,
    written: std::rc::Rc<std::cell::Cell<usize>>,
}

impl AsyncRead for Recorded {
    fn poll_read(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if let Some(mut chunk) = self.input.pop_front() {
            let part = chunk.split_to(chunk.len().min(buf.remaining()));
            buf.put_slice(&part);
            if !chunk.is_empty() {
                self.input.push_front(chunk);
            }
        }
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Recorded {
    fn poll_write(
        self: Pin<&mut Self>,
        _: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.written.set(self.written.get() + buf.len());
        Poll::Ready(Ok(buf.len()))
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        _: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let len = bufs.iter().map(|buf| buf.len()).sum();
        self.written.set(self.written.get() + len);
        Poll::Ready(Ok(len))
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}

fn serve_by_h2(input: VecDeque<Bytes>, body: Bytes) -> (usize, usize) {
    let written = std::rc::Rc::default();
    let io = Recorded { input, written: std::rc::Rc::clone(&written) };
    let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
    let served = runtime.block_on(async {
        let mut connection = h2::server::handshake(io).await.expect("a preface");
        let mut served = 0;
        while let Some(request) = connection.accept().await {
            let (request, mut respond) = request.expect("valid frames");
            black_box(&request);
            let response = http::Response::builder()
                .status(200)
                .header(http::header::SERVER, http::HeaderValue::from_static("tidegate"))
                .header(http::header::DATE, http::HeaderValue::from_static(DATE))
                .header(http::header::CONTENT_TYPE, http::HeaderValue::from_static("text/plain"))
                .header(http::header::CONTENT_LENGTH, http::HeaderValue::from(body.len()))
                .body(())
                .expect("a response");
            let mut send = respond.send_response(response, false).expect("an open stream");
            send.send_data(body.clone(), true).expect("an open stream");
            served += 1;
        }
        served
    });
    (served, written.get())
}
