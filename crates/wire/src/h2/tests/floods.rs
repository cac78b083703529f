//! Every flood ends the connection after a bounded number of frames, with its own violation.

use super::*;

/// Sends the frames again and again and returns how often, and what ended the connection.
fn flood(
    mut server: Connection,
    most: u32,
    frames: impl Fn(u32) -> Vec<u8>,
) -> (u32, Option<Violation>) {
    for round in 0..most {
        if let Err(violation) = events(&mut server, &frames(round)) {
            let goaway = sent(&mut server);
            let code = violation.code().0.to_be_bytes();
            assert!(goaway.ends_with(&code), "GOAWAY says why");
            return (round, Some(violation));
        }
        sent(&mut server);
    }
    (most, None)
}

#[test]
fn control_frames() {
    let settings = |_: u32| frame_of(frame::SETTINGS, 0, 0, b"\0\x04\0\0\0\0");
    assert_eq!(flood(server(), 2000, settings), (999, Some(Violation::SettingsFlood)));
    let ping = |_: u32| frame_of(frame::PING, 0, 0, b"12345678");
    assert_eq!(flood(server(), 2000, ping), (999, Some(Violation::PingFlood)));
    let priority = |_: u32| frame_of(frame::PRIORITY, 0, 1, b"\0\0\0\0\x10");
    assert_eq!(flood(server(), 2000, priority), (999, Some(Violation::PriorityFlood)));
    let update = |round: u32| {
        let id = (2 * round + 1).to_be_bytes();
        frame_of(frame::PRIORITY_UPDATE, 0, 0, &[&id[..], b"u=1"].concat())
    };
    assert_eq!(flood(server(), 2000, update), (999, Some(Violation::PriorityFlood)));
    let window = |_: u32| frame_of(frame::WINDOW_UPDATE, 0, 0, &1u32.to_be_bytes());
    assert_eq!(flood(server(), 2000, window), (999, Some(Violation::WindowFlood)));
    let unknown = |_: u32| frame_of(0xbe, 0, 0, b"");
    assert_eq!(flood(server(), 2000, unknown), (999, Some(Violation::UnknownFrames)));
    let goaway = |_: u32| frame_of(frame::GOAWAY, 0, 0, &[0; 8]);
    assert_eq!(flood(server(), 2000, goaway), (999, Some(Violation::GoawayFlood)));
}

#[test]
fn rapid_reset() {
    let cancel = |round: u32| {
        let id = 2 * round + 1;
        let mut bytes = headers(id, true, GET);
        bytes.extend(frame_of(frame::RST_STREAM, 0, id, &8u32.to_be_bytes()));
        bytes
    };
    assert_eq!(flood(server(), 2000, cancel), (200, Some(Violation::RapidReset)));
}

#[test]
fn resets_that_the_peer_provokes() {
    // MadeYouReset: an invalid frame on a stream whose response is being made.
    let provoke = |round: u32| {
        let id = 2 * round + 1;
        let mut bytes = headers(id, true, GET);
        bytes.extend(frame_of(frame::WINDOW_UPDATE, 0, id, &0u32.to_be_bytes()));
        bytes
    };
    assert_eq!(flood(server(), 2000, provoke), (100, Some(Violation::ProvokedResets)));
    let malformed = |round: u32| headers(2 * round + 1, true, &[(":method", "GET")]);
    assert_eq!(flood(server(), 2000, malformed), (100, Some(Violation::ProvokedResets)));
    // More streams than allowed, none of which ends.
    let open = |round: u32| headers(2 * round + 1, false, POST);
    assert_eq!(flood(server(), 2000, open), (228, Some(Violation::ProvokedResets)));
}

#[test]
fn continuation() {
    let begin = |_: u32| {
        let mut bytes = frame_of(frame::HEADERS, 0, 1, b"");
        for _ in 0..17 {
            bytes.extend(frame_of(frame::CONTINUATION, 0, 1, b""));
        }
        bytes
    };
    assert_eq!(flood(server(), 1, begin), (0, Some(Violation::ContinuationFlood)));
    let large = |_: u32| {
        let mut bytes = frame_of(frame::HEADERS, 0, 1, &[0x82; 16_384]);
        for _ in 0..6 {
            bytes.extend(frame_of(frame::CONTINUATION, 0, 1, &[0x82; 16_384]));
        }
        bytes
    };
    assert_eq!(flood(server(), 1, large), (0, Some(Violation::FieldBlockTooLarge)));
}

#[test]
fn empty_data() {
    let mut first = server();
    events(&mut first, &headers(1, false, POST)).unwrap();
    let empty = |_: u32| frame_of(frame::DATA, frame::PADDED, 1, b"\0");
    assert_eq!(flood(first, 2000, empty), (100, Some(Violation::EmptyFrames)));
}

#[test]
fn tiny_windows() {
    let mut server = server();
    // A window of zero for streams, then a byte at a time.
    let mut bytes = frame_of(frame::SETTINGS, 0, 0, b"\0\x04\0\0\0\0");
    bytes.extend(headers(1, true, GET));
    let [Event::Request { stream, .. }] = events(&mut server, &bytes).unwrap()[..] else {
        panic!()
    };
    server.respond(stream, 200, [], false).unwrap();
    server.send_data(stream, Bytes::from(vec![0; 100_000]), true).unwrap();
    sent(&mut server);
    assert!(server.is_stalled());
    let byte = |_: u32| frame_of(frame::WINDOW_UPDATE, 0, 1, &1u32.to_be_bytes());
    let (rounds, violation) = flood(server, 5000, byte);
    assert_eq!(violation, Some(Violation::WindowFlood));
    assert!(rounds < 1010, "{rounds}");
}

#[test]
fn useful_work_may_need_many_control_frames() {
    let mut server = server();
    for round in 0..5000u32 {
        let id = 2 * round + 1;
        let mut bytes = headers(id, true, GET);
        bytes.extend(frame_of(frame::WINDOW_UPDATE, 0, 0, &100u32.to_be_bytes()));
        bytes.extend(frame_of(frame::PING, 0, 0, b"12345678"));
        bytes.extend(frame_of(
            frame::PRIORITY_UPDATE,
            0,
            0,
            &[&id.to_be_bytes()[..], b"i"].concat(),
        ));
        let events = events(&mut server, &bytes).unwrap();
        let [Event::Request { stream, .. }] = events[..] else { panic!("{events:?}") };
        server.respond(stream, 200, [], false).unwrap();
        server.send_data(stream, Bytes::from(vec![0; 100]), true).unwrap();
        sent(&mut server);
    }
}

#[test]
fn pings_of_an_idle_connection_are_refunded_by_time() {
    let mut server = server();
    let ping = frame_of(frame::PING, 0, 0, b"12345678");
    for _ in 0..5000 {
        server.elapsed(1);
        assert!(events(&mut server, &ping).unwrap().is_empty());
        sent(&mut server);
    }
}

#[test]
fn reading_stops_while_the_peer_does_not_read() {
    let mut server = server();
    let ping = frame_of(frame::PING, 0, 0, b"12345678");
    let mut pings = 0;
    while server.wants_input() {
        server.elapsed(1);
        events(&mut server, &ping).unwrap();
        pings += 1;
    }
    assert!(pings < 5000, "{pings}");
    sent(&mut server);
    assert!(server.wants_input());
}

#[test]
fn a_small_block_that_stands_for_a_large_section_costs_no_memory() {
    // One entry of 4 KiB in the table, then references to it.
    let bomb = |id: u32, references: usize| {
        let mut block = block(GET);
        block.extend_from_slice(&[0x40, 1, b'a', 0x7f]);
        block.extend_from_slice(&[0xa1, 0x1e]); // 127 + 3873
        block.extend_from_slice(&[b'v'; 4000]);
        block.extend(std::iter::repeat_n(0xbe, references));
        let flags = frame::END_HEADERS | frame::END_STREAM;
        frame_of(frame::HEADERS, flags, id, &block)
    };
    let mut server = server();
    let received = events(&mut server, &bomb(1, 100)).unwrap();
    assert!(matches!(received[..], [Event::Rejected { reject: Reject::HeadersTooLarge, .. }]));
    assert!(server.fields().text.capacity() < 100_000);
    // Nor does it cost more work than a few sections.
    let violation = events(&mut server, &bomb(3, 10_000)).unwrap_err();
    assert_eq!(violation, Violation::FieldBlockTooLarge);
    assert!(server.fields().text.capacity() < 100_000);
}

#[test]
fn schedule_entries_of_reset_streams_do_not_accumulate() {
    let mut server = server();
    // The connection has no window left, so responses wait.
    events(&mut server, &headers(1, true, GET)).unwrap();
    for round in 0..100_000u32 {
        server.elapsed(1);
        let id = 2 * round + 3;
        let events = events(&mut server, &headers(id, true, GET)).unwrap();
        let [Event::Request { stream, .. }] = events[..] else { panic!("{events:?}") };
        server.respond(stream, 200, [], false).unwrap();
        server.send_data(stream, Bytes::from(vec![0; 70_000]), true).unwrap();
        sent(&mut server);
        let cancel = frame_of(frame::RST_STREAM, 0, id, &8u32.to_be_bytes());
        super::events(&mut server, &cancel).unwrap();
        assert!(server.scheduled() <= 12, "{}", server.scheduled());
    }
}

/// A client that a server made by hand has sent its settings.
fn client() -> Connection {
    let mut client = Connection::client(Config::default());
    sent(&mut client);
    assert!(events(&mut client, &frame_of(frame::SETTINGS, 0, 0, b"")).unwrap().is_empty());
    sent(&mut client);
    client
}

/// A client whose request number `round` is in flight, as its stream.
fn send_request(client: &mut Connection) -> StreamKey {
    let stream = client.request(line(&Method::Get, "/"), [], true).unwrap();
    sent(client);
    stream
}

#[test]
fn control_frames_of_a_server() {
    let window = |stream: u32| frame_of(frame::WINDOW_UPDATE, 0, stream, &1u32.to_be_bytes());
    for (frames, violation) in [
        (frame_of(frame::SETTINGS, 0, 0, b"\0\x04\0\0\0\0"), Violation::SettingsFlood),
        (frame_of(frame::PING, 0, 0, b"12345678"), Violation::PingFlood),
        (frame_of(frame::PRIORITY, 0, 1, b"\0\0\0\0\x10"), Violation::PriorityFlood),
        (window(0), Violation::WindowFlood),
        (window(1), Violation::WindowFlood),
        (frame_of(0xbe, 0, 0, b""), Violation::UnknownFrames),
        // The request is in flight, and holds the connection.
        (frame_of(frame::GOAWAY, 0, 0, &[0, 0, 0, 1, 0, 0, 0, 0]), Violation::GoawayFlood),
    ] {
        let mut client = client();
        send_request(&mut client);
        // The settings of the beginning count.
        assert_eq!(flood(client, 2000, |_| frames.clone()), (999, Some(violation)));
    }
}

/// A server that opens the window of a request byte by byte gets a bounded number of frames.
#[test]
fn tiny_windows_of_a_server() {
    let mut client = client();
    events(&mut client, &frame_of(frame::SETTINGS, 0, 0, b"\0\x04\0\0\0\0")).unwrap();
    let stream = client.request(line(&Method::Post, "/"), [], false).unwrap();
    client.send_data(stream, Bytes::from(vec![0; 100_000]), true).unwrap();
    sent(&mut client);
    assert!(client.is_stalled());
    let byte = frame_of(frame::WINDOW_UPDATE, 0, 1, &1u32.to_be_bytes());
    let (rounds, violation) = flood(client, 5000, |_| byte.clone());
    assert_eq!(violation, Some(Violation::WindowFlood));
    assert!(rounds < 1010, "{rounds}");
}

/// MadeYouReset by a server: each of its responses makes this side reset the stream.
#[test]
fn resets_that_a_server_provokes() {
    let zero_window = |id| frame_of(frame::WINDOW_UPDATE, 0, id, &0u32.to_be_bytes());
    let overflow = |id| frame_of(frame::WINDOW_UPDATE, 0, id, &0x7fff_ffffu32.to_be_bytes());
    let without_status = |id| headers(id, true, &[("x", "y")]);
    let data_first = |id| frame_of(frame::DATA, 0, id, b"data");
    let provocations: [&dyn Fn(u32) -> Vec<u8>; 4] =
        [&zero_window, &overflow, &without_status, &data_first];
    for (index, provoke) in provocations.into_iter().enumerate() {
        let mut client = client();
        let mut resets = 0;
        let violation = loop {
            let id = send_request(&mut client).id;
            match events(&mut client, &provoke(id)) {
                Err(violation) => break violation,
                Ok(_) => {
                    let frames = frames(&sent(&mut client));
                    assert_eq!(frames.last().map(|frame| frame.0), Some(frame::RST_STREAM));
                    resets += 1;
                }
            }
        };
        assert_eq!((resets, violation), (100, Violation::ProvokedResets), "{index}");
        assert_eq!(client.streams(), 1, "the last one is not reset any more");
    }
}

#[test]
fn field_sections_and_empty_frames_of_a_server() {
    let mut first = client();
    send_request(&mut first);
    events(&mut first, &headers(1, false, &[(":status", "200")])).unwrap();
    let empty = |_: u32| frame_of(frame::DATA, 0, 1, b"");
    assert_eq!(flood(first, 2000, empty), (100, Some(Violation::EmptyFrames)));

    let mut second = client();
    send_request(&mut second);
    let continued = |round: u32| match round {
        0 => frame_of(frame::HEADERS, 0, 1, b""),
        _ => frame_of(frame::CONTINUATION, 0, 1, b""),
    };
    assert_eq!(flood(second, 2000, continued), (17, Some(Violation::ContinuationFlood)));
}

/// Frames that cross a reset are ignored, but not for ever.
#[test]
fn frames_on_a_stream_that_was_reset() {
    for is_server in [true, false] {
        let reset = || {
            let mut side = if is_server { server() } else { client() };
            let stream = if is_server {
                let received = events(&mut side, &headers(1, false, POST)).unwrap();
                let [Event::Request { stream, .. }] = received[..] else { panic!("{received:?}") };
                stream
            } else {
                send_request(&mut side)
            };
            side.reset(stream, ErrorCode::CANCEL);
            sent(&mut side);
            side
        };
        let section = headers(1, false, &[("x", "y")]);
        let (rounds, violation) = flood(reset(), 2000, |_| section.clone());
        assert_eq!(violation, Some(Violation::ResetFlood));
        assert!((999..=1000).contains(&rounds), "{rounds}");
        // What the window allowed when the stream was reset, and no more.
        let data = frame_of(frame::DATA, 0, 1, &[0; 1024]);
        let (rounds, violation) = flood(reset(), 2000, |_| data.clone());
        let window = Config::default().stream_window / 1024;
        assert_eq!((rounds, violation), (window, Some(Violation::ResetFlood)));
    }
}
