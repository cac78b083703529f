//! The interface between the admin API and the server.
//!
//! `server` implements [`Control`] on the control thread.

mod fleet;
mod status;

use cache::PurgeRequest;
use config::NewConfig;
use http_server::LiveLog;
use lua_host::{ProfileError, ProfileFormat, ProfileKind};
use message::LocalFuture;
use serde_json::Value;
use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;
use telemetry::{FamilySamples, Telemetry};
use upstream::ServerChange;

use crate::merge::ProcessMetrics;
use crate::purged::{PurgePreview, Purged};

pub use fleet::{CanaryResponses, FleetNodes, NodeReport, NodesWanted, RefusedRevision};
pub use status::{
    AppPreloaderStatus, AppStatus, AppTasksStatus, AppWorkerStatus, BreakerStatus, CacheDisk,
    CacheStatus, ListenerStatus, LuaError, LuaFileStatus, LuaStatus, ReloadStatus, RouteStatus,
    ServerState, ServerStatus, Status, StreamStatus, UpstreamStatus, WorkerStatus,
};

/// The server as the admin API sees it. Called on the control thread.
pub trait Control {
    fn telemetry(&self) -> Arc<Telemetry>;

    fn status(&self) -> Status;

    /// The configuration as its source has it, with `${…}` unexpanded.
    fn config(&self) -> ConfigDocument;

    /// The configuration as a set of documents, where its source has one.
    fn documents(&self) -> Result<ConfigDocuments, Refusal>;

    /// Returns the earlier versions that can be restored, the newest first.
    fn history(&self) -> Vec<ConfigVersion>;

    /// Checks a configuration, writes it to its source and puts it into use, or does none of it.
    /// The comparison with `expect` and the change are one step.
    fn apply(&self, new: NewConfig, expect: Expect) -> LocalFuture<'_, Result<Applied, Refusal>>;

    /// Returns the changes that a configuration would make, and makes none of them.
    fn check(&self, new: NewConfig) -> LocalFuture<'_, Result<Vec<String>, Refusal>>;

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

    /// At most so many stored responses with the most hits, and as many that take the most memory.
    fn top_entries<'a>(
        &'a self,
        cache: &'a str,
        limit: usize,
    ) -> LocalFuture<'a, Result<TopEntries, CacheRequestError>>;

    /// Returns the text with its secrets masked; `None` if errors prevent finding them.
    fn masked_config(&self) -> Option<String>;

    /// The same for a set of documents, by name.
    fn masked_documents(&self) -> Option<BTreeMap<String, String>>;

    /// Takes out what is meant, or makes it stale. With `wait`, resolves when all servers that
    /// share purges and can be reached have done so, or after that time.
    fn purge(
        &self,
        cache: &str,
        request: PurgeRequest,
        wait: Option<Duration>,
    ) -> LocalFuture<'_, Result<Purged, CacheRequestError>>;

    /// What a purge would remove from this server, and at most so many of the URLs.
    fn preview_purge<'a>(
        &'a self,
        cache: &'a str,
        request: PurgeRequest,
        most: usize,
    ) -> LocalFuture<'a, Result<PurgePreview, CacheRequestError>>;

    /// The upstreams in use, with which servers register.
    fn upstream_registry(&self) -> Arc<upstream::Upstreams>;

    /// The consumers in use.
    fn consumers(&self) -> Arc<auth::Registry>;

    /// The quotas in use.
    fn quotas(&self) -> Arc<traffic::Quotas>;

    /// The nodes of the fleet that this server belongs to; `None` if it belongs to none. The error
    /// is why they cannot be read.
    fn nodes(&self, _wanted: NodesWanted) -> LocalFuture<'_, Result<Option<FleetNodes>, String>> {
        Box::pin(std::future::ready(Ok(None)))
    }

    /// Applications that run in processes of their own.
    fn apps(&self) -> Vec<AppStatus> {
        Vec::new()
    }

    /// Replaces the processes of an application; the error is the reason of the failure.
    fn reload_app(&self, _name: &str) -> LocalFuture<'_, Result<(), String>> {
        Box::pin(std::future::ready(Err("there are no applications".to_owned())))
    }

    /// Records a profile of the Lua code of all workers at the same time.
    fn profile_lua(
        &self,
        wanted: LuaProfileWanted,
    ) -> LocalFuture<'_, Result<bytes::Bytes, ProfileError>>;

    /// The Lua files in use, and the last errors of their code.
    fn lua(&self) -> LuaStatus {
        LuaStatus::default()
    }

    /// Replaces the Lua VMs of all workers, and loads the files again as they were read with the
    /// configuration; returns the number of VMs.
    fn restart_lua(&self) -> LocalFuture<'_, usize> {
        Box::pin(std::future::ready(0))
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

/// The configuration as a set of documents.
#[derive(Debug, Clone)]
pub struct ConfigDocuments {
    /// By name.
    pub texts: BTreeMap<String, String>,
    /// As that of a [`ConfigDocument`].
    pub version: String,
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

/// The stored responses that matter most, an object each.
#[derive(Debug, Clone, Default)]
pub struct TopEntries {
    pub by_hits: Vec<Value>,
    pub by_memory: Vec<Value>,
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

/// Which profile of Lua code a client wants.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LuaProfileWanted {
    pub kind: ProfileKind,
    pub span: Duration,
    pub format: ProfileFormat,
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
