//! A stream of the Messages API as one of chat completions.
//!
//! Promises that each event passes as soon as it is whole, that a stream which breaks off breaks
//! off for the client too, and that an event of more than [`EVENT_BYTES_MAX`] ends it.

use std::task::{Context, Poll, ready};

use bytes::Bytes;
use message::{Body, BodyStream, Fault, FaultKind, Frame};
use serde_json::{Value, json};

use super::finish_reason;
use super::response::{error_json, usage, usage_json};

/// The longest event that is translated.
pub(crate) const EVENT_BYTES_MAX: usize = 1024 * 1024;

/// The body of a stream.
pub(crate) struct TranslatedStream {
    /// `None` once it has ended.
    source: Option<Body>,
    translator: Translator,
}

impl TranslatedStream {
    /// The body of chat completions from one of the Messages API.
    pub(crate) fn body(source: Body, created_s: u64) -> Body {
        let translator = Translator { created_s, ..Translator::default() };
        Body::stream(TranslatedStream { source: Some(source), translator })
    }
}

impl BodyStream for TranslatedStream {
    fn poll_frame(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Frame, Fault>>> {
        loop {
            let Some(source) = &mut self.source else { return Poll::Ready(None) };
            let result = match ready!(source.poll_frame(cx)) {
                Some(Ok(Frame::Data(data))) => self.translator.translate(&data),
                Some(Ok(Frame::File(_) | Frame::Trailers(_))) => continue,
                Some(Err(fault)) => Err(fault),
                None if self.translator.is_over => {
                    self.source = None;
                    continue;
                }
                None => {
                    let detail = "the stream ended before message_stop";
                    Err(Fault::new(FaultKind::ResponseIncomplete, detail))
                }
            };
            match result {
                Ok(chunks) if chunks.is_empty() => {}
                Ok(chunks) => return Poll::Ready(Some(Ok(Frame::Data(Bytes::from(chunks))))),
                Err(fault) => {
                    self.source = None;
                    return Poll::Ready(Some(Err(fault)));
                }
            }
        }
    }

    fn length(&self) -> Option<u64> {
        None
    }
}

/// Translates events.
#[derive(Debug, Default)]
pub(crate) struct Translator {
    created_s: u64,
    id: Value,
    model: Value,
    usage: (u64, u64),
    /// Tool calls so far; the latest one is still open.
    calls: u32,
    /// The last event has passed.
    is_over: bool,
    /// The beginning of an event.
    received: Vec<u8>,
    /// Where the last line of the received bytes begins.
    line_begin: usize,
    /// The received bytes in which the ends of lines were searched.
    searched: usize,
}

impl Translator {
    /// Receives bytes; returns the chunks of the events that are whole now.
    fn translate(&mut self, data: &[u8]) -> Result<String, Fault> {
        let mut received = std::mem::take(&mut self.received);
        received.extend_from_slice(data);
        let mut chunks = String::new();
        let (mut begin, mut line, mut at) = (0, self.line_begin, self.searched);
        while let Some(end) = memchr::memchr(b'\n', &received[at..]).map(|end| at + end) {
            let is_end = matches!(&received[line..end], b"" | b"\r");
            (at, line) = (end + 1, end + 1);
            if is_end {
                self.event(&received[begin..at], &mut chunks)?;
                begin = at;
            }
        }
        received.drain(..begin);
        self.line_begin = line - begin;
        self.searched = received.len();
        self.received = received;
        if self.searched > EVENT_BYTES_MAX {
            let detail = format!("an event has more than {EVENT_BYTES_MAX} bytes");
            return Err(Fault::new(FaultKind::ResponseBodySize, detail));
        }
        Ok(chunks)
    }

    fn event(&mut self, event: &[u8], chunks: &mut String) -> Result<(), Fault> {
        let lines = event.split(|byte| *byte == b'\n');
        let data: Vec<&[u8]> = lines.filter_map(|line| line.strip_prefix(b"data:")).collect();
        if data.is_empty() || self.is_over {
            return Ok(());
        }
        let malformed =
            |_| Fault::new(FaultKind::ProtocolError, "an event of a stream is not JSON");
        let event: Value = serde_json::from_slice(&data.join(&b'\n')).map_err(malformed)?;
        match event["type"].as_str().unwrap_or_default() {
            "message_start" => {
                let message = &event["message"];
                (self.id, self.model) = (message["id"].clone(), message["model"].clone());
                self.usage = usage(&message["usage"]);
                self.delta(json!({ "role": "assistant", "content": "" }), chunks);
            }
            "content_block_start" if event["content_block"]["type"] == "tool_use" => {
                let block = &event["content_block"];
                self.calls = self.calls.saturating_add(1);
                let function = json!({ "name": block["name"], "arguments": "" });
                let call = json!({ "id": block["id"], "type": "function", "function": function });
                self.call(call, chunks);
            }
            "content_block_delta" => self.content(&event["delta"], chunks),
            "message_delta" => {
                let (input, output) = usage(&event["usage"]);
                // The final counts; the input is repeated by newer versions only.
                self.usage = (self.usage.0.max(input), self.usage.1.max(output));
                let reason = event["delta"]["stop_reason"].as_str().map(finish_reason);
                let choice = json!({ "index": 0, "delta": {}, "finish_reason": reason });
                self.chunk(json!([choice]), None, chunks);
            }
            "message_stop" => {
                self.is_over = true;
                self.chunk(json!([]), Some(usage_json(self.usage)), chunks);
                chunks.push_str("data: [DONE]\n\n");
            }
            "error" => {
                self.is_over = true;
                push(&error_json(&event["error"]), chunks);
            }
            // `ping`, the ends of blocks, and events of later versions.
            _ => {}
        }
        Ok(())
    }

    fn content(&self, delta: &Value, chunks: &mut String) {
        match delta["type"].as_str().unwrap_or_default() {
            "text_delta" => self.delta(json!({ "content": delta["text"] }), chunks),
            "input_json_delta" => {
                let function = json!({ "arguments": delta["partial_json"] });
                self.call(json!({ "function": function }), chunks);
            }
            // Chat completions have no thoughts.
            _ => {}
        }
    }

    /// Writes a part of the latest tool call.
    fn call(&self, mut call: Value, chunks: &mut String) {
        call["index"] = self.calls.saturating_sub(1).into();
        self.delta(json!({ "tool_calls": [call] }), chunks);
    }

    fn delta(&self, delta: Value, chunks: &mut String) {
        let choice = json!({ "index": 0, "delta": delta, "finish_reason": null });
        self.chunk(json!([choice]), None, chunks);
    }

    fn chunk(&self, choices: Value, usage: Option<Value>, chunks: &mut String) {
        let mut chunk = json!({
            "id": self.id,
            "object": "chat.completion.chunk",
            "created": self.created_s,
            "model": self.model,
            "choices": choices,
        });
        if let Some(usage) = usage {
            chunk["usage"] = usage;
        }
        push(&chunk, chunks);
    }
}

fn push(data: &Value, chunks: &mut String) {
    chunks.push_str("data: ");
    chunks.push_str(&data.to_string());
    chunks.push_str("\n\n");
}

#[cfg(test)]
mod tests {
    use super::{EVENT_BYTES_MAX, Translator};
    use message::FaultKind;
    use serde_json::{Value, json};

    const STREAM: &str = concat!(
        "event: message_start\n",
        r#"data: {"type":"message_start","message":{"id":"msg_1","model":"claude-x","#,
        r#""usage":{"input_tokens":25,"output_tokens":1}}}"#,
        "\n\nevent: content_block_start\n",
        r#"data: {"type":"content_block_start","index":0,"content_block":"#,
        r#"{"type":"text","text":""}}"#,
        "\n\nevent: ping\ndata: {\"type\": \"ping\"}\n\nevent: content_block_delta\n",
        r#"data: {"type":"content_block_delta","index":0,"delta":"#,
        r#"{"type":"text_delta","text":"Hello"}}"#,
        "\n\nevent: content_block_stop\n",
        r#"data: {"type":"content_block_stop","index":0}"#,
        "\n\nevent: content_block_start\n",
        r#"data: {"type":"content_block_start","index":1,"content_block":"#,
        r#"{"type":"tool_use","id":"t1","name":"f","input":{}}}"#,
        "\n\nevent: content_block_delta\n",
        r#"data: {"type":"content_block_delta","index":1,"delta":"#,
        r#"{"type":"input_json_delta","partial_json":"{\"a\""}}"#,
        "\n\nevent: content_block_delta\n",
        r#"data: {"type":"content_block_delta","index":1,"delta":"#,
        r#"{"type":"input_json_delta","partial_json":":1}"}}"#,
        "\n\nevent: message_delta\n",
        r#"data: {"type":"message_delta","delta":{"stop_reason":"tool_use"},"#,
        r#""usage":{"output_tokens":15}}"#,
        "\n\nevent: message_stop\ndata: {\"type\":\"message_stop\"}\n\n",
    );

    /// The data of the chunks of a stream that arrives in pieces of this size.
    fn chunks(stream: &str, size: usize) -> Vec<String> {
        let mut translator = Translator { created_s: 7, ..Translator::default() };
        let mut chunks = String::new();
        for piece in stream.as_bytes().chunks(size) {
            chunks.push_str(&translator.translate(piece).unwrap());
        }
        assert!(translator.is_over && translator.received.is_empty());
        let data = |event: &str| event.strip_prefix("data: ").unwrap().to_owned();
        chunks.split_terminator("\n\n").map(data).collect()
    }

    #[test]
    fn a_stream_is_translated_event_by_event() {
        let call = |call: Value| json!({ "tool_calls": [call] });
        let deltas = [
            json!({ "role": "assistant", "content": "" }),
            json!({ "content": "Hello" }),
            call(json!({ "index": 0, "id": "t1", "type": "function",
                         "function": { "name": "f", "arguments": "" } })),
            call(json!({ "index": 0, "function": { "arguments": "{\"a\"" } })),
            call(json!({ "index": 0, "function": { "arguments": ":1}" } })),
            json!({}),
        ];
        for (stream, size) in
            [(STREAM.to_owned(), 1), (STREAM.replace('\n', "\r\n"), 7), (STREAM.to_owned(), 9999)]
        {
            let chunks = chunks(&stream, size);
            assert_eq!(chunks.len(), deltas.len() + 2);
            assert_eq!(chunks.last().unwrap(), "[DONE]");
            for (chunk, delta) in chunks.iter().zip(&deltas) {
                let chunk: Value = serde_json::from_str(chunk).unwrap();
                assert_eq!((&chunk["id"], &chunk["model"]), (&json!("msg_1"), &json!("claude-x")));
                assert_eq!(chunk["object"], "chat.completion.chunk");
                assert_eq!(chunk["created"], 7);
                assert_eq!(&chunk["choices"][0]["delta"], delta);
                let is_last = *delta == json!({});
                let reason = if is_last { json!("tool_calls") } else { Value::Null };
                assert_eq!(chunk["choices"][0]["finish_reason"], reason);
            }
            let usage: Value = serde_json::from_str(&chunks[deltas.len()]).unwrap();
            assert_eq!(usage["choices"], json!([]));
            let tokens = json!({
                "prompt_tokens": 25, "completion_tokens": 15, "total_tokens": 40
            });
            assert_eq!(usage["usage"], tokens);
        }
    }

    #[test]
    fn an_error_ends_a_stream() {
        let event = "event: error\ndata: {\"type\":\"error\",\"error\":\
                     {\"type\":\"overloaded_error\",\"message\":\"Overloaded\"}}\n\n";
        let stream = format!("{event}{STREAM}");
        let chunks = chunks(&stream, 100);
        assert_eq!(chunks.len(), 1);
        let error: Value = serde_json::from_str(&chunks[0]).unwrap();
        assert_eq!(error["error"]["message"], "Overloaded");
    }

    #[test]
    fn malformed_and_endless_events_are_faults() {
        let fault = Translator::default().translate(b"data: {\n\n").unwrap_err();
        assert_eq!(fault.kind, FaultKind::ProtocolError);
        let mut endless = Translator::default();
        assert!(endless.translate(&vec![b'x'; EVENT_BYTES_MAX]).is_ok());
        assert_eq!(endless.translate(b"x").unwrap_err().kind, FaultKind::ResponseBodySize);
        // Events of another kind mean nothing.
        let odd = b"data: {\"type\":\"new\"}\n\ndata: 7\n\n: comment\n\n\n";
        assert_eq!(Translator::default().translate(odd).unwrap(), "");
    }
}
