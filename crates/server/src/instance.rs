//! One worker's instance of a plan: its routes and its dispatch.
//!
//! The plan is shared and immutable; an instance belongs to one worker, so that no counter of a
//! request is shared by two workers.

mod https_redirect;
mod unknown_host;

use std::collections::BTreeSet;
use std::rc::Rc;
use std::sync::Arc;

use config::{EncodedSlashes, HttpVersion, Limits, ListenerPlan, RoutePlan, ServerPlan, Timeouts};
use http_server::AccessLog;
use http_server::TrustedProxies;
use http_server::{
    ConnectionTimeouts, ListenerSnapshot, ListenerTls, LiveLog, Tracer, TracerSettings,
};
use message::{Bounds, Fault, Request, Response, RouteInfo, TraceQueue};
use plugin::{CredentialPlace, Dispatch, Route, Shared, Stage, Subrequests, WorkerContext};
use router::{Input, RouteLookup, Router};
use settings::Cidr;
use tls_settings::PlainHttp;
use wire::h1::HeadLimits;

use crate::slashes;

/// Routes that a worker builds or drops before other tasks run: requests wait for no more.
const ROUTES_AT_A_TIME: usize = 32;

/// The routes of a plan as one worker runs them.
pub(crate) struct Instance {
    plan: Arc<ServerPlan>,
    /// The worker's own handle of the table, so that workers do not share a reference count.
    router: Router,
    routes: Vec<Rc<Route>>,
    /// Filters that change generated responses to requests without a route.
    unrouted: Vec<Stage>,
    access: Option<Rc<AccessLog>>,
    tracer: Rc<Tracer>,
    /// True if a listener keeps encoded slashes: then the listener of each request is looked up.
    keeps_encoded_slashes: bool,
    /// The ACME challenges, if a listener obtains certificates.
    challenges: Option<Arc<Shared>>,
}

impl Instance {
    /// Builds the instance of this worker, which serves its connections while it is built.
    pub(crate) async fn build(
        plan: &Arc<ServerPlan>,
        worker: &WorkerContext,
        access: Option<Rc<AccessLog>>,
        tracer: Rc<Tracer>,
    ) -> Rc<Instance> {
        worker.shared.get((), auth::Registry::default).install(&plan.consumers);
        let mut routes = Vec::with_capacity(plan.routes.len());
        for some in plan.routes.chunks(ROUTES_AT_A_TIME) {
            routes.extend(some.iter().map(|route| Rc::new(build_route(route, worker))));
            tokio::task::yield_now().await;
        }
        let router = Router::clone(&plan.router);
        let unrouted = plan.unrouted.iter().map(|filter| filter.build(worker)).collect();
        let mut listeners = plan.listeners.iter();
        let keeps_encoded_slashes =
            listeners.any(|listener| listener.encoded_slashes == EncodedSlashes::Keep);
        let obtains_certificates = plan.acme().next().is_some();
        Rc::new(Instance {
            plan: plan.clone(),
            challenges: obtains_certificates.then(|| worker.shared.clone()),
            router,
            routes,
            unrouted,
            access,
            tracer,
            keeps_encoded_slashes,
        })
    }

    /// Sends subrequests through these routes.
    pub(crate) fn serve_within(self: &Rc<Self>, subrequests: &Subrequests) {
        let dispatch: Rc<dyn Dispatch> = self.clone();
        subrequests.route_through(Rc::downgrade(&dispatch), self.plan.errors.clone());
    }

    /// True if a route of the request's listener names its host.
    pub(crate) fn names_host(&self, request: &Request) -> bool {
        self.router.names_host(&Input::from(request))
    }

    fn dispatch_of(self: &Rc<Self>, listener: &ListenerPlan) -> Rc<dyn Dispatch> {
        let ruled = match listener.redirects_to {
            Some(port) => https_redirect::to(port),
            None => unknown_host::ruled(listener.unknown_host, self.clone()),
        };
        match &self.challenges {
            Some(shared) => acme::respond_to_challenges(shared, ruled),
            None => ruled,
        }
    }

    /// The settings of a listener's connections under this plan.
    pub(crate) fn edge(self: &Rc<Self>, listener: &ListenerPlan) -> ListenerSnapshot {
        let limits = &listener.limits;
        ListenerSnapshot {
            proxy_protocol: listener.proxy_protocol.clone(),
            tls: listener.tls.as_ref().map(listener_tls),
            dispatch: self.dispatch_of(listener),
            http1: listener.protocols.contains(&HttpVersion::Http1),
            http2: listener.protocols.contains(&HttpVersion::Http2).then(|| http2_config(limits)),
            head_limits: head_limits(limits),
            timeouts: connection_timeouts(&listener.timeouts),
            bounds: Bounds {
                body: limits.body.bytes(),
                body_timeout: listener.timeouts.body_timeout(),
                body_total: listener.timeouts.body_total.map(|span| span.get()),
                write_timeout: listener.timeouts.write_timeout(),
            },
            half_close: listener.half_close,
            trusted_proxies: TrustedProxies::new(self.plan.trusted_proxies.iter().map(Cidr::net)),
            countries: self.plan.countries(),
            pages: self.plan.errors.clone(),
            access: self.access.clone(),
            tracer: Some(self.tracer.clone()),
        }
    }
}

/// The last connection of a previous plan drops its routes, while the worker serves the next one.
impl Drop for Instance {
    fn drop(&mut self) {
        let (mut routes, plan) = (std::mem::take(&mut self.routes), self.plan.clone());
        if routes.len() <= ROUTES_AT_A_TIME {
            return;
        }
        net::task::spawn_local(async move {
            while !routes.is_empty() {
                routes.truncate(routes.len().saturating_sub(ROUTES_AT_A_TIME));
                tokio::task::yield_now().await;
            }
            // A worker may be the last that has the plan.
            let _ = net::blocking(move || drop(plan)).await;
        });
    }
}

/// TLS of a listener as connections use it.
pub(crate) fn listener_tls(tls: &config::ListenerTls) -> ListenerTls {
    ListenerTls {
        server: tls.server.clone(),
        redirects_plain: tls.plain_http == PlainHttp::Redirect,
        hsts: tls.hsts.clone(),
    }
}

/// The targets of scripts' subrequests: all upstreams of the plan, and later its routes.
pub(crate) fn subrequests(plan: &ServerPlan, worker: &WorkerContext) -> Rc<Subrequests> {
    let handler = |name: &String| (name.clone(), upstream::handler(name, worker));
    Subrequests::new(plan.upstreams.iter().map(|(name, _)| handler(name)).collect())
}

/// The tracer of a plan's requests, which passes what is recorded to the queue, and to the clients
/// of the live log.
pub(crate) fn tracer(
    plan: &ServerPlan,
    queue: Option<Arc<TraceQueue>>,
    live: Arc<LiveLog>,
) -> Rc<Tracer> {
    let settings = plan.traces.as_ref().map(|traces| TracerSettings {
        sample: traces.sample(),
        failures: traces.records_failures(),
        slow_us: traces.slow_us(),
        accepts_parent: traces.accepts_parent(),
        fields: traces.fields(),
        queue,
    });
    Rc::new(Tracer::new(settings, live, credential_places(plan)))
}

/// The limits of a request's head.
pub(crate) fn head_limits(limits: &Limits) -> HeadLimits {
    HeadLimits {
        request_line: limits.request_line.bytes_usize(),
        headers: limits.headers.bytes_usize(),
        header_count: limits.header_count as usize,
    }
}

/// What a client may do on a connection of HTTP/2.
pub(crate) fn http2_config(limits: &Limits) -> wire::h2::Config {
    wire::h2::Config {
        max_streams: limits.streams,
        stream_window: u32::try_from(limits.stream_window.bytes()).unwrap_or(u32::MAX),
        connection_window: u32::try_from(limits.connection_window.bytes()).unwrap_or(u32::MAX),
        head: head_limits(limits),
        extended_connect: true,
    }
}

/// The time-outs of a connection.
pub(crate) fn connection_timeouts(timeouts: &Timeouts) -> ConnectionTimeouts {
    ConnectionTimeouts {
        handshake: timeouts.handshake.get(),
        head: timeouts.head.get(),
        idle: timeouts.idle.get(),
    }
}

/// The places of requests that must be masked where they are logged or shown: a key may be sent to
/// a route that does not need it, and an earlier filter may respond.
pub(crate) fn credential_places(plan: &ServerPlan) -> BTreeSet<CredentialPlace> {
    let filters = plan.routes.iter().flat_map(|route| &route.filters);
    filters.flat_map(|filter| filter.credential_places()).collect()
}

fn build_route(route: &RoutePlan, worker: &WorkerContext) -> Route {
    let info = RouteInfo {
        name: route.name.as_str().into(),
        bounds: route.bounds.clone(),
        metrics: worker.telemetry.route(worker.index, &route.name),
        log: route.log.clone(),
    };
    let filters = route.filters.iter().map(|filter| filter.build_on(route.names(), worker));
    Route::from_info(info, filters.collect(), route.handler.build(worker))
}

impl Dispatch for Instance {
    fn dispatch(&self, request: &mut Request) -> Result<Rc<Route>, Fault> {
        if self.keeps_encoded_slashes || request.target.has_encoded_slash() {
            slashes::apply_rule_of(&self.plan, request)?;
        }
        let found = self.router.find(&Input::from(&*request));
        match found {
            RouteLookup::Route(id, params) => {
                request.params = params;
                Ok(self.routes[id.index()].clone())
            }
            RouteLookup::MethodNotAllowed(allow) => Err(Fault::method_not_allowed(allow)),
            RouteLookup::NotFound => Err(Fault::not_found()),
        }
    }

    fn on_generated(&self, request: &Request, response: &mut Response) {
        for stage in self.unrouted.iter().rev() {
            stage.on_generated(request, response);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    /// A plan with three and a half times as many routes as are built at a time.
    fn plan() -> Arc<ServerPlan> {
        let route = |number| {
            format!("  - {{ match: {{ path: /{number} }}, handler: {{ respond: {{}} }} }}\n")
        };
        let routes: String = (0..ROUTES_AT_A_TIME * 7 / 2).map(route).collect();
        let text = format!("listeners: {{ web: {{ bind: \"127.0.0.1:0\" }} }}\nroutes:\n{routes}");
        let source = config::TextSource::new("test", &text);
        match config::load(&source, &|_| None, &config::Kinds::all()) {
            Ok(loaded) => loaded.plan,
            Err(report) => panic!("{}", report.render()),
        }
    }

    #[test]
    fn other_tasks_run_while_routes_are_built_and_dropped() {
        net::worker::block_on_local(async {
            let turns = Rc::new(Cell::new(0));
            let counted = turns.clone();
            net::task::spawn_local(async move {
                loop {
                    counted.set(counted.get() + 1);
                    tokio::task::yield_now().await;
                }
            });
            let (plan, worker) = (plan(), WorkerContext::default());
            let live = worker.shared.get((), LiveLog::default);
            let instance = Instance::build(&plan, &worker, None, tracer(&plan, None, live)).await;
            assert!(turns.get() >= 3, "{} turns", turns.get());
            let first = Rc::downgrade(&instance.routes[0]);
            let last = Rc::downgrade(&instance.routes[plan.routes.len() - 1]);
            let plan = (Arc::downgrade(&plan), drop(plan)).0;
            turns.set(0);
            drop(instance);
            while last.strong_count() > 0 {
                tokio::task::yield_now().await;
            }
            assert!(first.strong_count() > 0, "all routes were dropped at once");
            while first.strong_count() > 0 || plan.strong_count() > 0 {
                tokio::task::yield_now().await;
            }
            assert!(turns.get() >= 3, "{} turns", turns.get());
        });
    }
}
