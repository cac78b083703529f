//! The request of a health check over HTTP/2: a GET, or a call of `grpc.health.v1`.

use bytes::Bytes;
use message::Headers;
use message::http2::{self, Chunk, SendQueue};
use net::{Outgoing, Stream};
use wire::grpc::{self, Code, Form, MessageReader};
use wire::h2::{Connection, Event, Field, Fields, RequestLine};
use wire::{Known, Method};

use super::probe::{Probe, broken};
use crate::limits::CHECK_RESPONSE;

/// The path of a gRPC check.
const GRPC_PATH: &str = "/grpc.health.v1.Health/Check";
/// A `HealthCheckResponse` that begins with the status `SERVING`.
const SERVING: [u8; 2] = [0x08, 0x01];

/// Sends the request of a check and reads the response.
pub(super) async fn exchange(stream: &Stream, host: &str, probe: &Probe) -> Result<(), String> {
    let mut connection: Connection<Chunk> = Connection::client(wire::h2::Config::default());
    open(&mut connection, stream.tls().is_some(), host, probe)
        .ok_or("the connection takes no request")?;
    let mut messages = MessageReader::new(CHECK_RESPONSE);
    loop {
        let mut outgoing = Outgoing::default();
        connection.write(&mut SendQueue(&mut outgoing, http2::take), usize::MAX);
        stream.send_all(&mut outgoing).await.map_err(broken)?;
        let chunk = stream.receive().await.map_err(broken)?;
        if chunk.is_empty() {
            return Err("the connection was closed before a response".to_owned());
        }
        connection.receive(chunk);
        while let Some(event) = connection.poll_event().map_err(|violation| violation.text())? {
            match event {
                Event::Response { status, .. } if status < 200 => {}
                Event::Response { status, ends, .. } => match probe {
                    Probe::Get { expected, .. } if expected.contains(status) => return Ok(()),
                    Probe::Grpc { .. } if status == 200 && !ends => {}
                    Probe::Grpc { .. } if status == 200 => {
                        return verdict(connection.fields(), &mut messages);
                    }
                    _ => return Err(format!("the response was {status}")),
                },
                Event::Data { stream, data, .. } => {
                    connection.release(stream, data.len());
                    messages.push(&data);
                }
                Event::Trailers { .. } => return verdict(connection.fields(), &mut messages),
                Event::Malformed { reject, .. } => {
                    return Err(format!("the response is malformed: {reject}"));
                }
                Event::Reset { code, .. } | Event::GoAway { code } => {
                    return Err(format!("the server ended the exchange: {code:?}"));
                }
                _ => {}
            }
        }
    }
}

/// Opens the stream of a check; `None` if the connection takes no request.
fn open(connection: &mut Connection<Chunk>, secure: bool, host: &str, probe: &Probe) -> Option<()> {
    let (method, path) = match probe {
        Probe::Get { path, .. } => (&Method::Get, path.as_str()),
        Probe::Grpc { .. } => (&Method::Post, GRPC_PATH),
    };
    let (authority, path) = (host.as_bytes(), path.as_bytes());
    let line = RequestLine { method, secure, authority, path, protocol: None };
    let own = |known, value| Field { known: Some(known), name: b"", value };
    let agent = own(Known::UserAgent, &b"tidegate-health"[..]);
    let Probe::Grpc { service } = probe else {
        return connection.request(line, [agent], true).ok().map(|_| ());
    };
    let content_type = own(Known::ContentType, Form::Grpc.media_type().as_bytes());
    let fields = [agent, content_type, own(Known::Te, b"trailers")];
    let stream = connection.request(line, fields, false).ok()?;
    connection.send_data(stream, Chunk::Bytes(health_request(service)), true).ok()
}

/// A `HealthCheckRequest` with its prefix: the service is field 1.
fn health_request(service: &str) -> Bytes {
    let mut message = Vec::new();
    if !service.is_empty() {
        message.push(0x0A);
        let mut length = service.len();
        while length >= 0x80 {
            message.push(length as u8 | 0x80);
            length >>= 7;
        }
        message.push(length as u8);
        message.extend_from_slice(service.as_bytes());
    }
    Bytes::from([&grpc::prefix(0, message.len() as u32)[..], &message].concat())
}

/// The health by the end of a call: its status, and what its message says.
fn verdict(trailers: &Fields, messages: &mut MessageReader) -> Result<(), String> {
    let trailers = Headers::received(&trailers.text, &trailers.spans);
    match trailers.get(grpc::STATUS).map(Code::parse) {
        Some(Code::Ok) => {}
        Some(code) => return Err(format!("the call ended with {}", code.slug())),
        None => return Err("the response is not gRPC".to_owned()),
    }
    match messages.next_message() {
        Ok(Some((0, message))) if message.starts_with(&SERVING) => Ok(()),
        Ok(Some((0, _))) => Err("the service is not serving".to_owned()),
        _ => Err("the response holds no status of the service".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_names_the_service() {
        assert_eq!(&health_request("")[..], b"\0\0\0\0\0");
        assert_eq!(&health_request("a.B")[..], b"\0\0\0\0\x05\x0a\x03a.B");
        let long = health_request(&"x".repeat(200));
        assert_eq!(&long[..8], b"\0\0\0\0\xcb\x0a\xc8\x01");
    }
}
