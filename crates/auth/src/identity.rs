//! The section `identity`: providers whose keys verify tokens, referred to by name.
//!
//! Owns the settings of a provider and the keys that are fetched from it. The filters that name a
//! provider share its keys, on all workers; a task on the control thread fetches them. Promises
//! that only that task makes requests, so that checking a configuration makes none.

mod keys;
mod refresh;

use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use http_client::Url;
use net::tls::ClientTls;
use plugin::Shared;
use settings::{Duration, Named, Node, OneOrMany, Reader, Schema, SchemaBuilder, Setting, Spanned};
use tls_settings::UpstreamTlsSettings;

use crate::token::KeySetFile;
pub(crate) use keys::{KeySource, KeyUse};
use keys::{ProviderKeys, SourceKey};
pub use refresh::IdentityTasks;

/// A provider of identities: the keys that verify its tokens, and the claims that they must have.
#[derive(Clone, Debug, PartialEq, Setting)]
#[setting(check = check)]
pub struct IdentitySettings {
    /// The JSON Web Key Set (RFC 7517) of the provider: its URL, or a file. The set of a URL is
    /// fetched in the background, and again after its `Cache-Control: max-age`, between 1 minute
    /// and 24 hours. Shared secrets in it are skipped.
    #[setting(example = "https://id.example.com/keys")]
    jwks: KeySetLocation,
    /// The accepted issuers; any if there are none.
    #[setting(default = [], example = ["https://id.example.com"])]
    issuer: OneOrMany<String>,
    /// Audiences, one of which a token has to name. Unless set, a token that names an audience is
    /// rejected.
    #[setting(default = [], example = ["shop"])]
    audience: OneOrMany<String>,
    /// TLS to the provider.
    #[setting(example = { "ca": "internal.pem" })]
    tls: Option<Spanned<UpstreamTlsSettings>>,
    /// The interval of fetches if the response has no `max-age`.
    #[setting(default = "15m", range = "1m"..="24h")]
    refresh: Duration,
    /// The shortest interval of fetches that tokens with an unknown key identifier cause. Their
    /// requests wait for the fetch.
    #[setting(default = "30s", range = "1s"..="1h")]
    unknown_key: Duration,
    /// How long the last known keys are used while fetches fail. After that, and before the first
    /// fetch has succeeded, requests get 503.
    #[setting(default = "24h", range = "1m"..="720h")]
    stale: Duration,
    /// The longest time for a fetch.
    #[setting(default = "5s", range = "100ms"..="1m")]
    timeout: Duration,
}

fn check(settings: &IdentitySettings, node: &Node, reader: &mut Reader<'_>) {
    if let KeySetLocation::File(..) = settings.jwks {
        let why = "the keys are in a file, which is read again when it changes";
        reader.no_effect(node, &["refresh", "stale", "timeout", "unknown_key"], why);
    }
}

/// The location of a key set.
#[derive(Clone, Debug)]
enum KeySetLocation {
    Url(Url),
    File(String, KeySetFile),
}

impl PartialEq for KeySetLocation {
    fn eq(&self, other: &Self) -> bool {
        match (self, other) {
            (KeySetLocation::Url(one), KeySetLocation::Url(other)) => one == other,
            (KeySetLocation::File(one, _), KeySetLocation::File(other, _)) => one == other,
            _ => false,
        }
    }
}

impl Setting for KeySetLocation {
    fn schema(_: &mut SchemaBuilder) -> Schema {
        Schema::text("URL or path")
    }

    fn read(node: &Node, reader: &mut Reader<'_>) -> Option<Self> {
        let text = String::read(node, reader)?;
        if text.contains("://") {
            return Url::read(node, reader).map(KeySetLocation::Url);
        }
        KeySetFile::read(node, reader).map(|set| KeySetLocation::File(text, set))
    }
}

/// A provider of a configuration, checked and immutable.
pub(crate) struct IdentityProvider {
    name: Spanned<String>,
    settings: IdentitySettings,
    tls: Option<ClientTls>,
    /// True if a filter names it.
    is_used: AtomicBool,
}

impl IdentityProvider {
    fn new(
        name: &Spanned<String>,
        settings: &IdentitySettings,
        reader: &mut Reader<'_>,
    ) -> Option<IdentityProvider> {
        let is_secure = matches!(&settings.jwks, KeySetLocation::Url(url) if url.is_secure);
        if let (Some(tls), false) = (&settings.tls, is_secure) {
            reader.error(tls.span, "`tls` has no effect: jwks is not a URL of https");
        }
        let tls = match is_secure {
            true => Some(UpstreamTlsSettings::client(settings.tls.as_ref(), name.span, reader)?),
            false => None,
        };
        let (name, settings) = (name.clone(), settings.clone());
        Some(IdentityProvider { name, settings, tls, is_used: AtomicBool::new(false) })
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    pub(crate) fn issuers(&self) -> &[String] {
        &self.settings.issuer
    }

    pub(crate) fn audiences(&self) -> &[String] {
        &self.settings.audience
    }

    /// The keys as workers use them.
    pub(crate) fn keys(&self, shared: &Shared) -> KeySource {
        match &self.settings.jwks {
            KeySetLocation::File(_, set) => KeySource::Fixed(set.0.as_slice().into()),
            KeySetLocation::Url(url) => KeySource::Provider {
                keys: self.provider_keys(url, shared),
                cooldown: self.settings.unknown_key.get(),
                // The task ends a fetch in time; a little later it is not running any more.
                timeout: self.settings.timeout.get() + std::time::Duration::from_secs(1),
            },
        }
    }

    fn provider_keys(&self, url: &Url, shared: &Shared) -> Arc<ProviderKeys> {
        let key = SourceKey {
            name: self.name.value.clone(),
            url: url.to_string(),
            tls: self.tls.clone(),
        };
        shared.get(key, ProviderKeys::default)
    }
}

/// The providers of a configuration.
#[derive(Default)]
pub struct IdentitySet {
    providers: Vec<Arc<IdentityProvider>>,
    /// Providers with an error that was reported already.
    broken: Vec<String>,
}

impl IdentitySet {
    /// Checks the section. Filters that are read afterwards with this reader find the providers by
    /// their names.
    pub fn provide(named: &Named<IdentitySettings>, reader: &mut Reader<'_>) -> Arc<IdentitySet> {
        let mut set = IdentitySet { broken: named.broken.clone(), ..IdentitySet::default() };
        for (name, settings) in &named.entries {
            match IdentityProvider::new(name, settings, reader) {
                Some(provider) => set.providers.push(Arc::new(provider)),
                None => set.broken.push(name.value.clone()),
            }
        }
        let set = Arc::new(set);
        reader.provide(set.clone());
        set
    }

    /// The providers whose keys come over plain HTTP from another machine, so that an attacker on
    /// the network can replace them and sign tokens.
    pub fn fetched_in_clear(&self) -> impl Iterator<Item = &Spanned<String>> {
        let in_clear = |provider: &&Arc<IdentityProvider>| match &provider.settings.jwks {
            KeySetLocation::Url(url) => in_clear(url),
            KeySetLocation::File(..) => false,
        };
        self.providers.iter().filter(in_clear).map(|provider| &provider.name)
    }

    /// The providers that no filter names.
    pub fn unused(&self) -> impl Iterator<Item = &Spanned<String>> {
        let unused = |provider: &&Arc<IdentityProvider>| !provider.is_used.load(Ordering::Relaxed);
        self.providers.iter().filter(unused).map(|provider| &provider.name)
    }
}

/// True if requests to a URL leave this machine in clear text.
pub(crate) fn in_clear(url: &Url) -> bool {
    let host = &*url.host;
    let is_name = host == "localhost" || host.ends_with(".localhost");
    let is_local = is_name || host.parse().is_ok_and(|ip: IpAddr| ip.is_loopback());
    !url.is_secure && !is_local
}

/// The provider of a name under `identity`.
#[derive(Clone)]
pub(crate) struct IdentityName(pub(crate) Option<Arc<IdentityProvider>>);

impl std::fmt::Debug for IdentityName {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("IdentityName").field(&self.0.as_ref().map(|one| one.name())).finish()
    }
}

impl Setting for IdentityName {
    fn schema(_: &mut SchemaBuilder) -> Schema {
        Schema::text("name under identity")
    }

    fn read(node: &Node, reader: &mut Reader<'_>) -> Option<Self> {
        let name = String::read(node, reader)?;
        let set = reader.provided::<IdentitySet>().unwrap_or_default();
        if let Some(provider) = set.providers.iter().find(|provider| provider.name.value == name) {
            provider.is_used.store(true, Ordering::Relaxed);
            return Some(IdentityName(Some(provider.clone())));
        }
        if !set.broken.contains(&name) {
            let known = set.providers.iter().map(|provider| provider.name());
            let message = format!("there is no provider {} under identity", settings::quote(&name));
            let error = reader.report().with_nearest(node.span, message, &name, known);
            error.rule("undeclared-name").help("write identity: { NAME: { jwks: URL } }");
        }
        Some(IdentityName(None))
    }
}

impl PartialEq for IdentityName {
    fn eq(&self, other: &Self) -> bool {
        let name = |one: &IdentityName| one.0.as_ref().map(|provider| provider.name.value.clone());
        name(self) == name(other)
    }
}
