//! A field section while it is decoded: its limits, its pseudo-header fields, and what its fields
//! state (RFC 9113 8.2, 8.3).
//!
//! The fields are stored as lines of HTTP/1 with their spans, so that everything above has one form
//! of them. `:authority` is stored as Host, which comes first. The strictness is that of HTTP/1.1.
//! Nothing is repaired except that cookies are joined (RFC 9113 8.2.3).

use super::hpack::{Class, Name};
use super::priority::Priority;
use crate::h1::{Expectation, FieldSpan, HeadFacts, HeadLimits, Span};
use crate::{Known, Method, Reject, alias, authority, token};

/// What the section of a message is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Request,
    Response,
    Trailers,
}

/// The fields of the last message head or trailer section.
#[derive(Debug, Default)]
pub struct Fields {
    /// The text that the spans refer to.
    pub text: Vec<u8>,
    pub spans: Vec<FieldSpan>,
}

impl Fields {
    /// The first value of a known name.
    pub fn get(&self, known: Known) -> Option<&[u8]> {
        let field = self.spans.iter().find(|field| field.known == Some(known))?;
        Some(field.value().of(&self.text))
    }

    fn push_text(&mut self, text: &[u8]) -> Span {
        let at = self.text.len();
        self.text.extend_from_slice(text);
        Span { at: at as u32, len: text.len() as u32 }
    }

    #[inline]
    fn push(&mut self, known: Option<Known>, name: &[u8], value: &[u8]) -> Option<Span> {
        let name = self.push_text(name);
        self.text.extend_from_slice(b": ");
        let value = self.push_text(value);
        self.text.extend_from_slice(b"\r\n");
        self.spans.push(FieldSpan::new(name, value, known)?);
        Some(value)
    }
}

/// The pseudo-header fields of a request or response.
#[derive(Default)]
pub(super) struct Pseudo {
    pub(super) method: Option<Method>,
    pub(super) has_scheme: bool,
    pub(super) authority: Option<Span>,
    pub(super) path: Option<Span>,
    pub(super) protocol: Option<Span>,
    pub(super) status: Option<u16>,
}

/// The section that is decoded.
pub(super) struct Section<'a> {
    kind: Kind,
    limits: &'a HeadLimits,
    pub(super) fields: &'a mut Fields,
    pub(super) pseudo: Pseudo,
    pub(super) facts: HeadFacts,
    pub(super) priority: Priority,
    /// Bytes as SETTINGS_MAX_HEADER_LIST_SIZE counts them (RFC 9113 6.5.2), and fields.
    size: usize,
    count: usize,
    cookies: usize,
    began_regular: bool,
    host: Option<Span>,
    /// The section is malformed.
    malformed: Option<Reject>,
    /// The section is above a limit; its fields are no longer stored.
    excess: Option<Reject>,
}

/// What each field of a list costs in addition to its text (RFC 9113 6.5.2).
const FIELD_OVERHEAD: usize = 32;

impl<'a> Section<'a> {
    pub(super) fn new(kind: Kind, limits: &'a HeadLimits, fields: &'a mut Fields) -> Section<'a> {
        fields.text.clear();
        fields.spans.clear();
        Section {
            kind,
            limits,
            fields,
            pseudo: Pseudo::default(),
            facts: HeadFacts::default(),
            priority: Priority::default(),
            size: 0,
            count: 0,
            cookies: 0,
            began_regular: false,
            host: None,
            malformed: None,
            excess: None,
        }
    }

    /// Adds a decoded field. A section above a limit is decoded to its end, because the tables
    /// depend on it, but costs no more memory.
    #[inline]
    pub(super) fn add(&mut self, class: Class, name: &[u8], value: &[u8]) {
        self.size += name.len() + value.len() + FIELD_OVERHEAD;
        self.count += 1;
        if self.size > self.limits.headers {
            self.excess.get_or_insert(Reject::HeadersTooLarge);
        }
        if self.count > self.limits.count() {
            self.excess.get_or_insert(Reject::TooManyFields);
        }
        if let Some(reject) = class.reject {
            self.malformed.get_or_insert(reject);
        }
        if self.excess.is_some() || self.malformed.is_some() {
            return;
        }
        let added = match class.name {
            Name::Known(known) => self.known(known, class.forwarding, name, value),
            Name::Other => {
                self.began_regular = true;
                self.facts.forwarding |= class.forwarding;
                if self.kind == Kind::Trailers && !alias::may_be_trailer(None, name) {
                    return;
                }
                self.fields.push(None, name, value).map(drop).ok_or(Reject::FieldNameTooLong)
            }
            pseudo => self.pseudo(pseudo, value),
        };
        if let Err(reject) = added {
            self.reject(reject);
        }
    }

    fn reject(&mut self, reject: Reject) {
        let place = if is_malformed(reject) { &mut self.malformed } else { &mut self.excess };
        place.get_or_insert(reject);
    }

    #[inline]
    fn known(
        &mut self,
        known: Known,
        forwarding: bool,
        name: &[u8],
        value: &[u8],
    ) -> Result<(), Reject> {
        self.began_regular = true;
        self.facts.forwarding |= forwarding;
        match known {
            _ if self.kind == Kind::Trailers && !alias::may_be_trailer(Some(known), name) => {
                return Ok(());
            }
            _ if self.kind == Kind::Trailers => {}
            Known::Host if self.kind == Kind::Request => return self.host(value),
            Known::ContentLength | Known::Expect => {
                self.facts.note(known, value, Span::default());
            }
            Known::Cookie => self.cookies += 1,
            Known::Priority => self.priority = Priority::parse(value),
            _ => {}
        }
        self.fields.push(Some(known), name, value);
        Ok(())
    }

    /// Host must be the same as `:authority` (RFC 9113 8.3.1), which is stored in its place.
    fn host(&mut self, value: &[u8]) -> Result<(), Reject> {
        if self.host.is_some() {
            return Err(Reject::RepeatedHost);
        }
        if !authority::is_valid(value) {
            return Err(Reject::InvalidHost);
        }
        self.host = match self.pseudo.authority {
            Some(authority) => {
                if !authority.of(&self.fields.text).eq_ignore_ascii_case(value) {
                    return Err(Reject::AuthorityDiffersFromHost);
                }
                Some(authority)
            }
            None => self.fields.push(Some(Known::Host), b"host", value),
        };
        Ok(())
    }

    fn pseudo(&mut self, name: Name, value: &[u8]) -> Result<(), Reject> {
        let is_defined = match self.kind {
            Kind::Request => !matches!(name, Name::Status | Name::UnknownPseudo),
            Kind::Response => name == Name::Status,
            Kind::Trailers => false,
        };
        if !is_defined {
            return Err(Reject::UnknownPseudoHeader);
        }
        if self.began_regular {
            return Err(Reject::LatePseudoHeader);
        }
        let repeated = match name {
            Name::Method => self.pseudo.method.replace(method(value)?).is_some(),
            Name::Scheme => {
                if !matches!(value, b"http" | b"https") {
                    return Err(Reject::UnsupportedScheme);
                }
                std::mem::replace(&mut self.pseudo.has_scheme, true)
            }
            Name::Authority => {
                if !authority::is_valid(value) {
                    return Err(Reject::InvalidHost);
                }
                let host = self.fields.push(Some(Known::Host), b"host", value);
                std::mem::replace(&mut self.pseudo.authority, host).is_some()
            }
            Name::Path => {
                if value.len() > self.limits.request_line {
                    return Err(Reject::RequestLineTooLong);
                }
                let path = self.fields.push_text(value);
                self.pseudo.path.replace(path).is_some()
            }
            Name::Protocol => {
                if !token::is_token(value) {
                    return Err(Reject::InvalidTarget);
                }
                let protocol = self.fields.push_text(value);
                self.pseudo.protocol.replace(protocol).is_some()
            }
            _ => self.pseudo.status.replace(status(value)?).is_some(),
        };
        if repeated { Err(Reject::RepeatedPseudoHeader) } else { Ok(()) }
    }

    /// Ends the section. A malformed one is reported before one above a limit.
    pub(super) fn finish(&mut self) -> Result<(), Reject> {
        if let Some(reject) = self.malformed.or(self.excess) {
            return Err(reject);
        }
        self.facts.check(crate::Version::Http11)?;
        if self.cookies > 1 {
            self.join_cookies();
        }
        Ok(())
    }

    /// The authority of a request, from either place.
    pub(super) fn authority(&self) -> Option<Span> {
        self.pseudo.authority.or(self.host)
    }

    /// True if the section has an expectation other than 100-continue.
    pub(super) fn expects_more(&self) -> bool {
        self.facts.expect == Expectation::Unknown
    }

    /// RFC 9113 8.2.3: cookies may be split into several fields, which only HTTP/2 joins again.
    fn join_cookies(&mut self) {
        let Fields { text, spans } = &mut *self.fields;
        let mut joined = Vec::with_capacity(text.len());
        spans.retain(|field| {
            let is_cookie = field.known == Some(Known::Cookie);
            if is_cookie {
                if !joined.is_empty() {
                    joined.extend_from_slice(b"; ");
                }
                joined.extend_from_slice(field.value().of(text));
            }
            !is_cookie
        });
        self.fields.push(Some(Known::Cookie), b"cookie", &joined);
    }
}

/// True if a message with this reason is malformed (RFC 9113 8.1.1). Every other reason is a status
/// that a server responds with.
pub(super) fn is_malformed(reject: Reject) -> bool {
    reject.status() == 400
}

fn method(value: &[u8]) -> Result<Method, Reject> {
    if value.len() > crate::h1::METHOD_LEN_MAX {
        return Err(Reject::MethodTooLong);
    }
    let method = Method::parse(value).ok_or(Reject::InvalidMethod)?;
    if method.is_case_variant() { Err(Reject::MethodCase) } else { Ok(method) }
}

fn status(value: &[u8]) -> Result<u16, Reject> {
    let &[hundreds @ b'1'..=b'5', tens @ b'0'..=b'9', ones @ b'0'..=b'9'] = value else {
        return Err(Reject::InvalidStatus);
    };
    let digit = |byte: u8| u16::from(byte - b'0');
    Ok(digit(hundreds) * 100 + digit(tens) * 10 + digit(ones))
}
