//! Requests for a part of a response that is too long to be stored whole.
//!
//! Promises that only a part that came complete is stored, under a strong validator and after what
//! a purge may say; that parts under different validators are never put together; and that who
//! asks for anything but one part in the stored ones is answered as if there were none.

use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use exchange::{
    Body, BodyStream, Fault, Frame, Notes, Outcome, Response as Answer, asked_range, in_pieces,
};
use net::clock::wall_secs;
use wire::conditional::{EntityTag, Validators};
use wire::date::parse_http_date;
use wire::range::{Ranges, resolve, write_content_range};
use wire::{Known, Method};

use super::{Asking, by, stored};
use crate::fill::{
    Share, Whose, asked_part, head_bytes, less_than_whole, object, of_parts, take_as_is,
};
use crate::filter::CacheFilter;
use crate::filter::looking::Looked;
use crate::limits::HEAD_BYTES_MAX;
use crate::rules::store::judge_part;
use crate::rules::{self, Forward, Reason, Reuse, Status, Storing, Times, reuse, vary};
use crate::serve::Said;
use crate::store::Token;
use crate::{Key, Kind, Object, Part, Parts, parts_key};

/// Request fields that parts are not asked about.
const OTHERS: [Known; 4] =
    [Known::IfMatch, Known::IfNoneMatch, Known::IfModifiedSince, Known::IfUnmodifiedSince];

/// Where parts of what is asked for belong, and since when.
pub(super) struct Place {
    primary: Key,
    /// That was asked for, and that is stored under.
    asked: Key,
    key: Key,
    begun: Token,
    requested_secs: u64,
}

fn parts_of(object: &Object) -> Option<&Parts> {
    match &object.kind {
        Kind::Parts(parts) => Some(parts),
        _ => None,
    }
}

impl Asking {
    pub(super) fn asks_for_a_part(&self) -> bool {
        let fields = &self.request.headers;
        self.request.method == Method::Get
            && fields.contains(Known::Range)
            && !fields.contains_any(&OTHERS)
    }

    pub(super) fn place(&self, looked: &Looked) -> Option<Place> {
        self.asks_for_a_part().then(|| Place {
            primary: looked.primary.clone(),
            asked: looked.key.clone(),
            key: looked.key.clone(),
            begun: self.filter.cache().store().token(),
            requested_secs: wall_secs(),
        })
    }

    /// The answer, if all that is asked for lies in fresh parts.
    pub(super) fn stored_part(&self, looked: &Looked) -> Option<Outcome> {
        if !self.asks_for_a_part() {
            return None;
        }
        let key = parts_key(&looked.key);
        let object = self.filter.cache().store().get(key.hash(), key.text())?;
        let parts = parts_of(&object)?;
        let response = &parts.response;
        let now_secs = wall_secs();
        let judged = reuse::judge(&response.meta, object.life.is_stale(), &self.asked, now_secs);
        let Reuse::Use { age_s, left_s, refresh: false } = judged else { return None };
        let mut headers = response.head.headers();
        let validators = Validators {
            exists: true,
            etag: headers.get(Known::Etag).and_then(EntityTag::parse),
            last_modified: headers.get(Known::LastModified).and_then(parse_http_date),
        };
        let asked = asked_range(&self.request, &validators)?;
        let Ranges::Single(range) = resolve(asked, parts.length) else { return None };
        let body = in_pieces(parts.cut(range)?);
        let mut content_range = Vec::new();
        write_content_range(range, parts.length, &mut content_range);
        headers.set(Known::ContentRange, content_range);
        Said::hit(age_s, left_s, self.filter.terms().x_status).write(&mut headers);
        self.filter.metrics().hits.inc();
        self.note("hit", Notes::default());
        Some(Ok(Answer { status: 206, headers, body, ..Answer::default() }))
    }

    /// Asks the origin for the part, under the URL of the key, and stores what comes if it may be.
    pub(super) async fn fetch_part(self, at: Place, why: Forward) -> Outcome {
        let terms = self.filter.terms();
        let mut request = asked_part(&self.request, &at.key, &terms.fetch);
        vary::normalise(&mut request.headers, &terms.policy);
        request.informer.clone_from(&self.request.informer);
        let (outcome, notes) = self.next.clone().run_noting(request).await;
        self.note("miss", notes);
        let why = if self.parts(&at).is_some() { Forward::Partial } else { why };
        self.keep_part(at, outcome?, why)
    }

    /// What came of a fetch was for this request alone.
    pub(super) async fn came_alone(
        self,
        mut response: Answer,
        (why, reason): (Forward, Reason),
        at: Option<Place>,
    ) -> Outcome {
        let filter = self.filter.clone();
        filter.metrics().not_stored(reason);
        let coded = response.headers.contains(Known::ContentEncoding);
        let status = by(why).refused(reason);
        take_as_is(&mut response, &self.request, || filter.undoing(Whose::Passing))?;
        let at = at.filter(|_| reason == Reason::ContentLength);
        match (less_than_whole(response, &self.request), at) {
            (Some(Ok(part)), Some(at)) if part.status == 206 && !coded => {
                self.keep_part(at, part, why)
            }
            (Some(outcome), _) => filter.went_by(outcome, &status),
            (None, Some(at)) => self.fetch_part(at, why).await,
            (None, None) => self.go(&status).await,
        }
    }

    fn parts(&self, at: &Place) -> Option<Arc<Object>> {
        let key = parts_key(&at.key);
        let found = self.filter.cache().store().peek(key.hash(), key.text());
        found.filter(|object| parts_of(object).is_some())
    }

    /// Gives the client what came, and stores it if it is a part that may be.
    fn keep_part(&self, at: Place, mut response: Answer, why: Forward) -> Outcome {
        let filter = &self.filter;
        filter.cache().drop_other_parts(&at.key, response.status, &response.headers);
        let refused = match response.status {
            206 => self.take_part(at, &mut response).err(),
            _ => Some(Reason::ContentLength),
        };
        let status = match refused {
            Some(reason) => by(why).refused(reason),
            None => Status { way: stored(why, None, false), ..by(why) },
        };
        if let Some(reason) = refused.filter(|_| response.status == 206) {
            filter.metrics().not_stored(reason);
        }
        filter.went_by(Ok(response), &status)
    }

    /// Lets a part be stored when it has come complete.
    fn take_part(&self, at: Place, response: &mut Answer) -> Result<(), Reason> {
        let filter = &self.filter;
        let fetch = rules::Fetch {
            method: &Method::Get,
            request: &self.request.headers,
            asked: &self.asked,
            origin: at.primary.origin(),
            times: Times { requested_secs: at.requested_secs, received_secs: wall_secs() },
        };
        let policy = &filter.terms().policy;
        let (storing, range, length) = judge_part(&fetch, &response.headers, policy)?;
        let store = filter.cache().store();
        // What it weighs is more than its bytes.
        let bytes_max = filter.terms().body_bytes_max.min(store.object_bytes_max() / 2);
        if range.len() > bytes_max {
            return Err(Reason::ContentLength);
        }
        if head_bytes(&storing.head) > HEAD_BYTES_MAX {
            return Err(Reason::HeadLength);
        }
        if response.body.length() != Some(range.len()) {
            return Err(Reason::Partial);
        }
        let key = match &storing.vary {
            Some(vary) => filter.variant(&at.primary, &self.request, vary).ok_or(Reason::Failed)?,
            None => at.key.clone(),
        };
        let share = filter.cache().fills().share(range.len()).ok_or(Reason::Failed)?;
        let part = Incoming {
            filter: filter.clone(),
            at: Place { key, ..at },
            storing,
            first: range.first,
            length,
            bytes_max,
            _share: share,
        };
        let body = std::mem::take(&mut response.body);
        let taken = Vec::with_capacity(range.len() as usize);
        response.body = Body::stream(Taking { body, taken, part: Some(part) });
        Ok(())
    }
}

/// A part that is to be stored.
struct Incoming {
    filter: Rc<CacheFilter>,
    at: Place,
    storing: Storing,
    first: u64,
    /// Of the whole.
    length: u64,
    bytes_max: u64,
    _share: Share,
}

impl Incoming {
    fn store(self, content: Vec<u8>) {
        let Incoming { filter, at, storing, .. } = self;
        let (store, terms) = (filter.cache().store(), filter.terms());
        let part = Part { first: self.first, content: Bytes::from(content) };
        let key = parts_key(&at.key);
        let tag = storing.head.get(Known::Etag);
        let known = store.peek(key.hash(), key.text());
        let known = known.as_ref().and_then(|known| parts_of(known)).filter(|known| {
            let same = known.response.head.headers().get(Known::Etag) == tag;
            same && known.length == self.length
        });
        let response = of_parts(&storing, store.next_version(), &terms.codings);
        let parts = match known {
            Some(known) => known.with(response, part, self.bytes_max),
            None => Parts::new(response, self.length, part),
        };
        let most = terms.policy.variants_max;
        let insert = |key, kind| store.insert(object(key, kind), at.begun, most);
        if let Some(vary) = storing.vary.filter(|_| at.key != at.asked) {
            // The URL is known to vary from now on, and this variant to be too long.
            let until_secs = wall_secs() + u64::from(terms.hit_for_miss_s);
            let _ = insert(at.primary, Kind::Varies(vary));
            let why = Reason::ContentLength;
            let _ = insert(at.key, Kind::Uncacheable { until_secs, why });
        }
        // An object that was purged in between is counted by the store.
        let _ = insert(key, Kind::Parts(Box::new(parts)));
    }
}

/// The body of a part on its way to the client, copied as it goes by.
struct Taking {
    body: Body,
    taken: Vec<u8>,
    part: Option<Incoming>,
}

impl BodyStream for Taking {
    fn poll_frame(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Frame, Fault>>> {
        let frame = ready!(self.body.poll_frame(cx));
        match &frame {
            Some(Ok(Frame::Data(data))) => {
                let room = self.taken.capacity() - self.taken.len();
                match self.part.take() {
                    Some(part) if data.len() < room => {
                        self.taken.extend_from_slice(data);
                        self.part = Some(part);
                    }
                    Some(part) if data.len() == room => {
                        self.taken.extend_from_slice(data);
                        part.store(std::mem::take(&mut self.taken));
                    }
                    _ => {}
                }
            }
            Some(Ok(Frame::Trailers(_))) => {}
            // A file lies on a disk already.
            Some(Ok(Frame::File(_)) | Err(_)) | None => self.part = None,
        }
        Poll::Ready(frame)
    }

    fn length(&self) -> Option<u64> {
        self.body.length()
    }
}
