//! The models of a handler, and the model that a request names.

use message::Request;
use plugin::Condition;
use serde_json::json;
use settings::Size;

use crate::api_error::ApiError;
use crate::prompt::Prompt;
use crate::settings::{AiProxy, TargetSettings};
use crate::target::Target;

/// The longest name of a model that an error repeats.
const NAME_SHOWN_MAX: usize = 128;

/// A model that clients may name.
#[derive(Debug)]
pub(crate) struct Model {
    /// The client's name for it.
    pub(crate) name: String,
    /// Its providers, at least one.
    pub(crate) targets: Vec<Target>,
    /// The requests that may use it.
    when: Option<Condition>,
    pub(crate) prompt: Prompt,
    /// The most bytes of text in a request.
    pub(crate) text_bytes_max: u64,
}

impl Model {
    /// The name and the providers, for `explain`.
    pub(crate) fn describe(&self) -> String {
        let target = |target: &Target| {
            let backup = if target.backup { " (backup)" } else { "" };
            format!("{}{backup}", target.provider_name)
        };
        let targets: Vec<String> = self.targets.iter().map(target).collect();
        format!("{} at {}", self.name, targets.join(", "))
    }
}

/// Which models of a handler exist for a request.
#[derive(Debug)]
pub(crate) struct VisibleModels(Vec<bool>);

/// The models of a handler.
#[derive(Debug)]
pub(crate) struct ModelTable(pub(crate) Vec<Model>);

impl ModelTable {
    /// The models of settings whose references were checked.
    pub(crate) fn of(settings: &AiProxy) -> Option<ModelTable> {
        let providers = &settings.providers.entries;
        let target = |name: &str, target: TargetSettings| {
            let TargetSettings { provider, model, weight, backup } = target;
            Some(Target {
                provider: providers.iter().position(|(name, _)| name.value == provider.value)?,
                provider_name: provider.value,
                model: model.unwrap_or_else(|| name.to_owned()),
                weight,
                backup,
            })
        };
        let models = settings.models.entries.iter().map(|(name, model)| {
            let targets = model.targets().into_iter().map(|each| target(&name.value, each));
            Some(Model {
                name: name.value.clone(),
                targets: targets.collect::<Option<_>>()?,
                when: model.when.clone(),
                prompt: Prompt::new(&settings.prompt, &model.prompt),
                text_bytes_max: model
                    .max_prompt
                    .or(settings.max_prompt)
                    .map_or(u64::MAX, Size::bytes),
            })
        });
        models.collect::<Option<_>>().map(ModelTable)
    }

    /// The models that a request may use.
    pub(crate) fn visible(&self, request: &Request) -> VisibleModels {
        let is_visible =
            |model: &Model| model.when.as_ref().is_none_or(|condition| condition.holds(request));
        VisibleModels(self.0.iter().map(is_visible).collect())
    }

    /// The index of the model of this name.
    pub(crate) fn index_of(&self, name: &str, visible: &VisibleModels) -> Result<usize, ApiError> {
        let index = self.0.iter().position(|model| model.name == name);
        index.filter(|index| visible.0[*index]).ok_or_else(|| self.unknown(name, visible))
    }

    fn unknown(&self, name: &str, visible: &VisibleModels) -> ApiError {
        let shown: String = name.chars().take(NAME_SHOWN_MAX).collect();
        let near = settings::nearest(&shown, self.seen(visible).map(|model| &*model.name));
        let help = near.map(|near| format!(" Did you mean \"{near}\"?")).unwrap_or_default();
        let message = format!("The model \"{shown}\" does not exist.{help}");
        ApiError::of_model(404, "model_not_found", message)
    }

    fn seen(&self, visible: &VisibleModels) -> impl Iterator<Item = &Model> {
        self.0.iter().zip(&visible.0).filter(|(_, seen)| **seen).map(|(model, _)| model)
    }

    /// The list of models, or one of them.
    pub(crate) fn describe(
        &self,
        name: Option<&str>,
        visible: &VisibleModels,
    ) -> Result<String, ApiError> {
        let entry = |model: &Model| {
            let owner = model.targets.first().map(|target| &target.provider_name);
            json!({ "id": model.name, "object": "model", "created": 0, "owned_by": owner })
        };
        Ok(match name {
            Some(name) => entry(&self.0[self.index_of(name, visible)?]),
            None => {
                let all: Vec<_> = self.seen(visible).map(entry).collect();
                json!({ "object": "list", "data": all })
            }
        }
        .to_string())
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::{ModelTable, VisibleModels};
    use crate::endpoint::Endpoint;
    use crate::request_body::RequestBody;
    use crate::settings::AiProxy;
    use bytes::Bytes;
    use settings::{Node, node};

    /// The models of these settings, at the providers `a` and `b`.
    pub(crate) fn models(models: Node) -> ModelTable {
        let mut settings = node!({
            "providers": { "a": { "url": "http://a/v1" }, "b": { "url": "http://b/v1" } }
        });
        let settings::Value::Map(entries) = &mut settings.value else { panic!("a map") };
        let settings::Value::Map(named) = node!({ "models": {} }).value else { panic!("a map") };
        entries.extend(named.into_iter().map(|(key, _)| (key, models.clone())));
        let settings: AiProxy = settings::read(&settings).unwrap();
        ModelTable::of(&settings).unwrap()
    }

    pub(crate) fn all(table: &ModelTable) -> VisibleModels {
        VisibleModels(vec![true; table.0.len()])
    }

    fn table() -> ModelTable {
        models(node!({
            "gpt-4o": { "provider": "a" }, "small": { "provider": "b", "model": "org/llama" }
        }))
    }

    fn read(body: &str, visible: &VisibleModels) -> Result<RequestBody, super::ApiError> {
        let content = Bytes::from(body.to_owned());
        RequestBody::read(content, Endpoint::ChatCompletions, &table(), visible)
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
            let error = read(body, &all(&table())).unwrap_err();
            assert_eq!((error.status, error.code), (status, code), "{body}");
        }
        let error = read(r#"{"model":"gpt-4oo"}"#, &all(&table())).unwrap_err();
        assert!(error.message.ends_with("Did you mean \"gpt-4o\"?"), "{}", error.message);
        let long = format!(r#"{{"model":"{}"}}"#, "é".repeat(10_000));
        let error = read(&long, &all(&table())).unwrap_err();
        assert!(error.message.len() < 400, "{}", error.message.len());
    }

    #[test]
    fn models_are_listed() {
        let (table, all) = (table(), all(&table()));
        let list = table.describe(None, &all).unwrap();
        let list: serde_json::Value = serde_json::from_str(&list).unwrap();
        assert_eq!(list["data"][1]["id"], "small");
        let one = table.describe(Some("gpt-4o"), &all).unwrap();
        assert!(one.contains(r#""id":"gpt-4o""#), "{one}");
        assert_eq!(table.describe(Some("x"), &all).unwrap_err().status, 404);
    }

    #[test]
    fn a_hidden_model_does_not_exist() {
        let visible = VisibleModels(vec![false, true]);
        let hidden = read(r#"{"model":"gpt-4o"}"#, &visible).unwrap_err();
        assert_eq!((hidden.status, hidden.code), (404, "model_not_found"));
        assert!(!hidden.message.contains("Did you mean"), "{}", hidden.message);
        assert!(read(r#"{"model":"small"}"#, &visible).is_ok());
        let list = table().describe(None, &visible).unwrap();
        assert!(!list.contains("gpt-4o") && list.contains("small"), "{list}");
        assert_eq!(table().describe(Some("gpt-4o"), &visible).unwrap_err().status, 404);
    }
}
