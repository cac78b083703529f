//! Range requests for responses that are too long to be stored whole.
//!
//! Promises that only complete parts are stored, under a strong validator and subject to purges,
//! and that parts under different validators are never combined. A request for anything but one
//! range within stored parts is answered as if there were none. Stale parts are revalidated with
//! the request for a range within them (RFC 9111 4.3.4).

use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use message::{
    Body, BodyStream, Fault, Frame, HandlerResult, Headers, Notes, Response, asked_range, in_pieces,
};
use net::clock::wall_secs;
use wire::conditional::{EntityTag, Validators};
use wire::date::parse_http_date;
use wire::range::{ByteRange, Ranges, resolve, write_content_range};
use wire::{Known, Method};

use super::{MissHandler, forwarded, forwarded_stored};
use crate::fill::{
    BudgetShare, DecodeSource, append, decode_unstored, head_bytes, new_object,
    partial_or_not_modified, parts_response, range_origin_request,
};
use crate::limits::HEAD_BYTES_MAX;
use crate::rules::store::evaluate_part;
use crate::rules::{
    self, Forward, Reuse, Status, StorableResponse, Times, UncachedReason, Vary, merge, reuse, vary,
};
use crate::serve::StatusHeaders;
use crate::store::PurgeEpoch;
use crate::worker_filter::CacheFilter;
use crate::worker_filter::Lookup;
use crate::{Key, Object, ObjectKind, Part, Parts, parts_key};

/// Conditions that parts are not used for.
const OTHERS: [Known; 4] =
    [Known::IfMatch, Known::IfNoneMatch, Known::IfModifiedSince, Known::IfUnmodifiedSince];

/// The keys of a part, and when its fetch began.
pub(super) struct PartFetch {
    primary: Key,
    /// The key of the request, and the one that the part is stored under.
    requested: Key,
    key: Key,
    begun: PurgeEpoch,
    requested_secs: u64,
}

/// The range of a request, within stored parts.
struct StoredRange {
    object: Arc<Object>,
    /// The headers of the parts.
    headers: Headers,
    range: ByteRange,
    /// Length of the whole content.
    length: u64,
    pieces: Vec<Bytes>,
}

impl StoredRange {
    /// Makes the 206 from the stored headers, or from those that replace them.
    fn response(self, mut headers: Headers) -> Response {
        let mut content_range = Vec::new();
        write_content_range(self.range, self.length, &mut content_range);
        headers.set(Known::ContentRange, content_range);
        Response { status: 206, headers, body: in_pieces(self.pieces), ..Response::default() }
    }
}

fn parts_of(object: &Object) -> Option<&Parts> {
    match &object.kind {
        ObjectKind::Parts(parts) => Some(parts),
        _ => None,
    }
}

impl MissHandler<'_> {
    pub(super) fn is_range_request(&self) -> bool {
        let fields = &self.request.headers;
        self.request.method == Method::Get
            && fields.contains(Known::Range)
            && !fields.contains_any(&OTHERS)
    }

    pub(super) fn part_fetch(&self, lookup: &Lookup) -> Option<PartFetch> {
        self.is_range_request().then(|| PartFetch {
            primary: lookup.primary.clone(),
            requested: lookup.key.clone(),
            key: lookup.key.clone(),
            begun: self.filter.cache().store().purge_epoch(),
            requested_secs: wall_secs(),
        })
    }

    /// Serves a range that lies in fresh stored parts.
    pub(super) fn serve_stored_parts(&mut self, lookup: &Lookup) -> Option<HandlerResult> {
        let stored = self.stored_range(&lookup.key)?;
        let object = &stored.object;
        let (meta, soft_stale) = (&object.response()?.meta, object.state.is_stale());
        let judged = reuse::evaluate(meta, soft_stale, &self.directives, wall_secs());
        let Reuse::Use { age_s, left_s, refresh: false } = judged else { return None };
        let mut headers = stored.headers.clone();
        StatusHeaders::hit(age_s, left_s, self.filter.config().x_status).write(&mut headers);
        self.filter.metrics().hits.inc();
        self.note("hit", Notes::default());
        Some(Ok(stored.response(headers)))
    }

    /// The requested range, if it lies in stored parts, fresh or not.
    fn stored_range(&self, key: &Key) -> Option<StoredRange> {
        if !self.is_range_request() {
            return None;
        }
        let key = parts_key(key);
        let object = self.filter.cache().store().get(key.hash(), key.text())?;
        let parts = parts_of(&object)?;
        let headers = parts.response.head.headers();
        let validators = Validators {
            exists: true,
            etag: headers.get(Known::Etag).and_then(EntityTag::parse),
            last_modified: headers.get(Known::LastModified).and_then(parse_http_date),
        };
        let requested = asked_range(self.request, &validators)?;
        let Ranges::Single(range) = resolve(requested, parts.length) else { return None };
        let (length, pieces) = (parts.length, parts.cut(range)?);
        Some(StoredRange { object, headers, range, length, pieces })
    }

    /// What to fetch if the requested range lies in stored parts, which are stale: the range, not
    /// the whole again.
    pub(super) fn stale_part_fetch(&self, lookup: &Lookup) -> Option<PartFetch> {
        self.stored_range(&lookup.key).and_then(|_| self.part_fetch(lookup))
    }

    /// Requests a range from the origin, under the URL of the key, and stores the part if it may
    /// be. A range that is stored is revalidated.
    pub(super) async fn fetch_part(mut self, at: PartFetch, why: Forward) -> HandlerResult {
        let stored = self.stored_range(&at.key);
        let mut response = self.request_part(&at, stored.as_ref()).await?;
        if let Some(stored) = stored
            && response.status == 304
        {
            if merge::confirms_parts(&stored.headers, &response.headers) {
                return self.serve_revalidated(at, stored, &response);
            }
            response = self.request_part(&at, None).await?;
        }
        let why = if self.parts(&at).is_some() { Forward::Partial } else { why };
        self.forward_part(at, response, why)
    }

    /// Requests the range of the client from the origin, unless `stored` is still valid.
    async fn request_part(
        &mut self,
        at: &PartFetch,
        stored: Option<&StoredRange>,
    ) -> HandlerResult {
        let config = self.filter.config();
        let validators = stored.map(|stored| &stored.headers);
        let mut request = range_origin_request(self.request, &at.key, validators, &config.fetch);
        vary::normalise(&mut request.headers, &config.policy);
        request.informer.clone_from(&self.request.informer);
        let outcome = self.next.clone().run(&mut request).await;
        self.note("miss", request.notes);
        outcome
    }

    /// Serves stored parts that a 304 has revalidated, updated with its headers.
    fn serve_revalidated(
        self,
        at: PartFetch,
        stored: StoredRange,
        not_modified: &Response,
    ) -> HandlerResult {
        let filter = &self.filter;
        filter.metrics().still_valid.inc();
        self.request.notes.cache = Some("revalidated");
        let hidden = stored.object.response().and_then(|response| response.hidden.as_ref());
        let hidden = hidden.map(|hidden| hidden.headers()).unwrap_or_default();
        let merged = merge::merged([&stored.headers, &hidden], &not_modified.headers);
        let policy = &filter.config().policy;
        let judged = rules::store::evaluate(&self.fetch_context(&at), 200, &merged, policy);
        let judged = judged.and_then(|storing| Ok((self.part_key(&at, &storing)?, storing)));
        match judged {
            Ok((key, storing)) => {
                let now_secs = wall_secs();
                let outcome = forwarded_stored(Forward::Stale, Some(304), false);
                let status =
                    Status { outcome, ..Status::hit(reuse::left_s(&storing.meta, now_secs)) };
                let mut headers = storing.head.clone();
                append(&mut headers, &storing.private);
                filter
                    .status_headers(reuse::age_s(&storing.meta, now_secs), status)
                    .write(&mut headers);
                let known = self.parts(&at).unwrap_or_else(|| stored.object.clone());
                if let Some(parts) = same_parts(&known, &storing.head, stored.length) {
                    let version = filter.cache().store().next_version();
                    let codings = &filter.config().codings;
                    let parts = parts.revalidated(parts_response(&storing, version, codings));
                    insert_parts(filter, PartFetch { key, ..at }, storing.vary, parts);
                }
                Ok(stored.response(headers))
            }
            Err(reason) => {
                // As for a whole response: the origin no longer allows storing it.
                if reason != UncachedReason::Authorization {
                    let key = parts_key(&at.key);
                    filter.cache().store().remove(key.hash(), key.text());
                }
                filter.metrics().not_stored(reason);
                let status = forwarded(Forward::Stale).refused(reason);
                filter.pass_through(Ok(stored.response(merged)), &status)
            }
        }
    }

    /// Serves a response that a fetch returned for this request alone.
    pub(super) async fn serve_unshared(
        self,
        mut response: Response,
        (why, reason): (Forward, UncachedReason),
        at: Option<PartFetch>,
    ) -> HandlerResult {
        let filter = self.filter.clone();
        filter.metrics().not_stored(reason);
        let await_coding = response.headers.contains(Known::ContentEncoding);
        let status = forwarded(why).refused(reason);
        decode_unstored(&mut response, self.request, || {
            filter.decode_context(DecodeSource::Unstored)
        })?;
        let at = at.filter(|_| reason == UncachedReason::ContentLength);
        match (partial_or_not_modified(response, self.request), at) {
            (Some(Ok(part)), Some(at)) if part.status == 206 && !await_coding => {
                self.forward_part(at, part, why)
            }
            (Some(outcome), _) => filter.pass_through(outcome, &status),
            (None, Some(at)) => self.fetch_part(at, why).await,
            (None, None) => self.bypass(&status).await,
        }
    }

    fn parts(&self, at: &PartFetch) -> Option<Arc<Object>> {
        let key = parts_key(&at.key);
        let found = self.filter.cache().store().peek(key.hash(), key.text());
        found.filter(|object| parts_of(object).is_some())
    }

    /// Forwards a response, and stores it if it is a part that may be stored.
    fn forward_part(&self, at: PartFetch, mut response: Response, why: Forward) -> HandlerResult {
        let filter = &self.filter;
        filter.cache().drop_other_parts(&at.key, response.status, &response.headers);
        let refused = match response.status {
            206 => self.capture_part(at, &mut response).err(),
            _ => Some(UncachedReason::ContentLength),
        };
        let status = match refused {
            Some(reason) => forwarded(why).refused(reason),
            None => Status { outcome: forwarded_stored(why, None, false), ..forwarded(why) },
        };
        if let Some(reason) = refused.filter(|_| response.status == 206) {
            filter.metrics().not_stored(reason);
        }
        filter.pass_through(Ok(response), &status)
    }

    fn fetch_context<'f>(&'f self, at: &'f PartFetch) -> rules::FetchContext<'f> {
        rules::FetchContext {
            method: &Method::Get,
            request: &self.request.headers,
            directives: &self.directives,
            origin: at.primary.origin(),
            times: Times { requested_secs: at.requested_secs, received_secs: wall_secs() },
        }
    }

    /// The key that a part is stored under.
    fn part_key(&self, at: &PartFetch, storing: &StorableResponse) -> Result<Key, UncachedReason> {
        let Some(vary) = &storing.vary else { return Ok(at.key.clone()) };
        let key = self.filter.variant_key(&at.primary, self.request, vary);
        key.ok_or(UncachedReason::Failed)
    }

    /// Stores a part once it has arrived completely.
    fn capture_part(&self, at: PartFetch, response: &mut Response) -> Result<(), UncachedReason> {
        let filter = &self.filter;
        let policy = &filter.config().policy;
        let fetch = self.fetch_context(&at);
        let (storing, range, length) = evaluate_part(&fetch, &response.headers, policy)?;
        let store = filter.cache().store();
        // A stored object weighs more than its bytes.
        let bytes_max = filter.config().body_bytes_max.min(store.object_bytes_max() / 2);
        if range.len() > bytes_max {
            return Err(UncachedReason::ContentLength);
        }
        if head_bytes(&storing.head) > HEAD_BYTES_MAX {
            return Err(UncachedReason::HeadLength);
        }
        if response.body.length() != Some(range.len()) {
            return Err(UncachedReason::Partial);
        }
        let key = self.part_key(&at, &storing)?;
        let share =
            filter.cache().fill_budget().share(range.len()).ok_or(UncachedReason::Failed)?;
        let part = PendingPart {
            filter: filter.clone(),
            at: PartFetch { key, ..at },
            storing,
            first: range.first,
            length,
            bytes_max,
            _share: share,
        };
        let body = std::mem::take(&mut response.body);
        let taken = Vec::with_capacity(range.len() as usize);
        response.body = Body::stream(CapturingBody { body, taken, part: Some(part) });
        Ok(())
    }
}

/// A part that is to be stored.
struct PendingPart {
    filter: Rc<CacheFilter>,
    at: PartFetch,
    storing: StorableResponse,
    first: u64,
    /// Length of the whole content.
    length: u64,
    bytes_max: u64,
    _share: BudgetShare,
}

impl PendingPart {
    fn store(self, content: Vec<u8>) {
        let PendingPart { filter, at, storing, .. } = self;
        let store = filter.cache().store();
        let part = Part { first: self.first, content: Bytes::from(content) };
        let key = parts_key(&at.key);
        let known = store.peek(key.hash(), key.text());
        let known = known.as_ref().and_then(|known| same_parts(known, &storing.head, self.length));
        let response = parts_response(&storing, store.next_version(), &filter.config().codings);
        let parts = match known {
            Some(known) => {
                let parts = known.with(response, part, self.bytes_max);
                filter.metrics().parts_dropped.add(parts.dropped - known.dropped);
                parts
            }
            None => Parts::new(response, self.length, part),
        };
        insert_parts(&filter, at, storing.vary, parts);
    }
}

/// The parts, if they are of the response that has these headers and this length.
fn same_parts<'o>(object: &'o Object, headers: &Headers, length: u64) -> Option<&'o Parts> {
    let tag = headers.get(Known::Etag);
    parts_of(object).filter(|parts| {
        parts.response.head.headers().get(Known::Etag) == tag && parts.length == length
    })
}

/// Stores parts under the key of their fetch. The store counts those that it rejects because of a
/// purge.
fn insert_parts(filter: &CacheFilter, at: PartFetch, vary: Option<Vary>, parts: Parts) {
    let config = filter.config();
    let most = config.policy.variants_max;
    let insert = |key, kind| filter.cache().store().insert(new_object(key, kind), at.begun, most);
    let key = parts_key(&at.key);
    if let Some(vary) = vary.filter(|_| at.key != at.requested) {
        // From now on the cache knows that the URL varies and that this variant is too long.
        let until_secs = wall_secs() + u64::from(config.hit_for_miss_s);
        let _ = insert(at.primary, ObjectKind::Varies(vary));
        let why = UncachedReason::ContentLength;
        let _ = insert(at.key, ObjectKind::Uncacheable { until_secs, why });
    }
    let _ = insert(key, ObjectKind::Parts(Box::new(parts)));
}

/// The body of a part, copied while it is sent.
struct CapturingBody {
    body: Body,
    taken: Vec<u8>,
    part: Option<PendingPart>,
}

impl BodyStream for CapturingBody {
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
            // Content in a file is on a disk already.
            Some(Ok(Frame::File(_)) | Err(_)) | None => self.part = None,
        }
        Poll::Ready(frame)
    }

    fn length(&self) -> Option<u64> {
        self.body.length()
    }
}
