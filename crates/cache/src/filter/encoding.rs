//! Content coding of stored responses: the one that the client prefers, as far as it exists.
//!
//! A coding that does not exist yet is made in the background. Until it is there the client gets
//! the canonical response, or waits a bounded time where the canonical response is short.

use std::sync::Arc;
use std::time::Duration;

use message::Request;
use wire::Known;

use crate::fill::accepts;
use crate::key::with_key_buffer;
use crate::limits::{BEST_FRESH_S_MIN, TRANSCODE_WAIT_MS};
use crate::rules::{RequestDirectives, reuse};
use crate::serve::{StoredEntry, find};
use crate::transcode::{self, CodingChoice, TargetCoding, TranscodeRequest, TranscodeStart};
use crate::worker_filter::CacheFilter;
use crate::{Object, StoredResponse};

/// Which coding of a stored response is sent.
pub(super) enum PreferredCoding {
    Canonical,
    Other(StoredEntry),
    /// None is ready: the request has to wait.
    NotReady,
}

impl CacheFilter {
    /// Chooses the coding for a request without waiting; has a missing one made.
    pub(super) fn preferred_coding(
        &self,
        canonical: &StoredEntry,
        left_s: i64,
        request: &Request,
        directives: &RequestDirectives,
    ) -> PreferredCoding {
        let object = canonical.object();
        let Some(response) = object.response() else { return PreferredCoding::NotReady };
        let choice = self.choice(canonical, response, request, directives);
        let CodingChoice::Coded { target, acceptable } = choice else {
            return PreferredCoding::Canonical;
        };
        if let Some(existing) = self.existing_coding(canonical, target) {
            if let (StoredEntry::Hot(hot), Some(_)) = (&existing, target)
                && hot.count().checked_rem(self.config().codings.best_after) == Some(0)
                && left_s >= BEST_FRESH_S_MIN
            {
                self.transcode_request(object, target).transcode_at_best(existing.object());
            }
            return PreferredCoding::Other(existing);
        }
        if !acceptable || transcode::waits_for_transcode(response) {
            return PreferredCoding::NotReady;
        }
        self.transcode_request(object, target).start();
        PreferredCoding::Canonical
    }

    /// Returns the coding that a client prefers, waiting for it if it is short; else the canonical
    /// response, which may be stale.
    pub(super) async fn await_coding(
        &self,
        object: &Arc<Object>,
        request: &Request,
        directives: &RequestDirectives,
    ) -> Arc<Object> {
        let canonical = || object.clone();
        let Some(response) = object.response().filter(|response| !response.derived) else {
            return canonical();
        };
        let entry = StoredEntry::Cold(object.clone());
        let choice = self.choice(&entry, response, request, directives);
        let CodingChoice::Coded { target, .. } = choice else { return canonical() };
        if let Some(existing) = transcode::find(self.cache().store(), object, target) {
            return existing;
        }
        if !transcode::can_transcode(response, &object.state, target, &self.config().codings) {
            return canonical();
        }
        // A stale response is about to be replaced.
        if reuse::left_s(&response.meta, net::clock::wall_secs()) <= 0 {
            return canonical();
        }
        match self.transcode_request(object, target).start() {
            TranscodeStart::Ready(existing) => existing,
            TranscodeStart::InFlight(waiter) if transcode::waits_for_transcode(response) => {
                let most = Duration::from_millis(TRANSCODE_WAIT_MS);
                let finished = net::timer::within(most, waiter.finished()).await;
                finished.flatten().unwrap_or_else(canonical)
            }
            TranscodeStart::InFlight(_) | TranscodeStart::Rejected => canonical(),
        }
    }

    fn choice(
        &self,
        found: &StoredEntry,
        response: &StoredResponse,
        request: &Request,
        directives: &RequestDirectives,
    ) -> CodingChoice {
        let config = &self.config().codings;
        if transcode::has_single_coding(response, config) {
            return CodingChoice::Canonical;
        }
        // RFC 9111 5.2.1.6.
        if directives.no_transform && accepts(request, response.coding) {
            return CodingChoice::Canonical;
        }
        // A client without Accept-Encoding gets the decoded content.
        if response.coding.is_none() && !request.headers.contains(Known::AcceptEncoding) {
            return CodingChoice::Canonical;
        }
        let accepted = request.headers.joined(Known::AcceptEncoding);
        let choose =
            || transcode::choose(response, &found.object().state, accepted.as_deref(), config);
        match (&accepted, found) {
            (Some(accepted), StoredEntry::Hot(hot)) => hot.choice(accepted, self.config(), choose),
            _ => choose(),
        }
    }

    fn transcode_request<'a>(
        &'a self,
        canonical: &'a Arc<Object>,
        target: TargetCoding,
    ) -> TranscodeRequest<'a> {
        TranscodeRequest {
            cache: self.cache(),
            metrics: self.metrics(),
            settings: &self.config().codings,
            canonical,
            target,
        }
    }

    /// Returns a coding of a response that exists, from the worker's table or the store.
    fn existing_coding(&self, found: &StoredEntry, target: TargetCoding) -> Option<StoredEntry> {
        if let StoredEntry::Hot(hot) = found
            && let Some(made) = hot.coding(target)
        {
            made.count_use();
            return Some(StoredEntry::Hot(made));
        }
        let canonical = found.object();
        let made = with_key_buffer(|buffer| {
            buffer.resume(&canonical.key);
            buffer.coding(transcode::token(target));
            find(self.cache().store(), self.worker_cache(), buffer)
        });
        let made = made.filter(|made| transcode::is_derived_from(made.object(), canonical))?;
        if let (StoredEntry::Hot(hot), StoredEntry::Hot(made)) = (found, &made) {
            hot.set_coding(target, made);
        }
        Some(made)
    }
}
