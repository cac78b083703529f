//! Parsing of structured fields, step by step as RFC 9651 4.2 prescribes; `None` fails the whole
//! value.

mod text;

use super::{
    BareItem, Dictionary, Item, MAX_INTEGER, Member, Params, is_key_byte, is_key_start,
    is_token_byte, is_token_start,
};

/// The most members, inner items and parameters of one value in total.
const MAX_PARTS: usize = 1024;

/// Parses an item; a repeated field is not an item.
pub fn parse_item(value: &[u8]) -> Option<Item> {
    let mut input = Input { rest: value, parts: 0 };
    input.spaces();
    let item = input.item()?;
    input.spaces();
    input.rest.is_empty().then_some(item)
}

/// Parses a list; a repeated field is joined with ", " first. An empty value is an empty list.
pub fn parse_list(value: &[u8]) -> Option<Vec<Member>> {
    let mut input = Input { rest: value, parts: 0 };
    input.spaces();
    let mut members = Vec::new();
    while !input.rest.is_empty() {
        members.push(input.member()?);
        input.white_space();
        if input.rest.is_empty() {
            break;
        }
        input.expect(b',')?;
        input.white_space();
        // A trailing comma fails.
        input.peek()?;
    }
    Some(members)
}

/// Parses a dictionary; a repeated field is joined with ", " first. An empty value is an empty
/// dictionary. The last of a repeated key counts, at the position of the first.
pub fn parse_dictionary(value: &[u8]) -> Option<Dictionary> {
    let mut input = Input { rest: value, parts: 0 };
    input.spaces();
    let mut members = Dictionary::new();
    while !input.rest.is_empty() {
        let key = input.key()?;
        let member = if input.peek() == Some(b'=') {
            input.next();
            input.member()?
        } else {
            input.count()?;
            Member::Item(Item { bare: BareItem::Boolean(true), params: input.params()? })
        };
        match members.iter_mut().find(|(name, _)| *name == key) {
            Some((_, old)) => *old = member,
            None => members.push((key, member)),
        }
        input.white_space();
        if input.rest.is_empty() {
            break;
        }
        input.expect(b',')?;
        input.white_space();
        // A trailing comma fails.
        input.peek()?;
    }
    Some(members)
}

struct Input<'a> {
    rest: &'a [u8],
    parts: usize,
}

impl<'a> Input<'a> {
    fn peek(&self) -> Option<u8> {
        self.rest.first().copied()
    }

    fn next(&mut self) -> Option<u8> {
        let (&first, rest) = self.rest.split_first()?;
        self.rest = rest;
        Some(first)
    }

    fn expect(&mut self, byte: u8) -> Option<()> {
        (self.next()? == byte).then_some(())
    }

    fn count(&mut self) -> Option<()> {
        self.parts += 1;
        (self.parts <= MAX_PARTS).then_some(())
    }

    fn spaces(&mut self) {
        self.take(|byte| byte == b' ');
    }

    fn white_space(&mut self) {
        self.take(crate::token::is_ows);
    }

    fn take(&mut self, fits: impl Fn(u8) -> bool) -> &'a [u8] {
        let len = self.rest.iter().position(|&b| !fits(b)).unwrap_or(self.rest.len());
        let (taken, rest) = self.rest.split_at(len);
        self.rest = rest;
        taken
    }

    fn member(&mut self) -> Option<Member> {
        if self.peek()? != b'(' {
            return Some(Member::Item(self.item()?));
        }
        self.next();
        let mut items = Vec::new();
        loop {
            self.spaces();
            if self.peek()? == b')' {
                self.next();
                return Some(Member::Inner(items, self.params()?));
            }
            items.push(self.item()?);
            if !matches!(self.peek()?, b' ' | b')') {
                return None;
            }
        }
    }

    fn item(&mut self) -> Option<Item> {
        self.count()?;
        let bare = self.bare()?;
        Some(Item { bare, params: self.params()? })
    }

    fn params(&mut self) -> Option<Params> {
        let mut params = Params::new();
        while self.peek() == Some(b';') {
            self.next();
            self.spaces();
            self.count()?;
            let key = self.key()?;
            let value = if self.peek() == Some(b'=') {
                self.next();
                self.bare()?
            } else {
                BareItem::Boolean(true)
            };
            // The last of a repeated key counts, at the position of the first.
            match params.iter_mut().find(|(name, _)| *name == key) {
                Some((_, old)) => *old = value,
                None => params.push((key, value)),
            }
        }
        Some(params)
    }

    fn key(&mut self) -> Option<String> {
        is_key_start(self.peek()?).then_some(())?;
        text(self.take(is_key_byte))
    }

    fn bare(&mut self) -> Option<BareItem> {
        match self.peek()? {
            b'"' => self.string(),
            b'?' => {
                self.next();
                match self.next()? {
                    b'0' => Some(BareItem::Boolean(false)),
                    b'1' => Some(BareItem::Boolean(true)),
                    _ => None,
                }
            }
            b'@' => {
                self.next();
                match self.number()? {
                    BareItem::Integer(seconds) => Some(BareItem::Date(seconds)),
                    _ => None,
                }
            }
            b':' => self.bytes(),
            b'%' => self.display(),
            b'-' | b'0'..=b'9' => self.number(),
            byte if is_token_start(byte) => Some(BareItem::Token(text(self.take(is_token_byte))?)),
            _ => None,
        }
    }

    fn number(&mut self) -> Option<BareItem> {
        let negative = self.peek()? == b'-';
        if negative {
            self.next();
        }
        let whole = self.take(|byte| byte.is_ascii_digit());
        let decimal = self.peek() == Some(b'.');
        if whole.is_empty() || whole.len() > if decimal { 12 } else { 15 } {
            return None;
        }
        let mut value = digits(whole);
        let bare = if decimal {
            self.next();
            let fraction = self.take(|byte| byte.is_ascii_digit());
            if fraction.is_empty() || fraction.len() > 3 {
                return None;
            }
            value = value * 1000 + digits(fraction) * 10i64.pow(3 - fraction.len() as u32);
            BareItem::Decimal
        } else {
            debug_assert!(value <= MAX_INTEGER);
            BareItem::Integer
        };
        Some(bare(if negative { -value } else { value }))
    }
}

/// At most fifteen digits, so there is no overflow.
fn digits(text: &[u8]) -> i64 {
    text.iter().fold(0, |value, digit| value * 10 + i64::from(digit - b'0'))
}

fn text(bytes: &[u8]) -> Option<String> {
    std::str::from_utf8(bytes).ok().map(str::to_owned)
}
