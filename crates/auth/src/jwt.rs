//! `jwt`: allows requests with a signed token (RFC 7519).
//!
//! Promises that the configuration and the key decide how a token is verified, and never the token;
//! that a token is in no log; that a token which was verified before costs a look-up in a table of
//! bounded size, until it expires.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;

use message::{Claims, Consumer, Fault, FaultKind, Request};
use plugin::{CredentialPlace, FilterKind, FilterPlan, WorkerContext};
use settings::{Duration, Node, OneOrMany, Reader, Setting};
use wire::Known;

use crate::auth_plan::AuthPlan;
use crate::credential::{CredentialId, CredentialKind};
use crate::identity::{IdentityName, IdentityProvider, KeySource, KeyUse};
use crate::method::{AuthResult, Identity, Method, MethodPlan, check_realm};
use crate::registry::Directory;
use crate::token::{self, Key, KeySetFile, KeySettings, Rules, TokenVerifier, VerifiedToken};
use crate::token_source::{self, TokenSource};
use crate::verified_tokens::VerifiedTokens;

pub(crate) const KIND: FilterKind = FilterKind { name: "jwt", schema: Jwt::schema, read };

/// Requests of a worker that may wait for keys, for each filter.
const WAITING_MAX: usize = 256;

/// Allows only requests with a signed token (JWT).
///
/// The claim `sub` names the request's `consumer`; all claims are variables, `{claim.NAME}`. Other
/// requests get 401 with `WWW-Authenticate`. A token is verified with the algorithm of the key,
/// whichever it names.
#[derive(Clone, Debug, Setting)]
#[setting(check = check)]
pub(crate) struct Jwt {
    /// The keys.
    #[setting(default = [])]
    keys: Vec<KeySettings>,
    /// A file with a JSON Web Key Set. A changed file is read again.
    key_set: Option<KeySetFile>,
    /// The provider of the keys, a name under `identity`, instead of `keys` and `key_set`.
    identity: Option<IdentityName>,
    /// The accepted issuers; without one those of `identity`, and any if there are none.
    #[setting(default = [], example = ["https://id.example.com"])]
    issuer: OneOrMany<String>,
    /// Audiences, one of which the token has to name; those of `identity` unless set. Without
    /// either, a token that names an audience is rejected.
    #[setting(default = [], example = ["shop"])]
    audience: OneOrMany<String>,
    /// How far the clock of the issuer may be off.
    #[setting(default = "30s", range = "0s"..="10m")]
    leeway: Duration,
    /// Accepts tokens that never expire.
    #[setting(default = false)]
    allow_without_expiry: bool,
    /// The claim that names the consumer: one with this `jwt: { subject }` in `consumers`, or a
    /// consumer of which only the name is known.
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

fn check(settings: &Jwt, node: &Node, reader: &mut Reader<'_>) {
    let has_keys = !settings.keys.is_empty() || settings.key_set.is_some();
    match (has_keys, &settings.identity) {
        (false, None) => {
            reader
                .error(node.span, "without a key no token is valid")
                .help("write identity, keys or key_set");
        }
        (true, Some(_)) => {
            reader.error(node.span, "the keys are those of identity: remove keys and key_set");
        }
        _ => {}
    }
    token_source::check(&settings.from, &settings.consumer_claim, node, reader);
    check_realm(&settings.realm, node, reader);
}

fn read(node: &Node, reader: &mut Reader<'_>) -> Option<Arc<dyn FilterPlan>> {
    Some(AuthPlan::of(Jwt::read(node, reader)?.plan()))
}

impl Jwt {
    pub(crate) fn plan(self) -> JwtPlan {
        let of_set = self.key_set.iter().flat_map(|set| set.0.iter().cloned());
        let keys = self.keys.iter().filter_map(KeySettings::key).chain(of_set).collect();
        let provider = self.identity.as_ref().and_then(|identity| identity.0.as_deref());
        let own_or = |own: &[String], other: fn(&IdentityProvider) -> &[String]| match own {
            [] => provider.map_or(&[][..], other).to_vec(),
            own => own.to_vec(),
        };
        let rules = Rules {
            issuers: own_or(&self.issuer, IdentityProvider::issuers),
            audiences: own_or(&self.audience, IdentityProvider::audiences),
            leeway_s: self.leeway.get().as_secs(),
            allow_without_expiry: self.allow_without_expiry,
            allow_any_audience: false,
        };
        JwtPlan { keys, rules: Arc::new(rules), settings: self }
    }
}

pub(crate) struct JwtPlan {
    settings: Jwt,
    /// The keys of the filter itself, shared by the workers.
    keys: Arc<[Key]>,
    rules: Arc<Rules>,
}

impl JwtPlan {
    fn provider(&self) -> Option<&IdentityProvider> {
        self.settings.identity.as_ref()?.0.as_deref()
    }
}

impl MethodPlan for JwtPlan {
    fn name(&self) -> &'static str {
        KIND.name
    }

    fn places(&self) -> Vec<CredentialPlace> {
        token_source::places(&self.settings.from)
    }

    fn forwards(&self) -> bool {
        !self.settings.hide
    }

    fn build(&self, worker: &WorkerContext) -> Rc<dyn Method> {
        let keys = match self.provider() {
            Some(provider) => provider.keys(&worker.shared),
            None => KeySource::Fixed(self.keys.clone()),
        };
        Rc::new(JwtMethod {
            verification: Rc::new(Verification {
                directory: Directory::of(worker),
                keys,
                rules: self.rules.clone(),
                verifier: TokenVerifier::default(),
                remembered: RefCell::default(),
                seen: Cell::new(0),
                waiting: Cell::new(0),
                consumer_claim: self.settings.consumer_claim.as_str().into(),
                consumers_only: self.settings.consumers_only,
            }),
            places: self.settings.from.0.clone(),
            hide: self.settings.hide,
            realm: self.settings.realm.as_str().into(),
        })
    }

    fn describe(&self) -> String {
        let keys = match (self.provider(), self.keys.len()) {
            (Some(provider), _) => format!("keys of {}", provider.name()),
            (None, 1) => "1 key".to_owned(),
            (None, keys) => format!("{keys} keys"),
        };
        let hidden = if self.settings.hide { "" } else { ", passed on" };
        format!("{keys}{hidden}")
    }
}

/// A token that was verified before.
struct RememberedToken {
    expires_s: u64,
    claims: Claims,
    subject: Box<str>,
    consumer: Rc<Consumer>,
    /// The generation of the consumers in which it was found.
    generation: u64,
}

struct JwtMethod {
    verification: Rc<Verification>,
    places: Vec<TokenSource>,
    hide: bool,
    realm: Box<str>,
}

/// Verifies tokens, and remembers those that it has verified.
struct Verification {
    directory: Rc<Directory>,
    keys: KeySource,
    rules: Arc<Rules>,
    verifier: TokenVerifier,
    remembered: RefCell<VerifiedTokens<RememberedToken>>,
    /// The generation of the keys that they were verified with.
    seen: Cell<u64>,
    /// Requests that wait for keys.
    waiting: Cell<usize>,
    consumer_claim: Box<str>,
    consumers_only: bool,
}

impl Method for JwtMethod {
    /// A signature takes longer than reading the clock.
    fn is_instant(&self) -> bool {
        false
    }

    fn authenticate(&self, request: &Request) -> AuthResult {
        let token = match token_source::only_token(&self.places, request) {
            Ok(token) => token,
            Err(result) => return result,
        };
        let verification = &self.verification;
        let (result, needed) = match verification.authenticate(token) {
            Ok(identity) => return AuthResult::Accepted(identity),
            Err(NotVerified::Invalid(token::NO_KEY)) => {
                (AuthResult::Invalid(token::NO_KEY), KeyUse::UnknownKey)
            }
            Err(NotVerified::Invalid(why)) => return AuthResult::Invalid(why),
            Err(NotVerified::NoKeys) => (AuthResult::Failed(no_keys()), KeyUse::First),
        };
        if verification.waiting.get() >= WAITING_MAX {
            let fault = Fault::new(FaultKind::Unavailable, "too many requests wait for keys");
            return AuthResult::Failed(fault.with_field(Known::RetryAfter, "1"));
        }
        let Some(fetched) = verification.keys.fetch(needed) else { return result };
        let waiting = Waiting::new(verification);
        let token: Box<[u8]> = token.into();
        AuthResult::Wait(Box::pin(async move {
            fetched.await;
            match waiting.0.authenticate(&token) {
                Ok(identity) => AuthResult::Accepted(identity),
                Err(NotVerified::Invalid(why)) => AuthResult::Invalid(why),
                Err(NotVerified::NoKeys) => AuthResult::Failed(no_keys()),
            }
        }))
    }

    fn prepare(&self, request: &mut Request) {
        if self.hide {
            self.hide(request);
        }
    }

    fn hide(&self, request: &mut Request) {
        token_source::hide(&self.places, request);
    }

    /// RFC 6750 3.1.
    fn challenge(&self, invalid: bool) -> Option<String> {
        Some(token_source::challenge(&self.realm, invalid))
    }
}

/// Why a token is not accepted.
enum NotVerified {
    Invalid(token::Invalid),
    /// The provider has published no keys yet.
    NoKeys,
}

impl From<token::Invalid> for NotVerified {
    fn from(why: token::Invalid) -> NotVerified {
        NotVerified::Invalid(why)
    }
}

fn no_keys() -> Fault {
    Fault::new(FaultKind::Unavailable, "the identity provider has published no keys yet")
        .with_field(Known::RetryAfter, "5")
}

/// A request that waits for keys.
struct Waiting(Rc<Verification>);

impl Waiting {
    fn new(verification: &Rc<Verification>) -> Waiting {
        verification.waiting.set(verification.waiting.get() + 1);
        Waiting(verification.clone())
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        self.0.waiting.set(self.0.waiting.get() - 1);
    }
}

impl Verification {
    fn authenticate(&self, token: &[u8]) -> Result<Identity, NotVerified> {
        let now_s = net::clock::wall_secs();
        let generation = self.keys.generation();
        if self.seen.replace(generation) != generation {
            self.remembered.borrow_mut().clear();
        }
        if let Some(known) = self.remembered.borrow_mut().get_mut(token) {
            return match now_s < known.expires_s {
                true => Ok(self.identity(known)?),
                false => Err("the token has expired".into()),
            };
        }
        let keys = self.keys.keys().ok_or(NotVerified::NoKeys)?;
        let VerifiedToken { claims, expires_s } =
            self.verifier.verify(token, &keys, &self.rules, now_s)?;
        let subject = token::subject(&claims, &self.consumer_claim)?;
        let generation = self.directory.generation();
        let consumer = self.consumer(&subject)?;
        let claims: Claims = claims.into();
        let identity = Identity { consumer: consumer.clone(), claims: Some(claims.clone()) };
        let known = RememberedToken { expires_s, claims, subject, consumer, generation };
        self.remembered.borrow_mut().insert(token, known);
        Ok(identity)
    }

    /// The identity of a remembered token now: the entry of its consumer may have changed.
    fn identity(&self, token: &mut RememberedToken) -> Result<Identity, token::Invalid> {
        let generation = self.directory.generation();
        if token.generation != generation {
            token.consumer = self.consumer(&token.subject)?;
            token.generation = generation;
        }
        Ok(Identity { consumer: token.consumer.clone(), claims: Some(token.claims.clone()) })
    }

    fn consumer(&self, subject: &str) -> Result<Rc<Consumer>, token::Invalid> {
        // Without entries there is nothing to look up, and its identity is a digest.
        if self.directory.is_empty() && !self.consumers_only {
            return Ok(Consumer::named(subject));
        }
        let id = CredentialId::of(CredentialKind::Subject, subject.as_bytes());
        self.directory.subject(&id, subject, self.consumers_only)
    }
}

#[cfg(test)]
mod tests;
