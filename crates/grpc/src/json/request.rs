//! The content of a request as messages: one, or one for each line.

use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::{Bytes, BytesMut};
use message::{Body, BodyStream, Fault, FaultKind, Frame};
use wire::grpc;

use super::Translation;

/// What the request says besides its content.
pub(super) struct Call {
    pub(super) translation: Arc<Translation>,
    /// The binding, by its place.
    pub(super) at: usize,
    pub(super) captures: Vec<String>,
    pub(super) query: Option<Vec<u8>>,
}

/// Why a message cannot be made.
pub(super) enum Refusal {
    Malformed(String),
    TooLarge,
}

impl Call {
    /// The path of the method.
    pub(super) fn path(&self) -> &str {
        &self.translation.bindings[self.at].path
    }

    /// The message of this content, with its prefix.
    pub(super) fn message(&self, content: &[u8]) -> Result<Bytes, Refusal> {
        let translation = &*self.translation;
        let binding = &translation.bindings[self.at];
        let encoded =
            binding.encode(content, &self.captures, self.query.as_deref(), translation.lenient);
        let message = encoded.map_err(Refusal::Malformed)?;
        match u32::try_from(message.len()) {
            Ok(length) if message.len() <= translation.message_max => {
                Ok(Bytes::from([&grpc::prefix(0, length)[..], &message].concat()))
            }
            _ => Err(Refusal::TooLarge),
        }
    }
}

/// The messages of a stream of lines. The path and the query hold for each of them.
pub(super) struct LinesBody {
    inner: Body,
    call: Call,
    received: BytesMut,
    /// Bytes of it in which there is no end of a line.
    searched: usize,
    is_over: bool,
}

impl LinesBody {
    pub(super) fn new(inner: Body, call: Call) -> LinesBody {
        LinesBody { inner, call, received: BytesMut::new(), searched: 0, is_over: false }
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

    fn message(&self, line: &[u8]) -> Result<Frame, Fault> {
        self.call.message(line).map(Frame::Data).map_err(|refusal| match refusal {
            Refusal::Malformed(why) => {
                Fault::new(FaultKind::GrpcMalformed, format!("a line of the request: {why}"))
            }
            Refusal::TooLarge => Fault::body_too_large(),
        })
    }
}

impl BodyStream for LinesBody {
    fn poll_frame(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Frame, Fault>>> {
        loop {
            while let Some(line) = self.line() {
                if !line.trim_ascii().is_empty() {
                    return Poll::Ready(Some(self.message(&line)));
                }
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
                    return Poll::Ready(Some(Err(Fault::internal("a file is no request"))));
                }
                Poll::Ready(Some(Ok(Frame::Trailers(_))) | None) => self.is_over = true,
            }
        }
    }

    fn length(&self) -> Option<u64> {
        None
    }
}
