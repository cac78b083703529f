//! `oidc`: logs browsers in at a provider of OpenID Connect (authorization code flow with PKCE).
//!
//! Promises that the session is in encrypted cookies and nowhere else, so that it outlives reloads
//! and restarts; that an ID token is verified as `jwt` verifies tokens, and belongs to the login;
//! that no token is in a log, and none is forwarded unless configured; that nothing but a page is
//! sent to the provider. Sessions continue while the provider is down; logins get 503.

mod cookie;
mod filter;
mod flow;
mod id_token;
mod login;
mod provider;
mod session;

use std::any::Any;
use std::rc::Rc;
use std::sync::Arc;

use http_client::Url;
use net::tls::{CertificateName, ClientTls};
use plugin::{FilterKind, FilterPlan, HandlerSetting, HeaderName, Stage, WorkerContext};
use settings::{Duration, Node, OneOrMany, Reader, Secret, Setting, Span, Spanned};
use tls_settings::UpstreamTlsSettings;

use crate::credential::digest;
use crate::form_client::ClientAuth;
use crate::identity::in_clear;
use crate::last_method::{LastMethod, LastMethodPlan};
use crate::method::check_realm;
use cookie::{CookieKeys, SECRET_BYTES_MIN};
use filter::OidcFilter;

pub(crate) const KIND: FilterKind = FilterKind { name: "oidc", schema: Oidc::schema, read };

/// Allows only requests of users that have logged in at a provider of OpenID Connect.
///
/// A page without a session is redirected to the provider; other requests without one get 401. The
/// route has to contain the paths `callback` and `logout`. The claim `sub` names the request's
/// `consumer`; all claims are variables, `{claim.NAME}`. The session is in encrypted cookies, which
/// browsers accept over TLS and on localhost only. Back-channel logout is not supported.
#[derive(Clone, Debug, PartialEq, Setting)]
#[setting(check = check)]
pub(crate) struct Oidc {
    /// The provider: the `iss` of its tokens. Its end points and keys are discovered at
    /// `/.well-known/openid-configuration` below it.
    #[setting(example = "https://id.example.com")]
    issuer: String,
    /// The end points of a provider without discovery.
    endpoints: Option<Endpoints>,
    /// The name of this client at the provider.
    #[setting(example = "shop")]
    client_id: String,
    /// The secret of the client; a public client has none.
    client_secret: Option<Secret>,
    /// How the secret is sent.
    #[setting(default = "basic")]
    client_auth: ClientAuth,
    /// The scopes that are requested. `offline_access` makes many providers issue a refresh token.
    #[setting(default = ["openid"], example = ["openid", "email", "offline_access"])]
    scopes: OneOrMany<String>,
    /// The path that the provider sends browsers back to: `redirect_uri` is this path at the
    /// origin of the request.
    #[setting(default = "/oidc/callback")]
    callback: String,
    /// The path that ends the session, also at the provider if it has an end point for that.
    #[setting(default = "/oidc/logout")]
    logout: String,
    /// The target of the redirect after a logout: a path or a URL, which must be registered at the
    /// provider.
    #[setting(example = "/goodbye")]
    after_logout: Option<String>,
    /// Scheme and authority of this server as browsers see them; those of the request unless set.
    #[setting(example = "https://shop.example.com")]
    origin: Option<String>,
    /// The name of the session's cookie, after `__Host-`.
    #[setting(default = "tidegate_session")]
    cookie: String,
    /// Secrets that keys for cookies are derived from, at least 32 bytes each. The first encrypts;
    /// all decrypt, so that a new secret in front of the old one ends no session.
    #[setting(example = ["${SESSION_SECRET}"])]
    cookie_secrets: OneOrMany<Secret>,
    /// How long a session lasts without a request.
    #[setting(default = "1h", range = "1m"..="720h")]
    idle: Duration,
    /// How long a session lasts at most.
    #[setting(default = "12h", range = "1m"..="8760h")]
    lifetime: Duration,
    /// Adds the claims of the provider's userinfo end point to those of the ID token.
    #[setting(default = false)]
    userinfo: bool,
    /// Forwards the access token in `Authorization: Bearer`, in place of the client's own.
    #[setting(default = false)]
    forward_access_token: bool,
    /// The claim that names the consumer: one with this `jwt: { subject }` in `consumers`, or a
    /// consumer of which only the name is known.
    #[setting(default = "sub")]
    consumer_claim: String,
    /// Rejects users without an entry in `consumers`.
    #[setting(default = false)]
    consumers_only: bool,
    /// How far the clock of the provider may be off.
    #[setting(default = "30s", range = "0s"..="10m")]
    leeway: Duration,
    /// The longest time for a request to the provider.
    #[setting(default = "5s", range = "100ms"..="1m")]
    timeout: Duration,
    /// TLS to the provider.
    #[setting(example = { "ca": "internal.pem" })]
    tls: Option<Spanned<UpstreamTlsSettings>>,
    /// The handler that requests to the provider are sent to, with path and `Host` of its URLs: for
    /// a provider that this server reaches at another address than browsers do.
    #[setting(example = { "upstream": "id" })]
    to: Option<HandlerSetting>,
    /// What `WWW-Authenticate` calls the protected space.
    #[setting(default = "tidegate")]
    realm: String,
}

/// The end points of a provider.
#[derive(Clone, Debug, PartialEq, Setting)]
struct Endpoints {
    /// Where users log in.
    #[setting(example = "https://id.example.com/auth")]
    authorization: Url,
    /// Where codes and refresh tokens are exchanged.
    #[setting(example = "https://id.example.com/token")]
    token: Url,
    /// The JSON Web Key Set.
    #[setting(example = "https://id.example.com/keys")]
    keys: Url,
    /// The claims of the user.
    #[setting(example = "https://id.example.com/userinfo")]
    userinfo: Option<Url>,
    /// Where a session at the provider is ended.
    #[setting(example = "https://id.example.com/logout")]
    end_session: Option<Url>,
}

fn check(settings: &Oidc, node: &Node, reader: &mut Reader<'_>) {
    let place = |key| node.get(key).unwrap_or(node).span;
    if settings.issuer.parse::<Url>().is_err() || settings.issuer.contains(['?', '#']) {
        reader.error(place("issuer"), "the issuer is a URL such as https://id.example.com");
    }
    if settings.client_id.is_empty() || settings.client_id.contains(char::is_control) {
        reader.error(place("client_id"), "this is not a valid client ID");
    }
    if !settings.scopes.iter().any(|scope| scope == "openid") {
        reader.error(place("scopes"), "without the scope openid the provider issues no ID token");
    }
    let is_path = |path: &str| {
        path.starts_with('/')
            && !path.contains(['?', '#'])
            && path.bytes().all(|b| b.is_ascii_graphic())
    };
    for (key, path) in [("callback", &settings.callback), ("logout", &settings.logout)] {
        if !is_path(path) {
            reader.error(place(key), "this is a path from the root, without a query");
        }
    }
    if settings.callback == settings.logout {
        reader.error(place("logout"), "callback and logout are the same path");
    }
    let is_url = |text: &str| text.parse::<Url>().is_ok();
    if settings.after_logout.as_ref().is_some_and(|url| !is_path(url) && !is_url(url)) {
        reader.error(place("after_logout"), "this is neither a path nor a URL");
    }
    if let Some(origin) = &settings.origin
        && (!is_url(origin) || origin.matches('/').count() != 2)
    {
        reader.error(place("origin"), "an origin is a URL without a path");
    }
    if settings.cookie.is_empty() || !wire::token::is_token(settings.cookie.as_bytes()) {
        reader.error(place("cookie"), "this is not a valid name of a cookie");
    }
    let is_short = |secret: &Secret| secret.expose().len() < SECRET_BYTES_MIN;
    if settings.cookie_secrets.is_empty() || settings.cookie_secrets.iter().any(is_short) {
        reader
            .error(
                place("cookie_secrets"),
                format!("a secret of at least {SECRET_BYTES_MIN} bytes is required"),
            )
            .help("openssl rand -hex 32 makes one");
    }
    if settings.consumer_claim.is_empty() {
        reader.error(place("consumer_claim"), "the name of the claim is empty");
    }
    let lacks_userinfo = settings.endpoints.as_ref().is_some_and(|all| all.userinfo.is_none());
    if settings.userinfo && lacks_userinfo {
        reader.error(place("userinfo"), "endpoints has no userinfo");
    }
    if settings.client_secret.is_none() {
        reader.no_effect(node, &["client_auth"], "there is no client_secret");
    }
    if let (Some(tls), Some(_)) = (&settings.tls, &settings.to) {
        reader.error(tls.span, "`tls` has no effect: the handler of `to` connects");
    }
    check_realm(&settings.realm, node, reader);
}

fn read(node: &Node, reader: &mut Reader<'_>) -> Option<Arc<dyn FilterPlan>> {
    Some(Arc::new(Oidc::read(node, reader)?.plan(node.span, reader)?))
}

impl Oidc {
    /// The plan of settings at this place; `None` with an error if TLS cannot be set up.
    pub(crate) fn plan(self, span: Span, reader: &mut Reader<'_>) -> Option<OidcPlan> {
        let tls = match self.uses_tls() {
            true => Some(UpstreamTlsSettings::client(self.tls.as_ref(), span, reader)?),
            false => None,
        };
        Some(OidcPlan::new(self, tls))
    }

    /// The name that the provider's certificate must have, if `tls` names one.
    fn server_name(&self) -> Option<CertificateName> {
        self.tls.as_ref()?.server_name()
    }

    /// The URLs that this server requests, as far as they are known.
    fn urls(&self) -> Vec<Url> {
        match &self.endpoints {
            Some(Endpoints { token, keys, userinfo, .. }) => {
                [token, keys].into_iter().chain(userinfo).cloned().collect()
            }
            None => self.issuer.parse().into_iter().collect(),
        }
    }

    fn uses_tls(&self) -> bool {
        self.to.is_none() && self.urls().iter().any(|url| url.is_secure)
    }
}

pub(crate) struct OidcPlan {
    settings: Arc<Oidc>,
    tls: Option<ClientTls>,
    /// Shared by the workers.
    keys: Arc<CookieKeys>,
}

impl OidcPlan {
    fn new(settings: Oidc, tls: Option<ClientTls>) -> OidcPlan {
        let secrets = settings.cookie_secrets.iter().map(Secret::expose);
        let purpose = format!("{}\0{}", settings.issuer, settings.client_id);
        let keys = Arc::new(CookieKeys::new(secrets, purpose));
        OidcPlan { settings: Arc::new(settings), tls, keys }
    }

    /// The identity of a provider: metadata, keys and connections of an unchanged provider survive
    /// a reload.
    fn provider_identity(&self) -> (String, Option<[u8; 32]>, Option<ClientTls>) {
        let Oidc { issuer, endpoints, client_id, client_auth, timeout, tls, .. } = &*self.settings;
        let text =
            format!("{issuer} {endpoints:?} {client_id} {client_auth:?} {timeout:?} {tls:?}");
        let secret = self.settings.client_secret.as_ref();
        (text, secret.map(|secret| digest(secret.expose())), self.tls.clone())
    }
}

impl FilterPlan for OidcPlan {
    fn name(&self) -> &'static str {
        KIND.name
    }

    fn build(&self, worker: &WorkerContext) -> Stage {
        Stage::Middleware(Rc::new(OidcFilter::new(self, worker)))
    }

    fn describe(&self) -> String {
        let Oidc { issuer, client_id, callback, .. } = &*self.settings;
        format!("{issuer} as {client_id}, callback {callback}")
    }

    fn authenticates(&self) -> bool {
        true
    }

    fn handlers(&self) -> Vec<&HandlerSetting> {
        self.settings.to.iter().collect()
    }

    fn as_any(&self) -> Option<&dyn Any> {
        Some(self)
    }
}

impl LastMethodPlan for OidcPlan {
    fn build_method(&self, worker: &WorkerContext) -> Rc<dyn LastMethod> {
        Rc::new(OidcFilter::new(self, worker))
    }

    /// With `forward_access_token` an upstream takes the token of a client for one of the session.
    fn own_headers(&self) -> Vec<HeaderName> {
        let is_set = self.settings.forward_access_token;
        is_set.then(|| "authorization".parse().ok()).flatten().into_iter().collect()
    }

    fn url_in_clear(&self) -> Option<Url> {
        let urls = self.settings.to.is_none().then(|| self.settings.urls());
        urls.into_iter().flatten().find(in_clear)
    }
}

#[cfg(test)]
mod tests {
    use plugin::testing::{errors, plan};
    use settings::node;

    use super::*;

    #[test]
    fn the_declaration_is_valid() {
        settings::verify::<Oidc>().unwrap();
    }

    #[test]
    fn settings_are_checked_and_secrets_are_not_shown() {
        let valid = || {
            node!({
                "issuer": "https://id.example.com",
                "client_id": "shop",
                "client_secret": "sesame-open-sesame",
                "cookie_secrets": "0123456789abcdef0123456789abcdef",
            })
        };
        let described = plan(&KIND, &valid()).unwrap().describe();
        assert_eq!(described, "https://id.example.com as shop, callback /oidc/callback");
        let with = |more: Node| {
            let (Some(base), Some(more)) = (valid().map().map(<[_]>::to_vec), more.map()) else {
                panic!("maps")
            };
            let mut node = valid();
            let replaced = |key: &str| more.iter().any(|(other, _)| other.name == key);
            let kept = base.into_iter().filter(|(key, _)| !replaced(&key.name));
            node.value = settings::Value::Map(kept.chain(more.iter().cloned()).collect());
            errors(&KIND, &node)
        };
        for (changed, why) in [
            (node!({ "issuer": "id.example.com" }), "the issuer is a URL"),
            (node!({ "client_id": "" }), "not a valid client ID"),
            (node!({ "scopes": ["email"] }), "without the scope openid"),
            (node!({ "callback": "oidc" }), "a path from the root"),
            (node!({ "logout": "/oidc/callback" }), "the same path"),
            (node!({ "after_logout": "goodbye" }), "neither a path nor a URL"),
            (node!({ "origin": "https://shop.example.com/x" }), "without a path"),
            (node!({ "cookie": "a b" }), "not a valid name of a cookie"),
            (node!({ "cookie_secrets": "too-short-a-secret" }), "at least 32 bytes"),
            (node!({ "idle": "1s" }), "1m"),
            (node!({ "to": { "upstream": "id" }, "tls": {} }), "`tls` has no effect"),
        ] {
            let report = with(changed);
            assert!(report.contains(why), "{why}: {report}");
            assert!(!report.contains("sesame") && !report.contains("too-short"), "{report}");
        }
    }
}
