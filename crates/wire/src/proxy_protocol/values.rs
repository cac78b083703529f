//! The additional values of version 2 (TLV): a type, a length of two bytes, and the value.

use super::Malformed;

const AUTHORITY: u8 = 0x02;
const CRC32C: u8 = 0x03;
const UNIQUE_ID: u8 = 0x05;

/// Longest unique id that the specification allows.
const UNIQUE_ID_BYTES_MAX: usize = 128;
/// Longest name of a host.
const AUTHORITY_BYTES_MAX: usize = 255;

/// Checks the values of a header, which begin at `at`: each ends within the header, a checksum
/// matches, an authority and a unique id have the form that the specification gives them.
pub(super) fn check(header: &[u8], mut at: usize) -> Result<(), Malformed> {
    if at > header.len() {
        return Err(Malformed::Family);
    }
    let mut has_checksum = false;
    while at < header.len() {
        let (kind, value) = value(header, at).ok_or(Malformed::Value)?;
        match kind {
            AUTHORITY => {
                let is_name = !value.is_empty() && std::str::from_utf8(value).is_ok();
                if !is_name || value.len() > AUTHORITY_BYTES_MAX {
                    return Err(Malformed::Value);
                }
            }
            UNIQUE_ID if value.len() > UNIQUE_ID_BYTES_MAX => return Err(Malformed::Value),
            CRC32C => {
                let sent: [u8; 4] = value.try_into().map_err(|_| Malformed::Value)?;
                if std::mem::replace(&mut has_checksum, true) {
                    return Err(Malformed::Value);
                }
                if crc32c(header, at + 3) != u32::from_be_bytes(sent) {
                    return Err(Malformed::Checksum);
                }
            }
            _ => {}
        }
        at += 3 + value.len();
    }
    Ok(())
}

fn value(header: &[u8], at: usize) -> Option<(u8, &[u8])> {
    let head = header.get(at..at + 3)?;
    let length = usize::from(u16::from_be_bytes([head[1], head[2]]));
    Some((head[0], header.get(at + 3..at + 3 + length)?))
}

/// The checksum of a header whose own four bytes, at `field`, count as zeros. By bits: a header is
/// short, and most have no checksum.
fn crc32c(header: &[u8], field: usize) -> u32 {
    const POLYNOMIAL: u32 = 0x82f6_3b78;
    let mut crc = !0u32;
    for (at, byte) in header.iter().enumerate() {
        let byte = if (field..field + 4).contains(&at) { 0 } else { *byte };
        crc ^= u32::from(byte);
        for _ in 0..8 {
            crc = (crc >> 1) ^ (POLYNOMIAL & (crc & 1).wrapping_neg());
        }
    }
    !crc
}

#[cfg(test)]
mod tests {
    use super::crc32c;

    #[test]
    fn the_checksum_is_crc32c() {
        // RFC 3720 B.4: 32 bytes of zeros, which the field of four bytes does not change.
        assert_eq!(crc32c(&[0; 32], 8), 0x8a91_36aa);
        // The check value of the algorithm; no byte counts as zero.
        assert_eq!(crc32c(b"123456789", 9), 0xe306_9283);
    }
}
