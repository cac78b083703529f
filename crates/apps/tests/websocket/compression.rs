//! permessage-deflate (RFC 7692), if it is enabled.

use apps::websocket::WebSocketSettings;
use coding::{Deflater, Inflater};
use net::worker::block_on_local;
use settings::Size;
use wire::websocket::{FrameHead, Inflate, Message, Opcode, Violation, unmask};

use crate::client::{Client, request};
use crate::server::echoing;

const OFFER: &str = "Sec-WebSocket-Extensions: permessage-deflate; client_max_window_bits\r\n";

fn compressing() -> WebSocketSettings {
    let settings = WebSocketSettings::default();
    WebSocketSettings { compression: true, message_size: Size::from_bytes(1 << 20), ..settings }
}

struct Inflating(Inflater);

impl Inflate for Inflating {
    fn inflate(&mut self, payload: &[u8], limit: usize) -> Result<Vec<u8>, Violation> {
        self.0.message(payload, limit).map_err(|_| Violation { code: 1007, text: "corrupt" })
    }
}

async fn connect(settings: WebSocketSettings, offer: &str) -> (Client, String) {
    let mut client = Client::dial(echoing(settings)).await;
    client.send(request(offer)).await;
    let head = client.head().await;
    client.inflating(Box::new(Inflating(Inflater::new())));
    (client, head)
}

/// A compressed message.
fn compressed(payload: &[u8], opcode: Opcode) -> Vec<u8> {
    let mut coded = Vec::new();
    Deflater::new(6, 15).message(payload, &mut coded).unwrap();
    let mask = [1, 2, 3, 4];
    let head = FrameHead::new(opcode, coded.len());
    let mut out = Vec::new();
    FrameHead { compressed: true, mask: Some(mask), ..head }.write(&mut out);
    unmask(&mut coded, mask);
    out.extend(coded);
    out
}

#[test]
fn compression_is_negotiated_only_if_enabled_and_offered() {
    block_on_local(async {
        let (_, head) = connect(compressing(), OFFER).await;
        let agreed = "permessage-deflate; server_no_context_takeover; client_no_context_takeover";
        assert!(head.contains(&format!("Sec-WebSocket-Extensions: {agreed}\r\n")), "{head}");
        for (settings, offer) in [(compressing(), ""), (WebSocketSettings::default(), OFFER)] {
            let (_, head) = connect(settings, offer).await;
            assert!(!head.to_ascii_lowercase().contains("sec-websocket-extensions"), "{head}");
        }
    });
}

#[test]
fn messages_are_compressed_if_that_makes_them_smaller() {
    block_on_local(async {
        let (mut client, _) = connect(compressing(), OFFER).await;
        let long = "again and ".repeat(200);
        for text in ["short", &long] {
            client.send(compressed(text.as_bytes(), Opcode::Text)).await;
            assert_eq!(client.message().await, Some(Message::Text(text.into())));
        }
        // The same, as it goes over the wire.
        client.send(compressed(long.as_bytes(), Opcode::Text)).await;
        client.send(crate::client::text("end")).await;
        let bytes = client.raw_until(b"end").await;
        assert!(bytes.len() < 100 && bytes[0] == 0xc1, "{bytes:x?}");
    });
}

#[test]
fn a_decompression_bomb_is_1009_and_invalid_deflate_is_1007() {
    block_on_local(async {
        for (bytes, code) in [
            (compressed(&vec![0; 8 << 20], Opcode::Binary), 1009),
            (vec![0xc1, 0x82, 0, 0, 0, 0, 0xff, 0xff], 1007),
            (compressed(b"\xff\xff", Opcode::Text), 1007),
        ] {
            let (mut client, _) = connect(compressing(), OFFER).await;
            client.send(bytes).await;
            let rest = client.rest().await;
            let [Message::Close(Some(said), _)] = rest[..] else { panic!("{rest:?}") };
            assert_eq!(said, code);
        }
    });
}
