//! A request of chat completions as one of the Messages API.

use serde_json::{Map, Value, json};

use crate::api_error::ApiError;

type Object = Map<String, Value>;

/// Members that are read here, or whose loss changes no response: they nudge sampling, or are about
/// the account at OpenAI.
const KNOWN: [&str; 25] = [
    "model",
    "messages",
    "max_tokens",
    "max_completion_tokens",
    "stop",
    "stream",
    "stream_options",
    "temperature",
    "top_p",
    "tools",
    "tool_choice",
    "parallel_tool_calls",
    "user",
    "frequency_penalty",
    "presence_penalty",
    "logit_bias",
    "seed",
    "metadata",
    "store",
    "service_tier",
    "prompt_cache_key",
    "safety_identifier",
    "reasoning_effort",
    "verbosity",
    "prediction",
];

/// True if a member without a counterpart has the value that means nothing.
fn means_nothing(name: &str, value: &Value) -> bool {
    match name {
        _ if value.is_null() => {
            ["n", "logprobs", "top_logprobs", "modalities", "response_format", "audio"]
                .contains(&name)
        }
        "n" => *value == 1,
        "logprobs" => *value == false,
        "top_logprobs" => *value == 0,
        "modalities" => *value == json!(["text"]),
        "response_format" => value["type"] == "text",
        _ => false,
    }
}

/// Translates a body. `max_tokens` is for requests without their own, since the Messages API
/// demands it.
pub(crate) fn translate(content: &[u8], model: &str, max_tokens: u32) -> Result<String, ApiError> {
    let Ok(Value::Object(mut request)) = serde_json::from_slice(content) else {
        return Err(ApiError::new(400, "invalid_json", "The body is not a JSON object."));
    };
    check(&request)?;
    let mut sent = Object::new();
    sent.insert("model".to_owned(), model.into());
    let own = take(&mut request, "max_completion_tokens");
    let own = own.or_else(|| take(&mut request, "max_tokens"));
    sent.insert("max_tokens".to_owned(), own.unwrap_or(max_tokens.into()));
    let mut conversation = Conversation::default();
    match take(&mut request, "messages") {
        Some(Value::Array(messages)) => {
            messages.into_iter().try_for_each(|message| conversation.add(message))?;
        }
        _ => return Err(invalid("messages", "The request has no list of `messages`.")),
    }
    if !conversation.system.is_empty() {
        sent.insert("system".to_owned(), conversation.system.into());
    }
    sent.insert("messages".to_owned(), conversation.messages.into());
    for name in ["top_p", "stream"] {
        sent.extend(take(&mut request, name).map(|value| (name.to_owned(), value)));
    }
    if let Some(temperature) = take(&mut request, "temperature") {
        // OpenAI's range ends at 2.
        let temperature = temperature.as_f64().map_or(temperature, |it| json!(it.min(1.0)));
        sent.insert("temperature".to_owned(), temperature);
    }
    match take(&mut request, "stop") {
        None => {}
        Some(Value::Array(stop)) => drop(sent.insert("stop_sequences".to_owned(), stop.into())),
        Some(stop) => drop(sent.insert("stop_sequences".to_owned(), json!([stop]))),
    }
    if let Some(user) = take(&mut request, "user") {
        sent.insert("metadata".to_owned(), json!({ "user_id": user }));
    }
    add_tools(&mut request, &mut sent)?;
    Ok(Value::Object(sent).to_string())
}

fn check(request: &Object) -> Result<(), ApiError> {
    for (name, value) in request {
        if !KNOWN.contains(&&**name) && !means_nothing(name, value) {
            let shown: String = name.chars().take(64).collect();
            let message = format!("The provider of the model does not support `{shown}`.");
            return Err(ApiError::new(400, "unsupported_parameter", message));
        }
    }
    Ok(())
}

/// Takes a member that is there and not null.
fn take(object: &mut Object, name: &str) -> Option<Value> {
    object.remove(name).filter(|value| !value.is_null())
}

/// Takes a list, which is empty if it is not there.
fn list(object: &mut Object, name: &'static str) -> Result<Vec<Value>, ApiError> {
    match take(object, name) {
        None => Ok(Vec::new()),
        Some(Value::Array(items)) => Ok(items),
        Some(_) => Err(invalid(name, &format!("`{name}` is not a list."))),
    }
}

fn invalid(param: &'static str, message: &str) -> ApiError {
    ApiError { param: Some(param), ..ApiError::new(400, "invalid_request", message) }
}

fn unsupported(kind: &str) -> ApiError {
    let shown: String = kind.chars().take(64).collect();
    let message = format!("The provider of the model does not support \"{shown}\" in messages.");
    ApiError { param: Some("messages"), ..ApiError::new(400, "unsupported_content", message) }
}

/// The messages of a request.
#[derive(Default)]
struct Conversation {
    system: Vec<Value>,
    messages: Vec<Value>,
}

impl Conversation {
    fn add(&mut self, message: Value) -> Result<(), ApiError> {
        let Value::Object(mut message) = message else {
            return Err(invalid("messages", "A message is not an object."));
        };
        let role = take(&mut message, "role");
        let content = take(&mut message, "content");
        match role.as_ref().and_then(Value::as_str) {
            Some("system" | "developer") => self.system.extend(blocks(content)?),
            Some("user") => self.push("user", blocks(content)?),
            Some("assistant") => {
                for name in ["function_call", "audio"] {
                    if take(&mut message, name).is_some() {
                        return Err(unsupported(name));
                    }
                }
                let mut all = blocks(content)?;
                all.extend(blocks(take(&mut message, "refusal"))?);
                for call in list(&mut message, "tool_calls")? {
                    all.push(tool_use(call)?);
                }
                self.push("assistant", all);
            }
            Some("tool") => {
                let result = json!({
                    "type": "tool_result",
                    "tool_use_id": take(&mut message, "tool_call_id"),
                    "content": blocks(content)?,
                });
                self.push("user", vec![result]);
            }
            Some(other) => return Err(unsupported(other)),
            None => return Err(invalid("messages", "A message has no `role`.")),
        }
        Ok(())
    }

    /// Adds content to the latest message if that has the same role: the results of parallel calls
    /// belong into one message.
    fn push(&mut self, role: &str, blocks: Vec<Value>) {
        if let Some(last) = self.messages.last_mut()
            && last["role"] == role
            && let Some(content) = last["content"].as_array_mut()
        {
            content.extend(blocks);
            return;
        }
        self.messages.push(json!({ "role": role, "content": blocks }));
    }
}

/// Content as blocks; empty texts are left out, since the Messages API rejects them.
fn blocks(content: Option<Value>) -> Result<Vec<Value>, ApiError> {
    let text = |text: &str| json!({ "type": "text", "text": text });
    match content {
        None => Ok(Vec::new()),
        Some(Value::String(content)) if content.is_empty() => Ok(Vec::new()),
        Some(Value::String(content)) => Ok(vec![text(&content)]),
        Some(Value::Array(parts)) => {
            let is_empty = |part: &Value| part["type"] == "text" && part["text"] == "";
            parts.into_iter().filter(|part| !is_empty(part)).map(block).collect()
        }
        Some(_) => Err(invalid("messages", "The `content` of a message is neither text nor list.")),
    }
}

fn block(part: Value) -> Result<Value, ApiError> {
    let kind = part["type"].as_str().unwrap_or_default();
    match kind {
        "text" => Ok(json!({ "type": "text", "text": part["text"] })),
        "refusal" => Ok(json!({ "type": "text", "text": part["refusal"] })),
        "image_url" => {
            let url = part["image_url"]["url"].as_str().unwrap_or_default();
            Ok(json!({ "type": "image", "source": image(url)? }))
        }
        other => Err(unsupported(other)),
    }
}

fn image(url: &str) -> Result<Value, ApiError> {
    let Some(data) = url.strip_prefix("data:") else {
        return Ok(json!({ "type": "url", "url": url }));
    };
    let parts = data.split_once(";base64,");
    let (media_type, data) = parts.ok_or_else(|| unsupported("an image that is not base64"))?;
    Ok(json!({ "type": "base64", "media_type": media_type, "data": data }))
}

fn tool_use(call: Value) -> Result<Value, ApiError> {
    let function = &call["function"];
    let arguments = function["arguments"].as_str().unwrap_or_default();
    let input = match arguments.trim().is_empty() {
        true => json!({}),
        false => {
            serde_json::from_str::<Value>(arguments).ok().filter(Value::is_object).ok_or_else(
                || invalid("messages", "The `arguments` of a call are not a JSON object."),
            )?
        }
    };
    let (id, name) = (&call["id"], &function["name"]);
    Ok(json!({ "type": "tool_use", "id": id, "name": name, "input": input }))
}

fn add_tools(request: &mut Object, sent: &mut Object) -> Result<(), ApiError> {
    let tools: Vec<Value> = list(request, "tools")?.iter().map(tool).collect::<Result<_, _>>()?;
    if tools.is_empty() {
        return Ok(());
    }
    sent.insert("tools".to_owned(), tools.into());
    let choice = take(request, "tool_choice");
    let mut choice = match choice.as_ref().map(|choice| (choice.as_str(), choice)) {
        None => None,
        Some((Some("auto"), _)) => Some(json!({ "type": "auto" })),
        Some((Some("none"), _)) => Some(json!({ "type": "none" })),
        Some((Some("required"), _)) => Some(json!({ "type": "any" })),
        Some((None, choice)) if choice["type"] == "function" => {
            Some(json!({ "type": "tool", "name": choice["function"]["name"] }))
        }
        Some(_) => return Err(invalid("tool_choice", "This `tool_choice` is not supported.")),
    };
    if take(request, "parallel_tool_calls") == Some(Value::Bool(false)) {
        let choice = choice.get_or_insert_with(|| json!({ "type": "auto" }));
        if choice["type"] != "none" {
            choice["disable_parallel_tool_use"] = true.into();
        }
    }
    sent.extend(choice.map(|choice| ("tool_choice".to_owned(), choice)));
    Ok(())
}

fn tool(tool: &Value) -> Result<Value, ApiError> {
    if tool["type"] != "function" {
        return Err(invalid("tools", "Only tools of the type `function` are supported."));
    }
    let function = &tool["function"];
    let schema = match &function["parameters"] {
        Value::Null => json!({ "type": "object" }),
        schema => schema.clone(),
    };
    let mut sent = json!({ "name": function["name"], "input_schema": schema });
    if let Value::String(description) = &function["description"] {
        sent["description"] = description.as_str().into();
    }
    Ok(sent)
}

#[cfg(test)]
mod tests {
    use super::translate;
    use serde_json::{Value, json};

    fn sent(request: &Value) -> Value {
        let sent = translate(request.to_string().as_bytes(), "claude", 4096).unwrap();
        serde_json::from_str(&sent).unwrap()
    }

    #[test]
    fn a_conversation_with_tools_is_translated() {
        let request = json!({
            "model": "fast", "max_completion_tokens": 100, "temperature": 1.5, "top_p": 0.5,
            "stop": "END", "stream": true, "stream_options": { "include_usage": true },
            "user": "u-1", "n": 1, "response_format": { "type": "text" }, "seed": 7,
            "messages": [
                { "role": "system", "content": "S" },
                { "role": "developer", "content": [
                    { "type": "text", "text": "" }, { "type": "text", "text": "D" }
                ] },
                { "role": "user", "content": [
                    { "type": "text", "text": "look" },
                    { "type": "image_url", "image_url": { "url": "data:image/png;base64,QUJD" } },
                    { "type": "image_url", "image_url": { "url": "https://a/b.png" } }
                ] },
                { "role": "assistant", "content": null, "refusal": "No.", "audio": null,
                  "tool_calls": [
                    { "id": "c1", "type": "function",
                      "function": { "name": "f", "arguments": "{\"a\": 1}" } },
                    { "id": "c2", "type": "function", "function": { "name": "g", "arguments": "" } }
                ] },
                { "role": "tool", "tool_call_id": "c1", "content": "one" },
                { "role": "tool", "tool_call_id": "c2", "content": "" },
                { "role": "user", "content": "next" }
            ],
            "tools": [
                { "type": "function", "function": {
                    "name": "f", "description": "F", "parameters": { "type": "object", "x": 1 } } },
                { "type": "function", "function": { "name": "g" } }
            ],
            "tool_choice": "required", "parallel_tool_calls": false
        });
        let text = |text: &str| json!({ "type": "text", "text": text });
        let expected = json!({
            "model": "claude", "max_tokens": 100, "temperature": 1.0, "top_p": 0.5,
            "stop_sequences": ["END"], "stream": true, "metadata": { "user_id": "u-1" },
            "system": [text("S"), text("D")],
            "messages": [
                { "role": "user", "content": [
                    text("look"),
                    { "type": "image", "source":
                        { "type": "base64", "media_type": "image/png", "data": "QUJD" } },
                    { "type": "image", "source": { "type": "url", "url": "https://a/b.png" } }
                ] },
                { "role": "assistant", "content": [
                    text("No."),
                    { "type": "tool_use", "id": "c1", "name": "f", "input": { "a": 1 } },
                    { "type": "tool_use", "id": "c2", "name": "g", "input": {} }
                ] },
                { "role": "user", "content": [
                    { "type": "tool_result", "tool_use_id": "c1", "content": [text("one")] },
                    { "type": "tool_result", "tool_use_id": "c2", "content": [] },
                    text("next")
                ] }
            ],
            "tools": [
                { "name": "f", "description": "F", "input_schema": { "type": "object", "x": 1 } },
                { "name": "g", "input_schema": { "type": "object" } }
            ],
            "tool_choice": { "type": "any", "disable_parallel_tool_use": true }
        });
        assert_eq!(sent(&request), expected);
    }

    #[test]
    fn defaults_are_filled_in() {
        let user = json!([{ "role": "user", "content": "hi" }]);
        let sent_of = |more: Value| {
            let mut request = json!({ "model": "fast", "messages": user });
            request.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
            sent(&request)
        };
        let plain = sent_of(json!({}));
        assert_eq!(plain["max_tokens"], 4096);
        assert!(plain.get("system").is_none() && plain.get("tools").is_none());
        assert_eq!(sent_of(json!({ "max_tokens": 5 }))["max_tokens"], 5);
        assert_eq!(sent_of(json!({ "stop": ["a", "b"] }))["stop_sequences"], json!(["a", "b"]));
        let tools = json!([{ "type": "function", "function": { "name": "f" } }]);
        let chosen = |choice: Value| {
            sent_of(json!({ "tools": tools, "tool_choice": choice }))["tool_choice"].clone()
        };
        assert_eq!(chosen(json!("none")), json!({ "type": "none" }));
        assert_eq!(chosen(json!("auto")), json!({ "type": "auto" }));
        let named = json!({ "type": "function", "function": { "name": "f" } });
        assert_eq!(chosen(named), json!({ "type": "tool", "name": "f" }));
    }

    #[test]
    fn what_has_no_counterpart_is_an_error() {
        let user = |content: Value| json!({ "messages": [{ "role": "user", "content": content }] });
        let mut two = user(json!("hi"));
        two["n"] = 2.into();
        let mut schema = user(json!("hi"));
        schema["response_format"] = json!({ "type": "json_object" });
        let mut unknown = user(json!("hi"));
        unknown["web_search_options"] = json!({});
        let call = json!({ "id": "a", "function": { "name": "f", "arguments": "[1]" } });
        for (request, code) in [
            (two, "unsupported_parameter"),
            (schema, "unsupported_parameter"),
            (unknown, "unsupported_parameter"),
            (json!({}), "invalid_request"),
            (json!({ "messages": "hi" }), "invalid_request"),
            (json!({ "messages": [1] }), "invalid_request"),
            (json!({ "messages": [{ "content": "hi" }] }), "invalid_request"),
            (json!({ "messages": [{ "role": "robot" }] }), "unsupported_content"),
            (user(json!(7)), "invalid_request"),
            (user(json!([{ "type": "input_audio" }])), "unsupported_content"),
            (
                user(json!([{ "type": "image_url", "image_url": { "url": "data:x,y" } }])),
                "unsupported_content",
            ),
            (
                json!({ "messages": [{ "role": "assistant", "tool_calls": [call] }] }),
                "invalid_request",
            ),
            (json!({ "messages": [], "tools": [{ "type": "custom" }] }), "invalid_request"),
            (json!({ "messages": [], "tools": { "type": "function" } }), "invalid_request"),
            (json!({ "messages": [{ "role": "assistant", "tool_calls": {} }] }), "invalid_request"),
            (
                json!({ "messages": [{ "role": "assistant", "function_call": { "name": "f" } }] }),
                "unsupported_content",
            ),
        ] {
            let error = translate(request.to_string().as_bytes(), "claude", 1).unwrap_err();
            assert_eq!((error.status, error.code), (400, code), "{request}");
        }
    }
}
