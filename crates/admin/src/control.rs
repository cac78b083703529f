//! The interface between the admin API and the server.
//!
//! `server` implements [`Control`] on the control thread.

use cache::PurgeRequest;
use http_server::LiveLog;
use message::LocalFuture;
use serde_json::Value;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;
use telemetry::{FamilySamples, Telemetry};
use upstream::ServerChange;

use crate::merge::ProcessMetrics;
use crate::purged::Purged;

/// The server as the admin API sees it. Called on the control thread.
pub trait Control {
    fn telemetry(&self) -> Arc<Telemetry>;

    fn status(&self) -> Status;

    /// The configuration as its source has it, with `${…}` unexpanded.
    fn config(&self) -> ConfigDocument;

    /// Returns the earlier versions that can be restored, the newest first.
    fn history(&self) -> Vec<ConfigVersion>;

    /// Checks a configuration, writes it to its source and puts it into use, or does none of it.
    /// The comparison with `expect` and the change are one step.
    fn apply(
        &self,
        text: String,
        syntax: Syntax,
        expect: Expect,
    ) -> LocalFuture<'_, Result<Applied, Refusal>>;

    /// Returns the changes that a configuration would make, and makes none of them.
    fn check(&self, text: String) -> LocalFuture<'_, Result<Vec<String>, Refusal>>;

    /// Puts a version of `history` into use again, the way `apply` would.
    fn rollback(
        &self,
        version: String,
        expect: Expect,
    ) -> LocalFuture<'_, Result<Applied, Refusal>>;

    /// Reads the source again; resolves when the new plan serves, or with the reason why it does
    /// not.
    fn reload(&self) -> LocalFuture<'_, Result<Applied, Refusal>>;

    /// Asks for a reload and does not wait for it.
    fn request_reload(&self);

    /// Begins to drain: no new connections, then the end of the process.
    fn drain(&self);

    /// The version of the current configuration.
    fn config_version(&self) -> String {
        self.status().config_version
    }

    /// Every route in the order it is tried.
    fn routes(&self) -> Vec<RouteStatus>;

    /// What a route matches, as in [`RouteStatus::rule`].
    fn route_rule(&self, name: &str) -> Option<String> {
        self.routes().into_iter().find(|route| route.name == name).map(|route| route.rule)
    }

    /// Where finished requests can be watched; `None` if other processes serve them.
    fn live_log(&self) -> Option<Arc<LiveLog>>;

    fn upstreams(&self) -> Vec<UpstreamStatus>;

    /// Changes a server of an upstream until the next reload. False if there is no such server.
    fn change_server(&self, upstream: &str, server: &str, change: ServerChange) -> bool;

    fn streams(&self) -> Vec<StreamStatus>;

    fn workers(&self) -> Vec<WorkerStatus>;

    fn caches(&self) -> Vec<CacheStatus>;

    /// A page of what a cache holds.
    fn entries(&self, cache: &str, wanted: &EntriesWanted) -> Result<Entries, CacheRequestError>;

    /// Returns the text with its secrets masked; `None` if errors prevent finding them.
    fn masked_config(&self) -> Option<String>;

    /// Takes out what is meant, or makes it stale. With `wait`, resolves when all servers that
    /// share purges and can be reached have done so, or after that time.
    fn purge(
        &self,
        cache: &str,
        request: PurgeRequest,
        wait: Option<Duration>,
    ) -> LocalFuture<'_, Result<Purged, CacheRequestError>>;

    /// The upstreams in use, with which servers register.
    fn upstream_registry(&self) -> Arc<upstream::Upstreams>;

    /// The consumers in use.
    fn consumers(&self) -> Arc<auth::Registry>;

    /// The quotas in use.
    fn quotas(&self) -> Arc<traffic::Quotas>;

    /// Applications that run in processes of their own.
    fn apps(&self) -> Vec<AppStatus> {
        Vec::new()
    }

    /// Replaces the processes of an application; the error is the reason of the failure.
    fn reload_app(&self, _name: &str) -> LocalFuture<'_, Result<(), String>> {
        Box::pin(std::future::ready(Err("there are no applications".to_owned())))
    }

    /// Returns metrics that are not in the telemetry.
    fn samples(&self) -> Vec<FamilySamples> {
        Vec::new()
    }

    /// Requests the metrics of the processes of applications; `None` without applications.
    fn processes_metrics(&self) -> Option<LocalFuture<'_, Vec<ProcessMetrics>>> {
        None
    }

    /// Returns whether a request would be a cache hit.
    fn explain_cache(
        &self,
        cache: &str,
        question: &Question,
    ) -> Result<Explanation, CacheRequestError>;

    /// Explains how a request would be handled. The error describes what is wrong with the
    /// question.
    fn explain(&self, question: &Question) -> Result<Explanation, String>;

    /// Sends a request with this content to a listener of the server. The error describes what is
    /// wrong with the request, or why it has no response.
    fn send(
        &self,
        question: Question,
        body: bytes::Bytes,
    ) -> LocalFuture<'_, Result<SentResponse, String>>;
}

/// The response to a request that was sent to a listener of this server.
#[derive(Clone, Debug, Default)]
pub struct SentResponse {
    /// The listener that the request was sent to.
    pub listener: String,
    pub status: u16,
    pub headers: Vec<(String, String)>,
    /// The beginning of the content.
    pub content: bytes::Bytes,
    /// True if there is more content.
    pub is_cut: bool,
    /// Why the content is not whole, if it was broken off.
    pub failed: Option<String>,
    pub duration_us: u64,
}

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

/// The syntax of a configuration text; JSON is read with the same model.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Syntax {
    Yaml,
    Json,
}

impl Syntax {
    pub const fn media_type(self) -> &'static str {
        match self {
            Self::Yaml => "application/yaml",
            Self::Json => "application/json",
        }
    }
}

/// The configuration as text.
#[derive(Debug, Clone)]
pub struct ConfigDocument {
    pub text: String,
    pub syntax: Syntax,
    /// Changes whenever the text does; only letters, digits and `-._`, so that it can be an ETag.
    pub version: String,
    /// Where the configuration was read from, as text: a path.
    pub source: String,
    /// Why it cannot be changed from here, when it cannot.
    pub read_only: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConfigVersion {
    pub version: String,
    /// When it was put into use, Unix time in milliseconds.
    pub at_ms: u64,
    /// True for the current version.
    pub current: bool,
}

/// Which versions a change may replace (If-Match, RFC 9110 section 13.1.1).
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Expect {
    Any,
    OneOf(Vec<String>),
}

impl Expect {
    pub fn allows(&self, version: &str) -> bool {
        match self {
            Self::Any => true,
            Self::OneOf(versions) => versions.iter().any(|expected| expected == version),
        }
    }
}

/// A configuration that is in use now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Applied {
    pub version: String,
    /// The changes, a line each: `route "shop" added`. Empty if there are none.
    pub changes: Vec<String>,
}

/// Why a configuration was not put into use; the one before still serves.
#[derive(Debug)]
pub enum Refusal {
    /// The configuration is invalid.
    Invalid(Box<settings::Report>),
    /// Another version is in use than the one expected.
    Stale { current: String },
    /// The configuration cannot be changed by the API; the sentence has the reason.
    ReadOnly(String),
    /// No such version in the history.
    NoVersion,
    /// Another change is in progress.
    Busy,
    /// The configuration is valid, but a resource is not available: an address is in use, a log
    /// cannot be written. Nothing has changed.
    Unable(String),
    /// The configuration could not be applied for another reason, such as a full disk.
    Failed(String),
}

impl Refusal {
    /// Returns the errors, a line each, for the log and for `/readyz`.
    pub fn errors(&self) -> Vec<String> {
        match self {
            Self::Invalid(report) => report.one_line_each(),
            Self::Stale { current } => vec![format!("version {current} is in use")],
            Self::ReadOnly(why) | Self::Unable(why) | Self::Failed(why) => vec![why.clone()],
            Self::NoVersion => vec!["no such version".to_owned()],
            Self::Busy => vec!["another change is in progress".to_owned()],
        }
    }
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
    /// The process from which the workers are forked, if the application is preloaded.
    pub preloader: Option<AppPreloaderStatus>,
    pub tasks: AppTasksStatus,
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

/// Which part of what a cache holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EntriesWanted {
    /// Only objects whose URL begins with this.
    pub prefix: String,
    /// The end of the previous page.
    pub after: Option<u64>,
    pub limit: usize,
}

#[derive(Debug, Clone)]
pub struct Entries {
    /// An object each.
    pub entries: Vec<Value>,
    /// The start of the next page, if there is one.
    pub next: Option<u64>,
}

/// Why a question about a cache was not answered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CacheRequestError {
    /// There is no cache with that name.
    NoCache,
    /// What is wrong with the question.
    Wrong(String),
    /// Why a purge could not be written for the other servers; nothing was purged.
    Unpublished(String),
}

/// Metrics that are not counted by a worker.
#[derive(Debug, Clone)]
pub struct WorkerStatus {
    pub index: usize,
    /// The core it is bound to.
    pub cpu: Option<usize>,
    /// The configuration it serves.
    pub config_version: String,
}

/// A request to be explained.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Question {
    pub method: String,
    /// Absolute, or a path when a Host field names the rest.
    pub url: String,
    pub headers: Vec<(String, String)>,
    pub client_ip: Option<IpAddr>,
    pub listener: Option<String>,
}

#[derive(Debug, Clone)]
pub struct Explanation {
    /// The output of `tidegate explain`.
    pub text: String,
    pub json: Value,
}

#[cfg(test)]
mod tests {
    use super::{Expect, Refusal};
    use settings::{Report, Span};

    #[test]
    fn an_error_that_stands_nowhere_names_no_place() {
        let mut report = Report::new();
        report.error(Span::NOWHERE, "there is no file a.yaml");
        let refusal = Refusal::Invalid(Box::new(report));
        assert_eq!(refusal.errors(), ["there is no file a.yaml"]);
    }

    #[test]
    fn any_of_the_expected_versions_will_do() {
        let expect = Expect::OneOf(vec!["a".into(), "b".into()]);
        assert!(expect.allows("b") && !expect.allows("c"));
        assert!(Expect::Any.allows("c"));
        assert!(!Expect::OneOf(Vec::new()).allows("a"));
    }
}
