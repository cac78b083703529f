//! What the server and its parts report of themselves.

use telemetry::ErrorRecord;

/// The phase of the server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ServerState {
    Starting,
    Serving,
    Draining,
}

impl ServerState {
    pub const fn slug(self) -> &'static str {
        match self {
            Self::Starting => "starting",
            Self::Serving => "serving",
            Self::Draining => "draining",
        }
    }
}

/// The server at a glance.
#[derive(Debug, Clone)]
pub struct Status {
    pub state: ServerState,
    /// The build of the program.
    pub build: String,
    pub pid: u32,
    /// Unix time in milliseconds.
    pub started_ms: u64,
    /// The version of the current configuration.
    pub config_version: String,
    pub listeners: Vec<ListenerStatus>,
    /// The latest attempt to change the configuration since the start.
    pub last_reload: Option<ReloadStatus>,
    /// Malfunctions, in a sentence each.
    pub problems: Vec<String>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListenerStatus {
    pub name: String,
    /// The address bound, with the real port.
    pub address: String,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReloadStatus {
    pub at_ms: u64,
    /// Why it failed, a line per error (`file:line:column: message`); empty when it did not.
    pub errors: Vec<String>,
}

#[derive(Debug, Clone)]
pub struct RouteStatus {
    pub name: String,
    /// Its conditions in one line, in the format of `explain`.
    pub rule: String,
    /// Its filters in the order in which they run.
    pub filters: Vec<String>,
    pub handler: String,
}

/// A stream of layer 4.
#[derive(Debug, Clone)]
pub struct StreamStatus {
    pub name: String,
    /// The configured address.
    pub bind: String,
    /// `tcp` or `udp`.
    pub protocol: &'static str,
    /// TLS ends here.
    pub tls: bool,
    /// Upstreams that connections may be passed to.
    pub upstreams: Vec<String>,
}

#[derive(Debug, Clone)]
pub struct UpstreamStatus {
    pub name: String,
    pub balance: String,
    /// True if so few servers are healthy that all are used.
    pub panic: bool,
    pub servers: Vec<ServerStatus>,
    /// The source of servers, if there is one.
    pub discovery: Option<upstream::DiscoveryStatus>,
    /// The circuit breakers of routes that lead to it, those that are not closed first.
    pub breakers: Vec<BreakerStatus>,
}

/// A circuit breaker in front of an upstream.
#[derive(Debug, Clone)]
pub struct BreakerStatus {
    pub breaker: traffic::BreakerStatus,
    /// Some of the routes that use it and lead to the upstream.
    pub routes: Vec<String>,
    /// How many there are.
    pub uses: usize,
}

#[derive(Debug, Clone)]
pub struct ServerStatus {
    /// The server as it is configured: a name, or an address.
    pub server: String,
    pub address: String,
    pub weight: u32,
    /// Weight or draining were changed since the latest reload.
    pub changed: bool,
    pub backup: bool,
    /// True if it gets requests.
    pub healthy: bool,
    /// One of `healthy`, `unhealthy`, `ejected`, `trial`, `draining`, `removed`.
    pub state: String,
    pub in_flight: u64,
    pub connections: u64,
    /// Moving average of the time to the head of a response; `None` before the first.
    pub latency_us: Option<u64>,
    /// The latest failure, in a sentence.
    pub last_error: Option<String>,
    /// Remaining time of its ejection; 0 if it is not ejected.
    pub ejected_for_ms: u64,
    /// The last change of its health.
    pub last_change: Option<upstream::HealthChange>,
}

/// A cache and what is in it. What it did is counted under its name in the metrics.
#[derive(Debug, Clone, Default)]
pub struct CacheStatus {
    pub name: String,
    /// The routes that store responses in it.
    pub routes: Vec<String>,
    pub objects: u64,
    /// Memory of the objects, and its limit.
    pub bytes: u64,
    pub memory_bytes: u64,
    /// The tier on disk, where there is one.
    pub disk: Option<CacheDisk>,
}

#[derive(Debug, Clone, Default)]
pub struct CacheDisk {
    pub path: String,
    pub objects: u64,
    pub bytes: u64,
    /// Deleted files that responses are still sent from.
    pub deleted_bytes: u64,
    pub size_bytes: u64,
    /// Why it is not used at the moment.
    pub failed: Option<String>,
}

/// An application in processes of its own.
#[derive(Debug, Clone, Default)]
pub struct AppStatus {
    pub name: String,
    /// The application: `shop.web:app`.
    pub target: String,
    /// Processes that take requests.
    pub ready: usize,
    /// Processes that finish requests in flight.
    pub leaving: usize,
    pub workers: Vec<AppWorkerStatus>,
    /// The last failures of its processes, the latest first.
    pub failures: Vec<ErrorRecord>,
    /// The last exceptions that requests raised, the latest first.
    pub errors: Vec<ErrorRecord>,
    /// The process from which the workers are forked, if the application is preloaded.
    pub preloader: Option<AppPreloaderStatus>,
    pub tasks: AppTasksStatus,
}

/// Lua files in use, and the last errors of Lua code.
#[derive(Debug, Clone, Default)]
pub struct LuaStatus {
    pub files: Vec<LuaFileStatus>,
    /// The latest first.
    pub errors: Vec<LuaError>,
}

#[derive(Debug, Clone, Default)]
pub struct LuaFileStatus {
    pub path: String,
    /// Some of the routes and programs that use it.
    pub used_by: Vec<String>,
    /// How many use it.
    pub uses: usize,
}

#[derive(Debug, Clone, Default)]
pub struct LuaError {
    pub error: ErrorRecord,
    /// The program whose connection the coroutine handled.
    pub program: Option<String>,
}

/// The process that has imported a preloaded application.
#[derive(Debug, Clone, Copy, Default)]
pub struct AppPreloaderStatus {
    /// True if workers can be forked from it.
    pub is_ready: bool,
    pub process: u32,
    pub rss_bytes: u64,
}

/// The background jobs of an application.
#[derive(Debug, Clone, Copy, Default)]
pub struct AppTasksStatus {
    pub waiting: usize,
    pub running: usize,
    pub done: u64,
    pub failed: u64,
    pub retried: u64,
}

/// A slot of the group, and its current process.
#[derive(Debug, Clone, Default)]
pub struct AppWorkerStatus {
    pub index: usize,
    /// One of `starting`, `ready`, `draining`, `absent`.
    pub state: String,
    pub process: Option<u32>,
    /// Which process of this place, from 1.
    pub generation: Option<u64>,
    pub started_ms: Option<u64>,
    /// Sum over all processes of this slot.
    pub requests: u64,
    pub in_flight: u64,
    pub websockets: u64,
    pub rss_bytes: u64,
    pub loop_lag_ms: u64,
    /// Number of restarts, by reason.
    pub restarts: Vec<(&'static str, u64)>,
    pub last_failure: Option<String>,
}

/// A worker thread.
#[derive(Debug, Clone)]
pub struct WorkerStatus {
    pub index: usize,
    /// The core it is bound to.
    pub cpu: Option<usize>,
    /// The configuration it serves.
    pub config_version: String,
}
