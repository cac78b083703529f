//! Builds the response for a request and a known file: coding, preconditions, ranges.
//!
//! Never waits; a plain GET of a small file copies only the list of fields.

use coding::Coding;
use message::{
    Fault, FaultKind, HandlerResult, Headers, Request, Response, asked_range, preconditions, ranged,
};
use wire::conditional::{EntityTag, PreconditionResult, Validators};
use wire::{Known, Method, negotiate};

use crate::resource::{Resource, Variant};

/// Fields of a 200 that a 304 repeats (RFC 9110 15.4.5).
const OF_304: [Known; 4] = [Known::Etag, Known::LastModified, Known::Vary, Known::CacheControl];
/// The most codings of a file.
const CODINGS: usize = Coding::ALL.len();

/// Responds to a GET or HEAD.
pub(crate) fn respond(resource: &Resource, request: &Request) -> HandlerResult {
    let variant = choose(resource, &request.headers);
    let validators = Validators {
        exists: true,
        etag: EntityTag::parse(variant.etag.as_bytes()),
        last_modified: Some(variant.modified_secs),
    };
    match preconditions(request, &validators) {
        PreconditionResult::Proceed => {}
        PreconditionResult::NotModified => return Ok(not_modified(variant)),
        PreconditionResult::PreconditionFailed => {
            return Err(Fault::new(FaultKind::PreconditionFailed, ""));
        }
    }
    if request.method == Method::Head {
        return Ok(head(variant));
    }
    match asked_range(request, &validators) {
        Some(requested) => ranged(requested, &variant.content, variant.fields.clone()),
        None => Ok(full_response(variant)),
    }
}

/// Chooses the available coding that the client prefers.
fn choose<'r>(resource: &'r Resource, headers: &Headers) -> &'r Variant {
    if resource.coded.is_empty() {
        return &resource.plain;
    }
    let mut offered = [""; CODINGS];
    for (place, (coding, _)) in offered.iter_mut().zip(&resource.coded) {
        *place = coding.token();
    }
    let offered = &offered[..resource.coded.len().min(CODINGS)];
    let accepted = headers.joined(Known::AcceptEncoding);
    match negotiate::choose_coding(accepted.as_deref(), offered) {
        negotiate::Coding::Offered(at) => &resource.coded[at].1,
        // A client that accepts no available encoding gets the file as it is (RFC 9110 12.5.3
        // allows it).
        negotiate::Coding::Identity | negotiate::Coding::NotAcceptable => &resource.plain,
    }
}

fn full_response(variant: &Variant) -> Response {
    Response {
        status: 200,
        headers: variant.fields.clone(),
        body: variant.content.body(),
        ..Response::default()
    }
}

fn head(variant: &Variant) -> Response {
    let mut response = Response::new(200);
    response.headers = variant.fields.clone();
    let mut number = itoa::Buffer::new();
    response.headers.append(Known::ContentLength, number.format(variant.content.len()));
    response
}

fn not_modified(variant: &Variant) -> Response {
    let mut response = Response::new(304);
    response.headers = variant.fields.clone();
    response.headers.retain(|field| field.known.is_some_and(|known| OF_304.contains(&known)));
    response
}
