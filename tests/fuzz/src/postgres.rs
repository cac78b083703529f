//! Messages of PostgreSQL: their frames, what each kind of message says, and values as text.

use crate::FuzzTarget;
use wire::postgres::{ArrayItem, Fault, Messages, ServerMessage, Value, is_array, value};

const ERROR: &[u8] = b"SERROR\0VERROR\0C23505\0Mduplicate\0Dkey\0nunique\0\0";
const COLUMNS: &[u8] = b"\0\x01id\0\0\0\0\0\0\0\0\0\0\x17\0\x04\xff\xff\xff\xff\0\0";
const ARRAYS: [u32; 3] = [1007, 1009, 1001];

pub(crate) const TARGET: FuzzTarget = FuzzTarget {
    check: messages,
    seeds: || {
        let mut stream = Vec::new();
        for (kind, content) in [
            (b'R', &b"\0\0\0\x0aSCRAM-SHA-256\0\0"[..]),
            (b'K', b"\0\0\0\x01\0\0\0\x02"),
            (b'T', COLUMNS),
            (b'D', b"\0\x02\0\0\0\x017\xff\xff\xff\xff"),
            (b'E', ERROR),
            (b'A', b"\0\0\0\x07news\0hello\0"),
            (b'Z', b"I"),
        ] {
            frame(kind, content, &mut stream);
        }
        let array = br#"{{1,"b, c"},{NULL,"q\"\\"}}"#;
        vec![
            stream,
            ERROR.to_vec(),
            COLUMNS.to_vec(),
            array.to_vec(),
            b"[2:3]={\"\\\\x00ff\"}".to_vec(),
        ]
    },
    dictionary: &["\0", "NULL", "{", "}", "\\x", "\"", "[1:2]=", "Infinity", "SCRAM-SHA-256"],
    cases: 4000,
};

/// Any bytes as messages: they are the same however they were split, and end within the limit. Any
/// bytes as the content of each kind of message, and as values: reading ends, within them.
fn messages(data: &[u8]) {
    let all = read(data.chunks(data.len().max(1)));
    assert_eq!(all, read(data.chunks(1)));
    let mut again = Vec::new();
    for (kind, content) in &all.0 {
        assert!(content.len() <= LIMIT);
        frame(*kind, content, &mut again);
    }
    assert_eq!(read(again.chunks(7)), (all.0, Ok(())));
    for kind in 0..=255 {
        contents(kind, data);
    }
    values(data);
}

const LIMIT: usize = 200;

fn frame(kind: u8, content: &[u8], out: &mut Vec<u8>) {
    out.push(kind);
    out.extend_from_slice(&(content.len() as u32 + 4).to_be_bytes());
    out.extend_from_slice(content);
}

type ReadMessages = (Vec<(u8, Vec<u8>)>, Result<(), Fault>);

fn read<'a>(parts: impl Iterator<Item = &'a [u8]>) -> ReadMessages {
    let (mut messages, mut found) = (Messages::new(LIMIT), Vec::new());
    for part in parts {
        messages.feed(part);
        loop {
            match messages.next_message() {
                Ok(Some((kind, content))) => found.push((kind, content.to_vec())),
                Ok(None) => break,
                Err(fault) => return (found, Err(fault)),
            }
        }
    }
    (found, Ok(()))
}

fn contents(kind: u8, data: &[u8]) {
    match ServerMessage::parse(kind, data) {
        Ok(ServerMessage::Columns(columns)) => assert!(columns.len() * 19 <= data.len()),
        Ok(ServerMessage::Parameters(types)) => assert!(types.len() * 4 < data.len()),
        Ok(ServerMessage::Row(mut row)) => {
            let count = std::iter::from_fn(|| row.next_value().ok()).count();
            assert!(count * 4 < data.len());
        }
        Ok(ServerMessage::Error(error)) => {
            assert!(error.code.len() + error.message.len() < data.len());
        }
        Ok(_) | Err(_) => {}
    }
}

fn values(data: &[u8]) {
    for kind in [16, 17, 20, 701, 25] {
        if let Ok(Value::Bytes(bytes)) = value(kind, data) {
            assert_eq!(bytes.len() * 2 + 2, data.len());
        }
    }
    for kind in ARRAYS {
        assert!(is_array(kind));
        let Ok(Value::Array(mut array)) = value(kind, data) else { continue };
        let (mut depth, mut items) = (1, 0);
        while depth > 0 {
            match array.next_item() {
                Ok(ArrayItem::Begin) => depth += 1,
                Ok(ArrayItem::End) => depth -= 1,
                Ok(_) => {}
                Err(_) => return,
            }
            items += 1;
            assert!(items <= data.len() && depth <= 6);
        }
    }
}
