//! The middleware `oidc`: which requests are forwarded, with which session, and how its tokens are
//! refreshed.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;

use message::{Claims, Fault, FaultKind, HandlerResult, LocalFuture, Request};
use plugin::{BackgroundPermit, MaybeFuture, Middleware, Next, WorkerContext};
use telemetry::{CachePadded, Counter, families};
use wire::Known;

use super::cookie::{self, CookieKeys, HeldCookies};
use super::id_token::only;
use super::provider::{Provider, ProviderError};
use super::session::{Lifetime, Refreshed, Refreshes, Session, Turn};
use super::{Oidc, OidcPlan};
use crate::credential::{ByCredential, CredentialId, CredentialKind};
use crate::last_method::{self, Decision, Hide, LastMethod, ResponseChange};
use crate::method::rejections;
use crate::registry::Directory;
use crate::token::Rules;

/// Sessions that a worker remembers decrypted, for each filter.
const REMEMBERED: usize = 4096;

/// A session whose cookie was opened.
pub(super) struct OpenedSession {
    pub(super) session: Session,
    /// As the request has them.
    claims: Claims,
    subject: CredentialId,
}

impl OpenedSession {
    fn new(session: Session) -> Rc<OpenedSession> {
        let claims = session.claims.clone().into();
        let subject = CredentialId::of(CredentialKind::Subject, session.subject.as_bytes());
        Rc::new(OpenedSession { session, claims, subject })
    }
}

/// The filter, as one worker runs it.
pub(super) struct OidcFilter {
    pub(super) settings: Arc<Oidc>,
    /// The name of the session's cookie.
    pub(super) cookie: Box<str>,
    pub(super) keys: Arc<CookieKeys>,
    pub(super) lifetime: Lifetime,
    pub(super) rules: Rules,
    pub(super) provider: Rc<Provider>,
    pub(super) refreshes: Arc<Refreshes>,
    pub(super) directory: Rc<Directory>,
    pub(super) opened: RefCell<ByCredential<Rc<OpenedSession>>>,
    pub(super) counters: Counters,
}

type Counted = Arc<CachePadded<Counter>>;

pub(super) struct Counters {
    pub(super) missing: Counted,
    pub(super) invalid: Counted,
    pub(super) looped: Counted,
    pub(super) unavailable: Counted,
    pub(super) logins: Counted,
    pub(super) refreshes: Counted,
    pub(super) failed_refreshes: Counted,
    pub(super) logouts: Counted,
}

impl Counters {
    fn new(worker: &WorkerContext) -> Counters {
        let rejected = |reason| rejections(worker, super::KIND.name, reason);
        let event =
            |event| worker.telemetry.worker_counter(worker.index, &families::OIDC_EVENTS, &[event]);
        Counters {
            missing: rejected("missing"),
            invalid: rejected("invalid"),
            looped: rejected("loop"),
            unavailable: rejected("provider"),
            logins: event("login"),
            refreshes: event("refresh"),
            failed_refreshes: event("refresh_failed"),
            logouts: event("logout"),
        }
    }
}

impl OidcFilter {
    pub(super) fn new(plan: &OidcPlan, worker: &WorkerContext) -> OidcFilter {
        let settings = plan.settings.clone();
        // Other settings of the provider are another provider.
        let identity = plan.provider_identity();
        let provider = worker.local.get(identity, || Provider::new(&settings, &plan.tls, worker));
        // That of the latest configuration: upstreams change with it.
        provider.reach_by(settings.to.as_ref().map(|to| to.build(worker)));
        OidcFilter {
            cookie: format!("__Host-{}", settings.cookie).into(),
            keys: plan.keys.clone(),
            lifetime: Lifetime {
                idle_s: settings.idle.get().as_secs(),
                total_s: settings.lifetime.get().as_secs(),
            },
            rules: Rules {
                issuers: vec![settings.issuer.clone()],
                audiences: vec![settings.client_id.clone()],
                leeway_s: settings.leeway.get().as_secs(),
                allow_without_expiry: false,
                allow_any_audience: false,
            },
            provider,
            refreshes: worker.shared.get((), Refreshes::default),
            directory: Directory::of(worker),
            opened: RefCell::default(),
            counters: Counters::new(worker),
            settings,
        }
    }
}

impl Middleware for OidcFilter {
    fn name(&self) -> &'static str {
        super::KIND.name
    }

    fn call<'a>(
        self: Rc<Self>,
        request: &'a mut Request,
        next: Next,
    ) -> MaybeFuture<'a, HandlerResult> {
        last_method::call(self, request, next)
    }
}

impl LastMethod for OidcFilter {
    fn is_recipient(&self, request: &Request) -> bool {
        let path = request.target.path();
        path == self.settings.callback || path == self.settings.logout
    }

    /// Allows a request whose session is good for now.
    fn decide_at_once(self: Rc<Self>, request: &mut Request, hide: Hide<'_>) -> Option<Decision> {
        if self.is_recipient(request) {
            return None;
        }
        let now_s = net::clock::wall_secs();
        let opened = self.opened(request, now_s);
        let opened = opened.filter(|opened| !opened.session.needs_refresh(now_s))?;
        hide(request);
        Some(self.allow(request, opened, now_s))
    }

    fn decide<'a>(
        self: Rc<Self>,
        request: &'a mut Request,
        hide: Hide<'a>,
    ) -> LocalFuture<'a, Decision> {
        Box::pin(async move {
            let path = request.target.path();
            if path == self.settings.callback {
                return Decision::Responded(self.call_back(request).await);
            }
            if path == self.settings.logout {
                return Decision::Responded(self.log_out(request).await);
            }
            let now_s = net::clock::wall_secs();
            let opened = self.opened(request, now_s);
            hide(request);
            match opened {
                Some(opened) => self.refresh(request, &opened).await,
                None => Decision::Responded(self.begin(request, Vec::new(), now_s).await),
            }
        })
    }

    /// The cookies of this filter are not meant for the upstream.
    fn hide(&self, request: &mut Request) {
        cookie::hide(request, &self.cookie);
    }
}

impl OidcFilter {
    /// The session of a request, unless it has ended.
    pub(super) fn opened(&self, request: &Request, now_s: u64) -> Option<Rc<OpenedSession>> {
        let value = cookie::joined(request, &self.cookie)?;
        let id = CredentialId::of(CredentialKind::Token, &value);
        let known = self.opened.borrow().get(&id).cloned();
        let opened = match known {
            Some(known) => known,
            None => {
                let plain = self.keys.open(&self.cookie, &value)?;
                let opened = OpenedSession::new(serde_json::from_slice(&plain).ok()?);
                let mut remembered = self.opened.borrow_mut();
                if remembered.len() >= REMEMBERED {
                    remembered.clear();
                }
                remembered.insert(id, opened.clone());
                opened
            }
        };
        opened.session.remaining(self.lifetime, now_s)?;
        Some(opened)
    }

    /// Lets a request be that of a session's user.
    fn accept(&self, request: &mut Request, opened: &OpenedSession) -> Result<(), Fault> {
        let Oidc { consumers_only, forward_access_token, .. } = &*self.settings;
        let session = &opened.session;
        let consumer = self.directory.subject(&opened.subject, &session.subject, *consumers_only);
        let consumer = consumer.map_err(|why| {
            self.counters.invalid.inc();
            Fault::new(FaultKind::Forbidden, why)
        })?;
        request.consumer = Some(consumer);
        request.claims = Some(opened.claims.clone());
        if *forward_access_token {
            request.headers.remove(Known::Authorization);
            if let Some(token) = session.access_token.as_ref().filter(|token| is_token68(token)) {
                request.headers.append(Known::Authorization, format!("Bearer {token}"));
            }
        }
        Ok(())
    }

    /// Allows a request whose session needs no new tokens.
    fn allow(
        self: Rc<Self>,
        request: &mut Request,
        opened: Rc<OpenedSession>,
        now_s: u64,
    ) -> Decision {
        if let Err(fault) = self.accept(request, &opened) {
            return Decision::Responded(Err(fault));
        }
        let held = HeldCookies::of(request, &self.cookie);
        self.hide(request);
        if !opened.session.needs_note(self.lifetime, now_s) {
            return Decision::Allowed(None);
        }
        Decision::Allowed(Some(Box::new(move |result| {
            // A refresh that was begun since has newer tokens.
            let newest = self.refreshes.newest(&opened.session.id);
            let session = newest.unwrap_or_else(|| opened.session.clone());
            self.store(result, held, session, now_s)
        })))
    }

    /// Allows a request whose session needs new tokens.
    async fn refresh(
        self: &Rc<Self>,
        request: &mut Request,
        opened: &Rc<OpenedSession>,
    ) -> Decision {
        let now_s = net::clock::wall_secs();
        let id = &opened.session.id;
        let refreshed = match self.refreshes.turn(&opened.session, now_s) {
            Turn::Known(result) => result,
            Turn::Wait => self.refreshes.wait(id).await,
            Turn::Refresh => {
                let refresh = RefreshInFlight::new(self, opened);
                match BackgroundPermit::take() {
                    // A client that disconnects must not lose the new tokens of the session.
                    Some(permit) => permit.run(refresh.run()).detach(),
                    None => drop(refresh),
                }
                self.refreshes.wait(id).await
            }
        };
        let held = HeldCookies::of(request, &self.cookie);
        let (opened, is_new) = match refreshed {
            Refreshed::Renewed(session) => (OpenedSession::new(*session), true),
            Refreshed::Unavailable => (opened.clone(), false),
            Refreshed::Ended => {
                let response = self.begin(request, held.expired(&self.cookie), now_s).await;
                return Decision::Responded(response);
            }
        };
        if let Err(fault) = self.accept(request, &opened) {
            return Decision::Responded(Err(fault));
        }
        self.hide(request);
        let filter = self.clone();
        let store: ResponseChange =
            Box::new(move |result| filter.store(result, held, opened.session.clone(), now_s));
        Decision::Allowed(is_new.then_some(store))
    }

    /// Requests new tokens (RFC 6749 6).
    async fn renew(&self, session: &Session) -> Refreshed {
        let now_s = net::clock::wall_secs();
        let refresh_token = session.refresh_token.as_deref().unwrap_or_default();
        let grant = [("grant_type", "refresh_token"), ("refresh_token", refresh_token)];
        let renewed = async {
            let tokens = self.provider.token(&grant).await?;
            // OpenID Connect Core 12.2: there may be none.
            let has_id_token = tokens.get("id_token").is_some();
            let with_tokens =
                || session.with_tokens(&tokens, now_s, self.settings.forward_access_token);
            let renewed = match has_id_token {
                true => self.session(&tokens, None, now_s).await,
                false => Ok(with_tokens()),
            };
            let renewed = match renewed {
                // The provider may have ended the former refresh token with its response: the
                // session has the new tokens in any case, and its claims until the next refresh.
                Err(error @ (ProviderError::Unavailable(_) | ProviderError::Busy)) => {
                    self.log(&error, None);
                    with_tokens()
                }
                renewed => renewed?,
            };
            if only(&renewed.claims, "sub") != only(&session.claims, "sub") {
                return Err(ProviderError::Invalid("the new ID token is of another user"));
            }
            Ok(Session {
                id: session.id.clone(),
                login_s: session.login_s,
                // RFC 6749 6: without a new one, the former remains valid.
                refresh_token: renewed.refresh_token.or_else(|| session.refresh_token.clone()),
                ..renewed
            })
        };
        match renewed.await {
            Ok(renewed) => {
                self.counters.refreshes.inc();
                Refreshed::Renewed(Box::new(renewed))
            }
            Err(error) => {
                self.counters.failed_refreshes.inc();
                let is_over = match &error {
                    ProviderError::Refused(reason) => reason == "invalid_grant",
                    ProviderError::Invalid(_) => true,
                    ProviderError::Unavailable(_) | ProviderError::Busy => false,
                };
                // Several requests may wait for it.
                self.log(&error, None);
                if is_over { Refreshed::Ended } else { Refreshed::Unavailable }
            }
        }
    }

    /// Adds a session to a response.
    fn store(
        &self,
        result: HandlerResult,
        held: HeldCookies,
        session: Session,
        now_s: u64,
    ) -> HandlerResult {
        let fields = self.fields(held, Session { seen_s: now_s, ..session }, now_s);
        with_cookies(result, fields.unwrap_or_default())
    }

    /// Set-Cookie fields of a session. A session that is too long is stored without its ID token,
    /// which only the logout at the provider uses.
    pub(super) fn fields(
        &self,
        held: HeldCookies,
        mut session: Session,
        now_s: u64,
    ) -> Option<Vec<String>> {
        let max_age_s = session.remaining(self.lifetime, now_s)?;
        let sealed = |session: &Session| {
            let sealed = self.keys.seal(&self.cookie, serde_json::to_vec(session).ok()?)?;
            held.replaced(&self.cookie, &sealed, max_age_s)
        };
        sealed(&session).or_else(|| {
            session.id_token = None;
            sealed(&session)
        })
    }
}

/// A refresh that ends also if its task is dropped.
struct RefreshInFlight {
    filter: Rc<OidcFilter>,
    opened: Rc<OpenedSession>,
    result: Refreshed,
}

impl RefreshInFlight {
    fn new(filter: &Rc<OidcFilter>, opened: &Rc<OpenedSession>) -> RefreshInFlight {
        let (filter, opened) = (filter.clone(), opened.clone());
        RefreshInFlight { filter, opened, result: Refreshed::Unavailable }
    }

    async fn run(mut self) {
        self.result = self.filter.renew(&self.opened.session).await;
    }
}

impl Drop for RefreshInFlight {
    fn drop(&mut self) {
        let result = std::mem::replace(&mut self.result, Refreshed::Unavailable);
        let now_s = net::clock::wall_secs();
        self.filter.refreshes.finish(&self.opened.session.id, result, now_s);
    }
}

/// RFC 6750 2.1: what `Authorization: Bearer` may have in it.
fn is_token68(token: &str) -> bool {
    let is_allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~+/=".contains(&byte);
    !token.is_empty() && token.bytes().all(is_allowed)
}

/// Adds Set-Cookie fields.
pub(super) fn with_cookies(result: HandlerResult, cookies: Vec<String>) -> HandlerResult {
    match result {
        Ok(mut response) => {
            for cookie in cookies {
                response.headers.append(Known::SetCookie, cookie);
            }
            Ok(response)
        }
        Err(fault) => Err(cookies
            .into_iter()
            .fold(fault, |fault, cookie| fault.with_field(Known::SetCookie, cookie))),
    }
}
