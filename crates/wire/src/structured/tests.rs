//! Written values are parsed; values that cannot be written leave no trace; an error fails the
//! whole value.

use super::{
    BareItem, Item, Member, parse_dictionary, parse_item, parse_list, write_item, write_list,
};

#[test]
fn the_fields_we_send_round_trip() {
    for text in [
        "\"default\";r=50;t=30",
        "\"burst\";q=100;w=60, \"daily\";q=1000;w=86400",
        "tidegate;error=connection_refused;details=\"a \\\"b\\\" \\\\\"",
        "tidegate;error=http_response_timeout;next-hop=\"10.0.0.1:80\";received-status=503",
        "r34.example.net;error=http_request_error, ExampleCDN",
        "(\"a\" b;x 1);q=0.5, ?0, 1;a, @1659578233, -12.345, 0.5, 7.0, ()",
    ] {
        let members = parse_list(text.as_bytes()).unwrap();
        let mut out = Vec::new();
        assert!(write_list(&members, &mut out));
        assert_eq!(String::from_utf8(out).unwrap(), text);
    }
}

#[test]
fn unusual_but_legal_values_are_parsed() {
    assert_eq!(parse_list(b"  "), Some(vec![]));
    let read = parse_list(b"a\t ,  b ").unwrap();
    assert_eq!(read.len(), 2);
    let item = parse_item(b" 1;a=1; b;a=2 ").unwrap();
    assert_eq!(item.params.len(), 2);
    assert_eq!(item.param("a"), Some(&BareItem::Integer(2)));
    assert_eq!(item.param("b"), Some(&BareItem::Boolean(true)));
    assert_eq!(parse_item(b"00042").unwrap().bare, BareItem::Integer(42));
    assert_eq!(parse_item(b"-0").unwrap().bare, BareItem::Integer(0));
    assert_eq!(parse_item(b"1.5").unwrap().bare, BareItem::Decimal(1500));
    assert_eq!(parse_item(b"*a:b/c").unwrap().bare, BareItem::token("*a:b/c"));
}

#[test]
fn a_value_fails_as_a_whole() {
    for bad in [
        "a,",
        ",a",
        "a b",
        "a,,b",
        "\"a",
        "\"\\x\"",
        "\"\t\"",
        "?2",
        "1.",
        "1.2345",
        "1234567890123456",
        "1234567890123.1",
        "--1",
        "a;",
        "a;A=1",
        "a; =1",
        "(a",
        "(a,b)",
        "(a\"b\")",
        "@1.5",
        "é",
        "-",
        "a;b=",
        ":YQ=:",
        ":YQ",
        ":Y Q=:",
        ":A:",
        "%\"a",
        "%\"%C3%A9\"",
        "%\"%ff\"",
    ] {
        assert_eq!(parse_list(bad.as_bytes()), None, "{bad}");
    }
    assert_eq!(parse_item(b""), None);
    assert_eq!(parse_item(b"a, b"), None);
}

#[test]
fn unwritable_values_leave_the_output_unchanged() {
    let mut out = b"x".to_vec();
    for bad in [
        BareItem::Integer(1_000_000_000_000_000),
        BareItem::string("é"),
        BareItem::string("a\r\n"),
        BareItem::token("1a"),
        BareItem::token(""),
        BareItem::token("a b"),
    ] {
        assert!(!write_item(&Item::new(bad), &mut out));
    }
    assert!(!write_item(
        &Item::new(BareItem::Integer(1)).with("A", BareItem::Integer(1)),
        &mut out
    ));
    let fine = Member::Item(Item::new(BareItem::Integer(1)));
    let bad = Member::Item(Item::new(BareItem::token("")));
    assert!(!write_list(&[fine, bad], &mut out));
    assert_eq!(out, b"x");
}

#[test]
fn parts_are_bounded() {
    let many = |n: usize| vec!["1"; n].join(",");
    assert!(parse_list(many(1024).as_bytes()).is_some());
    assert!(parse_list(many(1025).as_bytes()).is_none());
    assert!(parse_list(format!("a{}", ";b".repeat(2000)).as_bytes()).is_none());
}

#[test]
fn bytes_and_display_strings_are_parsed() {
    for (text, bytes) in [
        (":YQ==:", &b"a"[..]),
        (":YQ:", b"a"),
        (":YWI=:", b"ab"),
        (":YWJj:", b"abc"),
        ("::", b""),
        (":iZ==:", b"\x89"),
        (":+/+/:", b"\xfb\xff\xbf"),
    ] {
        let item = parse_item(text.as_bytes()).expect(text);
        assert_eq!(item.bare, BareItem::Bytes(bytes.to_vec()), "{text}");
    }
    let item = parse_item(b"%\"a %c3%a9\"").unwrap();
    assert_eq!(item.bare, BareItem::Display("a \u{e9}".to_owned()));
}

#[test]
fn dictionaries() {
    let read = parse_dictionary(b" a=1, b;x=2 ,\tc=(1 \"z\");q, d=?0, a=:YQ==: ").unwrap();
    let keys: Vec<&str> = read.iter().map(|(key, _)| key.as_str()).collect();
    assert_eq!(keys, ["a", "b", "c", "d"]);
    assert_eq!(read[0].1, Member::Item(Item::new(BareItem::Bytes(b"a".to_vec()))));
    let b = Item::new(BareItem::Boolean(true)).with("x", BareItem::Integer(2));
    assert_eq!(read[1].1, Member::Item(b));
    let inner = vec![Item::new(BareItem::Integer(1)), Item::new(BareItem::string("z"))];
    assert_eq!(read[2].1, Member::Inner(inner, vec![("q".to_owned(), BareItem::Boolean(true))]));
    assert_eq!(read[3].1, Member::Item(Item::new(BareItem::Boolean(false))));
    assert_eq!(parse_dictionary(b"  "), Some(vec![]));
    for bad in ["a,", ",a", "a b", "A", "a=", "a =1", "a= 1", "a=1,,b", "1=a", "a=(1", "\"a\"=1"] {
        assert_eq!(parse_dictionary(bad.as_bytes()), None, "{bad}");
    }
}
