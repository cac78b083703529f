//! Whole bodies, pieces and flushes, each verified with the decoder.

use super::{Encoder, encode_all, window_bits};
use crate::decoder::{Decode, Decoder, decode_all};
use crate::{Coding, limits::ZSTD_WINDOW_BITS};

const PLENTY: Decode = Decode { output_bytes: 1 << 30, ratio: 1 << 20 };

/// Words with some repetition.
fn prose(bytes: usize) -> Vec<u8> {
    let mut state = 0x2545_f491_u32;
    let mut out = Vec::with_capacity(bytes + 16);
    while out.len() < bytes {
        state ^= state << 13;
        state ^= state >> 17;
        state ^= state << 5;
        out.extend_from_slice(format!("word{} ", state % 997).as_bytes());
    }
    out.truncate(bytes);
    out
}

#[test]
fn whole_bodies_round_trip_at_every_level() {
    let body = prose(20_000);
    for coding in Coding::ALL {
        for level in coding.levels() {
            let coded = encode_all(coding, level, &body).unwrap();
            assert!(coded.len() < body.len() / 2, "{coding:?} {level}: {}", coded.len());
            assert_eq!(decode_all(coding, &coded, PLENTY).unwrap(), body, "{coding:?} {level}");
        }
    }
}

#[test]
fn sizes_from_zero_to_more_than_any_window() {
    for coding in Coding::ALL {
        for size in [0, 1, 100, 8 * 1024, 70_000, 3 << 20] {
            let body = prose(size);
            let coded = encode_all(coding, coding.default_level(), &body).unwrap();
            let back = decode_all(coding, &coded, PLENTY).unwrap();
            assert!(back == body, "{coding:?} {size}");
        }
    }
}

#[test]
fn incompressible_input_round_trips() {
    let mut state = 1_u64;
    let noise: Vec<u8> = (0..100_000)
        .map(|_| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (state >> 56) as u8
        })
        .collect();
    for coding in Coding::ALL {
        let coded = encode_all(coding, coding.default_level(), &noise).unwrap();
        assert!(coded.len() < noise.len() + 1_000);
        assert!(decode_all(coding, &coded, PLENTY).unwrap() == noise, "{coding:?}");
    }
}

#[test]
fn input_in_pieces_of_any_size() {
    let body = prose(30_000);
    for coding in Coding::ALL {
        for piece in [1, 7, 4_096] {
            let mut encoder = Encoder::new(coding, coding.default_level()).unwrap();
            let mut coded = Vec::new();
            for chunk in body.chunks(piece) {
                encoder.encode(chunk, &mut coded).unwrap();
            }
            encoder.finish(&mut coded).unwrap();
            assert!(decode_all(coding, &coded, PLENTY).unwrap() == body, "{coding:?} {piece}");
        }
    }
}

#[test]
fn a_flush_makes_everything_so_far_readable() {
    for coding in Coding::ALL {
        let mut encoder = Encoder::new(coding, coding.default_level()).unwrap();
        let mut decoder = Decoder::new(coding, PLENTY).unwrap();
        let (mut sent, mut read) = (Vec::new(), Vec::new());
        for i in 0..50 {
            let event = [format!("data: {i} ").into_bytes(), prose(i * 400)].concat();
            let mut wire = Vec::new();
            encoder.encode(&event, &mut wire).unwrap();
            encoder.flush(&mut wire).unwrap();
            sent.extend_from_slice(&event);
            decoder.decode(&wire, &mut read).unwrap();
            assert!(read == sent, "{coding:?} event {i}: {} of {}", read.len(), sent.len());
        }
        let mut wire = Vec::new();
        encoder.finish(&mut wire).unwrap();
        decoder.decode(&wire, &mut read).unwrap();
        decoder.finish().unwrap();
        assert!(read == sent);
    }
}

#[test]
fn output_is_appended() {
    for coding in Coding::ALL {
        let mut encoder = Encoder::new(coding, 1).unwrap();
        let mut out = b"before".to_vec();
        encoder.encode(b"hello", &mut out).unwrap();
        encoder.flush(&mut out).unwrap();
        encoder.finish(&mut out).unwrap();
        assert!(out.starts_with(b"before"));
        assert_eq!(decode_all(coding, &out[6..], PLENTY).unwrap(), b"hello");
        assert!(encoder.encode(b"more", &mut out).is_err(), "{coding:?} is finished");
    }
}

#[test]
fn small_bodies_get_small_windows() {
    assert_eq!(window_bits(None, ZSTD_WINDOW_BITS), 19);
    assert_eq!(window_bits(Some(0), 19), 10);
    assert_eq!(window_bits(Some(1_024), 19), 10);
    assert_eq!(window_bits(Some(1_025), 19), 11);
    assert_eq!(window_bits(Some(u64::MAX), 19), 19);
}
