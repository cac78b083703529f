//! The examples of RFC 7541 appendix C, and malformed blocks.

use super::decoder::BlockError::{self, Malformed, TooLarge};
use super::*;

type List = Vec<(String, String)>;

fn hex(text: &str) -> Vec<u8> {
    let digits: Vec<u8> = text.bytes().filter(u8::is_ascii_hexdigit).collect();
    let byte = |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap();
    digits.chunks(2).map(byte).collect()
}

fn decode(decoder: &mut Decoder, block: &[u8]) -> Result<List, BlockError> {
    let mut list = Vec::new();
    decoder.decode(block, usize::MAX, |_, name, value| {
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        list.push((text(name), text(value)));
    })?;
    Ok(list)
}

fn list(fields: &[(&str, &str)]) -> List {
    fields.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
}

/// Appendix C.1.
#[test]
fn integers() {
    for (bytes, prefix, value) in
        [("0a", 5, 10), ("1f9a0a", 5, 1337), ("2a", 8, 42), ("7f00", 7, 127), ("7f8001", 7, 255)]
    {
        let bytes = hex(bytes);
        let mut input = &bytes[..];
        assert_eq!(read_integer(&mut input, prefix), Some(value));
        assert!(input.is_empty());
        let mut out = Vec::new();
        write_integer(&mut out, 0, prefix, value);
        assert_eq!(out, bytes);
    }
    // Incomplete, and longer than any block: more digits than needed included.
    for bytes in ["1f", "1f80", "1f8080808001", "1fffffffffff01"] {
        assert_eq!(read_integer(&mut &hex(bytes)[..], 5), None, "{bytes}");
    }
}

/// Appendix C.2: each representation alone, and what it leaves in the table.
#[test]
fn representations() {
    let table = [
        ("400a637573746f6d2d6b65790d637573746f6d2d686561646572", "custom-key", "custom-header", 55),
        ("040c2f73616d706c652f70617468", ":path", "/sample/path", 0),
        ("100870617373776f726406736563726574", "password", "secret", 0),
        ("82", ":method", "GET", 0),
    ];
    for (block, name, value, size) in table {
        let mut decoder = Decoder::default();
        assert_eq!(decode(&mut decoder, &hex(block)), Ok(list(&[(name, value)])));
        assert_eq!(decoder.table().size(), size, "{name}");
    }
}

/// Appendix C.3 and C.4: requests of one connection, without and with the Huffman code.
#[test]
fn requests() {
    let plain = [
        "828684410f7777772e6578616d706c652e636f6d",
        "828684be58086e6f2d6361636865",
        "828785bf400a637573746f6d2d6b65790c637573746f6d2d76616c7565",
    ];
    let huffman = [
        "828684418cf1e3c2e5f23a6ba0ab90f4ff",
        "828684be5886a8eb10649cbf",
        "828785bf408825a849e95ba97d7f8925a849e95bb8e8b4bf",
    ];
    for blocks in [plain, huffman] {
        let mut decoder = Decoder::default();
        let first = [(":method", "GET"), (":scheme", "http"), (":path", "/")];
        let host = (":authority", "www.example.com");
        let mut expected = list(&first);
        expected.extend(list(&[host]));
        assert_eq!(decode(&mut decoder, &hex(blocks[0])), Ok(expected.clone()));
        assert_eq!(decoder.table().size(), 57);
        expected.extend(list(&[("cache-control", "no-cache")]));
        assert_eq!(decode(&mut decoder, &hex(blocks[1])), Ok(expected));
        assert_eq!(decoder.table().size(), 110);
        let third = [
            (":method", "GET"),
            (":scheme", "https"),
            (":path", "/index.html"),
            host,
            ("custom-key", "custom-value"),
        ];
        assert_eq!(decode(&mut decoder, &hex(blocks[2])), Ok(list(&third)));
        assert_eq!((decoder.table().size(), decoder.table().len()), (164, 3));
    }
}

/// Appendix C.5 and C.6: responses that evict entries, in a table of 256 bytes.
#[test]
fn responses() {
    let plain = [
        "4803333032580770726976617465611d4d6f6e2c203231204f637420323031332032303a31333a323120474d\
         546e1768747470733a2f2f7777772e6578616d706c652e636f6d",
        "4803333037c1c0bf",
        "88c1611d4d6f6e2c203231204f637420323031332032303a31333a323220474d54c05a04677a69707738666f\
         6f3d4153444a4b48514b425a584f5157454f50495541585157454f49553b206d61782d6167653d333630303b\
         2076657273696f6e3d31",
    ];
    let huffman = [
        "488264025885aec3771a4b6196d07abe941054d444a8200595040b8166e082a62d1bff6e919d29ad17186\
         3c78f0b97c8e9ae82ae43d3",
        "4883640effc1c0bf",
        "88c16196d07abe941054d444a8200595040b8166e084a62d1bffc05a839bd9ab77ad94e7821dd7f2e6c7b\
         335dfdfcd5b3960d5af27087f3672c1ab270fb5291f9587316065c003ed4ee5b1063d5007",
    ];
    for blocks in [plain, huffman] {
        let mut decoder = Decoder::default();
        let mut first = hex("3fe101"); // a table of 256 bytes
        first.extend(hex(blocks[0]));
        let (cache, date, location) = (
            ("cache-control", "private"),
            ("date", "Mon, 21 Oct 2013 20:13:21 GMT"),
            ("location", "https://www.example.com"),
        );
        let expected = list(&[(":status", "302"), cache, date, location]);
        assert_eq!(decode(&mut decoder, &first), Ok(expected));
        assert_eq!(decoder.table().size(), 222);
        let expected = list(&[(":status", "307"), cache, date, location]);
        assert_eq!(decode(&mut decoder, &hex(blocks[1])), Ok(expected));
        assert_eq!((decoder.table().size(), decoder.table().len()), (222, 4));
        let expected = list(&[
            (":status", "200"),
            cache,
            ("date", "Mon, 21 Oct 2013 20:13:22 GMT"),
            location,
            ("content-encoding", "gzip"),
            ("set-cookie", "foo=ASDJKHQKBZXOQWEOPIUAXQWEOIU; max-age=3600; version=1"),
        ]);
        assert_eq!(decode(&mut decoder, &hex(blocks[2])), Ok(expected));
        assert_eq!((decoder.table().size(), decoder.table().len()), (215, 3));
    }
}

#[test]
fn blocks_that_are_not_hpack_are_errors() {
    let table = [
        ("80", "index 0"),
        ("be", "an index beyond both tables"),
        ("ff80808080", "an integer without an end"),
        ("7f", "an incomplete literal"),
        ("4005", "a name that is cut short"),
        ("400161", "no value"),
        ("418cf1e3c2e5f23a6ba0ab90f4fe", "a Huffman code with wrong padding"),
        ("3fe21f", "a table larger than announced"),
        ("202020", "three changes of the table's size"),
        ("8220", "a change of the table's size after a field"),
    ];
    for (block, what) in table {
        assert_eq!(decode(&mut Decoder::default(), &hex(block)), Err(Malformed), "{what}");
    }
    assert_eq!(decode(&mut Decoder::default(), &hex("203fe11f82")).map(|list| list.len()), Ok(1));
}

fn encode(encoder: &mut Encoder, fields: &[(&str, &str)]) -> Vec<u8> {
    let mut out = Vec::new();
    encoder.begin(&mut out);
    for (name, value) in fields {
        let known = Known::from_bytes(name.as_bytes());
        encoder.field(&mut out, known, name.as_bytes(), value.as_bytes());
    }
    out
}

#[test]
fn encoded_fields_are_decoded_and_repeating_ones_cost_a_byte() {
    let (mut encoder, mut decoder) = (Encoder::default(), Decoder::default());
    let fields = [
        ("Server", "tidegate"),
        ("Content-Type", "text/html; charset=utf-8"),
        ("content-length", "12345"),
        ("X-Content-Type-Options", "nosniff"),
        ("X-Custom", "a value"),
        ("Set-Cookie", "a=b"),
    ];
    let expected: Vec<_> =
        fields.iter().map(|(name, value)| (name.to_ascii_lowercase(), *value)).collect();
    let expected = list(&expected.iter().map(|(n, v)| (&n[..], *v)).collect::<Vec<_>>());
    let mut sizes = Vec::new();
    for _ in 0..3 {
        let block = encode(&mut encoder, &fields);
        assert_eq!(decode(&mut decoder, &block), Ok(expected.clone()));
        sizes.push(block.len());
    }
    assert_eq!(sizes[1], sizes[2]);
    assert_eq!(encode(&mut encoder, &fields[..2]).len(), 2);
    assert_eq!(encode(&mut encoder, &fields[3..4]).len(), 1);
    assert_eq!(decoder.table().len(), 3, "no other field is indexed");
}

#[test]
fn secrets_are_never_indexed() {
    for name in ["authorization", "cookie", "set-cookie", "proxy-authorization", "x-api-key"] {
        let block = encode(&mut Encoder::default(), &[(name, "secret")]);
        assert_eq!(block[0] & 0xf0, 0x10, "{name}");
        assert!(block.ends_with(b"secret"));
    }
}

#[test]
fn a_smaller_table_is_announced_and_obeyed() {
    let (mut encoder, mut decoder) = (Encoder::default(), Decoder::default());
    let field = [("server", "tidegate")];
    for (sizes, announced) in [
        (&[0][..], &[0x20][..]),
        (&[4096], &[0x3f, 0xe1, 0x1f]),
        (&[100, 4096], &[0x3f, 0x45, 0x3f, 0xe1, 0x1f]),
        (&[1 << 20], &[]),
        (&[10], &[0x2a]),
    ] {
        for &size in sizes {
            encoder.set_max(size);
        }
        let block = encode(&mut encoder, &field);
        assert_eq!(&block[..announced.len()], announced);
        assert_eq!(decode(&mut decoder, &block), Ok(list(&field)));
        decode(&mut decoder, &encode(&mut encoder, &field)).unwrap();
    }
    assert_eq!(decoder.table().len(), 0);
}

#[test]
fn many_different_values_stay_in_step_with_the_decoder() {
    let (mut encoder, mut decoder) = (Encoder::default(), Decoder::default());
    let names = ["date", "vary", "content-type", "x-frame-options", "via"];
    for round in 0..2000usize {
        let value = format!("{}{}", "v".repeat(round * 7 % 90), round % 61);
        let name = names[round % names.len()];
        let fields = [(name, &value[..]), ("server", "s")];
        assert_eq!(decode(&mut decoder, &encode(&mut encoder, &fields)), Ok(list(&fields)));
        let mut out = Vec::new();
        encoder.authority(&mut out, value.as_bytes());
        assert_eq!(decode(&mut decoder, &out), Ok(list(&[(":authority", &value)])));
    }
}

#[test]
fn fields_are_classified_once() {
    let table = [
        ("a", "1", None),
        ("A", "1", Some(Reject::UppercaseFieldName)),
        ("Accept", "1", Some(Reject::UppercaseFieldName)),
        ("", "1", Some(Reject::EmptyFieldName)),
        ("a b", "1", Some(Reject::InvalidFieldName)),
        ("a:", "1", Some(Reject::InvalidFieldName)),
        ("a", "1\r\nb: 2", Some(Reject::InvalidFieldValue)),
        ("a", "1\0", Some(Reject::InvalidFieldValue)),
        ("a", " 1", Some(Reject::InvalidFieldValue)),
        ("a", "1\t", Some(Reject::InvalidFieldValue)),
        (":path", "/\n", Some(Reject::InvalidFieldValue)),
        ("connection", "close", Some(Reject::ConnectionSpecificField)),
        ("keep-alive", "1", Some(Reject::ConnectionSpecificField)),
        ("proxy-connection", "close", Some(Reject::ConnectionSpecificField)),
        ("transfer-encoding", "chunked", Some(Reject::ConnectionSpecificField)),
        ("upgrade", "h2c", Some(Reject::ConnectionSpecificField)),
        ("te", "trailers", None),
        ("te", "gzip", Some(Reject::InvalidTe)),
        ("content_length", "1", Some(Reject::AliasOfFramingField)),
    ];
    for (name, value, reject) in table {
        let mut block = vec![0x40, name.len() as u8];
        block.extend_from_slice(name.as_bytes());
        block.push(value.len() as u8);
        block.extend_from_slice(value.as_bytes());
        let mut decoder = Decoder::default();
        for block in [&block[..], &[0xbe]] {
            let mut seen = Vec::new();
            decoder.decode(block, 100, |class, _, _| seen.push(class.reject)).unwrap();
            assert_eq!(seen, [reject], "{name:?}: {value:?}");
        }
    }
}

#[test]
fn the_work_for_a_block_is_bounded() {
    let mut decoder = Decoder::default();
    // An entry whose name has 2000 bytes; then references to the name, each with a value of a byte.
    let mut block = vec![0x40, 0x7f, 0xd1, 0x0e];
    block.extend_from_slice(&[b'n'; 2000]);
    block.extend_from_slice(b"\x01v");
    block.extend_from_slice(&b"\x0f\x2f\x01v".repeat(5000));
    let mut fields = 0;
    let decoded = decoder.decode(&block, 100_000, |_, _, _| fields += 1);
    assert_eq!((decoded, fields), (Err(TooLarge), 50));
}
