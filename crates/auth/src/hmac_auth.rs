//! `hmac_auth`: allows requests that are signed with a key of a consumer, by HTTP Message
//! Signatures (RFC 9421) or as Apache ShenYu has it.
//!
//! Promises that the key and the configuration decide how a signature is verified and what it has
//! to cover, and never the request; that a body is forwarded only if it is the one that was signed;
//! and that a nonce is accepted once by all workers together, until its signature expires.

mod content_digest;
mod message_signature;
mod shenyu;

use std::rc::Rc;
use std::sync::Arc;

use bytes::Bytes;
use message::{Consumer, Fault, FaultKind, LocalFuture, Request};
use plugin::{
    Claim, CredentialPlace, FilterKind, FilterPlan, Keyed, KeyedLimits, KeyedMetrics, WorkerContext,
};
use settings::{Duration, Node, Reader, Setting, Size};
use telemetry::{CachePadded, Counter};
use wire::Known;

use crate::auth_plan::AuthPlan;
use crate::consumers::Entry;
use crate::credential::{CredentialId, CredentialKind};
use crate::method::{AuthResult, BodyCheck, Identity, Method, MethodPlan, check_realm, rejections};
use crate::registry::Directory;
use crate::token::{Algorithm, Key};
use content_digest::ContentDigest;
use message_signature::{MessageSignature, Rules, signatures};
use shenyu::{ShenYuSignature, SignedTarget};

pub(crate) const KIND: FilterKind =
    FilterKind { name: "hmac_auth", schema: HmacAuth::schema, read };

/// Nonces that a process remembers. A request with one more gets 503.
const NONCES_MAX: usize = 256 * 1024;
/// The digest of a longer body is computed on the pool of blocking threads.
const ON_WORKER_BYTES: usize = 64 * 1024;

/// Why a signature is invalid.
type Invalid = &'static str;

const NO_KEY: Invalid = "the key of the signature is not known";
const OTHER_ALGORITHM: Invalid = "the signature names another algorithm than that of its key";
const WRONG: Invalid = "the signature is wrong";

/// Allows only requests that are signed with a key of a consumer.
///
/// The keys are those in `signature_keys` of `consumers`. The owner of the key becomes the
/// request's `consumer`. Other requests get 401 with `WWW-Authenticate`. A signature is verified
/// with the algorithm of the key, whichever it names.
#[derive(Clone, Debug, PartialEq, Setting)]
#[setting(check = check)]
pub(crate) struct HmacAuth {
    /// How requests are signed.
    #[setting(default = "rfc9421")]
    format: SignatureFormat,
    /// The components that a signature has to cover. A signature that covers `@target-uri` covers
    /// `@scheme`, `@authority`, `@path` and `@query`. For `rfc9421` only.
    #[setting(
        default = ["@method", "@authority", "@path", "@query"],
        example = ["@method", "@target-uri", "content-type"]
    )]
    components: Vec<String>,
    /// Protects bodies: a signature of a request with a body has to cover `content-digest`
    /// (RFC 9530), or the body itself with ShenYu. The digest is verified wherever it is covered.
    #[setting(default = true)]
    body: bool,
    /// The longest body that is protected; a longer one is rejected with 413. It is received as a
    /// whole before it is forwarded.
    #[setting(default = "1MiB", range = "1B"..="64MiB")]
    max_body: Size,
    /// How old a signature may be.
    #[setting(default = "5m", range = "1s"..="24h")]
    max_age: Duration,
    /// How far the clock of the signer may be off.
    #[setting(default = "30s", range = "0s"..="10m")]
    leeway: Duration,
    /// Rejects signatures without a nonce. A nonce is accepted once in any case, for each key. For
    /// `rfc9421` only.
    #[setting(default = false)]
    nonce: bool,
    /// The parameter `tag` that a signature must have; those with others are ignored. For `rfc9421`
    /// only.
    #[setting(example = "shop")]
    tag: Option<String>,
    /// Removes the signature from the request before it is forwarded.
    #[setting(default = true)]
    hide: bool,
    /// What `WWW-Authenticate` calls the protected space.
    #[setting(default = "tidegate")]
    realm: String,
}

/// How requests are signed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Setting)]
enum SignatureFormat {
    /// HTTP Message Signatures, in `Signature-Input` and `Signature`.
    #[setting(word = "rfc9421")]
    Rfc9421,
    /// The plugin sign of Apache ShenYu, versions 1.0.0 and 2.0.0.
    #[setting(word = "shenyu")]
    ShenYu,
}

/// The components of a request whose names begin with `@`, except query parameters by their names.
const DERIVED: [&str; 7] =
    ["@method", "@target-uri", "@authority", "@scheme", "@request-target", "@path", "@query"];

fn check(settings: &HmacAuth, node: &Node, reader: &mut Reader<'_>) {
    check_realm(&settings.realm, node, reader);
    let is_shenyu = settings.format == SignatureFormat::ShenYu;
    for name in ["components", "nonce", "tag"].into_iter().filter(|_| is_shenyu) {
        if let Some(written) = node.get(name) {
            reader.error(written.span, format!("`{name}` is not for the format shenyu"));
        }
    }
    let span = node.get("components").unwrap_or(node).span;
    for name in &settings.components {
        let is_derived = DERIVED.contains(&name.as_str());
        let is_field = wire::token::is_token(name.as_bytes()) && *name == name.to_lowercase();
        if !is_derived && !is_field {
            let message = format!("{} is not a component of a request", settings::quote(name));
            reader.report().with_nearest(span, message, name, DERIVED);
        }
    }
    if settings.components.is_empty() {
        reader.error(span, "a signature that covers nothing protects nothing");
    }
}

fn read(node: &Node, reader: &mut Reader<'_>) -> Option<Arc<dyn FilterPlan>> {
    Some(AuthPlan::of(HmacAuth::read(node, reader)?.plan()))
}

impl HmacAuth {
    pub(crate) fn plan(self) -> HmacAuthPlan {
        HmacAuthPlan(self)
    }

    fn rules(&self) -> Rules {
        Rules {
            components: self.components.iter().map(|name| name.as_str().into()).collect(),
            max_age_s: self.max_age.get().as_secs(),
            leeway_s: self.leeway.get().as_secs(),
            tag: self.tag.as_deref().map(Box::from),
            needs_nonce: self.nonce,
        }
    }
}

pub(crate) struct HmacAuthPlan(HmacAuth);

impl MethodPlan for HmacAuthPlan {
    fn name(&self) -> &'static str {
        KIND.name
    }

    fn places(&self) -> Vec<CredentialPlace> {
        let names: &[&str] = match self.0.format {
            SignatureFormat::Rfc9421 => &["signature-input", "signature"],
            SignatureFormat::ShenYu => &["authorization", "shenyu-authorization", "appkey", "sign"],
        };
        names.iter().map(|name| CredentialPlace::Header((*name).to_owned())).collect()
    }

    fn forwards(&self) -> bool {
        !self.0.hide
    }

    fn build(&self, worker: &WorkerContext) -> Rc<dyn Method> {
        let settings = &self.0;
        let limits = KeyedLimits { entries: NONCES_MAX, changes: 0 };
        let nonces = || Nonces(Keyed::new(limits, KeyedMetrics::default()));
        Rc::new(HmacMethod {
            directory: Directory::of(worker),
            format: settings.format,
            rules: settings.rules(),
            protects_bodies: settings.body,
            body_bytes_max: settings.max_body.bytes(),
            nonces: worker.shared.get((), nonces),
            full: rejections(worker, KIND.name, "nonces_full"),
            hide: settings.hide,
            challenge: format!("Signature realm=\"{}\"", settings.realm),
        })
    }

    fn describe(&self) -> String {
        let format = match self.0.format {
            SignatureFormat::Rfc9421 => "keys of consumers, RFC 9421",
            SignatureFormat::ShenYu => "keys of consumers, ShenYu",
        };
        let hidden = if self.0.hide { "" } else { ", passed on" };
        format!("{format}{hidden}")
    }
}

/// True if a request has a signature by a secret of HMAC with SHA-256 that is valid at a time, in
/// seconds since 1970: as the filter verifies it, whatever components it covers.
pub fn verify_message(request: &Request, secret: &[u8], now_s: u64) -> bool {
    let rules =
        Rules { components: Vec::new(), max_age_s: 60, leeway_s: 0, tag: None, needs_nonce: false };
    let Some(key) = Key::secret(None, Algorithm::Hs256, secret) else { return false };
    let found = signatures(request, &rules, now_s).unwrap_or_default();
    found.iter().any(|found| key.verify(&found.base, &found.signature))
}

/// The nonces of verified signatures, with the second from which each may be forgotten.
struct Nonces(Keyed<u64>);

struct HmacMethod {
    directory: Rc<Directory>,
    format: SignatureFormat,
    rules: Rules,
    protects_bodies: bool,
    body_bytes_max: u64,
    nonces: Arc<Nonces>,
    full: Arc<CachePadded<Counter>>,
    hide: bool,
    challenge: String,
}

impl Method for HmacMethod {
    /// A signature takes longer than reading the clock.
    fn is_instant(&self) -> bool {
        false
    }

    fn authenticate(&self, request: &Request) -> AuthResult {
        let now_s = net::clock::wall_secs();
        let result = match self.format {
            SignatureFormat::Rfc9421 => self.message_signature(request, now_s),
            SignatureFormat::ShenYu => self.shenyu(request, now_s),
        };
        result.unwrap_or_else(AuthResult::Invalid)
    }

    fn prepare(&self, request: &mut Request) {
        if self.hide {
            self.hide(request);
        }
    }

    fn hide(&self, request: &mut Request) {
        match self.format {
            SignatureFormat::Rfc9421 => {
                request.headers.remove("signature-input");
                request.headers.remove("signature");
            }
            SignatureFormat::ShenYu => shenyu::hide(request),
        }
    }

    fn challenge(&self, _: bool) -> Option<String> {
        Some(self.challenge.clone())
    }
}

/// A signature that is right, of a request whose nonce and body may still be wrong.
struct Verified {
    consumer: Rc<Consumer>,
    nonce: Option<NonceUse>,
}

/// A nonce, and when its signature expires.
struct NonceUse {
    id: [u8; 32],
    expires_s: u64,
    nonces: Arc<Nonces>,
    full: Arc<CachePadded<Counter>>,
}

impl Verified {
    /// Accepts the request unless its nonce was used before.
    fn accept(self) -> AuthResult {
        if let Some(NonceUse { id, expires_s, nonces, full }) = self.nonce {
            let now_s = net::clock::wall_secs();
            match nonces.0.claim(&id, expires_s, |until_s| *until_s <= now_s) {
                Claim::Added => {}
                Claim::Known => return AuthResult::Invalid("the nonce was used before"),
                Claim::Full => {
                    full.inc();
                    let fault = Fault::new(FaultKind::Unavailable, "too many nonces are in use");
                    return AuthResult::Counted(fault.with_field(Known::RetryAfter, "30"));
                }
            }
        }
        AuthResult::Accepted(Identity::of(self.consumer))
    }
}

impl HmacMethod {
    /// The owner of a key, and its entry, which has the key.
    fn owner(&self, key_id: &str) -> Result<(Rc<Consumer>, Arc<Entry>), Invalid> {
        let id = CredentialId::of(CredentialKind::SignatureKey, key_id.as_bytes());
        self.directory.entry(&id).ok_or(NO_KEY)
    }

    fn message_signature(&self, request: &Request, now_s: u64) -> Result<AuthResult, Invalid> {
        let signatures = signatures(request, &self.rules, now_s)?;
        let mut reason = None;
        for signature in &signatures {
            match self.verify(signature) {
                Ok(verified) => return self.check_digest(request, signature, verified),
                Err(why) => reason = reason.or(Some(why)),
            }
        }
        match reason {
            Some(why) => Err(why),
            None => Ok(AuthResult::Missing("there is no signature")),
        }
    }

    fn verify(&self, signature: &MessageSignature) -> Result<Verified, Invalid> {
        let (consumer, entry) = self.owner(&signature.key_id)?;
        let key = entry.signature_key(&signature.key_id).ok_or(NO_KEY)?;
        let name = key.algorithm.message_name().ok_or("the key is for the format shenyu only")?;
        if signature.algorithm.as_ref().is_some_and(|named| named != name) {
            return Err(OTHER_ALGORITHM);
        }
        if !key.verify(&signature.base, &signature.signature) {
            return Err(WRONG);
        }
        let nonce = signature.nonce.as_ref().map(|nonce| NonceUse {
            // The name of a key has no control character.
            id: *CredentialId::of(
                CredentialKind::Nonce,
                format!("{}\n{nonce}", signature.key_id).as_bytes(),
            )
            .digest(),
            expires_s: signature.expires_s,
            nonces: self.nonces.clone(),
            full: self.full.clone(),
        });
        Ok(Verified { consumer, nonce })
    }

    /// Accepts the request once its body is known to be the one that was signed.
    fn check_digest(
        &self,
        request: &Request,
        signature: &MessageSignature,
        verified: Verified,
    ) -> Result<AuthResult, Invalid> {
        if !signature.covers_digest {
            let has_body = request.body.length() != Some(0);
            return match self.protects_bodies && has_body {
                true => Err("the signature does not cover the digest of the body"),
                false => Ok(verified.accept()),
            };
        }
        let digest = ContentDigest::of(&request.headers)?;
        Ok(self.after_body(
            move |body| match digest.matches(body) {
                true => Ok(()),
                false => Err("the body has another digest than the one that is signed"),
            },
            verified,
        ))
    }

    fn shenyu(&self, request: &Request, now_s: u64) -> Result<AuthResult, Invalid> {
        let Some(signature) = ShenYuSignature::of(request)? else {
            return Ok(AuthResult::Missing("there is no signature"));
        };
        let signed_s = signature.timestamp_ms / 1000;
        if signed_s > now_s + self.rules.leeway_s {
            return Err("the signature was created in the future");
        }
        if now_s >= signed_s.saturating_add(self.rules.max_age_s + self.rules.leeway_s) {
            return Err("the signature has expired");
        }
        let target = SignedTarget::of(request).ok_or("the target is not ASCII")?;
        let (consumer, entry) = self.owner(&signature.key_id)?;
        let verified = Verified { consumer, nonce: None };
        let check = move |body: Option<&[u8]>| {
            let signed = signature.signed(&target, body)?;
            let key = entry.signature_key(&signature.key_id).ok_or(NO_KEY)?;
            if key.algorithm.shenyu_name() != Some(&signature.algorithm) {
                return Err(OTHER_ALGORITHM);
            }
            if key.verify(&signed, &signature.signature) { Ok(()) } else { Err(WRONG) }
        };
        match self.protects_bodies {
            true => Ok(self.after_body(move |body| check(Some(body)), verified)),
            false => check(None).map(|()| verified.accept()),
        }
    }

    /// Returns the result that receives the body and accepts the request if `check` does.
    fn after_body(
        &self,
        check: impl FnOnce(&[u8]) -> Result<(), Invalid> + Send + 'static,
        verified: Verified,
    ) -> AuthResult {
        let concluded = |checked: Result<(), Invalid>| match checked {
            Ok(()) => verified.accept(),
            Err(why) => AuthResult::Invalid(why),
        };
        let check = move |body: Bytes| -> LocalFuture<'static, AuthResult> {
            Box::pin(async move {
                if body.len() <= ON_WORKER_BYTES {
                    return concluded(check(&body));
                }
                match net::blocking(move || check(&body)).await {
                    Ok(checked) => concluded(checked),
                    Err(_) => AuthResult::Failed(Fault::internal("verifying a body failed")),
                }
            })
        };
        AuthResult::Body(BodyCheck { bytes_max: self.body_bytes_max, check: Box::new(check) })
    }
}

#[cfg(test)]
mod tests;
