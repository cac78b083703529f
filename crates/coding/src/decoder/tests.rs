//! Decoding of excessive, truncated and damaged input.

use super::{Decode, DecodeError, Decoder, decode_all};
use crate::{Coding, encode_all};

const PLENTY: Decode = Decode { output_bytes: 1 << 30, ratio: 1 << 20 };

#[test]
fn a_bomb_is_rejected_before_it_is_unpacked() {
    let zeros = vec![0_u8; 64 << 20];
    for coding in Coding::ALL {
        let bomb = encode_all(coding, 1, &zeros).unwrap();
        let tight = Decode { output_bytes: 100_000, ratio: u64::MAX };
        assert_eq!(decode_all(coding, &bomb, tight), Err(DecodeError::TooLarge), "{coding:?}");
        let thin = Decode { output_bytes: u64::MAX, ratio: 20 };
        let mut decoder = Decoder::new(coding, thin).unwrap();
        let mut out = Vec::new();
        assert_eq!(decoder.decode(&bomb, &mut out), Err(DecodeError::TooDense), "{coding:?}");
        let allowed = (bomb.len() * 20).max(1 << 20);
        assert!(out.len() <= allowed, "{coding:?}: {} bytes of output", out.len());
        assert_eq!(decoder.finish(), Err(DecodeError::TooDense), "the error is repeated");
    }
}

#[test]
fn exactly_the_limit_is_allowed() {
    for coding in Coding::ALL {
        let coded = encode_all(coding, 1, &[7; 5_000]).unwrap();
        for (limit, fits) in [(5_000, true), (4_999, false)] {
            let allowed = Decode { output_bytes: limit, ratio: 1 };
            assert_eq!(decode_all(coding, &coded, allowed).is_ok(), fits, "{coding:?} {limit}");
        }
    }
}

#[test]
fn every_truncation_is_detected() {
    for coding in Coding::ALL {
        let coded = encode_all(coding, 1, b"the quick brown fox jumps over the lazy dog").unwrap();
        assert_eq!(decode_all(coding, b"", PLENTY), Ok(Vec::new()), "{coding:?}: no content");
        for end in 1..coded.len() {
            let result = decode_all(coding, &coded[..end], PLENTY);
            assert_eq!(result, Err(DecodeError::Truncated), "{coding:?} cut at {end}");
        }
    }
}

#[test]
fn damage_and_trailing_bytes_are_corrupt() {
    for coding in Coding::ALL {
        let coded = encode_all(coding, 1, &b"abcdefghij".repeat(50)).unwrap();
        let with_rest = [&coded[..], b"and more than a header"].concat();
        assert_eq!(decode_all(coding, &with_rest, PLENTY), Err(DecodeError::Corrupt), "{coding:?}");
        let noise = b"\xff\xfe this was never coded by anybody";
        assert_eq!(decode_all(coding, noise, PLENTY), Err(DecodeError::Corrupt), "{coding:?}");
    }
    let mut gzip = encode_all(Coding::Gzip, 1, b"checked by a sum").unwrap();
    let sum = gzip.len() - 5;
    gzip[sum] ^= 1;
    assert!(decode_all(Coding::Gzip, &gzip, PLENTY).is_err());
}

#[test]
fn several_gzip_members_and_zstd_frames_are_decoded() {
    for coding in [Coding::Gzip, Coding::Zstd] {
        let one = encode_all(coding, 1, b"one ").unwrap();
        let two = encode_all(coding, 1, b"two").unwrap();
        let both = [one, two].concat();
        assert_eq!(decode_all(coding, &both, PLENTY).unwrap(), b"one two", "{coding:?}");
    }
}

#[test]
fn input_byte_by_byte() {
    let body = b"a body that is somewhat longer than a word ".repeat(100);
    for coding in Coding::ALL {
        let coded = encode_all(coding, 3, &body).unwrap();
        let mut decoder = Decoder::new(coding, PLENTY).unwrap();
        let mut out = Vec::new();
        for byte in &coded {
            decoder.decode(std::slice::from_ref(byte), &mut out).unwrap();
        }
        decoder.finish().unwrap();
        assert!(out == body, "{coding:?}");
    }
}

#[test]
fn a_declared_size_is_reserved_at_once() {
    let text = vec![b'a'; 300_000];
    let mut coded = encode_all(Coding::Gzip, 5, &text).unwrap();
    let out = decode_all(Coding::Gzip, &coded, PLENTY).unwrap();
    assert_eq!((out.len(), out.capacity()), (300_000, 300_000));
    // A wrong size is detected, and costs no more memory than a correct one might.
    let at = coded.len() - 4;
    coded[at..].copy_from_slice(&u32::MAX.to_le_bytes());
    assert!(decode_all(Coding::Gzip, &coded, PLENTY).is_err());
    let thin = Decode { output_bytes: u64::MAX, ratio: 1000 };
    assert!(decode_all(Coding::Gzip, &coded, thin).is_err());
}

/// A step writes no more than its room, however much a few bytes unpack to.
#[test]
fn a_step_writes_no_more_than_its_room() {
    let body = [vec![0_u8; 8 << 20], b"and an end ".repeat(9_000)].concat();
    for coding in Coding::ALL {
        let coded = encode_all(coding, 3, &body).unwrap();
        for (piece, room) in [(coded.len(), 4096), (7, 1), (100, 70_000)] {
            let body = if room == 1 { &body[..20_000] } else { &body[..] };
            let coded =
                if room == 1 { encode_all(coding, 3, body).unwrap() } else { coded.clone() };
            let mut decoder = Decoder::new(coding, PLENTY).unwrap();
            let mut whole = Vec::new();
            for mut input in coded.chunks(piece) {
                loop {
                    let mut out = Vec::new();
                    let step = decoder.decode_some(input, &mut out, room).unwrap();
                    assert!(out.len() <= room, "{coding:?}: {} bytes", out.len());
                    assert_eq!(step.full, out.len() == room, "{coding:?}");
                    input = &input[step.consumed..];
                    whole.extend(out);
                    if !step.full {
                        assert!(input.is_empty(), "{coding:?}");
                        break;
                    }
                }
            }
            decoder.finish().unwrap();
            assert!(whole == body, "{coding:?} {piece} {room}: {} bytes", whole.len());
            assert!(decoder.memory_bytes() < 9 << 20, "{coding:?}");
        }
    }
}
