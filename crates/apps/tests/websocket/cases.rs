//! The cases of the Autobahn test suite for an echo server, as tables.

use apps::websocket::WebSocketSettings;
use net::worker::block_on_local;
use wire::websocket::{Message, Opcode};

use crate::client::{Client, frame, goodbye, text};
use crate::server::echoing;

/// The replies to these bytes, sent in pieces of this size.
async fn answers(client: &mut Client, bytes: &[u8], piece: usize) -> Vec<Message> {
    for piece in bytes.chunks(piece) {
        // The server may close before all is sent.
        if !client.try_send(piece).await {
            break;
        }
    }
    client.rest().await
}

/// Each row on a connection of its own, in one piece and byte by byte.
fn all(rows: Vec<(&str, Vec<u8>, Vec<Message>)>) {
    block_on_local(async {
        let address = echoing(WebSocketSettings::default());
        for (name, bytes, expected) in rows {
            for piece in [bytes.len(), 1] {
                let mut client = Client::connect(address).await;
                let answered = answers(&mut client, &bytes, piece).await;
                assert_eq!(answered, expected, "{name}, in pieces of {piece}");
            }
        }
    });
}

fn heard(text: &str) -> Message {
    Message::Text(text.into())
}

fn closed(code: u16, reason: &str) -> Message {
    Message::Close(Some(code), reason.into())
}

/// The close code after a protocol violation; no message precedes it.
fn broken(rows: Vec<(&str, Vec<u8>)>, code: u16) {
    block_on_local(async {
        let address = echoing(WebSocketSettings::default());
        for (name, bytes) in rows {
            for piece in [bytes.len(), 1] {
                let mut client = Client::connect(address).await;
                let answered = answers(&mut client, &bytes, piece).await;
                let [Message::Close(Some(said), reason)] = &answered[..] else {
                    panic!("{name}: {answered:?}");
                };
                assert_eq!(*said, code, "{name}");
                assert!(!reason.is_empty(), "{name}: a reason is given");
            }
        }
    });
}

fn then_goodbye(mut bytes: Vec<u8>) -> Vec<u8> {
    bytes.extend(goodbye(1000, ""));
    bytes
}

#[test]
fn messages_of_every_length_come_back() {
    block_on_local(async {
        let address = echoing(WebSocketSettings::default());
        for length in [0, 1, 125, 126, 127, 128, 16384, 16385, 65535, 65536, 1 << 20] {
            for piece in [usize::MAX, 997] {
                let mut client = Client::connect(address).await;
                let payload = vec![b'*'; length];
                for opcode in [Opcode::Text, Opcode::Binary] {
                    for piece in frame(opcode, true, &payload).chunks(piece) {
                        client.send(piece).await;
                    }
                    let expected = match opcode {
                        Opcode::Text => Message::Text(payload.clone()),
                        _ => Message::Binary(payload.clone()),
                    };
                    assert!(client.message().await == Some(expected), "{length} bytes");
                }
                client.send(goodbye(1000, "")).await;
                assert_eq!(client.rest().await, [closed(1000, "")]);
            }
        }
    });
}

#[test]
fn pings_and_pieces() {
    let ping = |payload: &[u8]| frame(Opcode::Ping, true, payload);
    let pong = |payload: &[u8]| Message::Pong(payload.to_vec());
    let many: Vec<u8> = (0..10_u8).flat_map(|n| ping(&[n])).collect();
    let mut pongs: Vec<Message> = (0..10_u8).map(|n| pong(&[n])).collect();
    pongs.push(closed(1000, ""));
    let pieces = |between: &[u8]| {
        let first =
            frame(Opcode::Text, false, "fragment1 \u{e9}".as_bytes().split_last().unwrap().1);
        let second = frame(Opcode::Continuation, false, &"\u{e9}".as_bytes()[1..]);
        let last = frame(Opcode::Continuation, true, b" fragment2");
        then_goodbye([&first[..], between, &second, &last].concat())
    };
    all(vec![
        ("ping", then_goodbye(ping(b"")), vec![pong(b""), closed(1000, "")]),
        ("long ping", then_goodbye(ping(&[9; 125])), vec![pong(&[9; 125]), closed(1000, "")]),
        ("many pings", then_goodbye(many), pongs),
        (
            "unasked pong",
            then_goodbye(frame(Opcode::Pong, true, b"unasked")),
            vec![closed(1000, "")],
        ),
        ("ping among pieces", pieces(&ping(b"between")), vec![pong(b"between"), closed(1000, "")]),
    ]);
    // The echo and the close do not race if the client waits for the echo.
    block_on_local(async {
        let mut client = Client::connect(echoing(WebSocketSettings::default())).await;
        let bytes = pieces(b"");
        client.send(&bytes[..bytes.len() - goodbye(1000, "").len()]).await;
        assert_eq!(client.message().await, Some(heard("fragment1 \u{e9} fragment2")));
    });
}

#[test]
fn a_protocol_violation_is_1002() {
    let raw = |first: u8| [&[first, 0x80][..], &[0; 4]].concat();
    let mut rows = Vec::new();
    for bits in 1..8_u8 {
        rows.push(("reserved bits", raw(0x81 | bits << 4)));
        rows.push(("reserved bits of a ping", raw(0x89 | bits << 4)));
    }
    for opcode in [3, 4, 5, 6, 7, 11, 12, 13, 14, 15] {
        rows.push(("reserved opcode", raw(0x80 | opcode)));
    }
    let two = |first: Vec<u8>, second: Vec<u8>| [first, second].concat();
    let piece = |opcode, last| frame(opcode, last, b"x");
    rows.extend([
        ("no mask", vec![0x81, 1, b'x']),
        ("ping of 126", frame(Opcode::Ping, true, &[0; 126])),
        ("pong of 126", frame(Opcode::Pong, true, &[0; 126])),
        ("goodbye of 126", frame(Opcode::Close, true, &[3; 126])),
        ("ping in pieces", piece(Opcode::Ping, false)),
        ("pong in pieces", piece(Opcode::Pong, false)),
        ("goodbye in pieces", piece(Opcode::Close, false)),
        ("continuation of nothing", piece(Opcode::Continuation, true)),
        ("continuation of nothing, more", piece(Opcode::Continuation, false)),
        ("text in a text", two(piece(Opcode::Text, false), piece(Opcode::Text, true))),
        ("binary in a text", two(piece(Opcode::Text, false), piece(Opcode::Binary, true))),
        ("length of 64 bits", vec![0x82, 0xff, 0x80, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]),
        ("half a code", frame(Opcode::Close, true, &[3])),
    ]);
    for code in [0, 999, 1004, 1005, 1006, 1015, 1016, 1100, 2000, 2999, 5000, 65535] {
        rows.push(("a code that must not be sent", goodbye(code, "")));
    }
    broken(rows, 1002);
}

#[test]
fn invalid_utf_8_is_1007() {
    let bad: [&[u8]; 9] = [
        b"\xff",
        b"\xce\xba\xe1\xbd\xb9\xcf\x83\xce\xbc\xce\xb5\xed\xa0\x80edited",
        b"\xf4\x90\x80\x80",
        b"\xc0\xaf",
        b"\xe0\x80\xaf",
        b"\xed\xa0\x80",
        b"\xf8\x88\x80\x80\x80",
        b"\xce",
        b"\x80",
    ];
    let mut rows: Vec<(&str, Vec<u8>)> =
        bad.iter().map(|bytes| ("text", frame(Opcode::Text, true, bytes))).collect();
    let first = frame(Opcode::Text, false, b"ab\xce");
    rows.push(("cut off", [first, frame(Opcode::Continuation, true, b"b")].concat()));
    let reason = [&[0x03, 0xe8][..], b"\xce\xba\xed\xa0\x80"].concat();
    rows.push(("a reason", frame(Opcode::Close, true, &reason)));
    broken(rows, 1007);
}

#[test]
fn a_close_is_confirmed_with_its_code() {
    let mut rows = vec![
        ("no code", frame(Opcode::Close, true, b""), vec![Message::Close(None, Vec::new())]),
        ("a reason", goodbye(1000, &"*".repeat(123)), vec![closed(1000, "")]),
        (
            "more behind it",
            [goodbye(1000, ""), text("x"), vec![0xff; 9]].concat(),
            vec![closed(1000, "")],
        ),
    ];
    let codes = [1000, 1001, 1002, 1003, 1007, 1008, 1009, 1010, 1011, 1012, 1013, 1014];
    for code in codes.into_iter().chain([3000, 3999, 4000, 4999]) {
        rows.push(("a code", goodbye(code, ""), vec![closed(code, "")]));
    }
    all(rows);
}
