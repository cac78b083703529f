//! A response of the Messages API as one of chat completions.

use serde_json::{Value, json};

use super::finish_reason;

/// The tokens of a response: those of a cache are part of the input.
pub(super) fn usage(usage: &Value) -> (u64, u64) {
    let number = |name: &str| usage[name].as_u64().unwrap_or(0);
    let input = ["input_tokens", "cache_creation_input_tokens", "cache_read_input_tokens"];
    let input = input.iter().map(|name| number(name)).fold(0, u64::saturating_add);
    (input, number("output_tokens"))
}

pub(super) fn usage_json((input, output): (u64, u64)) -> Value {
    json!({
        "prompt_tokens": input,
        "completion_tokens": output,
        "total_tokens": input.saturating_add(output),
    })
}

/// Translates a body; `None` if it is not a message.
pub(crate) fn translate(content: &[u8], created_s: u64) -> Option<String> {
    let message: Value = serde_json::from_slice(content).ok()?;
    let blocks = message["content"].as_array().filter(|_| message["type"] == "message")?;
    let mut text: Option<String> = None;
    let mut calls = Vec::new();
    for block in blocks {
        match block["type"].as_str()? {
            "text" => text.get_or_insert_default().push_str(block["text"].as_str()?),
            "tool_use" => calls.push(json!({
                "id": block["id"],
                "type": "function",
                "function": { "name": block["name"], "arguments": block["input"].to_string() },
            })),
            // Chat completions have no thoughts.
            _ => {}
        }
    }
    let mut answer = json!({ "role": "assistant", "content": text, "refusal": null });
    if !calls.is_empty() {
        answer["tool_calls"] = calls.into();
    }
    let reason = finish_reason(message["stop_reason"].as_str().unwrap_or_default());
    let translated = json!({
        "id": message["id"],
        "object": "chat.completion",
        "created": created_s,
        "model": message["model"],
        "choices": [
            { "index": 0, "message": answer, "logprobs": null, "finish_reason": reason }
        ],
        "usage": usage_json(usage(&message["usage"])),
    });
    Some(translated.to_string())
}

/// Translates the body of an error; one that cannot be read has no text.
pub(crate) fn error(content: &[u8]) -> String {
    let body: Value = serde_json::from_slice(content).unwrap_or_default();
    error_json(&body["error"]).to_string()
}

/// An error of the API as OpenAI's API has it.
pub(super) fn error_json(error: &Value) -> Value {
    let text = |name: &str, default| error[name].as_str().unwrap_or(default).to_owned();
    json!({ "error": {
        "message": text("message", "The provider of the model failed."),
        "type": text("type", "server_error"),
        "param": null,
        "code": null,
    } })
}

#[cfg(test)]
mod tests {
    use super::{error, translate};
    use serde_json::{Value, json};

    #[test]
    fn a_message_is_translated() {
        let message = json!({
            "id": "msg_1", "type": "message", "role": "assistant", "model": "claude-x",
            "content": [
                { "type": "thinking", "thinking": "…", "signature": "s" },
                { "type": "text", "text": "Hel" }, { "type": "text", "text": "lo" },
                { "type": "tool_use", "id": "t1", "name": "f", "input": { "a": 1 } }
            ],
            "stop_reason": "tool_use", "stop_sequence": null,
            "usage": { "input_tokens": 10, "cache_creation_input_tokens": 2,
                       "cache_read_input_tokens": 3, "output_tokens": 4 }
        });
        let translated = translate(message.to_string().as_bytes(), 7).unwrap();
        let expected = json!({
            "id": "msg_1", "object": "chat.completion", "created": 7, "model": "claude-x",
            "choices": [{
                "index": 0, "logprobs": null, "finish_reason": "tool_calls",
                "message": {
                    "role": "assistant", "content": "Hello", "refusal": null,
                    "tool_calls": [{ "id": "t1", "type": "function",
                                     "function": { "name": "f", "arguments": "{\"a\":1}" } }]
                }
            }],
            "usage": { "prompt_tokens": 15, "completion_tokens": 4, "total_tokens": 19 }
        });
        assert_eq!(serde_json::from_str::<Value>(&translated).unwrap(), expected);
    }

    #[test]
    fn each_reason_to_stop_has_a_word() {
        for (stop, finish) in [
            ("end_turn", "stop"),
            ("stop_sequence", "stop"),
            ("pause_turn", "stop"),
            ("max_tokens", "length"),
            ("model_context_window_exceeded", "length"),
            ("tool_use", "tool_calls"),
            ("refusal", "content_filter"),
        ] {
            let message = json!({ "type": "message", "content": [], "stop_reason": stop });
            let translated = translate(message.to_string().as_bytes(), 0).unwrap();
            let translated: Value = serde_json::from_str(&translated).unwrap();
            assert_eq!(translated["choices"][0]["finish_reason"], finish);
            assert_eq!(translated["choices"][0]["message"]["content"], Value::Null);
        }
    }

    #[test]
    fn what_is_not_a_message_is_not_translated() {
        for text in ["", "[]", "{}", r#"{"type":"message"}"#, r#"{"type":"x","content":[]}"#] {
            assert_eq!(translate(text.as_bytes(), 0), None, "{text}");
        }
        let broken = r#"{"type":"message","content":[{"type":"text"}]}"#;
        assert_eq!(translate(broken.as_bytes(), 0), None);
    }

    #[test]
    fn an_error_keeps_its_text() {
        let body =
            br#"{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}"#;
        let translated: Value = serde_json::from_str(&error(body)).unwrap();
        assert_eq!(translated["error"]["message"], "Overloaded");
        assert_eq!(translated["error"]["type"], "overloaded_error");
        assert!(error(b"<html>").contains("The provider of the model failed."));
    }
}
