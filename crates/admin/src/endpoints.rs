//! Every endpoint, in one table: path, method, access, action.
//!
//! Routing, `Allow`, the nearest path for a mistyped one and the reference page come from it. A
//! path may have one name in it, `{name}`, which stands for any text that is not empty.

use crate::problem::Problem;
use settings::nearest;
use wire::Method;

/// The access that an endpoint requires.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Guard {
    Open,
    /// Open or for roles that may read, as configured.
    Metrics,
    /// Any token.
    Any,
    /// The roles that may read, and `purge`, which reads about caches only.
    Caches,
    Read,
    Purge,
    Write,
    All,
}

impl Guard {
    /// The access in the reference.
    pub(crate) const fn text(self) -> &'static str {
        match self {
            Self::Open => "open",
            Self::Metrics => "open, or `read` when so configured",
            Self::Any => "any token",
            Self::Caches => "`read` or `purge`",
            Self::Read => "`read`",
            Self::Purge => "`purge`",
            Self::Write => "`write`",
            Self::All => "`all`",
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Action {
    Healthz,
    Readyz,
    Metrics,
    Console,
    ConsoleFile,
    Login,
    Session,
    Logout,
    Status,
    Summary,
    GetConfig,
    PutConfig,
    CheckConfig,
    ConfigSchema,
    History,
    Rollback,
    Routes,
    Upstreams,
    HealthHistory,
    ChangeServer,
    Log,
    LogLevel,
    SetLogLevel,
    RegisteredServers,
    RegisterServer,
    DeregisterServer,
    Streams,
    Workers,
    Caches,
    Cache,
    CacheEntries,
    CacheTop,
    CachePreview,
    CachePurge,
    CacheExplain,
    Explain,
    Send,
    Consumers,
    Consumer,
    PutConsumer,
    DeleteConsumer,
    Quotas,
    Quota,
    ResetQuota,
    Nodes,
    Apps,
    AppReload,
    Lua,
    LuaRestart,
    LuaProfile,
    Reload,
    Drain,
}

#[derive(Debug)]
pub(crate) struct Endpoint {
    pub(crate) method: &'static str,
    pub(crate) path: &'static str,
    /// Parameters its query may have.
    pub(crate) query: &'static [&'static str],
    pub(crate) guard: Guard,
    pub(crate) action: Action,
    pub(crate) text: &'static str,
}

const NAME: &str = "{name}";

impl Endpoint {
    /// Matches a path; returns the name in it, if the endpoint's path has one.
    fn takes<'p>(&self, path: &'p str) -> Option<&'p str> {
        let Some((before, after)) = self.path.split_once(NAME) else {
            return (self.path == path).then_some("");
        };
        let name = path.strip_prefix(before)?.strip_suffix(after)?;
        (!name.is_empty()).then_some(name)
    }

    /// Whether a request changes anything. Logins are logged as such.
    pub(crate) fn is_change(&self) -> bool {
        let only_reads = matches!(
            self.action,
            Action::Explain
                | Action::CachePreview
                | Action::CheckConfig
                | Action::Login
                | Action::Logout
        );
        self.method != "GET" && !only_reads
    }
}

/// Returns the endpoints of a path. Of several matches the longer path counts: `/v1/caches/a/purge`
/// purges `a`.
fn at(path: &str) -> impl Iterator<Item = (&'static Endpoint, &str)> {
    let taking = move |endpoint: &'static Endpoint| Some((endpoint, endpoint.takes(path)?));
    let longest =
        ENDPOINTS.iter().filter_map(taking).map(|(endpoint, _)| endpoint.path.len()).max();
    ENDPOINTS
        .iter()
        .filter_map(taking)
        .filter(move |(endpoint, _)| Some(endpoint.path.len()) == longest)
}

macro_rules! endpoints {
    ($(
        $method:ident $path:literal [$($query:literal),*] $guard:ident $action:ident $text:literal;
    )*) => {
        pub(crate) static ENDPOINTS: &[Endpoint] = &[$(Endpoint {
            method: stringify!($method),
            path: $path,
            query: &[$($query),*],
            guard: Guard::$guard,
            action: Action::$action,
            text: $text,
        },)*];
    };
}

endpoints! {
    GET "/healthz" [] Open Healthz "200 while the process works.";
    GET "/readyz" [] Open Readyz
        "200 while requests should be sent here, 503 while starting or draining. `detail` names \
         the errors of the latest configuration if it was rejected.";
    GET "/metrics" [] Metrics Metrics
        "All metrics in the Prometheus text format, or as OpenMetrics if `Accept` prefers it: \
         then with traces as exemplars of durations.";
    GET "/" [] Open Console "Redirects to `/console/`.";
    GET "/console" [] Open Console "Redirects to `/console/`.";
    GET "/console/" [] Open Console
        "The console, a page for browsers, with `admin.console`; it logs in with a token.";
    GET "/console/{name}" [] Open ConsoleFile "The files of the console.";
    POST "/v1/session" [] Open Login
        "Opens a session of the console: `{\"token\": \"…\"}` gets a cookie and, as `proof`, the \
         field `Tidegate-Session` that requests with the cookie need. It ends after half an hour \
         without requests, and after twelve hours.";
    GET "/v1/session" [] Any Session "The name and the role of the token of this request.";
    DELETE "/v1/session" [] Any Logout "Ends the session of this request.";
    GET "/v1/status" [] Read Status "State, build, listeners and the latest reload.";
    GET "/v1/summary" [] Read Summary
        "The server in numbers: responses by class, durations of requests of all routes, \
         connections, caches, the process, and what needs attention: servers out of rotation (at \
         most 20), certificates (at most 100, the next to expire first) and the latest reload. \
         `marks` has what happened in the last five minutes (at most 50): reloads, restarts and \
         changes of health; `times` counts repeats within ten seconds.";
    GET "/v1/config" ["documents", "secrets"] Read GetConfig
        "The configuration as in its source, variables unexpanded, `\"***\"` in place of secrets; \
         the ETag is its version. `?secrets` shows the secrets: on the Unix socket, and over TCP \
         with `admin.config_secrets`. PUT rejects a text in which they are masked. `?documents` \
         shows all documents of a configuration in etcd, as a JSON object of texts by name.";
    PUT "/v1/config" ["documents"] All PutConfig
        "Replaces the configuration: a response with 200 means that it is valid, written to its \
         file, or to etcd, and in use; otherwise nothing changes. Accepts YAML or JSON by \
         Content-Type. If-Match with the ETag that was read is required; `*` replaces any version. \
         `?documents` replaces all documents in etcd, in one transaction: \
         `{\"main.yaml\": \"…\", \"routes/shop.yaml\": \"…\"}`. A document that is not among them \
         is removed.";
    POST "/v1/config/check" ["documents"] All CheckConfig
        "Checks a configuration (as with PUT) and changes nothing: 200 with the \
         `changes` it would make, or 422 with every error. That what it names is available on this \
         machine, addresses for example, is checked by PUT only.";
    GET "/v1/config/schema" [] Read ConfigSchema
        "The JSON Schema of the configuration, as `tidegate schema` prints it.";
    GET "/v1/config/history" [] Read History "Versions for a rollback, newest first.";
    POST "/v1/config/rollback" [] All Rollback
        "Puts an earlier version into use: `{\"version\": \"…\"}`. If-Match is honoured.";
    GET "/v1/routes" [] Read Routes "Every route in the order of matching, with its counters.";
    GET "/v1/upstreams" [] Read Upstreams
        "Upstreams, their servers and the health of these. `discovery` has the source, the age of \
         its last response in seconds, and the error while it fails. A server that was removed is \
         `removed` as long as requests to it are in flight. One that is ejected is tried again in \
         `ejected_for_ms`. `last_change` has the time of the last change of a server's health, the \
         `state` that began and why; `null` before one. `breakers` are the circuit breakers of \
         routes that lead to the upstream, at most 50, those that are not closed first: `state` is \
         `closed`, `half_open` or `open`, `since` when (`null`: since the start); `failed` and \
         `slow` of the `requests` that were counted in the last `window_ms`; at most 10 of the \
         `routes` are named.";
    GET "/v1/upstreams/{name}/history" [] Read HealthHistory
        "The last changes of the health of an upstream's servers, the latest first: at most 32 of \
         each, 500 in all. They begin with the process, and with the server's place in the \
         upstream.";
    GET "/v1/upstreams/{name}/servers" [] Read RegisteredServers
        "Servers that have registered with an upstream, and when their registrations expire.";
    PUT "/v1/upstreams/{name}/servers" [] Write RegisterServer
        "Registers a server with an upstream that has `discover: { registration: … }`, or renews \
         its registration: an address, or `{\"address\": \"10.0.0.7:9000\", \"weight\": 1}` \
         and the other keys of a server. It is removed after the `ttl` unless this is repeated.";
    DELETE "/v1/upstreams/{name}/servers" ["address"] Write DeregisterServer
        "Ends the registration of the server with this `address`; its requests in flight continue.";
    POST "/v1/upstreams/{name}/servers" [] Write ChangeServer
        "Changes a server of an upstream until the next reload: `{\"server\": \"10.0.0.7:80\", \
         \"drain\": true}` gives it no further requests, `\"drain\": false` ends that, \
         `\"weight\": 3` replaces its weight. `server` is its address, or its entry in `servers`, \
         which means all addresses of a name.";
    GET "/v1/log" ["route", "status", "slow", "where", "count"] Read Log
        "The live log: finished requests from now on, with each step and its time, as a JSON \
         object on a line each. `route` is a name, `status` `5xx`, `404` or `400-499`, `slow` the \
         least duration, `where` a condition such as `header.x-user == \"7\"`, which may be \
         repeated. Ends after `count` requests, or when the client disconnects. \
         `{\"dropped\": 3}` counts requests that the client was too slow for. At most 8 clients \
         watch at a time.";
    GET "/v1/log-level" [] Read LogLevel "The level of the events that are logged.";
    PUT "/v1/log-level" [] Write SetLogLevel
        "Replaces it until the next reload: `{\"level\": \"debug\"}`.";
    GET "/v1/streams" [] Read Streams
        "Streams (layer 4): their upstreams and how many servers of these are healthy, their \
         connections and bytes.";
    GET "/v1/workers" [] Read Workers
        "Workers and their counters. `lua` has their Lua VMs, the memory these hold and may hold, \
         how many were `replaced` for holding more and `restarted` on request, the `errors` that \
         coroutines ended with, and how late the event loop of the worker was last, or is; `null` \
         without Lua code.";
    GET "/v1/caches" [] Caches Caches "Every cache, with its contents in numbers and its counters.";
    GET "/v1/caches/{name}" [] Caches Cache "One cache.";
    GET "/v1/caches/{name}/entries" ["prefix", "after", "limit"] Caches CacheEntries
        "The stored responses whose URL begins with `prefix`, unordered, in pages of `limit` (100, \
         at most 1000). `next` of the response is `after` of the next page; the last page has \
         none. `hits` are the lookups that found a response or the one that it replaced; a worker \
         that uses it often adds them 64 at a time. `vary` has the fields that selected a \
         response, with their values. Secrets are masked: values of headers with credentials, \
         and of parameters in the query of `url`, which are not compared with `prefix` \
         either.";
    GET "/v1/caches/{name}/top" ["limit"] Caches CacheTop
        "The stored responses with the most hits, in `by_hits`, and those that take the most \
         memory, in `by_memory`: `limit` of each (10, at most 100), as in `entries` but without \
         `vary`. Counts what is in memory since it was stored there, and looks at all of it.";
    POST "/v1/caches/{name}/preview" [] Caches CachePreview
        "What a purge would remove from this server, or make stale, without doing so: the body is \
         that of a purge. Responds with the number of `responses`, and some of their `urls` (at \
         most 20), in which secrets are masked. Secrets in the query of a `prefix` are not \
         compared: then `is_upper_bound` is true, and the purge may remove fewer.";
    POST "/v1/caches/{name}/purge" ["wait"] Purge CachePurge
        "Removes stored responses: `{\"url\": \"http://host/path\"}` with all its variants, \
         `{\"prefix\": \"http://host/dir/\"}`, `{\"tags\": [\"…\"]}`, `{\"groups\": [\"…\"]}` or \
         `{\"all\": true}`; with `\"soft\": true` they become stale instead. The response has \
         their number: `{\"purged\": 3}`. With the section `purges` all servers purge: the \
         response has the `number` of the purge, or `\"published\": false` and the `problem`. With \
         `?wait` or `?wait=SECONDS` (10, at most 60) it responds when all servers that can be \
         reached have purged, and lists them in `applied`, and in `missing` those that have not: \
         `behind`, or `away` if they were not heard of recently. `\"confirmed\": true` if none is \
         missing.";
    GET "/v1/caches/{name}/explain" ["url", "header", "method"] Caches CacheExplain
        "Whether the cache would serve a request, and why or why not; the responses stored for its \
         URL. `header=name:value` may be repeated. Responds with JSON, or with text if Accept \
         prefers it.";
    POST "/v1/explain" [] Read Explain
        "The route, filters and handler of a request, and why. The body: `{\"method\": \"GET\", \
         \"url\": \"http://host/path\", \"headers\": {}, \"client_ip\": \"…\", \"listener\": \
         \"…\"}`; all but `url` is optional. Responds with JSON, or with text if Accept prefers \
         it.";
    POST "/v1/send" [] Write Send
        "Sends a request to a listener of this server and responds with its `status`, its \
         `headers` and the first 64 KiB of its `body`. The body: as that of `/v1/explain`, without \
         `client_ip`, and with the content as `body`. It reaches listeners of this server only, \
         whatever the URL names: the one with the URL's port, or the first, unless `listener` \
         names one.";
    GET "/v1/consumers" ["after", "limit"] Read Consumers
        "Names of consumers in their order, a page at a time: `limit` of them (100, at most 1000). \
         `next` of the response is `after` of the next page.";
    GET "/v1/consumers/{name}" [] Read Consumer
        "The entry of a consumer; keys as their SHA-256, other secrets masked. Its version is the \
         ETag.";
    PUT "/v1/consumers/{name}" [] Write PutConsumer
        "Adds or replaces a consumer: a JSON object as an entry of `consumers`. It is in use when \
         this responds, and stays so until the configuration's own entry of that name changes and, \
         without `admin.consumer_changes`, until the process ends. Replacing requires If-Match \
         with the ETag that was read, or `*`.";
    DELETE "/v1/consumers/{name}" [] Write DeleteConsumer
        "Deletes a consumer, for as long as PUT changes one. If-Match is required.";
    GET "/v1/quotas" [] Read Quotas
        "Every filter `quota` by name, with its limit, period and key.";
    GET "/v1/quotas/{name}" ["key"] Read Quota
        "How much of a quota one key has used, and when its period ends. `key` is required: the \
         text that requests are counted by, such as the name of a consumer or an address.";
    DELETE "/v1/quotas/{name}" ["key"] Write ResetQuota
        "Sets the count of one key to zero.";
    GET "/v1/nodes" ["after", "limit"] Read Nodes
        "The servers that share the configuration in etcd with this one, in pages of `limit` (100, \
         at most 1000) in the order of their names: `state` is `ready`, `refused` or `canary`; \
         with `version` and `revision` of what each serves, what it has rejected and why, and when \
         it `reported` a change of that. `node` is this server, `source` the address of etcd; both \
         are `null` if the configuration is not in etcd. `next` of the response is `after` of the \
         next page.";
    GET "/v1/apps" [] Read Apps
        "Applications that run in processes of their own, and their workers. `failures` are the \
         last 32 processes that could not be started, have ended by themselves or were killed, \
         with the stack where it is known. `errors` are the last 32 exceptions of requests and \
         background jobs: when each happened last and first, its worker, method and path of its \
         `request` without the query or `JOB` and the name of the job, its type and `message`, \
         the last 16 KiB of the traceback, and the `trace_id` of the request. What is repeated is \
         counted in `times`.";
    POST "/v1/apps/{name}/reload" [] Write AppReload
        "Replaces the processes of an application, one after the other, each when the new one is \
         ready. Responds when all are, or with the reason why one could not be; \
         the previous ones then continue.";
    GET "/v1/lua" [] Read Lua
        "The Lua `files` in use (at most 200) with the routes and programs that use each (at most \
         10 are named), and the last 32 `errors` of Lua code: when each happened last and first \
         and how often, its route or program, the file that its coroutine began in, the message, \
         the traceback and the trace of the request.";
    POST "/v1/lua/restart" [] Write LuaRestart
        "Replaces the Lua VMs of all workers, and loads the files again as they were read with the \
         configuration: `POST /v1/reload` reads them again. Requests and connections in flight end \
         in the VM they began in. Responds with the number of VMs: `{\"restarted\": 2}`; 404 \
         without Lua code.";
    POST "/v1/lua/profile" ["kind", "seconds", "format"] Write LuaProfile
        "Records a profile of the Lua code of all workers while they serve, and responds with it: \
         `kind` is `cpu` (the default: their CPU time, read 100 times in a second of it) or \
         `allocations` (bytes, a stack for each 64 KiB), `seconds` its duration (10, at most 60), \
         `format` is `pprof` (gzipped, for `go tool pprof`), `svg` (a flame graph) or `folded` (a \
         line for each stack). Ends early if the client disconnects. 404 without Lua code, 409 \
         while another profile is recorded.";
    POST "/v1/reload" ["wait"] Write Reload
        "Reads the configuration again. With `?wait` it responds once the new one serves, or with \
         the reason why it does not.";
    POST "/v1/drain" [] All Drain
        "Stops accepting connections, finishes requests and ends the process.";
}

/// The guard of a request: unknown paths are as closed as the API, so that it cannot be mapped.
pub(crate) fn guard(method: &Method, path: &str) -> Guard {
    let method = method_name(method);
    let of_method = at(path).find(|(endpoint, _)| endpoint.method == method);
    match of_method {
        Some((endpoint, _)) => endpoint.guard,
        // An error of a client that may do something here, and no other client learns of it.
        None => match at(path).next() {
            Some((endpoint, _)) if matches!(endpoint.guard, Guard::Open | Guard::Metrics) => {
                endpoint.guard
            }
            _ => Guard::Any,
        },
    }
}

/// HEAD is GET without the body, which the serving loop leaves out (RFC 9110 section 9.3.2).
fn method_name(method: &Method) -> &str {
    if *method == Method::Head { "GET" } else { method.as_str() }
}

/// The endpoint for a request line and the name in its path, or what is wrong with it.
pub(crate) fn find<'p>(
    method: &Method,
    path: &'p str,
    query: Option<&[u8]>,
) -> Result<(&'static Endpoint, &'p str), Problem> {
    let method_name = method_name(method);
    let here = || at(path).map(|(endpoint, _)| endpoint);
    let Some((endpoint, name)) = at(path).find(|(endpoint, _)| endpoint.method == method_name)
    else {
        if here().next().is_none() {
            return Err(unknown_path(path));
        }
        let mut allowed: Vec<&str> = here().map(|endpoint| endpoint.method).collect();
        if allowed.contains(&"GET") {
            allowed.push("HEAD");
        }
        let allow = allowed.join(", ");
        let detail = format!("{method_name} is not for {path}");
        let advice = format!("allowed here: {allow}");
        return Err(Problem::new(405, detail).advice(advice).field(wire::Known::Allow, allow));
    };
    // Requests for health or metrics may have a query: a number against caches, a name for the log
    // of a proxy.
    if !matches!(endpoint.guard, Guard::Open | Guard::Metrics) {
        check_query(endpoint, query)?;
    }
    Ok((endpoint, name))
}

fn unknown_path(path: &str) -> Problem {
    let problem = Problem::new(404, format!("there is no {path} in the admin API"));
    match nearest(path, ENDPOINTS.iter().map(|endpoint| endpoint.path)) {
        Some(near) => problem.advice(format!("did you mean {near}?")),
        None => problem,
    }
}

fn check_query(endpoint: &Endpoint, query: Option<&[u8]>) -> Result<(), Problem> {
    for name in parameter_names(query) {
        if endpoint.query.iter().any(|known| known.as_bytes() == name) {
            continue;
        }
        let name = String::from_utf8_lossy(name);
        let problem = Problem::new(400, format!("{} takes no parameter \"{name}\"", endpoint.path));
        return Err(match nearest(&name, endpoint.query.iter().copied()) {
            Some(near) => problem.advice(format!("did you mean \"{near}\"?")),
            None => problem,
        });
    }
    Ok(())
}

fn parameter_names(query: Option<&[u8]>) -> impl Iterator<Item = &[u8]> {
    let pairs = query.unwrap_or_default().split(|byte| *byte == b'&');
    pairs
        .filter(|pair| !pair.is_empty())
        .map(|pair| pair.split(|b| *b == b'=').next().unwrap_or(pair))
}

/// Returns true if a parameter is set: `?wait`, `?wait=true`, `?wait=1`.
pub(crate) fn flag(query: Option<&[u8]>, name: &str) -> bool {
    let set = |pair: &[u8]| match pair.strip_prefix(name.as_bytes()) {
        Some(rest) => matches!(rest, b"" | b"=" | b"=1" | b"=true" | b"=yes"),
        None => false,
    };
    query.unwrap_or_default().split(|byte| *byte == b'&').any(set)
}

#[cfg(test)]
mod tests;
