//! What proves a name: responses to the challenge `http-01` (RFC 8555 8.3), before routes are
//! looked up, and certificates for `tls-alpn-01`.

use std::collections::HashMap;
use std::rc::Rc;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use message::{Fault, HandlerResult, Request, Response, RouteBounds};
use net::tls::ChallengeCertificate;
use plugin::{Dispatch, Handler, MaybeFuture, Route, Shared};
use rcgen::{CertificateParams, CustomExtension, KeyPair};
use telemetry::RouteMetrics;
use tls_settings::AcmeChallenge;

use crate::error::IssueError;

const PREFIX: &[u8] = b"/.well-known/acme-challenge/";

/// What a challenge is called in logs, as in the configuration.
pub(crate) fn name(challenge: AcmeChallenge) -> &'static str {
    match challenge {
        AcmeChallenge::Http01 => "http-01",
        AcmeChallenge::TlsAlpn01 => "tls-alpn-01",
        AcmeChallenge::Dns01 => "dns-01",
    }
}

/// The responses of all certificates that are being obtained, by their tokens; shared by all
/// workers.
#[derive(Default)]
pub(crate) struct HttpChallenges(Mutex<HashMap<Box<str>, Box<str>>>);

impl HttpChallenges {
    pub(crate) fn of(shared: &Shared) -> Arc<HttpChallenges> {
        shared.get((), HttpChallenges::default)
    }

    fn responses(&self) -> MutexGuard<'_, HashMap<Box<str>, Box<str>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn response(&self, path: &[u8]) -> Option<Box<str>> {
        let token = std::str::from_utf8(path.strip_prefix(PREFIX)?).ok()?;
        self.responses().get(token).cloned()
    }
}

/// A response that is given until this is dropped.
pub(crate) struct HttpResponse {
    challenges: Arc<HttpChallenges>,
    token: Box<str>,
}

impl HttpResponse {
    pub(crate) fn publish(
        challenges: &Arc<HttpChallenges>,
        token: &str,
        response: &str,
    ) -> HttpResponse {
        challenges.responses().insert(token.into(), response.into());
        HttpResponse { challenges: challenges.clone(), token: token.into() }
    }
}

impl Drop for HttpResponse {
    fn drop(&mut self) {
        self.challenges.responses().remove(&self.token);
    }
}

/// Presents the certificate that proves a name to the challenge `tls-alpn-01` (RFC 8737 3).
pub(crate) fn challenge_certificate(
    domain: &str,
    digest: &[u8],
) -> Result<ChallengeCertificate, IssueError> {
    let failed = |error: rcgen::Error| IssueError::Failed(error.to_string());
    let key = KeyPair::generate().map_err(failed)?;
    let mut params = CertificateParams::new(vec![domain.to_owned()]).map_err(failed)?;
    params.custom_extensions = vec![CustomExtension::new_acme_identifier(digest)];
    let certificate = params.self_signed(&key).map_err(failed)?.pem();
    let key = key.serialize_pem();
    ChallengeCertificate::present(domain, certificate.as_bytes(), key.as_bytes())
        .map_err(IssueError::Failed)
}

/// A dispatch that responds to challenges and leaves all other requests to `inner`, also those with
/// tokens of other servers.
pub fn respond_to_challenges(shared: &Shared, inner: Rc<dyn Dispatch>) -> Rc<dyn Dispatch> {
    let challenges = HttpChallenges::of(shared);
    let handler = Rc::new(ChallengeHandler(challenges.clone()));
    let metrics = Arc::new(RouteMetrics::default());
    let route = Route::new("acme-challenge", RouteBounds::default(), metrics, Vec::new(), handler);
    Rc::new(ChallengeDispatch { challenges, route: Rc::new(route), inner })
}

struct ChallengeDispatch {
    challenges: Arc<HttpChallenges>,
    route: Rc<Route>,
    inner: Rc<dyn Dispatch>,
}

impl Dispatch for ChallengeDispatch {
    fn dispatch(&self, request: &mut Request) -> Result<Rc<Route>, Fault> {
        // The lock is taken only for requests that look like a challenge.
        if self.challenges.response(request.target.raw_path()).is_some() {
            return Ok(self.route.clone());
        }
        self.inner.dispatch(request)
    }

    fn on_generated(&self, request: &Request, response: &mut Response) {
        self.inner.on_generated(request, response);
    }
}

struct ChallengeHandler(Arc<HttpChallenges>);

impl Handler for ChallengeHandler {
    fn name(&self) -> &'static str {
        "acme-challenge"
    }

    fn is_instant(&self) -> bool {
        true
    }

    fn handle<'a>(&'a self, request: &'a mut Request) -> MaybeFuture<'a, HandlerResult> {
        // The validation may have ended since the dispatch.
        let response = self.0.response(request.target.raw_path()).ok_or_else(Fault::not_found);
        let response = response
            .map(|text| Response::with_body(200, "application/octet-stream", String::from(text)));
        response.into()
    }
}
