//! Responses from stored ones: Age and Cache-Status of this use, 304, 206 and 416.

use message::{Body, HandlerResult, Headers, Request, Response, asked_range, ranged};
use wire::Known;
use wire::conditional::{EntityTag, PreconditionResult, Validators};
use wire::date::parse_http_date;

use crate::StoredResponse;
use crate::rules::conditions::conditions;
use crate::rules::{CacheOutcome, Status, status};

/// The name of this cache in `Cache-Status`.
const NAME: &str = "tidegate";

/// Request fields that ask for less than the whole representation.
pub(crate) const PARTIAL_REQUEST_FIELDS: [Known; 3] =
    [Known::IfNoneMatch, Known::IfModifiedSince, Known::Range];

/// The headers that describe one use of a stored response.
pub(crate) struct StatusHeaders<'a> {
    pub(crate) age_s: u32,
    pub(crate) status: Status<'a>,
    /// Whether X-Status is sent too.
    pub(crate) x_status: bool,
}

impl StatusHeaders<'_> {
    pub(crate) fn hit(age_s: u32, left_s: i64, x_status: bool) -> StatusHeaders<'static> {
        StatusHeaders { age_s, status: Status::hit(left_s), x_status }
    }

    /// Writes the headers. A response that was not validated for this request has an Age (RFC 9111
    /// 4).
    pub(crate) fn write(&self, headers: &mut Headers) {
        // RFC 9111 5.1: Age means that the origin was not requested for this response.
        let is_news =
            matches!(self.status.outcome, CacheOutcome::Forwarded { collapsed: false, .. });
        if self.age_s > 0 || !is_news {
            headers.set(Known::Age, itoa::Buffer::new().format(self.age_s));
        }
        add_status(headers, &self.status, self.x_status);
    }
}

/// Adds to a response what the cache did.
pub(crate) fn add_status(headers: &mut Headers, status: &Status<'_>, x_status: bool) {
    status::add(NAME, status, headers);
    if x_status {
        headers.set("X-Status", status::word(status));
    }
}

/// Answers a GET or HEAD with the stored response of which `headers` and `body` were made, or with
/// the part of it that is requested. The body for a HEAD tells the length.
pub(crate) fn respond(
    response: &StoredResponse,
    headers: Headers,
    body: Body,
    status_headers: &StatusHeaders<'_>,
    request: &Request,
) -> HandlerResult {
    let status = response.meta.status;
    if status != 200 || !request.headers.contains_any(&PARTIAL_REQUEST_FIELDS) {
        return Ok(Response { status, headers, body, ..Response::default() });
    }
    if let Some(not_modified) = not_modified(response, &headers, request) {
        return Ok(not_modified);
    }
    let validators = Validators {
        exists: true,
        etag: headers.get(Known::Etag).and_then(EntityTag::parse),
        last_modified: headers.get(Known::LastModified).and_then(parse_http_date),
    };
    match asked_range(request, &validators) {
        Some(requested) => ranged(requested, &response.content, headers.clone()).map_err(|fault| {
            let mut value = Vec::new();
            status::write(NAME, &status_headers.status, &mut value);
            fault.with_field(Known::CacheStatus, value)
        }),
        None => Ok(Response { status, headers, body, ..Response::default() }),
    }
}

/// The 304, if the client's copy is current. The client may have it under the tag of the selected
/// coding or under that of the origin; the 304 has the tag that the client knows (RFC 9111 4.3.4).
pub(crate) fn not_modified(
    response: &StoredResponse,
    headers: &Headers,
    request: &Request,
) -> Option<Response> {
    let own = headers.get(Known::Etag);
    let holds = |tag: Option<&[u8]>| {
        let meta = &response.meta;
        let tags = [tag, None];
        let result = conditions(&request.headers, meta.status, headers, tags, meta.received_secs);
        result == PreconditionResult::NotModified
    };
    let token = response.coding.map_or("identity", |coding| coding.token());
    let origins = || without_suffix(own?, token);
    let tag = match holds(own) {
        true => None,
        false => Some(origins().filter(|tag| response.derived && holds(Some(tag)))?),
    };
    let mut answer = without_content(headers);
    if let Some(tag) = tag {
        answer.headers.set(Known::Etag, tag);
    }
    Some(answer)
}

/// The 304 in place of a 200: without the headers that describe the content, except those that
/// update the client's copy (RFC 9110 15.4.5).
pub(crate) fn without_content(headers: &Headers) -> Response {
    let mut answer = Response::new(304);
    answer.headers = headers.clone();
    let tagged = headers.contains(Known::Etag);
    answer.headers.retain(|field| match field.known {
        Some(Known::LastModified) => !tagged,
        Some(
            Known::ContentType
            | Known::ContentEncoding
            | Known::ContentLanguage
            | Known::ContentDisposition
            | Known::ContentLength
            | Known::ContentRange,
        ) => false,
        _ => true,
    });
    answer
}

/// The origin's tag from that of a transcoded response: `"a-gzip"` is made of `"a"`.
fn without_suffix(tag: &[u8], token: &str) -> Option<Vec<u8>> {
    let opaque = tag.strip_suffix(b"\"")?.strip_suffix(token.as_bytes())?.strip_suffix(b"-")?;
    Some([opaque, b"\""].concat())
}
