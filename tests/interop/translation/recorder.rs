//! A server of HTTP/1.1 that reads strictly, with a parser of its own, and records what it reads.

use scenarios::Upstream;
use std::sync::{Arc, Mutex};

/// The requests that were read to their end.
#[derive(Clone, Default)]
pub(super) struct Recorder {
    requests: Arc<Mutex<Vec<String>>>,
}

/// What a gateway adds to every request.
const ADDED: [&str; 3] =
    ["via: 2.0 tidegate", "x-forwarded-for: 127.0.0.1", "x-forwarded-proto: http"];

impl Recorder {
    /// Starts it; each request gets an empty response.
    pub(super) fn start() -> (Recorder, Upstream) {
        let recorder = Recorder::default();
        let recording = recorder.clone();
        let upstream = Upstream::start(move |peer| {
            let mut received = Vec::new();
            while !peer.at_end() {
                received.extend(peer.read_exactly(peer.waiting()));
                while let Some((request, length)) = request(&received) {
                    received.drain(..length);
                    recording.requests.lock().expect("no test panicked here").push(request);
                    peer.try_send("HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n");
                }
            }
        });
        (recorder, upstream)
    }

    /// The requests since the last time.
    pub(super) fn take(&self) -> Vec<String> {
        std::mem::take(&mut *self.requests.lock().expect("no test panicked here"))
    }
}

/// The request that the bytes begin with, once they have all of it, and its length. Everything that
/// is not well-formed is one malformed request to the end.
fn request(received: &[u8]) -> Option<(String, usize)> {
    let end = received.windows(4).position(|bytes| bytes == b"\r\n\r\n")? + 4;
    let text = String::from_utf8_lossy(&received[..end - 4]).into_owned();
    let malformed = |why: &str| {
        let all = String::from_utf8_lossy(received);
        Some((format!("malformed, {why}: {all}"), received.len()))
    };
    let mut lines = text.split("\r\n");
    let line = lines.next().unwrap_or_default();
    let parts: Vec<&str> = line.split(' ').collect();
    if !matches!(parts[..], [method, target, "HTTP/1.1"] if is_token(method) && !target.is_empty())
        || line.contains(|char: char| char.is_ascii_control())
    {
        return malformed("request line");
    }
    let mut shown = vec![line.to_owned()];
    let mut host = "";
    let (mut length, mut is_chunked, mut hosts) = (None, false, 0);
    for line in lines {
        let Some((name, value)) = line.split_once(": ") else { return malformed("field") };
        let is_control = |char: char| char.is_ascii_control() && char != '\t';
        if !is_token(name) || value.contains(is_control) || value.trim() != value {
            return malformed("field");
        }
        let name = name.to_ascii_lowercase();
        match &*name {
            "content-length" if length.is_some() => return malformed("two lengths"),
            "content-length" => match value.parse::<usize>() {
                Ok(value) => length = Some(value),
                Err(_) => return malformed("length"),
            },
            "transfer-encoding" if is_chunked || value != "chunked" => {
                return malformed("transfer encoding");
            }
            "transfer-encoding" => is_chunked = true,
            "host" => (host, hosts) = (value, hosts + 1),
            _ => {}
        }
        let line = format!("{name}: {value}");
        if !ADDED.contains(&&*line) && line != format!("x-forwarded-host: {host}") {
            shown.push(line);
        }
    }
    if hosts != 1 || (is_chunked && length.is_some()) {
        return malformed("host or framing");
    }
    let rest = &received[end..];
    let (content, used) = match is_chunked {
        true => chunks(rest)?,
        false => {
            let length = length.unwrap_or(0);
            (String::from_utf8_lossy(rest.get(..length)?).into_owned(), length)
        }
    };
    if !content.is_empty() {
        shown.push(content);
    }
    Some((shown.join("|"), end + used))
}

/// The content and trailers of a chunked message, once they are there, and their length.
fn chunks(bytes: &[u8]) -> Option<(String, usize)> {
    let (mut content, mut at) = (String::new(), 0);
    loop {
        let line = bytes[at..].windows(2).position(|bytes| bytes == b"\r\n")?;
        let size = String::from_utf8_lossy(&bytes[at..at + line]).into_owned();
        at += line + 2;
        let Ok(size) = usize::from_str_radix(&size, 16) else {
            return Some((format!("malformed chunk size {size:?}"), bytes.len()));
        };
        if size == 0 {
            break;
        }
        content.push_str(&String::from_utf8_lossy(bytes.get(at..at + size)?));
        if bytes.get(at + size..at + size + 2)? != b"\r\n" {
            return Some(("malformed end of a chunk".into(), bytes.len()));
        }
        at += size + 2;
    }
    // The trailers end with an empty line.
    loop {
        let line = bytes[at..].windows(2).position(|bytes| bytes == b"\r\n")?;
        if line > 0 {
            content.push('|');
            content.push_str(&String::from_utf8_lossy(&bytes[at..at + line]));
        }
        at += line + 2;
        if line == 0 {
            return Some((content, at));
        }
    }
}

fn is_token(text: &str) -> bool {
    let is_tchar = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
    !text.is_empty() && text.bytes().all(is_tchar)
}
