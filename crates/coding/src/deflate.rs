//! The content coding `deflate` of requests. Responses are never encoded with it: recipients
//! disagree whether it has the header of zlib.

use flate2::{Decompress, FlushDecompress, Status};

use crate::DecodeError;
use crate::limits::OUTPUT_STEP_BYTES;

/// Decodes the first `max` bytes of a body in the coding `deflate` (RFC 9110 8.4.1.2), with the
/// header of zlib (RFC 1950) or, as some clients send it, without. The input may be the beginning
/// of a body; the checksum behind it is not verified.
pub fn decode_deflate(input: &[u8], max: usize) -> Result<Vec<u8>, DecodeError> {
    let input = if has_zlib_header(input) { &input[2..] } else { input };
    let mut stream = Decompress::new(false);
    let mut out = Vec::new();
    loop {
        let before = (stream.total_in(), out.len());
        out.reserve_exact(OUTPUT_STEP_BYTES.min(max - out.len()));
        let rest = &input[before.0 as usize..];
        let status = stream.decompress_vec(rest, &mut out, FlushDecompress::None);
        let status = status.map_err(|_| DecodeError::Corrupt)?;
        let has_advanced = (stream.total_in(), out.len()) != before;
        if status == Status::StreamEnd || out.len() >= max || !has_advanced {
            out.truncate(max);
            return Ok(out);
        }
    }
}

/// True for the method, the window and the check bits of RFC 1950 2.2, without a dictionary.
fn has_zlib_header(input: &[u8]) -> bool {
    let Some([method, flags]) = input.first_chunk() else { return false };
    method & 0x0f == 8
        && method >> 4 <= 7
        && flags & 0x20 == 0
        && u16::from_be_bytes([*method, *flags]).is_multiple_of(31)
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use flate2::Compression;
    use flate2::write::{DeflateEncoder, ZlibEncoder};

    use super::decode_deflate;
    use crate::DecodeError;

    fn zlib(text: &[u8]) -> Vec<u8> {
        let mut encoder = ZlibEncoder::new(Vec::new(), Compression::default());
        encoder.write_all(text).unwrap();
        encoder.finish().unwrap()
    }

    fn bare(text: &[u8]) -> Vec<u8> {
        let mut encoder = DeflateEncoder::new(Vec::new(), Compression::default());
        encoder.write_all(text).unwrap();
        encoder.finish().unwrap()
    }

    #[test]
    fn both_forms_are_decoded_up_to_the_limit() {
        let text: Vec<u8> = (0..40_000_u32).flat_map(u32::to_le_bytes).collect();
        for encoded in [zlib(&text), bare(&text)] {
            for max in [0, 1, 8192, text.len(), usize::MAX] {
                let wanted = &text[..max.min(text.len())];
                assert!(decode_deflate(&encoded, max).unwrap() == wanted, "{max}");
            }
            let beginning = decode_deflate(&encoded[..encoded.len() / 2], usize::MAX).unwrap();
            assert!(!beginning.is_empty() && text.starts_with(&beginning));
        }
        assert_eq!(decode_deflate(b"", 10).unwrap(), b"");
    }

    #[test]
    fn damage_is_an_error() {
        assert_eq!(decode_deflate(b"damaged, and long enough", 100), Err(DecodeError::Corrupt));
        let mut dictionary = zlib(b"a");
        dictionary[..2].copy_from_slice(&[0x78, 0xbb]);
        assert_eq!(decode_deflate(&dictionary, 100), Err(DecodeError::Corrupt));
    }
}
