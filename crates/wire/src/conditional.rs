//! Conditional requests (RFC 9110 13): entity tags, preconditions in their order, If-Range.
//!
//! Owns the comparison of validators. Follows the order of evaluation of RFC 9110 13.2.2; a field
//! that cannot be parsed never matches. The caller evaluates only methods and responses to which
//! conditions apply (13.2.1), and joins a repeated field with ", " first.

use crate::date::parse_http_date;
use crate::{Method, token};

/// An entity tag (RFC 9110 8.8.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EntityTag<'a> {
    pub weak: bool,
    /// The text between the quotes.
    pub opaque: &'a [u8],
}

impl<'a> EntityTag<'a> {
    /// Parses `[ "W/" ] DQUOTE *etagc DQUOTE`; `None` unless the text is exactly that.
    pub fn parse(text: &'a [u8]) -> Option<EntityTag<'a>> {
        let (tag, rest) = leading_tag(text)?;
        rest.is_empty().then_some(tag)
    }

    /// Strong comparison (RFC 9110 8.8.3.2).
    pub fn strong_eq(&self, other: &EntityTag<'_>) -> bool {
        !self.weak && !other.weak && self.opaque == other.opaque
    }

    /// Weak comparison.
    pub fn weak_eq(&self, other: &EntityTag<'_>) -> bool {
        self.opaque == other.opaque
    }
}

fn leading_tag(text: &[u8]) -> Option<(EntityTag<'_>, &[u8])> {
    let (weak, quoted) = match text.strip_prefix(b"W/") {
        Some(rest) => (true, rest),
        None => (false, text),
    };
    let inner = quoted.strip_prefix(b"\"")?;
    // A backslash is an ordinary character here, unlike in a quoted string.
    let len = inner.iter().position(|&b| b == b'"')?;
    let opaque = &inner[..len];
    let fits = opaque.iter().all(|&b| b == 0x21 || (b > 0x22 && b != 0x7f));
    fits.then_some((EntityTag { weak, opaque }, &inner[len + 1..]))
}

/// The tags of a list, up to the first malformed one.
fn tags(mut rest: &[u8]) -> impl Iterator<Item = EntityTag<'_>> {
    std::iter::from_fn(move || {
        while let [b',' | b' ' | b'\t', after @ ..] = rest {
            rest = after;
        }
        let (tag, after) = leading_tag(rest)?;
        let after = trim_start(after);
        if !after.is_empty() && after[0] != b',' {
            rest = b"";
            return None;
        }
        rest = after;
        Some(tag)
    })
}

fn trim_start(text: &[u8]) -> &[u8] {
    let at = text.iter().position(|&b| !token::is_ows(b)).unwrap_or(text.len());
    &text[at..]
}

/// The conditional fields of a request, as received.
#[derive(Clone, Copy, Debug, Default)]
pub struct Preconditions<'a> {
    pub if_match: Option<&'a [u8]>,
    pub if_none_match: Option<&'a [u8]>,
    pub if_modified_since: Option<&'a [u8]>,
    pub if_unmodified_since: Option<&'a [u8]>,
}

/// The validators of the selected representation.
#[derive(Clone, Copy, Debug, Default)]
pub struct Validators<'a> {
    /// True if there is a representation, which is what `*` tests.
    pub exists: bool,
    pub etag: Option<EntityTag<'a>>,
    /// Last-Modified in seconds since 1970.
    pub last_modified: Option<u64>,
}

/// The result of evaluating a conditional request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PreconditionResult {
    Proceed,
    /// 304
    NotModified,
    /// 412
    PreconditionFailed,
}

/// Evaluates the preconditions in the order of RFC 9110 13.2.2.
pub fn evaluate(
    method: &Method,
    preconditions: &Preconditions<'_>,
    validators: &Validators<'_>,
) -> PreconditionResult {
    let reads = matches!(method, Method::Get | Method::Head);
    if let Some(value) = preconditions.if_match {
        if !matches(value, validators, |a, b| a.strong_eq(b)) {
            return PreconditionResult::PreconditionFailed;
        }
    } else if let Some(value) = preconditions.if_unmodified_since
        && let (Some(since), Some(modified)) = (parse_http_date(value), validators.last_modified)
        && modified > since
    {
        return PreconditionResult::PreconditionFailed;
    }
    if let Some(value) = preconditions.if_none_match {
        if matches(value, validators, |a, b| a.weak_eq(b)) {
            return if reads {
                PreconditionResult::NotModified
            } else {
                PreconditionResult::PreconditionFailed
            };
        }
    } else if reads
        && let Some(value) = preconditions.if_modified_since
        && let (Some(since), Some(modified)) = (parse_http_date(value), validators.last_modified)
        && modified <= since
    {
        return PreconditionResult::NotModified;
    }
    PreconditionResult::Proceed
}

fn matches(
    value: &[u8],
    validators: &Validators<'_>,
    equal: fn(&EntityTag<'_>, &EntityTag<'_>) -> bool,
) -> bool {
    if token::trim(value) == b"*" {
        return validators.exists;
    }
    validators
        .etag
        .is_some_and(|etag| tags(value).any(|preconditions| equal(&etag, &preconditions)))
}

/// True if a Range may be honoured along with this If-Range (RFC 9110 13.1.5): only on a strong
/// match. A date is strong if the representation had not changed in the second before `now_secs`
/// (8.8.2.2).
pub fn if_range(value: &[u8], validators: &Validators<'_>, now_secs: u64) -> bool {
    if let Some(preconditions) = EntityTag::parse(value) {
        return validators.etag.is_some_and(|etag| etag.strong_eq(&preconditions));
    }
    match (parse_http_date(value), validators.last_modified) {
        (Some(preconditions), Some(modified)) => preconditions == modified && modified < now_secs,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::{EntityTag, PreconditionResult, Preconditions, Validators, evaluate, if_range};
    use crate::Method;

    const NOV_6: &[u8] = b"Sun, 06 Nov 1994 08:49:37 GMT";
    const NOV_6_SECS: u64 = 784_111_777;

    fn validators<'a>(etag: &'a str, last_modified: u64) -> Validators<'a> {
        Validators {
            exists: true,
            etag: EntityTag::parse(etag.as_bytes()),
            last_modified: Some(last_modified),
        }
    }

    #[test]
    fn tags_are_exact() {
        let weak = EntityTag::parse(b"W/\"a\"").unwrap();
        let strong = EntityTag::parse(b"\"a\"").unwrap();
        assert!(weak.weak && !strong.weak);
        assert!(weak.weak_eq(&strong) && !weak.strong_eq(&strong) && !weak.strong_eq(&weak));
        assert!(EntityTag::parse(b"\"\"").is_some() && EntityTag::parse(b"\"a\\\"").is_some());
        for bad in ["a", "\"a", "a\"", "w/\"a\"", "W/a", "\"a b\"", "\"a\"x", "", "\"a\x7f\""] {
            assert_eq!(EntityTag::parse(bad.as_bytes()), None, "{bad}");
        }
    }

    /// method, If-Match, If-None-Match, If-Modified-Since, If-Unmodified-Since, result, for a
    /// representation with the tag `"v1"` modified at the date above.
    type Row = (&'static str, &'static str, &'static str, i64, i64, PreconditionResult);
    const ABSENT: i64 = i64::MIN;

    #[rustfmt::skip]
    const TABLE: &[Row] = {
        use PreconditionResult::{NotModified as NM, PreconditionFailed as PF, Proceed as OK};
        &[
            ("GET", "", "", ABSENT, ABSENT, OK),
            ("GET", "\"v1\"", "", ABSENT, ABSENT, OK),
            ("GET", "\"v0\" , \"v1\"", "", ABSENT, ABSENT, OK),
            ("GET", "*", "", ABSENT, ABSENT, OK),
            ("GET", "\"v0\"", "", ABSENT, ABSENT, PF),
            ("PUT", "W/\"v1\"", "", ABSENT, ABSENT, PF),
            ("PUT", "rubbish", "", ABSENT, ABSENT, PF),
            ("PUT", "\"v0\"x, \"v1\"", "", ABSENT, ABSENT, PF),
            ("PUT", "", "", ABSENT, 0, OK),
            ("PUT", "", "", ABSENT, -1, PF),
            // If-Match overrides If-Unmodified-Since.
            ("PUT", "\"v1\"", "", ABSENT, -1, OK),
            ("GET", "", "\"v1\"", ABSENT, ABSENT, NM),
            ("HEAD", "", "W/\"v1\"", ABSENT, ABSENT, NM),
            ("GET", "", "\"v0\",, \"v1\"", ABSENT, ABSENT, NM),
            ("GET", "", "*", ABSENT, ABSENT, NM),
            ("PUT", "", "*", ABSENT, ABSENT, PF),
            ("POST", "", "\"v1\"", ABSENT, ABSENT, PF),
            ("GET", "", "\"v0\"", ABSENT, ABSENT, OK),
            ("GET", "", "", 0, ABSENT, NM),
            ("GET", "", "", 60, ABSENT, NM),
            ("GET", "", "", -1, ABSENT, OK),
            ("POST", "", "", 0, ABSENT, OK),
            // If-None-Match overrides If-Modified-Since.
            ("GET", "", "\"v0\"", 0, ABSENT, OK),
            // A failing If-Match comes before a matching If-None-Match.
            ("GET", "\"v0\"", "\"v1\"", ABSENT, ABSENT, PF),
            ("GET", "\"v1\"", "\"v1\"", ABSENT, ABSENT, NM),
        ]
    };

    #[test]
    fn preconditions_in_their_order() {
        for &(method, if_match, if_none_match, since, unmodified, outcome) in TABLE {
            let date = |offset: i64| {
                (offset != ABSENT).then(|| {
                    crate::date::format_http_date(NOV_6_SECS.saturating_add_signed(offset))
                })
            };
            let (since_text, unmodified_text) = (date(since), date(unmodified));
            let text = |value: &'static str| (!value.is_empty()).then_some(value.as_bytes());
            let preconditions = Preconditions {
                if_match: text(if_match),
                if_none_match: text(if_none_match),
                if_modified_since: since_text.as_ref().map(|date| &date[..]),
                if_unmodified_since: unmodified_text.as_ref().map(|date| &date[..]),
            };
            let method = Method::from_bytes(method.as_bytes());
            let found = evaluate(&method, &preconditions, &validators("\"v1\"", NOV_6_SECS));
            assert_eq!(
                found, outcome,
                "{method:?} {if_match} {if_none_match} {since} {unmodified}"
            );
        }
    }

    #[test]
    fn a_missing_representation_fails_star_and_invalid_dates_are_ignored() {
        let nothing = Validators::default();
        let star = Preconditions { if_match: Some(b"*"), ..Preconditions::default() };
        assert_eq!(evaluate(&Method::Put, &star, &nothing), PreconditionResult::PreconditionFailed);
        let star = Preconditions { if_none_match: Some(b"*"), ..Preconditions::default() };
        assert_eq!(evaluate(&Method::Put, &star, &nothing), PreconditionResult::Proceed);
        let odd = Preconditions {
            if_modified_since: Some(b"yesterday"),
            if_unmodified_since: Some(b"0"),
            ..Preconditions::default()
        };
        assert_eq!(
            evaluate(&Method::Get, &odd, &validators("\"v1\"", NOV_6_SECS)),
            PreconditionResult::Proceed
        );
    }

    #[test]
    fn if_range_needs_a_strong_match() {
        let strong = validators("\"v1\"", NOV_6_SECS);
        assert!(if_range(b"\"v1\"", &strong, NOV_6_SECS + 9));
        assert!(!if_range(b"W/\"v1\"", &strong, NOV_6_SECS + 9));
        assert!(!if_range(b"\"v1\"", &validators("W/\"v1\"", NOV_6_SECS), NOV_6_SECS + 9));
        assert!(if_range(NOV_6, &strong, NOV_6_SECS + 1));
        assert!(!if_range(NOV_6, &strong, NOV_6_SECS), "modified within the current second");
        assert!(!if_range(NOV_6, &validators("\"v1\"", NOV_6_SECS + 1), NOV_6_SECS + 9));
        assert!(!if_range(b"v1", &strong, NOV_6_SECS + 9));
    }
}
