//! The messages of a response as JSON: one value, or one line for each.

use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use message::{Body, BodyStream, Fault, FaultKind, Frame, Headers, Response};
use prost_reflect::{DynamicMessage, SerializeOptions};
use serde_json::Value as Json;
use wire::grpc::{self, Code, MessageReader};

use super::Translation;

/// The messages of a response, and then its trailers.
pub(super) struct Messages {
    inner: Body,
    reader: MessageReader,
    translation: Arc<Translation>,
    /// The binding, by its place.
    at: usize,
}

/// A part of a response.
pub(super) enum Part {
    /// A message as JSON.
    Message(Vec<u8>),
    /// The call has ended.
    End(Code, Headers),
}

impl Messages {
    pub(super) fn new(inner: Body, translation: Arc<Translation>, at: usize) -> Messages {
        let reader = MessageReader::new(translation.message_max);
        Messages { inner, reader, translation, at }
    }

    /// The next part; an error if the server violates gRPC or a limit.
    fn poll_part(&mut self, cx: &mut Context<'_>) -> Poll<Result<Part, Fault>> {
        loop {
            let next = self.reader.next_message();
            match next.map_err(|_| protocol("a message is too large")) {
                Err(fault) => return Poll::Ready(Err(fault)),
                Ok(Some((0, message))) => {
                    return Poll::Ready(self.json(&message).map(Part::Message));
                }
                Ok(Some(_)) => {
                    return Poll::Ready(Err(protocol("a message is compressed, or unknown")));
                }
                Ok(None) => {}
            }
            return Poll::Ready(match self.inner.poll_frame(cx) {
                Poll::Pending => return Poll::Pending,
                Poll::Ready(Some(Ok(Frame::Data(data)))) => {
                    self.reader.push(&data);
                    continue;
                }
                Poll::Ready(Some(Ok(Frame::File(_)))) => Err(protocol("a file is no response")),
                Poll::Ready(Some(Ok(Frame::Trailers(trailers)))) => {
                    let code = trailers.get(grpc::STATUS).map_or(Code::Unknown, Code::parse);
                    match code == Code::Ok && self.reader.is_partial() {
                        true => Err(protocol("a message is incomplete")),
                        false => Ok(Part::End(code, trailers)),
                    }
                }
                Poll::Ready(Some(Err(fault))) => Err(fault),
                Poll::Ready(None) => Ok(Part::End(Code::Unknown, Headers::new())),
            });
        }
    }

    fn json(&self, message: &[u8]) -> Result<Vec<u8>, Fault> {
        let binding = &self.translation.bindings[self.at];
        let broken = |_| protocol("a message is not of the type of the descriptor file");
        let message = DynamicMessage::decode(binding.method.output(), message).map_err(broken)?;
        let mut out = Vec::new();
        let mut written = serde_json::Serializer::new(&mut out);
        let print = &self.translation.print;
        let Some(field) = &binding.response_field else {
            let done = message.serialize_with_options(&mut written, print);
            done.map_err(|error| protocol(format!("a message has no JSON: {error}")))?;
            return Ok(out);
        };
        // The field is there even if it has its default value: it is all of the response.
        let print: SerializeOptions = print.clone().skip_default_fields(false);
        let all = message.serialize_with_options(serde_json::value::Serializer, &print);
        let all = all.map_err(|error| protocol(format!("a message has no JSON: {error}")))?;
        let names_are_proto = self.translation.proto_names;
        let name = if names_are_proto { field.name() } else { field.json_name() };
        Ok(all.get(name).unwrap_or(&Json::Null).to_string().into_bytes())
    }

    /// All of a response that has one message.
    pub(super) async fn only(mut self, response: &mut Response) -> Result<(), Fault> {
        let mut only = None;
        loop {
            match std::future::poll_fn(|cx| self.poll_part(cx)).await? {
                Part::Message(json) => {
                    if only.replace(json).is_some() {
                        return Err(protocol("more than one message"));
                    }
                }
                Part::End(Code::Ok, _) => {
                    let json = only.ok_or_else(|| protocol("no message"))?;
                    response.body = Body::from(Bytes::from(json));
                    return Ok(());
                }
                Part::End(code, trailers) => {
                    let failed = self.translation.errors.response(code, &trailers);
                    response.status = failed.status;
                    response.body = failed.body;
                    return Ok(());
                }
            }
        }
    }
}

fn protocol(why: impl Into<std::borrow::Cow<'static, str>>) -> Fault {
    Fault::new(FaultKind::ProtocolError, why)
}

/// A response of any number of messages.
pub(super) struct JsonLines {
    /// `None` once the call has ended.
    messages: Option<Messages>,
}

impl JsonLines {
    pub(super) fn new(messages: Messages) -> JsonLines {
        JsonLines { messages: Some(messages) }
    }
}

impl BodyStream for JsonLines {
    fn poll_frame(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Frame, Fault>>> {
        let Some(messages) = &mut self.messages else { return Poll::Ready(None) };
        let part = match messages.poll_part(cx) {
            Poll::Pending => return Poll::Pending,
            Poll::Ready(part) => part,
        };
        let mut line = match part {
            Ok(Part::Message(json)) => json,
            Ok(Part::End(code, trailers)) => {
                let errors = self.messages.take().map(|messages| messages.translation);
                let Some(translation) = errors.filter(|_| code != Code::Ok) else {
                    return Poll::Ready(None);
                };
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
