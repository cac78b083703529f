//! Order, repeats, names without case, and lines as they go over the wire.

use std::borrow::Cow;

use super::*;

#[test]
fn order_and_repeats_are_kept_and_names_have_no_case() {
    let mut headers = Headers::new();
    headers.append("X-One", "1");
    headers.append("accept", "a");
    headers.append("x-one", "2");
    assert_eq!(headers.get("X-ONE"), Some(&b"1"[..]));
    assert_eq!(headers.get_all("x-one").collect::<Vec<_>>(), [b"1", b"2"]);
    assert_eq!(headers.get(Known::Accept), Some(&b"a"[..]));
    headers.set("x-One", "3");
    assert_eq!(headers.get_all("x-one").collect::<Vec<_>>(), [b"3"]);
    assert!(headers.remove(Known::Accept));
    assert_eq!(headers.len(), 1);
}

#[test]
fn a_value_cannot_end_its_field() {
    let mut headers = Headers::new();
    headers.append("x-user", "a\r\nSet-Cookie: b");
    assert_eq!(headers.get("x-user"), Some(&b"a  Set-Cookie: b"[..]));
}

#[test]
fn added_fields_follow_received_ones() {
    let head = b"GET / HTTP/1.1\r\nHost: a\r\n\r\n";
    let mut fields = Vec::new();
    let limits = wire::h1::HeadLimits { request_line: 100, headers: 100, header_count: 8 };
    wire::h1::parse_request(head, &limits, &mut fields).unwrap().unwrap();
    let mut headers = Headers::received(head, &fields);
    headers.append("x-added", "yes");
    assert_eq!(headers.get(Known::Host), Some(&b"a"[..]));
    assert_eq!(headers.get("X-Added"), Some(&b"yes"[..]));
}

#[test]
fn a_break_becomes_a_space_wherever_it_stands() {
    for length in 1..40 {
        for at in 0..length {
            for (byte, kept) in
                [(b'\r', b' '), (b'\n', b' '), (0, b' '), (b'\t', b'\t'), (0xFF, 0xFF)]
            {
                let mut value = vec![b'a'; length];
                value[at] = byte;
                let mut headers = Headers::new();
                headers.append("x", &value);
                value[at] = kept;
                assert_eq!(headers.get("x"), Some(&value[..]), "{byte} at {at} of {length}");
            }
        }
    }
}

#[test]
fn a_field_can_be_begun_once_and_ended_often() {
    let age = BegunField::new(Known::Age, "a\n");
    let mut headers = Headers::new();
    headers.append_begun(&age, |text| text.extend_from_slice(b"1\n2"));
    headers.append_begun(&age, |_| ());
    assert_eq!(headers.get_all(Known::Age).collect::<Vec<_>>(), [&b"a 1 2"[..], b"a "]);
    assert_eq!(lines(&headers), "Age: a 1 2\r\nAge: a \r\n");
}

fn lines(headers: &Headers) -> String {
    let mut out = bytes::BytesMut::new();
    headers.write_lines(&mut out, |field| field.name != b"skipped");
    String::from_utf8(out.to_vec()).unwrap()
}

#[test]
fn lines_are_written_as_received_except_skipped_ones() {
    let head = "GET / HTTP/1.1\r\nHost: a\r\nskipped: 1\r\nB:  b\r\nC: c \t\r\nD:d\r\n\r\n";
    let limits = wire::h1::HeadLimits::default();
    let mut headers = Headers::new();
    wire::h1::parse_request(head.as_bytes(), &limits, headers.spans()).unwrap();
    headers.keep_head(head.as_bytes());
    headers.append("E", "e");
    headers.append("skipped", "2");
    headers.append("F", "");
    assert_eq!(lines(&headers), "Host: a\r\nB:  b\r\nC: c\r\nD:d\r\nE: e\r\nF: \r\n");
    let mut copy = headers.clone();
    copy.append("G", "g");
    copy.set("host", "other");
    assert_eq!(lines(&copy), "B:  b\r\nC: c\r\nD:d\r\nE: e\r\nF: \r\nG: g\r\nHost: other\r\n");
}

#[test]
fn the_values_of_a_list_are_one_list() {
    let mut headers = Headers::new();
    assert_eq!(headers.joined(Known::Accept), None);
    headers.append(Known::Accept, "a");
    assert!(matches!(headers.joined(Known::Accept), Some(Cow::Borrowed(b"a"))));
    headers.append(Known::Accept, "b;q=0, c");
    assert_eq!(headers.joined(Known::Accept).as_deref(), Some(&b"a, b;q=0, c"[..]));
}

#[test]
fn list_members_are_found_whatever_the_spelling() {
    let mut headers = Headers::new();
    headers.append(Known::Connection, "keep-alive, Upgrade");
    assert!(headers.lists_token(Known::Connection, "upgrade"));
    assert!(!headers.lists_token(Known::Connection, "up"));
}

#[test]
fn other_spellings_of_a_name_are_found() {
    let mut headers = Headers::new();
    headers.append("X_User", "a");
    assert!(headers.has_spelling(&[Known::Host.into(), "x-user".into()]));
    assert!(!headers.has_spelling(&[Known::Host.into(), "x-use".into()]));
    assert!(!Headers::new().has_spelling(&["x-user".into()]));
}
