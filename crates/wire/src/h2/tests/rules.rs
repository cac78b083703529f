//! The rules of RFC 9113, one row each.

use super::*;

/// Returns how a server responds to the frames.
fn verdict(frames: &[Vec<u8>]) -> Result<Vec<Event>, Violation> {
    events(&mut server(), &frames.concat())
}

#[test]
fn frames_that_end_the_connection() {
    let window = |stream, increment: u32| {
        frame_of(frame::WINDOW_UPDATE, 0, stream, &increment.to_be_bytes())
    };
    let setting = |id: u8, value: u32| {
        frame_of(frame::SETTINGS, 0, 0, &[&[0, id][..], &value.to_be_bytes()].concat())
    };
    let get = headers(1, true, GET);
    let post = headers(1, false, POST);
    let begun = frame_of(frame::HEADERS, 0, 1, &block(GET));
    let end = frame::END_HEADERS | frame::END_STREAM;
    let table: Vec<(&str, Vec<Vec<u8>>, Violation)> = vec![
        ("4.2", vec![frame_of(frame::DATA, 0, 1, &[0; 16_385])], Violation::FrameTooLarge),
        ("4.3", vec![frame_of(frame::HEADERS, end, 1, &[0x80])], Violation::InvalidFieldBlock),
        ("5.1 idle", vec![frame_of(frame::DATA, 0, 1, b"x")], Violation::IdleStream),
        ("5.1 idle", vec![frame_of(frame::RST_STREAM, 0, 1, &[0; 4])], Violation::IdleStream),
        ("5.1 idle", vec![window(1, 1)], Violation::IdleStream),
        ("5.1.1 even", vec![headers(2, true, GET)], Violation::InvalidStream),
        (
            "5.1.1 lower",
            vec![headers(5, true, GET), headers(3, true, GET)],
            Violation::StreamIdNotNew,
        ),
        (
            "5.3.1",
            vec![frame_of(frame::PRIORITY, 0, 3, b"\0\0\0\x03\0")],
            Violation::InvalidPriority,
        ),
        ("6.1 stream 0", vec![frame_of(frame::DATA, 0, 0, b"x")], Violation::InvalidStream),
        (
            "6.1 padding",
            vec![post.clone(), frame_of(frame::DATA, frame::PADDED, 1, b"\x01")],
            Violation::InvalidPadding,
        ),
        (
            "6.1 padding",
            vec![post.clone(), frame_of(frame::DATA, frame::PADDED, 1, b"")],
            Violation::InvalidFrameSize,
        ),
        ("6.2 stream 0", vec![headers(0, true, GET)], Violation::InvalidStream),
        (
            "6.2 padding",
            vec![frame_of(frame::HEADERS, end | frame::PADDED, 1, b"\x05abc")],
            Violation::InvalidPadding,
        ),
        (
            "6.2 priority",
            vec![frame_of(frame::HEADERS, end | frame::HAS_PRIORITY, 1, b"\0\0")],
            Violation::InvalidFrameSize,
        ),
        ("6.3 stream 0", vec![frame_of(frame::PRIORITY, 0, 0, &[0; 5])], Violation::InvalidStream),
        ("6.3 length", vec![frame_of(frame::PRIORITY, 0, 1, &[0; 4])], Violation::InvalidFrameSize),
        (
            "6.4 stream 0",
            vec![frame_of(frame::RST_STREAM, 0, 0, &[0; 4])],
            Violation::InvalidStream,
        ),
        (
            "6.4 length",
            vec![get.clone(), frame_of(frame::RST_STREAM, 0, 1, &[0; 3])],
            Violation::InvalidFrameSize,
        ),
        (
            "6.5 ack",
            vec![frame_of(frame::SETTINGS, frame::ACK, 0, &[0; 6])],
            Violation::InvalidFrameSize,
        ),
        ("6.5 stream", vec![frame_of(frame::SETTINGS, 0, 1, b"")], Violation::InvalidStream),
        ("6.5 length", vec![frame_of(frame::SETTINGS, 0, 0, &[0; 5])], Violation::InvalidFrameSize),
        ("6.5.2 push", vec![setting(2, 2)], Violation::InvalidSetting),
        ("6.5.2 window", vec![setting(4, 1 << 31)], Violation::InvalidWindowSetting),
        ("6.5.2 frame", vec![setting(5, 16_383)], Violation::InvalidSetting),
        ("6.5.2 frame", vec![setting(5, 1 << 24)], Violation::InvalidSetting),
        ("8441 connect", vec![setting(8, 2)], Violation::InvalidSetting),
        ("8441 back", vec![setting(8, 1), setting(8, 0)], Violation::InvalidSetting),
        ("9218 settings", vec![setting(9, 2)], Violation::InvalidSetting),
        ("6.6", vec![frame_of(frame::PUSH_PROMISE, 4, 1, &[0; 4])], Violation::PushPromise),
        ("6.7 stream", vec![frame_of(frame::PING, 0, 1, &[0; 8])], Violation::InvalidStream),
        ("6.7 length", vec![frame_of(frame::PING, 0, 0, &[0; 7])], Violation::InvalidFrameSize),
        ("6.8 stream", vec![frame_of(frame::GOAWAY, 0, 1, &[0; 8])], Violation::InvalidStream),
        ("6.8 length", vec![frame_of(frame::GOAWAY, 0, 0, &[0; 7])], Violation::InvalidFrameSize),
        ("6.9 zero", vec![window(0, 0)], Violation::ZeroWindowUpdate),
        (
            "6.9 length",
            vec![frame_of(frame::WINDOW_UPDATE, 0, 0, &[0; 3])],
            Violation::InvalidFrameSize,
        ),
        ("6.9.1", vec![window(0, 0x7fff_ffff)], Violation::WindowOverflow),
        (
            "6.9.2",
            vec![post.clone(), window(1, 0x7fff_0000), setting(4, 0x7fff_ffff)],
            Violation::WindowOverflow,
        ),
        (
            "6.10 alone",
            vec![frame_of(frame::CONTINUATION, 4, 1, b"")],
            Violation::UnexpectedContinuation,
        ),
        (
            "6.10 other frame",
            vec![begun.clone(), frame_of(frame::PING, 0, 0, &[0; 8])],
            Violation::ContinuationExpected,
        ),
        (
            "6.10 other stream",
            vec![begun, frame_of(frame::CONTINUATION, 4, 3, b"")],
            Violation::ContinuationExpected,
        ),
        (
            "9218 7.1 stream",
            vec![frame_of(frame::PRIORITY_UPDATE, 0, 1, &[0, 0, 0, 1])],
            Violation::InvalidPriority,
        ),
        (
            "9218 7.1 length",
            vec![frame_of(frame::PRIORITY_UPDATE, 0, 0, &[0; 3])],
            Violation::InvalidFrameSize,
        ),
    ];
    for (rule, frames, violation) in table {
        assert_eq!(verdict(&frames).map(|_| ()), Err(violation), "{rule}");
    }
}

#[test]
fn the_preface_comes_first() {
    let mut wrong = PREFACE.to_vec();
    wrong[23] = b'x';
    let mut no_settings = PREFACE.to_vec();
    no_settings.extend(frame_of(frame::PING, 0, 0, &[0; 8]));
    for bytes in [&b"GET / HTTP/1.1\r\n"[..], b"PRI * HTTP/1.1", &wrong, &no_settings] {
        let mut server = Connection::<Bytes>::server(Config::default());
        assert_eq!(events(&mut server, bytes).map(|_| ()), Err(Violation::InvalidPreface));
        assert!(server.is_finished() && !server.wants_input());
        assert!(events(&mut server, b"").is_err(), "it stays so");
    }
    assert_eq!(super::super::begins_with_preface(b"PRI * H"), None);
    assert_eq!(super::super::begins_with_preface(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\nx"), Some(true));
    assert_eq!(super::super::begins_with_preface(b"PRA"), Some(false));
}

/// What happens to a request: its event, or the reason why it is malformed or rejected.
fn of_request(ends: bool, fields: &[(&str, &str)]) -> Option<Reject> {
    let mut server = server();
    let events = events(&mut server, &headers(1, ends, fields)).unwrap();
    match events[..] {
        [Event::Request { .. }] => None,
        [Event::Malformed { stream: None, reject }] => {
            assert_eq!(resets(&mut server), [(1, ErrorCode::PROTOCOL_ERROR)], "{fields:?}");
            Some(reject)
        }
        [Event::Rejected { reject, .. }] => {
            assert_ne!(reject.status(), 400);
            Some(reject)
        }
        _ => panic!("{events:?}"),
    }
}

#[test]
fn requests_are_as_strict_as_those_of_http_1_1() {
    let (m, s, p, a) =
        ((":method", "GET"), (":scheme", "http"), (":path", "/"), (":authority", "a"));
    let connect = (":method", "CONNECT");
    let options = (":method", "OPTIONS");
    type Row = (Vec<(&'static str, &'static str)>, Option<Reject>);
    let table: Vec<Row> = vec![
        (vec![m, s, p, a], None),
        (vec![a, p, s, m], None),
        (vec![m, s, p, ("host", "a")], None),
        (vec![m, s, p, a, ("host", "A")], None),
        (vec![m, s, p, a, ("te", "trailers")], None),
        (vec![options, s, (":path", "*"), a], None),
        (vec![m, s, p, a, ("expect", "100-continue")], None),
        (vec![s, p, a], Some(Reject::MissingPseudoHeader)),
        (vec![m, p, a], Some(Reject::MissingPseudoHeader)),
        (vec![m, s, a], Some(Reject::MissingPseudoHeader)),
        (vec![m, s, p], Some(Reject::MissingHost)),
        (vec![m, m, s, p, a], Some(Reject::RepeatedPseudoHeader)),
        (vec![m, s, s, p, a], Some(Reject::RepeatedPseudoHeader)),
        (vec![m, s, p, p, a], Some(Reject::RepeatedPseudoHeader)),
        (vec![m, s, p, a, a], Some(Reject::RepeatedPseudoHeader)),
        (vec![m, s, p, ("x", "1"), a], Some(Reject::LatePseudoHeader)),
        (vec![m, s, p, a, (":status", "200")], Some(Reject::UnknownPseudoHeader)),
        (vec![m, s, p, a, (":x", "1")], Some(Reject::UnknownPseudoHeader)),
        (vec![m, s, p, a, (":protocol", "x")], Some(Reject::ForbiddenPseudoHeader)),
        (vec![m, s, p, a, ("host", "b")], Some(Reject::AuthorityDiffersFromHost)),
        (vec![m, s, p, ("host", "a"), ("host", "a")], Some(Reject::RepeatedHost)),
        (vec![m, s, p, (":authority", "")], Some(Reject::InvalidHost)),
        (vec![m, s, p, (":authority", "u@a")], Some(Reject::InvalidHost)),
        (vec![m, s, p, (":authority", "a/b")], Some(Reject::InvalidHost)),
        (vec![m, s, p, ("host", "a b")], Some(Reject::InvalidHost)),
        (vec![m, s, (":path", ""), a], Some(Reject::InvalidTarget)),
        (vec![m, s, (":path", "*"), a], Some(Reject::InvalidTarget)),
        (vec![m, s, (":path", "a"), a], Some(Reject::InvalidTarget)),
        (vec![m, s, (":path", "http://b/"), a], Some(Reject::InvalidTarget)),
        (vec![m, s, (":path", "/a b"), a], Some(Reject::InvalidTarget)),
        (vec![m, s, (":path", "/a#b"), a], Some(Reject::InvalidTarget)),
        (vec![m, s, (":path", "/\u{e9}"), a], Some(Reject::InvalidTarget)),
        (vec![m, s, (":path", "/ HTTP/1.1\r\nx: y"), a], Some(Reject::InvalidFieldValue)),
        (vec![m, (":scheme", "ftp"), p, a], Some(Reject::UnsupportedScheme)),
        (vec![(":method", "G T"), s, p, a], Some(Reject::InvalidMethod)),
        (vec![(":method", ""), s, p, a], Some(Reject::InvalidMethod)),
        (vec![(":method", "get"), s, p, a], Some(Reject::MethodCase)),
        (vec![connect, (":authority", "b:443")], None),
        (vec![connect, a], Some(Reject::InvalidHost)),
        (vec![connect, s, p, a], Some(Reject::ForbiddenPseudoHeader)),
        (vec![connect], Some(Reject::MissingPseudoHeader)),
        (vec![connect, s, p, a, (":protocol", "websocket")], Some(Reject::ForbiddenPseudoHeader)),
        (vec![m, s, p, a, ("X", "1")], Some(Reject::UppercaseFieldName)),
        (vec![m, s, p, a, ("x", "1\n2")], Some(Reject::InvalidFieldValue)),
        (vec![m, s, p, a, ("x ", "1")], Some(Reject::InvalidFieldName)),
        (vec![m, s, p, a, ("connection", "x")], Some(Reject::ConnectionSpecificField)),
        (vec![m, s, p, a, ("transfer-encoding", "chunked")], Some(Reject::ConnectionSpecificField)),
        (vec![m, s, p, a, ("transfer_encoding", "x")], Some(Reject::AliasOfFramingField)),
        (vec![m, s, p, a, ("te", "trailers, gzip")], Some(Reject::InvalidTe)),
        (vec![m, s, p, a, ("expect", "more")], Some(Reject::UnknownExpectation)),
        (vec![m, s, p, a, ("content-length", "1")], Some(Reject::LengthMismatch)),
        (
            vec![m, s, p, a, ("content-length", "0"), ("content-length", "0")],
            Some(Reject::RepeatedContentLength),
        ),
        (vec![m, s, p, a, ("content-length", "+0")], Some(Reject::InvalidContentLength)),
    ];
    for (fields, reject) in table {
        assert_eq!(of_request(true, &fields), reject, "{fields:?}");
    }
}

#[test]
fn limits_of_a_section_are_those_of_http_1_1() {
    let mut many = GET.to_vec();
    many.extend([("x", "1"); 125]);
    assert_eq!(of_request(true, &many), Some(Reject::TooManyFields));
    let long = "v".repeat(120);
    let mut large = GET.to_vec();
    large.extend(vec![("x", &long[..]); 120]);
    let mut config = Config::default();
    config.head.headers = 4096;
    let mut small = server_with(config.clone());
    let mut next = headers(1, true, &large);
    next.extend(headers(3, true, GET));
    let found = events(&mut small, &next).unwrap();
    assert!(matches!(
        found[..],
        [Event::Rejected { reject: Reject::HeadersTooLarge, .. }, Event::Request { .. }]
    ));
    config.head.request_line = 10;
    let mut small = server_with(config);
    let path =
        [(":method", "GET"), (":scheme", "http"), (":path", "/0123456789"), (":authority", "a")];
    let found = events(&mut small, &headers(1, true, &path)).unwrap();
    let [Event::Rejected { stream, reject: Reject::RequestLineTooLong }] = found[..] else {
        panic!("{found:?}")
    };
    small.respond(stream, 414, [], true).unwrap();
    assert!(!small.is_open(stream));
}

#[test]
fn content_length_is_compared_with_the_data() {
    let length = |length| {
        let mut fields = POST.to_vec();
        fields.push(("content-length", length));
        headers(1, false, &fields)
    };
    let data = |ends: bool, data: &[u8]| frame_of(frame::DATA, u8::from(ends), 1, data);
    let trailers = headers(1, true, &[("x", "1")]);
    let table: Vec<(Vec<Vec<u8>>, bool)> = vec![
        (vec![length("3"), data(false, b"ab"), data(true, b"c")], true),
        (vec![length("3"), data(false, b"abc"), trailers.clone()], true),
        (vec![length("0"), data(true, b"")], true),
        (vec![length("3"), data(true, b"ab")], false),
        (vec![length("3"), data(true, b"abcd")], false),
        (vec![length("3"), data(false, b"abcd")], false),
        (vec![length("3"), data(false, b"ab"), trailers], false),
    ];
    for (frames, valid) in table {
        let mut server = server();
        let events = events(&mut server, &frames.concat()).unwrap();
        let mismatch = events.iter().any(|event| {
            matches!(event, Event::Malformed { stream: Some(_), reject: Reject::LengthMismatch })
        });
        assert_eq!(mismatch, !valid, "{events:?}");
        assert_eq!(resets(&mut server).len(), usize::from(!valid));
    }
}

#[test]
fn frames_that_reset_their_stream() {
    let data = frame_of(frame::DATA, 0, 1, b"x");
    let window = |increment: u32| frame_of(frame::WINDOW_UPDATE, 0, 1, &increment.to_be_bytes());
    let get = headers(1, true, GET);
    let post = headers(1, false, POST);
    let trailers = |ends, fields| headers(1, ends, fields);
    let table: Vec<(&str, Vec<Vec<u8>>, ErrorCode)> = vec![
        ("5.1 half closed", vec![get.clone(), data.clone()], ErrorCode::STREAM_CLOSED),
        ("5.1 half closed", vec![get.clone(), headers(1, true, GET)], ErrorCode::STREAM_CLOSED),
        ("6.9 zero", vec![get.clone(), window(0)], ErrorCode::PROTOCOL_ERROR),
        ("6.9.1", vec![get, window(0x7fff_ffff)], ErrorCode::FLOW_CONTROL_ERROR),
        (
            "8.1 trailers",
            vec![post.clone(), trailers(false, &[("x", "1")])],
            ErrorCode::PROTOCOL_ERROR,
        ),
        (
            "8.1 pseudo",
            vec![post.clone(), trailers(true, &[(":path", "/")])],
            ErrorCode::PROTOCOL_ERROR,
        ),
        (
            "8.2.2",
            vec![post.clone(), trailers(true, &[("connection", "x")])],
            ErrorCode::PROTOCOL_ERROR,
        ),
    ];
    for (rule, frames, code) in table {
        let mut server = server();
        events(&mut server, &frames.concat()).unwrap();
        assert_eq!(resets(&mut server), [(1, code)], "{rule}");
        // What the client sent before it knew is ignored.
        assert!(events(&mut server, &data).unwrap().is_empty(), "{rule}");
        assert!(events(&mut server, &headers(1, true, &[("x", "1")])).unwrap().is_empty());
    }
    let small = server_with(Config { stream_window: 65_535, ..Config::default() });
    let mut server = small;
    let mut bytes = post;
    for _ in 0..5 {
        bytes.extend(frame_of(frame::DATA, 0, 1, &[0; 16_000]));
    }
    events(&mut server, &bytes).unwrap();
    assert_eq!(resets(&mut server), [(1, ErrorCode::FLOW_CONTROL_ERROR)]);
}

#[test]
fn the_window_of_the_connection_is_enforced() {
    let config = Config { connection_window: 65_535, ..Config::default() };
    let mut bytes = headers(1, false, POST);
    for _ in 0..5 {
        bytes.extend(frame_of(frame::DATA, 0, 1, &[0; 16_000]));
    }
    let verdict = events(&mut server_with(config), &bytes);
    assert_eq!(verdict.map(|_| ()), Err(Violation::WindowExceeded));
}

#[test]
fn data_on_a_stream_that_ended_on_both_sides_ends_the_connection() {
    let mut server = server();
    let found = events(&mut server, &headers(1, true, GET)).unwrap();
    let [Event::Request { stream, .. }] = found[..] else { panic!("{found:?}") };
    server.respond(stream, 204, [], true).unwrap();
    let late = frame_of(frame::WINDOW_UPDATE, 0, 1, &1u32.to_be_bytes());
    assert!(events(&mut server, &late).unwrap().is_empty(), "it may have been on its way");
    let data = frame_of(frame::DATA, 0, 1, b"x");
    assert_eq!(events(&mut server, &data).map(|_| ()), Err(Violation::ClosedStream));
}

#[test]
fn responses_are_checked_too() {
    let of_response = |method: Method, frames: &[Vec<u8>]| {
        let mut client = Connection::client(Config::default());
        client.request(line(&method, "/"), [], true).unwrap();
        sent(&mut client);
        let mut bytes = frame_of(frame::SETTINGS, 0, 0, b"");
        bytes.extend(frames.concat());
        let events = events(&mut client, &bytes).unwrap();
        events.iter().find_map(|event| match event {
            Event::Malformed { stream: Some(_), reject } => Some(*reject),
            _ => None,
        })
    };
    let (ok, get) = ((":status", "200"), || Method::Get);
    let five = ("content-length", "5");
    let data = frame_of(frame::DATA, frame::END_STREAM, 1, b"hello");
    assert_eq!(of_response(get(), &[headers(1, false, &[ok, five]), data.clone()]), None);
    assert_eq!(of_response(Method::Head, &[headers(1, true, &[ok, five])]), None);
    assert_eq!(of_response(get(), &[headers(1, true, &[(":status", "304"), five])]), None);
    let interim = headers(1, false, &[(":status", "103")]);
    assert_eq!(of_response(get(), &[interim, headers(1, true, &[ok])]), None);
    let table: Vec<(Method, Vec<Vec<u8>>, Reject)> = vec![
        (get(), vec![headers(1, true, &[ok, five])], Reject::LengthMismatch),
        (get(), vec![headers(1, true, &[])], Reject::MissingPseudoHeader),
        (get(), vec![headers(1, true, &[(":status", "20")])], Reject::InvalidStatus),
        (get(), vec![headers(1, true, &[(":status", "600")])], Reject::InvalidStatus),
        (get(), vec![headers(1, false, &[(":status", "101")])], Reject::InvalidStatus),
        (get(), vec![headers(1, true, &[(":status", "103")])], Reject::InvalidStatus),
        (get(), vec![headers(1, true, &[ok, ok])], Reject::RepeatedPseudoHeader),
        (get(), vec![headers(1, true, &[ok, (":path", "/")])], Reject::UnknownPseudoHeader),
        (get(), vec![headers(1, false, &[(":status", "204"), five])], Reject::ForbiddenBody),
        (get(), vec![data.clone()], Reject::UnexpectedHeaders),
        (Method::Head, vec![headers(1, false, &[ok]), data], Reject::LengthMismatch),
    ];
    for (method, frames, reject) in table {
        assert_eq!(of_response(method, &frames), Some(reject), "{frames:x?}");
    }
}

#[test]
fn cookies_are_joined_and_trailers_lose_what_they_may_not_have() {
    let mut server = server();
    let mut fields = POST.to_vec();
    fields.extend([("cookie", "a=1"), ("x", "y"), ("cookie", "b=2")]);
    events(&mut server, &headers(1, false, &fields)).unwrap();
    assert_eq!(lines(&server), ["host: a", "x: y", "cookie: a=1; b=2"]);
    let trailers = [("x-sum", "1"), ("content-length", "5"), ("authorization", "x")];
    events(&mut server, &headers(1, true, &trailers)).unwrap();
    assert_eq!(lines(&server), ["x-sum: 1"]);
}

#[test]
fn after_the_final_goaway_new_streams_are_ignored() {
    let mut server = server();
    events(&mut server, &headers(1, true, GET)).unwrap();
    server.close_to_new_streams();
    sent(&mut server);
    assert!(events(&mut server, &headers(3, true, GET)).unwrap().is_empty());
    // The rest of a request crosses GOAWAY too.
    let mut bytes = headers(5, false, POST);
    bytes.extend(frame_of(frame::DATA, 0, 5, b"data"));
    bytes.extend(frame_of(frame::WINDOW_UPDATE, 0, 5, &1u32.to_be_bytes()));
    bytes.extend(headers(5, true, &[("x", "y")]));
    bytes.extend(frame_of(frame::RST_STREAM, 0, 5, &8u32.to_be_bytes()));
    assert!(events(&mut server, &bytes).unwrap().is_empty());
    assert!(sent(&mut server).is_empty());
    assert!(!server.is_finished(), "the first stream is still processed");
}
