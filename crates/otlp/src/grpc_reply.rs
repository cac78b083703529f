//! The response to a unary call of gRPC: one message, and a status in the trailers.

use std::time::Duration;

use base64::Engine;
use base64::engine::GeneralPurpose;
use base64::engine::general_purpose::STANDARD_NO_PAD;
use bytes::{BufMut, Bytes, BytesMut};
use message::{Frame, Headers, Response};
use prost::Message;
use wire::grpc::{self, Code, MessageReader};

use crate::send_failure::SendFailure;

/// The content type of calls.
pub(crate) const TYPE: &str = "application/grpc";
/// The type of the details that name a pause.
const RETRY_INFO: &str = "type.googleapis.com/google.rpc.RetryInfo";

/// The message with its prefix.
pub(crate) fn framed(message: &Bytes) -> Bytes {
    let mut out = BytesMut::with_capacity(grpc::PREFIX_BYTES + message.len());
    out.put_slice(&grpc::prefix(0, message.len() as u32));
    out.put_slice(message);
    out.freeze()
}

/// Reads a response whose message has at most `bytes_max`.
pub(crate) async fn read(mut response: Response, bytes_max: usize) -> Result<Bytes, SendFailure> {
    let mut status = grpc_status(&response.headers);
    if status.is_none() && response.status != 200 {
        let code = Code::of_http(response.status);
        return Err(failure(
            code,
            format!("the response has the status {}", response.status),
            None,
        ));
    }
    let mut reader = MessageReader::new(bytes_max);
    let mut message = Bytes::new();
    while let Some(frame) = response.body.frame().await {
        match frame? {
            Frame::Data(data) => reader.push(&data),
            Frame::Trailers(trailers) => status = grpc_status(&trailers).or(status),
            Frame::File(_) => return Err(malformed("it has a file")),
        }
        let next = reader.next_message();
        match next.map_err(|_| malformed("its message is too long"))? {
            Some((0, received)) => message = received,
            Some(_) => return Err(malformed("its message is compressed")),
            None => {}
        }
    }
    match status {
        Some(status) => status.map(|()| message),
        None => Err(malformed("it has no grpc-status")),
    }
}

fn malformed(why: &str) -> SendFailure {
    let why = format!("the response is malformed: {why}");
    SendFailure { why, may_repeat: false, pause: None }
}

fn failure(code: Code, why: String, pause: Option<Duration>) -> SendFailure {
    // Those that OTLP names, "Failures" in its specification of gRPC.
    let may_repeat = match code {
        Code::Cancelled
        | Code::DeadlineExceeded
        | Code::Aborted
        | Code::OutOfRange
        | Code::Unavailable
        | Code::DataLoss => true,
        Code::ResourceExhausted => pause.is_some(),
        _ => false,
    };
    SendFailure { why, may_repeat, pause }
}

fn grpc_status(fields: &Headers) -> Option<Result<(), SendFailure>> {
    let code = Code::parse(fields.get(grpc::STATUS)?);
    if code == Code::Ok {
        return Some(Ok(()));
    }
    let text = grpc::decode_message(fields.get(grpc::MESSAGE).unwrap_or_default());
    let pause = fields.get(grpc::STATUS_DETAILS).and_then(retry_pause);
    Some(Err(failure(code, format!("{}: {text}", code.slug()), pause)))
}

/// `google.rpc.Status`, without what is not read.
#[derive(Clone, PartialEq, Message)]
struct Status {
    #[prost(message, repeated, tag = "3")]
    details: Vec<Any>,
}

#[derive(Clone, PartialEq, Message)]
struct Any {
    #[prost(string, tag = "1")]
    type_url: String,
    #[prost(bytes = "vec", tag = "2")]
    value: Vec<u8>,
}

/// `google.rpc.RetryInfo`.
#[derive(Clone, PartialEq, Message)]
struct RetryInfo {
    #[prost(message, optional, tag = "1")]
    retry_delay: Option<Delay>,
}

#[derive(Clone, Copy, PartialEq, Message)]
struct Delay {
    #[prost(int64, tag = "1")]
    seconds: i64,
    #[prost(int32, tag = "2")]
    nanos: i32,
}

/// The pause in the details of a status.
fn retry_pause(details: &[u8]) -> Option<Duration> {
    const ENGINE: GeneralPurpose = STANDARD_NO_PAD;
    let length = details.iter().rposition(|byte| *byte != b'=').map_or(0, |at| at + 1);
    let status = Status::decode(&*ENGINE.decode(&details[..length]).ok()?).ok()?;
    let info = status.details.iter().find(|detail| detail.type_url == RETRY_INFO)?;
    let delay = RetryInfo::decode(&*info.value).ok()?.retry_delay?;
    let seconds = u64::try_from(delay.seconds).ok()?;
    Some(Duration::new(seconds, u32::try_from(delay.nanos).ok()?.min(999_999_999)))
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;
    use std::task::{Context, Poll};

    use message::{Body, BodyStream, Fault};

    use super::*;

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

    fn read_frames(status: u16, frames: Vec<Frame>) -> Result<Bytes, SendFailure> {
        let response =
            Response { body: Body::stream(Frames(frames.into())), ..Response::new(status) };
        net::worker::block_on_local(read(response, 16))
    }

    #[test]
    fn a_response_is_a_message_and_a_status() {
        let message = framed(&Bytes::from_static(b"abc"));
        let frames = |status: &[(&str, &str)]| {
            vec![Frame::Data(message.slice(..4)), Frame::Data(message.slice(4..)), trailers(status)]
        };
        let read = read_frames(200, frames(&[("grpc-status", "0")]));
        assert_eq!(read.ok().as_deref(), Some(&b"abc"[..]));
        let long = Frame::Data(Bytes::from_static(&[0, 0, 0, 0, 17]));
        let compressed = Frame::Data(Bytes::from_static(&[1, 0, 0, 0, 0]));
        for (status, frames, why, may_repeat) in [
            (200, frames(&[("grpc-status", "14"), ("grpc-message", "no%20room")]), "no room", true),
            (200, frames(&[("grpc-status", "16")]), "unauthenticated", false),
            (200, frames(&[("grpc-status", "8")]), "resource_exhausted", false),
            (200, frames(&[]), "no grpc-status", false),
            (200, vec![long], "too long", false),
            (200, vec![compressed], "compressed", false),
            (503, Vec::new(), "status 503", true),
            (404, Vec::new(), "status 404", false),
        ] {
            let failure = read_frames(status, frames).unwrap_err();
            assert!(failure.why.contains(why), "{}", failure.why);
            assert_eq!(failure.may_repeat, may_repeat, "{}", failure.why);
        }
    }

    #[test]
    fn a_collector_without_room_names_the_pause() {
        let info = RetryInfo { retry_delay: Some(Delay { seconds: 7, nanos: 500_000_000 }) };
        let detail = Any { type_url: RETRY_INFO.to_owned(), value: info.encode_to_vec() };
        let details = Status { details: vec![Any::default(), detail] }.encode_to_vec();
        let text = base64::engine::general_purpose::STANDARD.encode(details);
        let status = trailers(&[("grpc-status", "8"), (grpc::STATUS_DETAILS, &text)]);
        let failure = read_frames(200, vec![status]).unwrap_err();
        assert_eq!(failure.pause, Some(Duration::from_millis(7_500)));
        assert!(failure.may_repeat);
        assert_eq!(retry_pause(b"!"), None);
    }
}
