//! The packing: eight bytes become the ones that are not zero, after a byte that says which.
//!
//! After eight bytes without a zero comes the number of groups that follow as they are: those with
//! at least six bytes that are not zero. The last group may be shorter than eight bytes.

use crate::limits::ZPROTO_BYTES;

const GROUP: usize = 8;
/// A group with that many bytes that are not zero follows as it is.
const DENSE: usize = 6;
const RUN_MAX: usize = 255;

fn nonzero(group: &[u8]) -> usize {
    group.iter().filter(|byte| **byte != 0).count()
}

pub(super) fn pack(data: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(data.len() / 2);
    let mut groups = data.chunks(GROUP).peekable();
    while let Some(group) = groups.next() {
        let at = out.len();
        out.push(0);
        for (bit, byte) in group.iter().enumerate().filter(|(_, byte)| **byte != 0) {
            out[at] |= 1 << bit;
            out.push(*byte);
        }
        if nonzero(group) < GROUP || groups.peek().is_none() {
            continue;
        }
        let (count_at, mut count) = (out.len(), 0);
        out.push(0);
        while count < RUN_MAX {
            let Some(group) = groups.next_if(|group| nonzero(group) >= DENSE) else { break };
            out.extend_from_slice(group);
            count += 1;
        }
        out[count_at] = count as u8;
    }
    out
}

/// Undoes [`pack`]; the result is a multiple of eight bytes. What is missing at the end is zero, as
/// in Silly.
pub(super) fn unpack(data: &[u8]) -> Result<Vec<u8>, String> {
    let (mut out, mut rest) = (Vec::with_capacity(data.len() * 2), data);
    while let [bits, after @ ..] = rest {
        rest = after;
        let mut taken = 0;
        for bit in 0..GROUP {
            let byte = match rest {
                [byte, after @ ..] if bits >> bit & 1 != 0 => {
                    rest = after;
                    taken += 1;
                    *byte
                }
                _ => 0,
            };
            out.push(byte);
        }
        if taken == GROUP {
            rest = run(rest, &mut out)?;
        }
        if out.len() > ZPROTO_BYTES {
            return Err(format!("the data would be longer than {} MiB", ZPROTO_BYTES >> 20));
        }
    }
    Ok(out)
}

/// Appends the groups that follow as they are; returns what is behind them.
fn run<'a>(data: &'a [u8], out: &mut Vec<u8>) -> Result<&'a [u8], String> {
    let [count, data @ ..] = data else { return Ok(data) };
    if data.is_empty() {
        return Ok(data);
    }
    let count = usize::from(*count);
    if count.saturating_sub(1) * GROUP > data.len() {
        return Err("the data breaks off".to_owned());
    }
    let (groups, rest) = data.split_at((count * GROUP).min(data.len()));
    out.extend_from_slice(groups);
    out.resize(out.len() + count * GROUP - groups.len(), 0);
    Ok(rest)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn zeros_are_left_out_and_dense_groups_follow_as_they_are() {
        for (plain, packed) in [
            (&b""[..], &b""[..]),
            (b"\0", b"\0"),
            (b"\x08\0\0\0\x03\0\x02\0", b"\x51\x08\x03\x02"),
            (b"\x01\x02\x03\x04\x05\x06\x07\x08", b"\xff\x01\x02\x03\x04\x05\x06\x07\x08"),
            (b"12345678\x09", b"\xff12345678\0\x01\x09"),
            (b"12345678123456\0\0\0\x01", b"\xff12345678\x01123456\0\0\x02\x01"),
            (b"12345678123456", b"\xff12345678\x01123456"),
        ] {
            assert_eq!(pack(plain), packed, "{plain:?}");
            let mut padded = plain.to_vec();
            padded.resize(plain.len().next_multiple_of(GROUP), 0);
            assert_eq!(unpack(packed).as_deref(), Ok(&padded[..]), "{packed:?}");
        }
        for length in [254, 255, 256, 257, 600].map(|groups| groups * GROUP) {
            let plain = vec![7; length];
            let packed = pack(&plain);
            assert!(packed.len() <= length + length.div_ceil(2048) * 2 + 1, "{length}");
            assert_eq!(unpack(&packed), Ok(plain));
        }
    }

    #[test]
    fn damaged_data_is_an_error_or_zeros() {
        assert_eq!(unpack(b"\xff\x42").unwrap(), b"\x42\0\0\0\0\0\0\0");
        assert_eq!(unpack(b"\x80").unwrap(), [0; 8]);
        assert_eq!(unpack(b"\xff12345678\x03x"), Err("the data breaks off".to_owned()));
        assert_eq!(unpack(b"\xff12345678\x01x").unwrap(), b"12345678x\0\0\0\0\0\0\0");
    }
}
