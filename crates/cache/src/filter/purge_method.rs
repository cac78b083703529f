//! The method PURGE, as other caches have it: it removes all that is stored under its URL.

use message::{Fault, FaultKind, HandlerResult, Request, Response};
use settings::any_contains;

use crate::shared_purges::{PurgeEntry, PurgeReceipt};
use crate::store::Purge;
use crate::worker_filter::CacheFilter;
use crate::{PurgeRequest, PurgeWhat};

pub(super) const PURGE: &[u8] = b"PURGE";

impl CacheFilter {
    /// Purges, if the route allows it for the client. The request is never forwarded.
    pub(super) async fn purge(&self, request: &Request) -> HandlerResult {
        if self.config().purge.is_empty() {
            return Err(Fault::method_not_allowed("GET, HEAD"));
        }
        if !any_contains(&self.config().purge, request.client_ip) {
            return Err(Fault::new(FaultKind::PurgeNotAllowed, ""));
        }
        let origin = [request.scheme.as_str().as_bytes(), b"://", request.authority()].concat();
        let url = [&*origin, request.target.raw()].concat();
        let entry = || PurgeEntry {
            cache: self.cache().name().to_owned(),
            purge: PurgeRequest {
                what: PurgeWhat::Url(String::from_utf8_lossy(&url).into_owned()),
                soft: false,
            },
        };
        let Some(shared) = self.cache().outbox().send(entry) else {
            let purged = self.purge_here(&url);
            return Ok(Response::json(200, format!("{{\"purged\":{purged}}}\n")));
        };
        let (status, PurgeReceipt { purged, number }) = match shared.await {
            Ok(Some(receipt)) => (200, receipt),
            Ok(None) => (503, PurgeReceipt { purged: 0, number: None }),
            // The queue is full.
            Err(_) => (200, PurgeReceipt { purged: self.purge_here(&url), number: None }),
        };
        let published = match number {
            Some(number) => format!("true,\"number\":{number}"),
            None => "false".to_owned(),
        };
        let body = format!("{{\"purged\":{purged},\"published\":{published}}}\n");
        Ok(Response::json(status, body))
    }

    fn purge_here(&self, url: &[u8]) -> u64 {
        let url = self.rules().normalised_url(url);
        url.map_or(0, |url| self.cache().store().purge_locally(&Purge::Url(&url), false))
    }
}
