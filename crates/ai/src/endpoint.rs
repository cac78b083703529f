//! The requests of OpenAI's API that are forwarded, and where a provider has them.

use settings::Setting;

use crate::anthropic;

/// A request that names its model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Endpoint {
    ChatCompletions,
    Completions,
    Embeddings,
    Responses,
}

/// The dialect of a provider's API: its paths, and the header of its key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Setting)]
pub(crate) enum Dialect {
    /// OpenAI, and servers with its API: `url` is the base of its paths, with `/v1`; the key is a
    /// bearer token.
    #[setting(word = "openai")]
    OpenAi,
    /// Azure OpenAI: the model is the name of a deployment in the path; the key is in `api-key`.
    #[setting(word = "azure")]
    Azure,
    /// Anthropic's Messages API, to which chat completions are translated: `url` is the base of its
    /// paths, with `/v1`; the key is in `x-api-key`.
    #[setting(word = "anthropic")]
    Anthropic,
}

impl Dialect {
    /// The version of the API unless one is set.
    pub(crate) fn default_version(self) -> &'static str {
        match self {
            Dialect::OpenAi => "",
            Dialect::Azure => "2024-10-21",
            Dialect::Anthropic => anthropic::VERSION,
        }
    }

    pub(crate) fn has(self, endpoint: Endpoint) -> bool {
        self != Dialect::Anthropic || endpoint == Endpoint::ChatCompletions
    }
}

impl Endpoint {
    const ALL: [Endpoint; 4] = [
        Endpoint::ChatCompletions,
        Endpoint::Completions,
        Endpoint::Embeddings,
        Endpoint::Responses,
    ];

    /// The end point of a path below `/v1/`.
    pub(crate) fn of(path: &str) -> Option<Endpoint> {
        Endpoint::ALL.into_iter().find(|endpoint| endpoint.path() == path)
    }

    fn path(self) -> &'static str {
        match self {
            Endpoint::ChatCompletions => "chat/completions",
            Endpoint::Completions => "completions",
            Endpoint::Embeddings => "embeddings",
            Endpoint::Responses => "responses",
        }
    }

    /// The name of the operation in OpenTelemetry's conventions.
    pub(crate) fn operation(self) -> &'static str {
        match self {
            Endpoint::ChatCompletions | Endpoint::Responses => "chat",
            Endpoint::Completions => "text_completion",
            Endpoint::Embeddings => "embeddings",
        }
    }

    /// True if a stream reports its usage only when `stream_options` asks for it.
    pub(crate) fn has_stream_options(self) -> bool {
        matches!(self, Endpoint::ChatCompletions | Endpoint::Completions)
    }

    /// The target at a provider. `base` is the path of its URL, `deployment` the model's name,
    /// which the settings allow only with characters that a path may have.
    pub(crate) fn target(
        self,
        dialect: Dialect,
        base: &str,
        deployment: &str,
        api: &str,
    ) -> String {
        let base = base.trim_end_matches('/');
        let path = self.path();
        match (dialect, self) {
            (Dialect::OpenAi, _) => format!("{base}/{path}"),
            (Dialect::Anthropic, _) => format!("{base}/messages"),
            // This end point of Azure has no deployment: the model is in the body.
            (Dialect::Azure, Endpoint::Responses) => {
                format!("{base}/openai/{path}?api-version={api}")
            }
            (Dialect::Azure, _) => {
                format!("{base}/openai/deployments/{deployment}/{path}?api-version={api}")
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Dialect, Endpoint};

    #[test]
    fn each_dialect_has_its_paths() {
        for (path, openai, azure) in [
            (
                "chat/completions",
                "/v1/chat/completions",
                "/v1/openai/deployments/m/chat/completions",
            ),
            ("completions", "/v1/completions", "/v1/openai/deployments/m/completions"),
            ("embeddings", "/v1/embeddings", "/v1/openai/deployments/m/embeddings"),
            ("responses", "/v1/responses", "/v1/openai/responses"),
        ] {
            let endpoint = Endpoint::of(path).unwrap();
            assert_eq!(endpoint.target(Dialect::OpenAi, "/v1/", "m", "2"), openai);
            let azure = format!("{azure}?api-version=2");
            assert_eq!(endpoint.target(Dialect::Azure, "/v1", "m", "2"), azure);
        }
        let chat = Endpoint::ChatCompletions;
        assert_eq!(chat.target(Dialect::Anthropic, "/v1", "m", ""), "/v1/messages");
        assert!(Dialect::Anthropic.has(chat) && !Dialect::Anthropic.has(Endpoint::Embeddings));
        assert_eq!(Endpoint::of("chat/completions/"), None);
        assert_eq!(Endpoint::of("images/generations"), None);
    }
}
