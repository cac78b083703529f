//! The filter: finds the binding of a request and translates both directions.

use std::sync::Arc;

use coding::Coding;
use message::{Body, Fault, FaultKind, GrpcCall, Request, Response};
use plugin::{Filter, MaybeFuture, Step};
use wire::grpc::{self, Code, Form};
use wire::{Known, Method};

use super::request::{Call, LinesBody, Refusal};
use super::response::{Lines, Messages};
use super::{KIND, Translation};

/// What a stream of messages is called in HTTP.
const LINES: &str = "application/x-ndjson";
/// The content coding of a request that can be read.
const IDENTITY: &[u8] = b"identity";
/// The compression of messages that servers may use.
const MESSAGE_CODING: &str = "gzip";

pub(super) struct GrpcJsonFilter {
    translation: Arc<Translation>,
}

impl GrpcJsonFilter {
    pub(super) fn new(translation: Arc<Translation>) -> GrpcJsonFilter {
        GrpcJsonFilter { translation }
    }

    /// The binding of a request, by its place, and the values in its path.
    fn find(&self, request: &Request) -> Result<(usize, Vec<String>), Fault> {
        let mut allowed: Vec<&str> = Vec::new();
        for (at, binding) in self.translation.bindings.iter().enumerate() {
            let Some(captures) = binding.captures(request) else { continue };
            if binding.has_verb(request) {
                return Ok((at, captures));
            }
            if !allowed.contains(&binding.verb()) {
                allowed.push(binding.verb());
            }
        }
        Err(match allowed.is_empty() {
            true => Fault::not_found(),
            false => Fault::method_not_allowed(allowed.join(", ")),
        })
    }

    /// Reads the content and makes the request a call with one message.
    async fn unary(&self, request: &mut Request, call: Arc<Call>) -> Step {
        let content = match request.collect_body(self.translation.message_max as u64).await {
            Ok(content) => content,
            Err(fault) => return Step::Fail(fault),
        };
        let mut translating = call.begin_message(content);
        match std::future::poll_fn(|cx| translating.poll(cx)).await {
            Ok(message) => begin(request, call.path(), Body::from(message)),
            Err(Refusal::Malformed(why)) => {
                Step::Respond(self.translation.errors.rejection(400, Code::InvalidArgument, &why))
            }
            Err(refusal) => Step::Fail(refusal.into()),
        }
    }
}

/// Makes the request a call of this path with this body.
fn begin(request: &mut Request, path: &str, body: Body) -> Step {
    if let Err(why) = request.target.replace(path.to_owned()) {
        return Step::Fail(Fault::internal(format!("the path of a method: {why}")));
    }
    request.method = Method::Post;
    for name in [Known::ContentLength, Known::Accept, Known::AcceptEncoding] {
        request.headers.remove(name);
    }
    request.headers.remove(grpc::ENCODING);
    request.headers.set(grpc::ACCEPT_ENCODING, MESSAGE_CODING);
    request.headers.set(Known::ContentType, Form::Grpc.media_type());
    request.headers.set(Known::Te, "trailers");
    request.body = body;
    match GrpcCall::begin(request, None) {
        Ok(()) => Step::Continue,
        Err(fault) => Step::Fail(fault),
    }
}

impl Filter for GrpcJsonFilter {
    fn name(&self) -> &'static str {
        KIND.name
    }

    fn on_request<'a>(&'a self, request: &'a mut Request) -> MaybeFuture<'a, Step> {
        if request.notes.grpc.is_some() {
            return Step::Continue.into();
        }
        let (at, captures) = match self.find(request) {
            Ok(found) => found,
            Err(fault) => return Step::Fail(fault).into(),
        };
        let coding = request.headers.get(Known::ContentEncoding).unwrap_or(IDENTITY);
        if !coding.eq_ignore_ascii_case(IDENTITY) {
            let why = "compressed requests are not translated";
            let fault = Fault::new(FaultKind::UnsupportedContent, why);
            return Step::Fail(fault.with_field(Known::AcceptEncoding, "identity")).into();
        }
        // The response knows its binding by this.
        request.marks.set(self, at as u64);
        let query = request.target.query().map(<[u8]>::to_vec);
        let media_type = request.headers.get(Known::ContentType).unwrap_or_default();
        let media_type = String::from_utf8_lossy(media_type).into_owned();
        let translation = self.translation.clone();
        let call = Arc::new(Call { translation, at, captures, query, media_type });
        if self.translation.bindings[at].method.is_client_streaming() {
            let inner = std::mem::take(&mut request.body);
            let lines = Body::stream(LinesBody::new(inner, call));
            return begin(request, &self.translation.bindings[at].path, lines).into();
        }
        MaybeFuture::of(self.unary(request, call))
    }

    fn on_response<'a>(
        &'a self,
        request: &'a mut Request,
        response: &'a mut Response,
    ) -> MaybeFuture<'a, Step> {
        let at = request.marks.get(self).and_then(|at| usize::try_from(at).ok());
        let (Some(at), Some(grpc_call)) = (at, request.notes.grpc.clone()) else {
            return Step::Continue.into();
        };
        grpc_call.note_head(response);
        let content_type = response.headers.get(Known::ContentType).unwrap_or_default();
        if Form::of(content_type) != Some(Form::Grpc) {
            return match response.status {
                200 => {
                    let why = "the response is not gRPC";
                    Step::Fail(Fault::new(FaultKind::ProtocolError, why)).into()
                }
                _ => Step::Continue.into(),
            };
        }
        if let Some(value) = response.headers.get(grpc::STATUS)
            && Code::parse(value) != Code::Ok
        {
            let code = Code::parse(value);
            return Step::Respond(self.translation.errors.response(code, &response.headers)).into();
        }
        let body = grpc_call.guard(std::mem::take(&mut response.body));
        let coding = response.headers.get(grpc::ENCODING);
        let coding = coding.filter(|name| *name == MESSAGE_CODING.as_bytes());
        let coding = coding.map(|_| Coding::Gzip);
        for name in [grpc::ENCODING, grpc::ACCEPT_ENCODING, "content-length", "trailer"] {
            response.headers.remove(name);
        }
        let messages = Messages::new(body, coding, self.translation.clone(), at);
        let binding = &self.translation.bindings[at];
        let is_stream = binding.method.is_server_streaming();
        if is_stream && !binding.gives_any_content {
            response.headers.set(Known::ContentType, LINES);
            response.body = Body::stream(Lines::new(messages));
            return Step::Continue.into();
        }
        response.headers.set(Known::ContentType, "application/json");
        MaybeFuture::of(async move {
            let done = match is_stream {
                true => messages.pieces(response).await,
                false => messages.single_message(response).await,
            };
            match done {
                Ok(()) => Step::Continue,
                Err(fault) => Step::Fail(fault),
            }
        })
    }
}
