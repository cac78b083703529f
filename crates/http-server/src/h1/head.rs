//! Writing response heads.
//!
//! The server frames every message that it sends: it writes the fields that frame a message or
//! manage the connection itself, whatever a handler or an upstream set. Heads are written into a
//! block of the worker and sent as a chunk, without a copy.

use std::cell::{Cell, RefCell};

use bytes::{Buf, BufMut, Bytes, BytesMut};
use wire::h1::status_line;
use wire::{Known, Version};

use message::{Headers, Response};

/// Size of the block heads are written into.
const BLOCK: usize = 32 * 1024;

/// Length of the Date field with its CRLF.
const DATE_LINE: usize = 37;

thread_local! {
    static ROOM: RefCell<BytesMut> = RefCell::new(BytesMut::new());
    static DATE: Cell<(u64, [u8; DATE_LINE])> = const { Cell::new((0, [0; DATE_LINE])) };
}

/// How the content of a response is delimited (RFC 9112 6.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Framing {
    /// There is no content, and no field announces a length.
    None,
    Length(u64),
    /// By itself: in chunks, or as the frames of HTTP/2.
    Chunked,
    /// By the end of the connection: HTTP/1.0 clients.
    Close,
}

/// Whether the connection stays open after the response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Persistence {
    /// HTTP/1.1's default: nothing is said.
    Keep,
    /// HTTP/1.0 with keep-alive: it is said.
    KeepAloud,
    Close,
    /// 101: the connection changes its protocol.
    Upgrade,
}

/// Runs `write` on a buffer of the worker and gives what it wrote.
pub(crate) fn compose(room_min: usize, write: impl FnOnce(&mut BytesMut)) -> Bytes {
    compose_and_send(room_min, write, |_| 0)
}

/// Runs `write` on a buffer of the worker and passes the result to `send`, which returns the number
/// of bytes sent; returns the others. If all are sent nothing is counted or copied.
pub(crate) fn compose_and_send(
    room_min: usize,
    write: impl FnOnce(&mut BytesMut),
    send: impl FnOnce(&[u8]) -> usize,
) -> Bytes {
    ROOM.with(|room| {
        let mut room = room.borrow_mut();
        // After a caught panic the buffer may contain a partial response.
        room.clear();
        if room.capacity() < room_min.max(512) {
            room.reserve(room_min.max(BLOCK));
        }
        write(&mut room);
        let gone = send(&room);
        if gone == room.len() {
            room.clear();
            return Bytes::new();
        }
        room.advance(gone);
        room.split().freeze()
    })
}

/// The value of the Date field.
pub(crate) fn date() -> [u8; 29] {
    let mut value = [0; 29];
    value.copy_from_slice(&date_line()[6..35]);
    value
}

/// The Date field with its end, made once a second (RFC 9110 6.6.1).
fn date_line() -> [u8; DATE_LINE] {
    DATE.with(|cell| {
        let now = net::clock::wall_secs();
        let (secs, line) = cell.get();
        if secs == now {
            return line;
        }
        let mut line = *b"Date: Sun, 06 Nov 1994 08:49:37 GMT\r\n";
        line[6..35].copy_from_slice(&wire::date::format_http_date(now));
        cell.set((now, line));
        line
    })
}

/// The head of a final response (or of a 101).
pub(crate) fn write(
    out: &mut BytesMut,
    response: &Response,
    framing: Framing,
    persistence: Persistence,
) {
    match &response.reason {
        None => put_status(out, response.status),
        Some(reason) => put_reason(out, response.status, reason),
    }
    let mut dated = false;
    response.headers.write_lines(out, |field| match field.known {
        Some(
            Known::Connection
            | Known::KeepAlive
            | Known::ProxyConnection
            | Known::TransferEncoding
            | Known::ContentLength,
        ) => false,
        Some(Known::Upgrade) => persistence == Persistence::Upgrade,
        // RFC 9110 6.6.2: it announces trailers, which only chunked content has.
        Some(Known::Trailer) => framing == Framing::Chunked,
        Some(Known::Date) => {
            dated = true;
            true
        }
        _ => true,
    });
    put_end(out, !dated, framing, persistence);
}

/// Most bytes of what [`put_end`] writes: a date, the longest length and the longest option.
const END_MAX: usize = 128;

/// The fields of the server itself and the end of a head, collected in a place of a known size: one
/// append to the buffer costs less than five.
fn put_end(out: &mut BytesMut, date: bool, framing: Framing, persistence: Persistence) {
    let mut end = [0; END_MAX];
    let mut free = end.as_mut_slice();
    if date {
        free.put_slice(&date_line());
    }
    match framing {
        Framing::Length(length) => {
            free.put_slice(b"Content-Length: ");
            free.put_slice(itoa::Buffer::new().format(length).as_bytes());
            free.put_slice(b"\r\n");
        }
        Framing::Chunked => free.put_slice(b"Transfer-Encoding: chunked\r\n"),
        Framing::None | Framing::Close => {}
    }
    match persistence {
        Persistence::Keep => free.put_slice(b"\r\n"),
        Persistence::KeepAloud => free.put_slice(b"Connection: keep-alive\r\n\r\n"),
        Persistence::Close => free.put_slice(b"Connection: close\r\n\r\n"),
        Persistence::Upgrade => free.put_slice(b"Connection: Upgrade\r\n\r\n"),
    }
    let unused = free.len();
    out.put_slice(&end[..END_MAX - unused]);
}

/// An interim response (RFC 9110 15.2): it has no content and no length (8.6), and does not end the
/// connection.
pub(crate) fn interim(status: u16, headers: &Headers) -> Bytes {
    compose(1024, |out| {
        put_status(out, status);
        headers.write_lines(out, |field| {
            !field.known.is_some_and(|known| known.is_hop_by_hop() || known == Known::ContentLength)
        });
        out.put_slice(b"\r\n");
    })
}

fn put_status(out: &mut BytesMut, status: u16) {
    match status_line(status) {
        Some(line) => out.put_slice(line),
        None => {
            let mut line = Vec::with_capacity(16);
            wire::h1::write_status_line(status, &mut line);
            out.put_slice(&line);
        }
    }
}

/// RFC 9112 4: a phrase has no control characters; a line break would end the status line.
#[cold]
fn put_reason(out: &mut BytesMut, status: u16, reason: &[u8]) {
    out.put_slice(b"HTTP/1.1 ");
    out.put_slice(itoa::Buffer::new().format(status).as_bytes());
    out.put_u8(b' ');
    out.extend(reason.iter().map(|byte| if byte.is_ascii_control() { b' ' } else { *byte }));
    out.put_slice(b"\r\n");
}

/// Returns how the content of `response` is delimited, and whether it is sent at all.
pub(crate) fn framing(response: &Response, to_head: bool, version: Version) -> (Framing, bool) {
    let length = response.body.length();
    match response.status {
        // RFC 9110 8.6: no Content-Length in these.
        100..=199 | 204 => (Framing::None, false),
        // RFC 9110 15.4.5: a 304 may say how long the 200 would be, where that is known.
        304 => (announced(&response.headers).map_or(Framing::None, Framing::Length), false),
        _ if to_head => {
            let announced = announced(&response.headers).or(length.filter(|length| *length > 0));
            (announced.map_or(Framing::None, Framing::Length), false)
        }
        _ => match (length, version) {
            (Some(length), _) => (Framing::Length(length), true),
            (None, Version::Http11 | Version::Http2) => (Framing::Chunked, true),
            (None, Version::Http10) => (Framing::Close, true),
        },
    }
}

fn announced(headers: &Headers) -> Option<u64> {
    headers.get(Known::ContentLength).and_then(wire::token::decimal)
}

#[cfg(test)]
mod tests {
    use super::*;
    use message::Body;

    fn text(response: &Response, framing: Framing, persistence: Persistence) -> String {
        let head = compose(64, |out| write(out, response, framing, persistence));
        String::from_utf8(head.to_vec()).unwrap()
    }

    #[test]
    fn a_phrase_of_a_handler_stays_on_its_line() {
        let mut response = Response::new(503);
        response.reason = Some(b"Gone\r\nx: fishing"[..].into());
        let head = text(&response, Framing::Length(0), Persistence::Keep);
        assert!(head.starts_with("HTTP/1.1 503 Gone  x: fishing\r\nDate: "), "{head}");
    }

    #[test]
    fn framing_fields_of_handlers_and_upstreams_are_replaced() {
        let mut response = Response::new(200);
        response.headers.append("Connection", "x-secret");
        response.headers.append("Transfer-Encoding", "gzip");
        response.headers.append("Content-Length", "999");
        response.headers.append("X-Kept", "1");
        let head = text(&response, Framing::Length(3), Persistence::Keep);
        assert!(head.starts_with("HTTP/1.1 200 OK\r\nX-Kept: 1\r\nDate: "), "{head}");
        assert!(head.ends_with("GMT\r\nContent-Length: 3\r\n\r\n"), "{head}");
    }

    #[test]
    fn bytes_of_a_writer_that_panics_are_discarded() {
        let panics = || {
            compose(64, |out| {
                out.put_slice(b"secret");
                panic!("a bug")
            })
        };
        assert!(std::panic::catch_unwind(panics).is_err());
        assert_eq!(compose(64, |out| out.put_slice(b"x")), "x");
    }

    #[test]
    fn an_interim_response_frames_nothing() {
        let mut headers = Headers::new();
        headers.append("Link", "</a>");
        headers.append("Content-Length", "0");
        headers.append("Connection", "close");
        headers.append("Transfer-Encoding", "chunked");
        assert_eq!(interim(103, &headers), "HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n");
    }

    #[test]
    fn a_given_date_is_kept() {
        let mut response = Response::new(204);
        response.headers.append("Date", "Sun, 06 Nov 1994 08:49:37 GMT");
        let head = text(&response, Framing::None, Persistence::Close);
        assert_eq!(head.matches("Date").count(), 1);
        assert!(head.ends_with("Connection: close\r\n\r\n"));
    }

    #[test]
    fn bodies_are_framed_by_status_method_and_version() {
        let mut response = Response::text(200, "abc");
        let http11 = Version::Http11;
        assert_eq!(framing(&response, false, http11), (Framing::Length(3), true));
        assert_eq!(framing(&response, true, http11), (Framing::Length(3), false));
        response.status = 204;
        assert_eq!(framing(&response, false, http11), (Framing::None, false));
        response.status = 304;
        assert_eq!(framing(&response, false, http11), (Framing::None, false));
        response.body = Body::Empty;
        response.status = 200;
        assert_eq!(framing(&response, false, http11), (Framing::Length(0), true));
        response.headers.append("Content-Length", "12");
        assert_eq!(framing(&response, true, http11), (Framing::Length(12), false));
    }
}
