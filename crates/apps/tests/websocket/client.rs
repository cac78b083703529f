//! A client that sends exactly what a test wants.

use std::net::SocketAddr;
use std::time::Duration;

use bytes::{Buf, Bytes};
use net::{Outgoing, Stream};
use wire::websocket::{Decoder, Inflate, Message, Opcode, write_frame};

const TIMEOUT: Duration = Duration::from_secs(10);
const MASK: [u8; 4] = [0x37, 0xfa, 0x21, 0x3d];
const MESSAGE_BYTES_MAX: usize = 64 * 1024 * 1024;

pub(crate) struct Client {
    stream: Stream,
    received: Bytes,
    decoder: Decoder,
}

/// A frame of a client.
pub(crate) fn frame(opcode: Opcode, last: bool, payload: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    write_frame(&mut out, opcode, last, payload, Some(MASK));
    out
}

pub(crate) fn text(text: &str) -> Vec<u8> {
    frame(Opcode::Text, true, text.as_bytes())
}

/// A close frame with a code and a reason.
pub(crate) fn goodbye(code: u16, reason: &str) -> Vec<u8> {
    let mut payload = Vec::from(code.to_be_bytes());
    payload.extend_from_slice(reason.as_bytes());
    frame(Opcode::Close, true, &payload)
}

/// The upgrade request, with additional headers.
pub(crate) fn request(more: &str) -> String {
    format!(
        "GET /ws_session HTTP/1.1\r\nHost: a\r\nConnection: keep-alive, Upgrade\r\n\
         Upgrade: WebSocket\r\nSec-WebSocket-Version: 13\r\n\
         Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n{more}\r\n"
    )
}

impl Client {
    pub(crate) async fn dial(address: SocketAddr) -> Client {
        let stream = Stream::connect_tcp(address).await.unwrap();
        let decoder = Decoder::new(false, MESSAGE_BYTES_MAX);
        Client { stream, received: Bytes::new(), decoder }
    }

    /// Opens a session that is accepted.
    pub(crate) async fn connect(address: SocketAddr) -> Client {
        let mut client = Client::dial(address).await;
        client.send(request("")).await;
        let head = client.head().await;
        assert!(head.starts_with("HTTP/1.1 101 "), "{head}");
        client
    }

    pub(crate) async fn send(&self, bytes: impl AsRef<[u8]>) {
        assert!(self.try_send(bytes).await, "the connection is gone");
    }

    /// Returns false if the connection is closed.
    pub(crate) async fn try_send(&self, bytes: impl AsRef<[u8]>) -> bool {
        let mut outgoing = Outgoing::default();
        outgoing.push(Bytes::copy_from_slice(bytes.as_ref()));
        self.stream.send_all(&mut outgoing).await.is_ok()
    }

    /// Reads more bytes; false at the end.
    async fn more(&mut self) -> bool {
        let received = net::timer::within(TIMEOUT, self.stream.receive()).await;
        let chunk = received.expect("something within ten seconds").unwrap_or_default();
        let came = !chunk.is_empty();
        self.received = [&self.received[..], &chunk].concat().into();
        came
    }

    /// Reads a response head with the blank line after it.
    pub(crate) async fn head(&mut self) -> String {
        loop {
            let end = self.received.windows(4).position(|window| window == b"\r\n\r\n");
            if let Some(at) = end {
                let head = self.received.split_to(at + 4);
                return String::from_utf8_lossy(&head).into_owned();
            }
            assert!(self.more().await, "closed after {:?}", self.received);
        }
    }

    /// The next message; none at the end.
    pub(crate) async fn message(&mut self) -> Option<Message> {
        loop {
            let mut rest = &self.received[..];
            let message = self.decoder.message(&mut rest).unwrap();
            let read = self.received.len() - rest.len();
            self.received.advance(read);
            if message.is_some() {
                return message;
            }
            if !self.more().await {
                return None;
            }
        }
    }

    /// Enables decompression.
    pub(crate) fn inflating(&mut self, inflate: Box<dyn Inflate>) {
        self.decoder = Decoder::new(false, MESSAGE_BYTES_MAX).inflating(inflate);
    }

    /// Reads raw bytes up to a suffix.
    pub(crate) async fn raw_until(&mut self, end: &[u8]) -> Bytes {
        while !self.received.ends_with(end) {
            assert!(self.more().await, "closed after {:?}", self.received);
        }
        std::mem::take(&mut self.received)
    }

    /// Reads messages up to a close frame, ends the sending side, and reads to the end.
    pub(crate) async fn rest(&mut self) -> Vec<Message> {
        let mut messages = Vec::new();
        while let Some(message) = self.message().await {
            if matches!(message, Message::Close(..)) {
                self.finish();
            }
            messages.push(message);
        }
        messages
    }

    /// Ends the sending side.
    pub(crate) fn finish(&self) {
        self.stream.finish();
    }

    /// Everything up to the end of the connection.
    pub(crate) async fn bytes(&mut self) -> Bytes {
        while self.more().await {}
        std::mem::take(&mut self.received)
    }
}
