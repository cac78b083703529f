//! Packets of MySQL: their frames, and what each kind of packet says.

use crate::FuzzTarget;
use wire::mysql::{
    Column, ErrPacket, Fault, Greeting, LoginReply, OkPacket, Packets, Prepared, Row, column_count,
    frame,
};

const GREETING: &[u8] =
    b"\x0a8.4\0\x01\0\0\0abcdefgh\0\xff\xff\x2d\x02\0\xff\xff\x15\0\0\0\0\0\0\0\0\0\0\
    ijklmnopqrst\0caching_sha2_password\0";
const COLUMN: &[u8] = b"\x03def\0\0\0\x01a\0\x0c\x2d\0\x04\0\0\0\xfd\x01\x10\0";

pub(crate) const TARGET: FuzzTarget = FuzzTarget {
    check: packets,
    seeds: || {
        let mut stream = Vec::new();
        for (sequence, packet) in (0..).zip([GREETING, b"\xfenative\0abc\0", COLUMN]) {
            frame(packet, sequence, &mut stream);
        }
        // A row: its bits of nulls, then a number, a date with its time, a span, and text.
        let row = b"\0\0\x05\x0b\xe8\x07\x02\x1d\x01\x02\x03\x04\0\0\0\x08\x01\0\0\0\0\
            \x01\x02\x03\x01x";
        vec![stream, GREETING.to_vec(), COLUMN.to_vec(), row.to_vec()]
    },
    dictionary: &["\0", "\x01", "\u{b}", "\u{c}", "#42000", "\x03def"],
    cases: 3000,
};

/// Any bytes as packets: they are the same however they were split, and end within the limit. Any
/// bytes as each kind of packet: what is read of it lies within it.
fn packets(data: &[u8]) {
    let all = read(data.chunks(data.len().max(1)));
    assert_eq!(all, read(data.chunks(1)));
    let mut again = Vec::new();
    for packet in &all.0 {
        assert!(packet.len() <= LIMIT);
        frame(packet, 0, &mut again);
    }
    assert_eq!(read(again.chunks(7)), (all.0, Ok(())));
    kinds(data);
}

const LIMIT: usize = 200;

fn read<'a>(parts: impl Iterator<Item = &'a [u8]>) -> (Vec<Vec<u8>>, Result<(), Fault>) {
    let (mut packets, mut found) = (Packets::new(LIMIT), Vec::new());
    for part in parts {
        packets.feed(part);
        loop {
            match packets.next_packet() {
                Ok(Some(packet)) => found.push(packet.to_vec()),
                Ok(None) => break,
                Err(fault) => return (found, Err(fault)),
            }
        }
    }
    (found, Ok(()))
}

fn kinds(data: &[u8]) {
    if let Ok(Ok(greeting)) = Greeting::parse(data) {
        let taken = greeting.version.len() + greeting.scramble.len() + greeting.plugin.len();
        assert!(taken < data.len() && greeting.scramble.len() >= 20);
    }
    if let Ok(LoginReply::Switch { plugin, scramble }) = LoginReply::parse(data) {
        assert!(data.len() == 1 || plugin.len() + scramble.len() < data.len());
    }
    if let Ok(ok) = OkPacket::parse(data) {
        assert!(ok.message.len() < data.len());
    }
    if let Ok(error) = ErrPacket::parse(data) {
        assert!(data.ends_with(error.message));
    }
    if let Ok(column) = Column::parse(data) {
        assert!(column.name.len() < data.len());
    }
    let _ = (Prepared::parse(data), OkPacket::end_status(data, false));
    assert_ne!(column_count(data), Ok(0));
    for kind in 0..=255 {
        let column = Column { name: b"", kind, is_unsigned: kind % 2 == 0 };
        let Ok(mut row) = Row::new(data, 4) else { return };
        let values = std::iter::from_fn(|| row.value(&column).ok()).take(4).count();
        // Each value that is not null has at least a byte.
        assert!(kind == 6 || values <= data.len() - 2 + data[1].count_ones() as usize);
    }
}
