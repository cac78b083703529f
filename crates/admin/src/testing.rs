//! A server that only pretends, for the tests of this crate.

use crate::Admin;
use crate::access::Access;
use crate::control::{
    AppStatus, Applied, CacheRequestError, CacheStatus, ConfigDocument, ConfigDocuments,
    ConfigVersion, Control, Entries, EntriesWanted, Expect, Explanation, FleetNodes,
    ListenerStatus, LuaError, LuaFileStatus, LuaProfileWanted, LuaStatus, NodesWanted, Question,
    Refusal, ReloadStatus, RouteStatus, SentResponse, ServerState, ServerStatus, Status,
    StreamStatus, Syntax, TopEntries, UpstreamStatus, WorkerStatus,
};
use crate::purged::{FleetPurge, MissingServer, PurgePreview, Purged, WaitedPurge};
use cache::{PurgeRequest, PurgeWhat};
use config::{AdminRole, AdminToken, NewConfig};
use lua_host::ProfileError;
use message::{Body, Headers, LocalFuture, Request, Response, Target};
use plugin::Handler;
use serde_json::json;
use settings::{Report, Secret, Span};
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::future::ready;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;
use telemetry::Telemetry;
use upstream::{HealthChange, ServerChange, Upstreams};
use wire::{Known, Method};

/// Reads the whole body of a response.
pub(crate) fn text(response: &mut Response) -> String {
    let body = net::worker::block_on_local(response.body.collect(1 << 20)).unwrap();
    String::from_utf8(body.to_vec()).unwrap()
}

/// Access with a token for each role, whose name is the role; the console is served.
pub(crate) fn access(tokens: &[(AdminRole, &str)]) -> Access {
    let token = |(role, secret): &(AdminRole, &str)| AdminToken {
        name: role.slug().to_owned(),
        role: *role,
        secret: Secret::new(*secret),
    };
    Access {
        tokens: tokens.iter().map(token).collect(),
        metrics_open: true,
        hosts: vec!["metrics.internal".to_owned()],
        config_secrets: false,
        console: true,
        sessions: Default::default(),
    }
}

pub(crate) struct FakeServer {
    pub(crate) telemetry: Arc<Telemetry>,
    pub(crate) state: Cell<ServerState>,
    pub(crate) text: RefCell<String>,
    /// The documents, if the configuration is a set of them.
    pub(crate) documents: RefCell<Option<BTreeMap<String, String>>>,
    pub(crate) version: Cell<u32>,
    pub(crate) read_only: Cell<bool>,
    pub(crate) busy: Cell<bool>,
    pub(crate) last_reload: RefCell<Option<ReloadStatus>>,
    pub(crate) reloads_requested: Cell<u32>,
    consumers: Arc<auth::Registry>,
    pub(crate) upstreams: Arc<Upstreams>,
    pub(crate) quotas: Arc<traffic::Quotas>,
    live_log: Arc<http_server::LiveLog>,
    /// The changes of servers.
    pub(crate) changed: RefCell<Vec<(String, ServerChange)>>,
    /// The fleet that the server belongs to, with all of its nodes.
    pub(crate) fleet: RefCell<Result<Option<FleetNodes>, String>>,
    /// The purges, and whether they were soft.
    pub(crate) purged: RefCell<Vec<(PurgeWhat, bool)>>,
    pub(crate) lua_vms: Cell<usize>,
    pub(crate) apps: RefCell<Vec<AppStatus>>,
}

impl FakeServer {
    pub(crate) fn new() -> Self {
        Self {
            telemetry: Arc::new(Telemetry::new()),
            state: Cell::new(ServerState::Serving),
            text: RefCell::new("workers: auto\n".to_owned()),
            documents: RefCell::default(),
            version: Cell::new(1),
            read_only: Cell::new(false),
            busy: Cell::new(false),
            last_reload: RefCell::new(None),
            reloads_requested: Cell::new(0),
            consumers: Arc::default(),
            upstreams: Arc::default(),
            quotas: Arc::default(),
            live_log: Arc::default(),
            changed: RefCell::default(),
            fleet: RefCell::new(Ok(None)),
            purged: RefCell::default(),
            lua_vms: Cell::default(),
            apps: RefCell::default(),
        }
    }

    fn version_text(&self) -> String {
        format!("v{}", self.version.get())
    }

    fn change(&self, new: NewConfig, expect: &Expect) -> Result<Applied, Refusal> {
        let text = joined(&new);
        if self.busy.get() {
            return Err(Refusal::Busy);
        }
        if self.read_only.get() {
            return Err(Refusal::ReadOnly("tidegate.yaml cannot be written".to_owned()));
        }
        if !expect.allows(&self.version_text()) {
            return Err(Refusal::Stale { current: self.version_text() });
        }
        if text.contains("wrong") {
            return Err(Refusal::Invalid(Box::new(wrong(&text))));
        }
        if text.contains("taken") {
            return Err(Refusal::Unable("cannot listen on 127.0.0.1:80: it is taken".to_owned()));
        }
        match new {
            NewConfig::Main(text) => *self.text.borrow_mut() = text,
            NewConfig::Documents(texts) => *self.documents.borrow_mut() = Some(texts),
        }
        self.version.set(self.version.get() + 1);
        Ok(Applied { version: self.version_text(), changes: vec!["route \"a\" added".to_owned()] })
    }
}

fn joined(new: &NewConfig) -> String {
    match new {
        NewConfig::Main(text) => text.clone(),
        NewConfig::Documents(texts) => texts.values().map(String::as_str).collect(),
    }
}

fn wrong(text: &str) -> Report {
    let mut report = Report::new();
    let source = report.add_document("tidegate.yaml", text, None);
    let span = Span { source, line: 1, column: 1, end_line: 1, end_column: 6 };
    report.error(span, "unknown key \"wrong\"").help("leave it out");
    report.error(Span::NOWHERE, "there are no routes");
    report
}

impl Control for FakeServer {
    fn telemetry(&self) -> Arc<Telemetry> {
        Arc::clone(&self.telemetry)
    }

    fn status(&self) -> Status {
        Status {
            state: self.state.get(),
            build: "0.1.0".to_owned(),
            pid: 42,
            started_ms: 1_000,
            config_version: self.version_text(),
            listeners: vec![ListenerStatus {
                name: "web".to_owned(),
                address: "127.0.0.1:8080".to_owned(),
            }],
            last_reload: self.last_reload.borrow().clone(),
            problems: Vec::new(),
        }
    }

    fn upstream_registry(&self) -> Arc<Upstreams> {
        self.upstreams.clone()
    }

    fn consumers(&self) -> Arc<auth::Registry> {
        self.consumers.clone()
    }

    fn quotas(&self) -> Arc<traffic::Quotas> {
        self.quotas.clone()
    }

    fn config(&self) -> ConfigDocument {
        ConfigDocument {
            text: self.text.borrow().clone(),
            syntax: Syntax::Yaml,
            version: self.version_text(),
            source: "tidegate.yaml".to_owned(),
            read_only: self.read_only.get().then(|| "no permission".to_owned()),
        }
    }

    fn history(&self) -> Vec<ConfigVersion> {
        vec![
            ConfigVersion { version: self.version_text(), at_ms: 2_000, current: true },
            ConfigVersion { version: "v0".to_owned(), at_ms: 1_000, current: false },
        ]
    }

    fn masked_config(&self) -> Option<String> {
        let text = self.text.borrow();
        (!text.contains("wrong")).then(|| text.replace("hidden", "***"))
    }

    fn documents(&self) -> Result<ConfigDocuments, Refusal> {
        let texts = self.documents.borrow().clone();
        let texts = texts.ok_or_else(|| Refusal::ReadOnly("no documents".to_owned()))?;
        Ok(ConfigDocuments { texts, version: self.version_text() })
    }

    fn masked_documents(&self) -> Option<BTreeMap<String, String>> {
        let texts = self.documents.borrow().clone()?.into_iter();
        Some(texts.map(|(name, text)| (name, text.replace("hidden", "***"))).collect())
    }

    fn apply(&self, new: NewConfig, expect: Expect) -> LocalFuture<'_, Result<Applied, Refusal>> {
        Box::pin(ready(self.change(new, &expect)))
    }

    fn rollback(
        &self,
        version: String,
        expect: Expect,
    ) -> LocalFuture<'_, Result<Applied, Refusal>> {
        let result = match version.as_str() {
            "v0" => self.change(NewConfig::Main("workers: 1\n".to_owned()), &expect),
            _ => Err(Refusal::NoVersion),
        };
        Box::pin(ready(result))
    }

    fn reload(&self) -> LocalFuture<'_, Result<Applied, Refusal>> {
        let text = self.text.borrow().clone();
        Box::pin(ready(self.change(NewConfig::Main(text), &Expect::Any)))
    }

    fn check(&self, new: NewConfig) -> LocalFuture<'_, Result<Vec<String>, Refusal>> {
        let text = joined(&new);
        let result = match text.contains("wrong") {
            true => Err(Refusal::Invalid(Box::new(wrong(&text)))),
            false => Ok(vec!["route \"a\" added".to_owned()]),
        };
        Box::pin(ready(result))
    }

    fn request_reload(&self) {
        self.reloads_requested.set(self.reloads_requested.get() + 1);
    }

    fn drain(&self) {
        self.state.set(ServerState::Draining);
    }

    fn routes(&self) -> Vec<RouteStatus> {
        vec![RouteStatus {
            name: "shop".to_owned(),
            rule: "host shop.example.com, path /{*rest}".to_owned(),
            filters: vec!["compress".to_owned()],
            handler: "upstream catalog".to_owned(),
        }]
    }

    fn live_log(&self) -> Option<Arc<http_server::LiveLog>> {
        Some(self.live_log.clone())
    }

    fn change_server(&self, _: &str, server: &str, change: ServerChange) -> bool {
        self.changed.borrow_mut().push((server.to_owned(), change));
        true
    }

    fn upstreams(&self) -> Vec<UpstreamStatus> {
        let server = |address: &str, healthy: bool| ServerStatus {
            server: address.to_owned(),
            address: address.to_owned(),
            weight: 1,
            changed: false,
            backup: false,
            healthy,
            state: if healthy { "healthy" } else { "ejected" }.to_owned(),
            in_flight: 2,
            connections: 3,
            latency_us: Some(1_500),
            last_error: (!healthy).then(|| "connection refused".to_owned()),
            ejected_for_ms: if healthy { 0 } else { 9_000 },
            last_change: (!healthy).then(|| HealthChange {
                at_ms: 1_000,
                state: upstream::ServerState::Ejected,
                why: "5 failures in a row".to_owned(),
            }),
        };
        vec![UpstreamStatus {
            name: "catalog".to_owned(),
            balance: "p2c".to_owned(),
            panic: false,
            servers: vec![server("10.0.0.1:80", true), server("10.0.0.2:80", false)],
            discovery: None,
            breakers: Vec::new(),
        }]
    }

    fn streams(&self) -> Vec<StreamStatus> {
        vec![StreamStatus {
            name: "database".to_owned(),
            bind: "127.0.0.1:5432".to_owned(),
            protocol: "tcp",
            tls: false,
            upstreams: vec!["catalog".to_owned()],
        }]
    }

    fn workers(&self) -> Vec<WorkerStatus> {
        vec![WorkerStatus { index: 0, cpu: Some(1), config_version: self.version_text() }]
    }

    fn caches(&self) -> Vec<CacheStatus> {
        vec![CacheStatus {
            name: "pages".to_owned(),
            routes: vec!["shop".to_owned()],
            objects: 3,
            bytes: 1_000,
            memory_bytes: 10_000,
            disk: None,
        }]
    }

    fn entries(&self, cache: &str, wanted: &EntriesWanted) -> Result<Entries, CacheRequestError> {
        if cache != "pages" {
            return Err(CacheRequestError::NoCache);
        }
        let entry = json!({ "url": wanted.prefix, "after": wanted.after, "limit": wanted.limit });
        Ok(Entries { entries: vec![entry], next: Some(7) })
    }

    fn top_entries<'a>(
        &'a self,
        cache: &'a str,
        limit: usize,
    ) -> LocalFuture<'a, Result<TopEntries, CacheRequestError>> {
        let rows = vec![json!({ "url": "http://a/", "hits": 5, "limit": limit })];
        let found = TopEntries { by_hits: rows, by_memory: Vec::new() };
        Box::pin(ready((cache == "pages").then_some(found).ok_or(CacheRequestError::NoCache)))
    }

    fn purge(
        &self,
        cache: &str,
        request: PurgeRequest,
        wait: Option<Duration>,
    ) -> LocalFuture<'_, Result<Purged, CacheRequestError>> {
        let PurgeRequest { what, soft } = request;
        let result = match (cache, &what) {
            ("pages", PurgeWhat::Url(url)) if !url.starts_with("http:") => {
                Err(CacheRequestError::Wrong(format!("\"{url}\" is not an absolute URL")))
            }
            ("pages", _) => {
                self.purged.borrow_mut().push((what, soft));
                let waited = wait.map(|wait| WaitedPurge {
                    is_confirmed: false,
                    applied: vec!["a".to_owned()],
                    missing: vec![
                        MissingServer { name: "b".to_owned(), is_live: true },
                        MissingServer { name: "c".to_owned(), is_live: false },
                    ],
                    problem: Some(format!("waited {} s", wait.as_secs())),
                });
                let fleet = waited.is_some().then_some(FleetPurge { published: Ok(7), waited });
                Ok(Purged { purged: 2, fleet })
            }
            ("fleet", PurgeWhat::All) => {
                let fleet = FleetPurge { published: Err("no etcd".to_owned()), waited: None };
                Ok(Purged { purged: 1, fleet: Some(fleet) })
            }
            ("fleet", _) => Err(CacheRequestError::Unpublished("no etcd".to_owned())),
            _ => Err(CacheRequestError::NoCache),
        };
        Box::pin(ready(result))
    }

    fn preview_purge<'a>(
        &'a self,
        cache: &'a str,
        request: PurgeRequest,
        most: usize,
    ) -> LocalFuture<'a, Result<PurgePreview, CacheRequestError>> {
        let urls = vec![format!("{} {} {most}", request.what.kind(), request.soft)];
        let preview = PurgePreview { responses: 3, is_upper_bound: request.soft, urls };
        Box::pin(ready((cache == "pages").then_some(preview).ok_or(CacheRequestError::NoCache)))
    }

    fn apps(&self) -> Vec<AppStatus> {
        self.apps.borrow().clone()
    }

    fn lua(&self) -> LuaStatus {
        let error = telemetry::ErrorRecord {
            at_ms: 2_000,
            first_ms: 1_000,
            times: 2,
            route: Some("shop".to_owned()),
            message: "page.lua:1: no".to_owned(),
            ..Default::default()
        };
        let used_by = vec!["route shop".to_owned()];
        let file = LuaFileStatus { path: "/srv/page.lua".to_owned(), used_by, uses: 3 };
        LuaStatus { files: vec![file], errors: vec![LuaError { error, program: None }] }
    }

    fn restart_lua(&self) -> LocalFuture<'_, usize> {
        Box::pin(ready(self.lua_vms.get()))
    }

    fn profile_lua(
        &self,
        wanted: LuaProfileWanted,
    ) -> LocalFuture<'_, Result<bytes::Bytes, ProfileError>> {
        let LuaProfileWanted { kind, span, format } = wanted;
        let busy = "another profile is being recorded";
        let result = match span.as_secs() {
            58 => Err(ProfileError::NoProgram),
            59 => Err(ProfileError::Busy(busy.to_owned())),
            _ => Ok(format!("{kind:?} {span:?} {format:?}").into()),
        };
        Box::pin(ready(result))
    }

    fn nodes(&self, wanted: NodesWanted) -> LocalFuture<'_, Result<Option<FleetNodes>, String>> {
        let mut fleet = self.fleet.borrow().clone();
        if let Ok(Some(fleet)) = &mut fleet {
            fleet.nodes.retain(|node| node.name > wanted.after);
            fleet.has_more = fleet.nodes.len() > wanted.limit;
            fleet.nodes.truncate(wanted.limit);
        }
        Box::pin(ready(fleet))
    }

    fn explain_cache(
        &self,
        _: &str,
        question: &Question,
    ) -> Result<Explanation, CacheRequestError> {
        let fields = &question.headers;
        Ok(Explanation {
            text: format!("{} {} is a hit\n", question.method, question.url),
            json: json!({ "url": question.url, "headers": fields }),
        })
    }

    fn send(
        &self,
        question: Question,
        body: bytes::Bytes,
    ) -> LocalFuture<'_, Result<SentResponse, String>> {
        let content = [question.url.as_bytes(), b" ", &body].concat().into();
        let headers = vec![("x-method".to_owned(), question.method)];
        let sent = SentResponse { status: 201, headers, content, ..SentResponse::default() };
        Box::pin(std::future::ready(Ok(sent)))
    }

    fn explain(&self, question: &Question) -> Result<Explanation, String> {
        if question.url.starts_with("ftp:") {
            return Err(format!("\"{}\" is not an HTTP URL", question.url));
        }
        Ok(Explanation {
            text: format!("{} {} goes to shop\n", question.method, question.url),
            json: json!({ "route": "shop" }),
        })
    }
}

/// The API of a server, for a client with its token.
pub(crate) struct Api(pub(crate) Rc<FakeServer>);

impl Api {
    /// Status, ETag and body of the response.
    pub(crate) fn send(
        &self,
        method: Method,
        path: &str,
        if_match: Option<&str>,
        body: &str,
    ) -> (u16, String, String) {
        let mut headers = Headers::new();
        headers.append("host", "localhost");
        headers.append("authorization", "Bearer s3cret");
        if let Some(version) = if_match {
            headers.append("if-match", version);
        }
        let target = Target::new(path.to_owned().into()).unwrap();
        let mut request = Request::made_up(method, target, headers);
        request.body = Body::from(body.to_owned());
        let access = access(&[(AdminRole::All, "s3cret")]);
        let admin = Admin::new(access, self.0.clone());
        let mut response = net::worker::block_on_local(async {
            admin.handle(&mut request).resolve().await.unwrap()
        });
        let tag = response.headers.get_str(Known::Etag).unwrap_or_default().to_owned();
        (response.status, tag, text(&mut response))
    }
}
