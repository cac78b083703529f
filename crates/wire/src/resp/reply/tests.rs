//! Replies whole, byte by byte, and malformed.

use super::{Item, Limits, Reader, ReplyError};

const SMALL: Limits = Limits { line: 24, bytes: 64, items: 8, depth: 3 };

/// Values as text, to make the table readable.
fn shown(buf: &[u8], items: &[Item]) -> String {
    let text = |range: &std::ops::Range<usize>| String::from_utf8_lossy(&buf[range.clone()]);
    let words: Vec<String> = items
        .iter()
        .map(|item| match item {
            Item::Text(range) => format!("'{}'", text(range)),
            Item::Error(range) => format!("!{}", text(range)),
            Item::Integer(value) => value.to_string(),
            Item::Double(value) => format!("{value:?}"),
            Item::Boolean(value) => value.to_string(),
            Item::Null => "null".to_owned(),
            Item::Array(count) => format!("[{count}"),
            Item::Set(count) => format!("~{count}"),
            Item::Map(count) => format!("%{count}"),
            Item::Push(count) => format!(">{count}"),
        })
        .collect();
    words.join(" ")
}

#[test]
fn replies_and_their_prefixes() {
    let table = [
        ("+OK\r\n", "'OK'"),
        ("-ERR no\r\n", "!ERR no"),
        (":-7\r\n", "-7"),
        ("$3\r\na\r\n\r\n", "'a\r\n'"),
        ("$0\r\n\r\n", "''"),
        ("$-1\r\n", "null"),
        ("*-1\r\n", "null"),
        ("*0\r\n", "[0"),
        ("*2\r\n*1\r\n:1\r\n$1\r\nx\r\n", "[2 [1 1 'x'"),
        ("_\r\n", "null"),
        ("#t\r\n", "true"),
        (",1.5\r\n", "1.5"),
        (",-inf\r\n", "-inf"),
        ("(123456789012345678\r\n", "'123456789012345678'"),
        ("!4\r\nE no\r\n", "!E no"),
        ("=5\r\ntxt:a\r\n", "'a'"),
        ("%1\r\n+a\r\n:1\r\n", "%1 'a' 1"),
        ("~1\r\n+a\r\n", "~1 'a'"),
        (">2\r\n+message\r\n+x\r\n", ">2 'message' 'x'"),
        ("|1\r\n+ttl\r\n:1\r\n+a\r\n", "'a'"),
        ("*2\r\n|1\r\n+k\r\n*1\r\n:1\r\n+a\r\n+b\r\n", "[2 'a' 'b'"),
        ("|0\r\n:1\r\n", "1"),
    ];
    for (input, expected) in table {
        let more = format!("{input}:9");
        let mut reader = Reader::default();
        assert_eq!(reader.read(more.as_bytes(), &SMALL), Ok(Some(input.len())), "{input:?}");
        assert_eq!(shown(more.as_bytes(), reader.items()), expected);
        // Byte by byte with the same reader, which resumes where it stopped.
        for end in 0..input.len() {
            assert_eq!(reader.read(&input.as_bytes()[..end], &SMALL), Ok(None), "{input:?} {end}");
        }
        assert_eq!(reader.read(input.as_bytes(), &SMALL), Ok(Some(input.len())));
        assert_eq!(shown(input.as_bytes(), reader.items()), expected);
    }
}

#[test]
fn malformed_and_oversized_replies_are_rejected_however_split() {
    let table = [
        ("HTTP/1.1 200\r\n", ReplyError::UnknownType),
        ("$?\r\n", ReplyError::InvalidLine),
        ("*?\r\n", ReplyError::InvalidLine),
        ("+OK\n", ReplyError::InvalidLine),
        ("\n", ReplyError::UnknownType),
        ("+\n", ReplyError::InvalidLine),
        (":\r\n", ReplyError::InvalidLine),
        (":1x\r\n", ReplyError::InvalidLine),
        (":99999999999999999999\r\n", ReplyError::InvalidLine),
        ("#x\r\n", ReplyError::InvalidLine),
        ("_x\r\n", ReplyError::InvalidLine),
        ("$-2\r\n", ReplyError::InvalidLine),
        ("%-1\r\n", ReplyError::InvalidLine),
        ("$1\r\nabc", ReplyError::InvalidLine),
        ("=3\r\ntxt\r\n", ReplyError::InvalidLine),
        ("$65\r\n", ReplyError::ReplyTooLong),
        ("*9\r\n", ReplyError::TooManyItems),
        ("%9\r\n", ReplyError::TooManyItems),
        ("%9223372036854775807\r\n", ReplyError::TooManyItems),
        ("*1\r\n*1\r\n*1\r\n*1\r\n", ReplyError::TooDeep),
        ("|1\r\n|1\r\n|1\r\n|1\r\n", ReplyError::TooDeep),
        ("*2\r\n*7\r\n", ReplyError::TooManyItems),
        ("+aaaaaaaaaaaaaaaaaaaaaaaaaaaa", ReplyError::LineTooLong),
    ];
    for (input, fault) in table {
        assert_eq!(Reader::default().read(input.as_bytes(), &SMALL), Err(fault), "{input:?}");
        let mut reader = Reader::default();
        let refused = (0..=input.len()).find_map(|end| {
            let found = reader.read(&input.as_bytes()[..end], &SMALL);
            assert!(found == Ok(None) || found == Err(fault), "{input:?} {end} {found:?}");
            found.err()
        });
        assert_eq!(refused, Some(fault), "{input:?}");
    }
}
