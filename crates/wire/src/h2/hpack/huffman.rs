//! The Huffman code of HPACK (RFC 7541 5.2, appendix B).
//!
//! The code is canonical: the lengths of its codes, in the order of the symbols, determine it. All
//! tables are computed from them at compile time.

/// The length of the code of each byte, then of EOS.
const LENGTHS: [u8; 257] = [
    13, 23, 28, 28, 28, 28, 28, 28, 28, 24, 30, 28, 28, 30, 28, 28, 28, 28, 28, 28, 28, 28, 30, 28,
    28, 28, 28, 28, 28, 28, 28, 28, 6, 10, 10, 12, 13, 6, 8, 11, 10, 10, 8, 11, 8, 6, 6, 6, 5, 5,
    5, 6, 6, 6, 6, 6, 6, 6, 7, 8, 15, 6, 12, 10, 13, 6, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7,
    7, 7, 7, 7, 7, 7, 7, 7, 8, 7, 8, 13, 19, 13, 14, 6, 15, 5, 6, 5, 6, 5, 6, 6, 6, 5, 7, 7, 6, 6,
    6, 5, 6, 7, 6, 5, 5, 6, 7, 7, 7, 7, 7, 15, 11, 14, 13, 28, 20, 22, 20, 20, 22, 22, 22, 23, 22,
    23, 23, 23, 23, 23, 24, 23, 24, 24, 22, 23, 24, 23, 23, 23, 23, 21, 22, 23, 22, 23, 23, 24, 22,
    21, 20, 22, 22, 23, 23, 21, 23, 22, 22, 24, 21, 22, 23, 23, 21, 21, 22, 21, 23, 22, 23, 23, 20,
    22, 22, 22, 23, 22, 22, 23, 26, 26, 20, 19, 22, 23, 22, 25, 26, 26, 26, 27, 27, 26, 24, 25, 19,
    21, 26, 27, 27, 26, 27, 24, 21, 21, 26, 26, 28, 27, 27, 27, 20, 24, 20, 21, 22, 21, 21, 23, 22,
    22, 25, 25, 24, 24, 26, 23, 26, 27, 26, 26, 27, 27, 27, 27, 27, 28, 27, 27, 27, 27, 27, 26, 30,
];

const EOS: usize = 256;
/// The longest code.
const LONGEST: usize = 30;
/// Bits that the first table decodes: every printable character except a few.
const QUICK_BITS: u32 = 10;
const QUICK_SIZE: usize = 1 << QUICK_BITS;

struct Tables {
    /// The code of each symbol, in its lowest bits.
    codes: [u32; 257],
    /// The first code of each length.
    first: [u32; LONGEST + 1],
    /// The number of codes of each length.
    count: [u32; LONGEST + 1],
    /// The place of the first code of each length in `symbols`.
    start: [usize; LONGEST + 1],
    /// The symbols in the order of their codes.
    symbols: [u16; 257],
    /// For each beginning of a code: its symbol, and its length in the high byte; zero if the code
    /// is longer.
    quick: [u16; QUICK_SIZE],
}

static TABLES: Tables = tables();

const fn tables() -> Tables {
    let mut tables = Tables {
        codes: [0; 257],
        first: [0; LONGEST + 1],
        count: [0; LONGEST + 1],
        start: [0; LONGEST + 1],
        symbols: [0; 257],
        quick: [0; QUICK_SIZE],
    };
    let (mut length, mut code, mut place) = (1, 0u32, 0);
    while length <= LONGEST {
        code <<= 1;
        tables.first[length] = code;
        tables.start[length] = place;
        let mut symbol = 0;
        while symbol <= EOS {
            if LENGTHS[symbol] as usize == length {
                tables.codes[symbol] = code;
                tables.symbols[place] = symbol as u16;
                if length as u32 <= QUICK_BITS {
                    let spare = QUICK_BITS - length as u32;
                    let mut rest = 0;
                    while rest < 1 << spare {
                        let at = ((code as usize) << spare) + rest;
                        tables.quick[at] = (length as u16) << 8 | symbol as u16;
                        rest += 1;
                    }
                }
                code += 1;
                place += 1;
                tables.count[length] += 1;
            }
            symbol += 1;
        }
        length += 1;
    }
    tables
}

/// Bytes that the text takes when it is encoded.
pub(super) fn encoded_len(text: &[u8]) -> usize {
    let bits: usize = text.iter().map(|&byte| usize::from(LENGTHS[usize::from(byte)])).sum();
    bits.div_ceil(8)
}

/// Appends the encoded text.
pub(super) fn encode(text: &[u8], out: &mut Vec<u8>) {
    let (mut bits, mut held) = (0u64, 0u32);
    for &byte in text {
        let length = u32::from(LENGTHS[usize::from(byte)]);
        bits = bits << length | u64::from(TABLES.codes[usize::from(byte)]);
        held += length;
        while held >= 8 {
            held -= 8;
            out.push((bits >> held) as u8);
        }
    }
    if held > 0 {
        // Padding is the beginning of EOS: ones (RFC 7541 5.2).
        let padding = 8 - held;
        out.push((bits << padding) as u8 | ((1u16 << padding) - 1) as u8);
    }
}

/// Appends the decoded text; `None` if it is malformed: it has EOS, or padding that is longer than
/// seven bits or not of ones.
pub(super) fn decode(input: &[u8], out: &mut Vec<u8>) -> Option<()> {
    // A code has at least five bits.
    out.reserve(input.len() * 8 / 5 + 1);
    let mut input = input.iter();
    // The next bits, left-aligned; the bits after those held are ones.
    let (mut bits, mut held) = (u64::MAX, 0u32);
    loop {
        while held <= 56
            && let Some(&byte) = input.next()
        {
            let place = 56 - held;
            bits &= !(0xff << place) | u64::from(byte) << place;
            held += 8;
        }
        let quick = TABLES.quick[(bits >> (64 - QUICK_BITS)) as usize];
        let (symbol, length) = match u32::from(quick >> 8) {
            0 => match long_code(bits) {
                Some(found) => found,
                None if held < 8 => break,
                None => return None,
            },
            length => (quick as u8, length),
        };
        if length > held {
            break;
        }
        out.push(symbol);
        bits = bits << length | ((1 << length) - 1);
        held -= length;
    }
    let is_padding = held < 8 && bits == u64::MAX;
    is_padding.then_some(())
}

/// Decodes a code that is longer than the first table; `None` for EOS.
#[cold]
fn long_code(bits: u64) -> Option<(u8, u32)> {
    for length in QUICK_BITS as usize + 1..=LONGEST {
        let code = (bits >> (64 - length)) as u32;
        let offset = code.wrapping_sub(TABLES.first[length]);
        if offset < TABLES.count[length] {
            let symbol = TABLES.symbols[TABLES.start[length] + offset as usize];
            return Some((u8::try_from(symbol).ok()?, length as u32));
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_are_those_of_the_rfc() {
        // Of each length some, of appendix B.
        let table = [
            (b'0', 0x0, 5),
            (b't', 0x9, 5),
            (b' ', 0x14, 6),
            (b'u', 0x2d, 6),
            (b':', 0x5c, 7),
            (b'z', 0x7b, 7),
            (b'Z', 0xfd, 8),
            (b'?', 0x3fc, 10),
            (b'|', 0x7fc, 11),
            (b'>', 0xffb, 12),
            (0, 0x1ff8, 13),
            (b'}', 0x3ffd, 14),
            (b'{', 0x7ffe, 15),
            (b'\\', 0x7fff0, 19),
            (128, 0xfffe6, 20),
            (9, 0xffffea, 24),
            (255, 0x3ffffee, 26),
            (254, 0x7fffff0, 27),
            (249, 0xffffffe, 28),
            (22, 0x3ffffffe, 30),
        ];
        for (byte, code, length) in table {
            let symbol = usize::from(byte);
            assert_eq!((TABLES.codes[symbol], LENGTHS[symbol]), (code, length), "{byte}");
        }
        assert_eq!(TABLES.codes[EOS], 0x3fff_ffff);
    }

    #[test]
    fn every_byte_round_trips_alone_and_among_others() {
        let all: Vec<u8> = (0..=255).collect();
        let mut texts: Vec<Vec<u8>> = all.iter().map(|&byte| vec![byte]).collect();
        texts.extend([all.clone(), all.iter().rev().copied().collect(), Vec::new()]);
        for text in texts {
            let mut encoded = Vec::new();
            encode(&text, &mut encoded);
            assert_eq!(encoded.len(), encoded_len(&text));
            let mut decoded = Vec::new();
            assert_eq!(decode(&encoded, &mut decoded), Some(()), "{text:?}");
            assert_eq!(decoded, text);
        }
    }

    #[test]
    fn padding_is_less_than_a_byte_of_ones_and_eos_is_an_error() {
        let table: [(&[u8], bool); 8] = [
            (&[0x07], true),                                      // '0' and three ones
            (&[0x06], false),                                     // a zero in the padding
            (&[0x07, 0xff], false),                               // eleven ones
            (&[0xff], false),                                     // eight ones
            (&[0xff, 0xff, 0xff, 0xff], false),                   // EOS
            (&[0xff, 0xff, 0xff, 0xfc], false),                   // 30 ones, then zeros
            (&[0x07, 0xff, 0xff, 0xff, 0xff], false),             // EOS later
            (&[0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff], false), // only ones
        ];
        for (input, valid) in table {
            assert_eq!(decode(input, &mut Vec::new()).is_some(), valid, "{input:x?}");
        }
    }
}
