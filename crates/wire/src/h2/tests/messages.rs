//! Messages between two connections.

use super::*;
use crate::h2::{Priority, Unavailable};

#[test]
fn a_request_and_its_response() {
    let mut pair = Pair::new(Config::default());
    let post = Method::Post;
    let fields = [field("Content-Length", "5"), field("X-A", "1"), field("Connection", "close")];
    let of_client = pair.client.request(line(&post, "/a?b=c"), fields, false).unwrap();
    pair.client.send_data(of_client, Bytes::from("hello"), true).unwrap();
    let events = pair.pass_to_server();
    let [Event::Request { stream, head, protocol: None, ends: false }, data] = &events[..] else {
        panic!("{events:?}")
    };
    let text = &pair.server.fields().text;
    assert_eq!((&head.method, head.path.of(text)), (&Method::Post, &b"/a"[..]));
    assert_eq!(head.query.map(|query| query.of(text)), Some(&b"b=c"[..]));
    assert_eq!(head.authority.map(|host| host.of(text)), Some(&b"example.com"[..]));
    assert_eq!(head.framing, crate::h1::Framing::Length(5));
    assert_eq!(lines(&pair.server), ["host: example.com", "content-length: 5", "x-a: 1"]);
    assert!(matches!(data, Event::Data { data, ends: true, .. } if data == "hello"));

    let stream = *stream;
    pair.server.respond(stream, 103, [field("Link", "</a>")], false).unwrap();
    pair.server.respond(stream, 200, [field("Server", "t")], false).unwrap();
    assert!(pair.server.is_ready(stream));
    pair.server.send_data(stream, Bytes::from("world"), false).unwrap();
    assert_eq!(pair.server.take_drained(), Some(stream));
    pair.server.send_trailers(stream, [field("grpc-status", "0")]).unwrap();
    assert!(!pair.server.is_open(stream));
    let events = pair.pass_to_client();
    assert!(matches!(
        &events[..],
        [
            Event::Response { status: 103, ends: false, .. },
            Event::Response { status: 200, ends: false, .. },
            Event::Data { data, ends: false, .. },
            Event::Trailers { stream },
        ] if data == "world" && *stream == of_client
    ));
    assert_eq!(lines(&pair.client), ["grpc-status: 0"]);
    assert_eq!((pair.client.streams(), pair.server.streams()), (0, 0));
}

#[test]
fn the_result_is_the_same_however_the_bytes_are_split() {
    let mut bytes = PREFACE.to_vec();
    frame::write(&mut bytes, frame::SETTINGS, 0, 0, b"");
    bytes.extend(headers(1, false, POST));
    bytes.extend(frame_of(frame::DATA, frame::PADDED, 1, b"\x03abc\0\0\0"));
    bytes.extend(frame_of(frame::DATA, frame::END_STREAM, 1, b"def"));
    bytes.extend(headers(3, true, GET));
    let run = |size: usize| {
        let mut server = Connection::server(Config::default());
        let (mut heads, mut data) = (Vec::new(), Vec::new());
        for chunk in bytes.chunks(size) {
            for event in events(&mut server, chunk).unwrap() {
                match event {
                    Event::Request { stream, ends, .. } => heads.push((stream.id, ends)),
                    Event::Data { data: chunk, ends, .. } => {
                        data.extend_from_slice(&chunk);
                        if ends {
                            data.push(b'.');
                        }
                    }
                    other => panic!("{other:?}"),
                }
            }
        }
        assert_eq!(data, b"abcdef.");
        assert_eq!(heads, [(1, false), (3, true)]);
    };
    (1..=bytes.len()).for_each(run);
}

#[test]
fn a_large_body_obeys_both_windows_and_arrives_whole() {
    let mut pair = Pair::new(Config { stream_window: 70_000, ..Config::default() });
    let (of_client, of_server) = pair.open(Method::Post, false);
    let body: Bytes = (0..1_000_000u32).map(|at| at as u8).collect();
    pair.client.send_data(of_client, body.clone(), true).unwrap();
    let mut received = Vec::new();
    let mut rounds = 0;
    while received.len() < body.len() {
        rounds += 1;
        let before = received.len();
        for event in pair.pass_to_server() {
            let Event::Data { stream, data, .. } = event else { panic!("{event:?}") };
            received.extend_from_slice(&data);
            pair.server.release(stream, data.len());
        }
        assert!(received.len() - before <= 70_000, "more than the window");
        assert!(pair.pass_to_client().is_empty());
    }
    assert!(rounds > 10 && received == body);
    assert!(!pair.client.is_ready(of_client) && pair.server.is_open(of_server));
}

#[test]
fn a_body_that_is_not_released_stops_the_sender() {
    let mut pair = Pair::new(Config::default());
    let (of_client, of_server) = pair.open(Method::Post, false);
    let body = Bytes::from(vec![0; 1_000_000]);
    pair.client.send_data(of_client, body, true).unwrap();
    let mut received = 0;
    for _ in 0..10 {
        for event in pair.pass_to_server() {
            let Event::Data { data, .. } = event else { panic!("{event:?}") };
            received += data.len();
        }
        pair.pass_to_client();
    }
    assert_eq!(received, 256 * 1024);
    assert!(pair.client.is_stalled() && !pair.client.wants_output());
    // The connection gets back what a reset stream did not use.
    pair.server.reset(of_server, ErrorCode::CANCEL);
    assert!(matches!(pair.pass_to_client()[..], [Event::Reset { by_peer: true, .. }]));
    let (of_client, _) = pair.open(Method::Post, false);
    pair.client.send_data(of_client, Bytes::from(vec![0; 200_000]), true).unwrap();
    let again: usize = pair
        .pass_to_server()
        .iter()
        .map(|event| if let Event::Data { data, .. } = event { data.len() } else { 0 })
        .sum();
    assert_eq!(again, 200_000);
}

#[test]
fn urgent_responses_come_first_and_incremental_ones_share() {
    let mut server = server();
    let mut request = |id: u32, priority: &str| {
        let mut fields = GET.to_vec();
        fields.push(("priority", priority));
        let events = events(&mut server, &headers(id, true, &fields)).unwrap();
        let [Event::Request { stream, .. }] = events[..] else { panic!("{events:?}") };
        server.respond(stream, 200, [], false).unwrap();
        server.send_data(stream, Bytes::from(vec![id as u8; 20_000]), true).unwrap();
    };
    for (id, priority) in [(1, "u=5"), (3, "i"), (5, "i"), (7, ""), (9, "u=1")] {
        request(id, priority);
    }
    // A later frame of the client overrides the field.
    let update = frame_of(frame::PRIORITY_UPDATE, 0, 0, b"\0\0\0\x01u=0");
    assert!(events(&mut server, &update).unwrap().is_empty());
    let mut windows = frame_of(frame::WINDOW_UPDATE, 0, 0, &200_000u32.to_be_bytes());
    windows.extend(frame_of(frame::SETTINGS, 0, 0, &[0, 4, 0, 1, 0, 0]));
    events(&mut server, &windows).unwrap();
    let order: Vec<(u32, usize)> = frames(&sent(&mut server))
        .into_iter()
        .filter(|(kind, ..)| *kind == frame::DATA)
        .map(|(_, _, id, payload)| (id, payload.len()))
        .collect();
    let (first, rest) = (16_384, 20_000 - 16_384);
    let urgent = [(1, first), (1, rest), (9, first), (9, rest)];
    let others = [(3, first), (5, first), (7, first), (7, rest), (3, rest), (5, rest)];
    assert_eq!(order, [&urgent[..], &others].concat());
}

#[test]
fn a_priority_may_come_before_its_request() {
    let mut server = server();
    let mut bytes = frame_of(frame::PRIORITY_UPDATE, 0, 0, b"\0\0\0\x05u=1, i");
    for id in [1, 5] {
        bytes.extend(headers(id, true, GET));
    }
    let priorities: Vec<_> = events(&mut server, &bytes)
        .unwrap()
        .iter()
        .map(|event| match event {
            Event::Request { stream, .. } => server.priority(*stream).unwrap(),
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(priorities, [Priority::default(), Priority { urgency: 1, incremental: true }]);
}

#[test]
fn shutting_down_loses_no_stream() {
    let mut pair = Pair::new(Config::default());
    let (_, first) = pair.open(Method::Get, true);
    // This request is on its way when the server shuts down.
    pair.client.request(line(&Method::Get, "/late"), [], true).unwrap();
    pair.server.shut_down();
    let late = match &pair.pass_to_server()[..] {
        [Event::Request { stream, .. }] => *stream,
        other => panic!("{other:?}"),
    };
    assert!(matches!(pair.pass_to_client()[..], [Event::GoAway { code: ErrorCode::NO_ERROR }]));
    assert_eq!(pair.client.can_open(), Err(Unavailable::Ending));
    assert!(pair.pass_to_server().is_empty(), "the acknowledgement of PING");
    assert!(matches!(pair.pass_to_client()[..], [Event::GoAway { .. }]), "with the last stream");
    for stream in [first, late] {
        assert!(!pair.server.is_finished());
        pair.server.respond(stream, 204, [], true).unwrap();
    }
    assert!(pair.server.is_finished());
    let responses = pair.pass_to_client();
    assert!(matches!(responses[..], [Event::Response { .. }, Event::Response { .. }]));
    assert!(pair.client.is_finished());
}

#[test]
fn streams_above_the_last_of_goaway_may_be_sent_again() {
    let mut client = Connection::client(Config::default());
    let get = Method::Get;
    let keys: Vec<_> = (0..3).map(|_| client.request(line(&get, "/"), [], true).unwrap()).collect();
    let mut bytes = frame_of(frame::SETTINGS, 0, 0, b"");
    bytes.extend(frame_of(frame::GOAWAY, 0, 0, b"\0\0\0\x01\0\0\0\0why"));
    bytes.extend(frame_of(frame::RST_STREAM, 0, 1, &ErrorCode::REFUSED_STREAM.0.to_be_bytes()));
    let events = events(&mut client, &bytes).unwrap();
    assert!(matches!(events[0], Event::GoAway { code: ErrorCode::NO_ERROR }));
    let unprocessed: Vec<_> = events[1..]
        .iter()
        .map(|event| match event {
            Event::Reset { stream, unprocessed: true, by_peer: true, .. } => *stream,
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(unprocessed, [keys[1], keys[2], keys[0]]);
    assert!(client.is_finished());
}

#[test]
fn an_idle_connection_is_small() {
    let mut pair = Pair::new(Config::default());
    for _ in 0..100 {
        let (_, stream) = pair.open(Method::Get, true);
        pair.server.respond(stream, 200, [field("server", "t")], false).unwrap();
        pair.server.send_data(stream, Bytes::from_static(b"hello"), true).unwrap();
        pair.pass_to_client();
    }
    pair.server.release_memory();
    assert!(size_of::<Connection>() <= 1024, "{}", size_of::<Connection>());
    // The tables of both directions, which are bounded by their size, are all that remains.
    assert!(pair.server.fields().text.capacity() == 0 && pair.server.scheduled() == 0);
}

#[test]
fn a_client_obeys_the_number_of_streams() {
    let mut pair = Pair::new(Config { max_streams: 2, ..Config::default() });
    let (_, first) = pair.open(Method::Get, true);
    pair.open(Method::Get, true);
    assert_eq!(pair.client.can_open(), Err(Unavailable::Busy));
    pair.server.respond(first, 204, [], true).unwrap();
    pair.pass_to_client();
    assert_eq!(pair.client.can_open(), Ok(()));
}

#[test]
fn extended_connect_is_a_tunnel_whose_directions_end_alone() {
    let mut pair = Pair::new(Config { extended_connect: true, ..Config::default() });
    let connect = Method::Connect;
    let open = RequestLine { protocol: Some(b"websocket"), ..line(&connect, "/chat") };
    let of_client = pair.client.request(open, [], false).unwrap();
    let events = pair.pass_to_server();
    let [Event::Request { stream, protocol: Some(protocol), .. }] = &events[..] else {
        panic!("{events:?}")
    };
    assert_eq!(protocol.of(&pair.server.fields().text), b"websocket");
    let stream = *stream;
    pair.server.respond(stream, 200, [], false).unwrap();
    pair.server.send_data(stream, Bytes::from("last"), true).unwrap();
    assert!(pair.server.is_open(stream), "the client may still send");
    assert_eq!(pair.pass_to_client().len(), 2);
    pair.client.send_data(of_client, Bytes::from("also"), true).unwrap();
    assert!(matches!(&pair.pass_to_server()[..], [Event::Data { ends: true, .. }]));
    assert_eq!((pair.client.streams(), pair.server.streams()), (0, 0));
    // Without the setting of the server it is not sent.
    let mut pair = Pair::new(Config::default());
    assert_eq!(pair.client.request(open, [], false), Err(Unavailable::NoExtendedConnect));
}

#[test]
fn a_response_before_the_end_of_the_request_stops_it_without_an_error() {
    let mut pair = Pair::new(Config::default());
    let (of_client, of_server) = pair.open(Method::Post, false);
    pair.server.respond(of_server, 413, [], true).unwrap();
    let events = pair.pass_to_client();
    assert!(matches!(
        events[..],
        [
            Event::Response { status: 413, ends: true, .. },
            Event::Reset { code: ErrorCode::NO_ERROR, .. }
        ]
    ));
    // Data that the client had sent before is ignored.
    let data = frame_of(frame::DATA, frame::END_STREAM, of_client.id, b"late");
    assert!(super::events(&mut pair.server, &data).unwrap().is_empty());
}

#[test]
fn a_head_larger_than_a_frame_is_continued() {
    let mut pair = Pair::new(Config::default());
    let (_, stream) = pair.open(Method::Get, true);
    let long = "v".repeat(10_000);
    let fields = [field("x-a", &long), field("x-b", &long), field("x-c", &long)];
    pair.server.respond(stream, 200, fields, true).unwrap();
    let bytes = sent(&mut pair.server);
    let kinds: Vec<_> = frames(&bytes).iter().map(|(kind, flags, ..)| (*kind, *flags)).collect();
    let expected = [(frame::HEADERS, frame::END_STREAM), (frame::CONTINUATION, frame::END_HEADERS)];
    assert_eq!(kinds, expected);
    assert_eq!(events(&mut pair.client, &bytes).unwrap().len(), 1);
    assert_eq!(lines(&pair.client).len(), 3);
}

#[test]
fn the_connection_gets_back_the_window_of_all_data_however_it_ends() {
    let config = Config { connection_window: 65_535, ..Config::default() };
    let mut server = server_with(config);
    let mut window = 65_535i64;
    for round in 0..60u32 {
        let id = 2 * round + 1;
        let opened = events(&mut server, &headers(id, false, POST)).unwrap();
        let [Event::Request { stream, .. }] = opened[..] else { panic!("{opened:?}") };
        let mut padded = vec![200];
        padded.extend([0; 12_000]);
        let data = frame_of(frame::DATA, frame::PADDED, id, &padded);
        window -= padded.len() as i64;
        assert!(window >= 0, "round {round}: the window was not given back");
        match round % 4 {
            // Ignored: the stream was reset before.
            0 => {
                server.reset(stream, ErrorCode::CANCEL);
                assert!(events(&mut server, &data).unwrap().is_empty());
            }
            // Received and never released.
            1 => {
                assert_eq!(events(&mut server, &data).unwrap().len(), 1);
                server.reset(stream, ErrorCode::CANCEL);
            }
            // Half of it was received when the stream is reset.
            2 => {
                assert_eq!(events(&mut server, &data[..6000]).unwrap().len(), 1);
                server.reset(stream, ErrorCode::CANCEL);
                assert!(events(&mut server, &data[6000..]).unwrap().is_empty());
            }
            _ => {
                assert_eq!(events(&mut server, &data).unwrap().len(), 1);
                server.release(stream, 11_800);
                server.reset(stream, ErrorCode::CANCEL);
            }
        }
        for (kind, _, id, payload) in frames(&sent(&mut server)) {
            if kind == frame::WINDOW_UPDATE && id == 0 {
                window += i64::from(u32::from_be_bytes(payload.try_into().unwrap()));
            }
        }
    }
}
