//! A gRPC call: the properties of its exchange in addition to those of an HTTP request.
//!
//! Owns the deadline of the call and its status, which comes from a trailer, a response with only
//! trailers, or a fault. The content of messages is not inspected.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::task::{Context, Poll};
use std::time::Duration;

use net::{Timer, clock};
use wire::grpc::{self, Code, Form};
use wire::{Known, Method};

use crate::{Body, BodyStream, Fault, FaultKind, Frame, Headers, Request, Response};

/// The call that a request is.
#[derive(Debug)]
pub struct GrpcCall {
    /// The form that the client uses; `None` if a filter made the call of another request.
    pub form: Option<Form>,
    /// The content type of the request, which is that of the response.
    content_type: Box<[u8]>,
    /// When its time is over, in microseconds on the worker's clock.
    deadline_us: Cell<Option<u64>>,
    status: Cell<Option<Code>>,
    /// The fault that ended the response after its headers.
    fault: RefCell<Option<Fault>>,
}

impl GrpcCall {
    /// Notes that a request is a call, if it is one. A malformed time-out is the client's fault.
    #[inline]
    pub fn note(request: &mut Request) -> Result<(), Fault> {
        // gRPC has no other method (PROTOCOL-HTTP2.md), so other requests pay for one comparison.
        if request.method != Method::Post {
            return Ok(());
        }
        let content_type = request.headers.get(Known::ContentType).unwrap_or_default();
        match Form::of(content_type) {
            None => Ok(()),
            form => GrpcCall::begin(request, form),
        }
    }

    /// Marks a request as a call; without a form, faults become plain HTTP responses.
    pub fn begin(request: &mut Request, form: Option<Form>) -> Result<(), Fault> {
        let content_type = request.headers.get(Known::ContentType).unwrap_or_default();
        let timeout = request.headers.get(grpc::TIMEOUT).map(grpc::parse_timeout);
        request.notes.grpc = Some(Rc::new(GrpcCall {
            form,
            content_type: content_type.into(),
            deadline_us: Cell::new(timeout.flatten().and_then(|span| after(request, span))),
            status: Cell::new(None),
            fault: RefCell::new(None),
        }));
        GrpcCall::bound(request);
        match timeout {
            Some(None) => Err(Fault::new(FaultKind::GrpcMalformed, "a malformed grpc-timeout")),
            _ => Ok(()),
        }
    }

    /// Bounds the time of a call by that of its route, if both are known.
    #[inline]
    pub fn bound(request: &Request) {
        if let (Some(call), Some(route)) = (&request.notes.grpc, &request.route)
            && let Some(latest_us) =
                route.bounds.as_ref().and_then(|bounds| after(request, bounds.call?))
        {
            let deadline_us = call.deadline_us.get().unwrap_or(u64::MAX);
            call.deadline_us.set(Some(deadline_us.min(latest_us)));
        }
    }

    /// The time until its deadline; `None` without one.
    pub fn remaining(&self) -> Option<Duration> {
        let deadline_us = self.deadline_us.get()?;
        Some(Duration::from_micros(deadline_us.saturating_sub(clock::now_us())))
    }

    /// True once the time of the call is over. A server that was told the deadline cancels the call
    /// by itself, often before the timer of this worker fires; its clock may be a little fast.
    pub fn is_over(&self) -> bool {
        self.remaining().is_some_and(|left| left < Duration::from_millis(1))
    }

    /// A timer that is ready at the deadline.
    pub fn deadline(&self) -> Option<Timer> {
        let timer = Timer::new();
        timer.set(self.remaining()?);
        Some(timer)
    }

    /// The status, once it is known.
    pub fn status(&self) -> Option<Code> {
        self.status.get()
    }

    pub fn set_status(&self, code: Code) {
        self.status.set(Some(code));
    }

    /// Returns the fault that ended the response after its headers, for the log.
    pub fn take_fault(&self) -> Option<Fault> {
        self.fault.take()
    }

    /// Takes the status from the head of a response, if it is there: one that is only trailers, or
    /// one that is not gRPC.
    pub fn note_head(&self, response: &Response) {
        match response.headers.get(grpc::STATUS) {
            Some(value) => self.set_status(Code::parse(value)),
            None if response.status != 200 => self.set_status(Code::of_http(response.status)),
            None => {}
        }
    }

    /// The response to a fault; `None` if the client does not speak gRPC.
    pub fn failed(&self, fault: &Fault) -> Option<Response> {
        let code = code_of(fault);
        self.set_status(code);
        self.form?;
        let mut response = Response::new(200);
        response.headers.append(Known::ContentType, &*self.content_type);
        append_status(&mut response.headers, code, title(fault));
        Some(response)
    }

    /// Wraps a body whose trailers contain the status of the call. A fault and the deadline become
    /// trailers.
    pub fn guard(self: &Rc<Self>, body: Body) -> Body {
        match body {
            Body::Stream(inner) => {
                // The status of the call if the client disconnects before the trailers.
                self.set_status(Code::Cancelled);
                let deadline = self.deadline();
                let call = self.clone();
                Body::stream(CallBody { inner: Some(inner), call, deadline })
            }
            whole => {
                if self.status().is_none() {
                    self.set_status(Code::Unknown);
                }
                whole
            }
        }
    }
}

/// When so much time has passed since the request began.
fn after(request: &Request, span: Duration) -> Option<u64> {
    request.began_us.checked_add(u64::try_from(span.as_micros()).ok()?)
}

/// The code of a fault: the mapping of gRPC for its HTTP status, unless gRPC has a code of its own
/// for it.
fn code_of(fault: &Fault) -> Code {
    match fault.kind {
        FaultKind::Deadline => Code::DeadlineExceeded,
        FaultKind::BodyTooLarge => Code::ResourceExhausted,
        _ => Code::of_http(fault.status),
    }
}

/// The text of a fault for a client, as in the bodies of other responses.
fn title(fault: &Fault) -> &'static str {
    match fault.kind {
        FaultKind::Deadline => "Deadline Exceeded",
        _ => wire::h1::reason(fault.status),
    }
}

fn append_status(headers: &mut Headers, code: Code, message: &str) {
    headers.append(grpc::STATUS, code.number().to_string());
    if !message.is_empty() {
        headers.append(grpc::MESSAGE, &*grpc::encode_message(message));
    }
}

/// The body of a response to a call.
struct CallBody {
    /// `None` once it has ended.
    inner: Option<Box<dyn BodyStream>>,
    call: Rc<GrpcCall>,
    deadline: Option<Timer>,
}

impl CallBody {
    fn fail(&mut self, fault: Fault) -> Frame {
        // Dropped now: the server learns that nothing more is wanted.
        self.inner = None;
        let mut trailers = Headers::new();
        let code = code_of(&fault);
        append_status(&mut trailers, code, title(&fault));
        self.call.set_status(code);
        self.call.fault.replace(Some(fault));
        Frame::Trailers(trailers)
    }
}

impl BodyStream for CallBody {
    fn poll_frame(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Frame, Fault>>> {
        let Some(inner) = &mut self.inner else { return Poll::Ready(None) };
        match inner.poll_frame(cx) {
            Poll::Ready(Some(Err(fault))) => {
                let fault = if self.call.is_over() { Fault::deadline() } else { fault };
                Poll::Ready(Some(Ok(self.fail(fault))))
            }
            Poll::Ready(Some(Ok(Frame::Trailers(trailers)))) => {
                let status = trailers.get(grpc::STATUS).map_or(Code::Unknown, Code::parse);
                self.call.set_status(status);
                self.inner = None;
                Poll::Ready(Some(Ok(Frame::Trailers(trailers))))
            }
            Poll::Ready(None) => {
                self.call.set_status(Code::Unknown);
                self.inner = None;
                Poll::Ready(None)
            }
            Poll::Ready(frame) => Poll::Ready(frame),
            Poll::Pending => match &self.deadline {
                Some(deadline) if deadline.poll(cx).is_ready() => {
                    Poll::Ready(Some(Ok(self.fail(Fault::deadline()))))
                }
                _ => Poll::Pending,
            },
        }
    }

    fn length(&self) -> Option<u64> {
        self.inner.as_ref().map_or(Some(0), |inner| inner.length())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Target;
    use bytes::Bytes;

    /// A body of a server that has reset the stream.
    struct IsReset;

    impl BodyStream for IsReset {
        fn poll_frame(&mut self, _: &mut Context<'_>) -> Poll<Option<Result<Frame, Fault>>> {
            Poll::Ready(Some(Err(Fault::new(FaultKind::ConnectionTerminated, "CANCEL"))))
        }

        fn length(&self) -> Option<u64> {
            None
        }
    }

    #[test]
    fn a_stream_that_is_reset_after_the_deadline_has_exceeded_it() {
        for (timeout, code) in [("0n", Code::DeadlineExceeded), ("1H", Code::Unavailable)] {
            let mut headers = Headers::new();
            headers.append(Known::ContentType, "application/grpc");
            headers.append(grpc::TIMEOUT, timeout);
            let target = Target::new(Bytes::from_static(b"/shop.v1.Orders/Get")).unwrap();
            let mut request = Request::made_up(Method::Post, target, headers);
            GrpcCall::note(&mut request).unwrap();
            let call = request.notes.grpc.clone().unwrap();
            let Body::Stream(mut body) = call.guard(Body::stream(IsReset)) else {
                panic!("a body")
            };
            let mut cx = Context::from_waker(std::task::Waker::noop());
            let Poll::Ready(Some(Ok(Frame::Trailers(trailers)))) = body.poll_frame(&mut cx) else {
                panic!("{timeout}: trailers")
            };
            let status = trailers.get(grpc::STATUS).map(Code::parse);
            assert_eq!((status, call.status()), (Some(code), Some(code)), "{timeout}");
        }
    }
}
