//! Writing of structured fields (RFC 9651 4.1). A value that cannot be written leaves the output as
//! it was and returns false: a field is sent whole or not at all.

use super::{
    BareItem, Item, MAX_INTEGER, Member, Params, is_key_byte, is_key_start, is_token_byte,
    is_token_start,
};

/// Appends an item.
pub fn write_item(item: &Item, out: &mut Vec<u8>) -> bool {
    whole(out, |out| put_item(item, out))
}

/// Appends a list; an empty list is not sent as a field (RFC 9651 4.1), so nothing is appended.
pub fn write_list(members: &[Member], out: &mut Vec<u8>) -> bool {
    whole(out, |out| {
        for (at, member) in members.iter().enumerate() {
            if at > 0 {
                out.extend_from_slice(b", ");
            }
            match member {
                Member::Item(item) => put_item(item, out)?,
                Member::Inner(items, params) => put_inner(items, params, out)?,
            }
        }
        Some(())
    })
}

fn whole(out: &mut Vec<u8>, put: impl FnOnce(&mut Vec<u8>) -> Option<()>) -> bool {
    let start = out.len();
    let written = put(out).is_some();
    if !written {
        out.truncate(start);
    }
    written
}

fn put_inner(items: &[Item], params: &Params, out: &mut Vec<u8>) -> Option<()> {
    out.push(b'(');
    for (at, item) in items.iter().enumerate() {
        if at > 0 {
            out.push(b' ');
        }
        put_item(item, out)?;
    }
    out.push(b')');
    put_params(params, out)
}

fn put_item(item: &Item, out: &mut Vec<u8>) -> Option<()> {
    put_bare(&item.bare, out)?;
    put_params(&item.params, out)
}

fn put_params(params: &Params, out: &mut Vec<u8>) -> Option<()> {
    for (key, value) in params {
        let bytes = key.as_bytes();
        if !is_key_start(*bytes.first()?) || !bytes.iter().all(|&b| is_key_byte(b)) {
            return None;
        }
        out.push(b';');
        out.extend_from_slice(bytes);
        if *value != BareItem::Boolean(true) {
            out.push(b'=');
            put_bare(value, out)?;
        }
    }
    Some(())
}

fn put_bare(bare: &BareItem, out: &mut Vec<u8>) -> Option<()> {
    match bare {
        BareItem::Integer(value) => put_integer(*value, out)?,
        BareItem::Date(seconds) => {
            out.push(b'@');
            put_integer(*seconds, out)?;
        }
        BareItem::Decimal(thousandths) => put_decimal(*thousandths, out)?,
        BareItem::Boolean(value) => out.extend_from_slice(if *value { b"?1" } else { b"?0" }),
        // None are sent.
        BareItem::Bytes(_) | BareItem::Display(_) => return None,
        BareItem::Token(text) => {
            let bytes = text.as_bytes();
            if !is_token_start(*bytes.first()?) || !bytes.iter().all(|&b| is_token_byte(b)) {
                return None;
            }
            out.extend_from_slice(bytes);
        }
        BareItem::String(text) => {
            out.push(b'"');
            for byte in text.bytes() {
                match byte {
                    b'"' | b'\\' => out.extend_from_slice(&[b'\\', byte]),
                    0x20..=0x7e => out.push(byte),
                    _ => return None,
                }
            }
            out.push(b'"');
        }
    }
    Some(())
}

fn put_integer(value: i64, out: &mut Vec<u8>) -> Option<()> {
    if !(-MAX_INTEGER..=MAX_INTEGER).contains(&value) {
        return None;
    }
    out.extend_from_slice(itoa::Buffer::new().format(value).as_bytes());
    Some(())
}

fn put_decimal(thousandths: i64, out: &mut Vec<u8>) -> Option<()> {
    if !(-MAX_INTEGER..=MAX_INTEGER).contains(&thousandths) {
        return None;
    }
    if thousandths < 0 {
        out.push(b'-');
    }
    let (whole, rest) = (thousandths.abs() / 1000, thousandths.abs() % 1000);
    out.extend_from_slice(itoa::Buffer::new().format(whole).as_bytes());
    let places = [rest / 100, rest / 10 % 10, rest % 10].map(|digit| b'0' + digit as u8);
    // At least one decimal place, no trailing zeros beyond it.
    let used = if places[2] != b'0' {
        3
    } else if places[1] != b'0' {
        2
    } else {
        1
    };
    out.push(b'.');
    out.extend_from_slice(&places[..used]);
    Some(())
}
