//! Responses to clients: from the store, from a fetch in flight, or forwarded.

use std::sync::Arc;

use message::{Fault, HandlerResult, Headers, Request, Response, SharedBodyReader};
use net::clock::wall_secs;

use crate::Object;
use crate::fill::{DecodeContext, DecodeSource, StreamingResponse, decode_for_client};
use crate::rules::{CacheOutcome, RequestDirectives, Status, remove_cache_fields, reuse};
use crate::serve::{self, StatusHeaders};
use crate::worker_filter::CacheFilter;

impl CacheFilter {
    pub(super) fn status_headers<'a>(&self, age_s: u32, status: Status<'a>) -> StatusHeaders<'a> {
        StatusHeaders { age_s, status, x_status: self.config().x_status }
    }

    /// Serves a stored response.
    pub(super) async fn serve_stored(
        &self,
        object: &Arc<Object>,
        outcome: CacheOutcome,
        request: &Request,
        directives: &RequestDirectives,
    ) -> HandlerResult {
        let object = &self.await_coding(object, request, directives).await;
        let Some(response) = object.response() else {
            return Err(Fault::internal("the stored object is not a response"));
        };
        let now_secs = wall_secs();
        let left_s = reuse::left_s(&response.meta, now_secs);
        let status = Status { outcome, ..Status::hit(left_s) };
        let status_headers = self.status_headers(reuse::age_s(&response.meta, now_secs), status);
        let found = serve::StoredEntry::Cold(object.clone());
        let (mut headers, body) = found.parts(response, &status_headers, now_secs);
        let decode_context = || self.decode_context(DecodeSource::Stored(object.clone()));
        let (body, changed) =
            decode_for_client(&mut headers, body, response.coding, request, decode_context)?;
        if !changed {
            return serve::respond(response, headers, body, &status_headers, request);
        }
        if let Some(not_modified) = serve::not_modified(response, &headers, request) {
            return Ok(not_modified);
        }
        let mut whole = Response::new(response.meta.status);
        (whole.headers, whole.body) = (headers, body);
        Ok(whole)
    }

    /// The bounds for decoding a response.
    pub(super) fn decode_context(&self, whose: DecodeSource) -> DecodeContext {
        let bytes_max = self.config().codings.max_decoded.bytes();
        DecodeContext { cache: self.cache().clone(), whose, bytes_max }
    }

    /// Serves a response that is still arriving.
    pub(super) fn serve_streaming(
        &self,
        streaming: &Arc<StreamingResponse>,
        reader: SharedBodyReader,
        private: &Headers,
        outcome: CacheOutcome,
        request: &Request,
    ) -> HandlerResult {
        let now_secs = wall_secs();
        let meta = &streaming.stored.meta;
        let detail = streaming.detail;
        let status = Status { outcome, detail, ..Status::hit(reuse::left_s(meta, now_secs)) };
        let status_headers = self.status_headers(reuse::age_s(meta, now_secs), status);
        let decode_context = || self.decode_context(DecodeSource::Streaming(streaming.clone()));
        streaming.respond(reader, private, &status_headers, request, decode_context)
    }

    /// Adds the cache's headers to a response that is not stored.
    pub(super) fn pass_through(
        &self,
        outcome: HandlerResult,
        status: &Status<'_>,
    ) -> HandlerResult {
        match outcome {
            Ok(mut response) => {
                remove_cache_fields(&mut response.headers, &self.config().policy);
                self.add_status(&mut response.headers, status);
                Ok(response)
            }
            // RFC 9211 2: a response that the server generates has no Cache-Status.
            Err(fault) => Err(fault),
        }
    }

    fn add_status(&self, headers: &mut Headers, status: &Status<'_>) {
        serve::add_status(headers, status, self.config().x_status);
    }
}
