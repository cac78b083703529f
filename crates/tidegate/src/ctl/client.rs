//! One request to an admin API and its response: HTTP/1.1 over TCP or a Unix socket, on a
//! connection of its own.
//!
//! Promises that it ends: every wait and every size is limited, and a truncated response is an
//! error. The token is sent and never printed.

use std::io;
use std::net::ToSocketAddrs;
use std::time::Duration;

use bytes::Bytes;
use net::{Outgoing, Stream, timer, worker};
use serde_json::Value;
use wire::h1::{self, ChunkDecoder, ChunkEvent, HeadLimits, ResponseFraming};

use super::locate::{AdminAddress, CONNECT_TIMEOUT};
use crate::failure::Failure;

/// The time-out of a response: a reload waits until the new configuration serves.
const RESPONSE_TIMEOUT: Duration = Duration::from_secs(120);
/// The largest response.
const RESPONSE_BYTES: usize = 64 << 20;
const TRAILER_BYTES: usize = 8 << 10;

/// A running server's admin API.
pub(crate) struct Client {
    address: AdminAddress,
    token: Option<String>,
}

/// A response.
#[derive(Debug, PartialEq, Eq)]
struct Reply {
    status: u16,
    body: Vec<u8>,
}

impl Client {
    pub(crate) fn new(address: AdminAddress, token: Option<String>) -> Self {
        Client { address, token }
    }

    /// Sends a GET and returns the JSON of a successful response.
    pub(crate) fn ask(&self, method: &str, target: &str) -> Result<Value, Failure> {
        self.json(&self.succeed(method, target, "application/json", None)?)
    }

    /// Posts JSON and returns the JSON of a successful response.
    pub(crate) fn post(&self, target: &str, body: &Value) -> Result<Value, Failure> {
        let body = body.to_string();
        self.json(&self.succeed("POST", target, "application/json", Some(&body))?)
    }

    /// Sends a GET and returns the text of a successful response.
    pub(crate) fn text(&self, target: &str) -> Result<String, Failure> {
        let reply = self.succeed("GET", target, "text/plain", None)?;
        Ok(String::from_utf8_lossy(&reply.body).into_owned())
    }

    fn json(&self, reply: &Reply) -> Result<Value, Failure> {
        serde_json::from_slice(&reply.body).map_err(|error| {
            Failure::Failed(format!("{} sent a response that is not JSON: {error}", self.address))
        })
    }

    fn succeed(
        &self,
        method: &str,
        target: &str,
        accept: &str,
        body: Option<&str>,
    ) -> Result<Reply, Failure> {
        let reply = self.send(method, target, accept, body)?;
        if (200..=299).contains(&reply.status) { Ok(reply) } else { Err(refused(&reply)) }
    }

    fn send(
        &self,
        method: &str,
        target: &str,
        accept: &str,
        body: Option<&str>,
    ) -> Result<Reply, Failure> {
        let addressed = |error: io::Error| {
            let address = &self.address;
            Failure::Failed(match error.kind() {
                io::ErrorKind::ConnectionRefused | io::ErrorKind::NotFound => {
                    format!("no server listens at {address}: {error}")
                }
                _ => format!("the request to {address} failed: {error}"),
            })
        };
        let mut head = format!(
            "{method} {target} HTTP/1.1\r\nHost: tidegate\r\nAccept: {accept}\r\n\
             Connection: close\r\n"
        );
        if body.is_some() {
            head.push_str("Content-Type: application/json\r\n");
        }
        if method == "POST" {
            head.push_str(&format!("Content-Length: {}\r\n", body.map_or(0, str::len)));
        }
        if let Some(token) = &self.token {
            head.push_str(&format!("Authorization: Bearer {token}\r\n"));
        }
        head.push_str("\r\n");
        head.push_str(body.unwrap_or_default());
        worker::block_on_local(async {
            let stream = within(CONNECT_TIMEOUT, connect(&self.address)).await?;
            within(RESPONSE_TIMEOUT, send_request(&stream, head.into())).await
        })
        .map_err(addressed)
    }
}

async fn within<T>(span: Duration, future: impl Future<Output = io::Result<T>>) -> io::Result<T> {
    let late = || io::Error::new(io::ErrorKind::TimedOut, format!("no response within {span:?}"));
    timer::within(span, future).await.unwrap_or_else(|| Err(late()))
}

async fn connect(address: &AdminAddress) -> io::Result<Stream> {
    match address {
        AdminAddress::Unix(path) => Stream::connect_unix(path).await,
        AdminAddress::Tcp { host, port } => {
            // Blocks, which is fine on a loop that does nothing else.
            let mut failed = io::Error::new(io::ErrorKind::NotFound, "the name has no address");
            for address in (host.as_str(), *port).to_socket_addrs()? {
                match Stream::connect_tcp(address).await {
                    Ok(stream) => return Ok(stream),
                    Err(error) => failed = error,
                }
            }
            Err(failed)
        }
    }
}

async fn send_request(stream: &Stream, request: Bytes) -> io::Result<Reply> {
    let mut outgoing = Outgoing::default();
    outgoing.push(request);
    while !outgoing.is_empty() {
        std::future::poll_fn(|cx| stream.poll_send(cx, &mut outgoing)).await?;
    }
    let mut received = Vec::new();
    loop {
        let chunk = stream.receive().await?;
        let ended = chunk.is_empty();
        received.extend_from_slice(&chunk);
        if let Some(reply) = read(&received, ended)? {
            return Ok(reply);
        }
        if ended || received.len() > RESPONSE_BYTES {
            return Err(invalid("the response was truncated"));
        }
    }
}

/// Parses the response once it is complete. Each call parses from the beginning: responses are
/// small and arrive in few chunks.
fn read(received: &[u8], ended: bool) -> io::Result<Option<Reply>> {
    let mut rest = received;
    let head = loop {
        let head = h1::parse_response(rest, &HeadLimits::default(), &mut Vec::new(), false)
            .map_err(|reject| invalid(&format!("the response is not HTTP: {reject:?}")))?;
        let Some(head) = head else { return Ok(None) };
        rest = &rest[head.len..];
        if !head.is_interim() {
            break head;
        }
    };
    let body = match head.framing {
        ResponseFraming::None => Some(Vec::new()),
        ResponseFraming::Length(length) => {
            let length = usize::try_from(length).unwrap_or(usize::MAX);
            rest.get(..length).map(<[u8]>::to_vec)
        }
        ResponseFraming::UntilClose => ended.then(|| rest.to_vec()),
        ResponseFraming::Chunked => unchunked(Bytes::copy_from_slice(rest))?,
    };
    Ok(body.map(|body| Reply { status: head.status, body }))
}

fn unchunked(mut input: Bytes) -> io::Result<Option<Vec<u8>>> {
    let mut decoder = ChunkDecoder::new(TRAILER_BYTES);
    let mut body = Vec::new();
    loop {
        match decoder.next(&mut input) {
            Ok(ChunkEvent::Data(data)) => body.extend_from_slice(&data),
            Ok(ChunkEvent::NeedMore) => return Ok(None),
            Ok(ChunkEvent::End(_)) => return Ok(Some(body)),
            Err(reject) => return Err(invalid(&format!("the response is not HTTP: {reject:?}"))),
        }
    }
}

fn invalid(why: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, why)
}

/// Formats an error response for an operator (problem+json, RFC 9457).
fn refused(reply: &Reply) -> Failure {
    let problem: Value = serde_json::from_slice(&reply.body).unwrap_or_default();
    let text = |member: &str| problem.get(member).and_then(Value::as_str);
    let mut said = match text("detail").or(text("title")) {
        Some(detail) => detail.to_owned(),
        None => format!("the server responded {}", reply.status),
    };
    if let Some(advice) = text("advice") {
        said.push_str(&format!("\n{advice}"));
    }
    if matches!(reply.status, 401 | 403) {
        said.push_str("\nThe token is taken from --token-file or TIDEGATE_TOKEN.");
    }
    if let Some(errors) = text("text") {
        said.push_str(&format!("\n\n{errors}"));
    }
    Failure::Failed(said)
}

#[cfg(test)]
mod tests {
    use super::{Reply, read, refused};
    use crate::failure::Failure;

    fn reply(status: u16, body: &str) -> Reply {
        Reply { status, body: body.into() }
    }

    #[test]
    fn responses_end_as_they_say() {
        let whole = |text: &str, ended| read(text.as_bytes(), ended).unwrap();
        let answer = "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nhi";
        assert_eq!(whole(answer, false), Some(reply(200, "hi")));
        for end in 0..answer.len() {
            assert_eq!(whole(&answer[..end], true), None, "cut at {end}");
        }
        let chunked = "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n2\r\nhi\r\n0\r\n\r\n";
        assert_eq!(whole(chunked, false), Some(reply(200, "hi")));
        assert_eq!(whole(&chunked[..chunked.len() - 1], true), None);
        let closed = "HTTP/1.1 404 Not Found\r\n\r\nhi";
        assert_eq!(whole(closed, false), None);
        assert_eq!(whole(closed, true), Some(reply(404, "hi")));
        assert!(read(b"SSH-2.0-OpenSSH\r\n", false).is_err());
    }

    #[test]
    fn refusals_say_why() {
        let said = |status, body: &str| match refused(&reply(status, body)) {
            Failure::Failed(why) => why,
            other => panic!("{other:?}"),
        };
        let errors = said(422, r#"{"detail": "2 errors", "text": "error: a\n"}"#);
        assert_eq!(errors, "2 errors\n\nerror: a\n");
        let token = said(401, r#"{"detail": "no", "advice": "do"}"#);
        assert!(token.starts_with("no\ndo\n") && token.contains("TIDEGATE_TOKEN"), "{token}");
        assert_eq!(said(502, "<html>"), "the server responded 502");
    }
}
