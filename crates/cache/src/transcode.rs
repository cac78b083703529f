//! Other codings of what is stored, identity among them: made once, kept, and given to whoever
//! prefers them.
//!
//! Owns the choice of a coding for a client, the making of one that is not there, off the worker,
//! and the fields that it has. Promises that each is made once at a time however many ask, that no
//! more are made at once than there are cores, that what cannot be made or is no shorter is not
//! tried again, and that what is made belongs to exactly the content it was made of. A coding is an
//! object of its own beside the canonical response, weighed and evicted like any other; whether it
//! may be used is judged by the canonical one.

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
use crate::{CodingSettings, Content, Object, ObjectKind, StoredResponse};

/// A coding; `None` is identity.
pub(crate) type TargetCoding = Option<Coding>;

/// How many there are.
pub(crate) const CODINGS: usize = Coding::ALL.len() + 1;
/// All of them.
const TARGETS: [TargetCoding; CODINGS] =
    [Some(Coding::Gzip), Some(Coding::Br), Some(Coding::Zstd), None];

/// What a client is best given.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CodingChoice {
    /// The canonical response.
    Canonical,
    /// Another coding of it, if it is there or can be made. Until then it takes the canonical one
    /// all the same if that is `acceptable`.
    Coded { target: TargetCoding, acceptable: bool },
}

/// The name of a coding in keys, tags and metrics.
pub(crate) fn token(target: TargetCoding) -> &'static str {
    target.map_or("identity", Coding::token)
}

/// The place of a coding among all: [`ObjectState`] keeps a bit for each.
pub(crate) fn index(target: TargetCoding) -> u8 {
    target.map_or(TARGETS.len() as u8 - 1, |coding| coding as u8)
}

/// Chooses by Accept-Encoding (RFC 9110 12.5.3), whose weights decide first, then the order that
/// is offered. Allocates nothing.
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
    // What is not coded as far as we know is given as it is.
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

/// Whether there is nothing to choose: no client is given another coding.
pub(crate) fn has_single_coding(response: &StoredResponse, settings: &CodingSettings) -> bool {
    response.coding.is_none() && !is_codable(response, settings)
}

fn is_codable(response: &StoredResponse, settings: &CodingSettings) -> bool {
    let length = response.content.len();
    // How long it is without its coding is not known here.
    let long_enough = response.coding.is_some() || length >= settings.min_size.bytes();
    response.meta.flags.has(Flags::CODABLE) && long_enough && length <= settings.max_size.bytes()
}

/// Whether the canonical content can be kept without its coding as well.
fn may_store_decoded(
    response: &StoredResponse,
    state: &ObjectState,
    settings: &CodingSettings,
) -> bool {
    !response.meta.flags.has(Flags::NO_TRANSFORM)
        && response.content.len() <= settings.max_size.bytes()
        && !state.was_tried(index(None))
}

/// Whether a coding can be made of it.
pub(crate) fn can_transcode(
    response: &StoredResponse,
    state: &ObjectState,
    target: TargetCoding,
    settings: &CodingSettings,
) -> bool {
    target.is_some() || may_store_decoded(response, state, settings)
}

/// Whether others wait until a coding of it is made.
pub(crate) fn waits_for_transcode(response: &StoredResponse) -> bool {
    response.content.len() <= crate::limits::TRANSCODE_WAIT_BYTES_MAX
}

/// The key of a coding of what is under `key`.
fn coding_key(key: &Key, target: TargetCoding) -> Key {
    Key::new([key.text(), b"\0c:", token(target).as_bytes()].concat(), key.url().len())
}

/// A coding of a response that is stored, if that is there.
pub(crate) fn find(store: &Store, canonical: &Object, target: TargetCoding) -> Option<Arc<Object>> {
    let key = coding_key(&canonical.key, target);
    store.get(key.hash(), key.text()).filter(|object| is_derived_from(object, canonical))
}

/// Whether `object` was made of `canonical`.
pub(crate) fn is_derived_from(object: &Object, canonical: &Object) -> bool {
    match (object.response(), canonical.response()) {
        (Some(made), Some(of)) => made.derived && made.version == of.version,
        _ => false,
    }
}

/// Whether both are the same response with the same content.
pub(crate) fn is_same(one: &Object, other: &Object) -> bool {
    match (one.response(), other.response()) {
        (Some(one), Some(other)) => one.version == other.version && one.coding == other.coding,
        _ => false,
    }
}

/// After a 304: what was made of the content stays, with the fields that the response has now.
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
        // What was purged or replaced meanwhile is refused, as it should be.
        let _ = store.insert_derived(object);
    }
}

/// A coding of a response.
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
        tags: response.tags.clone(),
    };
    let key = coding_key(&canonical.key, target);
    Object { key, kind: ObjectKind::Response(made), state: ObjectState::default() }
}

#[cfg(test)]
mod tests;
