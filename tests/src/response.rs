//! One HTTP/1 response, read as strictly as a careful client would (RFC 9112 section 6.3).
//!
//! Promises to take exactly the bytes of the response from the connection, or to panic with what
//! is wrong with it. Shares no line with the codec under test.

use crate::Connection;

#[derive(Debug)]
pub struct HttpResponse {
    pub version: String,
    pub status: u16,
    pub reason: String,
    /// As they came: order, case and repeats.
    pub headers: Vec<(String, String)>,
    /// Without chunk framing.
    pub body: Vec<u8>,
    pub trailers: Vec<(String, String)>,
    /// The bytes as they came, framing included.
    pub bytes: Vec<u8>,
}

impl HttpResponse {
    pub(crate) fn read(connection: &mut Connection, to_head: bool) -> Self {
        let head = connection.read_until("\r\n\r\n");
        let text = String::from_utf8(head.clone()).expect("a head in ASCII");
        let (line, fields) = text.split_once("\r\n").expect("a status line");
        let mut words = line.splitn(3, ' ');
        let version = words.next().unwrap_or_default().to_owned();
        let status = words.next().and_then(|word| word.parse().ok());
        let status = status.unwrap_or_else(|| panic!("not a status line: {line:?}"));
        let reason = words.next().unwrap_or_default().to_owned();
        let headers = parse_fields(fields);
        let (body, trailers) = (Vec::new(), Vec::new());
        let mut response = Self { version, status, reason, headers, body, trailers, bytes: head };
        response.read_body(connection, to_head);
        response
    }

    fn read_body(&mut self, connection: &mut Connection, to_head: bool) {
        if to_head || matches!(self.status, 100..=199 | 204 | 304) {
            return;
        }
        let codings = self.all("transfer-encoding");
        let lengths = self.all("content-length");
        if !codings.is_empty() {
            assert_eq!(codings, ["chunked"], "{self:?}");
            assert!(lengths.is_empty(), "both framings: {self:?}");
            self.read_chunks(connection);
        } else if !lengths.is_empty() {
            assert_eq!(lengths.len(), 1, "{self:?}");
            let length = lengths[0].parse().unwrap_or_else(|_| panic!("bad length: {self:?}"));
            self.body = connection.read_exactly(length);
            self.bytes.extend_from_slice(&self.body);
        } else {
            self.body = connection.read_to_end();
            self.bytes.extend_from_slice(&self.body);
        }
    }

    fn read_chunks(&mut self, connection: &mut Connection) {
        loop {
            let line = connection.read_until("\r\n");
            self.bytes.extend_from_slice(&line);
            let line = String::from_utf8_lossy(&line).trim_end().to_owned();
            let digits = line.split(';').next().unwrap_or_default();
            let size = usize::from_str_radix(digits, 16)
                .unwrap_or_else(|_| panic!("not a chunk size: {line:?} in {self:?}"));
            if size == 0 {
                break;
            }
            let chunk = connection.read_exactly(size);
            connection.expect("\r\n");
            self.bytes.extend_from_slice(&chunk);
            self.bytes.extend_from_slice(b"\r\n");
            self.body.extend_from_slice(&chunk);
        }
        let mut fields = String::new();
        loop {
            let line = connection.read_until("\r\n");
            self.bytes.extend_from_slice(&line);
            fields.push_str(&String::from_utf8_lossy(&line));
            if line == b"\r\n" {
                break;
            }
        }
        self.trailers = parse_fields(&fields);
    }

    /// The value of the header `name`, which must not be repeated.
    pub fn header(&self, name: &str) -> Option<&str> {
        let values = self.all(name);
        assert!(values.len() < 2, "{name} is repeated: {self:?}");
        values.first().copied()
    }

    /// Every value of the header `name`, in order.
    pub fn all(&self, name: &str) -> Vec<&str> {
        let same = self.headers.iter().filter(|(other, _)| other.eq_ignore_ascii_case(name));
        same.map(|(_, value)| value.as_str()).collect()
    }

    /// The body as text.
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }
}

/// Field lines up to the blank one.
fn parse_fields(lines: &str) -> Vec<(String, String)> {
    lines
        .split("\r\n")
        .take_while(|line| !line.is_empty())
        .map(|line| {
            let (name, value) =
                line.split_once(':').unwrap_or_else(|| panic!("not a field: {line:?}"));
            (name.to_owned(), value.trim_matches([' ', '\t']).to_owned())
        })
        .collect()
}
