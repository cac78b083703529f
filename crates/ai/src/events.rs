//! Reads a stream of server-sent events (HTML, 9.2.6) while it passes.
//!
//! Promises that the events of a stream are the same however its bytes are divided, and that at
//! most one event is held back, of at most [`EVENT_BYTES_MAX`]; a longer one passes as it arrives.
//! Lines that end with a carriage return alone are not divided: no provider sends them.

use bytes::Bytes;
use json_filters::tree::{self, Json};

use crate::usage::{Usage, UsageScanner};

/// The longest event that is held back.
pub(crate) const EVENT_BYTES_MAX: usize = 64 * 1024;

const DATA: &[u8] = b"data:";

/// Finds the ends of events and the usage in their data.
#[derive(Debug, Default)]
struct EventScanner {
    /// Bytes of the current line so far.
    line_bytes: usize,
    /// The current line has begun like one with data.
    is_data: bool,
    /// The current line has a carriage return and nothing else.
    is_blank: bool,
    /// The current event has data.
    has_data: bool,
    scanner: UsageScanner,
}

/// The end of an event.
#[derive(Clone, Copy, Debug)]
struct EventEnd {
    /// The bytes of the input up to its end.
    at: usize,
    has_data: bool,
    usage: Option<Usage>,
}

impl EventScanner {
    /// Reads up to the end of an event.
    fn next(&mut self, bytes: &[u8]) -> Option<EventEnd> {
        let mut at = 0;
        while at < bytes.len() {
            let rest = &bytes[at..];
            let line_end = memchr::memchr(b'\n', rest);
            self.line(&rest[..line_end.unwrap_or(rest.len())]);
            at += line_end.map_or(rest.len(), |end| end + 1);
            if line_end.is_some() && self.end_line() {
                let end = EventEnd { at, has_data: self.has_data, usage: self.scanner.usage() };
                self.has_data = false;
                self.scanner.reset();
                return Some(end);
            }
        }
        None
    }

    /// Reads a part of a line.
    fn line(&mut self, mut part: &[u8]) {
        while self.line_bytes < DATA.len() {
            let Some((byte, rest)) = part.split_first() else { return };
            self.is_blank = self.line_bytes == 0 && *byte == b'\r';
            self.is_data = (self.is_data || self.line_bytes == 0) && *byte == DATA[self.line_bytes];
            self.line_bytes += 1;
            part = rest;
        }
        if self.is_data {
            self.has_data = true;
            self.scanner.feed(part);
        }
    }

    /// Ends a line; true if it ends an event.
    fn end_line(&mut self) -> bool {
        let is_end = self.line_bytes == 0 || self.line_bytes == 1 && self.is_blank;
        (self.line_bytes, self.is_data, self.is_blank) = (0, false, false);
        is_end
    }
}

/// A stream of events on its way to the client.
#[derive(Debug, Default)]
pub struct EventStream {
    scanner: EventScanner,
    /// Events that only report the usage do not pass: the client has not asked for them.
    removes_usage: bool,
    /// The beginning of an event, if it is held back.
    held: Vec<u8>,
    /// A part of the current event has passed, because it is too long to be held back.
    is_long: bool,
    usage: Option<Usage>,
    /// Events with data.
    events: u32,
}

impl EventStream {
    pub fn new(removes_usage: bool) -> EventStream {
        EventStream { removes_usage, ..EventStream::default() }
    }

    /// The latest usage.
    pub fn usage(&self) -> Option<Usage> {
        self.usage
    }

    /// The number of events with data.
    pub fn events(&self) -> u32 {
        self.events
    }

    /// True if bytes may be removed.
    pub(crate) fn changes_length(&self) -> bool {
        self.removes_usage
    }

    /// Reads bytes. Returns those that pass now, perhaps none.
    pub fn pass(&mut self, data: Bytes) -> Bytes {
        if !self.removes_usage {
            let mut at = 0;
            while let Some(end) = self.scanner.next(&data[at..]) {
                self.count(end);
                at += end.at;
            }
            return data;
        }
        let mut passed = Vec::with_capacity(self.held.len() + data.len());
        let (mut begin, mut at) = (0, self.held.len());
        self.held.extend_from_slice(&data);
        while let Some(end) = self.scanner.next(&self.held[at..]) {
            self.count(end);
            at += end.at;
            let event = &self.held[begin..at];
            if self.is_long || end.usage.is_none() || !has_no_choices(event) {
                passed.extend_from_slice(event);
            }
            self.is_long = false;
            begin = at;
        }
        let rest = &self.held[begin..];
        if self.is_long || rest.len() > EVENT_BYTES_MAX {
            self.is_long = true;
            passed.extend_from_slice(rest);
            begin = self.held.len();
        }
        self.held.drain(..begin);
        Bytes::from(passed)
    }

    /// The bytes that were held back at the end of the stream.
    pub fn finish(&mut self) -> Bytes {
        Bytes::from(std::mem::take(&mut self.held))
    }

    fn count(&mut self, end: EventEnd) {
        self.events = self.events.saturating_add(u32::from(end.has_data));
        self.usage = end.usage.or(self.usage);
    }
}

/// True if the data of an event is a chunk that no choice of the response is in.
fn has_no_choices(event: &[u8]) -> bool {
    let lines = event.split(|byte| *byte == b'\n');
    let data: Vec<&[u8]> = lines.filter_map(|line| line.strip_prefix(DATA)).collect();
    let data = data.join(&b'\n');
    let Ok(Json::Object(members)) = tree::parse(&data) else { return false };
    let choices = members.iter().find(|(name, _)| name == "choices");
    choices.is_some_and(|(_, choices)| matches!(choices, Json::Array(list) if list.is_empty()))
}

#[cfg(test)]
mod tests {
    use super::{EVENT_BYTES_MAX, EventStream};
    use crate::usage::Usage;
    use bytes::Bytes;

    /// What passes of a stream that arrives in pieces of this size, its usage and its events.
    fn pass(text: &str, size: usize, removes: bool) -> (String, Option<Usage>, u32) {
        let mut stream = EventStream::new(removes);
        let mut passed = Vec::new();
        for piece in text.as_bytes().chunks(size) {
            passed.extend_from_slice(&stream.pass(Bytes::copy_from_slice(piece)));
        }
        passed.extend_from_slice(&stream.finish());
        (String::from_utf8(passed).unwrap(), stream.usage(), stream.events())
    }

    const CHUNK: &str = r#"data: {"choices":[{"delta":{"content":"a\n\n"}}],"usage":null}"#;
    const REPORT: &str =
        r#"data: {"choices":[],"usage":{"prompt_tokens":3,"completion_tokens":4}}"#;
    const DONE: &str = "data: [DONE]";

    fn stream(events: &[&str], line: &str) -> String {
        events.iter().map(|event| format!("{event}{line}{line}")).collect()
    }

    #[test]
    fn only_the_event_that_reports_the_usage_is_removed() {
        let expected = Some(Usage { input: 3, output: 4 });
        for line in ["\n", "\r\n"] {
            let whole = stream(&[CHUNK, ": ping", CHUNK, REPORT, DONE], line);
            let without = stream(&[CHUNK, ": ping", CHUNK, DONE], line);
            for size in 1..whole.len() + 1 {
                assert_eq!(pass(&whole, size, true), (without.clone(), expected, 4), "{size}");
                assert_eq!(pass(&whole, size, false), (whole.clone(), expected, 4), "{size}");
            }
        }
    }

    #[test]
    fn a_usage_next_to_a_choice_stays() {
        let last = r#"data:{"choices":[{"finish_reason":"stop"}],"usage":{"prompt_tokens":5}}"#;
        let text = stream(&[CHUNK, last], "\n");
        let usage = Some(Usage { input: 5, output: 0 });
        assert_eq!(pass(&text, 7, true), (text.clone(), usage, 2));
        let odd = "data: {\"usage\":{\"prompt_tokens\":5}}\n\ndata: {\n\n";
        assert_eq!(pass(odd, 7, true).0, odd);
    }

    #[test]
    fn data_of_several_lines_and_other_fields_are_read() {
        let text = "event: response.completed\nid: 1\ndata: {\"response\":\ndata: {\"usage\":\n\
                    data:{\"input_tokens\":1,\"output_tokens\":2}}}\n\n\
                    database: {\"usage\":{\"input_tokens\":9}}\n\n";
        let usage = Some(Usage { input: 1, output: 2 });
        for size in [1, 5, 1000] {
            assert_eq!(pass(text, size, false), (text.to_owned(), usage, 1));
        }
    }

    #[test]
    fn a_long_event_passes_and_a_cut_one_too() {
        let long = format!("data: {}", "x".repeat(EVENT_BYTES_MAX));
        let text = stream(&[CHUNK, &long, REPORT, DONE], "\n");
        let without = stream(&[CHUNK, &long, DONE], "\n");
        for size in [1, 1000, text.len()] {
            assert_eq!(pass(&text, size, true).0, without);
        }
        let mut held = EventStream::new(true);
        for _ in 0..100 {
            held.pass(Bytes::from(vec![b'x'; 4096]));
            assert!(held.held.len() <= EVENT_BYTES_MAX);
        }
        let cut = &text[..CHUNK.len() + 20];
        assert_eq!(pass(cut, 3, true).0, cut);
    }
}
