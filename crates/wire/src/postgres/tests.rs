//! Messages as they are on the wire, messages that end early, and values.

use super::*;

fn framed(kind: u8, content: &[u8]) -> Vec<u8> {
    let mut out = vec![kind];
    out.extend_from_slice(&(content.len() as u32 + 4).to_be_bytes());
    out.extend_from_slice(content);
    out
}

#[test]
fn messages_are_whole_however_they_are_split() {
    let long = vec![b'x'; 100_000];
    let bytes = [framed(b'Z', b"I"), framed(b'1', b""), framed(b'd', &long)].concat();
    for size in [1, 7, bytes.len()] {
        let (mut messages, mut found) = (Messages::new(long.len()), Vec::new());
        for part in bytes.chunks(size) {
            messages.feed(part);
            while let Some((kind, content)) = messages.next_message().unwrap() {
                found.push((kind, content.len()));
            }
        }
        assert_eq!(found, [(b'Z', 1), (b'1', 0), (b'd', long.len())]);
    }
    let mut messages = Messages::new(long.len() - 1);
    messages.feed(&bytes[12..20]);
    assert_eq!(messages.next_message(), Err(Fault::TooLarge));
    let mut messages = Messages::new(100);
    messages.feed(b"Z\0\0\0\x03I");
    assert_eq!(messages.next_message(), Err(Fault::Malformed));
}

#[test]
fn messages_of_the_client_are_as_documented() {
    assert_eq!(tls_request(), [0, 0, 0, 8, 4, 210, 22, 47]);
    assert_eq!(cancel_request(1, 2), [0, 0, 0, 16, 4, 210, 22, 46, 0, 0, 0, 1, 0, 0, 0, 2]);
    assert_eq!(startup(&[(b"user", b"ann")]), b"\0\0\0\x12\0\x03\0\0user\0ann\0\0");
    assert_eq!(query(b"select 1"), b"Q\0\0\0\x0dselect 1\0");
    assert_eq!(password(b"secret"), b"p\0\0\0\x0bsecret\0");
    assert_eq!(sasl_initial(b"X", b"ab"), b"p\0\0\0\x0cX\0\0\0\0\x02ab");
    assert_eq!(prepare(b"s", b"q"), b"P\0\0\0\x0as\0q\0\0\0D\0\0\0\x07Ss\0S\0\0\0\x04");
    let parameters = [Parameter::Null, Parameter::Text(b"7"), Parameter::Binary(b"\0")];
    let bind = b"\0s\0\0\x03\0\0\0\0\0\x01\0\x03\xff\xff\xff\xff\0\0\0\x017\0\0\0\x01\0\0\0";
    let expected = [&framed(b'B', bind)[..], &framed(b'E', &[0; 5]), &framed(b'S', b"")];
    assert_eq!(execute(b"s", &parameters).unwrap(), expected.concat());
    assert_eq!(execute(b"s", &vec![Parameter::Null; 65_536]), None);
}

#[test]
fn messages_of_the_server_are_read_and_may_not_end_early() {
    let error = b"SFEHLER\0VERROR\0C23505\0Mduplicate\0Dkey\0nunique\0X1\0\0";
    let messages: &[(u8, &[u8])] = &[
        (b'R', b"\0\0\0\x05salt"),
        (b'R', b"\0\0\0\x0aSCRAM-SHA-256-PLUS\0SCRAM-SHA-256\0\0"),
        (b'K', b"\0\0\0\x01\0\0\0\x02"),
        (b'Z', b"E"),
        (b'E', error),
        (b't', b"\0\x02\0\0\0\x17\0\0\0\x19"),
        (b'T', b"\0\x01id\0\0\0\0\0\0\0\0\0\0\x17\0\x04\xff\xff\xff\xff\0\0"),
        (b'C', b"INSERT 0 1\0"),
        (b'A', b"\0\0\0\x07news\0hello\0"),
    ];
    for (kind, content) in messages {
        assert!(ServerMessage::parse(*kind, content).is_ok(), "{kind}");
        for end in 0..content.len() {
            // A list of mechanisms, and an error, may only end with their last zero.
            assert!(ServerMessage::parse(*kind, &content[..end]).is_err(), "{kind} {end}");
        }
    }
    let Ok(ServerMessage::Error(error)) = ServerMessage::parse(b'E', error) else { panic!() };
    assert_eq!(
        (error.severity, error.code, error.message),
        (&b"ERROR"[..], &b"23505"[..], &b"duplicate"[..])
    );
    assert_eq!(
        (error.detail, error.constraint, error.hint),
        (Some(&b"key"[..]), Some(&b"unique"[..]), None)
    );
    let row = b"\0\x03\0\0\0\x017\xff\xff\xff\xff\0\0\0\0";
    let Ok(ServerMessage::Row(mut row)) = ServerMessage::parse(b'D', row) else { panic!() };
    assert_eq!(row.len(), 3);
    assert_eq!(row.next_value(), Ok(Some(&b"7"[..])));
    assert_eq!(row.next_value(), Ok(None));
    assert_eq!(row.next_value(), Ok(Some(&b""[..])));
    assert_eq!(row.next_value(), Err(Fault::Malformed));
    let Ok(ServerMessage::Row(mut short)) = ServerMessage::parse(b'D', b"\0\x01\0\0\0\x027") else {
        panic!()
    };
    assert_eq!(short.next_value(), Err(Fault::Malformed));
    assert_eq!(ServerMessage::parse(b'?', b""), Err(Fault::Malformed));
    // A column in binary, which was not asked for.
    assert!(
        ServerMessage::parse(b'T', b"\0\x01a\0\0\0\0\0\0\0\0\0\0\x17\0\x04\xff\xff\xff\xff\0\x01")
            .is_err()
    );
}

#[test]
fn values_have_their_types() {
    assert_eq!(value(oids::BOOL, b"t"), Ok(Value::Boolean(true)));
    assert_eq!(value(oids::BOOL, b"x"), Err(Fault::Malformed));
    assert_eq!(value(oids::INT8, b"-9223372036854775808"), Ok(Value::Integer(i64::MIN)));
    assert_eq!(value(oids::INT8, b"9223372036854775808"), Err(Fault::Malformed));
    assert_eq!(value(oids::FLOAT8, b"-Infinity"), Ok(Value::Float(f64::NEG_INFINITY)));
    assert_eq!(value(oids::FLOAT8, b"1e-07"), Ok(Value::Float(1e-7)));
    assert_eq!(value(oids::BYTEA, b"\\x00fF"), Ok(Value::Bytes(vec![0, 255])));
    for wrong in [&b"00"[..], b"\\x0", b"\\x0g"] {
        assert_eq!(value(oids::BYTEA, wrong), Err(Fault::Malformed));
    }
    assert_eq!(value(1700, b"1.50"), Ok(Value::Text(b"1.50")));
}

/// The items of an array, as one text.
fn items(kind: u32, text: &[u8]) -> Result<String, Fault> {
    let Value::Array(mut array) = value(kind, text)? else { panic!("no array") };
    let (mut out, mut depth) = (String::new(), 1);
    while depth > 0 {
        let item = match array.next_item()? {
            ArrayItem::Begin => {
                depth += 1;
                "( ".to_owned()
            }
            ArrayItem::End => {
                depth -= 1;
                ") ".to_owned()
            }
            ArrayItem::Null => "nothing ".to_owned(),
            ArrayItem::Value(Value::Text(text)) => format!("{} ", String::from_utf8_lossy(text)),
            ArrayItem::Value(other) => format!("{other:?} "),
            ArrayItem::Unescaped(text) => format!("<{}> ", String::from_utf8_lossy(&text)),
        };
        out.push_str(&item);
    }
    Ok(out)
}

#[test]
fn arrays_are_read_item_by_item() {
    const TEXTS: u32 = 1009;
    assert_eq!(items(TEXTS, b"{}").unwrap(), ") ");
    assert_eq!(
        items(TEXTS, br#"{a,"b, c",NULL,"NULL","q\"\\"}"#).unwrap(),
        r#"a b, c nothing NULL <q"\> ) "#
    );
    assert_eq!(
        items(1007, b"{{1,2},{3,NULL}}").unwrap(),
        "( Integer(1) Integer(2) ) ( Integer(3) nothing ) ) "
    );
    assert_eq!(items(1007, b"[2:3]={7,8}").unwrap(), "Integer(7) Integer(8) ) ");
    for wrong in [
        &b""[..],
        b"{",
        b"{1",
        b"{1,",
        b"{,1}",
        b"{1,}",
        b"{1}2",
        b"1}",
        b"{\"1}",
        b"{\"1\\",
        b"[2:3]{1}",
        b"{{{{{{{1}}}}}}}",
        b"{1 {2}}",
    ] {
        assert!(items(1007, wrong).is_err(), "{}", String::from_utf8_lossy(wrong));
    }
}
