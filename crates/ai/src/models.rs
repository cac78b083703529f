//! The models of a handler, and the model that a request names.

use bytes::Bytes;
use json_filters::tree::{self, Json, JsonError};
use serde_json::json;

use crate::api_error::ApiError;

/// The longest name of a model that an error repeats.
const NAME_SHOWN_MAX: usize = 128;

/// A model that clients may name.
#[derive(Debug)]
pub(crate) struct Model {
    /// The client's name for it.
    pub(crate) name: String,
    /// The provider's name for it.
    pub(crate) target: String,
    /// Its provider, as an index of the handler's providers.
    pub(crate) provider: usize,
    pub(crate) provider_name: String,
}

/// The models of a handler.
#[derive(Debug)]
pub(crate) struct ModelTable(pub(crate) Vec<Model>);

impl ModelTable {
    fn index_of(&self, name: &str) -> Result<usize, ApiError> {
        self.0.iter().position(|model| model.name == name).ok_or_else(|| self.unknown(name))
    }

    fn unknown(&self, name: &str) -> ApiError {
        let shown: String = name.chars().take(NAME_SHOWN_MAX).collect();
        let near = settings::nearest(&shown, self.0.iter().map(|model| &*model.name));
        let help = near.map(|near| format!(" Did you mean \"{near}\"?")).unwrap_or_default();
        let message = format!("The model \"{shown}\" does not exist.{help}");
        ApiError::of_model(404, "model_not_found", message)
    }

    /// The model of a request body, and the body as its provider gets it. A body whose model has
    /// the same name there is not changed.
    pub(crate) fn prepare(&self, content: &Bytes) -> Result<(usize, Bytes), ApiError> {
        let mut document = tree::parse(content).map_err(malformed)?;
        let Json::Object(members) = &mut document else {
            return Err(ApiError::new(400, "invalid_json", "The body is not a JSON object."));
        };
        let member = members.iter_mut().find(|(name, _)| name == "model");
        let (_, value) = member.ok_or_else(|| missing("The request has no `model`."))?;
        let Json::Scalar(text) = &*value else {
            return Err(missing("The `model` is not a string."));
        };
        let name: String =
            serde_json::from_str(text).map_err(|_| missing("The `model` is not a string."))?;
        let index = self.index_of(&name)?;
        let target = &self.0[index].target;
        if *target == name {
            return Ok((index, content.clone()));
        }
        *value = tree::string(target);
        Ok((index, Bytes::from(document.to_string())))
    }

    /// The list of models, or one of them.
    pub(crate) fn describe(&self, name: Option<&str>) -> Result<String, ApiError> {
        let entry = |model: &Model| {
            let Model { name, provider_name, .. } = model;
            json!({ "id": name, "object": "model", "created": 0, "owned_by": provider_name })
        };
        Ok(match name {
            Some(name) => entry(&self.0[self.index_of(name)?]),
            None => {
                let all: Vec<_> = self.0.iter().map(entry).collect();
                json!({ "object": "list", "data": all })
            }
        }
        .to_string())
    }
}

fn missing(message: &str) -> ApiError {
    ApiError::of_model(400, "invalid_model", message.to_owned())
}

fn malformed(error: JsonError) -> ApiError {
    ApiError::new(400, "invalid_json", format!("The body cannot be read: {error}."))
}

#[cfg(test)]
mod tests {
    use super::{Model, ModelTable};
    use bytes::Bytes;

    fn table() -> ModelTable {
        let model = |name: &str, target: &str, provider| Model {
            name: name.to_owned(),
            target: target.to_owned(),
            provider,
            provider_name: "p".to_owned(),
        };
        ModelTable(vec![model("gpt-4o", "gpt-4o", 0), model("small", "org/llama\"3", 1)])
    }

    #[test]
    fn only_the_model_of_a_body_changes() {
        let same = r#"{ "model" : "gpt-4o", "temperature": 1.0 }"#;
        let (index, body) = table().prepare(&Bytes::from_static(same.as_bytes())).unwrap();
        assert_eq!((index, &body[..]), (0, same.as_bytes()));
        let mapped = r#"{"n":1.00,"model":"sm\u0061ll","x":{"model":"gpt-4o"},"s":"\u00e9"}"#;
        let (index, body) = table().prepare(&Bytes::from_static(mapped.as_bytes())).unwrap();
        let forwarded = r#"{"n":1.00,"model":"org/llama\"3","x":{"model":"gpt-4o"},"s":"\u00e9"}"#;
        assert_eq!((index, std::str::from_utf8(&body).unwrap()), (1, forwarded));
    }

    #[test]
    fn a_body_without_a_known_model_is_an_error() {
        for (body, status, code) in [
            ("", 400, "invalid_json"),
            ("[]", 400, "invalid_json"),
            ("{", 400, "invalid_json"),
            (r#"{"model":"gpt-4o","model":"small"}"#, 400, "invalid_json"),
            ("{}", 400, "invalid_model"),
            (r#"{"model":7}"#, 400, "invalid_model"),
            (r#"{"model":["gpt-4o"]}"#, 400, "invalid_model"),
            (r#"{"model":"gpt4o"}"#, 404, "model_not_found"),
        ] {
            let error = table().prepare(&Bytes::from(body)).unwrap_err();
            assert_eq!((error.status, error.code), (status, code), "{body}");
        }
        let error = table().prepare(&Bytes::from_static(br#"{"model":"gpt-4oo"}"#)).unwrap_err();
        assert!(error.message.ends_with("Did you mean \"gpt-4o\"?"), "{}", error.message);
        let long = format!(r#"{{"model":"{}"}}"#, "é".repeat(10_000));
        let error = table().prepare(&Bytes::from(long)).unwrap_err();
        assert!(error.message.len() < 400, "{}", error.message.len());
    }

    #[test]
    fn models_are_listed() {
        let list = table().describe(None).unwrap();
        let list: serde_json::Value = serde_json::from_str(&list).unwrap();
        assert_eq!(list["data"][1]["id"], "small");
        let one = table().describe(Some("gpt-4o")).unwrap();
        assert!(one.contains(r#""id":"gpt-4o""#), "{one}");
        assert_eq!(table().describe(Some("x")).unwrap_err().status, 404);
    }
}
