//! Packets as they are on the wire, and packets that end early.

use super::*;

#[test]
fn packets_are_joined_however_they_are_split() {
    let long = vec![b'x'; 0xFF_FFFF];
    for packet in [&b"short"[..], b"", &long, &[&long[..], b"y"].concat()] {
        let mut bytes = Vec::new();
        frame(packet, 7, &mut bytes);
        frame(b"next", 0, &mut bytes);
        for size in [1 << 20, bytes.len()] {
            let mut packets = Packets::new(1 << 25);
            let mut found = Vec::new();
            for part in bytes.chunks(size) {
                packets.feed(part);
                while let Some(packet) = packets.next_packet().unwrap() {
                    found.push(packet.to_vec());
                }
            }
            assert!(found.len() == 2 && found[0] == packet && found[1] == b"next");
        }
        let mut packets = Packets::new(packet.len().max(3) - 1);
        packets.feed(&bytes);
        let limited = packets.next_packet().map(|packet| packet.map(<[u8]>::len));
        assert_eq!(limited, if packet.is_empty() { Ok(Some(0)) } else { Err(Fault::TooLarge) });
    }
}

#[test]
fn a_row_has_every_type() {
    let mut packet = vec![0, 0b1000, 0];
    let column = |kind, is_unsigned| Column { name: b"c", kind, is_unsigned };
    let columns = [
        column(1, false),
        column(6, false),
        column(2, true),
        column(3, false),
        column(8, true),
        column(10, false),
        column(12, false),
        column(11, false),
        column(4, false),
        column(0xF6, false),
    ];
    packet.extend_from_slice(&[0xFF]);
    packet.extend_from_slice(&0xFFFE_u16.to_le_bytes());
    packet.extend_from_slice(&(-5_i32).to_le_bytes());
    packet.extend_from_slice(&u64::MAX.to_le_bytes());
    packet.extend_from_slice(&[4, 0xE8, 7, 2, 29]);
    packet.extend_from_slice(&[11, 0xE8, 7, 2, 29, 1, 2, 3, 4, 0, 0, 0]);
    packet.extend_from_slice(&[8, 1, 34, 0, 0, 0, 22, 59, 1]);
    packet.extend_from_slice(&1.5_f32.to_le_bytes());
    packet.extend_from_slice(b"\x0412.5");
    let mut row = Row::new(&packet, columns.len()).unwrap();
    let texts: Vec<String> = columns
        .iter()
        .map(|column| match row.value(column).unwrap() {
            Value::Text(text) => String::from_utf8(text.as_bytes().to_vec()).unwrap(),
            other => format!("{other:?}"),
        })
        .collect();
    let expected = [
        "Integer(-1)",
        "Null",
        "Integer(65534)",
        "Integer(-5)",
        "Unsigned(18446744073709551615)",
        "2024-02-29",
        "2024-02-29 01:02:03.000004",
        "-838:59:01",
        "Float(1.5)",
        "Bytes([49, 50, 46, 53])",
    ];
    assert_eq!(texts, expected);
    // A packet that ends early is an error, wherever it ends.
    for end in 0..packet.len() {
        let mut values = Row::new(&packet[..end], columns.len());
        let whole =
            values.as_mut().is_ok_and(|row| columns.iter().all(|column| row.value(column).is_ok()));
        assert!(!whole, "{end}");
    }
}

#[test]
fn a_greeting_and_its_reply() {
    let mut packet = vec![10];
    packet.extend_from_slice(b"10.11\0\x01\0\0\0abcdefgh\0");
    packet.extend_from_slice(&[0xFF, 0xFF, 45, 2, 0, 0xFF, 0xFF, 21]);
    packet.extend_from_slice(&[0; 10]);
    packet.extend_from_slice(b"ijklmnopqrst\0mysql_native_password\0");
    let greeting = Greeting::parse(&packet).unwrap().unwrap();
    assert_eq!(greeting.scramble, b"abcdefghijklmnopqrst");
    assert_eq!(
        (&*greeting.version, &*greeting.plugin),
        (&b"10.11"[..], &b"mysql_native_password"[..])
    );
    let login = Login {
        tls: false,
        charset: 45,
        max_packet: 1,
        user: b"u",
        database: b"d",
        plugin: b"p",
        proof: b"xyz",
    };
    assert!(login.reply(&greeting).ends_with(b"\0u\0\x03xyzd\0p\0"));
    assert_eq!(login.capabilities(&greeting) & capabilities::TLS, 0);
    for end in 1..packet.len() - 22 {
        assert_eq!(Greeting::parse(&packet[..end]), Err(Fault::Malformed), "{end}");
    }
    let full = Greeting::parse(b"\xFF\x10\x04Too many connections").unwrap().unwrap_err();
    assert_eq!((full.number, full.message), (1040, &b"Too many connections"[..]));
    assert_eq!(Greeting::parse(&[9]), Err(Fault::Version));
    let switch = LoginReply::Switch { plugin: b"other", scramble: b"abc" };
    assert_eq!(LoginReply::parse(b"\xFEother\0abc\0"), Ok(switch));
}
