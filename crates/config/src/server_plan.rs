//! A configuration, checked and frozen: what workers are built from.
//!
//! Promises: everything it names exists; it never changes; it is shared by all workers and swapped
//! whole. Never does: opening sockets, starting anything.

use std::rc::Rc;
use std::sync::Arc;

use apps::AppSettings;
use auth::{ConsumerSet, GeoSettings, IdentitySet};
use cache::{CacheSettings, PurgesSettings};
use http_server::ProxyProtocol;
use message::{CountryDatabase, RouteBounds, RouteLog};
use net::tls::ServerTls;
use net::{Bind, ListenOptions};
use otlp::{ExportPlan, TracePlan};
use plugin::problem::ErrorPages;
use plugin::{FilterPlan, HandlerPlan, RouteNames};
use redis::RedisPlan;
use router::{RouteId, Router};
use settings::{Cidr, FilePath, Secret, Span};
use streams::StreamPlan;
use tls_settings::{AcmePlan, PlainHttp};
use upstream::UpstreamPlan;

use crate::parts::Part;
use crate::records::{
    AdminRole, EncodedSlashes, HttpVersion, Limits, LogSettings, MetricsAccess, Timeouts,
    UnknownHost, Workers,
};

/// The whole configuration.
pub struct ServerPlan {
    /// A short name of exactly the texts it was made from.
    pub version: String,
    pub workers: Workers,
    pub trusted_proxies: Vec<Cidr>,
    pub listeners: Vec<ListenerPlan>,
    /// Each with the sockets of a listener of its name.
    pub streams: Vec<(ListenerPlan, Arc<StreamPlan>)>,
    /// Each with the sockets of a listener that is named by its address.
    pub programs: Vec<(ListenerPlan, lua_host::ProgramPlan)>,
    pub lua: lua_host::ServingSettings,
    pub upstreams: Vec<(String, UpstreamPlan)>,
    pub caches: Vec<(String, CacheSettings)>,
    pub apps: Vec<(String, Arc<AppSettings>)>,
    pub consumers: Arc<ConsumerSet>,
    pub geo: GeoSettings,
    pub identity: Arc<IdentitySet>,
    pub router: Arc<Router>,
    /// In the order of the router's rules: see [`ServerPlan::route`].
    pub routes: Vec<RoutePlan>,
    /// Filters of `defaults` that change responses the server generates for requests without a
    /// route.
    pub unrouted: Vec<Arc<dyn FilterPlan>>,
    pub errors: Arc<ErrorPages>,
    pub admin: AdminPlan,
    pub log: LogSettings,
    /// The collector that gets the lines of the logs.
    pub log_export: Option<Arc<ExportPlan>>,
    /// The collector that gets metrics.
    pub metrics_export: Option<Arc<ExportPlan>>,
    pub traces: Option<Arc<TracePlan>>,
    /// Where state is that several servers share.
    pub shared: Option<Arc<RedisPlan>>,
    /// How purges reach the other servers.
    pub purges: Option<PurgesSettings>,
    /// Limits of the server; a listener has its own.
    pub limits: Limits,
    /// Time-outs of the server; a listener has its own.
    pub timeouts: Timeouts,
    /// The parts of the configuration, for the comparison with the next one.
    pub parts: Vec<Part>,
}

impl ServerPlan {
    /// The certificates that listeners obtain from certificate authorities.
    pub fn acme(&self) -> impl Iterator<Item = &AcmePlan> {
        let tls = self.listeners.iter().map(|listener| &listener.tls).chain([&self.admin.tls]);
        let of_streams = self.streams.iter().filter_map(|(_, stream)| stream.acme.as_ref());
        tls.flatten().filter_map(|tls| tls.acme.as_ref()).chain(of_streams)
    }

    /// Returns the database for the countries of clients.
    pub fn countries(&self) -> Option<Rc<dyn CountryDatabase>> {
        let file = self.geo.country.clone()?;
        Some(Rc::new(file))
    }

    /// Returns the route of the router's result.
    pub fn route(&self, id: RouteId) -> &RoutePlan {
        &self.routes[id.index()]
    }

    /// Everything that is to be bound for workers: of listeners, streams and programs.
    pub fn sockets(&self) -> impl Iterator<Item = &ListenerPlan> {
        let of_streams = self.streams.iter().map(|(listener, _)| listener);
        let of_programs = self.programs.iter().map(|(listener, _)| listener);
        self.listeners.iter().chain(of_streams).chain(of_programs)
    }

    pub fn listener(&self, name: &str) -> Option<&ListenerPlan> {
        self.listeners.iter().find(|listener| listener.name == name)
    }
}

/// A listener. A running one stays unchanged if its settings are equal.
#[derive(Clone, Debug, PartialEq)]
pub struct ListenerPlan {
    pub name: String,
    pub bind: Bind,
    pub options: ListenOptions,
    pub proxy_protocol: Option<ProxyProtocol>,
    pub tls: Option<ListenerTls>,
    /// Every request is redirected to https on this port.
    pub redirects_to: Option<u16>,
    /// The preferred one first.
    pub protocols: Vec<HttpVersion>,
    pub half_close: bool,
    pub encoded_slashes: EncodedSlashes,
    pub unknown_host: UnknownHost,
    /// The server's, overridden by the listener's own.
    pub limits: Limits,
    /// The server's, overridden by the listener's own.
    pub timeouts: Timeouts,
}

/// TLS of a listener.
#[derive(Clone, Debug, PartialEq)]
pub struct ListenerTls {
    pub server: ServerTls,
    /// The certificate to obtain from a certificate authority.
    pub acme: Option<AcmePlan>,
    pub plain_http: PlainHttp,
    /// The value of `Strict-Transport-Security`.
    pub hsts: Option<String>,
}

/// Which way requests go.
pub struct RoutePlan {
    pub name: String,
    /// See [`RouteNames`]; `None` if it is the name.
    pub identity: Option<String>,
    /// In the order of requests; those of `defaults` come first.
    pub filters: Vec<Arc<dyn FilterPlan>>,
    /// Where each of them is written.
    pub filter_spans: Vec<Span>,
    pub handler: Arc<dyn HandlerPlan>,
    /// `None` if the bounds of the listener apply.
    pub bounds: Option<Box<RouteBounds>>,
    /// How its requests are logged, where that differs from the access log's settings.
    pub log: Option<Arc<RouteLog>>,
}

impl RoutePlan {
    /// The names for its filters.
    pub fn names(&self) -> RouteNames<'_> {
        let shown = self.name.as_str();
        RouteNames { shown, identity: self.identity.as_deref().unwrap_or(shown) }
    }

    /// The handler, and those among the settings of filters.
    pub fn handlers(&self) -> impl Iterator<Item = &Arc<dyn HandlerPlan>> {
        let of_filters = self.filters.iter().flat_map(|filter| filter.handlers());
        std::iter::once(&self.handler).chain(of_filters.filter_map(|handler| handler.plan()))
    }

    /// Returns true if a filter rejects clients without valid credentials.
    pub fn authenticates(&self) -> bool {
        self.filters.iter().any(|filter| filter.authenticates())
    }

    /// Returns true if a handler of another route serves the same as one of this route: an
    /// upstream, a directory, a script. Handlers in the settings of filters count, except those of
    /// generated responses, such as a fallback's.
    pub fn has_handler_of(&self, other: &RoutePlan) -> bool {
        let same = |one: &Arc<dyn HandlerPlan>, other: &Arc<dyn HandlerPlan>| {
            one.name() == other.name() && one.describe() == other.describe()
        };
        let serves =
            |handler: &&Arc<dyn HandlerPlan>| !matches!(handler.name(), "respond" | "redirect");
        let of_filters = |one| other.handlers().filter(serves).any(|other| same(one, other));
        same(&self.handler, &other.handler) || self.handlers().filter(serves).any(of_filters)
    }
}

/// The settings of the admin API.
#[derive(Clone, Debug, PartialEq)]
pub struct AdminPlan {
    pub bind: Option<Bind>,
    pub tls: Option<ListenerTls>,
    /// Each with another content.
    pub tokens: Vec<AdminToken>,
    /// True if the console is served over TCP.
    pub console: bool,
    pub metrics: MetricsAccess,
    /// Names that `Host` may say.
    pub hosts: Vec<String>,
    /// True if secrets are shown over TCP on request.
    pub config_secrets: bool,
    pub socket: Option<FilePath>,
    /// The file that stores changes of consumers.
    pub consumer_changes: Option<FilePath>,
}

/// A bearer token of the admin API.
#[derive(Clone, Debug, PartialEq)]
pub struct AdminToken {
    /// The name in the log.
    pub name: String,
    pub role: AdminRole,
    pub secret: Secret,
}

#[cfg(test)]
mod tests {
    use super::ServerPlan;

    fn shared<T: Send + Sync>() {}

    #[test]
    fn workers_share_it() {
        shared::<ServerPlan>();
    }
}
