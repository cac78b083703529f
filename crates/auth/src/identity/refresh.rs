//! Fetches the keys of providers, on the control thread.
//!
//! Promises that a fetch has a time and a size, that a failed one changes no keys until they are
//! too old, and that a provider that fails is retried with growing pauses.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use http_client::{Client, ClientOptions, ClientSettings, PoolLimits, Url};
use message::{Body, Headers, Request, Response};
use net::Resolver;
use net::clock;
use net::task::JoinHandle;
use plugin::{Shared, WorkerContext};
use sha2::{Digest, Sha256};
use telemetry::log::Level;
use telemetry::{SharedCounter, SharedGauge, Telemetry, event, families};
use wire::cache_control::directives;
use wire::{Known, Method};

use super::keys::ProviderKeys;
use super::{IdentityProvider, IdentitySet, KeySetLocation};
use crate::token::{Key, provided_key_set};

/// The largest key set.
const KEY_SET_BYTES_MAX: u64 = 512 * 1024;
/// The bounds of `max-age`.
const MAX_AGE_MIN: Duration = Duration::from_secs(60);
const MAX_AGE_MAX: Duration = Duration::from_secs(24 * 3600);
/// The pause after a first failure, which doubles with each, and its bound.
const RETRY_MIN: Duration = Duration::from_secs(1);
const RETRY_MAX: Duration = Duration::from_secs(60);

/// The tasks that fetch keys.
pub struct IdentityTasks {
    shared: Arc<Shared>,
    telemetry: Arc<Telemetry>,
    tasks: RefCell<Vec<Task>>,
}

struct Task {
    provider: Arc<IdentityProvider>,
    keys: Arc<ProviderKeys>,
    handle: JoinHandle<()>,
}

impl Drop for Task {
    fn drop(&mut self) {
        self.handle.abort();
    }
}

impl Task {
    fn serves(&self, provider: &IdentityProvider) -> bool {
        self.provider.name.value == provider.name.value
            && self.provider.settings == provider.settings
            && self.provider.tls == provider.tls
    }
}

impl IdentityTasks {
    pub fn new(shared: &Arc<Shared>, telemetry: &Arc<Telemetry>) -> IdentityTasks {
        let (shared, telemetry) = (shared.clone(), telemetry.clone());
        IdentityTasks { shared, telemetry, tasks: RefCell::default() }
    }

    /// Starts to fetch the keys of these providers, unless they are being fetched already.
    pub fn start(&self, set: &IdentitySet) {
        let mut tasks = self.tasks.borrow_mut();
        for provider in &set.providers {
            let KeySetLocation::Url(url) = &provider.settings.jwks else { continue };
            if tasks.iter().any(|task| task.serves(provider)) {
                continue;
            }
            let keys = provider.provider_keys(url, &self.shared);
            let fetcher = Fetcher {
                client: client(provider),
                names: Resolver::system(),
                url: url.clone(),
                provider: provider.clone(),
                keys: keys.clone(),
                metrics: Metrics::new(&self.telemetry, provider.name()),
            };
            let handle = net::task::spawn_local(fetcher.run());
            tasks.push(Task { provider: provider.clone(), keys, handle });
        }
    }

    /// Stops to fetch the keys of all other providers.
    pub fn retain(&self, set: &IdentitySet) {
        let is_wanted = |task: &Task| set.providers.iter().any(|provider| task.serves(provider));
        self.tasks.borrow_mut().retain(is_wanted);
    }

    /// A sentence for each provider that fails.
    pub fn problems(&self) -> Vec<String> {
        let tasks = self.tasks.borrow();
        let failed = tasks.iter().filter_map(|task| {
            let state = task.keys.read();
            let (name, why) = (task.provider.name(), state.error.as_ref()?);
            Some(match &state.fetched {
                Some((at, _)) if state.keys.is_some() => {
                    let age_s = clock::now().since(*at).as_secs();
                    format!("identity {name}: {why}; keys of {age_s} s ago are in use")
                }
                _ => format!("identity {name}: {why}; it has no keys"),
            })
        });
        failed.collect()
    }
}

fn client(provider: &IdentityProvider) -> Client {
    let settings = ClientSettings {
        name: format!("identity {}", provider.name()),
        tls: provider.tls.clone(),
        server_name: provider.settings.tls.as_ref().and_then(|tls| tls.server_name()),
        connect: provider.settings.timeout.get(),
        // There is a fetch every few minutes.
        limits: PoolLimits { max_idle: 0, ..PoolLimits::default() },
        options: Rc::new(ClientOptions { via: false, ..ClientOptions::default() }),
    };
    Client::new(&WorkerContext::default(), settings)
}

struct Metrics {
    fetched: Arc<SharedCounter>,
    failed: Arc<SharedCounter>,
    keys: Arc<SharedGauge>,
    fetched_at_s: Arc<SharedGauge>,
}

impl Metrics {
    fn new(telemetry: &Telemetry, name: &str) -> Metrics {
        let fetches = |result| telemetry.counter(&families::IDENTITY_FETCHES, &[name, result]);
        Metrics {
            fetched: fetches("fetched"),
            failed: fetches("failed"),
            keys: telemetry.gauge(&families::IDENTITY_KEYS, &[name]),
            fetched_at_s: telemetry.gauge(&families::IDENTITY_FETCHED_AT, &[name]),
        }
    }
}

/// Keeps the keys of one provider up to date.
struct Fetcher {
    client: Client,
    names: Resolver,
    url: Url,
    provider: Arc<IdentityProvider>,
    keys: Arc<ProviderKeys>,
    metrics: Metrics,
}

/// A key set that was fetched.
struct FetchedKeys {
    keys: Vec<Key>,
    digest: [u8; 32],
    lifetime: Duration,
}

impl Fetcher {
    async fn run(self) {
        let mut retry = RETRY_MIN;
        loop {
            let due = self.keys.read().due;
            let wait = due.since(clock::now());
            if !wait.is_zero() {
                net::timer::within(wait, self.keys.requested.notified()).await;
            }
            self.keys.begin_fetch();
            match self.fetch().await {
                Ok(fetched) => {
                    retry = RETRY_MIN;
                    self.fetched(fetched);
                }
                Err(why) => {
                    self.failed(&why, retry);
                    retry = (retry * 2).min(RETRY_MAX);
                }
            }
        }
    }

    async fn fetch(&self) -> Result<FetchedKeys, String> {
        let mut headers = Headers::new();
        headers.append(Known::Host, &self.url.authority);
        headers.append(Known::Accept, "application/jwk-set+json, application/json");
        let request = Request::made_up(Method::Get, self.url.target.clone(), headers);
        let timeout = self.provider.settings.timeout.get();
        let (names, url) = (&self.names, &self.url);
        let mut response = self
            .client
            .fetch(names, url, &request, Body::Empty, timeout, KEY_SET_BYTES_MAX)
            .await
            .map_err(|fault| fault.detail.into_owned())?;
        if response.status != 200 {
            return Err(format!("the response has the status {}", response.status));
        }
        let content = response.body.collect(KEY_SET_BYTES_MAX).await;
        let content = content.map_err(|fault| fault.detail.into_owned())?;
        let keys = provided_key_set(&content).map_err(|why| format!("the key set {why}"))?;
        let lifetime = lifetime(&response).unwrap_or(self.provider.settings.refresh.get());
        Ok(FetchedKeys { keys, digest: Sha256::digest(&content).into(), lifetime })
    }

    fn fetched(&self, fetched: FetchedKeys) {
        let FetchedKeys { keys, digest, lifetime } = fetched;
        let count = keys.len();
        let has_changed = self.keys.end_fetch(|state| {
            let is_same = state.fetched.is_some_and(|(_, before)| before == digest);
            if !is_same || state.keys.is_none() {
                state.keys = Some(keys.into());
            }
            let now = clock::now();
            (state.fetched, state.error) = (Some((now, digest)), None);
            state.due = now.after(lifetime);
        });
        self.metrics.fetched.inc();
        self.metrics.keys.set(i64::try_from(count).unwrap_or(i64::MAX));
        self.metrics.fetched_at_s.set(i64::try_from(clock::wall_secs()).unwrap_or(i64::MAX));
        if has_changed {
            event!(
                Level::Info,
                "an identity provider has other keys",
                event = "identity_keys_changed",
                identity = self.provider.name(),
                keys = count
            );
        }
    }

    fn failed(&self, why: &str, retry: Duration) {
        let why = format!("cannot fetch the keys from {}: {why}", self.url);
        let stale = self.provider.settings.stale.get();
        let mut has_keys = false;
        self.keys.end_fetch(|state| {
            let now = clock::now();
            let until = state.fetched.map(|(at, _)| at.after(stale));
            if until.is_none_or(|until| until <= now) {
                state.keys = None;
            }
            has_keys = state.keys.is_some();
            state.due = now.after(retry);
            if let Some(until) = until.filter(|_| has_keys) {
                state.due = state.due.min(until);
            }
            state.error = Some(why.clone());
        });
        self.metrics.failed.inc();
        if !has_keys {
            self.metrics.keys.set(0);
        }
        event!(
            Level::Warn,
            "the keys of an identity provider could not be fetched; the last known ones are used",
            event = "identity_fetch_failed",
            identity = self.provider.name(),
            error = why,
            has_keys = has_keys,
            retry_in_s = retry.as_secs()
        );
    }
}

/// How long a response may be used, within bounds (RFC 9111 5.2.2.1).
fn lifetime(response: &Response) -> Option<Duration> {
    let fields = response.headers.get_all(Known::CacheControl);
    let max_age = fields.flat_map(directives).find(|directive| directive.is("max-age"))?;
    let seconds = Duration::from_secs(u64::from(max_age.seconds().unwrap_or(0)));
    Some(seconds.clamp(MAX_AGE_MIN, MAX_AGE_MAX))
}
