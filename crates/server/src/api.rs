//! Implements `admin::Control` for the admin API on the control thread.

use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use admin::{
    AppStatus, Applied, CacheRequestError, CacheStatus, ConfigDocument, ConfigDocuments,
    ConfigVersion, Entries, EntriesWanted, Expect, Explanation, FleetNodes, ListenerStatus,
    LuaProfileWanted, LuaStatus, NodesWanted, ProcessMetrics, PurgePreview, Purged, Question,
    Refusal, RouteStatus, SentResponse, ServerState, Status, StreamStatus, Syntax, TopEntries,
    UpstreamStatus, WorkerStatus,
};
use cache::PurgeRequest;
use config::NewConfig;
use http_server::LiveLog;
use lua_host::{ProfileError, add_up_profiles};
use message::LocalFuture;
use router::RouteId;
use telemetry::{FamilySamples, MarkKind, Telemetry};
use upstream::ServerChange;

use crate::control::Control;
use crate::etcd_documents::Documents;
use crate::history::History;

/// Completes a change in a task of its own, so that a client that disconnects does not leave it
/// half done.
fn to_its_end<T: 'static>(
    change: impl Future<Output = Result<T, Refusal>> + 'static,
) -> LocalFuture<'static, Result<T, Refusal>> {
    let task = net::task::spawn_local(change);
    Box::pin(async move {
        task.await.unwrap_or_else(|error| {
            Err(Refusal::Failed(format!("the change did not finish: {error}")))
        })
    })
}

/// The control thread's side of the admin API.
pub(crate) struct Api(pub(crate) Rc<Control>);

impl Api {
    fn history(&self) -> Option<History> {
        self.0.source.history()
    }

    /// The documents with their secrets masked, the main one first.
    fn masked(&self) -> Option<Vec<(String, String)>> {
        config::masked(self.0.source.source(), &config::process_environment, &config::Kinds::all())
    }
}

impl admin::Control for Api {
    fn telemetry(&self) -> Arc<Telemetry> {
        self.0.caches.update_metrics();
        self.0.purges.update_metrics();
        self.0.telemetry.clone()
    }

    fn status(&self) -> Status {
        let bound = self.0.bound();
        Status {
            state: match self.0.apps.running() {
                Some(group) if group.ready() == 0 && self.0.state.get() == ServerState::Serving => {
                    ServerState::Starting
                }
                _ => self.0.state.get(),
            },
            build: env!("CARGO_PKG_VERSION").to_owned(),
            pid: std::process::id(),
            started_ms: self.0.started_ms,
            config_version: self.0.plan().version.clone(),
            listeners: bound
                .into_iter()
                .map(|one| ListenerStatus { name: one.name, address: one.address.to_string() })
                .collect(),
            last_reload: self.0.reload_result.last(),
            problems: {
                let mut problems = self.0.apps.problems();
                problems.extend(self.0.source.source().problems());
                problems.extend(self.0.identity_tasks.problems());
                problems.extend(self.0.settlement.problems());
                problems.extend(self.0.purges.problems());
                problems.extend(self.0.upstreams.problems());
                problems.extend(self.0.descriptors.get().problem(&self.0.server_limiter));
                problems
            },
        }
    }

    fn upstream_registry(&self) -> Arc<upstream::Upstreams> {
        self.0.upstreams.clone()
    }

    fn consumers(&self) -> Arc<auth::Registry> {
        self.0.consumers.clone()
    }

    fn quotas(&self) -> Arc<traffic::Quotas> {
        self.0.quotas.clone()
    }

    fn config(&self) -> ConfigDocument {
        let source = self.0.source.source();
        let read_only = source.read_only();
        // An unreadable source is shown as empty; PUT and reload report the reason.
        let (name, text, version) = match source.main() {
            Ok(document) => (document.name.clone(), document.text.clone(), document.version()),
            Err(error) => (error, String::new(), String::from("unreadable")),
        };
        let syntax = if text.trim_start().starts_with('{') { Syntax::Json } else { Syntax::Yaml };
        ConfigDocument { text, syntax, version, source: name, read_only }
    }

    fn masked_config(&self) -> Option<String> {
        self.masked()?.into_iter().next().map(|(_, text)| text)
    }

    fn documents(&self) -> Result<ConfigDocuments, Refusal> {
        let texts = self.0.source.source().documents().map_err(Refusal::ReadOnly)?;
        Ok(ConfigDocuments { version: Documents::of_texts(&texts).version(), texts })
    }

    fn masked_documents(&self) -> Option<BTreeMap<String, String>> {
        let texts = self.0.source.source().documents().ok()?;
        let mut masked: BTreeMap<String, String> = self.masked()?.into_iter().collect();
        // A source with several documents has a main one that is none of them.
        masked.retain(|name, _| texts.contains_key(name));
        Some(masked)
    }

    fn history(&self) -> Vec<ConfigVersion> {
        let current = admin::Control::config(self).version;
        Api::history(self).map(|history| history.versions(&current)).unwrap_or_default()
    }

    fn apply(&self, new: NewConfig, expect: Expect) -> LocalFuture<'_, Result<Applied, Refusal>> {
        let control = self.0.clone();
        to_its_end(async move { control.apply_config(new, &expect).await })
    }

    fn check(&self, new: NewConfig) -> LocalFuture<'_, Result<Vec<String>, Refusal>> {
        Box::pin(self.0.check_config(new))
    }

    fn rollback(
        &self,
        version: String,
        expect: Expect,
    ) -> LocalFuture<'_, Result<Applied, Refusal>> {
        let text = Api::history(self).and_then(|history| history.text(&version));
        let control = self.0.clone();
        to_its_end(async move {
            let text = text.ok_or(Refusal::NoVersion)?;
            control.apply_config(NewConfig::Main(text), &expect).await
        })
    }

    fn reload(&self) -> LocalFuture<'_, Result<Applied, Refusal>> {
        let control = self.0.clone();
        to_its_end(async move { control.reload_now().await })
    }

    fn request_reload(&self) {
        self.0.reload_requested.notify_one();
    }

    fn drain(&self) {
        self.0.drain_requested.notify_one();
    }

    fn routes(&self) -> Vec<RouteStatus> {
        let plan = self.0.plan();
        let in_order = plan.router.in_order();
        in_order
            .into_iter()
            .map(|id| {
                let route = plan.route(id);
                RouteStatus {
                    name: route.name.clone(),
                    rule: plan.router.describe(id),
                    filters: route.filters.iter().map(|filter| filter.name().to_owned()).collect(),
                    handler: format!("{} {}", route.handler.name(), route.handler.describe()),
                }
            })
            .collect()
    }

    fn config_version(&self) -> String {
        self.0.plan().version.clone()
    }

    fn route_rule(&self, name: &str) -> Option<String> {
        let plan = self.0.plan();
        let index = plan.routes.iter().position(|route| route.name == name)?;
        Some(plan.router.describe(RouteId(u32::try_from(index).ok()?)))
    }

    fn live_log(&self) -> Option<Arc<LiveLog>> {
        self.0.apps.running().is_none().then(|| self.0.live_log.clone())
    }

    fn change_server(&self, upstream: &str, server: &str, change: ServerChange) -> bool {
        self.0.upstreams.change_server(upstream, server, change)
    }

    fn upstreams(&self) -> Vec<UpstreamStatus> {
        let control = &self.0;
        let workers = control.worker_threads.len();
        let breakers = control.shared.get((), traffic::CircuitBreakers::default).of_routes();
        let breakers = crate::circuit_breakers::of_upstreams(&control.plan(), breakers);
        crate::upstreams::status(&control.upstreams, &control.shared, workers, breakers)
    }

    fn streams(&self) -> Vec<StreamStatus> {
        let plan = self.0.plan();
        let status = plan.streams.iter().map(|(listener, stream)| {
            let mut upstreams: Vec<String> = stream.upstreams().map(str::to_owned).collect();
            upstreams.sort_unstable();
            upstreams.dedup();
            StreamStatus {
                name: stream.name.clone(),
                bind: listener.bind.to_string(),
                protocol: if listener.options.datagrams { "udp" } else { "tcp" },
                tls: stream.tls.is_some(),
                upstreams,
            }
        });
        status.collect()
    }

    fn workers(&self) -> Vec<WorkerStatus> {
        if self.0.apps.running().is_some() {
            return Vec::new(); // its processes serve, see `apps`
        }
        (0..self.0.worker_threads.len())
            .map(|index| WorkerStatus {
                index,
                cpu: self.0.worker_threads.core(index),
                config_version: self.0.worker_threads.version(index),
            })
            .collect()
    }

    fn caches(&self) -> Vec<CacheStatus> {
        crate::caches::status(&self.0.caches, &self.0.plan())
    }

    fn entries(&self, cache: &str, wanted: &EntriesWanted) -> Result<Entries, CacheRequestError> {
        crate::caches::entries(&self.0.caches, &self.0.plan(), cache, wanted)
    }

    fn top_entries<'a>(
        &'a self,
        cache: &'a str,
        limit: usize,
    ) -> LocalFuture<'a, Result<TopEntries, CacheRequestError>> {
        let plan = self.0.plan();
        Box::pin(async move { crate::caches::top(&self.0.caches, &plan, cache, limit).await })
    }

    fn purge(
        &self,
        cache: &str,
        request: PurgeRequest,
        wait: Option<Duration>,
    ) -> LocalFuture<'_, Result<Purged, CacheRequestError>> {
        let (control, cache) = (self.0.clone(), cache.to_owned());
        // A client that disconnects does not leave it purged here and not elsewhere.
        let task = net::task::spawn_local(async move {
            control.purges.purge(&control.plan(), &cache, request, wait).await
        });
        Box::pin(async move {
            task.await.unwrap_or_else(|error| Err(CacheRequestError::Wrong(error.to_string())))
        })
    }

    fn preview_purge<'a>(
        &'a self,
        cache: &'a str,
        request: PurgeRequest,
        most: usize,
    ) -> LocalFuture<'a, Result<PurgePreview, CacheRequestError>> {
        let plan = self.0.plan();
        let caches = &self.0.caches;
        Box::pin(
            async move { crate::caches::preview_purge(caches, &plan, cache, request, most).await },
        )
    }

    fn nodes(&self, wanted: NodesWanted) -> LocalFuture<'_, Result<Option<FleetNodes>, String>> {
        Box::pin(async move {
            let Some(reports) = self.0.nodes.get() else { return Ok(None) };
            let page = reports.page(&wanted).await.map_err(|error| format!("etcd: {error}"))?;
            Ok(Some(page))
        })
    }

    fn apps(&self) -> Vec<AppStatus> {
        self.0.apps.status()
    }

    fn reload_app(&self, name: &str) -> LocalFuture<'_, Result<(), String>> {
        let (control, name) = (self.0.clone(), name.to_owned());
        let task = net::task::spawn_local(async move { control.apps.reload(&name).await });
        Box::pin(async move { task.await.unwrap_or_else(|error| Err(error.to_string())) })
    }

    fn profile_lua(
        &self,
        wanted: LuaProfileWanted,
    ) -> LocalFuture<'_, Result<bytes::Bytes, ProfileError>> {
        let LuaProfileWanted { kind, span, format } = wanted;
        Box::pin(add_up_profiles(self.0.worker_threads.profile(kind, span), format))
    }

    fn lua(&self) -> LuaStatus {
        crate::lua_programs::status(&self.0.plan(), &self.0.script_errors)
    }

    fn restart_lua(&self) -> LocalFuture<'_, usize> {
        Box::pin(async move {
            let restarted = self.0.worker_threads.restart_lua().await;
            if restarted > 0 {
                let marks = self.0.telemetry.marks();
                marks.add(MarkKind::Neutral, "the Lua programs were restarted");
            }
            restarted
        })
    }

    fn samples(&self) -> Vec<FamilySamples> {
        let mut samples = self.0.apps.samples();
        samples.extend(crate::certificates::samples(&self.0.plan()));
        samples
    }

    fn processes_metrics(&self) -> Option<LocalFuture<'_, Vec<ProcessMetrics>>> {
        (!self.0.apps.is_empty())
            .then(|| -> LocalFuture<'_, _> { Box::pin(self.0.apps.processes_metrics()) })
    }

    fn explain_cache(
        &self,
        cache: &str,
        question: &Question,
    ) -> Result<Explanation, CacheRequestError> {
        crate::caches::explain_cache(&self.0.caches, &self.0.plan(), cache, question)
    }

    fn explain(&self, question: &Question) -> Result<Explanation, String> {
        crate::explain::explain(&self.0.plan(), question)
    }

    fn send(
        &self,
        question: Question,
        body: bytes::Bytes,
    ) -> LocalFuture<'_, Result<SentResponse, String>> {
        let control = self.0.clone();
        Box::pin(async move { crate::send::send(&control, &question, body).await })
    }
}
