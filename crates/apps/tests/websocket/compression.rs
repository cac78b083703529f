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
    WebSocketSettings {
        compression: true,
        compression_memory: Size::from_bytes(0),
        message_size: Size::from_bytes(1 << 20),
        ..settings
    }
}

/// Messages refer to earlier ones.
fn taking_over() -> WebSocketSettings {
    WebSocketSettings { compression_memory: Size::from_bytes(1 << 20), ..compressing() }
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
    compressed_by(&mut Deflater::new(6, 15), payload, opcode)
}

fn compressed_by(deflater: &mut Deflater, payload: &[u8], opcode: Opcode) -> Vec<u8> {
    let mut coded = Vec::new();
    deflater.message(payload, &mut coded).unwrap();
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
        let default = WebSocketSettings::default();
        let (_, head) = connect(default.clone(), OFFER).await;
        assert!(head.contains("Sec-WebSocket-Extensions: permessage-deflate\r\n"), "{head}");
        let off = WebSocketSettings { compression: false, ..default };
        for (settings, offer) in [(compressing(), ""), (off, OFFER)] {
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

#[test]
fn context_takeover_is_agreed_within_its_memory_and_unless_the_client_excludes_it() {
    block_on_local(async {
        let parameters = |head: &str| {
            let line = head.lines().find(|line| line.starts_with("Sec-WebSocket-Extensions"));
            line.and_then(|line| line.split_once(": ")).map(|(_, value)| value.to_owned())
        };
        let (first, head) = connect(taking_over(), OFFER).await;
        assert_eq!(parameters(&head).unwrap(), "permessage-deflate");
        let offer = OFFER.replace("client_max", "client_no_context_takeover; client_max");
        let (second, head) = connect(taking_over(), &offer).await;
        assert_eq!(parameters(&head).unwrap(), "permessage-deflate; client_no_context_takeover");
        let little =
            WebSocketSettings { compression_memory: Size::from_bytes(400 << 10), ..taking_over() };
        let (third, head) = connect(little.clone(), OFFER).await;
        // The first two have reserved 384 KiB of this worker.
        assert_eq!(parameters(&head).unwrap().matches("no_context_takeover").count(), 2, "{head}");
        drop((first, second, third));
    });
}

#[test]
fn messages_refer_to_earlier_ones_of_their_connection() {
    block_on_local(async {
        let (mut client, _) = connect(taking_over(), OFFER).await;
        client.inflating(Box::new(Inflating(Inflater::with_context())));
        let mut deflater = Deflater::with_context(6, 15);
        let text: String = (0..600).map(|number| format!("{number:x}")).collect();
        for _ in 0..3 {
            client.send(compressed_by(&mut deflater, text.as_bytes(), Opcode::Text)).await;
            assert_eq!(client.message().await, Some(Message::Text(text.clone().into())));
        }
        // The fourth is a reference to the third, in both directions.
        let coded = compressed_by(&mut deflater, text.as_bytes(), Opcode::Text);
        assert!(coded.len() < 100, "{}", coded.len());
        client.send(coded).await;
        client.send(crate::client::text("end")).await;
        let bytes = client.raw_until(b"end").await;
        assert!(bytes.len() < 100 && bytes[0] == 0xc1, "{bytes:x?}");
    });
}
