//! The whole configuration.

use apps::AppSettings;
use cache::CacheSettings;
use lua_host::{ProgramSettings, ServingSettings};
use settings::{Cidr, Named, Setting, Spanned};
use upstream::UpstreamSettings;

use super::{
    AdminSettings, DefaultsSettings, ErrorSettings, Limits, ListenerSettings, LogSettings,
    RouteSettings, Timeouts, Workers,
};
use crate::kinds::FilterEntry;

/// A configuration of Tidegate. Durations are written `250ms 5s 1h`, sizes `16KiB 10MiB
/// unlimited`, rates `100/s`; `${NAME}` in a text is an environment variable; relative paths
/// start at the folder of the file they stand in.
#[derive(Clone, Debug, PartialEq, Setting)]
pub struct Settings {
    /// More files: what they say is added. Stars may stand in the last part of a path.
    #[setting(default = [], example = ["conf.d/*.yaml"])]
    pub include: Vec<String>,
    /// How many workers serve, each a thread with its own connections.
    #[setting(default = "auto", example = 4)]
    pub workers: Workers,
    /// Peers whose `Forwarded` and `X-Forwarded-*` are believed; from others they are removed.
    #[setting(default = [], example = ["10.0.0.0/8"])]
    pub trusted_proxies: Vec<Cidr>,
    /// Where clients come in, by name.
    #[setting(default = {})]
    pub listeners: Named<ListenerSettings>,
    /// Groups of servers that requests are sent on to, by name.
    #[setting(default = {})]
    pub upstreams: Named<UpstreamSettings>,
    /// Stores for answers that the filter `cache` keeps, by name.
    #[setting(default = {})]
    pub caches: Named<CacheSettings>,
    /// Applications in Python that run in processes of their own, by name.
    #[setting(default = {})]
    pub apps: Named<AppSettings>,
    /// Lists of filters that routes share, by name.
    #[setting(default = {})]
    pub chains: Named<Vec<FilterEntry>>,
    /// What goes before every route's own.
    #[setting(default = {})]
    pub defaults: DefaultsSettings,
    /// Which requests go where.
    #[setting(default = [])]
    pub routes: Vec<Spanned<RouteSettings>>,
    /// Programs of Lua that speak TCP themselves.
    #[setting(default = [])]
    pub programs: Vec<ProgramSettings>,
    /// What scripts may do in the server.
    #[setting(default = {})]
    pub lua: ServingSettings,
    /// Pages to answer errors with, by status.
    #[setting(default = {})]
    pub errors: ErrorSettings,
    /// The API that looks at and steers the running server.
    #[setting(default = {})]
    pub admin: AdminSettings,
    /// What the server says about itself, and the access log.
    #[setting(default = {})]
    pub log: LogSettings,
    /// How much one client may ask of the server.
    #[setting(default = {})]
    pub limits: Limits,
    /// How long a client is waited for.
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
