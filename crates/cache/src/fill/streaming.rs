//! A response that followers share while its content arrives.
//!
//! Each follower gets its own response from it: 304 or a range if it requested that, decoded if it
//! does not accept the coding.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};

use message::{
    Body, BodyStream, Fault, Frame, HandlerResult, Headers, Request, Response, SharedBody,
    SharedBodyReader,
};

use super::budget::BudgetShare;
use super::decode::decode_for_client;
use super::decoding_body::DecodeContext;
use super::range_body::requested_range;
use crate::Key;
use crate::rules::Vary;
use crate::serve::{self, PARTIAL_REQUEST_FIELDS, StatusHeaders};

pub(crate) struct StreamingResponse {
    /// The key that it will be stored under.
    pub(crate) key: Key,
    /// The fields that select it among the variants of its primary key.
    pub(crate) vary: Option<Vary>,
    /// The stored response, without its content.
    pub(crate) stored: crate::StoredResponse,
    /// The length of the content, if it was declared.
    pub(super) length: Option<u64>,
    pub(super) content: SharedBody,
    /// The memory of the content, returned when it has no reader left.
    pub(super) share: BudgetShare,
    /// The address of the origin server, for the log.
    pub(super) server: Option<Box<str>>,
    /// What Cache-Status says about it.
    pub(crate) detail: Option<&'static str>,
    /// Set when a client has found that the content does not decode.
    pub(super) damaged: AtomicBool,
}

impl StreamingResponse {
    /// Returns a reader of the content; `None` if it has become too long for new readers.
    pub(crate) fn new_reader(&self) -> Option<SharedBodyReader> {
        self.content.join()
    }

    /// Keeps the response from being stored.
    pub(super) fn set_damaged(&self) {
        self.damaged.store(true, Ordering::Release);
    }

    pub(super) fn is_damaged(&self) -> bool {
        self.damaged.load(Ordering::Acquire)
    }

    /// The content as it arrives.
    pub(crate) fn body(self: &Arc<StreamingResponse>, reader: SharedBodyReader) -> Body {
        Body::stream(Reading { reader, _arrival: self.clone() })
    }

    /// The response to one request; `private` are headers for this client alone.
    pub(crate) fn respond(
        self: &Arc<StreamingResponse>,
        reader: SharedBodyReader,
        private: &Headers,
        status_headers: &StatusHeaders<'_>,
        request: &Request,
        decode_context: impl FnOnce() -> DecodeContext,
    ) -> HandlerResult {
        let mut whole = Response::new(self.stored.meta.status);
        whole.headers = self.stored.head.headers();
        append(&mut whole.headers, private);
        status_headers.write(&mut whole.headers);
        let body = self.body(reader);
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

/// Appends headers.
pub(crate) fn append(headers: &mut Headers, more: &Headers) {
    for field in more.iter() {
        headers.append(field.name, field.value);
    }
}

/// A reader of the content.
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
