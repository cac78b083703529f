//! `grpc_web`: gRPC for browsers, which can read neither trailers nor frames (PROTOCOL-WEB.md).

mod text;

use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use message::{Body, BodyStream, Fault, Frame, Headers, Request, Response};
use plugin::{Filter, FilterKind, FilterPlan, MaybeFuture, Stage, Step, WorkerContext};
use settings::{Node, Reader, Setting};
use wire::Known;
use wire::grpc::{self, Code, Form};

use text::TextBody;

pub(crate) const KIND: FilterKind = FilterKind { name: "grpc_web", schema: GrpcWeb::schema, read };

/// Translates gRPC-Web (`application/grpc-web` and `application/grpc-web-text`) to gRPC.
///
/// Trailers, also those of errors, become the last message of the response, where a browser can
/// read them. Other requests pass unchanged. Pages of another origin also need CORS headers.
#[derive(Clone, Debug, PartialEq, Setting)]
struct GrpcWeb {}

fn read(node: &Node, reader: &mut Reader<'_>) -> Option<Arc<dyn FilterPlan>> {
    GrpcWeb::read(node, reader)?;
    Some(Arc::new(GrpcWebPlan))
}

struct GrpcWebPlan;

impl FilterPlan for GrpcWebPlan {
    fn name(&self) -> &'static str {
        KIND.name
    }

    fn build(&self, _: &WorkerContext) -> Stage {
        Stage::Filter(Rc::new(GrpcWebFilter))
    }

    fn changes_generated(&self) -> bool {
        true
    }
}

struct GrpcWebFilter;

impl Filter for GrpcWebFilter {
    fn name(&self) -> &'static str {
        KIND.name
    }

    fn on_request<'a>(&'a self, request: &'a mut Request) -> MaybeFuture<'a, Step> {
        let Some(form) = form(request) else { return Step::Continue.into() };
        let content_type = request.headers.get(Known::ContentType).unwrap_or_default();
        let format = grpc::message_format(content_type);
        let content_type = [Form::Grpc.media_type().as_bytes(), format].concat();
        request.headers.set(Known::ContentType, content_type);
        request.headers.set(Known::Te, "trailers");
        if form == Form::WebText {
            request.headers.remove(Known::ContentLength);
            request.body = Body::stream(TextBody::new(std::mem::take(&mut request.body)));
        }
        Step::Continue.into()
    }

    fn on_response<'a>(
        &'a self,
        request: &'a mut Request,
        response: &'a mut Response,
    ) -> MaybeFuture<'a, Step> {
        translate(request, response);
        Step::Continue.into()
    }

    fn on_generated(&self, request: &Request, response: &mut Response) {
        translate(request, response);
    }
}

/// The form of a request that is gRPC-Web.
fn form(request: &Request) -> Option<Form> {
    let form = request.notes.grpc.as_ref()?.form;
    form.filter(|form| matches!(form, Form::Web | Form::WebText))
}

/// Puts the trailers of a response into its body.
fn translate(request: &Request, response: &mut Response) {
    let (Some(call), Some(form)) = (&request.notes.grpc, form(request)) else { return };
    let content_type = response.headers.get(Known::ContentType).unwrap_or_default();
    if Form::of(content_type).is_none() {
        // Not of a gRPC server: clients derive a status from that of HTTP.
        return;
    }
    call.note_head(response);
    let format = grpc::message_format(content_type);
    let content_type = [form.media_type().as_bytes(), format].concat();
    response.headers.set(Known::ContentType, content_type);
    response.headers.remove(Known::ContentLength);
    let mut trailers = Headers::new();
    for name in [grpc::STATUS, grpc::MESSAGE, grpc::STATUS_DETAILS] {
        if let Some(value) = response.headers.get(name) {
            trailers.append(name, value);
            response.headers.remove(name);
        }
    }
    if trailers.is_empty() {
        let inner = call.guard(std::mem::take(&mut response.body));
        response.body = Body::stream(WebBody { inner, form, is_over: false });
    } else {
        // Pages of another origin see the headers only if CORS exposes them, but all of the body.
        response.body = Body::from(encoded(form, trailers_message(&trailers)));
    }
}

/// The message that holds trailers.
fn trailers_message(trailers: &Headers) -> Bytes {
    let mut lines = Vec::new();
    grpc::trailer_lines(trailers.iter().map(|field| (field.name, field.value)), &mut lines);
    // Trailers are bounded: they came in a section of headers.
    let length = u32::try_from(lines.len()).unwrap_or(u32::MAX);
    Bytes::from([&grpc::prefix(grpc::TRAILERS, length)[..], &lines].concat())
}

/// Bytes of a response in its form. Each piece of a text has its own padding.
fn encoded(form: Form, data: Bytes) -> Bytes {
    match form {
        Form::WebText => Bytes::from(STANDARD.encode(data)),
        Form::Grpc | Form::Web => data,
    }
}

/// The body of a response, with the trailers as its last message.
struct WebBody {
    inner: Body,
    form: Form,
    is_over: bool,
}

impl BodyStream for WebBody {
    fn poll_frame(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Frame, Fault>>> {
        if self.is_over {
            return Poll::Ready(None);
        }
        let frame = match self.inner.poll_frame(cx) {
            Poll::Pending => return Poll::Pending,
            Poll::Ready(frame) => frame.transpose(),
        };
        Poll::Ready(Some(frame.and_then(|frame| {
            let data = match frame {
                Some(Frame::Data(data)) => data,
                Some(Frame::File(_)) => return Err(Fault::internal("a file is not gRPC")),
                Some(Frame::Trailers(trailers)) => {
                    self.is_over = true;
                    trailers_message(&trailers)
                }
                None => {
                    self.is_over = true;
                    let mut trailers = Headers::new();
                    trailers.append(grpc::STATUS, Code::Unknown.number().to_string());
                    trailers_message(&trailers)
                }
            };
            Ok(Frame::Data(encoded(self.form, data)))
        })))
    }

    fn length(&self) -> Option<u64> {
        None
    }
}

#[cfg(test)]
mod tests;
