//! The messages of one gRPC response, and those that are sent while it arrives.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

use bytes::{BufMut, Bytes, BytesMut};
use message::{Body, BodyStream, Fault, Frame, Headers, Response};
use prost::Message;
use wire::grpc::{self, Code, MessageReader};

use crate::error::EtcdError;

/// A message with its prefix.
pub(crate) fn framed(message: &impl Message) -> Bytes {
    let length = message.encoded_len();
    let mut out = BytesMut::with_capacity(grpc::PREFIX_BYTES + length);
    out.put_slice(&grpc::prefix(0, length as u32));
    // The buffer has room for it, the only way to fail.
    let _ = message.encode(&mut out);
    out.freeze()
}

/// The messages of a response, one after the other.
pub(crate) struct GrpcStream {
    body: Body,
    reader: MessageReader,
    status: Option<Result<(), EtcdError>>,
}

impl GrpcStream {
    /// The messages of this response, each of up to `bytes_max`.
    pub(crate) fn new(response: Response, bytes_max: usize) -> Result<GrpcStream, EtcdError> {
        let status = grpc_status(&response.headers);
        if status.is_none() && response.status != 200 {
            let why = format!("status {} of HTTP", response.status);
            return Err(EtcdError::new(Code::of_http(response.status), why));
        }
        Ok(GrpcStream { body: response.body, reader: MessageReader::new(bytes_max), status })
    }

    /// The next message; `None` at the end of a call that succeeded. Dropping the future loses
    /// nothing.
    pub(crate) async fn next(&mut self) -> Result<Option<Bytes>, EtcdError> {
        loop {
            let next = self.reader.next_message();
            let too_long = "the response has a message that is too long";
            let next = next.map_err(|_| EtcdError::new(Code::ResourceExhausted, too_long))?;
            if let Some((flags, message)) = next {
                if flags != 0 {
                    return Err(EtcdError::malformed("a message is compressed"));
                }
                return Ok(Some(message));
            }
            match self.body.frame().await {
                Some(Ok(Frame::Data(data))) => self.reader.push(&data),
                Some(Ok(Frame::Trailers(trailers))) => self.status = grpc_status(&trailers),
                Some(Ok(Frame::File(_))) => return Err(EtcdError::malformed("not a message")),
                Some(Err(fault)) => return Err(fault.into()),
                None if self.reader.is_partial() => {
                    return Err(EtcdError::malformed("a message is cut short"));
                }
                None => {
                    let none = || Err(EtcdError::malformed("it has no grpc-status"));
                    return self.status.clone().unwrap_or_else(none).map(|()| None);
                }
            }
        }
    }

    /// The only message of a response.
    pub(crate) async fn only<R: Message + Default>(mut self) -> Result<R, EtcdError> {
        let message = self.next().await?;
        let message = message.ok_or_else(|| EtcdError::malformed("it has no message"))?;
        if self.next().await?.is_some() {
            return Err(EtcdError::malformed("it has two messages"));
        }
        decoded(message)
    }
}

pub(crate) fn decoded<R: Message + Default>(message: Bytes) -> Result<R, EtcdError> {
    R::decode(message).map_err(|error| EtcdError::malformed(&error.to_string()))
}

fn grpc_status(fields: &Headers) -> Option<Result<(), EtcdError>> {
    let code = Code::parse(fields.get(grpc::STATUS)?);
    let text = || grpc::decode_message(fields.get(grpc::MESSAGE).unwrap_or_default());
    Some(if code == Code::Ok { Ok(()) } else { Err(EtcdError::new(code, text())) })
}

/// The messages of a request that are sent as they are written. Few and short: the first message
/// of a watch, and its requests for signs of life, one at a time.
#[derive(Default)]
pub(crate) struct Outbound {
    messages: RefCell<VecDeque<Bytes>>,
    waiting: Cell<Option<Waker>>,
}

impl Outbound {
    pub(crate) fn send(&self, message: &impl Message) {
        self.messages.borrow_mut().push_back(framed(message));
        if let Some(waiting) = self.waiting.take() {
            waiting.wake();
        }
    }

    pub(crate) fn body(self: &Rc<Self>) -> Body {
        Body::stream(OutboundBody(self.clone()))
    }
}

struct OutboundBody(Rc<Outbound>);

impl BodyStream for OutboundBody {
    fn poll_frame(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Frame, Fault>>> {
        match self.0.messages.borrow_mut().pop_front() {
            Some(message) => Poll::Ready(Some(Ok(Frame::Data(message)))),
            None => {
                self.0.waiting.set(Some(cx.waker().clone()));
                Poll::Pending
            }
        }
    }

    fn length(&self) -> Option<u64> {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::messages::LeaseRevokeRequest;

    struct Frames(VecDeque<Frame>);

    impl BodyStream for Frames {
        fn poll_frame(&mut self, _: &mut Context<'_>) -> Poll<Option<Result<Frame, Fault>>> {
            Poll::Ready(self.0.pop_front().map(Ok))
        }

        fn length(&self) -> Option<u64> {
            None
        }
    }

    fn trailers(fields: &[(&str, &str)]) -> Frame {
        let mut headers = Headers::new();
        fields.iter().for_each(|(name, value)| headers.append(*name, value));
        Frame::Trailers(headers)
    }

    async fn read(status: u16, frames: Vec<Frame>) -> Result<LeaseRevokeRequest, EtcdError> {
        let body = Body::stream(Frames(frames.into()));
        let response = Response { body, ..Response::new(status) };
        GrpcStream::new(response, 16)?.only().await
    }

    #[test]
    fn a_response_is_one_message_and_a_status() {
        net::worker::block_on_local(async {
            let message = framed(&LeaseRevokeRequest { id: 77 });
            let (a, b) = (message.slice(..3), message.slice(3..));
            let ok = || trailers(&[("grpc-status", "0")]);
            let data = |bytes: &Bytes| Frame::Data(bytes.clone());
            let read_one = read(200, vec![data(&a), data(&b), ok()]).await;
            assert_eq!(read_one.unwrap().id, 77);
            for (frames, code, message) in [
                (vec![ok()], Code::Internal, "no message"),
                (vec![data(&message), data(&message), ok()], Code::Internal, "two messages"),
                (vec![data(&message)], Code::Internal, "no grpc-status"),
                (vec![data(&a)], Code::Internal, "cut short"),
                (vec![Frame::Data(Bytes::from_static(&[1, 0, 0, 0, 0]))], Code::Internal, "compr"),
                (
                    vec![Frame::Data(Bytes::from_static(&[0, 0, 0, 0, 17]))],
                    Code::ResourceExhausted,
                    "long",
                ),
                (
                    vec![Frame::Data(Bytes::from_static(&[0, 0, 0, 0, 1, 8])), ok()],
                    Code::Internal,
                    "",
                ),
                (
                    vec![trailers(&[("grpc-status", "14"), ("grpc-message", "no%20leader")])],
                    Code::Unavailable,
                    "no leader",
                ),
            ] {
                let error = read(200, frames).await.unwrap_err();
                assert!(error.code == code && error.message.contains(message), "{error}");
            }
            assert_eq!(read(503, Vec::new()).await.unwrap_err().code, Code::Unavailable);
        });
    }
}
