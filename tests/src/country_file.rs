//! Writes files in the MaxMind DB format, version 2.0, with countries.

use std::net::Ipv6Addr;

/// The children of a node: of a 0 bit and of a 1 bit.
type Node = [Record; 2];

#[derive(Clone, Copy)]
enum Record {
    Empty,
    Node(usize),
    /// The offset in the data section.
    Data(usize),
}

/// A file that says that each range (first address, bits of the prefix) is in the country. An IPv4
/// range is written as `::a.b.c.d` with 96 bits more.
pub fn country_file(ranges: &[(&str, u32, &str)]) -> Vec<u8> {
    let mut nodes: Vec<Node> = vec![[Record::Empty; 2]];
    let mut data = Vec::new();
    for (first, bits, country) in ranges {
        let address = u128::from(first.parse::<Ipv6Addr>().expect("an address"));
        let side = |depth: u32| usize::from(address >> (127 - depth) & 1 == 1);
        let mut at = 0;
        for depth in 0..bits - 1 {
            at = match nodes[at][side(depth)] {
                Record::Node(next) => next,
                _ => {
                    nodes.push([Record::Empty; 2]);
                    let next = nodes.len() - 1;
                    nodes[at][side(depth)] = Record::Node(next);
                    next
                }
            };
        }
        nodes[at][side(bits - 1)] = Record::Data(data.len());
        data.extend(map(&[("country", map(&[("iso_code", text(country))]))]));
    }
    let mut file = Vec::new();
    for record in nodes.iter().flatten() {
        let number = match *record {
            Record::Empty => nodes.len(),
            Record::Node(at) => at,
            Record::Data(offset) => nodes.len() + 16 + offset,
        };
        file.extend(&u32::try_from(number).expect("a small file").to_be_bytes()[1..]);
    }
    file.extend([0; 16]);
    file.extend(data);
    file.extend(b"\xab\xcd\xefMaxMind.com");
    file.extend(map(&[
        ("binary_format_major_version", number(5, 2)),
        ("binary_format_minor_version", number(5, 0)),
        ("build_epoch", number(9, 1)),
        ("database_type", text("Test-Country")),
        ("description", map(&[])),
        ("ip_version", number(5, 6)),
        ("languages", vec![0, 11 - 7]),
        ("node_count", number(6, nodes.len())),
        ("record_size", number(5, 24)),
    ]));
    file
}

fn map(entries: &[(&str, Vec<u8>)]) -> Vec<u8> {
    let mut out = vec![7 << 5 | entries.len() as u8];
    for (key, value) in entries {
        out.extend(text(key));
        out.extend(value);
    }
    out
}

fn text(text: &str) -> Vec<u8> {
    assert!(text.len() < 29, "longer texts have another form");
    [&[2 << 5 | text.len() as u8], text.as_bytes()].concat()
}

/// Of type 5 (uint16), 6 (uint32) or 9 (uint64).
fn number(kind: u8, number: usize) -> Vec<u8> {
    let bytes = number.to_be_bytes();
    let bytes = &bytes[bytes.iter().take_while(|byte| **byte == 0).count()..];
    let size = bytes.len() as u8;
    let mut out = if kind > 7 { vec![size, kind - 7] } else { vec![kind << 5 | size] };
    out.extend(bytes);
    out
}
