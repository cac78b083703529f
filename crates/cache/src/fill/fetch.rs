//! One run of the rest of a route's way for the cache, apart from the client that caused it.
//!
//! Promises that everybody who waits hears what became of it, whatever that is; that a purge while
//! it ran keeps what it brought out of the store; that errors leave what is stored as it is.

use std::pin::pin;
use std::rc::{Rc, Weak};
use std::sync::Arc;

use bytes::Bytes;
use exchange::{
    Fault, Headers, Inform, Next, Notes, Outcome, Request, Response as Answer, Retry,
    SharedBodyReader, Side, shared_body,
};
use net::clock::wall_secs;
use tokio::sync::oneshot;
use wire::Method;

use super::asked::asked;
use super::budget::Share;
use super::pour::{Poured, growing_bytes_max, pour};
use super::uncoded::coding_of;
use super::{Arrival, keep};
use crate::derive;
use crate::filter::CacheFilter;
use crate::flight::{Landing, Lead, Waiter};
use crate::limits::{HEAD_BYTES_MAX, REST_S};
use crate::rules::validate::Answer as Verdict;
use crate::rules::{self, Asked, Reason, Storing, Times, Vary, merge, reuse, validate, vary};
use crate::{Cache, Content, Key, Kind, Object};

/// Passes interim responses (103 Early Hints) on to the client that caused a fetch, for as long as
/// that client waits for it and holds the other end.
pub(crate) struct Interim(pub(crate) Weak<Rc<dyn Inform>>);

impl Inform for Interim {
    fn inform(&self, status: u16, headers: &Headers) {
        if let Some(client) = self.0.upgrade() {
            client.inform(status, headers);
        }
    }
}

/// What becomes of a fetch, for the client that caused it.
pub(crate) enum Told {
    /// The answer is for this client alone. Its request may have asked for something else than what
    /// was fetched.
    Alone(Box<Answer>, Reason),
    /// A response that is shared while it comes, and the fields of it that are for this client
    /// alone.
    Arrived(Arc<Arrival>, SharedBodyReader, Headers),
    /// The stored response is valid again; with it the fields of the 304 for this client alone.
    Stored(Arc<Object>, Headers),
    Failed(Fault),
}

/// A fetch to be run.
pub(crate) struct Fetch {
    pub(crate) filter: Rc<CacheFilter>,
    pub(crate) cache: Arc<Cache>,
    pub(crate) lead: Lead,
    /// Without Vary.
    pub(crate) primary: Key,
    /// What it is for, as far as that is known.
    pub(crate) key: Key,
    /// A copy of the client's.
    pub(crate) request: Request,
    pub(crate) asked: Asked,
    /// What is stored already.
    pub(crate) stale: Option<Arc<Object>>,
    pub(crate) next: Next,
    /// Who caused it, if he waits for it.
    pub(crate) tell: Option<oneshot::Sender<(Told, Notes)>>,
    /// Keeps it going where nobody waits.
    pub(crate) own: Option<Waiter>,
}

impl Fetch {
    /// Runs it to its end.
    pub(crate) async fn run(self) {
        let stored = self.stored();
        let mut validators = stored.as_ref();
        loop {
            let terms = &self.filter.terms().fetch;
            let mut request = asked(&self.request, &self.key, validators, terms);
            vary::normalise(&mut request.headers, &self.filter.terms().policy);
            request.informer = self.request.informer.clone();
            let requested_secs = wall_secs();
            let Some((outcome, notes)) = self.wanted(request).await else { return };
            let times = Times { requested_secs, received_secs: wall_secs() };
            let response = match outcome {
                Ok(response) => response,
                Err(fault) => return self.failed(fault, notes),
            };
            let answer = stored
                .as_ref()
                .map(|stored| validate::answer(stored, response.status, &response.headers));
            match answer {
                Some(Verdict::Confirmed) => return self.confirmed(&response, times, notes),
                Some(Verdict::OfAnother) if validators.take().is_some() => {}
                Some(Verdict::Failed) if self.has_substitute() => {
                    let said = format!("the origin answered {}", response.status);
                    let slug = "http_response_status";
                    let fault = Fault::upstream(response.status, slug, Retry::Never, said);
                    return self.failed(fault, notes);
                }
                _ => return self.came(response, times, notes).await,
            }
        }
    }

    /// The fields of what is stored: the validators are among them.
    fn stored(&self) -> Option<Headers> {
        let stored = self.stale.as_ref()?.response()?;
        Some(stored.head.headers())
    }

    /// Runs the rest of the way as long as somebody wants it, and a little longer.
    async fn wanted(&self, request: Request) -> Option<(Outcome, Notes)> {
        let mut run = pin!(self.next.clone().run_noting(request));
        loop {
            tokio::select! {
                biased;
                done = &mut run => return Some(done),
                () = self.lead.unwanted() => {}
            }
            let outlive = self.filter.terms().fetch.outlive;
            match net::timer::within(outlive, &mut run).await {
                Some(done) => return Some(done),
                None if self.lead.waiters() == 0 => return None,
                None => {}
            }
        }
    }

    /// Whether something stored may be served when the origin fails.
    fn has_substitute(&self) -> bool {
        let stored = self.stale.as_ref().and_then(|stale| stale.response());
        stored
            .is_some_and(|stored| reuse::may_serve_on_error(&stored.meta, &self.asked, wall_secs()))
    }

    fn tell(&mut self, told: Told, notes: Notes) {
        if let Some(tell) = self.tell.take() {
            // A client that has left wants nothing.
            let _ = tell.send((told, notes));
        }
    }

    /// All who waited get the fault of this very fetch, or what is stored.
    fn failed(mut self, fault: Fault, notes: Notes) {
        // What was refused to this client may be allowed to another.
        if fault.side == Side::Client {
            self.lead.land_last(Landing::Alone);
            return self.tell(Told::Failed(fault), notes);
        }
        if let Some(stale) = &self.stale {
            stale.life.rest(wall_secs() + REST_S);
            self.filter.metrics().revalidation_failed.inc();
        }
        self.lead.land_last(Landing::Failed(fault.clone()));
        self.tell(Told::Failed(fault), notes);
    }

    fn judge(&self, status: u16, headers: &Headers, times: Times) -> Result<Storing, Reason> {
        let fetch = rules::Fetch {
            method: &Method::Get,
            request: &self.request.headers,
            asked: &self.asked,
            origin: self.primary.origin(),
            times,
        };
        rules::store::judge(&fetch, status, headers, &self.filter.terms().policy)
    }

    /// RFC 9111 4.3.4: the same content with newer fields.
    fn confirmed(mut self, response: &Answer, times: Times, notes: Notes) {
        let Some(stale) = self.stale.clone() else { return };
        let Some(stored) = stale.response() else { return };
        let hidden = stored.hidden.as_ref().map(|hidden| hidden.headers()).unwrap_or_default();
        let merged = merge::merged([&stored.head.headers(), &hidden], &response.headers);
        let judged = self.judge(stored.meta.status, &merged, times).and_then(|storing| {
            let key = self.confirmed_key(&stale, storing.vary.as_ref()).ok_or(Reason::Failed)?;
            Ok((storing, key))
        });
        let terms = self.filter.terms().clone();
        self.filter.metrics().still_valid.inc();
        match judged {
            Ok((storing, key)) => {
                let make = || {
                    let content = (stored.content.clone(), Some(stored.content.len()));
                    let (coding, version) = (stored.coding, stored.version);
                    let new = keep::response(&storing, content, coding, version, &terms.codings);
                    keep::object(key.clone(), Kind::Response(new))
                };
                let object = self.insert(make()).unwrap_or_else(|| Arc::new(make()));
                derive::refresh(self.cache.store(), &object);
                if storing.share {
                    self.lead.land_last(Landing::Stored(object.clone()));
                } else {
                    self.lead.land_last(Landing::Alone);
                }
                self.tell(Told::Stored(object, storing.private), notes);
            }
            Err(reason) => {
                // The origin does not want it stored any more: this client gets it for the last
                // time; but what one user may not share was shared before.
                if reason != Reason::Authorization {
                    self.cache.store().remove(stale.key.hash(), stale.key.text());
                }
                self.mark(reason, 200);
                let mut last = Answer::new(stored.meta.status);
                last.headers = merged;
                last.body = stored.content.body();
                self.lead.land_last(Landing::Alone);
                self.tell(Told::Alone(Box::new(last), reason), notes);
            }
        }
    }

    /// The key of what was confirmed: the 304 may say that it varies from now on (RFC 9111 4.3.4).
    /// What is stored without Vary under a variant's key stays there (`forgotten_vary`).
    fn confirmed_key(&self, stale: &Object, vary: Option<&Vary>) -> Option<Key> {
        let Some(vary) = vary else { return Some(stale.key.clone()) };
        let key = self.filter.variant(&self.primary, &self.request, vary)?;
        if key != stale.key {
            self.note_vary(vary);
        }
        Some(key)
    }

    /// Stores by what a URL varies, if that is not known.
    fn note_vary(&self, vary: &Vary) {
        let known = self.cache.store().peek(self.primary.hash(), self.primary.text());
        let same = |known: &Arc<Object>| matches!(&known.kind, Kind::Varies(v) if v == vary);
        if !known.as_ref().is_some_and(same) {
            self.insert(keep::object(self.primary.clone(), Kind::Varies(vary.clone())));
        }
    }

    /// A whole answer.
    async fn came(mut self, response: Answer, times: Times, notes: Notes) {
        self.cache.drop_other_parts(&self.key, response.status, &response.headers);
        if self.stale.is_some() {
            self.filter.metrics().replaced.inc();
        }
        let judged = self.judge(response.status, &response.headers, times);
        let length = response.body.length();
        let too_long = length.is_some_and(|length| length > self.bytes_max());
        let refused = match judged {
            Err(reason) => reason,
            Ok(_) if too_long => Reason::ContentLength,
            Ok(storing) if head_bytes(&storing.head) > HEAD_BYTES_MAX => Reason::HeadLength,
            Ok(mut storing) => {
                storing.vary = storing.vary.or_else(|| self.forgotten_vary());
                match self.take_in(&storing, length) {
                    Some((key, share)) => {
                        return self.arrived(response, storing, (key, share, length), notes).await;
                    }
                    None => Reason::Failed,
                }
            }
        };
        self.mark(refused, response.status);
        self.lead.land_last(Landing::Alone);
        self.tell(Told::Alone(Box::new(response), refused), notes);
    }

    /// Origins forget Vary at times: while a variant that names fields is fresh, they count for
    /// answers without any too (RFC 9111 4.1).
    fn forgotten_vary(&self) -> Option<Vary> {
        let store = self.cache.store();
        let known = store.peek(self.primary.hash(), self.primary.text())?;
        let Kind::Varies(vary) = &known.kind else { return None };
        let now_secs = wall_secs();
        let counts = |object: &Arc<Object>| {
            let of_this = object.key.text().starts_with(self.primary.text());
            object.response().is_some_and(|stored| {
                let fresh = reuse::left_s(&stored.meta, now_secs) > 0;
                of_this
                    && fresh
                    && vary::of_response(&stored.head.headers()) == Ok(Some(vary.clone()))
            })
        };
        store.of_url(self.primary.url()).iter().any(counts).then(|| vary.clone())
    }

    /// Longest content that is kept.
    fn bytes_max(&self) -> u64 {
        self.filter.terms().body_bytes_max.min(self.cache.store().object_bytes_max())
    }

    /// The place of what came, and room for it; `None` if another fetch is bringing the same, or
    /// too much is under way.
    fn take_in(&mut self, storing: &Storing, length: Option<u64>) -> Option<(Key, Share)> {
        let searched =
            storing.search.as_ref().and_then(|rule| self.filter.searched(&self.request, rule));
        if let Some((place, canonical)) = searched {
            let rule = storing.search.clone()?;
            self.insert(keep::object(place, Kind::Search(rule)));
            self.primary = canonical;
        }
        let key = match &storing.vary {
            Some(vary) => self.filter.variant(&self.primary, &self.request, vary)?,
            None => self.primary.clone(),
        };
        let share = self.cache.fills().share(length.unwrap_or(0))?;
        if let Some(vary) = &storing.vary {
            self.note_vary(vary);
        }
        let is_first = !storing.share || self.lead.move_to(&key);
        is_first.then_some((key, share))
    }

    /// Lets it be read while it comes, and stores it when it is whole.
    async fn arrived(
        mut self,
        mut response: Answer,
        mut storing: Storing,
        (key, share, length): (Key, Share, Option<u64>),
        notes: Notes,
    ) {
        let terms = self.filter.terms().clone();
        let (writer, content) = shared_body(growing_bytes_max(self.bytes_max()), length);
        let reader = content.reader();
        let (coding, none) = (coding_of(&storing.head), Content::Memory(Bytes::new()));
        let version = self.cache.store().next_version();
        let arrival = Arc::new(Arrival {
            key,
            vary: storing.vary.clone(),
            stored: keep::response(&storing, (none, length), coding, version, &terms.codings),
            length,
            content: content.clone(),
            share,
            server: notes.upstream.as_deref().map(Box::from),
            damaged: Default::default(),
        });
        match storing.share {
            true => self.lead.land(Landing::Arrived(arrival.clone())),
            false => self.lead.land_last(Landing::Alone),
        }
        // Its reader goes with it: it counts from the first piece on.
        let private = std::mem::take(&mut storing.private);
        self.tell(Told::Arrived(arrival.clone(), reader, private), notes);
        let mut body = std::mem::take(&mut response.body);
        let bounds = (&*terms, self.bytes_max());
        let poured = pour(&mut body, writer, &arrival, &mut self.lead, bounds).await;
        drop(body);
        match poured {
            Poured::Whole => self.keep(&arrival, &storing).await,
            Poured::Long => self.mark(Reason::ContentLength, storing.meta.status),
            Poured::Failed => self.filter.metrics().not_stored(Reason::Failed),
        }
    }

    async fn keep(&mut self, arrival: &Arrival, storing: &Storing) {
        let Some(pieces) = arrival.content.whole() else { return };
        let Ok(content) = keep::content(pieces).await else { return };
        if arrival.is_damaged() {
            return;
        }
        let (coding, version) = (arrival.stored.coding, arrival.stored.version);
        let length = content.len();
        let codings = &self.filter.terms().codings;
        let content = (content, Some(length));
        let stored = keep::response(storing, content, coding, version, codings);
        let stored = self.insert(keep::object(arrival.key.clone(), Kind::Response(stored)));
        // Another lookup may have found it since, and had nothing to remove.
        if let Some(object) = stored.filter(|_| arrival.is_damaged()) {
            self.cache.remove_damaged(&object);
        }
    }

    /// Stores something that was asked for since this began, unless it was purged meanwhile.
    fn insert(&self, object: Object) -> Option<Arc<Object>> {
        let most = self.filter.terms().policy.variants_max;
        // By No-Vary-Search it may be kept under another URL than was asked for, and purged.
        let (begun, asked) = (self.lead.begun(), self.key.url());
        if object.key.url() != asked && !self.cache.store().is_current(asked, &[], begun) {
            return None;
        }
        self.cache.store().insert(object, begun, most).ok()
    }

    /// Remembers that an answer could not be stored, so that requests do not wait for each other.
    /// What only this request or a failing origin is to blame for is not remembered.
    fn mark(&self, reason: Reason, status: u16) {
        let hit_for_miss_s = u64::from(self.filter.terms().hit_for_miss_s);
        let passing = matches!(
            reason,
            Reason::RequestNoStore | Reason::Authorization | Reason::Failed | Reason::Partial
        );
        if hit_for_miss_s == 0 || passing || status >= 500 || status == 304 {
            return;
        }
        let until_secs = wall_secs() + hit_for_miss_s;
        self.insert(keep::object(self.key.clone(), Kind::Uncacheable { until_secs, why: reason }));
    }
}

pub(crate) fn head_bytes(headers: &Headers) -> usize {
    headers.iter().map(|field| field.name.len() + field.value.len() + 4).sum()
}
