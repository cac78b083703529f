//! The content of a request as messages: one, or one for each line.

use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::{Bytes, BytesMut};
use message::{Body, BodyStream, Fault, FaultKind, Frame};
use wire::grpc;

use super::Translation;
use super::translating::{Translating, Unfinished};

/// The longest piece of a content of any type that is one message.
const PIECE_BYTES: usize = 32 * 1024;

/// What the request says besides its content.
pub(super) struct Call {
    pub(super) translation: Arc<Translation>,
    /// The binding, by its place.
    pub(super) at: usize,
    pub(super) captures: Vec<String>,
    pub(super) query: Option<Vec<u8>>,
    /// Of the content.
    pub(super) media_type: String,
}

/// Why a message cannot be made.
pub(super) enum Refusal {
    Malformed(String),
    TooLarge,
    /// The translation panicked, or the server stops.
    Failed,
}

impl From<Unfinished> for Refusal {
    fn from(_: Unfinished) -> Refusal {
        Refusal::Failed
    }
}

impl Call {
    pub(super) fn takes_any_content(&self) -> bool {
        self.translation.bindings[self.at].takes_any_content
    }

    /// The path of the method.
    pub(super) fn path(&self) -> &str {
        &self.translation.bindings[self.at].path
    }

    /// [`Call::message`], of a large content on the blocking pool.
    pub(super) fn begin_message(self: &Arc<Self>, content: Bytes) -> Translating<Bytes, Refusal> {
        let call = self.clone();
        Translating::new(content.len(), move || call.message(&content))
    }

    /// The message of this content, with its prefix.
    fn message(&self, content: &[u8]) -> Result<Bytes, Refusal> {
        let translation = &*self.translation;
        let binding = &translation.bindings[self.at];
        let (captures, query) = (&self.captures, self.query.as_deref());
        let encoded =
            binding.encode(content, &self.media_type, captures, query, translation.lenient);
        let message = encoded.map_err(Refusal::Malformed)?;
        match u32::try_from(message.len()) {
            Ok(length) if message.len() <= translation.message_max => {
                Ok(Bytes::from([&grpc::prefix(0, length)[..], &message].concat()))
            }
            _ => Err(Refusal::TooLarge),
        }
    }
}

/// The messages of a stream of lines, or of the pieces of a content of any type. The path and the
/// query hold for each of them.
pub(super) struct LinesBody {
    inner: Body,
    call: Arc<Call>,
    /// The message that is being made.
    translating: Option<Translating<Bytes, Refusal>>,
    received: BytesMut,
    /// Bytes of it in which there is no end of a line.
    searched: usize,
    is_over: bool,
}

impl LinesBody {
    pub(super) fn new(inner: Body, call: Arc<Call>) -> LinesBody {
        LinesBody {
            inner,
            call,
            translating: None,
            received: BytesMut::new(),
            searched: 0,
            is_over: false,
        }
    }

    /// The next content of a message.
    fn next(&mut self) -> Option<Bytes> {
        if !self.call.takes_any_content() {
            return std::iter::from_fn(|| self.line()).find(|line| !line.trim_ascii().is_empty());
        }
        let length = self.received.len().min(PIECE_BYTES);
        (length > 0).then(|| self.received.split_to(length).freeze())
    }

    /// The next line that is whole.
    fn line(&mut self) -> Option<Bytes> {
        match self.received[self.searched..].iter().position(|byte| *byte == b'\n') {
            Some(at) => {
                let line = self.received.split_to(self.searched + at + 1).freeze();
                self.searched = 0;
                Some(line)
            }
            None if self.is_over && !self.received.is_empty() => {
                self.searched = 0;
                Some(self.received.split().freeze())
            }
            None => {
                self.searched = self.received.len();
                None
            }
        }
    }
}

impl From<Refusal> for Fault {
    fn from(refusal: Refusal) -> Fault {
        match refusal {
            Refusal::Malformed(why) => {
                Fault::new(FaultKind::GrpcMalformed, format!("a line of the request: {why}"))
            }
            Refusal::TooLarge => Fault::body_too_large(),
            Refusal::Failed => Fault::internal("a message could not be translated"),
        }
    }
}

impl BodyStream for LinesBody {
    fn poll_frame(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Frame, Fault>>> {
        loop {
            if let Some(translating) = &mut self.translating {
                let message = std::task::ready!(translating.poll(cx));
                self.translating = None;
                return Poll::Ready(Some(message.map(Frame::Data).map_err(Fault::from)));
            }
            if let Some(content) = self.next() {
                self.translating = Some(self.call.begin_message(content));
                continue;
            }
            if self.is_over {
                return Poll::Ready(None);
            }
            if self.received.len() > self.call.translation.message_max {
                self.is_over = true;
                self.received.clear();
                self.searched = 0;
                return Poll::Ready(Some(Err(Fault::body_too_large())));
            }
            match self.inner.poll_frame(cx) {
                Poll::Pending => return Poll::Pending,
                Poll::Ready(Some(Ok(Frame::Data(data)))) => self.received.extend_from_slice(&data),
                Poll::Ready(Some(Err(fault))) => return Poll::Ready(Some(Err(fault))),
                Poll::Ready(Some(Ok(Frame::File(_)))) => {
                    return Poll::Ready(Some(Err(Fault::internal("a file is not a request"))));
                }
                Poll::Ready(Some(Ok(Frame::Trailers(_))) | None) => self.is_over = true,
            }
        }
    }

    fn length(&self) -> Option<u64> {
        None
    }
}
