//! The rules, section by section: the name of a test says which. Sections without an RFC are those
//! of RFC 9111.

mod directives;
mod freshness;
mod groups;
mod invalidation;
mod merging;
mod reuse;
mod search;
mod stale;
mod status;
mod storing;
mod targeted;
mod validation;
mod vary;

use message::Headers;
use wire::Method;
use wire::date::format_http_date;

use super::{
    Disposition, FetchContext, Meta, Policy, RequestDirectives, Reuse, StorableResponse, Times,
    UncachedReason,
};
use super::{request, reuse as reusing, store as storage};

/// The time at which all responses arrive, in seconds since 1970.
pub(super) const NOW: u64 = 1_800_000_000;

/// Fields, a line each.
pub(super) fn fields(text: &str) -> Headers {
    let mut headers = Headers::new();
    for line in text.lines().filter(|line| !line.trim().is_empty()) {
        let (name, value) = line.split_once(':').unwrap();
        headers.append(name.trim(), value.trim());
    }
    headers
}

/// Headers without the Date of [`NOW`] that a response without one gets when it is stored.
pub(super) fn lines(headers: &Headers) -> Vec<String> {
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
    let lines = headers.iter().map(|field| format!("{}: {}", text(field.name), text(field.value)));
    lines.filter(|line| *line != format!("Date: {}", date(0))).collect()
}

/// The date so many seconds from [`NOW`].
pub(super) fn date(offset_s: i64) -> String {
    let secs = NOW.checked_add_signed(offset_s).unwrap();
    String::from_utf8(format_http_date(secs).to_vec()).unwrap()
}

/// A request and a response to evaluate; fields that a test does not set have usual values.
pub(super) struct Case {
    pub(super) method: Method,
    pub(super) request: Headers,
    pub(super) status: u16,
    pub(super) policy: Policy,
    pub(super) delay_s: u64,
}

impl Default for Case {
    fn default() -> Case {
        Case {
            method: Method::Get,
            request: Headers::new(),
            status: 200,
            policy: Policy::default(),
            delay_s: 0,
        }
    }
}

impl Case {
    pub(super) fn status(status: u16) -> Case {
        Case { status, ..Case::default() }
    }

    pub(super) fn asking(request: &str) -> Case {
        Case { request: fields(request), ..Case::default() }
    }

    pub(super) fn under(policy: Policy) -> Case {
        Case { policy, ..Case::default() }
    }

    pub(super) fn evaluate(&self, response: &str) -> Result<StorableResponse, UncachedReason> {
        self.fetched(|fetch| storage::evaluate(fetch, self.status, &fields(response), &self.policy))
    }

    pub(super) fn evaluate_part(
        &self,
        response: &str,
    ) -> Result<(StorableResponse, wire::range::ByteRange, u64), UncachedReason> {
        self.fetched(|fetch| storage::evaluate_part(fetch, &fields(response), &self.policy))
    }

    fn fetched<R>(&self, evaluate: impl FnOnce(&FetchContext<'_>) -> R) -> R {
        let disposition =
            request::classify(&Method::Get, &self.request, false, false, &self.policy);
        let Disposition::Lookup(requested) = disposition else { panic!("{disposition:?}") };
        let fetch = FetchContext {
            method: &self.method,
            request: &self.request,
            directives: &requested,
            origin: b"http://example.com",
            times: Times { requested_secs: NOW - self.delay_s, received_secs: NOW },
        };
        evaluate(&fetch)
    }

    pub(super) fn meta(&self, response: &str) -> Meta {
        self.evaluate(response).unwrap_or_else(|reason| panic!("{response}: {reason:?}")).meta
    }

    pub(super) fn refusal(&self, response: &str) -> Option<UncachedReason> {
        self.evaluate(response).err()
    }
}

/// True if the default policy stores a 200 with these fields.
pub(super) fn is_stored(response: &str) -> bool {
    Case::default().evaluate(response).is_ok()
}

/// The directives of a request.
pub(super) fn requested(cache_control: &str) -> RequestDirectives {
    let headers = fields(&format!("Cache-Control: {cache_control}"));
    match request::classify(&Method::Get, &headers, false, false, &Policy::default()) {
        Disposition::Lookup(requested) => requested,
        other => panic!("{other:?}"),
    }
}

/// How a response that was stored with these fields may be reused, so many seconds later, by a
/// request with these directives.
pub(super) fn later(response: &str, seconds: u64, cache_control: &str) -> Reuse {
    let meta = Case::default().meta(response);
    reusing::evaluate(&meta, false, &requested(cache_control), NOW + seconds)
}

pub(super) fn is_used(reuse: Reuse) -> bool {
    matches!(reuse, Reuse::Use { .. })
}
