//! gRPC: messages, time-outs, texts of a status, content types.

use crate::{FuzzTarget, owned};
use wire::grpc::{self, Form, MessageReader};

pub(crate) const TARGET: FuzzTarget = FuzzTarget {
    check: protocol,
    seeds: || {
        owned(&[
            &b"\x01\0\0\0\x03abc\0\0\0\0\0"[..],
            b"\x03\0\0\0\x41",
            b"99999999H",
            b"7n",
            b"100%25 \xff%FF%zz",
            b"application/grpc-web-text+proto;x=+y",
            b"Application/GRPC",
        ])
    },
    dictionary: &[
        "application/grpc",
        "+json",
        "-web",
        "%",
        "%C3",
        "9",
        "m",
        "S",
        "\0\0\0\0",
        "\u{80}",
    ],
    cases: 5000,
};

const MESSAGE_MAX: usize = 64;

/// The messages of `pieces`, and whether a longer one ended them.
fn messages<'a>(pieces: impl Iterator<Item = &'a [u8]>) -> (Vec<(u8, Vec<u8>)>, bool) {
    let mut reader = MessageReader::new(MESSAGE_MAX);
    let mut found = Vec::new();
    for piece in pieces {
        reader.push(piece);
        loop {
            match reader.next_message() {
                Ok(Some((flags, message))) => {
                    assert!(message.len() <= MESSAGE_MAX);
                    found.push((flags, message.to_vec()));
                }
                Ok(None) => break,
                Err(_) => return (found, true),
            }
        }
    }
    (found, false)
}

/// Any bytes as messages, the same however they were split; as a time-out, which is never written
/// longer than it was; as the text of a status, which survives its escapes; as a content type.
fn protocol(data: &[u8]) {
    let size = data.first().map_or(1, |byte| usize::from(*byte) + 1);
    assert_eq!(messages([data].into_iter()), messages(data.chunks(size)));
    if let Some(span) = grpc::parse_timeout(data) {
        let written = grpc::timeout_value(span);
        assert!(grpc::parse_timeout(written.as_bytes()).is_some_and(|again| again <= span));
    }
    let text = grpc::decode_message(&data[..data.len().min(256)]);
    assert_eq!(grpc::decode_message(grpc::encode_message(&text).as_bytes()), text);
    if let Some(form) = Form::of(data) {
        let whole = [form.media_type().as_bytes(), grpc::message_format(data)].concat();
        assert_eq!(Form::of(&whole), Some(form));
    }
}
