//! `jwt`: allows requests with a signed token (RFC 7519).
//!
//! Promises that the configuration and the key decide how a token is verified, and never the token;
//! that a token is in no log; that a token which was verified before costs a digest and a look-up,
//! in a table of bounded size, until it expires.

mod keys;
mod strict_json;
mod token;

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;

use message::{Claims, Consumer, Request};
use plugin::{FilterKind, FilterPlan, HeaderName, WorkerContext};
use settings::{Duration, Node, OneOrMany, Reader, Setting};
use wire::Known;
use wire::authorization::bearer;

use crate::credential::{ByCredential, CredentialId, CredentialKind};
use crate::method::{Attempt, AuthPlan, Identity, Method, MethodPlan, check_realm};
use crate::registry::Directory;
use keys::{Key, KeySetFile, KeySettings};
use token::{Rules, VerifiedToken, verify};

pub(crate) const KIND: FilterKind = FilterKind { name: "jwt", schema: Jwt::schema, read };

/// Verified tokens that a worker remembers for each filter.
const REMEMBERED: usize = 4096;

/// Allows only requests with a signed token (JWT).
///
/// The claim `sub` names the request's `consumer`; all claims are variables, `{claim.NAME}`. Other
/// requests get 401 with `WWW-Authenticate`. A token is verified with the algorithm of the key,
/// whatever algorithm it names.
#[derive(Clone, Debug, Setting)]
#[setting(check = check)]
pub(crate) struct Jwt {
    /// The keys.
    #[setting(default = [])]
    keys: Vec<KeySettings>,
    /// A file with a JSON Web Key Set. A changed file is read again.
    key_set: Option<KeySetFile>,
    /// The accepted issuers; any if there are none.
    #[setting(default = [], example = ["https://id.example.com"])]
    issuer: OneOrMany<String>,
    /// The names of this audience, one of which the token has to name. Without any, a token that
    /// names its audience is rejected.
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

/// Verifies a token at a time, in seconds since 1970, with the keys of a set, as the filter does
/// without an issuer and an audience. `None` if the token or the set is invalid.
pub fn verify_token(token: &[u8], key_set: &[u8], now_s: u64) -> Option<Vec<(Box<str>, Box<str>)>> {
    let keys = keys::key_set(key_set).ok()?;
    verify(token, &keys, &Rules::default(), now_s).ok().map(|verified| verified.claims)
}

/// Where a token is looked for.
#[derive(Clone, Debug, PartialEq, Setting)]
enum TokenSource {
    /// In `Authorization: Bearer TOKEN` (RFC 6750).
    Bearer,
    /// In a header of this name.
    Header(HeaderName),
    /// In a cookie of this name. `hide` does not remove it.
    Cookie(String),
}

fn check(settings: &Jwt, node: &Node, reader: &mut Reader<'_>) {
    if settings.keys.is_empty() && settings.key_set.is_none() {
        reader.error(node.span, "without a key no token is valid").help("write keys or key_set");
    }
    if settings.from.is_empty() {
        reader.error(node.span, "there is no place to look for a token");
    }
    if settings.consumer_claim.is_empty() {
        reader.error(node.span, "the name of the claim is empty");
    }
    check_realm(&settings.realm, node, reader);
}

fn read(node: &Node, reader: &mut Reader<'_>) -> Option<Arc<dyn FilterPlan>> {
    Some(AuthPlan::of(Jwt::read(node, reader)?.plan()))
}

impl Jwt {
    pub(crate) fn plan(self) -> JwtPlan {
        let of_set = self.key_set.iter().flat_map(|set| set.0.iter().cloned());
        let keys = self.keys.iter().filter_map(KeySettings::key).chain(of_set).collect();
        let rules = Rules {
            issuers: self.issuer.0.clone(),
            audiences: self.audience.0.clone(),
            leeway_s: self.leeway.get().as_secs(),
            allow_without_expiry: self.allow_without_expiry,
        };
        JwtPlan { verification: Arc::new((keys, rules)), settings: self }
    }
}

pub(crate) struct JwtPlan {
    settings: Jwt,
    /// Shared by the workers.
    verification: Arc<(Vec<Key>, Rules)>,
}

impl MethodPlan for JwtPlan {
    fn name(&self) -> &'static str {
        KIND.name
    }

    fn build(&self, worker: &WorkerContext) -> Rc<dyn Method> {
        Rc::new(JwtMethod {
            directory: Directory::of(worker),
            verification: self.verification.clone(),
            remembered: RefCell::default(),
            consumer_claim: self.settings.consumer_claim.as_str().into(),
            consumers_only: self.settings.consumers_only,
            places: self.settings.from.0.clone(),
            hide: self.settings.hide,
            realm: self.settings.realm.as_str().into(),
        })
    }

    fn describe(&self) -> String {
        let keys = match self.verification.0.len() {
            1 => "1 key".to_owned(),
            keys => format!("{keys} keys"),
        };
        let hidden = if self.settings.hide { "" } else { ", passed on" };
        format!("{keys}{hidden}")
    }
}

/// A token that was verified before.
struct RememberedToken {
    expires_s: u64,
    claims: Claims,
    /// The identity of the consumer's entry, and the name of one without an entry.
    subject: (CredentialId, Box<str>),
}

struct JwtMethod {
    directory: Rc<Directory>,
    verification: Arc<(Vec<Key>, Rules)>,
    remembered: RefCell<ByCredential<RememberedToken>>,
    consumer_claim: Box<str>,
    consumers_only: bool,
    places: Vec<TokenSource>,
    hide: bool,
    realm: Box<str>,
}

impl Method for JwtMethod {
    /// A signature takes longer than reading the clock.
    fn is_instant(&self) -> bool {
        false
    }

    fn attempt(&self, request: &Request) -> Attempt {
        let mut tokens = self.places.iter().flat_map(|place| place.tokens(request));
        let Some(token) = tokens.next() else { return Attempt::Missing("there is no token") };
        if tokens.next().is_some() {
            return Attempt::Invalid("there are several tokens");
        }
        match self.identity(token) {
            Ok(identity) => Attempt::Accepted(identity),
            Err(why) => Attempt::Invalid(why),
        }
    }

    fn prepare(&self, request: &mut Request) {
        if self.hide {
            self.hide(request);
        }
    }

    fn hide(&self, request: &mut Request) {
        for place in &self.places {
            match place {
                TokenSource::Bearer => {
                    request.headers.remove(Known::Authorization);
                }
                TokenSource::Header(name) => {
                    request.headers.remove(name);
                }
                TokenSource::Cookie(_) => {}
            }
        }
    }

    /// RFC 6750 3.1.
    fn challenge(&self, invalid: bool) -> Option<String> {
        let error = if invalid { ", error=\"invalid_token\"" } else { "" };
        Some(format!("Bearer realm=\"{}\"{error}", self.realm))
    }
}

impl JwtMethod {
    fn identity(&self, token: &[u8]) -> Result<Identity, token::Invalid> {
        let now_s = net::clock::wall_secs();
        let id = CredentialId::of(CredentialKind::Token, token);
        if let Some(known) = self.remembered.borrow().get(&id) {
            return match now_s < known.expires_s {
                true => self.consumer(known),
                false => Err("the token has expired"),
            };
        }
        let (keys, rules) = &*self.verification;
        let VerifiedToken { claims, expires_s } = verify(token, keys, rules, now_s)?;
        let named = claims.iter().find(|(name, value)| {
            **name == *self.consumer_claim && !value.is_empty() && !value.contains(char::is_control)
        });
        let subject = named.map(|(_, value)| value.clone());
        let subject = subject.ok_or("the token names no consumer")?;
        let known = RememberedToken {
            expires_s,
            claims: claims.into(),
            subject: (CredentialId::of(CredentialKind::Subject, subject.as_bytes()), subject),
        };
        let identity = self.consumer(&known)?;
        let mut remembered = self.remembered.borrow_mut();
        if remembered.len() >= REMEMBERED {
            remembered.clear();
        }
        remembered.insert(id, known);
        Ok(identity)
    }

    /// The consumer of a token now: its entry may change while the token is remembered.
    fn consumer(&self, token: &RememberedToken) -> Result<Identity, token::Invalid> {
        let (id, name) = &token.subject;
        let claims = Some(token.claims.clone());
        if let Some(consumer) = self.directory.find(id) {
            return Ok(Identity { consumer, claims });
        }
        if self.consumers_only {
            return Err("the consumer of the token is not known");
        }
        // An issuer must not be able to name a consumer whose entry does not name the subject.
        let declared = CredentialId::of(CredentialKind::Name, name.as_bytes());
        match self.directory.find(&declared) {
            Some(_) => Err("the token is not one of the consumer with this name"),
            None => Ok(Identity { consumer: Consumer::named(name), claims }),
        }
    }
}

impl TokenSource {
    fn tokens<'r>(&'r self, request: &'r Request) -> Box<dyn Iterator<Item = &'r [u8]> + 'r> {
        match self {
            TokenSource::Bearer => {
                Box::new(request.headers.get_all(Known::Authorization).filter_map(bearer))
            }
            TokenSource::Header(name) => Box::new(request.headers.get_all(name)),
            TokenSource::Cookie(name) => Box::new(plugin::variables::cookies(request, name)),
        }
    }
}

#[cfg(test)]
mod tests;
