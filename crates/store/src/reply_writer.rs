//! Writes replies in the protocol version of the connection.
//!
//! RESP3 has types for bytes, text, numbers and null; RESP2 has bytes for all of them. Small
//! replies are appended to a buffer; a large value is sent without a copy.

use bytes::Bytes;
use net::Outgoing;
use wire::resp;

use crate::limits::{REUSED_BUFFER_BYTES, SHARED_VALUE_BYTES};
use crate::subscriber_queue::Message;
use crate::value::Value;

#[derive(Debug)]
pub(crate) struct ReplyWriter {
    /// The client has switched to RESP3.
    pub(crate) resp3: bool,
    /// Values of at least this length are not copied.
    share_from: usize,
    /// Sent before `small`.
    large: Outgoing,
    small: Vec<u8>,
}

impl ReplyWriter {
    /// A writer for a connection.
    pub(crate) fn new() -> ReplyWriter {
        let (large, small) = (Outgoing::default(), Vec::new());
        ReplyWriter { resp3: false, share_from: SHARED_VALUE_BYTES, large, small }
    }

    /// A writer for a caller in this process: one contiguous buffer, RESP3.
    pub(crate) fn in_process() -> ReplyWriter {
        ReplyWriter { resp3: true, share_from: usize::MAX, ..ReplyWriter::new() }
    }

    pub(crate) fn length(&self) -> usize {
        usize::try_from(self.large.length()).unwrap_or(usize::MAX).saturating_add(self.small.len())
    }

    /// The unsent bytes if they are contiguous.
    pub(crate) fn contiguous(&self) -> Option<&[u8]> {
        self.large.is_empty().then_some(&self.small)
    }

    /// Removes `sent` bytes from the front of [`ReplyWriter::contiguous`].
    pub(crate) fn consume(&mut self, sent: usize) {
        if sent == self.small.len() && self.small.capacity() <= REUSED_BUFFER_BYTES {
            self.small.clear();
        } else {
            self.small = self.small.split_off(sent);
        }
    }

    /// All unsent bytes.
    pub(crate) fn outgoing(&mut self) -> &mut Outgoing {
        if !self.small.is_empty() {
            self.large.push(Bytes::from(std::mem::take(&mut self.small)));
        }
        &mut self.large
    }

    pub(crate) fn ok(&mut self) {
        resp::simple_string(b"OK", &mut self.small);
    }

    pub(crate) fn simple(&mut self, text: &str) {
        resp::simple_string(text.as_bytes(), &mut self.small);
    }

    /// The text must not contain a line end.
    pub(crate) fn error(&mut self, text: &str) {
        resp::error(text.as_bytes(), &mut self.small);
    }

    pub(crate) fn integer(&mut self, number: i64) {
        resp::integer(number, &mut self.small);
    }

    pub(crate) fn count(&mut self, count: usize) {
        self.integer(i64::try_from(count).unwrap_or(i64::MAX));
    }

    pub(crate) fn bulk(&mut self, bytes: &[u8]) {
        resp::bulk(bytes, &mut self.small);
    }

    pub(crate) fn nil(&mut self) {
        if self.resp3 {
            resp::null(&mut self.small);
        } else {
            resp::null_bulk(&mut self.small);
        }
    }

    pub(crate) fn array(&mut self, length: usize) {
        resp::array_head(length, &mut self.small);
    }

    pub(crate) fn push(&mut self, length: usize) {
        if self.resp3 {
            resp::push_head(length, &mut self.small);
        } else {
            self.array(length);
        }
    }

    pub(crate) fn map(&mut self, pairs: usize) {
        if self.resp3 {
            resp::map_head(pairs, &mut self.small);
        } else {
            self.array(2 * pairs);
        }
    }

    pub(crate) fn value(&mut self, value: &Value) {
        match value {
            Value::Integer(number) if self.resp3 => self.integer(*number),
            Value::Integer(number) => {
                let text = number.to_string();
                self.bulk(text.as_bytes());
            }
            Value::Text(text) => self.payload(text, true),
            Value::Bytes(bytes) => self.payload(bytes, false),
        }
    }

    pub(crate) fn message(&mut self, message: &Message) {
        self.push(3);
        self.bulk(b"message");
        self.bulk(&message.channel);
        self.payload(&message.payload, message.text);
    }

    fn payload(&mut self, bytes: &Bytes, text: bool) {
        let verbatim = text && self.resp3;
        if bytes.len() < self.share_from {
            let write = if verbatim { resp::verbatim } else { resp::bulk };
            return write(bytes, &mut self.small);
        }
        let (kind, more) = if verbatim { ('=', "txt:") } else { ('$', "") };
        let prefix = format!("{kind}{}\r\n{more}", bytes.len() + more.len());
        self.small.extend_from_slice(prefix.as_bytes());
        self.outgoing().push(bytes.clone());
        self.small.extend_from_slice(b"\r\n");
    }
}

#[cfg(test)]
mod tests {
    use super::ReplyWriter;
    use crate::limits::SHARED_VALUE_BYTES;
    use crate::subscriber_queue::Message;
    use crate::value::Value;
    use bytes::Bytes;

    fn written(resp3: bool, write: impl FnOnce(&mut ReplyWriter)) -> String {
        let mut out = ReplyWriter { resp3, ..ReplyWriter::in_process() };
        write(&mut out);
        String::from_utf8(out.contiguous().unwrap().to_vec()).unwrap()
    }

    #[test]
    fn each_version_has_its_forms() {
        let text = Value::Text(Bytes::from_static(b"hi"));
        let all = |out: &mut ReplyWriter| {
            out.value(&text);
            out.value(&Value::Bytes(Bytes::from_static(b"b")));
            out.value(&Value::Integer(-5));
            out.nil();
        };
        assert_eq!(written(false, all), "$2\r\nhi\r\n$1\r\nb\r\n$2\r\n-5\r\n$-1\r\n");
        assert_eq!(written(true, all), "=6\r\ntxt:hi\r\n$1\r\nb\r\n:-5\r\n_\r\n");
        let (channel, payload) = (Bytes::from_static(b"c"), Bytes::from_static(b"m"));
        let message = Message { channel, payload, text: true };
        let expected = "$7\r\nmessage\r\n$1\r\nc\r\n";
        let found = written(false, |out| out.message(&message));
        assert_eq!(found, format!("*3\r\n{expected}$1\r\nm\r\n"));
        let found = written(true, |out| out.message(&message));
        assert_eq!(found, format!(">3\r\n{expected}=5\r\ntxt:m\r\n"));
        assert_eq!(written(true, |out| out.map(1)), "%1\r\n");
        assert_eq!(written(false, |out| out.map(1)), "*2\r\n");
    }

    #[test]
    fn large_values_are_not_copied_and_stay_in_order() {
        let mut out = ReplyWriter::new();
        out.ok();
        out.value(&Value::Bytes(Bytes::from(vec![b'x'; SHARED_VALUE_BYTES])));
        out.ok();
        let head = format!("+OK\r\n${SHARED_VALUE_BYTES}\r\n");
        let length = head.len() + SHARED_VALUE_BYTES + "\r\n+OK\r\n".len();
        assert_eq!(out.length(), length);
        assert!(out.contiguous().is_none());
        assert_eq!(out.outgoing().length(), length as u64);
    }
}
