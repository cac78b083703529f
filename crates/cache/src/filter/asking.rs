//! One request that is for the cache and may have to wait for the origin, or for another request's
//! fetch.
//!
//! Promises that it is answered whatever becomes of others: who waits has a deadline, looks again a
//! bounded number of times, and then goes for himself.

use std::rc::Rc;
use std::sync::Arc;

use exchange::{BackgroundPermit, Fault, Headers, Inform, Next, Notes, Outcome, Request, Side};
use net::clock::{self, Moment, wall_secs};
use tokio::sync::oneshot;
use wire::{Known, Method};

use super::CacheFilter;
use super::looking::{Found, Looked};
use crate::fill::{Arrival, DECODING_FULL, Fetch, Interim, Told, append, takes};
use crate::flight::{Boarding, Landing, Lead, Waiter};
use crate::limits::BOARDINGS_MAX;
use crate::rules::{Asked, Forward, Reason, Reuse, Status, Taken, reuse};
use crate::serve::ASKING;
use crate::{Key, Object};

mod parts;

pub(super) struct Asking {
    filter: Rc<CacheFilter>,
    request: Request,
    asked: Asked,
    next: Next,
    /// For waiting on others.
    deadline: Moment,
}

/// What the store says, and what is to be done.
enum Stand {
    Done(Outcome),
    /// To be fetched; what is stored may be confirmed.
    Missing(Forward, Option<Arc<Object>>),
    /// To be fetched, without anybody waiting for it.
    Uncacheable,
    /// What is stored cannot be decoded for this client.
    Undecodable(Reason),
}

/// What became of waiting.
enum Waited {
    Done(Outcome),
    /// It was for others, or for nobody: there may be something now.
    Again,
    /// Not for others.
    Alone,
    TooLong,
}

impl Asking {
    pub(super) fn new(
        filter: Rc<CacheFilter>,
        request: Request,
        asked: Asked,
        next: Next,
    ) -> Asking {
        let deadline = clock::now().after(filter.terms().fetch.wait);
        Asking { filter, request, asked, next, deadline }
    }

    pub(super) async fn answer(self) -> Outcome {
        let mut why = Forward::Miss;
        for _ in 0..BOARDINGS_MAX {
            let looked = match self.filter.look(&self.request) {
                Ok(looked) => looked,
                Err(refusal) => {
                    self.filter.metrics().passed_keyless(refusal);
                    let status = Status { detail: Some(refusal.slug()), ..by(Forward::Bypass) };
                    return self.go(&status).await;
                }
            };
            if let Some(outcome) = self.stored_part(&looked) {
                return outcome;
            }
            let stale;
            (why, stale) = match self.stand(&looked).await {
                Stand::Done(outcome) => return outcome,
                Stand::Uncacheable => return self.alone(looked).await,
                Stand::Undecodable(reason) => {
                    self.filter.metrics().passed(reason);
                    return self.go(&Status::passed(reason)).await;
                }
                Stand::Missing(why, stale) => (why, stale),
            };
            if self.asked.no_store {
                self.filter.metrics().passed(Reason::RequestNoStore);
                return self.go(&Status::passed(Reason::RequestNoStore)).await;
            }
            if self.request.headers.contains(Known::Authorization) {
                return self.alone(looked).await;
            }
            match self.board(&looked.key) {
                Boarding::Lead(lead) if self.has_come(&looked, stale.as_ref()) => drop(lead),
                Boarding::Lead(lead) => {
                    if stale.is_none() && self.filter.bring(&self.request, &looked.key).await {
                        // Whoever waits finds it too.
                        drop(lead);
                        continue;
                    }
                    return self.lead(lead, looked, why, stale).await;
                }
                Boarding::Full => break,
                Boarding::Wait(waiter) => {
                    match self.wait(waiter, &looked, why, stale.as_ref()).await {
                        Waited::Done(outcome) => return outcome,
                        Waited::Again => {}
                        Waited::Alone => {
                            let again = self.filter.look(&self.request);
                            // To be confirmed for each request (RFC 9111 4).
                            match again.ok().filter(|looked| looked.found.is_response()) {
                                Some(looked) => return self.alone(looked).await,
                                None => break,
                            }
                        }
                        Waited::TooLong => {
                            self.filter.metrics().missed(why);
                            return self.go(&Status { detail: Some("waited"), ..by(why) }).await;
                        }
                    }
                }
            }
        }
        self.filter.metrics().missed(why);
        self.go(&by(why)).await
    }

    /// What can be done at once.
    async fn stand(&self, looked: &Looked) -> Stand {
        let (object, now_secs) = match &looked.found {
            Found::Response(object) => (object, wall_secs()),
            _ if self.asked.only_if_cached => return Stand::Done(Err(not_cached())),
            Found::Uncacheable(_) => return Stand::Uncacheable,
            Found::Nothing(why) => return Stand::Missing(*why, None),
        };
        let Some(stored) = object.response() else { return Stand::Missing(Forward::Miss, None) };
        let metrics = self.filter.metrics();
        match reuse::judge(&stored.meta, object.life.is_stale(), &self.asked, now_secs) {
            Reuse::OnlyIfCached => Stand::Done(Err(not_cached())),
            Reuse::Use { .. }
                if object.life.is_too_long_decoded() && !takes(&self.request, stored.coding) =>
            {
                Stand::Undecodable(Reason::DecodedSize)
            }
            Reuse::Use { refresh, left_s, .. } => {
                let outcome = self.filter.give(object, Taken::Hit, &self.request).await;
                if object.life.is_damaged() {
                    return Stand::Missing(Forward::UriMiss, None);
                }
                if outcome.as_ref().is_err_and(|fault| fault.slug == DECODING_FULL) {
                    return Stand::Undecodable(Reason::DecodingFull);
                }
                match refresh {
                    true => metrics.stale_revalidating.inc(),
                    false => metrics.hits.inc(),
                }
                self.note(if left_s > 0 { "hit" } else { "stale" }, Notes::default());
                if refresh && !object.life.is_resting(now_secs) {
                    self.refresh(looked, object);
                }
                Stand::Done(outcome)
            }
            Reuse::Validate { if_error: true, .. } if object.life.is_resting(now_secs) => {
                metrics.stale_error.inc();
                self.note("stale", Notes::default());
                Stand::Done(self.filter.give(object, Taken::Hit, &self.request).await)
            }
            Reuse::Validate { why, .. } => Stand::Missing(why, Some(object.clone())),
        }
    }

    /// Whether somebody has brought it just before this one boarded.
    fn has_come(&self, looked: &Looked, stale: Option<&Arc<Object>>) -> bool {
        let Ok(again) = self.filter.look(&self.request) else { return false };
        match (&again.found, stale) {
            (Found::Response(object), Some(stale)) => !Arc::ptr_eq(object, stale),
            (Found::Response(_) | Found::Uncacheable(_), None) => true,
            (Found::Uncacheable(_), Some(_)) => true,
            (Found::Nothing(_), _) => again.key != looked.key,
        }
    }

    fn board(&self, key: &Key) -> Boarding {
        let store = self.filter.cache().store();
        self.filter.cache().flights().board(key, store.token(), |begun, landing| {
            let tags = match landing {
                Some(Landing::Arrived(arrival)) => &*arrival.stored.tags,
                _ => &[],
            };
            store.is_current(key.url(), tags, begun)
        })
    }

    /// What the log will say.
    fn note(&self, word: &'static str, notes: Notes) {
        self.next.note(Notes { cache: Some(word), ..notes });
    }

    /// Past the cache, as it came.
    async fn go(mut self, status: &Status<'_>) -> Outcome {
        self.request.notes.cache = Some("pass");
        let outcome = self.next.run(self.request).await;
        self.filter.went_by(outcome, status)
    }

    fn fetch(&self, lead: Lead, looked: Looked, stale: Option<Arc<Object>>) -> Fetch {
        Fetch {
            filter: self.filter.clone(),
            cache: self.filter.cache().clone(),
            lead,
            primary: looked.primary,
            key: looked.key,
            request: self.request.apart(),
            asked: self.asked,
            stale,
            next: self.next.clone(),
            tell: None,
            own: None,
        }
    }

    /// Asks anew behind an answer that is served stale, unless somebody does.
    fn refresh(&self, looked: &Looked, object: &Arc<Object>) {
        let Boarding::Lead(lead) = self.board(&looked.key) else { return };
        let looked = Looked {
            primary: looked.primary.clone(),
            key: looked.key.clone(),
            found: Found::Response(object.clone()),
        };
        if self.has_come(&looked, Some(object)) {
            return;
        }
        let Some(seat) = BackgroundPermit::take() else { return };
        let own = lead.waiter();
        let mut fetch = self.fetch(lead, looked, Some(object.clone()));
        fetch.own = Some(own);
        seat.run(fetch.run()).let_go();
    }

    /// For itself, because the last answer was for one only. It is stored if it may be.
    async fn alone(self, looked: Looked) -> Outcome {
        let stored = looked.found.is_response();
        let why = if stored { Forward::Stale } else { Forward::Miss };
        if self.asks_for_less(stored) {
            self.filter.metrics().missed(why);
            let too_long = matches!(looked.found, Found::Uncacheable(Reason::ContentLength));
            return match self.place(&looked).filter(|_| too_long) {
                Some(place) => self.fetch_part(place, why).await,
                None => self.go(&by(why)).await,
            };
        }
        let cache = self.filter.cache();
        let lead = cache.flights().alone(cache.store().token());
        let stale = match &looked.found {
            Found::Response(object) => Some(object.clone()),
            _ => None,
        };
        self.lead(lead, looked, why, stale).await
    }

    /// Whether the origin is to answer the request as it came: a part, only what is new, or only
    /// the head of what is not `stored`.
    fn asks_for_less(&self, stored: bool) -> bool {
        let head = !stored && self.request.method == Method::Head;
        head || self.request.headers.contains_any(&ASKING)
    }

    /// Fetches, for all who wait.
    async fn lead(
        self,
        lead: Lead,
        looked: Looked,
        why: Forward,
        stale: Option<Arc<Object>>,
    ) -> Outcome {
        let metrics = self.filter.metrics();
        metrics.missed(why);
        let Some(seat) = BackgroundPermit::take() else {
            drop(lead);
            return self.go(&Status { detail: Some("too-many-fetches"), ..by(why) }).await;
        };
        let place = self.place(&looked);
        let (tell, told) = oneshot::channel();
        // As long as it waits, the fetch is wanted.
        let wanted = lead.waiter();
        let mut fetch = self.fetch(lead, looked, stale.clone());
        fetch.tell = Some(tell);
        let informer = self.request.informer.clone().map(Rc::new);
        let interim = |client| Rc::new(Interim(Rc::downgrade(client))) as Rc<dyn Inform>;
        fetch.request.informer = informer.as_ref().map(interim);
        seat.run(fetch.run()).let_go();
        let told = told.await;
        drop((wanted, informer));
        let Ok((told, notes)) = told else {
            return Err(Fault::internal("a fetch ended without saying what became of it"));
        };
        let word = match &told {
            Told::Stored(..) => "revalidated",
            Told::Alone(..) => "pass",
            Told::Arrived(..) | Told::Failed(_) => "miss",
        };
        self.note(word, notes);
        let filter = &self.filter;
        match told {
            Told::Arrived(arrival, reader, private) => {
                let way = stored(why, None, false);
                filter.give_growing(&arrival, reader, &private, way, &self.request)
            }
            Told::Stored(object, private) => {
                let way = stored(why, Some(304), false);
                let mut outcome = filter.give(&object, way, &self.request).await;
                if let Ok(response) = &mut outcome {
                    append(&mut response.headers, &private);
                }
                outcome
            }
            Told::Failed(fault) => self.failed(fault, why, stale.as_ref(), false).await,
            Told::Alone(response, reason) => self.came_alone(*response, (why, reason), place).await,
        }
    }

    /// The origin failed: something stale, if that is allowed.
    async fn failed(
        &self,
        fault: Fault,
        why: Forward,
        stale: Option<&Arc<Object>>,
        collapsed: bool,
    ) -> Outcome {
        let filter = &self.filter;
        let may = |stale: &&Arc<Object>| {
            let stored = stale.response().filter(|_| fault.side != Side::Client);
            stored.is_some_and(|s| reuse::may_serve_on_error(&s.meta, &self.asked, wall_secs()))
        };
        let way = Taken::Forwarded { why, status: Some(fault.status), stored: false, collapsed };
        match stale.filter(may) {
            Some(stale) => {
                filter.metrics().stale_error.inc();
                // Who waited has asked nobody, and who asked knows whom.
                if collapsed {
                    self.note("stale", Notes::default());
                }
                filter.give(stale, way, &self.request).await
            }
            None => Err(fault),
        }
    }

    /// Waits for the one who fetches.
    async fn wait(
        &self,
        mut waiter: Waiter,
        looked: &Looked,
        why: Forward,
        stale: Option<&Arc<Object>>,
    ) -> Waited {
        let filter = &self.filter;
        let left = self.deadline.since(clock::now());
        let Some(landing) = net::timer::within(left, waiter.landing()).await else {
            return Waited::TooLong;
        };
        self.note("coalesced", Notes::default());
        let late = waiter.joined_late();
        let is_old = |key: &Key, stored: Option<&crate::Response>| {
            let tags = stored.map_or(&[][..], |stored| &stored.tags);
            let store = filter.cache().store();
            late.is_some_and(|begun| !store.is_current(key.url(), tags, begun))
        };
        let outcome = match landing {
            None => return Waited::Again,
            Some(Landing::Alone) => return Waited::Alone,
            Some(Landing::Failed(fault)) => self.failed(fault, why, stale, true).await,
            Some(Landing::Stored(object)) if is_old(&object.key, object.response()) => {
                return Waited::Again;
            }
            Some(Landing::Stored(object)) if object.key == looked.key => {
                filter.give(&object, stored(why, Some(304), true), &self.request).await
            }
            Some(Landing::Stored(_)) => return Waited::Again,
            Some(Landing::Arrived(arrival)) => {
                if is_old(&arrival.key, Some(&arrival.stored)) || !self.is_for_us(&arrival, looked)
                {
                    return Waited::Again;
                }
                let Some(reader) = arrival.join() else { return Waited::Alone };
                let way = stored(why, None, true);
                filter.give_growing(&arrival, reader, &Headers::new(), way, &self.request)
            }
        };
        filter.metrics().missed(why);
        filter.metrics().coalesced.inc();
        Waited::Done(outcome)
    }

    /// Whether what came is the variant that this request asks for (RFC 9111 4.1).
    fn is_for_us(&self, arrival: &Arrival, looked: &Looked) -> bool {
        match &arrival.vary {
            None => true,
            Some(vary) => {
                let variant = self.filter.variant(&looked.primary, &self.request, vary);
                variant.is_some_and(|variant| variant == arrival.key)
            }
        }
    }
}

/// RFC 9111 5.2.1.7.
fn not_cached() -> Fault {
    Fault::new(Side::Client, 504, "only_if_cached", "nothing stored fits")
}

fn by(why: Forward) -> Status<'static> {
    Status::forwarded(why)
}

fn stored(why: Forward, status: Option<u16>, collapsed: bool) -> Taken {
    Taken::Forwarded { why, status, stored: true, collapsed }
}
