//! The settings of `ai_proxy`, checked.

use http_client::Url;
use settings::{Duration, Named, Node, Reader, Secret, Setting, Size, Spanned};
use tls_settings::UpstreamTlsSettings;

use crate::endpoint::Dialect;

/// Forwards requests of OpenAI's API to the provider of their model.
///
/// It responds to `/v1/chat/completions`, `/v1/completions`, `/v1/embeddings` and `/v1/responses`,
/// and to `/v1/models` with the names of `models`. Of the client's headers only `Accept` and
/// `Content-Type` are forwarded: a credential of the client never reaches a provider. Responses,
/// also streamed ones, are passed through unchanged; a provider's 401, 403 or redirect becomes 502.
#[derive(Clone, Debug, PartialEq, Setting)]
#[setting(check = check)]
pub(crate) struct AiProxy {
    /// The providers by name.
    #[setting(example = { "local": { "url": "http://127.0.0.1:11434/v1" } })]
    pub(crate) providers: Named<ProviderSettings>,
    /// The models by the names that clients use.
    #[setting(example = { "gpt-4o": { "provider": "openai" } })]
    pub(crate) models: Named<ModelSettings>,
    /// The largest request body; a larger one is rejected with 413.
    #[setting(default = "4MiB", range = "1KiB"..="64MiB")]
    pub(crate) max_body: Size,
    /// The longest time for a connection to a provider.
    #[setting(default = "5s", range = "10ms"..="1m")]
    pub(crate) connect: Duration,
    /// The longest time to the head of a response, with the connection; then 504.
    #[setting(default = "2m", range = "10ms"..="1h")]
    pub(crate) response: Duration,
    /// The longest pause within a response; then it is cut.
    #[setting(default = "1m", range = "10ms"..="1h")]
    pub(crate) idle: Duration,
}

/// A provider.
#[derive(Clone, Debug, PartialEq, Setting)]
pub(crate) struct ProviderSettings {
    /// The base of its paths: for most providers with `/v1`, for Azure the resource alone.
    #[setting(example = "https://api.openai.com/v1")]
    pub(crate) url: Spanned<Url>,
    /// The dialect of its API.
    #[setting(default = "openai")]
    pub(crate) api: Dialect,
    /// The key that the requests to it carry; none unless set, as for servers of one's own.
    #[setting(example = "${OPENAI_KEY}")]
    pub(crate) key: Option<Spanned<Secret>>,
    /// The version of Azure's API.
    #[setting(default = "2024-10-21")]
    pub(crate) api_version: Spanned<String>,
    /// TLS to the provider.
    #[setting(example = { "ca": "internal.pem" })]
    pub(crate) tls: Option<Spanned<UpstreamTlsSettings>>,
}

/// A model.
#[derive(Clone, Debug, PartialEq, Setting)]
pub(crate) struct ModelSettings {
    /// The name of its provider.
    #[setting(example = "openai")]
    pub(crate) provider: Spanned<String>,
    /// The provider's name for the model, or the name of an Azure deployment; the same unless set.
    #[setting(example = "gpt-4o-2024-11-20")]
    pub(crate) model: Option<String>,
}

fn check(settings: &AiProxy, node: &Node, reader: &mut Reader<'_>) {
    if settings.models.names().next().is_none() {
        reader.error(node.span, "`models` is empty: every request would be rejected");
    }
    for (_, provider) in &settings.providers.entries {
        provider.check(reader);
    }
    for (name, model) in &settings.models.entries {
        let wanted = &model.provider;
        if !settings.providers.names().any(|known| known == wanted.value) {
            let known: Vec<&str> = settings.providers.names().collect();
            reader.report().unknown(wanted.span, "provider", &wanted.value, known);
        }
        let api = settings.providers.get(wanted).map(|provider| provider.api);
        let deployment = model.model.as_ref().unwrap_or(&name.value);
        if api == Some(Dialect::Azure) && !is_path_word(deployment) {
            let why = format!("\"{deployment}\" is not the name of an Azure deployment");
            reader.error(name.span, why).help("letters, digits, `-`, `_` and `.`");
        }
    }
}

impl ProviderSettings {
    fn check(&self, reader: &mut Reader<'_>) {
        if self.url.value.target.query().is_some() {
            reader.error(self.url.span, "the `url` of a provider has no query");
        }
        if let (Some(tls), false) = (&self.tls, self.url.value.is_secure) {
            reader.error(tls.span, "`tls` has no effect: the url is not of https");
        }
        if let Some(key) = &self.key {
            let is_visible = key.value.expose().iter().all(|byte| byte.is_ascii_graphic());
            if !is_visible {
                reader.error(key.span, "the key has characters that a header cannot have");
            }
        }
        if !is_path_word(&self.api_version.value) {
            reader.error(self.api_version.span, "an API version is a date such as 2024-10-21");
        }
    }
}

fn is_path_word(word: &str) -> bool {
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
    !word.is_empty() && word.bytes().all(allowed) && word.bytes().any(|byte| byte != b'.')
}
