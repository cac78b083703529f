//! Other content codings of stored responses, identity among them.
//!
//! Chooses the coding for a client, makes missing ones on the blocking pool, and derives their
//! headers. Promises that each coding is made once at a time, that no more are made at once than
//! there are cores, that a coding which cannot be made or is no shorter is not tried again, and
//! that it belongs to exactly the content it was made of. A coding is an object of its own, weighed
//! and evicted like others; whether it may be used depends on the canonical response.

mod convert;
mod headers;
mod in_flight;

use std::sync::Arc;

use coding::Coding;
use wire::negotiate::{self, accepts_coding, choose_coding};

pub(crate) use in_flight::{TranscodeRequest, TranscodeStart, Transcodes};

use crate::key::Key;
use crate::object::ObjectState;
use crate::rules::Flags;
use crate::store::Store;
use crate::{CodingSettings, Content, Hits, Object, ObjectKind, StoredResponse};

/// A coding; `None` is identity.
pub(crate) type TargetCoding = Option<Coding>;

/// The number of codings.
pub(crate) const CODINGS: usize = Coding::ALL.len() + 1;
/// All codings.
const TARGETS: [TargetCoding; CODINGS] =
    [Some(Coding::Gzip), Some(Coding::Br), Some(Coding::Zstd), None];

/// The coding that suits a client best.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CodingChoice {
    /// The canonical response.
    Canonical,
    /// Another coding, if it exists or can be made. Until then the client accepts the canonical
    /// response if that is `acceptable`.
    Coded { target: TargetCoding, acceptable: bool },
}

/// The name of a coding in keys, tags and metrics.
pub(crate) fn token(target: TargetCoding) -> &'static str {
    target.map_or("identity", Coding::token)
}

/// The index of a coding: [`ObjectState`] has a bit for each.
pub(crate) fn index(target: TargetCoding) -> u8 {
    target.map_or(TARGETS.len() as u8 - 1, |coding| coding as u8)
}

/// Chooses by the weights of Accept-Encoding (RFC 9110 12.5.3), then by the configured order.
/// Allocates nothing.
pub(crate) fn choose(
    response: &StoredResponse,
    state: &ObjectState,
    accept_encoding: Option<&[u8]>,
    settings: &CodingSettings,
) -> CodingChoice {
    let mut offered = [Coding::Gzip; Coding::ALL.len() + 1];
    let mut count = 0;
    let mut offer = |coding: Coding| {
        if !offered[..count].contains(&coding) {
            offered[count] = coding;
            count += 1;
        }
    };
    if is_codable(response, settings) {
        for word in &settings.offer {
            let coding = word.coding();
            if response.coding == Some(coding) || !state.was_tried(index(Some(coding))) {
                offer(coding);
            }
        }
    }
    if let Some(own) = response.coding {
        offer(own);
    }
    let tokens = offered.map(Coding::token);
    let target = match choose_coding(accept_encoding, &tokens[..count]) {
        negotiate::Coding::Offered(at) => Some(offered[at]),
        negotiate::Coding::Identity | negotiate::Coding::NotAcceptable => None,
    };
    // Content in an unknown coding is sent as it is.
    if target == response.coding {
        return CodingChoice::Canonical;
    }
    let acceptable = match response.coding {
        None => true,
        Some(own) => accepts_coding(accept_encoding, own.token()),
    };
    match (can_transcode(response, state, target, settings), acceptable) {
        (false, true) => CodingChoice::Canonical,
        _ => CodingChoice::Coded { target, acceptable },
    }
}

/// True if no client gets another coding.
pub(crate) fn has_single_coding(response: &StoredResponse, settings: &CodingSettings) -> bool {
    response.coding.is_none() && !is_codable(response, settings)
}

fn is_codable(response: &StoredResponse, settings: &CodingSettings) -> bool {
    let length = response.content.len();
    // The decoded length is not known here.
    let long_enough = response.coding.is_some() || length >= settings.min_size.bytes();
    response.meta.flags.has(Flags::CODABLE) && long_enough && length <= settings.max_size.bytes()
}

/// True if the decoded content may be stored as well.
fn may_store_decoded(
    response: &StoredResponse,
    state: &ObjectState,
    settings: &CodingSettings,
) -> bool {
    !response.meta.flags.has(Flags::NO_TRANSFORM)
        && response.content.len() <= settings.max_size.bytes()
        && !state.was_tried(index(None))
}

/// True if a coding may be made of it.
pub(crate) fn can_transcode(
    response: &StoredResponse,
    state: &ObjectState,
    target: TargetCoding,
    settings: &CodingSettings,
) -> bool {
    target.is_some() || may_store_decoded(response, state, settings)
}

/// True if requests wait until a coding of it is made.
pub(crate) fn waits_for_transcode(response: &StoredResponse) -> bool {
    response.content.len() <= crate::limits::TRANSCODE_WAIT_BYTES_MAX
}

/// The key of a coding.
fn coding_key(key: &Key, target: TargetCoding) -> Key {
    Key::new([key.text(), b"\0c:", token(target).as_bytes()].concat(), key.url().len())
}

/// Finds a coding of a stored response.
pub(crate) fn find(store: &Store, canonical: &Object, target: TargetCoding) -> Option<Arc<Object>> {
    let key = coding_key(&canonical.key, target);
    store.get(key.hash(), key.text()).filter(|object| is_derived_from(object, canonical))
}

/// True if `object` was transcoded from `canonical`.
pub(crate) fn is_derived_from(object: &Object, canonical: &Object) -> bool {
    match (object.response(), canonical.response()) {
        (Some(made), Some(of)) => made.derived && made.version == of.version,
        _ => false,
    }
}

/// True if both are the same response with the same content.
pub(crate) fn is_same(one: &Object, other: &Object) -> bool {
    match (one.response(), other.response()) {
        (Some(one), Some(other)) => one.version == other.version && one.coding == other.coding,
        _ => false,
    }
}

/// After a 304: gives the codings the headers of the updated response.
pub(crate) fn refresh(store: &Store, canonical: &Object) {
    let Some(response) = canonical.response() else { return };
    for target in TARGETS {
        let key = coding_key(&canonical.key, target);
        let known =
            store.peek(key.hash(), key.text()).filter(|object| is_derived_from(object, canonical));
        let Some(made) = known.as_ref().and_then(|object| object.response()) else { continue };
        let object = object(canonical, response, target, made.content.clone());
        if known.as_ref().is_some_and(|known| known.state.was_tried(index(target))) {
            object.state.mark_tried(index(target));
        }
        // The store rejects what was purged or replaced since.
        let _ = store.insert_derived(object);
    }
}

/// Makes the object of a coding.
fn object(
    canonical: &Object,
    response: &StoredResponse,
    target: TargetCoding,
    content: Content,
) -> Object {
    let made = StoredResponse {
        version: response.version,
        meta: response.meta.clone(),
        head: headers::of(&response.head.headers(), target),
        hidden: None,
        content,
        coding: target,
        derived: true,
        hits: Hits::default(),
        tags: response.tags.clone(),
    };
    let key = coding_key(&canonical.key, target);
    Object { key, kind: ObjectKind::Response(made), state: ObjectState::default() }
}

#[cfg(test)]
mod tests;
