//! The chat: every guest gets every message, and a departure is announced.
#![allow(clippy::disallowed_types, reason = "the client side of a test opens its own sockets")]

use super::{Example, client};
use std::io::{Read, Write};
use std::net::TcpStream;

/// A client of RFC 6455 that says and hears short texts.
struct Guest {
    stream: TcpStream,
}

impl Guest {
    fn enter(chat: &Example) -> Guest {
        let mut stream = chat.connect();
        let head = "GET /chat HTTP/1.1\r\nHost: chat\r\nConnection: keep-alive, Upgrade\r\n\
                    Upgrade: websocket\r\nSec-WebSocket-Version: 13\r\n\
                    Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n";
        stream.write_all(head.as_bytes()).expect("the program reads");
        let mut response = Vec::new();
        while !response.ends_with(b"\r\n\r\n") {
            response.push(byte(&mut stream));
        }
        let response = String::from_utf8_lossy(&response).into_owned();
        assert!(response.starts_with("HTTP/1.1 101 "), "{response}");
        // The response to the sample key of RFC 6455 section 1.3.
        assert!(response.contains("s3pPLMBiTxaQ9kYGzzhZRbK+xOo="), "{response}");
        Guest { stream }
    }

    fn send(&mut self, opcode: u8, payload: &[u8]) {
        // Masked with zeros, which changes nothing.
        let head = [0x80 | opcode, 0x80 | payload.len() as u8, 0, 0, 0, 0];
        self.stream.write_all(&[&head, payload].concat()).expect("the program reads");
    }

    fn receive(&mut self) -> (u8, String) {
        let opcode = byte(&mut self.stream) & 0x0f;
        let length = byte(&mut self.stream);
        assert!(length < 126, "{length}");
        let mut payload = vec![0; length.into()];
        self.stream.read_exact(&mut payload).expect("a payload");
        (opcode, String::from_utf8_lossy(&payload).into_owned())
    }

    fn hears(&mut self, text: &str) {
        assert_eq!(self.receive(), (1, text.to_owned()));
    }
}

fn byte(stream: &mut TcpStream) -> u8 {
    let mut byte = [0];
    stream.read_exact(&mut byte).expect("a byte");
    byte[0]
}

#[test]
fn every_guest_gets_every_message() {
    let chat = Example::start("chat.lua", &[]);
    let mut first = Guest::enter(&chat);
    first.hears("guest 1 is here");
    let mut second = Guest::enter(&chat);
    first.hears("guest 2 is here");
    second.hears("guest 2 is here");
    first.send(1, b"good day");
    first.hears("guest 1: good day");
    second.hears("guest 1: good day");
    // A ping gets a response by the server itself.
    first.send(9, b"still there?");
    assert_eq!(first.receive(), (10, "still there?".to_owned()));
    second.send(8, &1000u16.to_be_bytes());
    first.hears("guest 2 has left");
    drop(first);
    if let Some(page) = client("curl", &["-s", &format!("http://{}/", chat.address)]) {
        assert!(page.stdout.contains("new WebSocket("), "{page:?}");
    }
    chat.stop();
}
