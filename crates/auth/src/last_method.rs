//! Methods of authentication that respond themselves to requests which they do not allow: with a
//! redirect to a login, or with what another server has responded. Such a method is a filter of its
//! own, or the last of several, which decides about requests that no other method has accepted.
//!
//! Owns no decision: `oidc` and `forward_auth` make them. Promises that the rest of the route runs
//! for allowed requests only.

use std::rc::Rc;

use http_client::Url;
use message::{HandlerResult, LocalFuture, Request};
use plugin::{FilterPlan, HeaderName, MaybeFuture, Next, WorkerContext};

/// Changes the response to a request that was allowed.
pub(crate) type ResponseChange = Box<dyn FnOnce(HandlerResult) -> HandlerResult>;

/// Removes the credentials of the other methods from a request.
pub(crate) type Hide<'a> = &'a dyn Fn(&mut Request);

/// The decision of a last method.
pub(crate) enum Decision {
    /// The request is prepared for being forwarded.
    Allowed(Option<ResponseChange>),
    /// The response to a request that is not allowed, or is for the method itself.
    Responded(HandlerResult),
}

/// The settings of a last method, checked and immutable.
pub(crate) trait LastMethodPlan: FilterPlan {
    fn build_method(&self, worker: &WorkerContext) -> Rc<dyn LastMethod>;
    /// The headers that the method sets in requests that it allows.
    fn own_headers(&self) -> Vec<HeaderName>;
    /// A URL that is requested in clear text over the network.
    fn url_in_clear(&self) -> Option<Url>;
}

/// A last method, as one worker runs it.
pub(crate) trait LastMethod {
    /// True for a request to the method itself, such as the one that ends a login.
    fn is_recipient(&self, _request: &Request) -> bool {
        false
    }

    /// Decides about a request without waiting, where that is possible. Calls `hide` when it has
    /// read the credentials that it needs, and before it prepares the request for being forwarded.
    fn decide_at_once(self: Rc<Self>, _: &mut Request, _hide: Hide<'_>) -> Option<Decision> {
        None
    }

    /// Decides about a request that [`LastMethod::decide_at_once`] has not decided about, in the
    /// same way.
    fn decide<'a>(
        self: Rc<Self>,
        request: &'a mut Request,
        hide: Hide<'a>,
    ) -> LocalFuture<'a, Decision>;

    /// Removes the credentials of this method from a request.
    fn hide(&self, _request: &mut Request) {}
}

/// Where the credentials of other methods stay.
pub(crate) const NOTHING_TO_HIDE: Hide<'static> = &|_| {};

/// Runs the rest of the route for a request that the only method of a filter allows.
pub(crate) fn call<'a>(
    method: Rc<dyn LastMethod>,
    request: &'a mut Request,
    next: Next,
) -> MaybeFuture<'a, HandlerResult> {
    match method.clone().decide_at_once(request, NOTHING_TO_HIDE) {
        Some(decision) => decision.follow(request, next),
        None => MaybeFuture::of(async move {
            let decision = method.decide(request, NOTHING_TO_HIDE).await;
            decision.follow(request, next).resolve().await
        }),
    }
}

impl Decision {
    pub(crate) fn follow(
        self,
        request: &mut Request,
        next: Next,
    ) -> MaybeFuture<'_, HandlerResult> {
        match self {
            Decision::Allowed(None) => MaybeFuture::Future(next.run(request)),
            Decision::Allowed(Some(change)) => {
                MaybeFuture::of(async move { change(next.run(request).await) })
            }
            Decision::Responded(result) => MaybeFuture::Ready(next.skip(request, result)),
        }
    }
}
