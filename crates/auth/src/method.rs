//! The filter around methods of authentication: tries them in order, and rejects, counts and hides
//! credentials alike for all.

use std::any::Any;
use std::rc::Rc;
use std::sync::Arc;

use bytes::Bytes;
use http_client::Url;
use message::{Claims, Consumer, Fault, FaultKind, LocalFuture, Request};
use plugin::{Filter, FilterPlan, MaybeFuture, Stage, Step, WorkerContext};
use settings::{Node, Reader};
use telemetry::{CachePadded, Counter, families};
use wire::Known;

/// The settings of a method, checked and immutable.
pub(crate) trait MethodPlan: Send + Sync {
    fn name(&self) -> &'static str;
    fn build(&self, worker: &WorkerContext) -> Rc<dyn Method>;
    /// One line for `explain`, with no secret in it.
    fn describe(&self) -> String;
    /// Query parameters that credentials are taken from.
    fn secret_queries(&self) -> Vec<&str> {
        Vec::new()
    }
    /// The places of a request that credentials are taken from.
    fn places(&self) -> Vec<String> {
        Vec::new()
    }
    /// True if a credential that was accepted is forwarded.
    fn forwards(&self) -> bool {
        false
    }
    /// The URL of the server that verifies credentials, if there is one.
    fn server(&self) -> Option<&Url> {
        None
    }
    /// A sentence for `check` about settings that are valid but may surprise.
    fn note(&self) -> Option<String> {
        None
    }
}

/// A method of authentication, as one worker runs it.
pub(crate) trait Method {
    /// True if the method is cheaper than reading the clock and never waits.
    fn is_instant(&self) -> bool {
        true
    }

    /// Looks for a credential and verifies it.
    fn authenticate(&self, request: &Request) -> AuthResult;

    /// Prepares a request that was accepted for being forwarded.
    fn prepare(&self, _request: &mut Request) {}

    /// Removes the credential from a request that is rejected, and only logged from then on, or
    /// that another method accepts: nothing has verified it, and one that is wrong here may be
    /// right elsewhere, or was yesterday.
    fn hide(&self, _request: &mut Request) {}

    /// The challenge of RFC 9110 11.6.1; without one the client cannot authenticate in a second
    /// request, and the status is 403.
    fn challenge(&self, _invalid: bool) -> Option<String> {
        None
    }
}

/// The result of one method.
pub(crate) enum AuthResult {
    Accepted(Identity),
    /// The request has no credential for this method.
    Missing(&'static str),
    /// The request has a credential, which is invalid.
    Invalid(&'static str),
    /// The credential could not be verified.
    Failed(Fault),
    /// The same; the method has counted the rejection under a reason of its own.
    Counted(Fault),
    /// The result has to be waited for.
    Wait(LocalFuture<'static, AuthResult>),
    /// The result depends on the body.
    Body(BodyCheck),
}

/// A check of a body that is received as a whole, and forwarded afterwards.
pub(crate) struct BodyCheck {
    /// A longer body is rejected with 413.
    pub(crate) bytes_max: u64,
    pub(crate) check: Box<dyn FnOnce(Bytes) -> LocalFuture<'static, AuthResult>>,
}

/// The identity that a credential proves.
#[derive(Clone)]
pub(crate) struct Identity {
    pub(crate) consumer: Rc<Consumer>,
    pub(crate) claims: Option<Claims>,
}

impl Identity {
    pub(crate) fn of(consumer: Rc<Consumer>) -> Identity {
        Identity { consumer, claims: None }
    }
}

/// The plan of a filter that authenticates.
pub(crate) struct AuthPlan {
    pub(crate) name: &'static str,
    pub(crate) methods: Vec<Box<dyn MethodPlan>>,
}

impl AuthPlan {
    /// The plan of a filter with one method.
    pub(crate) fn of(method: impl MethodPlan + 'static) -> Arc<dyn FilterPlan> {
        Arc::new(AuthPlan { name: method.name(), methods: vec![Box::new(method)] })
    }

    /// The methods whose credentials a request must not have that the method at `at` has accepted.
    /// Where that one takes its credential from, and forwards it, the credential is verified; a
    /// method with other places too may have another one there.
    fn unverified(&self, at: usize) -> Box<[usize]> {
        let own = &self.methods[at];
        let forwarded = if own.forwards() { own.places() } else { Vec::new() };
        let is_elsewhere = |other: &usize| {
            let places = self.methods[*other].places();
            *other != at && !places.iter().all(|place| forwarded.contains(place))
        };
        (0..self.methods.len()).filter(is_elsewhere).collect()
    }
}

impl FilterPlan for AuthPlan {
    fn name(&self) -> &'static str {
        self.name
    }

    fn build(&self, worker: &WorkerContext) -> Stage {
        let methods = self.methods.iter().enumerate().map(|(at, plan)| CountedMethod {
            method: plan.build(worker),
            unverified: self.unverified(at),
            missing: rejections(worker, plan.name(), "missing"),
            invalid: rejections(worker, plan.name(), "invalid"),
            failed: rejections(worker, plan.name(), "failed"),
        });
        Stage::Filter(Rc::new(AuthFilter { name: self.name, methods: methods.collect() }))
    }

    fn describe(&self) -> String {
        match &*self.methods {
            [method] => method.describe(),
            methods => {
                let described = methods.iter().map(|plan| match plan.describe() {
                    text if text.is_empty() => plan.name().to_owned(),
                    text => format!("{} ({text})", plan.name()),
                });
                format!("any of {}", described.collect::<Vec<_>>().join(", "))
            }
        }
    }

    fn authenticates(&self) -> bool {
        true
    }

    fn notes(&self) -> Vec<String> {
        self.methods.iter().filter_map(|method| method.note()).collect()
    }

    fn as_any(&self) -> Option<&dyn Any> {
        Some(self)
    }

    fn secret_queries(&self) -> Vec<&str> {
        self.methods.iter().flat_map(|method| method.secret_queries()).collect()
    }
}

/// The counter of one reason for which a filter rejects requests.
pub(crate) fn rejections(
    worker: &WorkerContext,
    filter: &str,
    reason: &str,
) -> Arc<CachePadded<Counter>> {
    worker.telemetry.worker_counter(worker.index, &families::AUTH_REFUSALS, &[filter, reason])
}

/// A method and how often its result was the reason for a rejection.
struct CountedMethod {
    method: Rc<dyn Method>,
    /// The methods whose credentials are removed if this one accepts the request.
    unverified: Box<[usize]>,
    missing: Arc<CachePadded<Counter>>,
    invalid: Arc<CachePadded<Counter>>,
    failed: Arc<CachePadded<Counter>>,
}

struct AuthFilter {
    name: &'static str,
    methods: Vec<CountedMethod>,
}

/// Why no method so far has accepted the request. A wrong credential counts more than a missing
/// one, and the first of each more than later ones.
#[derive(Clone, Copy)]
struct Reason {
    method: usize,
    invalid: bool,
    why: &'static str,
}

impl Filter for AuthFilter {
    fn name(&self) -> &'static str {
        self.name
    }

    fn is_instant(&self) -> bool {
        self.methods.iter().all(|counted| counted.method.is_instant())
    }

    fn on_request<'a>(&'a self, request: &'a mut Request) -> MaybeFuture<'a, Step> {
        let mut failed = None;
        for (at, counted) in self.methods.iter().enumerate() {
            match counted.method.authenticate(request) {
                result @ (AuthResult::Wait(_) | AuthResult::Body(_)) => {
                    return MaybeFuture::of(self.wait(at, result, request, failed));
                }
                result => {
                    if let Some(step) = self.conclude(at, result, request, &mut failed) {
                        return step.into();
                    }
                }
            }
        }
        self.reject(request, failed).into()
    }
}

impl AuthFilter {
    /// Waits for the result of a method and continues with those after it.
    async fn wait(
        &self,
        mut at: usize,
        mut result: AuthResult,
        request: &mut Request,
        mut failed: Option<Reason>,
    ) -> Step {
        loop {
            result = match result {
                AuthResult::Wait(future) => {
                    result = future.await;
                    continue;
                }
                AuthResult::Body(BodyCheck { bytes_max, check }) => {
                    result = match request.buffer_body(bytes_max).await {
                        Ok(body) => check(body).await,
                        Err(fault) => AuthResult::Failed(fault),
                    };
                    continue;
                }
                other => other,
            };
            if let Some(step) = self.conclude(at, result, request, &mut failed) {
                return step;
            }
            at += 1;
            let Some(counted) = self.methods.get(at) else {
                return self.reject(request, failed);
            };
            result = counted.method.authenticate(request);
        }
    }

    /// The step that a result leads to; `None` if the next method is tried.
    fn conclude(
        &self,
        at: usize,
        result: AuthResult,
        request: &mut Request,
        failed: &mut Option<Reason>,
    ) -> Option<Step> {
        let (invalid, why) = match result {
            AuthResult::Accepted(identity) => {
                request.consumer = Some(identity.consumer);
                request.claims = identity.claims;
                let CountedMethod { method, unverified, .. } = &self.methods[at];
                unverified.iter().for_each(|other| self.methods[*other].method.hide(request));
                method.prepare(request);
                return Some(Step::Continue);
            }
            AuthResult::Failed(fault) => {
                self.methods[at].failed.inc();
                self.hide(request);
                return Some(Step::Fail(fault));
            }
            AuthResult::Counted(fault) => {
                self.hide(request);
                return Some(Step::Fail(fault));
            }
            AuthResult::Missing(why) => (false, why),
            AuthResult::Invalid(why) => (true, why),
            AuthResult::Wait(_) | AuthResult::Body(_) => unreachable!("the caller waits"),
        };
        if failed.is_none_or(|reason| invalid && !reason.invalid) {
            *failed = Some(Reason { method: at, invalid, why });
        }
        None
    }

    fn reject(&self, request: &mut Request, reason: Option<Reason>) -> Step {
        self.hide(request);
        let Some(Reason { method, invalid, why }) = reason else {
            return Step::Fail(Fault::new(FaultKind::Forbidden, "there is no method"));
        };
        let counted = &self.methods[method];
        if invalid { &counted.invalid } else { &counted.missing }.inc();
        let challenges: Vec<String> = self
            .methods
            .iter()
            .enumerate()
            .filter_map(|(at, one)| one.method.challenge(invalid && at == method))
            .collect();
        Step::Fail(match challenges.is_empty() {
            true => Fault::new(FaultKind::Forbidden, why),
            false => Fault::new(FaultKind::Unauthorized, why)
                .with_field(Known::WwwAuthenticate, challenges.join(", ")),
        })
    }

    fn hide(&self, request: &mut Request) {
        self.methods.iter().for_each(|counted| counted.method.hide(request));
    }
}

/// The only one of several values: which one of two would the upstream use?
pub(crate) fn only<T>(mut values: impl Iterator<Item = T>) -> Option<T> {
    let first = values.next()?;
    values.next().is_none().then_some(first)
}

/// A realm is written in quotes (RFC 9110 11.5).
pub(crate) fn check_realm(realm: &str, node: &Node, reader: &mut Reader<'_>) {
    if !realm.bytes().all(|b| b == b' ' || b.is_ascii_graphic() && !b"\"\\".contains(&b)) {
        reader.error(node.span, "the realm is ASCII text without quotes and backslashes");
    }
}

/// Removes cookies from a request, by their names. The others stay as the client wrote them, which
/// is for the application to read.
pub(crate) fn remove_cookies(request: &mut Request, is_gone: impl Fn(&[u8]) -> bool) {
    let fields = request.headers.get_all(Known::Cookie);
    let parts = fields.flat_map(|field| field.split(|byte| *byte == b';')).map(<[u8]>::trim_ascii);
    let stays = |part: &&[u8]| {
        !part.is_empty() && wire::cookie::pairs(part).all(|(name, _)| !is_gone(name))
    };
    let kept: Vec<Vec<u8>> = parts.filter(stays).map(<[u8]>::to_vec).collect();
    request.headers.remove(Known::Cookie);
    if !kept.is_empty() {
        request.headers.append(Known::Cookie, kept.join(&b"; "[..]));
    }
}
