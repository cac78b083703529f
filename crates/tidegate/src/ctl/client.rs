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
/// The time without a byte after which a server that sends lines has gone: it sends an empty line
/// every 10 s.
const SILENCE_TIMEOUT: Duration = Duration::from_secs(30);
/// The longest line.
const LINE_BYTES: usize = 1 << 20;

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

    /// Posts nothing and returns the content of a successful response.
    pub(crate) fn fetch(&self, target: &str) -> Result<Vec<u8>, Failure> {
        Ok(self.succeed("POST", target, "*/*", None)?.body)
    }

    /// Sends a GET and returns the text of a successful response.
    pub(crate) fn text(&self, target: &str) -> Result<String, Failure> {
        let reply = self.succeed("GET", target, "text/plain", None)?;
        Ok(String::from_utf8_lossy(&reply.body).into_owned())
    }

    /// Puts JSON and returns the JSON of a successful response.
    pub(crate) fn put(&self, target: &str, body: &Value) -> Result<Value, Failure> {
        let body = body.to_string();
        self.json(&self.succeed("PUT", target, "application/json", Some(&body))?)
    }

    /// Sends a GET and passes each line of a successful response on as soon as it arrives, until
    /// the response ends. Empty lines only say that the server is there.
    pub(crate) fn follow(
        &self,
        target: &str,
        take: impl FnMut(&str) -> Result<(), Failure>,
    ) -> Result<(), Failure> {
        let request = self.request("GET", target, "application/x-ndjson", None);
        let followed = worker::block_on_local(async {
            let stream = within(CONNECT_TIMEOUT, connect(&self.address)).await?;
            follow(&stream, request.into(), take).await
        });
        followed.map_err(|error| self.failed(&error))?
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
        let request = self.request(method, target, accept, body);
        worker::block_on_local(async {
            let stream = within(CONNECT_TIMEOUT, connect(&self.address)).await?;
            within(RESPONSE_TIMEOUT, send_request(&stream, request.into())).await
        })
        .map_err(|error| self.failed(&error))
    }

    fn failed(&self, error: &io::Error) -> Failure {
        let address = &self.address;
        Failure::Failed(match error.kind() {
            io::ErrorKind::ConnectionRefused | io::ErrorKind::NotFound => {
                format!("no server listens at {address}: {error}")
            }
            _ => format!("the request to {address} failed: {error}"),
        })
    }

    fn request(&self, method: &str, target: &str, accept: &str, body: Option<&str>) -> String {
        let mut head = format!(
            "{method} {target} HTTP/1.1\r\nHost: tidegate\r\nAccept: {accept}\r\n\
             Connection: close\r\n"
        );
        if body.is_some() {
            head.push_str("Content-Type: application/json\r\n");
        }
        if method != "GET" {
            head.push_str(&format!("Content-Length: {}\r\n", body.map_or(0, str::len)));
        }
        if let Some(token) = &self.token {
            head.push_str(&format!("Authorization: Bearer {token}\r\n"));
        }
        head.push_str("\r\n");
        head.push_str(body.unwrap_or_default());
        head
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

async fn send(stream: &Stream, request: Bytes) -> io::Result<()> {
    let mut outgoing = Outgoing::default();
    outgoing.push(request);
    while !outgoing.is_empty() {
        std::future::poll_fn(|cx| stream.poll_send(cx, &mut outgoing)).await?;
    }
    Ok(())
}

async fn send_request(stream: &Stream, request: Bytes) -> io::Result<Reply> {
    send(stream, request).await?;
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

/// Passes on the lines of a response. The inner error is that of a line, or of the server.
async fn follow(
    stream: &Stream,
    request: Bytes,
    mut take: impl FnMut(&str) -> Result<(), Failure>,
) -> io::Result<Result<(), Failure>> {
    within(RESPONSE_TIMEOUT, send(stream, request)).await?;
    let mut received = Vec::new();
    let begin = loop {
        let chunk = within(SILENCE_TIMEOUT, stream.receive()).await?;
        let ended = chunk.is_empty();
        received.extend_from_slice(&chunk);
        match head(&received)? {
            Some(head) if head.status == 200 && head.framing == ResponseFraming::Chunked => {
                break head.len;
            }
            Some(_) => {
                if let Some(reply) = read(&received, ended)? {
                    return Ok(Err(refused(&reply)));
                }
            }
            None => {}
        }
        if ended || received.len() > RESPONSE_BYTES {
            return Err(invalid("the response was truncated"));
        }
    };
    let mut input = Bytes::from(received).split_off(begin);
    let mut decoder = ChunkDecoder::new(TRAILER_BYTES);
    let mut lines = Lines::default();
    loop {
        match decoder.next(&mut input) {
            Ok(ChunkEvent::Data(data)) => {
                if let Err(failure) = lines.add(&data, &mut take)? {
                    return Ok(Err(failure));
                }
            }
            Ok(ChunkEvent::NeedMore) => {
                let chunk = within(SILENCE_TIMEOUT, stream.receive()).await?;
                if chunk.is_empty() {
                    return Err(invalid("the server has closed the connection"));
                }
                input = Bytes::copy_from_slice(&chunk);
            }
            Ok(ChunkEvent::End(_)) => return Ok(Ok(())),
            Err(reject) => return Err(invalid(&format!("the response is not HTTP: {reject:?}"))),
        }
    }
}

/// Splits what arrives into lines.
#[derive(Default)]
struct Lines {
    begun: Vec<u8>,
}

impl Lines {
    /// Passes on the lines that are complete. The outer error is that of a line without end.
    fn add(
        &mut self,
        data: &[u8],
        take: &mut impl FnMut(&str) -> Result<(), Failure>,
    ) -> io::Result<Result<(), Failure>> {
        for piece in data.split_inclusive(|byte| *byte == b'\n') {
            self.begun.extend_from_slice(piece);
            if self.begun.len() > LINE_BYTES {
                return Err(invalid("a line of the response is too long"));
            }
            if piece.ends_with(b"\n") {
                let line = std::mem::take(&mut self.begun);
                let line = String::from_utf8_lossy(line.trim_ascii());
                if !line.is_empty()
                    && let Err(failure) = take(&line)
                {
                    return Ok(Err(failure));
                }
            }
        }
        Ok(Ok(()))
    }
}

/// The head of the final response.
struct Head {
    status: u16,
    framing: ResponseFraming,
    /// Where the body begins.
    len: usize,
}

/// Parses the head of the final response once it is complete.
fn head(received: &[u8]) -> io::Result<Option<Head>> {
    let mut len = 0;
    loop {
        let rest = &received[len..];
        let head = h1::parse_response(rest, &HeadLimits::default(), &mut Vec::new(), false)
            .map_err(|reject| invalid(&format!("the response is not HTTP: {reject:?}")))?;
        let Some(head) = head else { return Ok(None) };
        len += head.len;
        if !head.is_interim() {
            return Ok(Some(Head { status: head.status, framing: head.framing, len }));
        }
    }
}

/// Parses the response once it is complete. Each call parses from the beginning: responses are
/// small and arrive in few chunks.
fn read(received: &[u8], ended: bool) -> io::Result<Option<Reply>> {
    let Some(head) = head(received)? else { return Ok(None) };
    let rest = &received[head.len..];
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
    use super::{Lines, Reply, read, refused};
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
    fn lines_arrive_in_any_pieces() {
        let text = b"one\n\ntwo\nthr\xc3\xa9e\nhalf";
        for size in 1..=text.len() {
            let mut lines = Lines::default();
            let mut taken = Vec::new();
            for piece in text.chunks(size) {
                let added = lines.add(piece, &mut |line: &str| {
                    taken.push(line.to_owned());
                    Ok(())
                });
                assert!(matches!(added, Ok(Ok(()))));
            }
            assert_eq!(taken, ["one", "two", "thr\u{e9}e"], "{size}");
        }
        let endless = vec![b'a'; super::LINE_BYTES + 1];
        assert!(Lines::default().add(&endless, &mut |_: &str| Ok(())).is_err());
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
