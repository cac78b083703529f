//! An answer whose head is here and whose content grows: what all who waited for it share.
//!
//! Each of them gets an answer of his own from it: 304 or a part where he asked for that, uncoded
//! where he does not take its coding.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};

use exchange::{
    Body, BodyStream, Fault, Frame, Headers, Outcome, Request, Response, SharedBody,
    SharedBodyReader,
};

use super::budget::BudgetShare;
use super::decode::{DecodeContext, decode_for_client};
use super::range_body::requested_range;
use crate::Key;
use crate::rules::Vary;
use crate::serve::{self, PARTIAL_REQUEST_FIELDS, StatusHeaders};

pub(crate) struct StreamingResponse {
    /// The key it will be stored under.
    pub(crate) key: Key,
    /// What tells it from other variants under the same primary key.
    pub(crate) vary: Option<Vary>,
    /// As it will be stored, but for the content.
    pub(crate) stored: crate::StoredResponse,
    /// Of the content, where it was announced.
    pub(super) length: Option<u64>,
    pub(super) content: SharedBody,
    /// What the content accepts in memory: given back when nobody reads it any more.
    pub(super) share: BudgetShare,
    /// The address of the server that it comes from, for the log.
    pub(super) server: Option<Box<str>>,
    /// A client has found that it does not decode.
    pub(super) damaged: AtomicBool,
}

impl StreamingResponse {
    /// A reader of the content; `None` if it has become too long for somebody to join.
    pub(crate) fn new_reader(&self) -> Option<SharedBodyReader> {
        self.content.join()
    }

    /// What comes is not stored, or not any more.
    pub(super) fn set_damaged(&self) {
        self.damaged.store(true, Ordering::Release);
    }

    pub(super) fn is_damaged(&self) -> bool {
        self.damaged.load(Ordering::Acquire)
    }

    /// The response to a request for it; `private` are fields for this client alone.
    pub(crate) fn respond(
        self: &Arc<StreamingResponse>,
        reader: SharedBodyReader,
        private: &Headers,
        said: &StatusHeaders<'_>,
        request: &Request,
        decode_context: impl FnOnce() -> DecodeContext,
    ) -> Outcome {
        let mut whole = Response::new(self.stored.meta.status);
        whole.headers = self.stored.head.headers();
        append(&mut whole.headers, private);
        said.write(&mut whole.headers);
        let body = Body::stream(Reading { reader, _arrival: self.clone() });
        let changed;
        (whole.body, changed) = decode_for_client(
            &mut whole.headers,
            body,
            self.stored.coding,
            request,
            decode_context,
        )?;
        let length = self.length.filter(|_| !changed);
        if whole.status != 200 || !request.headers.contains_any(&PARTIAL_REQUEST_FIELDS) {
            return Ok(whole);
        }
        if let Some(answer) = serve::not_modified(&self.stored, &whole.headers, request) {
            return Ok(answer);
        }
        requested_range(whole, length, request)
    }
}

/// Adds fields behind those that are there.
pub(crate) fn append(headers: &mut Headers, more: &Headers) {
    for field in more.iter() {
        headers.append(field.name, field.value);
    }
}

/// The content, for one who reads it.
struct Reading {
    reader: SharedBodyReader,
    _arrival: Arc<StreamingResponse>,
}

impl BodyStream for Reading {
    fn poll_frame(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Frame, Fault>>> {
        self.reader.poll_frame(cx)
    }

    fn length(&self) -> Option<u64> {
        self.reader.length()
    }
}
