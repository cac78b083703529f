//! Invariants of structured fields for any value. The fuzz target calls [`structured_field`] with
//! the fuzzer's input; here it is called with reproducible mutations of known values.

use wire::structured::{
    BareItem, Item, Member, parse_dictionary, parse_item, parse_list, write_item, write_list,
};

/// Parses any bytes as each of the three kinds.
pub fn structured_field(data: &[u8]) {
    if let Some(item) = parse_item(data) {
        let is_read_back = |text: &[u8]| assert_eq!(parse_item(text).as_ref(), Some(&item));
        write_back(is_writable(&item), |out| write_item(&item, out), is_read_back);
        // An item is a list of one, unless it could be a member that continues.
        assert_eq!(parse_list(data), Some(vec![Member::Item(item)]));
    }
    if let Some(members) = parse_list(data) {
        let writable = members.iter().all(is_writable_member);
        let is_read_back = |text: &[u8]| assert_eq!(parse_list(text).as_ref(), Some(&members));
        write_back(writable, |out| write_list(&members, out), is_read_back);
    }
    if let Some(members) = parse_dictionary(data) {
        for (at, (key, _)) in members.iter().enumerate() {
            assert!(!key.is_empty() && !members[..at].iter().any(|(other, _)| other == key));
        }
        is_joined(data, &members);
    }
}

fn write_back(
    writable: bool,
    write: impl FnOnce(&mut Vec<u8>) -> bool,
    is_read_back: impl FnOnce(&[u8]),
) {
    let mut out = b"kept".to_vec();
    assert_eq!(write(&mut out), writable);
    assert!(out.starts_with(b"kept"));
    match writable {
        true => is_read_back(&out[4..]),
        false => assert_eq!(out, b"kept"),
    }
}

/// A further line is a further member, and the last of a repeated key counts, at its first
/// position.
fn is_joined(data: &[u8], members: &[(String, Member)]) {
    if members.is_empty() || data.len() > 4096 {
        return;
    }
    let again = [data, b", ", data].concat();
    if let Some(twice) = parse_dictionary(&again) {
        assert_eq!(twice, members);
    }
    let more = [data, b", zz9=7"].concat();
    if let Some(longer) = parse_dictionary(&more) {
        let seven = Member::Item(Item::new(BareItem::Integer(7)));
        assert_eq!(longer.iter().find(|(key, _)| key == "zz9"), Some(&("zz9".to_owned(), seven)));
    }
}

fn is_writable(item: &Item) -> bool {
    let plain = |bare: &BareItem| !matches!(bare, BareItem::Bytes(_) | BareItem::Display(_));
    plain(&item.bare) && item.params.iter().all(|(_, value)| plain(value))
}

fn is_writable_member(member: &Member) -> bool {
    match member {
        Member::Item(item) => is_writable(item),
        Member::Inner(items, params) => {
            let shell = Item { bare: BareItem::Boolean(true), params: params.clone() };
            items.iter().all(is_writable) && is_writable(&shell)
        }
    }
}

#[cfg(test)]
mod tests {
    const SEEDS: &[&str] = &[
        "max-age=60, no-cache=\"a, b\", x=?0;q=0.5, y=(1 \"z\");a;b=:YQ==:",
        "\"a\", (\"b\" c;d);e=1, @1659578233, -1.5, %\"%c3%a9\", :YWI:",
        "params, except=(\"x\"), key-order=?0",
        "tidegate; hit; ttl=-5; key=\"a\\\"b\\\\\"",
    ];
    const PIECES: &[&str] = &[
        ",",
        " ",
        "\t",
        "=",
        ";",
        "(",
        ")",
        "\"",
        "\\",
        ":",
        "%",
        "?1",
        "@",
        "-",
        ".",
        "0",
        "9",
        "a",
        "A",
        "*",
        "a=1",
        "\u{e9}",
        "\0",
        "==",
        "(a b)",
        ", a",
        "99999999999999",
    ];

    fn next(state: &mut u64) -> usize {
        *state = state.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(0x1405_7b7e_f767_814f);
        (*state >> 33) as usize
    }

    #[test]
    fn mutated_structured_fields_hold_the_invariants() {
        let mut state = 9;
        for _ in 0..20_000 {
            let mut data = SEEDS[next(&mut state) % SEEDS.len()].as_bytes().to_vec();
            for _ in 0..=next(&mut state) % 4 {
                let at = next(&mut state) % (data.len() + 1);
                match next(&mut state) % 4 {
                    0 => data.truncate(at),
                    1 if at < data.len() => drop(data.remove(at)),
                    _ => {
                        let piece = PIECES[next(&mut state) % PIECES.len()];
                        data.splice(at..at, piece.bytes());
                    }
                }
            }
            let shown = data.escape_ascii().to_string();
            let outcome = std::panic::catch_unwind(|| super::structured_field(&data));
            assert!(outcome.is_ok(), "broken by {shown}");
        }
    }
}
