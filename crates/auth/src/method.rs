//! The filter around methods of authentication: tries them in order, and rejects, counts and hides
//! credentials alike for all.

use std::rc::Rc;
use std::sync::Arc;

use bytes::Bytes;
use http_client::Url;
use message::{Claims, Consumer, Fault, FaultKind, LocalFuture, Request};
use plugin::{CredentialPlace, Filter, MaybeFuture, Step, WorkerContext};
use settings::{Node, Reader};
use telemetry::{CachePadded, Counter, families};
use wire::Known;

/// The settings of a method, checked and immutable.
pub(crate) trait MethodPlan: Send + Sync {
    fn name(&self) -> &'static str;
    fn build(&self, worker: &WorkerContext) -> Rc<dyn Method>;
    /// One line for `explain`, with no secret in it.
    fn describe(&self) -> String;
    /// The places of a request that credentials are taken from.
    fn places(&self) -> Vec<CredentialPlace> {
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

/// The filter of methods, none of which responds itself.
pub(crate) struct AuthFilter {
    pub(crate) name: &'static str,
    pub(crate) methods: Methods,
}

/// Why no method so far has accepted the request. A wrong credential counts more than a missing
/// one, and the first of each more than later ones.
#[derive(Clone, Copy)]
pub(crate) struct Reason {
    method: usize,
    invalid: bool,
    why: &'static str,
}

/// The result of all methods.
pub(crate) enum Tried {
    /// The method at this place has accepted the request, which is prepared for being forwarded.
    Accepted(usize),
    /// A credential could not be verified, which the client gets to know.
    Failed(Fault),
    /// No method has accepted the request, whose credentials it still has.
    Rejected(Option<Reason>),
}

/// The methods that were tried without waiting.
pub(crate) enum Attempt {
    Finished(Tried),
    Pending(Pending),
}

/// A method whose result has to be waited for.
pub(crate) struct Pending {
    at: usize,
    result: AuthResult,
    failed: Option<Reason>,
}

impl Filter for AuthFilter {
    fn name(&self) -> &'static str {
        self.name
    }

    fn is_instant(&self) -> bool {
        self.methods.0.iter().all(|counted| counted.method.is_instant())
    }

    fn on_request<'a>(&'a self, request: &'a mut Request) -> MaybeFuture<'a, Step> {
        match self.methods.try_at_once(request) {
            Attempt::Finished(tried) => self.methods.step(tried, request).into(),
            Attempt::Pending(pending) => MaybeFuture::of(async move {
                let tried = self.methods.wait(pending, request).await;
                self.methods.step(tried, request)
            }),
        }
    }
}

/// Methods that are tried in their order.
pub(crate) struct Methods(Vec<CountedMethod>);

/// The places of the credential that a method forwards.
pub(crate) fn forwarded(plan: &dyn MethodPlan) -> Vec<CredentialPlace> {
    if plan.forwards() { plan.places() } else { Vec::new() }
}

/// The methods whose credentials a request must not have that the method at `at` has accepted.
/// Where that one takes its credential from, and forwards it, the credential is verified; a method
/// with other places too may have another one there.
fn unverified(plans: &[Box<dyn MethodPlan>], at: usize) -> Box<[usize]> {
    let forwarded = forwarded(&*plans[at]);
    let is_elsewhere = |other: &usize| {
        let places = plans[*other].places();
        *other != at && !places.iter().all(|place| forwarded.contains(place))
    };
    (0..plans.len()).filter(is_elsewhere).collect()
}

impl Methods {
    pub(crate) fn build(plans: &[Box<dyn MethodPlan>], worker: &WorkerContext) -> Methods {
        let methods = plans.iter().enumerate().map(|(at, plan)| CountedMethod {
            method: plan.build(worker),
            unverified: unverified(plans, at),
            missing: rejections(worker, plan.name(), "missing"),
            invalid: rejections(worker, plan.name(), "invalid"),
            failed: rejections(worker, plan.name(), "failed"),
        });
        Methods(methods.collect())
    }

    /// Tries the methods until the result of one has to be waited for.
    pub(crate) fn try_at_once(&self, request: &mut Request) -> Attempt {
        let mut failed = None;
        for (at, counted) in self.0.iter().enumerate() {
            match counted.method.authenticate(request) {
                result @ (AuthResult::Wait(_) | AuthResult::Body(_)) => {
                    return Attempt::Pending(Pending { at, result, failed });
                }
                result => {
                    if let Some(tried) = self.conclude(at, result, request, &mut failed) {
                        return Attempt::Finished(tried);
                    }
                }
            }
        }
        Attempt::Finished(Tried::Rejected(failed))
    }

    /// Waits for the result of a method and continues with those after it.
    pub(crate) async fn wait(&self, pending: Pending, request: &mut Request) -> Tried {
        let Pending { mut at, mut result, mut failed } = pending;
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
            if let Some(tried) = self.conclude(at, result, request, &mut failed) {
                return tried;
            }
            at += 1;
            let Some(counted) = self.0.get(at) else {
                return Tried::Rejected(failed);
            };
            result = counted.method.authenticate(request);
        }
    }

    /// What a result leads to; `None` if the next method is tried.
    fn conclude(
        &self,
        at: usize,
        result: AuthResult,
        request: &mut Request,
        failed: &mut Option<Reason>,
    ) -> Option<Tried> {
        let (invalid, why) = match result {
            AuthResult::Accepted(identity) => {
                request.consumer = Some(identity.consumer);
                request.claims = identity.claims;
                let CountedMethod { method, unverified, .. } = &self.0[at];
                unverified.iter().for_each(|other| self.0[*other].method.hide(request));
                method.prepare(request);
                return Some(Tried::Accepted(at));
            }
            AuthResult::Failed(fault) => {
                self.0[at].failed.inc();
                self.hide(request);
                return Some(Tried::Failed(fault));
            }
            AuthResult::Counted(fault) => {
                self.hide(request);
                return Some(Tried::Failed(fault));
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

    /// The step of a filter after which no other method is tried.
    fn step(&self, tried: Tried, request: &mut Request) -> Step {
        let reason = match tried {
            Tried::Accepted(_) => return Step::Continue,
            Tried::Failed(fault) => return Step::Fail(fault),
            Tried::Rejected(reason) => reason,
        };
        self.hide(request);
        let Some(Reason { method, invalid, why }) = reason else {
            return Step::Fail(Fault::new(FaultKind::Forbidden, "there is no method"));
        };
        let counted = &self.0[method];
        if invalid { &counted.invalid } else { &counted.missing }.inc();
        Step::Fail(match self.challenges(reason) {
            None => Fault::new(FaultKind::Forbidden, why),
            Some(challenges) => Fault::new(FaultKind::Unauthorized, why)
                .with_field(Known::WwwAuthenticate, challenges),
        })
    }

    /// Counts a wrong credential of a request that the last method has rejected too. A missing one
    /// is no reason: the last method has one of its own.
    pub(crate) fn count_invalid(&self, reason: Option<Reason>) {
        if let Some(Reason { method, invalid: true, .. }) = reason {
            self.0[method].invalid.inc();
        }
    }

    /// The challenges of all methods, if any has one.
    pub(crate) fn challenges(&self, reason: Option<Reason>) -> Option<String> {
        let is_invalid =
            |at: usize| reason.is_some_and(|reason| reason.invalid && reason.method == at);
        let methods = self.0.iter().enumerate();
        let challenges = methods.filter_map(|(at, one)| one.method.challenge(is_invalid(at)));
        let challenges = challenges.collect::<Vec<_>>().join(", ");
        (!challenges.is_empty()).then_some(challenges)
    }

    pub(crate) fn hide(&self, request: &mut Request) {
        self.0.iter().for_each(|counted| counted.method.hide(request));
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
