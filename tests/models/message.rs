//! What a shared body needs of a message: the real types would bring every crate below.

use std::task::{Context, Poll};

use bytes::Bytes;

pub(crate) struct Headers;

impl Clone for Headers {
    fn clone(&self) -> Headers {
        Headers
    }
}

#[derive(Clone)]
pub(crate) struct FileRange {
    pub(crate) length: u64,
}

pub(crate) enum Frame {
    Data(Bytes),
    File(FileRange),
    Trailers(Headers),
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum FaultKind {
    ClientGone,
    SharedBodyDropped,
    SharedBodyFull,
    SharedBodyLate,
}

#[derive(Clone)]
pub(crate) struct Fault(pub(crate) FaultKind);

impl Fault {
    pub(crate) fn new(kind: FaultKind, _detail: &str) -> Fault {
        Fault(kind)
    }

    pub(crate) fn client_gone(_detail: &str) -> Fault {
        Fault(FaultKind::ClientGone)
    }
}

pub(crate) trait BodyStream {
    fn poll_frame(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Frame, Fault>>>;

    #[allow(dead_code, reason = "nothing here sends a body")]
    fn length(&self) -> Option<u64>;
}

pub(crate) struct Body(Box<dyn BodyStream>);

impl Body {
    pub(crate) fn stream(stream: impl BodyStream + 'static) -> Body {
        Body(Box::new(stream))
    }

    pub(crate) async fn frame(&mut self) -> Option<Result<Frame, Fault>> {
        std::future::poll_fn(|cx| self.0.poll_frame(cx)).await
    }
}

pub(crate) fn detach_small(data: Bytes) -> Bytes {
    data
}
