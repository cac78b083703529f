//! The body of a request, read once and sent to any provider.
//!
//! Promises that a provider gets the client's bytes, in which only the name of the model and what a
//! setting names are replaced.

use std::ops::Range;

use bytes::Bytes;
use json_filters::tree::{self, Json, JsonError};

use crate::api_error::ApiError;
use crate::endpoint::Endpoint;
use crate::models::{ModelTable, VisibleModels};
use crate::prompt::{Members, text_bytes};

/// The members of a request that are read or replaced.
const MEMBERS: [&str; 6] = ["model", "messages", "input", "prompt", "stream", "stream_options"];

/// A request body, and what of it matters here.
#[derive(Debug)]
pub(crate) struct RequestBody {
    /// The index of its model.
    pub(crate) model: usize,
    content: Bytes,
    /// Where the name of the model stands in `content`, with its quotes.
    name: Range<usize>,
    /// True if the response is to be a stream.
    pub(crate) is_stream: bool,
    /// True if the client wants the usage at the end of a stream.
    pub(crate) asks_usage: bool,
    /// True if the body has `stream_options`.
    has_stream_options: bool,
}

impl RequestBody {
    /// Reads the body of a request, and adds what the settings of its model add.
    pub(crate) fn read(
        content: Bytes,
        endpoint: Endpoint,
        models: &ModelTable,
        visible: &VisibleModels,
    ) -> Result<RequestBody, ApiError> {
        let mut document = tree::parse(&content).map_err(malformed)?;
        let Json::Object(members) = &mut document else {
            return Err(ApiError::new(400, "invalid_json", "The body is not a JSON object."));
        };
        check_case(members, &MEMBERS)?;
        let text = model_of(members)?;
        let name: String = serde_json::from_str(text).map_err(|_| no_text())?;
        let index = models.index_of(&name, visible)?;
        let mut name = range_of(text, &content);
        let model = &models.0[index];
        check_length(members, model.text_bytes_max)?;
        let is_true = |value: &Json<'_>| is_word(value, "true");
        let is_stream = member(members, "stream").is_some_and(is_true);
        let options = member(members, "stream_options");
        let has_stream_options = options.is_some();
        let asks_usage = match options {
            Some(Json::Object(options)) => {
                check_case(options, &["include_usage"])?;
                options.iter().any(|(name, value)| name == "include_usage" && is_true(value))
            }
            _ => false,
        };
        let mut is_changed = model.prompt.decorate(endpoint, members)?;
        if is_stream && has_stream_options && !asks_usage {
            is_changed |= add_usage(members);
        }
        let changed = is_changed.then(|| Bytes::from(document.to_string()));
        if let Some(changed) = &changed {
            let Ok(Json::Object(members)) = tree::parse(changed) else {
                return Err(ApiError::new(500, "internal_error", "The body could not be read."));
            };
            name = range_of(model_of(&members)?, changed);
        }
        let content = changed.unwrap_or(content);
        Ok(RequestBody { model: index, content, name, is_stream, asks_usage, has_stream_options })
    }

    /// The number of bytes.
    pub(crate) fn len(&self) -> usize {
        self.content.len()
    }

    /// The body for a provider that has this name for the model. `adds_usage` is true if the usage
    /// at the end of a stream is to be asked for.
    pub(crate) fn with_model(&self, name: &str, adds_usage: bool) -> Bytes {
        let quoted = tree::string(name).to_string();
        let options = match adds_usage && self.is_stream && !self.has_stream_options {
            true => r#","stream_options":{"include_usage":true}"#,
            false => "",
        };
        if options.is_empty() && self.content[self.name.clone()] == *quoted.as_bytes() {
            return self.content.clone();
        }
        let (before, after) = (&self.content[..self.name.start], &self.content[self.name.end..]);
        Bytes::from([before, quoted.as_bytes(), options.as_bytes(), after].concat())
    }
}

/// Requires that no member has one of these names in another case. For providers written in Go,
/// whose JSON ignores case, `Model` is the model too, and the last one counts.
fn check_case(members: &Members<'_>, names: &[&str]) -> Result<(), ApiError> {
    let is_other = |written: &str, name: &str| written != name && is_folded(written, name);
    for (written, _) in members {
        if let Some(name) = names.iter().find(|name| is_other(written, name)) {
            let message = format!("The request has `{written}`, which may be read as `{name}`.");
            return Err(ApiError::new(400, "invalid_json", message));
        }
    }
    Ok(())
}

/// True if a text equals a name in lower case when case is ignored. Two characters beyond ASCII
/// have such letters.
fn is_folded(written: &str, name: &str) -> bool {
    let folded = written.chars().map(|character| match character {
        '\u{17f}' => 's',
        '\u{212a}' => 'k',
        other => other.to_ascii_lowercase(),
    });
    folded.eq(name.chars())
}

/// The name of the model of a request, with its quotes.
fn model_of<'m>(members: &'m Members<'_>) -> Result<&'m str, ApiError> {
    let value = member(members, "model").ok_or_else(|| missing("The request has no `model`."))?;
    match value {
        Json::Scalar(text) if text.starts_with('"') => Ok(text),
        _ => Err(no_text()),
    }
}

fn no_text() -> ApiError {
    missing("The `model` is not a string.")
}

fn check_length(members: &Members<'_>, max: u64) -> Result<(), ApiError> {
    if max == u64::MAX || text_bytes(members) <= max {
        return Ok(());
    }
    let message = format!("The request has more than {max} bytes of text.");
    Err(ApiError::new(400, "context_length_exceeded", message))
}

/// Asks for the usage in the `stream_options` of a request, if they are an object or null.
fn add_usage(members: &mut Members<'_>) -> bool {
    let found = members.iter_mut().find(|(name, _)| name == "stream_options");
    let Some((_, options)) = found else { return false };
    if is_word(options, "null") {
        *options = Json::Object(Vec::new());
    }
    let Json::Object(options) = options else { return false };
    options.retain(|(name, _)| name != "include_usage");
    options.push(("include_usage".into(), Json::Scalar("true".into())));
    true
}

fn member<'m, 'a>(members: &'m Members<'a>, name: &str) -> Option<&'m Json<'a>> {
    members.iter().find(|(known, _)| known == name).map(|(_, value)| value)
}

fn is_word(value: &Json<'_>, word: &str) -> bool {
    matches!(value, Json::Scalar(text) if text == word)
}

/// Where a part of `whole` stands in it.
fn range_of(part: &str, whole: &[u8]) -> Range<usize> {
    let start = part.as_ptr() as usize - whole.as_ptr() as usize;
    start..start + part.len()
}

fn missing(message: &str) -> ApiError {
    ApiError::of_model(400, "invalid_model", message.to_owned())
}

fn malformed(error: JsonError) -> ApiError {
    ApiError::new(400, "invalid_json", format!("The body cannot be read: {error}."))
}

#[cfg(test)]
mod tests {
    use super::RequestBody;
    use crate::endpoint::Endpoint;
    use crate::models::tests::{all, models};
    use bytes::Bytes;
    use settings::{Node, node};

    fn read(body: &str, model: Node) -> Result<RequestBody, &'static str> {
        let settings::Value::Map(mut named) = node!({ "small": {} }).value else { panic!() };
        named[0].1 = model;
        let models = models(Node::made(settings::Value::Map(named)));
        let content = Bytes::from(body.to_owned());
        let read = RequestBody::read(content, Endpoint::ChatCompletions, &models, &all(&models));
        read.map_err(|error| error.code)
    }

    fn sent(body: &str, target: &str) -> String {
        let body = read(body, node!({ "provider": "a" })).unwrap();
        String::from_utf8(body.with_model(target, true).to_vec()).unwrap()
    }

    #[test]
    fn only_the_name_of_the_model_changes() {
        let same = r#"{ "model" : "small", "temperature": 1.0 }"#;
        assert_eq!(sent(same, "small"), same);
        let written = r#" {"n":1.00, "model": "sm\u0061ll","x":{"model":"small"},"s":"\u00e9"}"#;
        let forwarded =
            r#" {"n":1.00, "model": "org/llama\"3","x":{"model":"small"},"s":"\u00e9"}"#;
        assert_eq!(sent(written, "org/llama\"3"), forwarded);
    }

    #[test]
    fn a_member_that_a_provider_may_take_for_another_is_an_error() {
        for body in [
            r#"{"model":"small","Model":"large"}"#,
            r#"{"MODEL":"large","model":"small"}"#,
            r#"{"model":"small","\u004dessages":[]}"#,
            r#"{"model":"small","message\u017f":[]}"#,
            r#"{"model":"small","stream":true,"Stream":false}"#,
            r#"{"model":"small","stream_options":{"include_usage":true,"Include_Usage":false}}"#,
        ] {
            assert_eq!(
                read(body, node!({ "provider": "a" })).unwrap_err(),
                "invalid_json",
                "{body}"
            );
        }
        let other = r#"{"model":"small","Models":1,"metadata":{"Model":"x"},"\u212aey":2}"#;
        assert_eq!(sent(other, "small"), other);
    }

    #[test]
    fn the_usage_of_a_stream_is_asked_for() {
        let options = r#""stream_options":{"include_usage":true}"#;
        for (body, forwarded, asks) in [
            (
                r#"{"model":"small", "stream": true}"#,
                format!(r#"{{"model":"small",{options}, "stream": true}}"#),
                false,
            ),
            (
                r#"{"stream":true,"stream_options":null,"model":"small"}"#,
                format!(r#"{{"stream":true,{options},"model":"small"}}"#),
                false,
            ),
            (
                r#"{"stream":true,"model":"small","stream_options":{"include_usage":false,"a":1}}"#,
                r#"{"stream":true,"model":"small","stream_options":{"a":1,"include_usage":true}}"#
                    .to_owned(),
                false,
            ),
            (
                r#"{"stream":true,"stream_options":{"include_usage": true},"model":"small"}"#,
                r#"{"stream":true,"stream_options":{"include_usage": true},"model":"small"}"#
                    .to_owned(),
                true,
            ),
            // The provider reports the error.
            (
                r#"{"stream":true,"stream_options":1,"model":"small"}"#,
                r#"{"stream":true,"stream_options":1,"model":"small"}"#.to_owned(),
                false,
            ),
            (
                r#"{"stream":false,"model":"small"}"#,
                r#"{"stream":false,"model":"small"}"#.to_owned(),
                false,
            ),
        ] {
            assert_eq!(sent(body, "small"), forwarded);
            let read = read(body, node!({ "provider": "a" })).unwrap();
            assert_eq!(read.asks_usage, asks, "{body}");
            assert_eq!(read.is_stream, !body.contains("false,\"model"), "{body}");
        }
        let body = r#"{"stream":true,"model":"small"}"#;
        let read = read(body, node!({ "provider": "a" })).unwrap();
        assert_eq!(read.with_model("small", false), body);
    }

    #[test]
    fn the_prompt_of_a_model_is_added() {
        let model = node!({
            "provider": "a", "prompt": { "prepend": [{ "role": "system", "content": "S" }] }
        });
        let body = r#"{ "messages": [], "model": "small", "stream": true }"#;
        let body = read(body, model).unwrap();
        let options = r#""stream_options":{"include_usage":true}"#;
        let messages = r#""messages":[{"role":"system","content":"S"}]"#;
        let expected = format!(r#"{{{messages},"model":"llama",{options},"stream":true}}"#);
        assert_eq!(body.with_model("llama", true), expected);
    }

    #[test]
    fn a_text_that_is_too_long_is_an_error() {
        let model = || node!({ "provider": "a", "max_prompt": "10B" });
        let body = |text: &str| format!(r#"{{"model":"small","messages":["{text}"]}}"#);
        assert!(read(&body("12345"), model()).is_ok());
        assert_eq!(read(&body("123456"), model()).unwrap_err(), "context_length_exceeded");
    }
}
