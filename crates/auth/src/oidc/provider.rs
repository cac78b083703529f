//! The identity provider: its metadata, its keys, and the requests of the authorization code flow.
//!
//! Promises that every response has a size and a time limit, that redirects are not followed, that
//! the number of requests in flight is bounded, that metadata and keys are fetched once, however
//! many requests of clients wait for them, and that a provider that failed is left alone for a few
//! seconds. Metadata and keys of the last success are used until newer ones are there.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use http_client::{Client, ClientOptions, ClientSettings, PoolLimits, Url};
use message::{Body, Fault, FaultKind, Headers, Request, Response};
use net::Resolver;
use net::tls::ClientTls;
use plugin::{Handler, WorkerContext};
use serde_json::Value as Json;
use tokio::sync::Mutex;
use wire::{Known, Method};

use super::{Endpoints, Oidc};
use crate::form_client::authenticated_form;
use crate::token::{Key, Object, json_object, provided_key_set};

/// The longest response of a provider.
const RESPONSE_BYTES_MAX: u64 = 256 * 1024;
/// Requests to a provider that a worker has in flight.
const REQUESTS_MAX: usize = 64;
/// How long metadata is used before it is fetched again, and keys.
const METADATA_AGE_US: u64 = 3600 * 1_000_000;
/// How long a failure is remembered before the next attempt, and keys before a token with an
/// unknown key fetches them again.
const PAUSE_US: u64 = 10 * 1_000_000;

/// The end points of a provider.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Metadata {
    pub(super) authorization: String,
    token: Url,
    keys: Url,
    userinfo: Option<Url>,
    pub(super) end_session: Option<String>,
    /// True if every authorization response names the issuer (RFC 9207).
    pub(super) names_issuer: bool,
}

/// Something that was fetched, and when on the worker's clock.
struct Fetched<T> {
    value: Rc<T>,
    at_us: u64,
}

/// The provider of a filter, as one worker uses it.
pub(super) struct Provider {
    settings: Arc<Oidc>,
    client: Client,
    names: Resolver,
    /// Reaches the provider in place of `client`.
    handler: RefCell<Option<Rc<dyn Handler>>>,
    metadata: RefCell<Option<Fetched<Metadata>>>,
    keys: RefCell<Option<Fetched<Vec<Key>>>>,
    /// Held while metadata or keys are fetched; the others wait for the result, or fetch if the
    /// client of the first one disconnects.
    fetching_metadata: Mutex<()>,
    fetching_keys: Mutex<()>,
    /// Until then a fetch that failed is not repeated.
    paused_until_us: Cell<u64>,
    requests: Rc<Cell<usize>>,
}

/// Why a request to the provider gave no usable response.
#[derive(Debug)]
pub(super) enum ProviderError {
    /// The provider could not be reached, or failed itself.
    Unavailable(String),
    /// This worker has too many requests in flight, which says nothing of the provider.
    Busy,
    /// The provider rejected the request: an `error` of RFC 6749 5.2.
    Refused(String),
    /// The response is invalid.
    Invalid(&'static str),
}

impl ProviderError {
    /// The response to the client's request. What the provider wrote is for the log alone.
    pub(super) fn fault(&self) -> Fault {
        match self {
            ProviderError::Unavailable(_) | ProviderError::Busy => {
                Fault::new(FaultKind::Unavailable, "the identity provider is not available")
            }
            ProviderError::Refused(_) => {
                Fault::new(FaultKind::Forbidden, "the identity provider refused the login")
            }
            ProviderError::Invalid(why) => Fault::new(FaultKind::Forbidden, *why),
        }
    }

    /// For the log.
    pub(super) fn reason(&self) -> &str {
        match self {
            ProviderError::Unavailable(why) | ProviderError::Refused(why) => why,
            ProviderError::Busy => "too many requests in flight",
            ProviderError::Invalid(why) => why,
        }
    }
}

type Result<T> = std::result::Result<T, ProviderError>;

/// One of the requests in flight.
struct InFlight(Rc<Cell<usize>>);

impl Drop for InFlight {
    fn drop(&mut self) {
        self.0.set(self.0.get() - 1);
    }
}

impl Provider {
    pub(super) fn new(
        settings: &Arc<Oidc>,
        tls: &Option<ClientTls>,
        worker: &WorkerContext,
    ) -> Provider {
        let client = ClientSettings {
            name: "oidc".to_owned(),
            tls: tls.clone(),
            server_name: settings.server_name(),
            connect: settings.timeout.get(),
            limits: PoolLimits::default(),
            options: ClientOptions { via: false, ..ClientOptions::default() }.into(),
        };
        Provider {
            settings: settings.clone(),
            client: Client::new(worker, client),
            names: Resolver::system(),
            handler: RefCell::default(),
            metadata: RefCell::default(),
            keys: RefCell::default(),
            fetching_metadata: Mutex::default(),
            fetching_keys: Mutex::default(),
            paused_until_us: Cell::new(0),
            requests: Rc::default(),
        }
    }

    /// Sends later requests to a handler, if there is one. A new one may succeed where the former
    /// one failed a moment ago.
    pub(super) fn reach_by(&self, handler: Option<Rc<dyn Handler>>) {
        if handler.is_some() {
            self.paused_until_us.set(0);
        }
        self.handler.replace(handler);
    }

    /// The metadata: configured, fetched before, or fetched now.
    pub(super) async fn metadata(&self) -> Result<Rc<Metadata>> {
        if let Some(known) = fresh(&self.metadata, METADATA_AGE_US) {
            return Ok(known);
        }
        let _fetching = self.fetching_metadata.lock().await;
        if let Some(known) = fresh(&self.metadata, METADATA_AGE_US) {
            return Ok(known);
        }
        let made = match &self.settings.endpoints {
            Some(endpoints) => Ok(Metadata::of(endpoints)),
            None => self.unless_paused(self.discover()).await,
        };
        match (made, fresh(&self.metadata, u64::MAX)) {
            (Ok(made), _) => Ok(store(&self.metadata, made)),
            (Err(_), Some(known)) => Ok(known),
            (Err(error), None) => Err(error),
        }
    }

    /// The keys of tokens: at most an hour old if the provider responds, and at most ten seconds if
    /// no key was found for a token.
    pub(super) async fn keys(&self, key_was_unknown: bool) -> Result<Rc<Vec<Key>>> {
        let age_us = if key_was_unknown { PAUSE_US } else { METADATA_AGE_US };
        if let Some(known) = fresh(&self.keys, age_us) {
            return Ok(known);
        }
        let _fetching = self.fetching_keys.lock().await;
        if let Some(known) = fresh(&self.keys, age_us) {
            return Ok(known);
        }
        let metadata = self.metadata().await?;
        let fetch = async {
            let body = self.get(&metadata.keys, None).await?;
            provided_key_set(&body).map_err(|_| ProviderError::Invalid("the keys are invalid"))
        };
        match (self.unless_paused(fetch).await, fresh(&self.keys, u64::MAX)) {
            (Ok(keys), _) => Ok(store(&self.keys, keys)),
            (Err(_), Some(known)) => Ok(known),
            (Err(error), None) => Err(error),
        }
    }

    /// Fetches, unless a fetch failed a moment ago.
    async fn unless_paused<T>(&self, fetch: impl Future<Output = Result<T>>) -> Result<T> {
        if net::clock::now_us() < self.paused_until_us.get() {
            return Err(ProviderError::Unavailable("it failed a moment ago".to_owned()));
        }
        let result = fetch.await;
        if result.as_ref().is_err_and(|error| !matches!(error, ProviderError::Busy)) {
            self.paused_until_us.set(net::clock::now_us() + PAUSE_US);
        }
        result
    }

    /// OpenID Connect Discovery 1.0, 4.
    async fn discover(&self) -> Result<Metadata> {
        let issuer = &self.settings.issuer;
        let url = format!("{}/.well-known/openid-configuration", issuer.trim_end_matches('/'));
        let url: Url =
            url.parse().map_err(|_| ProviderError::Invalid("the issuer is not a URL"))?;
        let body = self.get(&url, None).await?;
        let Some(document) = json_object(&body) else {
            return Err(ProviderError::Invalid("the discovery document is not a JSON object"));
        };
        Metadata::discovered(&document, issuer)
    }

    /// The claims of the user as the provider has them now.
    pub(super) async fn userinfo(&self, access_token: &str) -> Result<Object> {
        let metadata = self.metadata().await?;
        let Some(url) = &metadata.userinfo else {
            return Err(ProviderError::Invalid("the provider has no end point for userinfo"));
        };
        let body = self.get(url, Some(access_token)).await?;
        json_object(&body).ok_or(ProviderError::Invalid("the userinfo is not a JSON object"))
    }

    /// Sends a grant to the token end point (RFC 6749 4.1.3 and 6).
    pub(super) async fn token(&self, grant: &[(&str, &str)]) -> Result<Object> {
        let metadata = self.metadata().await?;
        let Oidc { client_id, client_secret, client_auth, .. } = &*self.settings;
        let (headers, body) =
            authenticated_form(grant, client_id, client_secret.as_ref(), *client_auth);
        let (status, content) = self.send(Method::Post, &metadata.token, headers, body).await?;
        let Some(document) = json_object(&content) else {
            return Err(ProviderError::Unavailable(format!("status {status} without JSON")));
        };
        match status {
            200 => Ok(document),
            // RFC 6749 5.2.
            400 | 401 => {
                let error = document.get("error").and_then(Json::as_str).unwrap_or("unknown");
                Err(ProviderError::Refused(error.escape_debug().take(64).collect()))
            }
            _ => Err(ProviderError::Unavailable(format!("status {status}"))),
        }
    }

    async fn get(&self, url: &Url, bearer: Option<&str>) -> Result<Vec<u8>> {
        let mut headers = Headers::new();
        if let Some(token) = bearer {
            headers.append(Known::Authorization, format!("Bearer {token}"));
        }
        match self.send(Method::Get, url, headers, Body::Empty).await? {
            (200, content) => Ok(content),
            (status, _) => Err(ProviderError::Unavailable(format!("{url}: status {status}"))),
        }
    }

    async fn send(
        &self,
        method: Method,
        url: &Url,
        mut headers: Headers,
        body: Body,
    ) -> Result<(u16, Vec<u8>)> {
        if self.requests.get() >= REQUESTS_MAX {
            return Err(ProviderError::Busy);
        }
        self.requests.set(self.requests.get() + 1);
        let _in_flight = InFlight(self.requests.clone());
        headers.append(Known::Host, &url.authority);
        headers.append(Known::Accept, "application/json");
        let mut request = Request::made_up(method, url.target.clone(), headers);
        let timeout: Duration = self.settings.timeout.get();
        let handler = self.handler.borrow().clone();
        let fetched = match handler {
            Some(handler) => {
                request.body = body;
                let exchange = async {
                    let mut response = handler.handle(&mut request).resolve().await?;
                    Ok((response.status, response.body.collect(RESPONSE_BYTES_MAX).await?))
                };
                let exchange = net::timer::within(timeout, exchange).await;
                exchange.unwrap_or_else(|| Err(Fault::deadline()))
            }
            None => {
                let fetch = self.client.fetch(
                    &self.names,
                    url,
                    &request,
                    body,
                    timeout,
                    RESPONSE_BYTES_MAX,
                );
                async {
                    let Response { status, mut body, .. } = fetch.await?;
                    Ok((status, body.collect(RESPONSE_BYTES_MAX).await?))
                }
                .await
            }
        };
        let failed = |fault: Fault| ProviderError::Unavailable(format!("{url}: {fault}"));
        fetched.map(|(status, content)| (status, content.to_vec())).map_err(failed)
    }
}

impl Metadata {
    fn of(endpoints: &Endpoints) -> Metadata {
        Metadata {
            authorization: endpoints.authorization.to_string(),
            token: endpoints.token.clone(),
            keys: endpoints.keys.clone(),
            userinfo: endpoints.userinfo.clone(),
            end_session: endpoints.end_session.as_ref().map(Url::to_string),
            names_issuer: false,
        }
    }

    fn discovered(document: &Object, issuer: &str) -> Result<Metadata> {
        // OpenID Connect Discovery 1.0, 4.3: a document of another issuer is an attack.
        if document.get("issuer").and_then(Json::as_str) != Some(issuer) {
            return Err(ProviderError::Invalid("the discovery document is of another issuer"));
        }
        let url = |name: &str| -> Option<Url> {
            let url: Url = document.get(name)?.as_str()?.parse().ok()?;
            // The issuer decides whether the provider is reached in clear text.
            (url.is_secure || issuer.starts_with("http://")).then_some(url)
        };
        let required = |name| url(name).ok_or(ProviderError::Invalid("an end point is missing"));
        let names_issuer = document.get("authorization_response_iss_parameter_supported");
        Ok(Metadata {
            authorization: required("authorization_endpoint")?.to_string(),
            token: required("token_endpoint")?,
            keys: required("jwks_uri")?,
            userinfo: url("userinfo_endpoint"),
            end_session: url("end_session_endpoint").map(|url| url.to_string()),
            names_issuer: names_issuer == Some(&Json::Bool(true)),
        })
    }
}

/// Returns the fetched metadata, unless it is older than this.
fn fresh<T>(fetched: &RefCell<Option<Fetched<T>>>, age_us: u64) -> Option<Rc<T>> {
    let fetched = fetched.borrow();
    let fetched = fetched.as_ref()?;
    (net::clock::now_us().saturating_sub(fetched.at_us) < age_us).then(|| fetched.value.clone())
}

fn store<T>(place: &RefCell<Option<Fetched<T>>>, value: T) -> Rc<T> {
    let value = Rc::new(value);
    place.replace(Some(Fetched { value: value.clone(), at_us: net::clock::now_us() }));
    value
}

#[cfg(test)]
mod tests {
    use message::HandlerResult;
    use plugin::MaybeFuture;
    use plugin::testing::context;
    use serde_json::json;

    use super::*;

    fn document(change: (&str, Json)) -> Json {
        let mut document = json!({
            "issuer": "https://id.example.com",
            "authorization_endpoint": "https://id.example.com/auth",
            "token_endpoint": "https://id.example.com/token",
            "jwks_uri": "https://id.example.com/keys",
        });
        document[change.0] = change.1;
        document
    }

    /// Responds with a discovery document and with keys, once it may.
    #[derive(Default)]
    struct IdentityServer {
        requests: Cell<usize>,
        responds: tokio::sync::Notify,
    }

    impl Handler for IdentityServer {
        fn name(&self) -> &'static str {
            "identity server"
        }

        fn handle<'a>(&'a self, request: &'a mut Request) -> MaybeFuture<'a, HandlerResult> {
            self.requests.set(self.requests.get() + 1);
            MaybeFuture::of(async move {
                self.responds.notified().await;
                let document = match request.target.path() {
                    // RFC 8037, appendix A.
                    "/keys" => json!({ "keys": [{
                        "kty": "OKP", "crv": "Ed25519",
                        "x": "11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo",
                    }] }),
                    _ => document(("x", json!(1))),
                };
                Ok(Response::json(200, document.to_string()))
            })
        }
    }

    #[test]
    fn metadata_and_keys_are_fetched_once_for_all() {
        let settings = settings::read::<Oidc>(&settings::node!({
            "issuer": "https://id.example.com", "client_id": "a",
            "cookie_secrets": ["0123456789abcdef0123456789abcdef"]
        }));
        let provider = Provider::new(&Arc::new(settings.unwrap()), &None, &context());
        let server = Rc::new(IdentityServer::default());
        provider.reach_by(Some(server.clone()));
        // One response more than there are fetches would be left for a third one.
        net::worker::block_on_local(async {
            let metadata = async { tokio::join!(provider.metadata(), provider.metadata()) };
            let respond = async { server.responds.notify_one() };
            let ((one, other), ()) = tokio::join!(metadata, respond);
            assert!(one.is_ok() && Rc::ptr_eq(&one.unwrap(), &other.unwrap()));
            let respond = async { server.responds.notify_one() };
            let (one, other, ()) =
                tokio::join!(provider.keys(false), provider.keys(false), respond);
            assert!(one.is_ok() && other.is_ok());
        });
        assert_eq!(server.requests.get(), 2);
    }

    #[test]
    fn the_own_limit_is_not_a_failure_of_the_provider() {
        let settings = settings::read::<Oidc>(&settings::node!({
            "issuer": "https://id.example.com", "client_id": "a",
            "cookie_secrets": ["0123456789abcdef0123456789abcdef"]
        }));
        let provider = Provider::new(&Arc::new(settings.unwrap()), &None, &context());
        provider.requests.set(REQUESTS_MAX);
        let busy = net::worker::block_on_local(provider.metadata());
        assert!(matches!(busy, Err(ProviderError::Busy)));
        assert_eq!(provider.paused_until_us.get(), 0);
    }

    #[test]
    fn a_discovery_document_that_lies_is_rejected() {
        let discovered = |change| {
            let document = json_object(document(change).to_string().as_bytes()).unwrap();
            Metadata::discovered(&document, "https://id.example.com")
        };
        assert!(discovered(("x", json!(1))).is_ok());
        for change in [
            ("issuer", json!("https://evil.example.com")),
            ("issuer", json!("https://id.example.com/")),
            ("issuer", json!(null)),
            ("token_endpoint", json!("http://id.example.com/token")),
            ("token_endpoint", json!("javascript:alert(1)")),
            ("jwks_uri", json!(["https://id.example.com/keys"])),
            ("authorization_endpoint", json!(null)),
        ] {
            assert!(discovered(change.clone()).is_err(), "{change:?}");
        }
    }
}
