//! A client of HTTP/2 on the loop of the test: requests through the protocol's own client side, and
//! any frame that no honest client sends.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::time::Duration;

use bytes::Bytes;
use net::{Outgoing, Stream};
use wire::Method;
use wire::h2::{
    Config, Connection, ErrorCode, Event, Field, Output, PREFACE, RequestLine, StreamKey,
};

const TIMEOUT: Duration = Duration::from_secs(10);

/// What the client has received on a stream.
#[derive(Debug, Default)]
pub(crate) struct Received {
    pub(crate) interim: Vec<u16>,
    pub(crate) status: u16,
    /// The fields of the last section, as lines of HTTP/1.
    pub(crate) fields: String,
    pub(crate) body: Vec<u8>,
    pub(crate) trailers: Option<String>,
    pub(crate) reset: Option<ErrorCode>,
    pub(crate) is_whole: bool,
}

pub(crate) struct Http2Client {
    pub(crate) stream: Stream,
    pub(crate) protocol: Connection<Bytes>,
    received: HashMap<StreamKey, Received>,
    /// The streams of the DATA frames that came, in their order.
    pub(crate) order: Vec<StreamKey>,
    /// Content that arrives is not released: the windows of the server close.
    pub(crate) holds_windows: bool,
    pub(crate) is_closed: bool,
    pub(crate) goaway: Option<ErrorCode>,
}

struct Sink<'a>(&'a mut Outgoing);

impl Output<Bytes> for Sink<'_> {
    fn frames(&mut self, bytes: &mut Vec<u8>) {
        self.0.push(Bytes::from(std::mem::take(bytes)));
    }

    fn payload(&mut self, payload: Bytes) {
        self.0.push(payload);
    }
}

/// A field of a request or of trailers.
pub(crate) fn field<'a>(name: &'a str, value: &'a str) -> Field<'a> {
    let known = wire::Known::from_bytes(name.as_bytes());
    Field { known, name: name.as_bytes(), value: value.as_bytes() }
}

/// A frame as bytes.
pub(crate) fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len()).unwrap().to_be_bytes();
    let mut frame = length[1..].to_vec();
    frame.extend_from_slice(&[kind, flags]);
    frame.extend_from_slice(&stream.to_be_bytes());
    frame.extend_from_slice(payload);
    frame
}

/// The bytes with which a client begins: its preface and empty settings.
pub(crate) fn beginning() -> Vec<u8> {
    [&PREFACE[..], &frame(4, 0, 0, b"")].concat()
}

/// Sends bytes of the test's own.
pub(crate) async fn send_raw(stream: &Stream, bytes: Vec<u8>) {
    let mut outgoing = Outgoing::default();
    outgoing.push(Bytes::from(bytes));
    // A server that has ended the connection takes no more.
    let _ = stream.send_all(&mut outgoing).await;
}

/// Receives until the server has closed the connection; the code of its last GOAWAY.
pub(crate) async fn goaway_at_end(stream: &Stream) -> Option<ErrorCode> {
    let mut received = Vec::new();
    loop {
        let chunk = net::timer::within(TIMEOUT, stream.receive()).await;
        let chunk = chunk.expect("something within ten seconds").unwrap_or_default();
        if chunk.is_empty() {
            break;
        }
        received.extend_from_slice(&chunk);
    }
    let (mut rest, mut code) = (&received[..], None);
    while let Some(([l0, l1, l2, kind, ..], after)) = rest.split_first_chunk::<9>() {
        let length = u32::from_be_bytes([0, *l0, *l1, *l2]) as usize;
        let (payload, after) = after.split_at(length);
        if *kind == 7 {
            code = Some(ErrorCode(u32::from_be_bytes(payload[4..8].try_into().unwrap())));
        }
        rest = after;
    }
    code
}

impl Http2Client {
    pub(crate) async fn connect(address: SocketAddr) -> Http2Client {
        Http2Client::of(Stream::connect_tcp(address).await.unwrap())
    }

    pub(crate) fn of(stream: Stream) -> Http2Client {
        Http2Client {
            stream,
            protocol: Connection::client(Config::default()),
            received: HashMap::new(),
            order: Vec::new(),
            holds_windows: false,
            is_closed: false,
            goaway: None,
        }
    }

    /// Begins a request, whole if `ends`.
    pub(crate) fn open(&mut self, method: &str, path: &str, ends: bool) -> StreamKey {
        self.open_with(method, path, &[], ends)
    }

    pub(crate) fn open_with(
        &mut self,
        method: &str,
        path: &str,
        fields: &[Field<'_>],
        ends: bool,
    ) -> StreamKey {
        let method = Method::parse(method.as_bytes()).unwrap();
        let (authority, path) = (b"a".as_slice(), path.as_bytes());
        let line = RequestLine { method: &method, secure: false, authority, path, protocol: None };
        self.protocol.request(line, fields.iter().copied(), ends).unwrap()
    }

    /// Begins a request with a field that is written as it is.
    pub(crate) fn open_unchecked(&mut self, path: &str, name: &str, value: &str) -> StreamKey {
        let field = Field { known: None, name: name.as_bytes(), value: value.as_bytes() };
        self.open_with("GET", path, &[field], true)
    }

    /// Asks for a WebSocket (RFC 8441).
    pub(crate) fn open_tunnel(&mut self, protocol: &str) -> StreamKey {
        let line = RequestLine {
            method: &Method::Connect,
            secure: false,
            authority: b"a",
            path: b"/",
            protocol: Some(protocol.as_bytes()),
        };
        self.protocol.request(line, [field("sec-websocket-version", "13")], false).unwrap()
    }

    /// Sends what the protocol has to send.
    pub(crate) async fn flush(&mut self) {
        let mut outgoing = Outgoing::default();
        self.protocol.write(&mut Sink(&mut outgoing), usize::MAX);
        // A server that has ended the connection takes no more.
        let _ = self.stream.send_all(&mut outgoing).await;
    }

    /// Sends what there is, and handles what the server sends next.
    pub(crate) async fn turn(&mut self) {
        self.flush().await;
        let received = net::timer::within(TIMEOUT, self.stream.receive()).await;
        let chunk = received.expect("something within ten seconds").unwrap_or_default();
        self.is_closed |= chunk.is_empty();
        self.protocol.receive(chunk);
        while let Some(event) = self.protocol.poll_event().unwrap() {
            self.handle(event);
        }
        self.flush().await;
    }

    fn handle(&mut self, event: Event) {
        let fields = || String::from_utf8(self.protocol.fields().text.to_vec()).unwrap();
        match event {
            Event::Response { stream, status, .. } if status < 200 => {
                self.received.entry(stream).or_default().interim.push(status);
            }
            Event::Response { stream, status, ends } => {
                let fields = fields();
                let received = self.received.entry(stream).or_default();
                (received.status, received.fields, received.is_whole) = (status, fields, ends);
            }
            Event::Data { stream, data, ends } => {
                if !self.holds_windows {
                    self.protocol.release(stream, data.len());
                }
                self.order.push(stream);
                let received = self.received.entry(stream).or_default();
                received.body.extend_from_slice(&data);
                received.is_whole = ends;
            }
            Event::Trailers { stream } => {
                let fields = fields();
                let received = self.received.entry(stream).or_default();
                (received.trailers, received.is_whole) = (Some(fields), true);
            }
            Event::Reset { stream, code, .. } => {
                self.received.entry(stream).or_default().reset = Some(code);
            }
            Event::GoAway { code } => self.goaway = Some(code),
            unexpected => panic!("a server sent {unexpected:?}"),
        }
    }

    /// What has arrived on a stream.
    pub(crate) fn seen(&mut self, stream: StreamKey) -> &mut Received {
        self.received.entry(stream).or_default()
    }

    /// Receives until this holds for what has arrived on a stream.
    pub(crate) async fn until(
        &mut self,
        stream: StreamKey,
        what: &str,
        holds: impl Fn(&Received) -> bool,
    ) {
        while !holds(self.seen(stream)) {
            assert!(!self.is_closed, "closed without {what}: {:?}", self.seen(stream));
            self.turn().await;
        }
    }

    /// Receives until a stream has ended, and returns what it brought.
    pub(crate) async fn response(&mut self, stream: StreamKey) -> Received {
        self.until(stream, "the end of a response", |it| it.is_whole || it.reset.is_some()).await;
        self.received.remove(&stream).unwrap()
    }

    /// Receives until the server has closed the connection; the code of its GOAWAY.
    pub(crate) async fn closed(&mut self) -> Option<ErrorCode> {
        while !self.is_closed {
            self.turn().await;
        }
        self.goaway
    }
}
