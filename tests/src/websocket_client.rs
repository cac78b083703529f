//! A client of RFC 6455 that sends and receives short messages.

use crate::PATIENCE;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};

pub struct WebSocketClient {
    stream: TcpStream,
}

impl WebSocketClient {
    pub const TEXT: u8 = 1;

    /// Connects, with the header fields of a browser.
    pub fn connect(address: SocketAddr, path: &str) -> WebSocketClient {
        let mut stream = TcpStream::connect(address).expect("the server accepts");
        stream.set_read_timeout(Some(PATIENCE)).expect("a time-out");
        let head = format!(
            "GET {path} HTTP/1.1\r\nHost: {address}\r\nConnection: keep-alive, Upgrade\r\n\
             Upgrade: websocket\r\nSec-WebSocket-Version: 13\r\n\
             Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
        );
        stream.write_all(head.as_bytes()).expect("the server reads");
        let mut response = Vec::new();
        while !response.ends_with(b"\r\n\r\n") {
            response.extend(read::<1>(&mut stream));
        }
        let response = String::from_utf8_lossy(&response).into_owned();
        assert!(response.starts_with("HTTP/1.1 101 "), "{response}");
        // The response to the sample key of RFC 6455 section 1.3.
        assert!(response.contains("s3pPLMBiTxaQ9kYGzzhZRbK+xOo="), "{response}");
        WebSocketClient { stream }
    }

    /// Sends a message of at most 125 bytes.
    pub fn send(&mut self, opcode: u8, payload: &[u8]) {
        let length = u8::try_from(payload.len()).expect("a short payload");
        assert!(length < 126, "{length}");
        // Masked with zeros, which changes nothing.
        let head = [0x80 | opcode, 0x80 | length, 0, 0, 0, 0];
        self.stream.write_all(&[&head, payload].concat()).expect("the server reads");
    }

    /// The opcode and the payload of the next frame.
    pub fn receive(&mut self) -> (u8, String) {
        let [first, second] = read(&mut self.stream);
        let length = match second {
            126 => u16::from_be_bytes(read(&mut self.stream)).into(),
            length => usize::from(length),
        };
        assert!(second < 127, "a frame of more than 64 KiB");
        let mut payload = vec![0; length];
        self.stream.read_exact(&mut payload).expect("a payload");
        (first & 0x0f, String::from_utf8_lossy(&payload).into_owned())
    }
}

fn read<const N: usize>(stream: &mut TcpStream) -> [u8; N] {
    let mut bytes = [0; N];
    stream.read_exact(&mut bytes).expect("more bytes");
    bytes
}
