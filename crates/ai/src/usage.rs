//! The tokens that a response reports, found while its bytes pass.
//!
//! The scanner stores at most the member `usage` itself, whatever the length of a response, and
//! never fails: bytes that are not JSON have no usage. Its result does not depend on how the bytes
//! are divided.

use serde_json::Value;

/// The longest `usage` that is read.
const USAGE_BYTES_MAX: usize = 4096;
/// The longest name of a member that matters.
const NAME_BYTES_MAX: usize = 8;

/// Tokens of a request and its response.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    pub input: u32,
    pub output: u32,
}

impl Usage {
    /// Reads a value of `usage`, as chat completions, responses or embeddings have it. A number
    /// above the range counts as its end.
    pub(crate) fn read(text: &[u8]) -> Option<Usage> {
        let usage: Value = serde_json::from_slice(text).ok()?;
        let tokens = |names: [&str; 2]| {
            let number = names.iter().find_map(|name| usage.get(name))?.as_u64()?;
            Some(u32::try_from(number).unwrap_or(u32::MAX))
        };
        let input = tokens(["prompt_tokens", "input_tokens"]);
        let output = tokens(["completion_tokens", "output_tokens"]);
        if input.is_none() && output.is_none() {
            return None;
        }
        Some(Usage { input: input.unwrap_or(0), output: output.unwrap_or(0) })
    }
}

/// Finds the member `usage` of an object, and that of its member `response`.
#[derive(Debug, Default)]
pub struct UsageScanner {
    /// Open objects and arrays.
    depth: usize,
    /// True if the outermost value is an object.
    is_object: bool,
    /// True if the value below it is the object `response`.
    is_response: bool,
    in_string: bool,
    is_escaped: bool,
    /// The next string is the name of a member that may matter.
    expects_name: bool,
    /// The latest of these names, cut behind the longest that matters.
    name: Vec<u8>,
    /// The value of `usage` so far, and the depth around it.
    captured: Option<(Vec<u8>, usize)>,
    usage: Option<Usage>,
}

impl UsageScanner {
    /// The latest usage that was complete.
    pub fn usage(&self) -> Option<Usage> {
        self.usage
    }

    /// Forgets everything: another document begins.
    pub(crate) fn reset(&mut self) {
        self.name.clear();
        *self = UsageScanner { name: std::mem::take(&mut self.name), ..UsageScanner::default() };
    }

    pub fn feed(&mut self, bytes: &[u8]) {
        let mut rest = bytes;
        while !rest.is_empty() {
            // Most bytes are in strings: those that mean nothing are skipped together.
            if self.in_string && !self.is_escaped && !self.expects_name {
                let end = memchr::memchr2(b'"', b'\\', rest).unwrap_or(rest.len());
                self.capture(&rest[..end]);
                rest = &rest[end..];
            }
            let Some((byte, after)) = rest.split_first() else { return };
            self.capture(&[*byte]);
            match self.in_string {
                true => self.step_in_string(*byte),
                false => self.step(*byte),
            }
            rest = after;
        }
    }

    fn capture(&mut self, bytes: &[u8]) {
        let Some((captured, _)) = &mut self.captured else { return };
        // A text that is cut here lacks its end and cannot be read.
        let room = USAGE_BYTES_MAX - captured.len();
        captured.extend_from_slice(&bytes[..bytes.len().min(room)]);
    }

    fn step_in_string(&mut self, byte: u8) {
        if byte == b'"' && !self.is_escaped {
            self.in_string = false;
            return;
        }
        self.is_escaped = byte == b'\\' && !self.is_escaped;
        if self.expects_name && self.name.len() <= NAME_BYTES_MAX {
            self.name.push(byte);
        }
    }

    fn step(&mut self, byte: u8) {
        match byte {
            b'"' => {
                self.in_string = true;
                if self.expects_name {
                    self.name.clear();
                }
            }
            b':' => self.expects_name = false,
            b',' => self.expects_name = self.may_matter(),
            b'{' | b'[' => self.open(byte),
            b'}' | b']' => self.close(),
            _ => {}
        }
    }

    /// True if the innermost value is an object whose member `usage` matters.
    fn may_matter(&self) -> bool {
        let is_on_path = match self.depth {
            1 => self.is_object,
            2 => self.is_object && self.is_response,
            _ => false,
        };
        is_on_path && self.captured.is_none()
    }

    fn open(&mut self, byte: u8) {
        let is_object = byte == b'{';
        let has_name = self.may_matter() && !self.expects_name && is_object;
        match self.depth {
            0 => self.is_object = is_object,
            1 => self.is_response = has_name && self.name == b"response",
            _ => {}
        }
        if has_name && self.name == b"usage" {
            self.captured = Some((vec![byte], self.depth));
        }
        self.depth += 1;
        self.expects_name = is_object && self.may_matter();
    }

    fn close(&mut self) {
        self.depth = self.depth.saturating_sub(1);
        self.expects_name = false;
        if self.captured.as_ref().is_some_and(|(_, depth)| *depth == self.depth)
            && let Some((text, _)) = self.captured.take()
        {
            self.usage = Usage::read(&text).or(self.usage);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Usage, UsageScanner};

    fn scan(text: &str) -> Option<Usage> {
        let mut whole = UsageScanner::default();
        whole.feed(text.as_bytes());
        let mut bytewise = UsageScanner::default();
        text.bytes().for_each(|byte| bytewise.feed(&[byte]));
        assert_eq!(whole.usage(), bytewise.usage(), "{text}");
        whole.usage()
    }

    fn tokens(input: u32, output: u32) -> Option<Usage> {
        Some(Usage { input, output })
    }

    #[test]
    fn each_api_reports_its_usage() {
        for (text, expected) in [
            // Chat completions, with a response that quotes a usage.
            (
                r#"{"id":"a","choices":[{"message":{"content":"\"usage\":{\"prompt_tokens\":9}"}}],
                   "usage":{"prompt_tokens":19,"completion_tokens":10,"total_tokens":29,
                   "prompt_tokens_details":{"cached_tokens":3}},"service_tier":"default"}"#,
                tokens(19, 10),
            ),
            // Embeddings.
            (r#"{"data":[{}],"usage":{"prompt_tokens":8,"total_tokens":8}}"#, tokens(8, 0)),
            // Responses, whole and as the last event of a stream.
            (r#"{"usage": {"input_tokens":36, "output_tokens":87}}"#, tokens(36, 87)),
            (
                r#"{"type":"response.completed","response":{"tools":[{"usage":{"input_tokens":5}}],
                   "usage":{"input_tokens":1,"output_tokens":2}}}"#,
                tokens(1, 2),
            ),
            // The latest of several, and a number out of range.
            (
                r#"{"usage":{"prompt_tokens":1},"x":1,"usage":{"prompt_tokens":99999999999}}"#,
                tokens(u32::MAX, 0),
            ),
        ] {
            assert_eq!(scan(text), expected, "{text}");
        }
    }

    #[test]
    fn other_members_are_not_usage() {
        for text in [
            "",
            "{}",
            r#"{"usage":null}"#,
            r#"{"usage":{"prompt_tokens":-1,"completion_tokens":"2"}}"#,
            r#"{"usage":[{"prompt_tokens":1}]}"#,
            r#"[{"usage":{"prompt_tokens":1}}]"#,
            r#"{"a":{"usage":{"prompt_tokens":1}}}"#,
            r#"{"a":{"response":{"usage":{"prompt_tokens":1}}}}"#,
            r#"{"response":[{"usage":{"prompt_tokens":1}}]}"#,
            r#"{"usages":{"prompt_tokens":1},"xusage":{"prompt_tokens":1}}"#,
            r#"{"usage":{"prompt_tokens":1"#,
            r#""usage":{"prompt_tokens":1}"#,
            r#"{"a":"\",\"usage\":{\"prompt_tokens\":1}"}"#,
        ] {
            assert_eq!(scan(text), None, "{text}");
        }
        let long = format!(r#"{{"usage":{{"x":"{}","prompt_tokens":1}}}}"#, "x".repeat(5000));
        assert_eq!(scan(&long), None);
        let after = format!(r#"{},"usage":{{"prompt_tokens":2}}}}"#, &long[..long.len() - 1]);
        assert_eq!(scan(&after), tokens(2, 0));
    }
}
