//! Subrequests: to an upstream of the plan by its name, or through the routes of the plan again.
//!
//! Owns the part of a plan that serves them on one worker. `server` fills it in when it builds the
//! worker's instance, and `lua-host` uses it, so that neither depends on the other. Promises that
//! requests nest at most [`SUBREQUEST_DEPTH`] deep, and that nothing here keeps a plan alive: while
//! an exchange of the plan is in flight its routes exist, afterwards they need not.

use std::cell::OnceCell;
use std::collections::BTreeMap;
use std::rc::{Rc, Weak};
use std::sync::Arc;

use crate::problem::{self, ErrorPages};
use crate::{Dispatch, Handler};
use message::{Fault, FaultKind, HandlerResult, Request};

/// Deepest nesting of a subrequest below the request of a client.
pub const SUBREQUEST_DEPTH: u8 = 10;

/// The upstreams and the routes of one plan, for subrequests.
#[derive(Default)]
pub struct Subrequests {
    upstreams: BTreeMap<String, Rc<dyn Handler>>,
    routes: OnceCell<Routes>,
}

struct Routes {
    dispatch: Weak<dyn Dispatch>,
    pages: Arc<ErrorPages>,
}

impl Subrequests {
    pub fn new(upstreams: BTreeMap<String, Rc<dyn Handler>>) -> Rc<Subrequests> {
        Rc::new(Subrequests { upstreams, routes: OnceCell::new() })
    }

    /// Sets the routes, which are built later and may already ask for upstreams.
    pub fn route_through(&self, dispatch: Weak<dyn Dispatch>, pages: Arc<ErrorPages>) {
        let _ = self.routes.set(Routes { dispatch, pages });
    }

    /// The upstream of that name.
    pub fn upstream(&self, name: &str) -> Option<Rc<dyn Handler>> {
        self.upstreams.get(name).cloned()
    }

    pub fn upstream_names(&self) -> impl Iterator<Item = &str> {
        self.upstreams.keys().map(String::as_str)
    }

    /// Runs a request through the routes. A failure on a route is the response that a client would
    /// get; a fault is returned only if the request could not be routed at all.
    pub async fn route(&self, mut request: Request) -> HandlerResult {
        if request.depth > SUBREQUEST_DEPTH {
            let why = format!("more than {SUBREQUEST_DEPTH} requests led to one another");
            return Err(Fault::new(FaultKind::LoopDetected, why));
        }
        let routes = self.routes.get();
        let Some((routes, dispatch)) = routes.and_then(|r| Some((r, r.dispatch.upgrade()?))) else {
            let why = "the configuration that had the routes is gone";
            return Err(Fault::new(FaultKind::NoRoutes, why));
        };
        let (route, outcome) = match dispatch.dispatch(&mut request) {
            Ok(route) => {
                let length = request.body.length().unwrap_or_default();
                request.route = Some(route.info.clone());
                let bound = route.info.bounds.as_ref().and_then(|bounds| bounds.body);
                let outcome = if bound.is_some_and(|bound| length > bound) {
                    Err(Fault::body_too_large())
                } else {
                    route.run(&mut request).await
                };
                (Some(route), outcome)
            }
            Err(fault) => (None, Err(fault)),
        };
        Ok(outcome.unwrap_or_else(|fault| {
            problem::respond(&fault, &request, route.as_deref(), &routes.pages, &*dispatch)
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{MaybeFuture, Route};
    use message::{Headers, Response, RouteBounds, Target};
    use wire::Method;

    /// Sends every request through the routes again.
    struct Again(Rc<Subrequests>);

    impl Handler for Again {
        fn name(&self) -> &'static str {
            "again"
        }

        fn handle<'a>(&'a self, request: &'a mut Request) -> MaybeFuture<'a, HandlerResult> {
            let subrequest = request.subrequest();
            MaybeFuture::of(async move {
                let depth = subrequest.depth;
                match self.0.route(subrequest).await {
                    Err(fault) => Ok(Response::text(fault.status, format!("{depth}"))),
                    answered => answered,
                }
            })
        }
    }

    struct One(Rc<Route>);

    impl Dispatch for One {
        fn dispatch(&self, request: &mut Request) -> Result<Rc<Route>, Fault> {
            if request.target.path() == "/none" {
                return Err(Fault::not_found());
            }
            Ok(self.0.clone())
        }
    }

    fn request(path: &'static str) -> Request {
        let target = Target::new(path.into()).unwrap();
        Request::made_up(Method::Get, target, Headers::new())
    }

    #[test]
    fn a_loop_ends_and_a_request_without_a_route_gets_a_response() {
        let inside = Subrequests::new(BTreeMap::new());
        let route = Route::new(
            "loop",
            RouteBounds { body: Some(3), ..RouteBounds::default() },
            Default::default(),
            Vec::new(),
            Rc::new(Again(inside.clone())),
        );
        let one: Rc<dyn Dispatch> = Rc::new(One(Rc::new(route)));
        inside.route_through(Rc::downgrade(&one), Arc::default());
        net::worker::block_on_local(async {
            let mut answer = inside.route(request("/")).await.unwrap();
            let deepest = (SUBREQUEST_DEPTH + 1).to_string();
            assert_eq!(
                (answer.status, answer.body.collect(9).await.unwrap()),
                (508, deepest.into())
            );
            assert_eq!(inside.route(request("/none")).await.unwrap().status, 404);
            let mut large = request("/");
            large.body = "four".into();
            assert_eq!(inside.route(large).await.unwrap().status, 413);
            drop(one);
            assert_eq!(inside.route(request("/")).await.err().unwrap().status, 503);
        });
    }
}
