//! Cache-Control (RFC 9111 5.2): lists of directives with optional arguments.
//!
//! As lenient as 5.2 asks (names in any case, arguments as tokens or quoted strings, unknown
//! directives skipped), and in doubt does not store: a restriction is obeyed in any form, a
//! permission only in its proper form.

use message::Headers;
use wire::{Known, token};

/// The greatest number of seconds (RFC 9111 1.2.2).
pub const SECONDS_MAX: u32 = 1 << 31;

/// Reads `delta-seconds` (RFC 9111 1.2.2): digits only; greater numbers count as the greatest.
pub(crate) fn seconds(text: &[u8]) -> Option<u32> {
    if text.is_empty() || !text.iter().all(u8::is_ascii_digit) {
        return None;
    }
    let value = text.iter().fold(0u32, |value, digit| {
        value.saturating_mul(10).saturating_add(u32::from(digit - b'0'))
    });
    Some(value.min(SECONDS_MAX))
}

/// One directive: its name as received, and its argument without quotes.
pub(crate) struct Directive<'a> {
    pub(crate) name: &'a [u8],
    pub(crate) argument: Option<&'a [u8]>,
    /// Whether white space surrounds the `=`, which the grammar forbids.
    spaced: bool,
}

impl Directive<'_> {
    pub(crate) fn is(&self, name: &str) -> bool {
        self.name.eq_ignore_ascii_case(name.as_bytes())
    }

    /// The argument as a number of seconds.
    pub(crate) fn seconds(&self) -> Option<u32> {
        self.argument.filter(|_| !self.spaced).and_then(seconds)
    }
}

/// The directives of one field line.
pub(crate) fn directives(value: &[u8]) -> impl Iterator<Item = Directive<'_>> {
    // A quoted string that never ends must not hide the directives behind it.
    let balanced = is_balanced(value);
    let plain = value.split(|&byte| byte == b',').map(token::trim).filter(|part| !part.is_empty());
    let quoted = token::list(value).filter(move |_| balanced);
    quoted.chain(plain.filter(move |_| !balanced)).map(directive)
}

fn is_balanced(value: &[u8]) -> bool {
    let (mut quoted, mut escaped) = (false, false);
    for &byte in value {
        match byte {
            _ if escaped => escaped = false,
            b'\\' if quoted => escaped = true,
            b'"' => quoted = !quoted,
            _ => {}
        }
    }
    !quoted
}

fn directive(member: &[u8]) -> Directive<'_> {
    let Some(at) = member.iter().position(|&byte| byte == b'=') else {
        return Directive { name: member, argument: None, spaced: false };
    };
    let (name, argument) = (&member[..at], &member[at + 1..]);
    let (trimmed, text) = (token::trim(name), token::trim(argument));
    let spaced = trimmed.len() < name.len() || text.len() < argument.len();
    let inner = text.strip_prefix(b"\"").and_then(|text| text.strip_suffix(b"\""));
    Directive { name: trimmed, argument: Some(inner.unwrap_or(text)), spaced }
}

/// The directives of a response.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Directives {
    /// The first max-age; 0 if it is invalid (RFC 9111 4.2.1).
    pub(crate) max_age_s: Option<u32>,
    pub(crate) s_maxage_s: Option<u32>,
    pub(crate) while_revalidate_s: Option<u32>,
    pub(crate) if_error_s: Option<u32>,
    pub(crate) no_store: bool,
    /// Without field names.
    pub(crate) no_cache: bool,
    /// Without field names.
    pub(crate) private: bool,
    pub(crate) public: bool,
    pub(crate) must_revalidate: bool,
    pub(crate) proxy_revalidate: bool,
    pub(crate) must_understand: bool,
    pub(crate) no_transform: bool,
    pub(crate) immutable: bool,
    /// Fields that no-cache="…" or private="…" lists: they are not stored (RFC 9111 5.2.2.4,
    /// 5.2.2.7).
    pub(crate) fields: Vec<Box<[u8]>>,
}

impl Directives {
    /// Reads Cache-Control.
    pub(crate) fn of(headers: &Headers) -> Directives {
        let mut found = Directives::default();
        for value in headers.get_all(Known::CacheControl) {
            for directive in directives(value) {
                found.add(&directive);
            }
        }
        found
    }

    pub(crate) fn add(&mut self, directive: &Directive<'_>) {
        let bare = directive.argument.is_none();
        if directive.is("max-age") {
            self.max_age_s.get_or_insert(directive.seconds().unwrap_or(0));
        } else if directive.is("s-maxage") {
            self.s_maxage_s.get_or_insert(directive.seconds().unwrap_or(0));
        } else if directive.is("stale-while-revalidate") {
            self.while_revalidate_s.get_or_insert(directive.seconds().unwrap_or(0));
        } else if directive.is("stale-if-error") {
            self.if_error_s.get_or_insert(directive.seconds().unwrap_or(0));
        } else if directive.is("no-store") {
            self.no_store = true;
        } else if directive.is("no-cache") {
            self.no_cache |= !self.names_fields(directive.argument);
        } else if directive.is("private") {
            self.private |= !self.names_fields(directive.argument);
        } else if directive.is("public") {
            self.public |= bare;
        } else if directive.is("must-revalidate") {
            self.must_revalidate = true;
        } else if directive.is("proxy-revalidate") {
            self.proxy_revalidate = true;
        } else if directive.is("must-understand") {
            self.must_understand |= bare;
        } else if directive.is("no-transform") {
            self.no_transform = true;
        } else if directive.is("immutable") {
            self.immutable |= bare;
        }
    }

    /// Adds the names of a qualified directive; false if it has none, or an invalid one.
    pub(crate) fn names_fields(&mut self, argument: Option<&[u8]>) -> bool {
        let Some(argument) = argument else { return false };
        let names: Vec<Box<[u8]>> =
            token::list(argument).map(|name| name.to_ascii_lowercase().into()).collect();
        if names.is_empty() || !names.iter().all(|name| token::is_token(name)) {
            return false;
        }
        self.fields.extend(names);
        true
    }
}
