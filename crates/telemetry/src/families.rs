//! Every metric the server knows, in one table.
//!
//! A family is a name, what it means, its unit, its kind and its label names. Names follow
//! Prometheus: `tidegate_` first, base units last, `_total` on counters. The exporter and the
//! reference page are both written from `ALL`; a family that is not in it cannot be exported.

/// What kind of number a family holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    Counter,
    Gauge,
    Histogram,
}

impl Kind {
    /// The word of the Prometheus text format.
    pub const fn token(self) -> &'static str {
        match self {
            Self::Counter => "counter",
            Self::Gauge => "gauge",
            Self::Histogram => "histogram",
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unit {
    /// A plain number of things.
    Number,
    Bytes,
    Seconds,
    /// 0 or 1.
    Flag,
}

impl Unit {
    pub const fn token(self) -> &'static str {
        match self {
            Self::Number => "number",
            Self::Bytes => "bytes",
            Self::Seconds => "seconds",
            Self::Flag => "0 or 1",
        }
    }
}

/// One metric family.
#[derive(Debug, PartialEq, Eq)]
pub struct Family {
    pub name: &'static str,
    pub kind: Kind,
    pub unit: Unit,
    pub labels: &'static [&'static str],
    pub help: &'static str,
}

macro_rules! families {
    ($(
        $id:ident = $name:literal, $kind:ident, $unit:ident, [$($label:literal),*],
        $help:literal;
    )*) => {
        $(#[doc = $help] pub static $id: Family = Family {
            name: $name,
            kind: Kind::$kind,
            unit: Unit::$unit,
            labels: &[$($label),*],
            help: $help,
        };)*

        /// The whole table, in the order of the reference page.
        pub static ALL: &[&Family] = &[$(&$id,)*];
    };
}

families! {
    BUILD_INFO = "tidegate_build_info", Gauge, Number, ["version"],
        "Always 1; the version is the label.";
    WORKERS = "tidegate_workers", Gauge, Number, [], "Workers serving requests.";

    CONNECTIONS_ACCEPTED = "tidegate_connections_accepted_total", Counter, Number, [],
        "Client connections accepted.";
    CONNECTIONS_ACTIVE = "tidegate_connections_active", Gauge, Number, [],
        "Client connections open now.";
    CONNECTIONS_IDLE = "tidegate_connections_idle", Gauge, Number, [],
        "Client connections kept alive and waiting for a request.";
    CONNECTIONS_CLOSED = "tidegate_connections_closed_total", Counter, Number,
        ["reason", "fault"], "Client connections ended, by reason and by whose fault it was.";
    ACCEPT_ERRORS = "tidegate_accept_errors_total", Counter, Number, [],
        "Connections that could not be accepted, for example for want of file descriptors.";
    TUNNELS_ACTIVE = "tidegate_tunnels_active", Gauge, Number, [],
        "Upgraded connections passing bytes now.";
    BYTES_RECEIVED = "tidegate_received_bytes_total", Counter, Bytes, [],
        "Bytes received from clients.";
    BYTES_SENT = "tidegate_sent_bytes_total", Counter, Bytes, [], "Bytes sent to clients.";
    LIMITS_HIT = "tidegate_limits_hit_total", Counter, Number, ["limit"],
        "Limits and time-outs that clients or upstreams ran into.";

    RESPONSES = "tidegate_responses_total", Counter, Number, ["class"],
        "Answers by status class, including those given before a route was found.";
    EXCHANGES_IN_FLIGHT = "tidegate_exchanges_in_flight", Gauge, Number, [],
        "Requests being answered now, on all routes and on none.";
    REQUESTS = "tidegate_requests_total", Counter, Number, ["route", "class"],
        "Requests answered, by route and status class.";
    REQUESTS_IN_FLIGHT = "tidegate_requests_in_flight", Gauge, Number, ["route"],
        "Requests being answered now, by route.";
    REQUEST_DURATION = "tidegate_request_duration_seconds", Histogram, Seconds, ["route"],
        "Time from a request's head to the last byte of its answer, by route.";

    UPSTREAM_REQUESTS = "tidegate_upstream_requests_total", Counter, Number,
        ["upstream", "server", "class"],
        "Requests sent to an upstream, by server and by class: 1xx to 5xx, or error.";
    UPSTREAM_DURATION = "tidegate_upstream_response_seconds", Histogram, Seconds, ["upstream"],
        "Time from the last byte of a request sent to an upstream to the head of its answer.";
    UPSTREAM_IN_FLIGHT = "tidegate_upstream_requests_in_flight", Gauge, Number, ["upstream"],
        "Requests an upstream is answering now.";
    UPSTREAM_CONNECTIONS = "tidegate_upstream_connections", Gauge, Number, ["upstream", "state"],
        "Connections to an upstream, by state: active, idle or parked.";
    UPSTREAM_CONNECTS = "tidegate_upstream_connects_total", Counter, Number,
        ["upstream", "result"],
        "Connections opened to an upstream, by result: ok, refused, timeout or error.";
    UPSTREAM_REUSES = "tidegate_upstream_connection_reuses_total", Counter, Number, ["upstream"],
        "Requests sent over a connection that was already open.";
    UPSTREAM_RETRIES = "tidegate_upstream_retries_total", Counter, Number, ["upstream"],
        "Requests tried again on another server.";
    UPSTREAM_RETRIES_DENIED = "tidegate_upstream_retries_denied_total", Counter, Number,
        ["upstream"], "Requests not tried again because the retry budget was spent.";
    UPSTREAM_HEALTHY = "tidegate_upstream_server_healthy", Gauge, Flag, ["upstream", "server"],
        "Whether a server is in rotation.";
    UPSTREAM_CHECKS = "tidegate_upstream_health_checks_total", Counter, Number,
        ["upstream", "result"], "Active health checks, by result: ok or failed.";
    UPSTREAM_EJECTIONS = "tidegate_upstream_ejections_total", Counter, Number,
        ["upstream", "server"], "Times a server was taken out of rotation for its failures.";
    UPSTREAM_PANIC = "tidegate_upstream_panic", Gauge, Flag, ["upstream"],
        "Whether so few servers are healthy that all are used.";

    AUTH_REFUSALS = "tidegate_auth_refusals_total", Counter, Number, ["filter", "reason"],
        "Requests refused by an authentication filter, by reason: missing or invalid.";
    RATE_LIMITED = "tidegate_rate_limited_total", Counter, Number, ["filter"],
        "Requests refused by a rate limit.";
    STATE_ENTRIES = "tidegate_keyed_state_entries", Gauge, Number, ["state"],
        "Keys remembered now, by the name of the rate limit that does.";
    STATE_EVICTIONS = "tidegate_keyed_state_evictions_total", Counter, Number, ["state"],
        "Keys that had to be forgotten because as many as `entries` allows were remembered.";
    COMPRESS_IN = "tidegate_compress_input_bytes_total", Counter, Bytes, ["coding"],
        "Bytes of answers that the compress filter coded, before.";
    COMPRESS_OUT = "tidegate_compress_output_bytes_total", Counter, Bytes, ["coding"],
        "Bytes of answers that the compress filter coded, after.";

    CACHE_HITS = "tidegate_cache_hits_total", Counter, Number, ["cache"],
        "Requests answered with what was stored and fresh.";
    CACHE_STALE = "tidegate_cache_stale_total", Counter, Number, ["cache", "reason"],
        "Requests answered with what was stored and stale, by reason: revalidating or error.";
    CACHE_MISSES = "tidegate_cache_misses_total", Counter, Number, ["cache", "reason"],
        "Requests that waited for the origin, by why: uri-miss, vary-miss, stale, request or miss.";
    CACHE_PASSES = "tidegate_cache_passes_total", Counter, Number, ["cache", "reason"],
        "Requests that went past the cache, by reason.";
    CACHE_COALESCED = "tidegate_cache_coalesced_total", Counter, Number, ["cache"],
        "Requests among the misses that waited for another one's answer and got it.";
    CACHE_REVALIDATIONS = "tidegate_cache_revalidations_total", Counter, Number,
        ["cache", "result"],
        "Times the origin was asked whether a stale answer holds: valid, replaced or failed.";
    CACHE_UNSTORED = "tidegate_cache_unstored_total", Counter, Number, ["cache", "reason"],
        "Answers of the origin that were not stored, by reason.";
    CACHE_STORED = "tidegate_cache_stored_total", Counter, Number, ["cache"],
        "Objects stored: answers, their codings, and what is remembered about URLs.";
    CACHE_REMOVED = "tidegate_cache_removed_total", Counter, Number, ["cache", "reason"],
        "Objects that left memory, by reason: size, replaced, purged, expired or variants.";
    CACHE_OBJECTS = "tidegate_cache_objects", Gauge, Number, ["cache"], "Objects stored now.";
    CACHE_MEMORY = "tidegate_cache_memory_bytes", Gauge, Bytes, ["cache"],
        "Memory of the objects stored now, with all that is needed to find them.";
    CACHE_MEMORY_LIMIT = "tidegate_cache_memory_limit_bytes", Gauge, Bytes, ["cache"],
        "Memory that the objects of a cache may take.";
    CACHE_DISK_OBJECTS = "tidegate_cache_disk_objects", Gauge, Number, ["cache"],
        "Objects that a cache can find on disk now.";
    CACHE_DISK = "tidegate_cache_disk_bytes", Gauge, Bytes, ["cache"],
        "Length of the files that a cache has on disk.";
    CACHE_DISK_LIMIT = "tidegate_cache_disk_limit_bytes", Gauge, Bytes, ["cache"],
        "What the files of a cache may come to.";
    CACHE_DISK_WORKING = "tidegate_cache_disk_working", Gauge, Flag, ["cache"],
        "Whether a cache can use its disk; it goes on in memory where it cannot.";
    CACHE_DISK_READS = "tidegate_cache_disk_reads_total", Counter, Number, ["cache"],
        "Objects read back into memory from disk.";
    CACHE_DISK_WRITES = "tidegate_cache_disk_writes_total", Counter, Number, ["cache"],
        "Objects written to disk.";
    CACHE_DISK_DROPPED = "tidegate_cache_disk_dropped_total", Counter, Number, ["cache"],
        "Objects not written to disk: too much waited, one was too long, or the disk failed.";
    CACHE_DISK_FAILURES = "tidegate_cache_disk_failures_total", Counter, Number,
        ["cache", "reason"],
        "Objects whose checksum was wrong (damaged), and calls to the disk that failed (error).";
    CACHE_DERIVE = "tidegate_cache_derive_seconds", Histogram, Seconds, ["cache", "coding"],
        "Time it took to make another coding of what is stored.";
    CACHE_DERIVED = "tidegate_cache_derived_bytes_total", Counter, Bytes, ["cache", "coding"],
        "Bytes of codings made of what is stored.";

    STORE_COMMANDS = "tidegate_store_commands_total", Counter, Number, ["app"],
        "Commands that the shared store of an application has executed.";
    STORE_REFUSED = "tidegate_store_refused_total", Counter, Number, ["app"],
        "Commands that were answered with an error, or were malformed.";
    STORE_HITS = "tidegate_store_hits_total", Counter, Number, ["app"],
        "Keys that were asked for and found.";
    STORE_MISSES = "tidegate_store_misses_total", Counter, Number, ["app"],
        "Keys that were asked for and not found.";
    STORE_EVICTED = "tidegate_store_evicted_total", Counter, Number, ["app"],
        "Keys that had to go because memory was full.";
    STORE_EXPIRED = "tidegate_store_expired_total", Counter, Number, ["app"],
        "Keys whose time was over.";
    STORE_KEYS = "tidegate_store_keys", Gauge, Number, ["app"], "Keys stored now.";
    STORE_MEMORY = "tidegate_store_memory_bytes", Gauge, Bytes, ["app"],
        "Memory of the keys stored now, their values, and what finding them takes.";
    STORE_MEMORY_LIMIT = "tidegate_store_memory_limit_bytes", Gauge, Bytes, ["app"],
        "Memory that the keys of a store may take.";
    STORE_CONNECTIONS = "tidegate_store_connections", Gauge, Number, ["app"],
        "Connections to a store: one for each worker process that uses it.";
    STORE_PUBLISHED = "tidegate_store_published_total", Counter, Number, ["app"],
        "Messages that were published.";
    STORE_LISTENERS = "tidegate_store_listeners", Gauge, Number, ["app"],
        "Channels that worker processes listen to now, each counted once for each process.";
    STORE_SLOW = "tidegate_store_slow_connections_total", Counter, Number, ["app"],
        "Connections that were closed because too many messages waited for them.";

    APP_REQUESTS = "tidegate_app_requests_total", Counter, Number, ["app", "worker"],
        "Requests and sessions that an application took.";
    APP_IN_FLIGHT = "tidegate_app_in_flight", Gauge, Number, ["app", "worker"],
        "Requests and sessions under way in an application.";
    APP_WEBSOCKETS = "tidegate_app_websockets", Gauge, Number, ["app", "worker"],
        "WebSocket sessions open in an application.";
    APP_QUEUE = "tidegate_app_queue_seconds", Histogram, Seconds, ["app", "worker"],
        "Time from a request's coming to an application to its being taken.";
    APP_CALL = "tidegate_app_call_seconds", Histogram, Seconds, ["app", "worker"],
        "Time from a request's being taken by an application to the head of its answer.";
    APP_GIL_WAIT = "tidegate_app_gil_wait_seconds", Histogram, Seconds, ["app", "worker"],
        "Time that threads of an application waited for the interpreter.";
    APP_LOOP_LAG = "tidegate_app_loop_lag_seconds", Gauge, Seconds, ["app", "worker"],
        "For how long an application has answered nobody now, although somebody waits.";
    APP_STALLS = "tidegate_app_stalls_total", Counter, Number, ["app", "worker"],
        "Times that an application answered nobody for a while.";
    APP_RSS = "tidegate_app_rss_bytes", Gauge, Bytes, ["app", "worker"],
        "Resident memory of an application's process.";
    APP_READY = "tidegate_app_ready_workers", Gauge, Number, ["app"],
        "Processes of an application that take requests.";
    APP_RESTARTS = "tidegate_app_restarts_total", Counter, Number, ["app", "worker", "reason"],
        "Processes of an application that took the place of another, by reason.";
    APP_BROKEN = "tidegate_app_connections_broken_total", Counter, Number, ["app", "reason"],
        "Connections to an application's processes that ended with requests under way, by reason.";

    CONFIG_RELOADS = "tidegate_config_reloads_total", Counter, Number, [],
        "Configurations put into use since the start.";
    CONFIG_RELOAD_FAILURES = "tidegate_config_reload_failures_total", Counter, Number, [],
        "Configurations refused since the start; the one before stayed in use.";
    CONFIG_LAST_OK = "tidegate_config_last_reload_successful", Gauge, Flag, [],
        "Whether the latest configuration offered was put into use.";
    CONFIG_LAST_TIME = "tidegate_config_last_reload_timestamp_seconds", Gauge, Seconds, [],
        "When a configuration was last put into use, as Unix time.";

    LOG_DROPPED = "tidegate_log_lines_dropped_total", Counter, Number, ["log"],
        "Log lines dropped because the writer could not keep up, by log: access or events.";
    LOG_WRITE_ERRORS = "tidegate_log_write_errors_total", Counter, Number, ["log"],
        "Failed writes of a log.";

    PROCESS_CPU = "process_cpu_seconds_total", Counter, Seconds, [],
        "Processor time used, user and system.";
    PROCESS_RSS = "process_resident_memory_bytes", Gauge, Bytes, [], "Resident memory.";
    PROCESS_FDS = "process_open_fds", Gauge, Number, [], "Open file descriptors.";
    PROCESS_MAX_FDS = "process_max_fds", Gauge, Number, [],
        "File descriptors the process may open.";
    PROCESS_START = "process_start_time_seconds", Gauge, Seconds, [],
        "When the process started, as Unix time.";
}

/// The classes of answers, by `class_index`.
pub const CLASSES: [&str; 5] = ["1xx", "2xx", "3xx", "4xx", "5xx"];

#[cfg(test)]
mod tests {
    use super::{ALL, Kind, Unit};
    use std::collections::HashSet;

    #[test]
    fn names_follow_the_rules() {
        let mut seen = HashSet::new();
        for family in ALL {
            assert!(seen.insert(family.name), "{} stands twice", family.name);
            let ours = family.name.starts_with("tidegate_");
            assert!(ours || family.name.starts_with("process_"), "{}", family.name);
            let total = family.name.ends_with("_total");
            assert_eq!(total, family.kind == Kind::Counter, "{}", family.name);
            let stem = family.name.trim_end_matches("_total");
            assert_eq!(stem.ends_with("_bytes"), family.unit == Unit::Bytes, "{}", family.name);
            assert_eq!(stem.ends_with("_seconds"), family.unit == Unit::Seconds, "{}", family.name);
            assert!(family.help.ends_with('.'), "{}", family.name);
            for label in family.labels {
                assert!(label.bytes().all(|b| b.is_ascii_lowercase() || b == b'_'), "{label}");
                assert_ne!(*label, "le");
            }
        }
    }
}
