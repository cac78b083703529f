//! The messages of a response as JSON: one value, or one line for each. A `google.api.HttpBody` is
//! its own content instead.

use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use coding::{Coding, Decode, decode_all};
use message::{Body, BodyStream, Fault, FaultKind, Frame, Headers, Response};
use prost_reflect::{DynamicMessage, SerializeOptions};
use serde_json::Value as Json;
use wire::Known;
use wire::grpc::{self, COMPRESSED, Code, MessageReader};

use super::Translation;
use super::translating::{Translating, Unfinished};

/// Decoded bytes per byte of a compressed message, above the first mebibyte.
const DECODED_RATIO_MAX: u64 = 100;
/// The type of a content whose message does not name a valid one.
const ANY_TYPE: &str = "application/octet-stream";

/// The messages of a response, and then its trailers.
pub(super) struct Messages {
    inner: Body,
    reader: MessageReader,
    /// Of compressed messages, if it is supported.
    coding: Option<Coding>,
    translation: Arc<Translation>,
    /// The binding, by its place.
    at: usize,
    /// The message that is being translated.
    translating: Option<Translating<Content, Violation>>,
}

/// How a message violates gRPC or its type.
struct Violation(String);

impl From<Unfinished> for Violation {
    fn from(_: Unfinished) -> Violation {
        Violation("a message could not be translated".to_owned())
    }
}

/// A message as the client gets it.
pub(super) struct Content {
    data: Vec<u8>,
    /// That of a `google.api.HttpBody`; otherwise it is JSON.
    media_type: Option<String>,
}

/// A part of a response.
enum Part {
    Message(Content),
    /// The call has ended.
    End(Code, Headers),
}

impl Messages {
    pub(super) fn new(
        inner: Body,
        coding: Option<Coding>,
        translation: Arc<Translation>,
        at: usize,
    ) -> Messages {
        let reader = MessageReader::new(translation.message_max);
        Messages { inner, reader, coding, translation, at, translating: None }
    }

    /// The next part; an error if the server violates gRPC or a limit.
    fn poll_part(&mut self, cx: &mut Context<'_>) -> Poll<Result<Part, Fault>> {
        loop {
            if let Some(translating) = &mut self.translating {
                let content = ready!(translating.poll(cx));
                self.translating = None;
                let content = content.map_err(|Violation(why)| protocol(why));
                return Poll::Ready(content.map(Part::Message));
            }
            let next = self.reader.next_message();
            match next.map_err(|_| protocol("a message is too large")) {
                Err(fault) => return Poll::Ready(Err(fault)),
                Ok(Some((flags, message))) => {
                    match self.begin_content(flags, message) {
                        Ok(translating) => self.translating = Some(translating),
                        Err(fault) => return Poll::Ready(Err(fault)),
                    }
                    continue;
                }
                Ok(None) => {}
            }
            return Poll::Ready(match ready!(self.inner.poll_frame(cx)) {
                Some(Ok(Frame::Data(data))) => {
                    self.reader.push(&data);
                    continue;
                }
                Some(Ok(Frame::File(_))) => Err(protocol("a file is not a response")),
                Some(Ok(Frame::Trailers(trailers))) => {
                    let code = trailers.get(grpc::STATUS).map_or(Code::Unknown, Code::parse);
                    match code == Code::Ok && self.reader.is_partial() {
                        true => Err(protocol("a message is incomplete")),
                        false => Ok(Part::End(code, trailers)),
                    }
                }
                Some(Err(fault)) => Err(fault),
                None => Ok(Part::End(Code::Unknown, Headers::new())),
            });
        }
    }

    /// Begins to translate a message. A compressed one may be as large as any.
    fn begin_content(
        &self,
        flags: u8,
        message: Bytes,
    ) -> Result<Translating<Content, Violation>, Fault> {
        let (translation, at) = (self.translation.clone(), self.at);
        match (flags, self.coding) {
            (0, _) => {
                Ok(Translating::new(message.len(), move || translation.content(at, &message)))
            }
            (COMPRESSED, Some(coding)) => {
                Ok(Translating::new(translation.message_max, move || {
                    let output_bytes = translation.message_max as u64;
                    let allowed = Decode { output_bytes, ratio: DECODED_RATIO_MAX };
                    let message = decode_all(coding, &message, allowed);
                    let message = message
                        .map_err(|why| Violation(format!("a compressed message: {why:?}")))?;
                    translation.content(at, &message)
                }))
            }
            _ => Err(protocol("the compression of a message is not supported")),
        }
    }

    async fn next(&mut self) -> Result<Part, Fault> {
        std::future::poll_fn(|cx| self.poll_part(cx)).await
    }

    /// All of a response that has one message.
    pub(super) async fn single_message(mut self, response: &mut Response) -> Result<(), Fault> {
        let mut only = None;
        loop {
            match self.next().await? {
                Part::Message(content) => {
                    if only.replace(content).is_some() {
                        return Err(protocol("more than one message"));
                    }
                }
                Part::End(Code::Ok, _) => {
                    let content = only.ok_or_else(|| protocol("no message"))?;
                    response.body = Body::from(Bytes::from(content.begin(response)));
                    return Ok(());
                }
                Part::End(code, trailers) => return self.fail(response, code, &trailers),
            }
        }
    }

    /// The response of a stream of `google.api.HttpBody`: its type is that of the first message.
    pub(super) async fn pieces(mut self, response: &mut Response) -> Result<(), Fault> {
        match self.next().await? {
            Part::Message(content) => {
                let first = Some(content.begin(response));
                response.body = Body::stream(Lines { messages: Some(self), first });
                Ok(())
            }
            Part::End(Code::Ok, _) => {
                response.headers.set(Known::ContentType, ANY_TYPE);
                response.body = Body::Empty;
                Ok(())
            }
            Part::End(code, trailers) => self.fail(response, code, &trailers),
        }
    }

    /// Makes it the response to a call that failed.
    fn fail(&self, response: &mut Response, code: Code, trailers: &Headers) -> Result<(), Fault> {
        let failed = self.translation.errors.response(code, trailers);
        response.status = failed.status;
        response.body = failed.body;
        Ok(())
    }
}

impl Content {
    /// Sets the type of the response and returns the content.
    fn begin(self, response: &mut Response) -> Vec<u8> {
        if let Some(media_type) = self.media_type {
            response.headers.set(Known::ContentType, media_type);
        }
        self.data
    }
}

impl Translation {
    fn content(&self, at: usize, message: &[u8]) -> Result<Content, Violation> {
        let binding = &self.bindings[at];
        let broken =
            |_| Violation("a message is not of the type of the descriptor file".to_owned());
        let message = DynamicMessage::decode(binding.method.output(), message).map_err(broken)?;
        if binding.gives_any_content {
            return Ok(match &binding.response_field {
                None => http_body(&message),
                Some(field) => http_body(message.get_field(field).as_message().unwrap_or(&message)),
            });
        }
        let no_json = |error| Violation(format!("a message has no JSON: {error}"));
        let mut data = Vec::new();
        let mut written = serde_json::Serializer::new(&mut data);
        let Some(field) = &binding.response_field else {
            message.serialize_with_options(&mut written, &self.print).map_err(no_json)?;
            return Ok(Content { data, media_type: None });
        };
        // The field is there even if it has its default value: it is all of the response.
        let print: SerializeOptions = self.print.clone().skip_default_fields(false);
        let all = message.serialize_with_options(serde_json::value::Serializer, &print);
        let all = all.map_err(no_json)?;
        let name = if self.proto_names { field.name() } else { field.json_name() };
        let data = all.get(name).unwrap_or(&Json::Null).to_string().into_bytes();
        Ok(Content { data, media_type: None })
    }
}

fn protocol(why: impl Into<std::borrow::Cow<'static, str>>) -> Fault {
    Fault::new(FaultKind::ProtocolError, why)
}

/// The content of a `google.api.HttpBody`.
fn http_body(message: &DynamicMessage) -> Content {
    let data = message.get_field_by_name("data");
    let data = data.as_ref().and_then(|data| data.as_bytes()).map(|data| data.to_vec());
    let media_type = message.get_field_by_name("content_type");
    let media_type = media_type.as_ref().and_then(|it| it.as_str()).unwrap_or_default();
    let is_valid = !media_type.is_empty() && wire::token::is_field_value(media_type.as_bytes());
    let media_type = if is_valid { media_type } else { ANY_TYPE };
    Content { data: data.unwrap_or_default(), media_type: Some(media_type.to_owned()) }
}

/// A response of any number of messages: lines of JSON, or the pieces of a content of any type.
pub(super) struct Lines {
    /// `None` once the call has ended.
    messages: Option<Messages>,
    /// The first piece of a content of any type.
    first: Option<Vec<u8>>,
}

impl Lines {
    pub(super) fn new(messages: Messages) -> Lines {
        Lines { messages: Some(messages), first: None }
    }
}

impl BodyStream for Lines {
    fn poll_frame(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Frame, Fault>>> {
        if let Some(first) = self.first.take() {
            return Poll::Ready(Some(Ok(Frame::Data(Bytes::from(first)))));
        }
        let Some(messages) = &mut self.messages else { return Poll::Ready(None) };
        let mut line = match ready!(messages.poll_part(cx)) {
            Ok(Part::Message(Content { data, media_type: Some(_) })) => {
                return Poll::Ready(Some(Ok(Frame::Data(Bytes::from(data)))));
            }
            Ok(Part::Message(Content { data, media_type: None })) => data,
            Ok(Part::End(code, trailers)) => {
                let Some(messages) = self.messages.take().filter(|_| code != Code::Ok) else {
                    return Poll::Ready(None);
                };
                let translation = messages.translation;
                if translation.bindings[messages.at].gives_any_content {
                    // A content of any type has no place for a status: it breaks off.
                    let why = format!("the call ended with {}", code.slug());
                    return Poll::Ready(Some(Err(protocol(why))));
                }
                let status = translation.errors.of_trailers(code, &trailers);
                // The status of HTTP has been sent: the last line says how the call ended.
                [b"{\"error\":", &status[..], b"}"].concat()
            }
            Err(fault) => {
                self.messages = None;
                return Poll::Ready(Some(Err(fault)));
            }
        };
        line.push(b'\n');
        Poll::Ready(Some(Ok(Frame::Data(Bytes::from(line)))))
    }

    fn length(&self) -> Option<u64> {
        None
    }
}
