//! The exchanges of `oidc` with the browser that are not forwarded: the redirect to the provider,
//! the provider's response, and the logout.

use message::{Fault, FaultKind, HandlerResult, Request, Response};
use serde_json::Value as Json;
use telemetry::event;
use telemetry::log::Level;
use wire::{Known, Method};

use super::Oidc;
use super::cookie::HeldCookies;
use super::filter::{OidcFilter, with_cookies};
use super::id_token::{self, Expected, only};
use super::login::{self, Login};
use super::provider::ProviderError;
use super::session::Session;
use crate::form_client::form_of;
use crate::last_method::LastMethod;
use crate::token::{self, ClaimPairs, Object, VerifiedToken, claim_pairs, verify};

impl OidcFilter {
    /// Sends a page to the provider; other requests get 401.
    pub(super) async fn begin(
        &self,
        request: &mut Request,
        mut cookies: Vec<String>,
        now_s: u64,
    ) -> HandlerResult {
        let result = self.redirect_to_provider(request, &mut cookies, now_s).await;
        self.hide(request);
        with_cookies(result, cookies)
    }

    async fn redirect_to_provider(
        &self,
        request: &Request,
        cookies: &mut Vec<String>,
        now_s: u64,
    ) -> HandlerResult {
        if !is_page(request) {
            self.counters.missing.inc();
            // A scheme of its own: the session comes in a cookie.
            let challenge = format!("Cookie realm=\"{}\"", self.settings.realm);
            let fault = Fault::new(FaultKind::Unauthorized, "there is no session");
            return Err(fault.with_field(Known::WwwAuthenticate, challenge));
        }
        if login::is_loop(request, &self.cookie, &self.keys, now_s) {
            self.counters.looped.inc();
            let why = "the browser has logged in again and again without sending the session back";
            return Err(Fault::new(FaultKind::Forbidden, why));
        }
        let metadata =
            self.provider.metadata().await.map_err(|error| self.failed(request, &error))?;
        let login = Login::begin(request, now_s)?;
        let fields = login.remember(request, &self.cookie, &self.keys);
        cookies.extend(fields.ok_or_else(|| Fault::internal("the login cannot be sealed"))?);
        let Oidc { client_id, scopes, .. } = &*self.settings;
        let redirect_uri = self.redirect_uri(request);
        Ok(redirect(&login.url(&metadata, client_id, &redirect_uri, &scopes.join(" "))))
    }

    /// Handles the provider's response to a login.
    pub(super) async fn call_back(&self, request: &mut Request) -> HandlerResult {
        let mut cookies = Vec::new();
        let result = self.finish_login(request, &mut cookies).await;
        if let Err(fault) = &result
            && fault.kind != FaultKind::Unavailable
        {
            self.counters.invalid.inc();
        }
        // The code and the state are not for the log.
        request.target = message::Target::new(self.settings.callback.clone().into())
            .unwrap_or_else(|_| message::Target::asterisk());
        self.hide(request);
        with_cookies(result, cookies)
    }

    async fn finish_login(&self, request: &Request, cookies: &mut Vec<String>) -> HandlerResult {
        if request.method != Method::Get {
            return Err(Fault::method_not_allowed("GET"));
        }
        let now_s = net::clock::wall_secs();
        let login = Login::returned(request, &self.cookie, &self.keys, now_s);
        let Some((login, login_cookie)) = login else {
            let why = "no login of this browser is in progress: open the page again";
            return Err(Fault::new(FaultKind::InvalidContent, why));
        };
        cookies.push(login::expire(&login_cookie));
        let metadata =
            self.provider.metadata().await.map_err(|error| self.failed(request, &error))?;
        let code = login::code(request, &self.settings.issuer, metadata.names_issuer)?;
        let grant = [
            ("grant_type", "authorization_code"),
            ("code", &code),
            ("redirect_uri", &self.redirect_uri(request)),
            ("code_verifier", &login.verifier),
        ];
        let session = async {
            let tokens = self.provider.token(&grant).await?;
            self.session(&tokens, Some(&login.nonce), now_s).await
        };
        let session = session.await.map_err(|error| self.failed(request, &error))?;
        self.counters.logins.inc();
        cookies.extend(login::count_attempt(request, &self.cookie, &self.keys, now_s));
        let held = HeldCookies::of(request, &self.cookie);
        let fields = self.fields(held, session, now_s);
        cookies.extend(fields.ok_or_else(|| Fault::internal("the session is too large"))?);
        Ok(redirect(&login.return_to))
    }

    /// The session that a response of the token end point begins.
    pub(super) async fn session(
        &self,
        tokens: &Object,
        nonce: Option<&str>,
        now_s: u64,
    ) -> Result<Session, ProviderError> {
        let text = |name: &str| tokens.get(name).and_then(Json::as_str).map(str::to_owned);
        let access_token = text("access_token");
        let Some(id_token) = text("id_token") else {
            return Err(ProviderError::Invalid("the response has no ID token"));
        };
        let mut claims = self.verified(&id_token).await?;
        let client_id = &self.settings.client_id;
        let expected = Expected { client_id, nonce, access_token: access_token.as_deref() };
        id_token::check(id_token.as_bytes(), &claims, &expected).map_err(ProviderError::Invalid)?;
        if self.settings.userinfo {
            let Some(token) = &access_token else {
                return Err(ProviderError::Invalid("the response has no access token"));
            };
            let userinfo = self.provider.userinfo(token).await?;
            // OpenID Connect Core 5.3.2: one of another user would be a mix-up.
            if userinfo.get("sub").and_then(Json::as_str) != only(&claims, "sub") {
                return Err(ProviderError::Invalid("the userinfo is of another user"));
            }
            let more = claim_pairs(userinfo).map_err(ProviderError::Invalid)?;
            let is_new = |(name, _): &(Box<str>, Box<str>)| !claims.iter().any(|(n, _)| n == name);
            let more: Vec<_> = more.into_iter().filter(is_new).collect();
            claims.extend(more);
        }
        let subject = only(&claims, &self.settings.consumer_claim)
            .filter(|subject| !subject.is_empty() && !subject.contains(char::is_control))
            .ok_or(ProviderError::Invalid("the ID token names no consumer"))?
            .into();
        let session = Session {
            id: login::random().map_err(|_| ProviderError::Invalid("there is no random number"))?,
            login_s: now_s,
            seen_s: now_s,
            claims,
            subject,
            expires_s: None,
            access_token: None,
            refresh_token: None,
            id_token: Some(id_token),
        };
        Ok(session.with_tokens(tokens, now_s, self.settings.forward_access_token))
    }

    /// The claims of an ID token whose signature is right.
    async fn verified(&self, id_token: &str) -> Result<ClaimPairs, ProviderError> {
        let verify = |keys: &[token::Key]| {
            verify(id_token.as_bytes(), keys, &self.rules, net::clock::wall_secs())
        };
        let keys = self.provider.keys(false).await?;
        let verified = match verify(&keys) {
            Err(token::NO_KEY) => verify(&self.provider.keys(true).await?),
            verified => verified,
        };
        let VerifiedToken { claims, .. } = verified.map_err(ProviderError::Invalid)?;
        Ok(claims)
    }

    /// Ends the session here and, if it has an end point for that, at the provider (OpenID Connect
    /// RP-Initiated Logout 1.0).
    pub(super) async fn log_out(&self, request: &mut Request) -> HandlerResult {
        let opened = self.opened(request, net::clock::wall_secs());
        let cookies = HeldCookies::of(request, &self.cookie).expired(&self.cookie);
        self.hide(request);
        self.counters.logouts.inc();
        let Oidc { client_id, after_logout, .. } = &*self.settings;
        let after = after_logout.as_ref().map(|url| match url.starts_with('/') {
            true => format!("{}{url}", self.origin(request)),
            false => url.clone(),
        });
        let id_token = opened.as_ref().and_then(|opened| opened.session.id_token.as_deref());
        // Without the provider the session still ends here.
        let metadata = match &opened {
            Some(_) => self.provider.metadata().await.ok(),
            None => None,
        };
        let end_session = metadata.and_then(|metadata| metadata.end_session.clone());
        let response = match (end_session, after) {
            (Some(url), after) => {
                let mut form = vec![("client_id", client_id.as_str())];
                form.extend(id_token.map(|token| ("id_token_hint", token)));
                form.extend(after.as_deref().map(|url| ("post_logout_redirect_uri", url)));
                let joint = if url.contains('?') { '&' } else { '?' };
                redirect(&format!("{url}{joint}{}", form_of(&form)))
            }
            (None, Some(after)) => redirect(&after),
            (None, None) => Response::text(200, "You are logged out.\n"),
        };
        with_cookies(Ok(response), cookies)
    }

    /// Scheme and authority of this server as the browser sees them.
    fn origin(&self, request: &Request) -> String {
        self.settings.origin.clone().unwrap_or_else(|| {
            let authority = String::from_utf8_lossy(request.authority()).into_owned();
            format!("{}://{authority}", request.scheme.as_str())
        })
    }

    fn redirect_uri(&self, request: &Request) -> String {
        format!("{}{}", self.origin(request), self.settings.callback)
    }

    /// The response to a failure of the provider, which is counted and logged.
    fn failed(&self, request: &Request, error: &ProviderError) -> Fault {
        if matches!(error, ProviderError::Unavailable(_) | ProviderError::Busy) {
            self.counters.unavailable.inc();
        }
        self.log(error, request.trace_id());
        error.fault()
    }

    /// `trace_id` is that of the request that the provider was needed for, if it is known.
    pub(super) fn log(&self, error: &ProviderError, trace_id: Option<String>) {
        event!(
            Level::Warn,
            "a request to the identity provider failed",
            issuer = self.settings.issuer,
            reason = error.reason(),
            trace_id = trace_id
        );
    }
}

/// True if a browser shows the response as a page: anything else could not follow the login.
fn is_page(request: &Request) -> bool {
    let field = |name: &str| request.headers.get(name);
    let accepts = |range: &str| {
        field("accept")
            .is_none_or(|accept| memchr::memmem::find(accept, range.as_bytes()).is_some())
    };
    matches!(request.method, Method::Get | Method::Head)
        && !request.upgrade
        && field("sec-fetch-mode").is_none_or(|mode| mode == b"navigate")
        && field("x-requested-with").is_none()
        && (accepts("text/html") || accepts("*/*"))
}

/// A redirect that no cache stores.
fn redirect(to: &str) -> Response {
    let mut response = Response::new(302);
    response.headers.append(Known::Location, to);
    response.headers.append(Known::CacheControl, "no-store");
    response
}
