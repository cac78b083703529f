//! What a client is given: a stored response, one that is coming in, or one that went by.

use std::sync::Arc;

use exchange::{Fault, Headers, Outcome, Request, Response, SharedBodyReader};
use net::clock::wall_secs;

use super::CacheFilter;
use crate::Object;
use crate::fill::{Arrival, Undoing, Whose, uncode};
use crate::rules::{Status, Taken, remove_for_us, reuse};
use crate::serve::{self, Said};

impl CacheFilter {
    fn said<'a>(&self, age_s: u32, status: Status<'a>) -> Said<'a> {
        Said { age_s, status, x_status: self.terms.x_status }
    }

    /// A stored response.
    pub(super) async fn give(
        &self,
        object: &Arc<Object>,
        way: Taken,
        request: &Request,
    ) -> Outcome {
        let object = &self.coded(object, request).await;
        let Some(response) = object.response() else {
            return Err(Fault::internal("a marker was taken for a response"));
        };
        let now_secs = wall_secs();
        let left_s = reuse::left_s(&response.meta, now_secs);
        let status = Status { way, ..Status::hit(left_s) };
        let said = self.said(reuse::age_s(&response.meta, now_secs), status);
        let found = serve::Found::Cold(object.clone());
        let (mut headers, body) = found.parts(response, &said, now_secs);
        let undoing = || self.undoing(Whose::Stored(object.clone()));
        let (body, changed) = uncode(&mut headers, body, response.coding, request, undoing)?;
        if !changed {
            return serve::answer(response, headers, body, &said, request);
        }
        if let Some(not_modified) = serve::not_modified(response, &headers, request) {
            return Ok(not_modified);
        }
        let mut whole = Response::new(response.meta.status);
        (whole.headers, whole.body) = (headers, body);
        Ok(whole)
    }

    /// Within what the coding of a response is undone.
    pub(super) fn undoing(&self, whose: Whose) -> Undoing {
        let bytes_max = self.terms.codings.max_decoded.bytes();
        Undoing { cache: self.cache.clone(), whose, bytes_max }
    }

    /// One that is coming in.
    pub(super) fn give_growing(
        &self,
        arrival: &Arc<Arrival>,
        reader: SharedBodyReader,
        private: &Headers,
        way: Taken,
        request: &Request,
    ) -> Outcome {
        let now_secs = wall_secs();
        let meta = &arrival.stored.meta;
        let status = Status { way, ..Status::hit(reuse::left_s(meta, now_secs)) };
        let said = self.said(reuse::age_s(meta, now_secs), status);
        let undoing = || self.undoing(Whose::Coming(arrival.clone()));
        arrival.answer(reader, private, &said, request, undoing)
    }

    /// What comes from the origin and was not stored.
    pub(super) fn went_by(&self, outcome: Outcome, status: &Status<'_>) -> Outcome {
        match outcome {
            Ok(mut response) => {
                remove_for_us(&mut response.headers, &self.terms.policy);
                self.say(&mut response.headers, status);
                Ok(response)
            }
            // RFC 9211 2: nothing is said in an answer of our own that no stored one is behind.
            Err(fault) => Err(fault),
        }
    }

    fn say(&self, headers: &mut Headers, status: &Status<'_>) {
        serve::say(headers, status, self.terms.x_status);
    }
}
