//! The whole configuration.

use apps::AppSettings;
use cache::CacheSettings;
use lua::{ProgramSettings, ServingSettings};
use settings::{Cidr, Named, Spanned};
use upstream::UpstreamSettings;

use super::{
    AdminSettings, DefaultsSettings, ErrorSettings, Limits, ListenerSettings, LogSettings,
    RouteSettings, Timeouts, Workers,
};
use crate::kinds::FilterEntry;

settings::record! {
    /// A configuration of Tidegate. Durations are written `250ms 5s 1h`, sizes `16KiB 10MiB
    /// unlimited`, rates `100/s`; `${NAME}` in a text is an environment variable; relative paths
    /// start at the folder of the file they stand in.
    pub struct Settings {
        /// More files: what they say is added. Stars may stand in the last part of a path.
        pub include: Vec<String> = [] { example ["conf.d/*.yaml"] },
        /// How many workers serve, each a thread with its own connections.
        pub workers: Workers = "auto" { example 4 },
        /// Peers whose `Forwarded` and `X-Forwarded-*` are believed; from others they are removed.
        pub trusted_proxies: Vec<Cidr> = [] { example ["10.0.0.0/8"] },
        /// Where clients come in, by name.
        pub listeners: Named<ListenerSettings> = {},
        /// Groups of servers that requests are sent on to, by name.
        pub upstreams: Named<UpstreamSettings> = {},
        /// Stores for answers that the filter `cache` keeps, by name.
        pub caches: Named<CacheSettings> = {},
        /// Applications in Python that run in processes of their own, by name.
        pub apps: Named<AppSettings> = {},
        /// Lists of filters that routes share, by name.
        pub chains: Named<Vec<FilterEntry>> = {},
        /// What goes before every route's own.
        pub defaults: DefaultsSettings = {},
        /// Which requests go where.
        pub routes: Vec<Spanned<RouteSettings>> = [],
        /// Programs of Lua that speak TCP themselves.
        pub programs: Vec<ProgramSettings> = [],
        /// What scripts may do in the server.
        pub lua: ServingSettings = {},
        /// Pages to answer errors with, by status.
        pub errors: ErrorSettings = {},
        /// The API that looks at and steers the running server.
        pub admin: AdminSettings = {},
        /// What the server says about itself, and the access log.
        pub log: LogSettings = {},
        /// How much one client may ask of the server.
        pub limits: Limits = {},
        /// How long a client is waited for.
        pub timeouts: Timeouts = {},
    }
}

#[cfg(test)]
mod tests {
    use super::Settings;

    #[test]
    fn every_declaration_holds() {
        settings::verify::<Settings>().unwrap();
    }
}
