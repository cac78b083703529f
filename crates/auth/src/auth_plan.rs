//! The plan of filters that authenticate: one method, or several that are tried in order, the last
//! of which may respond itself.
//!
//! Promises that a request which another method has accepted has no credential of the last method,
//! and no header that only the last method may set.

use std::any::Any;
use std::rc::Rc;
use std::sync::Arc;

use message::{HandlerResult, Request};
use plugin::{
    CredentialPlace, FilterPlan, HandlerSetting, HeaderName, MaybeFuture, Middleware, Next, Stage,
    WorkerContext, remove_headers,
};
use wire::Known;

use crate::last_method::{Decision, LastMethod, LastMethodPlan, NOTHING_TO_HIDE};
use crate::method::{Attempt, AuthFilter, MethodPlan, Methods, Reason, Tried, forwarded};

/// The plan of a filter that authenticates.
pub(crate) struct AuthPlan {
    pub(crate) name: &'static str,
    pub(crate) methods: Vec<Box<dyn MethodPlan>>,
    /// Decides about the requests that none of the methods has accepted.
    pub(crate) last: Option<Box<dyn LastMethodPlan>>,
}

impl AuthPlan {
    /// The plan of a filter with one method.
    pub(crate) fn of(method: impl MethodPlan + 'static) -> Arc<dyn FilterPlan> {
        Arc::new(AuthPlan { name: method.name(), methods: vec![Box::new(method)], last: None })
    }
}

/// The headers that a request must not have from its client if a method has accepted it: only the
/// last method may set them.
fn reserved(method: &dyn MethodPlan, last: &dyn LastMethodPlan) -> Rc<[HeaderName]> {
    let forwarded = forwarded(method);
    let mut reserved = last.own_headers();
    reserved.retain(|name| !forwarded.contains(&CredentialPlace::Header(name.to_string())));
    reserved.into()
}

impl FilterPlan for AuthPlan {
    fn name(&self) -> &'static str {
        self.name
    }

    fn build(&self, worker: &WorkerContext) -> Stage {
        let methods = Methods::build(&self.methods, worker);
        let Some(last) = self.last.as_deref() else {
            return Stage::Filter(Rc::new(AuthFilter { name: self.name, methods }));
        };
        let reserved = self.methods.iter().map(|method| reserved(&**method, last)).collect();
        let last = last.build_method(worker);
        Stage::Middleware(Rc::new(MethodsBeforeLast { name: self.name, methods, reserved, last }))
    }

    fn describe(&self) -> String {
        if let ([method], None) = (&*self.methods, &self.last) {
            return method.describe();
        }
        let methods = self.methods.iter().map(|plan| (plan.name(), plan.describe()));
        let last = self.last.iter().map(|plan| (plan.name(), plan.describe()));
        let described = methods.chain(last).map(|(name, text)| match text.is_empty() {
            true => name.to_owned(),
            false => format!("{name} ({text})"),
        });
        format!("any of {}", described.collect::<Vec<_>>().join(", "))
    }

    fn handlers(&self) -> Vec<&HandlerSetting> {
        self.last.iter().flat_map(|last| last.handlers()).collect()
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

    fn credential_places(&self) -> Vec<CredentialPlace> {
        self.methods.iter().flat_map(|method| method.places()).collect()
    }
}

/// The filter of several methods, the last of which responds itself.
struct MethodsBeforeLast {
    name: &'static str,
    methods: Methods,
    /// For each method, the headers of the client that are removed if it accepts the request.
    reserved: Vec<Rc<[HeaderName]>>,
    last: Rc<dyn LastMethod>,
}

impl Middleware for MethodsBeforeLast {
    fn name(&self) -> &'static str {
        self.name
    }

    fn call<'a>(
        self: Rc<Self>,
        request: &'a mut Request,
        next: Next,
    ) -> MaybeFuture<'a, HandlerResult> {
        if self.last.is_recipient(request) {
            return MaybeFuture::of(async move {
                let decision = self.last.clone().decide(request, NOTHING_TO_HIDE).await;
                self.methods.hide(request);
                decision.follow(request, next).resolve().await
            });
        }
        match self.methods.try_at_once(request) {
            Attempt::Finished(tried) => self.conclude(tried, request, next),
            Attempt::Pending(pending) => MaybeFuture::of(async move {
                let tried = self.methods.wait(pending, request).await;
                self.conclude(tried, request, next).resolve().await
            }),
        }
    }
}

impl MethodsBeforeLast {
    fn conclude(
        self: Rc<Self>,
        tried: Tried,
        request: &mut Request,
        next: Next,
    ) -> MaybeFuture<'_, HandlerResult> {
        let reason = match tried {
            Tried::Accepted(at) => {
                self.last.hide(request);
                remove_headers(request, &self.reserved[at]);
                return MaybeFuture::Future(next.run(request));
            }
            Tried::Failed(fault) => {
                self.last.hide(request);
                return MaybeFuture::Ready(Err(fault));
            }
            Tried::Rejected(reason) => reason,
        };
        let hide = |request: &mut Request| self.methods.hide(request);
        match self.last.clone().decide_at_once(request, &hide) {
            Some(decision) => self.follow(decision, reason, request, next),
            None => MaybeFuture::of(async move {
                let hide = |request: &mut Request| self.methods.hide(request);
                let decision = self.last.clone().decide(request, &hide).await;
                self.follow(decision, reason, request, next).resolve().await
            }),
        }
    }

    fn follow<'a>(
        &self,
        decision: Decision,
        reason: Option<Reason>,
        request: &'a mut Request,
        next: Next,
    ) -> MaybeFuture<'a, HandlerResult> {
        match decision {
            Decision::Responded(result) => {
                self.methods.hide(request);
                self.methods.count_invalid(reason);
                MaybeFuture::Ready(next.skip(request, self.with_challenges(result, reason)))
            }
            allowed => allowed.follow(request, next),
        }
    }

    /// Adds the challenges of the other methods to a response that has those of the last one (RFC
    /// 9110 11.6.1).
    fn with_challenges(&self, result: HandlerResult, reason: Option<Reason>) -> HandlerResult {
        let status = match &result {
            Ok(response) => response.status,
            Err(fault) => fault.status,
        };
        let challenges = if status == 401 { self.methods.challenges(reason) } else { None };
        match (result, challenges) {
            (Ok(mut response), Some(challenges)) => {
                response.headers.append(Known::WwwAuthenticate, challenges);
                Ok(response)
            }
            (Err(fault), Some(challenges)) => {
                Err(fault.with_field(Known::WwwAuthenticate, challenges))
            }
            (result, None) => result,
        }
    }
}
