//! The method PURGE, as other caches have it: it removes all that is stored under its URL.

use message::{Fault, FaultKind, HandlerResult, Request, Response};
use settings::any_contains;

use crate::store::Purge;
use crate::worker_filter::CacheFilter;

pub(super) const PURGE: &[u8] = b"PURGE";

impl CacheFilter {
    /// Purges, if the route allows it for the client. The request is never forwarded.
    pub(super) fn purge(&self, request: &Request) -> HandlerResult {
        if self.config().purge.is_empty() {
            return Err(Fault::method_not_allowed("GET, HEAD"));
        }
        if !any_contains(&self.config().purge, request.client_ip) {
            return Err(Fault::new(FaultKind::PurgeNotAllowed, ""));
        }
        let origin = [request.scheme.as_str().as_bytes(), b"://", request.authority()].concat();
        let url = self.rules().normalised_url(&[&*origin, request.target.raw()].concat());
        let purged = url.map_or(0, |url| self.cache().store().purge(&Purge::Url(&url), false));
        Ok(Response::json(200, format!("{{\"purged\":{purged}}}\n")))
    }
}
