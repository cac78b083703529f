//! The settings of `ai_proxy`, checked.

use http_client::Url;
use plugin::Condition;
use settings::{Duration, Named, Node, Reader, Secret, Setting, Size, Spanned};
use tls_settings::UpstreamTlsSettings;
use traffic::AmountQuotaSettings;

use crate::endpoint::Dialect;
use crate::prompt::PromptSettings;

/// Forwards requests of OpenAI's API to the provider of their model.
///
/// It responds to `/v1/chat/completions`, `/v1/completions`, `/v1/embeddings` and `/v1/responses`,
/// and to `/v1/models` with the names of `models`. Of the client's headers only `Accept` is
/// forwarded: a credential of the client never reaches a provider. Responses, also streamed ones,
/// are passed through, translated with `api: anthropic`; a provider's 401, 403 or redirect becomes
/// 502.
#[derive(Clone, Debug, PartialEq, Setting)]
#[setting(check = check)]
pub(crate) struct AiProxy {
    /// The providers by name.
    #[setting(example = { "local": { "url": "http://127.0.0.1:11434/v1" } })]
    pub(crate) providers: Named<ProviderSettings>,
    /// The models by the names that clients use.
    #[setting(example = { "gpt-4o": { "provider": "openai" } })]
    pub(crate) models: Named<ModelSettings>,
    /// The providers that a request is sent to one after the other, until one responds: without it
    /// at most three, each once. The next one is used after a failed connection, no response in
    /// time, a redirect, 401, 403, 408, 429 or 5xx, before the client has got anything.
    #[setting(default = 3, range = 1..=16)]
    pub(crate) attempts: u32,
    /// Ejection of failing providers, for each model of theirs.
    #[setting(default = {})]
    pub(crate) ejection: Ejection,
    /// Limits on tokens, at most eight. A request gets 429 once one of them is reached, and counts
    /// with the tokens of its response at the end.
    #[setting(
        default = [],
        example = [{ "name": "tokens-per-minute", "limit": 20000, "period": "1m" }]
    )]
    pub(crate) token_limits: Vec<AmountQuotaSettings>,
    /// Messages that are added to the requests for every model, around those of the model.
    #[setting(default = {})]
    pub(crate) prompt: PromptSettings,
    /// The most text of a request: the bytes of all its strings without the added messages. More is
    /// rejected with 400. Without it only `max_body` is a limit.
    #[setting(range = "1B"..="64MiB", example = "200KiB")]
    pub(crate) max_prompt: Option<Size>,
    /// The largest request body; a larger one is rejected with 413.
    #[setting(default = "4MiB", range = "1KiB"..="64MiB")]
    pub(crate) max_body: Size,
    /// The longest time for a connection to a provider.
    #[setting(default = "5s", range = "10ms"..="1m")]
    pub(crate) connect: Duration,
    /// The longest time to the head of a response, with the connection; then the next provider is
    /// used, and 504 is sent if there is none.
    #[setting(default = "2m", range = "10ms"..="1h")]
    pub(crate) response: Duration,
    /// The longest pause within a response; then it is cut.
    #[setting(default = "1m", range = "10ms"..="1h")]
    pub(crate) idle: Duration,
}

/// A provider.
#[derive(Clone, Debug, PartialEq, Setting)]
#[setting(check = check_provider)]
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
    /// The version of the API: 2024-10-21 of Azure and 2023-06-01 of Anthropic unless set.
    #[setting(example = "2024-10-21")]
    pub(crate) api_version: Option<Spanned<String>>,
    /// The most tokens of a response to a request that does not say it, with `api: anthropic`.
    #[setting(default = 4096, range = 1..=1000000)]
    pub(crate) max_tokens: u32,
    /// Asks for the usage at the end of streams (`stream_options.include_usage`), whose event is
    /// removed for clients that have not asked. Without it tokens of streams are estimated: set it
    /// to false only for a server that rejects `stream_options`.
    #[setting(default = true)]
    pub(crate) stream_usage: bool,
    /// TLS to the provider.
    #[setting(example = { "ca": "internal.pem" })]
    pub(crate) tls: Option<Spanned<UpstreamTlsSettings>>,
}

/// A model.
#[derive(Clone, Debug, PartialEq, Setting)]
pub(crate) struct ModelSettings {
    /// The name of its provider; instead of `providers`.
    #[setting(example = "openai")]
    pub(crate) provider: Option<Spanned<String>>,
    /// The provider's name for the model, or the name of an Azure deployment; the same unless set.
    #[setting(example = "gpt-4o-2024-11-20")]
    pub(crate) model: Option<String>,
    /// Several providers: each request is sent to one of them by weight, and to another if it
    /// fails.
    #[setting(
        default = [],
        example = ["openai", { "provider": "azure", "model": "team-gpt", "backup": true }]
    )]
    pub(crate) providers: Vec<TargetSettings>,
    /// The requests that may use the model, by consumer or group, for example. For all others it
    /// does not exist.
    #[setting(example = { "group": ["gold"] })]
    pub(crate) when: Option<Condition>,
    /// Messages that are added to the requests for this model.
    #[setting(default = {})]
    pub(crate) prompt: PromptSettings,
    /// The most text of a request for this model, instead of the handler's.
    #[setting(range = "1B"..="64MiB", example = "50KiB")]
    pub(crate) max_prompt: Option<Size>,
}

/// One of the providers of a model.
#[derive(Clone, Debug, PartialEq, Setting)]
#[setting(short = provider)]
pub(crate) struct TargetSettings {
    /// The name of the provider.
    #[setting(example = "azure")]
    pub(crate) provider: Spanned<String>,
    /// The provider's name for the model; the same as the client's unless set.
    #[setting(example = "team-gpt")]
    pub(crate) model: Option<String>,
    /// Its share of the requests, compared to the other providers.
    #[setting(default = 1, range = 1..=1000)]
    pub(crate) weight: u32,
    /// Used only when no other provider is.
    #[setting(default = false)]
    pub(crate) backup: bool,
}

/// Ejection of a model at a provider: while it lasts, other providers of the model come first.
#[derive(Clone, Copy, Debug, PartialEq, Setting)]
#[setting(default)]
pub(crate) struct Ejection {
    /// Failures in a row that eject it; 0 disables it.
    #[setting(default = 3, range = 0..=10000)]
    pub(crate) failures: u32,
    /// Duration of an ejection. After it one more failure ejects again, and a success ends the row.
    #[setting(default = "30s", range = "10ms"..="1h")]
    pub(crate) ejected_for: Duration,
    /// The longest ejection after a 429 or 503 with `Retry-After`, whose time it otherwise lasts;
    /// `0s` ignores the field.
    #[setting(default = "10m", range = "0s"..="1h")]
    pub(crate) max_retry_after: Duration,
}

/// Most limits of a handler.
const TOKEN_LIMITS_MAX: usize = 8;
/// Most providers of a model.
pub(crate) const TARGETS_MAX: usize = 16;

impl ModelSettings {
    /// The providers, however they are written.
    pub(crate) fn targets(&self) -> Vec<TargetSettings> {
        let only = self.provider.iter().map(|provider| TargetSettings {
            provider: provider.clone(),
            model: self.model.clone(),
            weight: 1,
            backup: false,
        });
        only.chain(self.providers.iter().cloned()).collect()
    }
}

fn check(settings: &AiProxy, node: &Node, reader: &mut Reader<'_>) {
    if settings.models.names().next().is_none() {
        reader.error(node.span, "`models` is empty: every request would be rejected");
    }
    for (_, provider) in &settings.providers.entries {
        provider.check(reader);
    }
    let limits = &settings.token_limits;
    let span = node.get("token_limits").unwrap_or(node).span;
    if limits.len() > TOKEN_LIMITS_MAX {
        reader.error(span, format!("a handler has at most {TOKEN_LIMITS_MAX} token limits"));
    }
    for (at, limit) in limits.iter().enumerate() {
        if limits[..at].iter().any(|other| other.name == limit.name) {
            reader.error(span, format!("two token limits are called \"{}\"", limit.name));
        }
    }
    for (name, model) in &settings.models.entries {
        if model.provider.is_some() != model.providers.is_empty() {
            reader.error(name.span, "a model has either `provider` or `providers`");
        }
        if model.model.is_some() && model.provider.is_none() {
            reader.error(name.span, "`model` belongs to an entry of `providers`");
        }
        let targets = model.targets();
        if targets.len() > TARGETS_MAX {
            reader.error(name.span, format!("a model has at most {TARGETS_MAX} providers"));
        }
        if !targets.is_empty() && targets.iter().all(|target| target.backup) {
            reader.error(name.span, "all providers are backups: one has to be a first choice");
        }
        for target in &targets {
            check_target(target, &name.value, settings, reader);
        }
    }
}

fn check_provider(settings: &ProviderSettings, node: &Node, reader: &mut Reader<'_>) {
    if settings.api == Dialect::OpenAi {
        let why = "requests with api: openai carry no version";
        reader.no_effect(node, &["api_version"], why);
    }
    if settings.api != Dialect::Anthropic {
        reader.no_effect(node, &["max_tokens"], "it belongs to api: anthropic");
    }
}

fn check_target(target: &TargetSettings, name: &str, settings: &AiProxy, reader: &mut Reader<'_>) {
    let wanted = &target.provider;
    if !settings.providers.names().any(|known| known == wanted.value) {
        let known: Vec<&str> = settings.providers.names().collect();
        reader.report().unknown(wanted.span, "provider", &wanted.value, known);
    }
    let api = settings.providers.get(wanted).map(|provider| provider.api);
    let deployment = target.model.as_deref().unwrap_or(name);
    if api == Some(Dialect::Azure) && !is_path_word(deployment) {
        let why = format!("\"{deployment}\" is not the name of an Azure deployment");
        reader.error(wanted.span, why).help("letters, digits, `-`, `_` and `.`");
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
        if let Some(version) = &self.api_version
            && !is_path_word(&version.value)
        {
            reader.error(version.span, "an API version is a date such as 2024-10-21");
        }
    }
}

fn is_path_word(word: &str) -> bool {
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
    !word.is_empty() && word.bytes().all(allowed) && word.bytes().any(|byte| byte != b'.')
}
