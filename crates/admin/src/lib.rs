//! The admin API: what an operator and `tidegate ctl` talk to.
//!
//! A [`Handler`](plugin::Handler) on its own loop. Owns the endpoints, access to them, the form of
//! every response and the Prometheus exporter. Reaches the server through [`Control`] alone, which
//! `server` implements. Promises that every error says what was typed and that no secret is shown.
//! Never reads a configuration, never decides by reading a number.

mod access;
mod apps;
mod audit;
mod caches;
mod configuration;
mod console;
mod consumers;
mod control;
mod endpoints;
mod errors;
mod explain;
mod handler;
mod health;
mod health_history;
pub mod limits;
mod live_log;
mod log_level;
mod login;
mod lua_profile;
mod lua_programs;
mod merge;
mod messages;
mod nodes;
mod openmetrics;
mod problem;
mod process;
mod prometheus;
mod purged;
mod quotas;
mod reference;
mod registrations;
mod send;
mod servers;
mod sessions;
mod summary;
#[cfg(test)]
mod testing;
mod views;

pub use access::Access;
pub use control::{
    AppPreloaderStatus, AppStatus, AppTasksStatus, AppWorkerStatus, Applied, BreakerStatus,
    CacheDisk, CacheRequestError, CacheStatus, CanaryResponses, ConfigDocument, ConfigDocuments,
    ConfigVersion, Control, Entries, EntriesWanted, Expect, Explanation, FleetNodes,
    ListenerStatus, LuaError, LuaFileStatus, LuaProfileWanted, LuaStatus, NodeReport, NodesWanted,
    Question, Refusal, RefusedRevision, ReloadStatus, RouteStatus, SentResponse, ServerState,
    ServerStatus, Status, StreamStatus, Syntax, TopEntries, UpstreamStatus, WorkerStatus,
};
pub use handler::Admin;
pub use merge::ProcessMetrics;
pub use prometheus::{CONTENT_TYPE as METRICS_CONTENT_TYPE, all_metrics, metrics_text};
pub use purged::{FleetPurge, MissingServer, PurgePreview, Purged, WaitedPurge};
pub use reference::{endpoints_markdown, metrics_markdown};
pub use sessions::Sessions;
