//! What settings say of the prompts of a model: messages that are added, and the longest text.

use std::borrow::Cow;

use json_filters::tree::{self, Json};
use settings::Setting;

use crate::api_error::ApiError;
use crate::endpoint::Endpoint;

/// Messages that are added to those of the client.
#[derive(Clone, Debug, PartialEq, Setting)]
#[setting(default)]
pub(crate) struct PromptSettings {
    /// Messages in front of the client's.
    #[setting(default = [], example = [{ "role": "system", "content": "Answer in English." }])]
    pub(crate) prepend: Vec<MessageSettings>,
    /// Messages behind the client's.
    #[setting(default = [])]
    pub(crate) append: Vec<MessageSettings>,
}

/// A message.
#[derive(Clone, Debug, PartialEq, Setting)]
pub(crate) struct MessageSettings {
    /// Its role.
    role: Role,
    /// Its text.
    #[setting(example = "Answer in English.")]
    content: String,
}

/// The role of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Setting)]
enum Role {
    /// Instructions, for most models.
    System,
    /// Instructions, for newer models of OpenAI.
    Developer,
    /// A message of the user.
    User,
    /// An earlier response of the model.
    Assistant,
}

impl Role {
    fn word(self) -> &'static str {
        match self {
            Role::System => "system",
            Role::Developer => "developer",
            Role::User => "user",
            Role::Assistant => "assistant",
        }
    }
}

impl MessageSettings {
    fn json(&self) -> Json<'static> {
        message(self.role, tree::string(&self.content))
    }
}

fn message<'a>(role: Role, content: Json<'a>) -> Json<'a> {
    Json::Object(vec![("role".into(), tree::string(role.word())), ("content".into(), content)])
}

/// Added messages, ready to be written.
#[derive(Debug, Default)]
pub(crate) struct Prompt {
    prepend: Vec<Json<'static>>,
    append: Vec<Json<'static>>,
}

/// The members of a request.
pub(crate) type Members<'a> = Vec<(Cow<'a, str>, Json<'a>)>;

impl Prompt {
    /// The messages of a handler around those of one of its models.
    pub(crate) fn new(handler: &PromptSettings, model: &PromptSettings) -> Prompt {
        let json = |first: &[MessageSettings], second: &[MessageSettings]| {
            first.iter().chain(second).map(MessageSettings::json).collect()
        };
        Prompt {
            prepend: json(&handler.prepend, &model.prepend),
            append: json(&model.append, &handler.append),
        }
    }

    /// Adds the messages to a request; true if it has changed. A request to which they cannot be
    /// added is an error, so that no client can leave them out.
    pub(crate) fn decorate(
        &self,
        endpoint: Endpoint,
        members: &mut Members<'_>,
    ) -> Result<bool, ApiError> {
        if self.prepend.is_empty() && self.append.is_empty() {
            return Ok(false);
        }
        let name = match endpoint {
            Endpoint::ChatCompletions => "messages",
            Endpoint::Responses => "input",
            Endpoint::Embeddings => return Ok(false),
            Endpoint::Completions => {
                let message = "The model has messages of its own: use /v1/chat/completions.";
                return Err(ApiError::of_model(400, "prompt_unsupported", message.to_owned()));
            }
        };
        let found = members.iter_mut().find(|(known, _)| known == name);
        let Some((_, value)) = found else { return Err(no_messages(name)) };
        let messages = match std::mem::replace(value, Json::Array(Vec::new())) {
            Json::Array(messages) => messages,
            // The Responses API takes a text for one message of the user.
            Json::Scalar(text) if endpoint == Endpoint::Responses && text.starts_with('"') => {
                vec![message(Role::User, Json::Scalar(text))]
            }
            _ => return Err(no_messages(name)),
        };
        let prepend = self.prepend.iter().cloned();
        *value = Json::Array(prepend.chain(messages).chain(self.append.iter().cloned()).collect());
        Ok(true)
    }
}

fn no_messages(name: &'static str) -> ApiError {
    let message = format!("The request has no list of messages in `{name}`.");
    ApiError { param: Some(name), ..ApiError::new(400, "invalid_messages", message) }
}

/// The bytes of all strings of a request, as they are written, without names of members.
pub(crate) fn text_bytes(members: &Members<'_>) -> u64 {
    members.iter().map(|(_, value)| bytes_of(value)).sum()
}

/// Recursion ends: the parser bounds the depth of a tree.
fn bytes_of(value: &Json<'_>) -> u64 {
    match value {
        Json::Scalar(text) if text.starts_with('"') => text.len() as u64 - 2,
        Json::Scalar(_) => 0,
        Json::Array(items) => items.iter().map(bytes_of).sum(),
        Json::Object(members) => text_bytes(members),
    }
}

#[cfg(test)]
mod tests {
    use super::{Prompt, PromptSettings, text_bytes};
    use crate::endpoint::Endpoint;
    use json_filters::tree::{self, Json};
    use settings::node;

    fn prompt() -> Prompt {
        let handler: PromptSettings = settings::read(&node!({
            "prepend": [{ "role": "system", "content": "A \"rule\"" }],
            "append": [{ "role": "user", "content": "Z" }]
        }))
        .unwrap();
        let model: PromptSettings =
            settings::read(&node!({ "prepend": [{ "role": "developer", "content": "B" }] }))
                .unwrap();
        Prompt::new(&handler, &model)
    }

    fn decorated(endpoint: Endpoint, text: &str) -> Result<String, &'static str> {
        let mut document = tree::parse(text.as_bytes()).unwrap();
        let Json::Object(members) = &mut document else { panic!("an object") };
        let changed = prompt().decorate(endpoint, members).map_err(|error| error.code)?;
        assert!(changed || endpoint == Endpoint::Embeddings);
        Ok(document.to_string())
    }

    const PREPENDED: &str =
        r#"{"role":"system","content":"A \"rule\""},{"role":"developer","content":"B"}"#;
    const APPENDED: &str = r#"{"role":"user","content":"Z"}"#;

    #[test]
    fn messages_are_added_in_front_and_behind() {
        let own = r#"{"role":"user","content":"hi"}"#;
        for (endpoint, text, expected) in [
            (
                Endpoint::ChatCompletions,
                format!(r#"{{"n":1,"messages":[{own}]}}"#),
                format!(r#"{{"n":1,"messages":[{PREPENDED},{own},{APPENDED}]}}"#),
            ),
            (
                Endpoint::Responses,
                format!(r#"{{"input":[{own}]}}"#),
                format!(r#"{{"input":[{PREPENDED},{own},{APPENDED}]}}"#),
            ),
            (
                Endpoint::Responses,
                r#"{"input":"hi"}"#.to_owned(),
                format!(r#"{{"input":[{PREPENDED},{own},{APPENDED}]}}"#),
            ),
            (Endpoint::Embeddings, r#"{"input":"hi"}"#.to_owned(), r#"{"input":"hi"}"#.to_owned()),
        ] {
            assert_eq!(decorated(endpoint, &text), Ok(expected));
        }
    }

    #[test]
    fn no_request_goes_without_them() {
        for (endpoint, text, code) in [
            (Endpoint::ChatCompletions, "{}", "invalid_messages"),
            (Endpoint::ChatCompletions, r#"{"messages":"hi"}"#, "invalid_messages"),
            (Endpoint::ChatCompletions, r#"{"messages":{"role":"user"}}"#, "invalid_messages"),
            (Endpoint::Responses, r#"{"input":7}"#, "invalid_messages"),
            (Endpoint::Completions, r#"{"prompt":"hi"}"#, "prompt_unsupported"),
        ] {
            assert_eq!(decorated(endpoint, text), Err(code), "{text}");
        }
    }

    #[test]
    fn text_is_every_string() {
        let text = r#"{"a":"12","b":[{"c":"34"},5,null],"d":{"e":{"f":"\u0041"}}}"#;
        let Json::Object(members) = tree::parse(text.as_bytes()).unwrap() else { panic!() };
        assert_eq!(text_bytes(&members), 10);
    }
}
