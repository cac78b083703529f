//! Items with text or bytes: strings, byte sequences, display strings (RFC 9651 4.2.5, 4.2.7,
//! 4.2.10).

use super::Input;
use crate::structured::BareItem;

impl Input<'_> {
    pub(super) fn string(&mut self) -> Option<BareItem> {
        self.expect(b'"')?;
        let mut out = String::new();
        loop {
            match self.next()? {
                b'"' => return Some(BareItem::String(out)),
                b'\\' => match self.next()? {
                    byte @ (b'"' | b'\\') => out.push(char::from(byte)),
                    _ => return None,
                },
                byte @ 0x20..=0x7e => out.push(char::from(byte)),
                _ => return None,
            }
        }
    }

    /// Parses Base64 between colons. Padding may be omitted, and unused bits need not be zero
    /// (4.2.7 recommends leniency there).
    pub(super) fn bytes(&mut self) -> Option<BareItem> {
        self.expect(b':')?;
        let text = self.take(|byte| byte != b':');
        self.expect(b':')?;
        let padding = text.iter().rev().take_while(|&&byte| byte == b'=').count();
        let digits = &text[..text.len() - padding];
        let fits = match padding {
            0 => digits.len() % 4 != 1,
            _ => padding <= 2 && text.len().is_multiple_of(4),
        };
        if !fits {
            return None;
        }
        let mut out = Vec::with_capacity(digits.len() * 3 / 4);
        for four in digits.chunks(4) {
            let bits = four.iter().try_fold(0u32, |bits, &byte| Some(bits << 6 | sextet(byte)?))?;
            let bits = bits << (6 * (4 - four.len()));
            out.extend_from_slice(&bits.to_be_bytes()[1..four.len()]);
        }
        Some(BareItem::Bytes(out))
    }

    /// Parses `%"…"` with lower-case percent-encoding of UTF-8.
    pub(super) fn display(&mut self) -> Option<BareItem> {
        self.expect(b'%')?;
        self.expect(b'"')?;
        let mut out = Vec::new();
        loop {
            match self.next()? {
                b'"' => return String::from_utf8(out).ok().map(BareItem::Display),
                b'%' => out.push(nibble(self.next()?)? << 4 | nibble(self.next()?)?),
                byte @ 0x20..=0x7e => out.push(byte),
                _ => return None,
            }
        }
    }
}

fn sextet(byte: u8) -> Option<u32> {
    let value = match byte {
        b'A'..=b'Z' => byte - b'A',
        b'a'..=b'z' => byte - b'a' + 26,
        b'0'..=b'9' => byte - b'0' + 52,
        b'+' => 62,
        b'/' => 63,
        _ => return None,
    };
    Some(u32::from(value))
}

fn nibble(byte: u8) -> Option<u8> {
    match byte {
        b'0'..=b'9' => Some(byte - b'0'),
        b'a'..=b'f' => Some(byte - b'a' + 10),
        _ => None,
    }
}
