//! The table of all metrics of the server.
//!
//! A family has a name, a help text, a unit, a kind and label names. Names follow Prometheus:
//! `tidegate_` first, base units last, `_total` on counters. The exporter and the reference page
//! are both generated from `ALL`; a family that is not in it cannot be exported.

/// The kind of a metric family.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    Counter,
    Gauge,
    Histogram,
}

impl Kind {
    /// The keyword of the Prometheus text format.
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
    /// A count.
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

        /// All families, in the order of the reference page.
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
        ["reason", "fault"], "Client connections ended, by reason and by responsible party.";
    ACCEPT_ERRORS = "tidegate_accept_errors_total", Counter, Number, [],
        "Failed accepts, for example because no file descriptor was free.";
    TLS_HANDSHAKES = "tidegate_tls_handshakes_total", Counter, Number, ["result"],
        "Completed TLS handshakes of clients, by result: full or resumed.";
    CERTIFICATE_EXPIRY = "tidegate_certificate_expiry_seconds", Gauge, Seconds,
        ["listener", "subject"],
        "Time until a certificate of a listener expires; negative afterwards.";
    OCSP_STAPLED = "tidegate_ocsp_stapled", Gauge, Number, ["listener", "subject"],
        "1 while the OCSP response of a certificate is sent, 0 while it is not valid for it.";
    TUNNELS_ACTIVE = "tidegate_tunnels_active", Gauge, Number, [],
        "Tunnels open now (upgraded connections).";
    WEBSOCKET_MESSAGES = "tidegate_websocket_messages_total", Counter, Number,
        ["direction", "type"],
        "Messages of WebSocket tunnels to upstreams, as they begin, and close frames.";
    WEBSOCKET_BYTES = "tidegate_websocket_bytes_total", Counter, Bytes, ["direction"],
        "Bytes of WebSocket tunnels to upstreams, with the frame headers.";
    BYTES_RECEIVED = "tidegate_received_bytes_total", Counter, Bytes, [],
        "Bytes received from clients.";
    BYTES_SENT = "tidegate_sent_bytes_total", Counter, Bytes, [], "Bytes sent to clients.";
    LIMITS_HIT = "tidegate_limits_hit_total", Counter, Number, ["limit"],
        "Limits and time-outs exceeded by clients or upstreams.";

    STREAM_CONNECTIONS = "tidegate_stream_connections_total", Counter, Number, ["stream"],
        "Connections accepted by a stream.";
    STREAM_ACTIVE = "tidegate_stream_connections_active", Gauge, Number, ["stream"],
        "Connections of a stream open now.";
    STREAM_CLOSED = "tidegate_stream_connections_closed_total", Counter, Number,
        ["stream", "reason"], "Connections of a stream ended, by reason.";
    STREAM_RECEIVED = "tidegate_stream_received_bytes_total", Counter, Bytes, ["stream"],
        "Bytes received from the clients of a stream.";
    STREAM_SENT = "tidegate_stream_sent_bytes_total", Counter, Bytes, ["stream"],
        "Bytes sent to the clients of a stream.";
    STREAM_DATAGRAMS = "tidegate_stream_datagrams_total", Counter, Number, ["stream", "result"],
        "Datagrams of a stream, by result: received from clients, sent to clients, or dropped.";

    RESPONSES = "tidegate_responses_total", Counter, Number, ["class"],
        "Responses by status class, including those without a route.";
    EXCHANGES_IN_FLIGHT = "tidegate_exchanges_in_flight", Gauge, Number, [],
        "Requests in flight, with and without a route.";
    REQUESTS = "tidegate_requests_total", Counter, Number, ["route", "class"],
        "Requests by route and status class of the response.";
    GRPC_REQUESTS = "tidegate_grpc_requests_total", Counter, Number, ["route", "grpc_status"],
        "gRPC calls by route and status.";
    REQUESTS_IN_FLIGHT = "tidegate_requests_in_flight", Gauge, Number, ["route"],
        "Requests in flight, by route.";
    REQUEST_DURATION = "tidegate_request_duration_seconds", Histogram, Seconds, ["route"],
        "Time from the request head to the last byte of the response, by route.";

    UPSTREAM_REQUESTS = "tidegate_upstream_requests_total", Counter, Number,
        ["upstream", "server", "class"],
        "Requests sent to an upstream, by server and by class: 1xx to 5xx, or error.";
    UPSTREAM_DURATION = "tidegate_upstream_response_seconds", Histogram, Seconds, ["upstream"],
        "Time from the last byte sent to an upstream to the head of its response.";
    UPSTREAM_IN_FLIGHT = "tidegate_upstream_requests_in_flight", Gauge, Number, ["upstream"],
        "Requests in flight to an upstream.";
    UPSTREAM_CONNECTIONS = "tidegate_upstream_connections", Gauge, Number, ["upstream", "state"],
        "Connections to an upstream, by state: active, idle or parked; or shared, the connections \
         of HTTP/2 whether requests use them or not.";
    UPSTREAM_STREAMS = "tidegate_upstream_streams", Gauge, Number, ["upstream"],
        "Requests in flight to an upstream that share connections of HTTP/2.";
    UPSTREAM_CONNECTS = "tidegate_upstream_connects_total", Counter, Number,
        ["upstream", "result"],
        "Connections opened to an upstream, by result: ok, refused, timeout, certificate (not \
         accepted), tls (another failure of the handshake) or error.";
    UPSTREAM_REUSES = "tidegate_upstream_connection_reuses_total", Counter, Number, ["upstream"],
        "Requests sent over a reused connection.";
    UPSTREAM_RETRIES = "tidegate_upstream_retries_total", Counter, Number, ["upstream"],
        "Requests retried on another server.";
    UPSTREAM_RETRIES_DENIED = "tidegate_upstream_retries_denied_total", Counter, Number,
        ["upstream"], "Requests not retried because the retry budget was exhausted.";
    UPSTREAM_HEALTHY = "tidegate_upstream_server_healthy", Gauge, Flag, ["upstream", "server"],
        "1 if a server is in rotation.";
    UPSTREAM_CHECKS = "tidegate_upstream_health_checks_total", Counter, Number,
        ["upstream", "result"], "Active health checks, by result: ok or failed.";
    UPSTREAM_EJECTIONS = "tidegate_upstream_ejections_total", Counter, Number,
        ["upstream", "server"], "Ejections of a server from the rotation because of failures.";
    UPSTREAM_PANIC = "tidegate_upstream_panic", Gauge, Flag, ["upstream"],
        "1 if so few servers are healthy that all are used.";

    DISCOVERY_SERVERS = "tidegate_discovery_servers", Gauge, Number, ["upstream"],
        "Servers that the source of an upstream (`discover`) named last.";
    DISCOVERY_UPDATES = "tidegate_discovery_updates_total", Counter, Number,
        ["upstream", "result"], "Responses of the source of an upstream, by result: changed, \
         unchanged, empty (the last known servers stay) or failed.";
    DISCOVERY_FAILING = "tidegate_discovery_failing", Gauge, Flag, ["upstream"],
        "1 while the source of an upstream fails and its last known servers are used.";
    DISCOVERY_RESPONDED_AT = "tidegate_discovery_responded_timestamp_seconds", Gauge, Seconds,
        ["upstream"],
        "When the source of an upstream last responded, in seconds since 1970; for etcd and \
         registration, when a change arrived last.";

    AUTH_REFUSALS = "tidegate_auth_refusals_total", Counter, Number, ["filter", "reason"],
        "Requests rejected by an authentication filter, by reason: missing, invalid or failed \
         (a credential that could not be verified); oidc also: provider (not available) or loop; \
         hmac_auth also: nonces_full.";
    OIDC_EVENTS = "tidegate_oidc_events_total", Counter, Number, ["event"],
        "Events of sessions of the filter oidc: login, refresh, refresh_failed or logout.";
    INTROSPECTIONS = "tidegate_introspections_total", Counter, Number, ["server", "result"],
        "Tokens of the filter introspection, by result: remembered, active, inactive or failed.";
    IDENTITY_FETCHES = "tidegate_identity_fetches_total", Counter, Number, ["identity", "result"],
        "Fetches of an identity provider's key set, by result: fetched or failed.";
    IDENTITY_KEYS = "tidegate_identity_keys", Gauge, Number, ["identity"],
        "Keys of an identity provider that are in use.";
    IDENTITY_FETCHED_AT = "tidegate_identity_keys_fetched_timestamp_seconds", Gauge, Seconds,
        ["identity"], "When an identity provider's keys were last fetched, in seconds since 1970.";
    POLICY_REJECTIONS = "tidegate_policy_rejections_total", Counter, Number,
        ["filter", "reason"], "Requests rejected by a policy filter, by reason.";
    TRACE_SPANS = "tidegate_trace_spans_total", Counter, Number, ["result"],
        "Spans for the collector of traces, by result: exported, rejected, failed, or dropped, \
         those beyond 128 of a request.";
    TRACES_DROPPED = "tidegate_traces_dropped_total", Counter, Number, [],
        "Traces dropped because too many waited to be sent to the collector.";
    OTLP_RECORDS = "tidegate_otlp_records_total", Counter, Number, ["signal", "result"],
        "Values of metrics and records of logs for collectors, by result: exported, rejected, \
         failed, or dropped, when too many waited to be sent.";
    ACME_ORDERS = "tidegate_acme_orders_total", Counter, Number, ["result"],
        "Attempts to obtain a certificate by ACME, by result: issued or failed.";
    RATE_LIMITED = "tidegate_rate_limited_total", Counter, Number, ["filter"],
        "Requests rejected by a rate limit.";
    BANDWIDTH_PAUSES = "tidegate_bandwidth_pauses_total", Counter, Number, ["limit", "direction"],
        "Pauses that a bandwidth limit made, by direction: request or response.";
    CIRCUIT_STATE = "tidegate_circuit_breaker_state", Gauge, Number, ["circuit_breaker"],
        "State of a circuit breaker: 0 is closed, 1 half open, 2 open.";
    CIRCUIT_OPENED = "tidegate_circuit_breaker_opened_total", Counter, Number,
        ["circuit_breaker"], "Times that a circuit breaker opened.";
    CIRCUIT_REJECTED = "tidegate_circuit_breaker_rejected_total", Counter, Number,
        ["circuit_breaker"], "Requests that an open circuit breaker rejected or gave its fallback.";
    MIRRORED = "tidegate_mirror_requests_total", Counter, Number, ["mirror", "result"],
        "Requests to be mirrored, by result of the copy: ok, failed, timeout, over_budget, \
         body_too_large or body_incomplete.";
    MIRROR_IN_FLIGHT = "tidegate_mirror_in_flight", Gauge, Number, ["mirror"],
        "Copies of requests in flight.";
    SPLIT_RESPONSES = "tidegate_split_responses_total", Counter, Number,
        ["split", "variant", "class"], "Responses of a variant, by status class.";
    SPLIT_DURATION = "tidegate_split_response_seconds", Histogram, Seconds, ["split", "variant"],
        "Time to the head of a variant's response.";
    CONCURRENCY_IN_FLIGHT = "tidegate_concurrency_in_flight", Gauge, Number, ["limit"],
        "Requests in flight that a concurrency limit counts, by its name or route.";
    CONCURRENCY_LIMIT = "tidegate_concurrency_limit", Gauge, Number, ["limit"],
        "The adaptive concurrency limit now.";
    CONCURRENCY_REJECTED = "tidegate_concurrency_rejected_total", Counter, Number, ["limit"],
        "Requests rejected by a concurrency limit.";
    FAULTS_INJECTED = "tidegate_faults_injected_total", Counter, Number, ["route", "fault"],
        "Delays and errors injected by the filter fault, by kind: delay or abort.";
    AI_REQUESTS = "tidegate_ai_requests_total", Counter, Number, ["provider", "model", "result"],
        "Requests to AI providers, by result: ok, rejected (a status of 4xx) or failed.";
    AI_FALLBACKS = "tidegate_ai_fallbacks_total", Counter, Number,
        ["provider", "model", "reason"],
        "Failed requests to AI providers after which another provider was tried, by the one that \
         failed and the reason: 408, 429, 5xx or a kind of fault.";
    AI_EJECTIONS = "tidegate_ai_ejections_total", Counter, Number, ["provider", "model"],
        "Ejections of a model at an AI provider because of failures or Retry-After.";
    AI_REJECTIONS = "tidegate_ai_rejections_total", Counter, Number, ["reason"],
        "Requests that the handler ai_proxy rejected before a provider got them.";
    AI_TOKENS = "tidegate_ai_tokens_total", Counter, Number,
        ["route", "provider", "model", "group", "direction"],
        "Tokens of AI models, by the first group of the consumer and direction: input or output.";
    AI_ESTIMATED = "tidegate_ai_estimated_responses_total", Counter, Number,
        ["provider", "model"],
        "Responses of AI models whose tokens were estimated, because the provider reported none.";
    AI_TOKEN_LIMITED = "tidegate_ai_token_limited_total", Counter, Number, ["limit"],
        "Requests rejected because a limit on tokens was reached.";
    MOCKED = "tidegate_mock_responses_total", Counter, Number, ["route"],
        "Responses made up by the filter mock.";
    QUOTA_STORED = "tidegate_quota_stored", Gauge, Number, ["quota"],
        "1 if a quota has its file, 0 if it rejects requests because the file cannot be used.";
    SHARED_CONNECTED = "tidegate_shared_limits_connected", Gauge, Flag, [],
        "1 while shared limits are settled with Redis; 0 while this server allows its share.";
    SHARED_SERVERS = "tidegate_shared_limits_servers", Gauge, Number, [],
        "Servers that share limits, as Redis last reported.";
    SHARED_KEYS = "tidegate_shared_limits_keys_total", Counter, Number, [],
        "Keys of shared limits settled with Redis: each counts once for each batch.";
    SHARED_FAILURES = "tidegate_shared_limits_failures_total", Counter, Number, [],
        "Failed attempts to settle shared limits with Redis.";
    PURGES_SERVING = "tidegate_purges_serving", Gauge, Flag, [],
        "1 while caches are used; 0 while this server may have missed purges of others.";
    PURGES_NUMBER = "tidegate_purges_number", Gauge, Number, [],
        "The number of the last shared purge applied: a revision of etcd, or a time in µs.";
    PURGES_BEHIND = "tidegate_purges_servers_behind", Gauge, Number, [],
        "Servers that have not applied the last shared purge, counted every 15 s or less often.";
    PURGES_APPLIED = "tidegate_purges_applied_total", Counter, Number, [],
        "Purges that were read from the log and applied.";
    PURGES_PUBLISHED = "tidegate_purges_published_total", Counter, Number, [],
        "Purges that this server has written for the others.";
    PURGES_UNPUBLISHED = "tidegate_purges_unpublished_total", Counter, Number, [],
        "Purges that could not be written: the others do not know of them.";
    PURGES_GAPS = "tidegate_purges_gaps_total", Counter, Number, [],
        "How often caches were emptied because the log did not have the missed purges any more.";
    PURGES_FAILURES = "tidegate_purges_failures_total", Counter, Number, [],
        "Failed attempts to follow the purges of other servers.";
    STATE_ENTRIES = "tidegate_keyed_state_entries", Gauge, Number, ["state"],
        "Keys stored by a limit now, by its name.";
    STATE_EVICTIONS = "tidegate_keyed_state_evictions_total", Counter, Number, ["state"],
        "Keys evicted because the `entries` of a limit were reached.";
    COMPRESS_IN = "tidegate_compress_input_bytes_total", Counter, Bytes, ["coding"],
        "Bytes of response bodies before compression.";
    COMPRESS_OUT = "tidegate_compress_output_bytes_total", Counter, Bytes, ["coding"],
        "Bytes of response bodies after compression.";

    CACHE_HITS = "tidegate_cache_hits_total", Counter, Number, ["cache"],
        "Requests served from a fresh stored response.";
    CACHE_STALE = "tidegate_cache_stale_total", Counter, Number, ["cache", "reason"],
        "Requests served from a stale stored response, by reason: revalidating or error.";
    CACHE_MISSES = "tidegate_cache_misses_total", Counter, Number, ["cache", "reason"],
        "Requests forwarded to the origin, by reason: uri-miss, vary-miss, stale, request or miss.";
    CACHE_PASSES = "tidegate_cache_passes_total", Counter, Number, ["cache", "reason"],
        "Requests that bypassed the cache, by reason.";
    CACHE_COALESCED = "tidegate_cache_coalesced_total", Counter, Number, ["cache"],
        "Misses served by the response to another request (coalesced).";
    CACHE_REVALIDATIONS = "tidegate_cache_revalidations_total", Counter, Number,
        ["cache", "result"],
        "Revalidations of stale responses, by result: valid, replaced or failed.";
    CACHE_UNSTORED = "tidegate_cache_unstored_total", Counter, Number, ["cache", "reason"],
        "Responses of the origin that were not stored, by reason.";
    CACHE_STORED = "tidegate_cache_stored_total", Counter, Number, ["cache"],
        "Objects stored: responses, their compressed variants, and metadata of URLs.";
    CACHE_REMOVED = "tidegate_cache_removed_total", Counter, Number, ["cache", "reason"],
        "Objects removed from memory, by reason: size, replaced, purged, expired or variants.";
    CACHE_PARTS_DROPPED = "tidegate_cache_parts_dropped_total", Counter, Number, ["cache"],
        "Stored parts of long responses that newer parts have displaced.";
    CACHE_OWNER_REQUESTS = "tidegate_cache_owner_requests_total", Counter, Number,
        ["cache", "result"],
        "Requests to the owners of URLs, by result: stored, fetched, declined, outdated, failed, \
         timeout or own.";
    CACHE_OWNER_RESPONSES = "tidegate_cache_owner_responses_total", Counter, Number,
        ["cache", "result"],
        "Responses as the owner of a URL, by result: stored, fetched, declined or own.";
    CACHE_OBJECTS = "tidegate_cache_objects", Gauge, Number, ["cache"], "Objects stored now.";
    CACHE_MEMORY = "tidegate_cache_memory_bytes", Gauge, Bytes, ["cache"],
        "Memory of the objects stored now, including their index.";
    CACHE_MEMORY_LIMIT = "tidegate_cache_memory_limit_bytes", Gauge, Bytes, ["cache"],
        "Memory limit of the objects of a cache.";
    CACHE_DISK_OBJECTS = "tidegate_cache_disk_objects", Gauge, Number, ["cache"],
        "Objects indexed on disk now.";
    CACHE_DISK = "tidegate_cache_disk_bytes", Gauge, Bytes, ["cache"],
        "Length of the files of a cache on disk.";
    CACHE_DISK_LIMIT = "tidegate_cache_disk_limit_bytes", Gauge, Bytes, ["cache"],
        "Limit on the length of the files of a cache.";
    CACHE_DISK_DELETED = "tidegate_cache_disk_deleted_bytes", Gauge, Bytes, ["cache"],
        "Length of deleted files of a cache that responses are still sent from.";
    CACHE_DISK_WORKING = "tidegate_cache_disk_working", Gauge, Flag, ["cache"],
        "1 if the disk of a cache works; otherwise it serves from memory only.";
    CACHE_DISK_READS = "tidegate_cache_disk_reads_total", Counter, Number, ["cache"],
        "Objects loaded from disk; bodies of 64 KiB and more stay there.";
    CACHE_DISK_WRITES = "tidegate_cache_disk_writes_total", Counter, Number, ["cache"],
        "Objects written to disk.";
    CACHE_DISK_DROPPED = "tidegate_cache_disk_dropped_total", Counter, Number, ["cache"],
        "Objects not written to disk: the queue was full, the object too long, or the disk failed.";
    CACHE_DISK_FAILURES = "tidegate_cache_disk_failures_total", Counter, Number,
        ["cache", "reason"],
        "Objects with a wrong checksum (damaged) and failed disk operations (error).";
    CACHE_DERIVE = "tidegate_cache_derive_seconds", Histogram, Seconds, ["cache", "coding"],
        "Time to compress a stored response.";
    CACHE_DERIVED = "tidegate_cache_derived_bytes_total", Counter, Bytes, ["cache", "coding"],
        "Bytes of compressed variants of stored responses.";

    STORE_COMMANDS = "tidegate_store_commands_total", Counter, Number, ["app"],
        "Commands executed by the shared store of an application.";
    STORE_REFUSED = "tidegate_store_refused_total", Counter, Number, ["app"],
        "Commands that failed or were malformed.";
    STORE_HITS = "tidegate_store_hits_total", Counter, Number, ["app"],
        "Requested keys that were found.";
    STORE_MISSES = "tidegate_store_misses_total", Counter, Number, ["app"],
        "Requested keys that were not found.";
    STORE_EVICTED = "tidegate_store_evicted_total", Counter, Number, ["app"],
        "Keys evicted because the memory limit was reached.";
    STORE_EXPIRED = "tidegate_store_expired_total", Counter, Number, ["app"],
        "Keys that expired.";
    STORE_KEYS = "tidegate_store_keys", Gauge, Number, ["app"], "Keys stored now.";
    STORE_MEMORY = "tidegate_store_memory_bytes", Gauge, Bytes, ["app"],
        "Memory of the keys stored now, including values and index.";
    STORE_MEMORY_LIMIT = "tidegate_store_memory_limit_bytes", Gauge, Bytes, ["app"],
        "Memory limit of the keys of a store.";
    STORE_CONNECTIONS = "tidegate_store_connections", Gauge, Number, ["app"],
        "Connections to a store: one per worker process that uses it.";
    STORE_PUBLISHED = "tidegate_store_published_total", Counter, Number, ["app"],
        "Messages published.";
    STORE_LISTENERS = "tidegate_store_listeners", Gauge, Number, ["app"],
        "Channels that worker processes are subscribed to now, counted per process.";
    STORE_SLOW = "tidegate_store_slow_connections_total", Counter, Number, ["app"],
        "Connections closed because too many messages were queued for them.";
    STORE_TASKS = "tidegate_store_tasks_total", Counter, Number, ["app", "result"],
        "Background jobs by result: done, failed, retried, lost, expired, cancelled, rejected.";
    STORE_TASKS_WAITING = "tidegate_store_tasks_waiting", Gauge, Number, ["app"],
        "Background jobs that wait for a worker or for their time.";
    STORE_TASKS_RUNNING = "tidegate_store_tasks_running", Gauge, Number, ["app"],
        "Background jobs that run now.";

    APP_REQUESTS = "tidegate_app_requests_total", Counter, Number, ["app", "worker"],
        "Requests and sessions that an application started to handle.";
    APP_IN_FLIGHT = "tidegate_app_in_flight", Gauge, Number, ["app", "worker"],
        "Requests and sessions in flight in an application.";
    APP_WEBSOCKETS = "tidegate_app_websockets", Gauge, Number, ["app", "worker"],
        "WebSocket sessions open in an application.";
    APP_QUEUE = "tidegate_app_queue_seconds", Histogram, Seconds, ["app", "worker"],
        "Time that a request waited in the queue of an application.";
    APP_CALL = "tidegate_app_call_seconds", Histogram, Seconds, ["app", "worker"],
        "Time from the start of the application's call to the head of the response.";
    APP_GIL_WAIT = "tidegate_app_gil_wait_seconds", Histogram, Seconds, ["app", "worker"],
        "Time that threads of an application waited for the GIL.";
    APP_LOOP_LAG = "tidegate_app_loop_lag_seconds", Gauge, Seconds, ["app", "worker"],
        "Time since an application last made progress while requests are waiting.";
    APP_STALLS = "tidegate_app_stalls_total", Counter, Number, ["app", "worker"],
        "Stalls of an application: intervals without progress.";
    APP_RSS = "tidegate_app_rss_bytes", Gauge, Bytes, ["app", "worker"],
        "Resident memory of an application's process.";
    APP_READY = "tidegate_app_ready_workers", Gauge, Number, ["app"],
        "Processes of an application that are ready for requests.";
    APP_RESTARTS = "tidegate_app_restarts_total", Counter, Number, ["app", "worker", "reason"],
        "Replacements of processes of an application, by reason.";
    APP_BROKEN = "tidegate_app_connections_broken_total", Counter, Number, ["app", "reason"],
        "Connections to an application's processes that broke with requests in flight, by reason.";

    LUA_VMS = "tidegate_lua_vms", Gauge, Number, [],
        "Lua VMs: one for each worker with Lua code; one that was replaced, or is of an earlier \
         configuration, until its last request and connection end.";
    LUA_MEMORY = "tidegate_lua_memory_bytes", Gauge, Bytes, [],
        "Memory that Lua VMs hold, as of the last event that each handled.";
    LUA_MEMORY_LIMIT = "tidegate_lua_memory_limit_bytes", Gauge, Bytes, [],
        "Memory that Lua VMs may hold.";
    LUA_REPLACED = "tidegate_lua_vms_replaced_total", Counter, Number, [],
        "Lua VMs replaced because they exceeded their memory limit.";
    LUA_RESTARTED = "tidegate_lua_vms_restarted_total", Counter, Number, [],
        "Lua VMs replaced on request, by the admin API.";
    LUA_ERRORS = "tidegate_lua_errors_total", Counter, Number, [],
        "Lua coroutines that ended with an error.";
    LUA_LOOP_LAG = "tidegate_lua_loop_lag_seconds", Gauge, Seconds, ["worker"],
        "How late the event loop of a worker with a Lua VM was when it last ran for its timer, or \
         is if it does not run.";

    CONFIG_RELOADS = "tidegate_config_reloads_total", Counter, Number, [],
        "Configurations applied since the start.";
    CONFIG_RELOAD_FAILURES = "tidegate_config_reload_failures_total", Counter, Number, [],
        "Configurations rejected since the start; the previous one stayed in use.";
    CONFIG_LAST_OK = "tidegate_config_last_reload_successful", Gauge, Flag, [],
        "1 if the latest configuration was applied.";
    CONFIG_LAST_TIME = "tidegate_config_last_reload_timestamp_seconds", Gauge, Seconds, [],
        "Unix time at which a configuration was last applied.";
    CONFIG_ETCD_FOLLOWED = "tidegate_config_etcd_followed", Gauge, Flag, [],
        "1 while changes of the configuration in etcd are received.";
    CONFIG_ETCD_REVISION = "tidegate_config_etcd_revision", Gauge, Number, [],
        "The revision of etcd whose configuration serves.";
    TLS_SHARED_TICKET_KEYS = "tidegate_tls_shared_ticket_keys", Gauge, Number, [],
        "Keys of session tickets that this server has from etcd; 0 while it uses its own.";

    LOG_DROPPED = "tidegate_log_lines_dropped_total", Counter, Number, ["log"],
        "Log lines dropped because the writer could not keep up, by log: access, events, statsd or \
         syslog.";
    LOG_WRITE_ERRORS = "tidegate_log_write_errors_total", Counter, Number, ["log"],
        "Failed writes of a log.";

    PROCESS_CPU = "process_cpu_seconds_total", Counter, Seconds, [],
        "Processor time used, user and system.";
    PROCESS_RSS = "process_resident_memory_bytes", Gauge, Bytes, [], "Resident memory.";
    PROCESS_FDS = "process_open_fds", Gauge, Number, [], "Open file descriptors.";
    PROCESS_MAX_FDS = "process_max_fds", Gauge, Number, [],
        "Limit on open file descriptors.";
    PROCESS_START = "process_start_time_seconds", Gauge, Seconds, [],
        "Unix time at which the process started.";
}

/// The status classes of responses, indexed by `class_index`.
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
