//! The whole configuration.

use apps::AppSettings;
use auth::{ConsumerSettings, GeoSettings, IdentitySettings};
use cache::{CacheSettings, PurgesSettings};
use lua_host::{ProgramSettings, ServingSettings};
use otlp::{MetricsSettings, TraceSettings};
use redis::SharedSettings;
use settings::{Cidr, Named, Setting, Spanned};
use upstream::UpstreamSettings;

use super::{
    AdminSettings, DefaultsSettings, ErrorSettings, Limits, ListenerSettings, LogSettings,
    RouteSettings, StreamSettings, Timeouts, Workers,
};
use crate::kinds::FilterEntry;

/// A configuration of Tidegate. Durations are written `250ms 5s 1h`, sizes `16KiB 10MiB
/// unlimited`, rates `100/s`; `${NAME}` in a text is an environment variable; relative paths
/// start at the directory of the file that contains them.
#[derive(Clone, Debug, PartialEq, Setting)]
pub struct Settings {
    /// More configuration files, merged into this one. The last part of a path may contain `*`.
    #[setting(default = [], example = ["conf.d/*.yaml"])]
    pub include: Vec<String>,
    /// Number of workers; each is a thread with its own connections. `auto` is one for each core.
    #[setting(default = "auto", example = 4)]
    pub workers: Workers,
    /// Peers whose `Forwarded` and `X-Forwarded-*` are trusted; from others they are removed.
    #[setting(default = [], example = ["10.0.0.0/8"])]
    pub trusted_proxies: Vec<Cidr>,
    /// Listening sockets, by name.
    #[setting(default = {})]
    pub listeners: Named<ListenerSettings>,
    /// Groups of servers that requests are forwarded to, by name.
    #[setting(default = {})]
    pub upstreams: Named<UpstreamSettings>,
    /// Stores of the responses that the filter `cache` stores, by name.
    #[setting(default = {})]
    pub caches: Named<CacheSettings>,
    /// Applications in Python that run in processes of their own, by name.
    #[setting(default = {})]
    pub apps: Named<AppSettings>,
    /// Clients that authenticate, with their credentials.
    #[setting(default = [])]
    pub consumers: Vec<Spanned<ConsumerSettings>>,
    /// The database in which the countries of clients are looked up.
    #[setting(default = {})]
    pub geo: GeoSettings,
    /// Providers whose keys verify tokens, by name.
    #[setting(default = {})]
    pub identity: Named<IdentitySettings>,
    /// Lists of filters that routes share, by name.
    #[setting(default = {})]
    pub chains: Named<Vec<FilterEntry>>,
    /// Filters applied before each route's own filters.
    #[setting(default = {})]
    pub defaults: DefaultsSettings,
    /// Routes: which requests they match, their filters and their handlers.
    #[setting(default = [])]
    pub routes: Vec<Spanned<RouteSettings>>,
    /// TCP and UDP ports whose traffic is passed to an upstream (layer 4).
    #[setting(default = [])]
    pub streams: Vec<StreamSettings>,
    /// Lua programs that serve TCP connections themselves.
    #[setting(default = [])]
    pub programs: Vec<ProgramSettings>,
    /// Permissions of Lua scripts.
    #[setting(default = {})]
    pub lua: ServingSettings,
    /// Error pages, by status.
    #[setting(default = {})]
    pub errors: ErrorSettings,
    /// The API that inspects and controls the running server.
    #[setting(default = {})]
    pub admin: AdminSettings,
    /// The event log and the access log.
    #[setting(default = {})]
    pub log: LogSettings,
    /// Where metrics are sent, in addition to `/metrics` of the admin API.
    #[setting(default = {})]
    pub metrics: MetricsSettings,
    /// Traces of requests; none without it.
    pub traces: Option<Spanned<TraceSettings>>,
    /// State that several servers share; without it each server counts for itself.
    pub shared: Option<Spanned<SharedSettings>>,
    /// Purges of caches that reach all servers; without it each server purges for itself.
    pub purges: Option<PurgesSettings>,
    /// Limits of what a client may request.
    #[setting(default = {})]
    pub limits: Limits,
    /// Client time-outs.
    #[setting(default = {})]
    pub timeouts: Timeouts,
}

#[cfg(test)]
mod tests {
    use super::Settings;

    #[test]
    fn every_declaration_holds() {
        settings::verify::<Settings>().unwrap();
    }
}
