//! `introspection`: allows requests with a token that its issuer reports as active (RFC 7662).
//!
//! Promises that a token is sent to the end point only and is in no log; that tables and waiting
//! requests are bounded; that a worker sends one request about a token, however many clients
//! present it; and that a request is rejected while the end point fails, never allowed.

mod in_flight;

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;

use http_client::{Client, ClientOptions, ClientSettings, PoolLimits, Url};
use message::{Claims, Fault, FaultKind, Request};
use net::Resolver;
use net::tls::ClientTls;
use plugin::{CredentialPlace, FilterKind, FilterPlan, WorkerContext};
use serde_json::Value as Json;
use settings::{
    Duration, Node, OneOrMany, Reader, Schema, SchemaBuilder, Secret, Setting, Spanned,
};
use telemetry::log::Level;
use telemetry::{CachePadded, Counter, event_limited, families};
use tls_settings::UpstreamTlsSettings;
use wire::{Known, Method as HttpMethod};

use crate::auth_plan::AuthPlan;
use crate::credential::{ByCredential, CredentialId, CredentialKind};
use crate::form_client::{ClientAuth, authenticated_form};
use crate::method::{AuthResult, Identity, Method, MethodPlan, check_realm};
use crate::registry::Directory;
use crate::token::{self, Object, Rules, TOKEN_BYTES_MAX, json_object};
use crate::token_source::{self, TokenSource};
use in_flight::{InFlightCall, Running};

pub(crate) const KIND: FilterKind =
    FilterKind { name: "introspection", schema: Introspection::schema, read };

/// Active tokens that a worker remembers for each filter, and as many others.
const REMEMBERED: usize = 4096;
/// Requests of a worker that may wait for the end point, for each filter.
const WAITING_MAX: usize = 256;
/// The longest response of the end point.
const RESPONSE_BYTES_MAX: u64 = 64 * 1024;
/// How long no request is sent to an end point that has failed.
const PAUSE_US: u64 = 1_000_000;
/// Statuses with which an end point refuses one token that it cannot read, such as a long one: a
/// client must not be able to lock others out with it.
const REFUSED_TOKEN: [u16; 5] = [400, 413, 414, 422, 431];

/// Allows only requests with a token that its issuer reports as active (RFC 7662).
///
/// Each new token is sent to the end point, and the response is remembered. `sub` in the response
/// names the request's `consumer`; everything in it is a variable, `{claim.NAME}`. Requests without
/// an active token get 401 with `WWW-Authenticate`, and 503 while the end point fails. A reload
/// forgets the responses.
#[derive(Clone, Debug, Setting)]
#[setting(check = check)]
struct IntrospectionSettings {
    /// The introspection end point.
    #[setting(example = "https://id.example.com/introspect")]
    url: Url,
    /// The name of this client at the end point.
    #[setting(example = "gateway")]
    client_id: String,
    /// The secret of the client.
    client_secret: Secret,
    /// How the secret is sent.
    #[setting(default = "basic")]
    client_auth: ClientAuth,
    /// TLS to the end point.
    #[setting(example = { "ca": "internal.pem" })]
    tls: Option<Spanned<UpstreamTlsSettings>>,
    /// The accepted issuers; any unless set.
    #[setting(default = [], example = ["https://id.example.com"])]
    issuer: OneOrMany<String>,
    /// Audiences, one of which the response has to name; any audience unless set, because the end
    /// point knows the client.
    #[setting(default = [], example = ["shop"])]
    audience: OneOrMany<String>,
    /// How long an active token is remembered, at most until it expires; `0s` verifies the token of
    /// every request. A revoked token is accepted until then.
    #[setting(default = "60s", range = "0s"..="1h")]
    remember: Duration,
    /// How long an inactive token is remembered.
    #[setting(default = "10s", range = "0s"..="10m")]
    remember_inactive: Duration,
    /// The longest time for a response, with the connection.
    #[setting(default = "5s", range = "10ms"..="1m")]
    timeout: Duration,
    /// The member of the response that names the consumer: one with this `jwt: { subject }` in
    /// `consumers`, or a consumer of which only the name is known.
    #[setting(default = "sub")]
    consumer_claim: String,
    /// Rejects tokens whose consumer has no entry in `consumers`.
    #[setting(default = false)]
    consumers_only: bool,
    /// Where the token is looked for: `bearer` (the `Authorization` header), `{ header: NAME }` or
    /// `{ cookie: NAME }`. A request with several tokens is rejected.
    #[setting(default = "bearer", example = ["bearer", { "cookie": "session" }])]
    from: OneOrMany<TokenSource>,
    /// Removes the token from the request before it is forwarded.
    #[setting(default = true)]
    hide: bool,
    /// What `WWW-Authenticate` calls the protected space.
    #[setting(default = "tidegate")]
    realm: String,
}

fn check(settings: &IntrospectionSettings, node: &Node, reader: &mut Reader<'_>) {
    let place = |key| node.get(key).unwrap_or(node).span;
    if settings.client_id.is_empty() || settings.client_id.contains(char::is_control) {
        reader.error(place("client_id"), "client_id is the name of the gateway at the end point");
    }
    if let (Some(tls), false) = (&settings.tls, settings.url.is_secure) {
        reader.error(tls.span, "`tls` has no effect: url is not a URL of https");
    }
    token_source::check(&settings.from, &settings.consumer_claim, node, reader);
    check_realm(&settings.realm, node, reader);
}

/// The settings with what is built from them.
#[derive(Clone, Debug)]
pub(crate) struct Introspection {
    settings: Arc<IntrospectionSettings>,
    tls: Option<ClientTls>,
}

impl Setting for Introspection {
    fn schema(defs: &mut SchemaBuilder) -> Schema {
        IntrospectionSettings::schema(defs)
    }

    fn read(node: &Node, reader: &mut Reader<'_>) -> Option<Self> {
        let settings = IntrospectionSettings::read(node, reader)?;
        let tls = match settings.url.is_secure {
            true => Some(UpstreamTlsSettings::client(settings.tls.as_ref(), node.span, reader)?),
            false => None,
        };
        Some(Introspection { settings: Arc::new(settings), tls })
    }
}

fn read(node: &Node, reader: &mut Reader<'_>) -> Option<Arc<dyn FilterPlan>> {
    Some(AuthPlan::of(Introspection::read(node, reader)?))
}

impl MethodPlan for Introspection {
    fn name(&self) -> &'static str {
        KIND.name
    }

    fn server(&self) -> Option<&Url> {
        Some(&self.settings.url)
    }

    fn places(&self) -> Vec<CredentialPlace> {
        token_source::places(&self.settings.from)
    }

    fn forwards(&self) -> bool {
        !self.settings.hide
    }

    fn build(&self, worker: &WorkerContext) -> Rc<dyn Method> {
        let settings = &self.settings;
        let timeout = settings.timeout.get();
        let client = ClientSettings {
            name: format!("introspection {}", settings.url.authority),
            tls: self.tls.clone(),
            server_name: settings.tls.as_ref().and_then(|tls| tls.server_name()),
            connect: timeout,
            limits: PoolLimits::default(),
            options: Rc::new(ClientOptions { via: false, ..ClientOptions::default() }),
        };
        let counter = |result| {
            let labels = [&*settings.url.authority, result];
            worker.telemetry.worker_counter(worker.index, &families::INTROSPECTIONS, &labels)
        };
        Rc::new(IntrospectionMethod(Rc::new(Introspector {
            directory: Directory::of(worker),
            client: Client::new(worker, client),
            names: worker.local.get((), Resolver::system),
            rules: Rules {
                issuers: settings.issuer.to_vec(),
                audiences: settings.audience.to_vec(),
                leeway_s: 0,
                allow_without_expiry: true,
                allow_any_audience: true,
            },
            settings: settings.clone(),
            active: RefCell::default(),
            inactive: RefCell::default(),
            running: RefCell::default(),
            waiting: Cell::new(0),
            paused_until_us: Cell::new(0),
            remembered: counter("remembered"),
            reported_active: counter("active"),
            reported_inactive: counter("inactive"),
            failed: counter("failed"),
        })))
    }

    fn describe(&self) -> String {
        let hidden = if self.settings.hide { "" } else { ", passed on" };
        // The query may be secret.
        format!("by {}{hidden}", self.settings.url.authority)
    }
}

struct IntrospectionMethod(Rc<Introspector>);

impl Method for IntrospectionMethod {
    fn is_instant(&self) -> bool {
        false
    }

    fn authenticate(&self, request: &Request) -> AuthResult {
        match token_source::only_token(&self.0.settings.from, request) {
            Ok(token) => self.0.authenticate(token),
            Err(result) => result,
        }
    }

    fn prepare(&self, request: &mut Request) {
        if self.0.settings.hide {
            self.hide(request);
        }
    }

    fn hide(&self, request: &mut Request) {
        token_source::hide(&self.0.settings.from, request);
    }

    /// RFC 6750 3.1.
    fn challenge(&self, invalid: bool) -> Option<String> {
        Some(token_source::challenge(&self.0.settings.realm, invalid))
    }
}

/// An active token.
struct ActiveToken {
    /// When the response is too old, on the worker's clock.
    until_us: u64,
    /// When the token expires, in seconds since 1970.
    expires_s: u64,
    claims: Claims,
    /// The identity of the consumer's entry, and the name of one without an entry.
    subject: (CredentialId, Box<str>),
}

/// Why a token is not accepted.
#[derive(Clone)]
enum NotAccepted {
    Inactive(token::Invalid),
    Failed,
}

/// Why the end point has reported nothing about a token.
struct EndPointFailure {
    why: String,
    /// True if other tokens may fare better.
    is_of_token: bool,
}

impl From<String> for EndPointFailure {
    fn from(why: String) -> EndPointFailure {
        EndPointFailure { why, is_of_token: false }
    }
}

type Introspected = Result<Rc<ActiveToken>, NotAccepted>;

/// Asks the end point about tokens, and remembers its responses, on one worker.
struct Introspector {
    directory: Rc<Directory>,
    client: Client,
    names: Rc<Resolver>,
    settings: Arc<IntrospectionSettings>,
    rules: Rules,
    active: RefCell<ByCredential<Rc<ActiveToken>>>,
    /// Other tokens, and until when. A table of its own, so that invented tokens displace no
    /// active ones.
    inactive: RefCell<ByCredential<(u64, token::Invalid)>>,
    /// The requests to the end point.
    running: RefCell<ByCredential<Rc<InFlightCall>>>,
    /// Requests of clients that wait for them.
    waiting: Cell<usize>,
    paused_until_us: Cell<u64>,
    remembered: Arc<CachePadded<Counter>>,
    reported_active: Arc<CachePadded<Counter>>,
    reported_inactive: Arc<CachePadded<Counter>>,
    failed: Arc<CachePadded<Counter>>,
}

impl Introspector {
    fn authenticate(self: &Rc<Self>, token: &[u8]) -> AuthResult {
        if token.len() > TOKEN_BYTES_MAX {
            return AuthResult::Invalid("the token is too long");
        }
        let text = std::str::from_utf8(token)
            .ok()
            .filter(|text| text.bytes().all(|byte| byte.is_ascii_graphic()));
        let Some(text) = text else {
            return AuthResult::Invalid("the token has a character that no token has");
        };
        let id = CredentialId::of(CredentialKind::Token, token);
        if let Some(known) = self.known(&id) {
            self.remembered.inc();
            return self.conclude(known);
        }
        if self.waiting.get() >= WAITING_MAX {
            return AuthResult::Failed(unavailable("too many requests wait for the end point"));
        }
        if net::clock::now_us() < self.paused_until_us.get() {
            return self.conclude(Err(NotAccepted::Failed));
        }
        let running = self.running.borrow().get(&id).cloned();
        let call = running.unwrap_or_else(|| self.begin(id, text));
        let waiting = Waiting::new(self);
        AuthResult::Wait(Box::pin(async move {
            let introspected = call.result().await;
            waiting.0.conclude(introspected.unwrap_or(Err(NotAccepted::Failed)))
        }))
    }

    /// Returns the remembered result for a token.
    fn known(&self, id: &CredentialId) -> Option<Introspected> {
        let now_us = net::clock::now_us();
        if let Some(known) = self.active.borrow().get(id)
            && now_us < known.until_us
            && net::clock::wall_secs() < known.expires_s
        {
            return Some(Ok(known.clone()));
        }
        let inactive = self.inactive.borrow();
        let (_, why) = inactive.get(id).filter(|(until_us, _)| now_us < *until_us)?;
        Some(Err(NotAccepted::Inactive(why)))
    }

    /// Asks the end point about a token. The request is not the client's, so that it is not
    /// cancelled when one of the clients that wait for it disconnects.
    fn begin(self: &Rc<Self>, id: CredentialId, token: &str) -> Rc<InFlightCall> {
        let call = Rc::<InFlightCall>::default();
        self.running.borrow_mut().insert(id, call.clone());
        let running = Running { introspector: self.clone(), id, call: call.clone() };
        let token = token.to_owned();
        net::task::spawn_local(async move {
            let introspected = running.introspector.introspect(&token).await;
            running.introspector.remember(running.id, &introspected);
            running.call.finish(introspected);
        });
        call
    }

    async fn introspect(&self, token: &str) -> Introspected {
        let introspected = self.ask(token).await.and_then(|response| self.evaluate(response));
        introspected.unwrap_or_else(|EndPointFailure { why, is_of_token }| {
            if !is_of_token {
                self.paused_until_us.set(net::clock::now_us() + PAUSE_US);
            }
            event_limited!(
                1,
                Level::Warn,
                "the introspection end point has failed: requests with new tokens get 503",
                event = "introspection_failed",
                server = self.settings.url.authority,
                error = why
            );
            Err(NotAccepted::Failed)
        })
    }

    /// RFC 7662 2.1.
    async fn ask(&self, token: &str) -> Result<Object, EndPointFailure> {
        let IntrospectionSettings { url, client_id, client_secret, client_auth, .. } =
            &*self.settings;
        let fields = [("token", token), ("token_type_hint", "access_token")];
        let (mut headers, body) =
            authenticated_form(&fields, client_id, Some(client_secret), *client_auth);
        headers.append(Known::Host, &url.authority);
        headers.append(Known::Accept, "application/json");
        let request = Request::made_up(HttpMethod::Post, url.target.clone(), headers);
        let timeout = self.settings.timeout.get();
        let (client, names) = (&self.client, &self.names);
        let fetched = client.fetch(names, url, &request, body, timeout, RESPONSE_BYTES_MAX).await;
        let mut response = fetched.map_err(|fault| fault.to_string())?;
        if response.status != 200 {
            return Err(EndPointFailure {
                why: format!("the response has the status {}", response.status),
                is_of_token: REFUSED_TOKEN.contains(&response.status),
            });
        }
        let content = std::mem::take(&mut response.body).collect(RESPONSE_BYTES_MAX).await;
        let content = content.map_err(|fault| fault.to_string())?;
        Ok(json_object(&content).ok_or_else(|| "the response is not a JSON object".to_owned())?)
    }

    /// RFC 7662 2.2. An error means that the response is wrong.
    fn evaluate(&self, response: Object) -> Result<Introspected, EndPointFailure> {
        match response.get("active") {
            Some(Json::Bool(true)) => {}
            Some(Json::Bool(false)) => {
                return Ok(Err(NotAccepted::Inactive("the token is not active")));
            }
            _ => {
                let why = "the response does not say whether the token is active";
                return Err(why.to_owned().into());
            }
        }
        Ok(self.accept(response).map(Rc::new).map_err(NotAccepted::Inactive))
    }

    fn accept(&self, response: Object) -> Result<ActiveToken, token::Invalid> {
        let expires_s = token::check_claims(&response, &self.rules, net::clock::wall_secs())?;
        let claims = token::claim_pairs(response)?;
        let subject = token::subject(&claims, &self.settings.consumer_claim)?;
        let subject_id = CredentialId::of(CredentialKind::Subject, subject.as_bytes());
        Ok(ActiveToken {
            until_us: until_us(self.settings.remember),
            expires_s,
            claims: claims.into(),
            subject: (subject_id, subject),
        })
    }

    fn remember(&self, id: CredentialId, introspected: &Introspected) {
        match introspected {
            Ok(token) => {
                self.reported_active.inc();
                insert(&self.active, id, token.clone());
            }
            Err(NotAccepted::Inactive(why)) => {
                self.reported_inactive.inc();
                self.active.borrow_mut().remove(&id);
                insert(&self.inactive, id, (until_us(self.settings.remember_inactive), *why));
            }
            Err(NotAccepted::Failed) => self.failed.inc(),
        }
    }

    /// The consumer of a token now: its entry may change while the token is remembered.
    fn conclude(&self, introspected: Introspected) -> AuthResult {
        let token = match introspected {
            Ok(token) => token,
            Err(NotAccepted::Inactive(why)) => return AuthResult::Invalid(why),
            Err(NotAccepted::Failed) => {
                return AuthResult::Failed(unavailable("the introspection end point has failed"));
            }
        };
        let (id, name) = &token.subject;
        match self.directory.subject(id, name, self.settings.consumers_only) {
            Ok(consumer) => {
                AuthResult::Accepted(Identity { consumer, claims: Some(token.claims.clone()) })
            }
            Err(why) => AuthResult::Invalid(why),
        }
    }
}

fn until_us(duration: Duration) -> u64 {
    let us = u64::try_from(duration.get().as_micros()).unwrap_or(u64::MAX);
    net::clock::now_us().saturating_add(us)
}

fn insert<T>(table: &RefCell<ByCredential<T>>, id: CredentialId, value: T) {
    let mut table = table.borrow_mut();
    if table.len() >= REMEMBERED {
        table.clear();
    }
    table.insert(id, value);
}

fn unavailable(why: &'static str) -> Fault {
    Fault::new(FaultKind::Unavailable, why).with_field(Known::RetryAfter, "1")
}

/// A request that waits for the end point.
struct Waiting(Rc<Introspector>);

impl Waiting {
    fn new(introspector: &Rc<Introspector>) -> Waiting {
        introspector.waiting.set(introspector.waiting.get() + 1);
        Waiting(introspector.clone())
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        self.0.waiting.set(self.0.waiting.get() - 1);
    }
}

#[cfg(test)]
mod tests;
