//! Requests a response from the server that owns its key.

use message::{FaultKind, Notes, Response};
use net::clock::{self, wall_secs};
use plugin::KeyOwner;

use super::fetch::Fetch;
use super::origin_request::origin_request;
use crate::limits::OWNER_AGE_ERROR_MS;
use crate::metrics::OwnerResult;
use crate::owners::{OwnerReply, Owners, key_digest};
use crate::rules::{Times, vary};
use crate::shared_purges::PositionDigest;

/// The response of an owner, which is handled like one of the origin.
pub(super) struct OwnedResponse {
    pub(super) response: Response,
    pub(super) times: Times,
    pub(super) notes: Notes,
    was_stored: bool,
}

impl OwnedResponse {
    /// What Cache-Status says about it.
    pub(super) fn detail(&self) -> &'static str {
        if self.was_stored { "owner-hit" } else { "owner-fetch" }
    }
}

impl Fetch {
    /// Requests the response from the owner; `None` if it has to be requested from the origin.
    pub(super) async fn ask_owner(&self, owner: Box<dyn KeyOwner>) -> Option<OwnedResponse> {
        let owners = self.filter.owners()?;
        let asked = self.ask(owners, &*owner).await;
        self.filter.metrics().owner_asked(match &asked {
            Ok(OwnedResponse { was_stored: true, .. }) => OwnerResult::Stored,
            Ok(_) => OwnerResult::Fetched,
            Err(result) => *result,
        });
        asked.ok()
    }

    async fn ask(
        &self,
        owners: &Owners,
        owner: &dyn KeyOwner,
    ) -> Result<OwnedResponse, OwnerResult> {
        // Read after the fetch began: a purge since then keeps the response out of the store.
        let noted = self.purges_to_include().ok_or(OwnerResult::Outdated)?;
        let asked_ms = clock::now().as_ms();
        let config = self.filter.config();
        let mut request = origin_request(&self.request, &self.key, None, &config.fetch);
        vary::normalise(&mut request.headers, &config.policy);
        let marker = owners.mark(&mut request, key_digest(self.primary.text()));
        let requested_secs = wall_secs();
        let outcome = owner.send(&mut request, owners.within).await;
        let times = Times { requested_secs, received_secs: wall_secs() };
        let mut response = outcome.map_err(|fault| match fault.kind {
            FaultKind::ResponseTimeout | FaultKind::ConnectionTimeout => OwnerResult::Timeout,
            _ => OwnerResult::Failed,
        })?;
        let (was_stored, applied) = match owners.take_reply(&mut response, &marker) {
            Some(OwnerReply::Response { was_stored, applied }) => (was_stored, applied),
            Some(OwnerReply::Declined) => return Err(OwnerResult::Declined),
            Some(OwnerReply::Own) => {
                owner.set_own();
                return Err(OwnerResult::Own);
            }
            // Another server has that address, or it failed before its cache.
            None => return Err(OwnerResult::Failed),
        };
        let judged = self.evaluate(response.status, &response.headers, times);
        let storing = judged.ok().filter(|storing| storing.share).ok_or(OwnerResult::Declined)?;
        let includes =
            |noted: &PositionDigest| applied.is_some_and(|applied| applied.includes(noted));
        let age_ms = u64::from(storing.meta.initial_age_s) * 1000 + OWNER_AGE_ERROR_MS;
        let since_ms = asked_ms.saturating_sub(age_ms);
        let store = self.cache.store();
        if !noted.as_ref().is_none_or(includes)
            || !store.is_current_locally(self.key.url(), &storing.tags, since_ms)
        {
            return Err(OwnerResult::Outdated);
        }
        let notes = std::mem::take(&mut request.notes);
        Ok(OwnedResponse { response, times, notes, was_stored })
    }

    /// The purges that a response has to take into account; `Some(None)` if none are shared, `None`
    /// if it is not known yet.
    fn purges_to_include(&self) -> Option<Option<PositionDigest>> {
        match self.cache.store().purges().is_alone() {
            true => Some(None),
            false => self.cache.log_progress().noted().map(Some),
        }
    }
}
