//! The records become a [`ServerPlan`]: names find what they name, entries become plans of their
//! kind.
//!
//! Promises: every error is reported in one run: references to what is not declared, declared
//! names that nothing uses, names declared twice, variables of a path that has none, routes that
//! can never match. What is unused is only said when everything else is right, because what is
//! broken may be what would have used it.

mod admin;
mod apps;
mod caches;
mod chains;
mod handlers;
mod listeners;
mod mentions;
mod routes;
mod streams;

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

use auth::{ConsumerSet, IdentitySet};
use otlp::{ExportPlan, ExportSettings, TracePlan};
use plugin::problem::{ErrorPage, ErrorPages};
use redis::RedisPlan;
use settings::{Named, Reader, Spanned};
use upstream::UpstreamPlan;

use crate::kinds::Kinds;
use crate::records::{ErrorSettings, HttpVersion, Settings};
use crate::server_plan::ServerPlan;
use chains::Chains;
use handlers::Declared;

/// Maximum length of a name, which is in every line of the log and of the metrics.
const NAME_CHARS: usize = 100;

/// Puts a plan together. `None` when there is an error; more may be in the report either way.
pub(crate) fn compile(
    mut settings: Settings,
    version: String,
    kinds: &Kinds,
    reader: &mut Reader<'_>,
) -> Option<ServerPlan> {
    check_all_names(&settings, reader);
    let listeners = listeners::compile(&settings, reader);
    let streams = streams::compile(&settings, &listeners, reader);
    let sockets: Vec<_> =
        listeners.iter().chain(streams.iter().map(|(listener, _)| listener)).cloned().collect();
    let programs = listeners::programs(&settings, &sockets, reader);
    let admin_tls =
        settings.admin.tls.as_ref().and_then(|tls| listeners::tls(tls, &HttpVersion::ALL, reader));
    let admin_bind = listeners::admin(&settings, &sockets, &programs, reader);
    let admin = admin::compile(settings.admin.clone(), admin_bind, admin_tls, reader);
    caches::check(&settings, reader);
    let consumers = ConsumerSet::new(std::mem::take(&mut settings.consumers), reader);
    let identity = IdentitySet::provide(&settings.identity, reader);
    let apps = apps::compile(&settings);
    let names = settings.upstreams.names().collect();
    let declared = Declared { settings: &settings, upstreams: &names, apps: &apps, kinds };
    let mut chains = Chains::read(declared, reader);
    let (router, routes, unrouted) = routes::compile(declared, &mut chains, reader);
    let mentioned = mentions::check(&settings, &routes, &programs, reader);
    let upstreams = upstreams(&settings, reader);
    let traces = settings.traces.as_ref().and_then(|traces| TracePlan::new(traces, reader));
    let log_export = export(settings.log.otlp.as_ref(), reader);
    let metrics_export = export(settings.metrics.otlp.as_ref(), reader);
    let shared = settings.shared.as_ref().and_then(|shared| RedisPlan::new(shared, reader));
    check_geo(&settings, reader);
    check_shared(&settings, reader);
    if !reader.report().is_empty() || !reader.report().unset_variables().is_empty() {
        return None;
    }
    let streamed = streams.iter().flat_map(|(_, stream)| stream.upstreams()).map(str::to_owned);
    let used = mentioned.into_iter().chain(streamed).collect();
    unused(&settings, &chains, &identity, &routes, &used, reader);
    // With room for exactly these: a list made in place would have that of `Compiled`.
    let mut plans = Vec::with_capacity(routes.len());
    plans.extend(routes.into_iter().map(|route| route.plan));
    Some(ServerPlan {
        version,
        workers: settings.workers,
        trusted_proxies: settings.trusted_proxies,
        listeners,
        streams,
        programs,
        lua: settings.lua,
        upstreams,
        caches: by_name(settings.caches),
        apps,
        consumers: Arc::new(consumers),
        geo: settings.geo,
        identity,
        router: Arc::new(router?),
        routes: plans,
        unrouted,
        errors: Arc::new(error_pages(settings.errors)),
        admin,
        log: settings.log,
        log_export,
        metrics_export,
        traces: traces.map(Arc::new),
        shared: shared.map(Arc::new),
        purges: settings.purges,
        limits: settings.limits,
        timeouts: settings.timeouts,
        parts: Vec::new(),
    })
}

fn by_name<T>(named: Named<T>) -> Vec<(String, T)> {
    named.entries.into_iter().map(|(name, item)| (name.value, item)).collect()
}

fn export(
    settings: Option<&Spanned<ExportSettings>>,
    reader: &mut Reader<'_>,
) -> Option<Arc<ExportPlan>> {
    settings.and_then(|settings| ExportPlan::new(settings, reader)).map(Arc::new)
}

/// A country condition without a database would never match.
fn check_geo(settings: &Settings, reader: &mut Reader<'_>) {
    if settings.geo.country.is_some() {
        return;
    }
    for span in reader.country_uses().to_vec() {
        reader
            .error(span, "no file says which country a client is in")
            .help("name a MaxMind DB file: geo: { country: FILE.mmdb }");
    }
}

/// What servers share needs a place where it is.
fn check_shared(settings: &Settings, reader: &mut Reader<'_>) {
    if settings.shared.is_some() {
        return;
    }
    for span in reader.shared_uses().to_vec() {
        reader
            .error(span, "the section `shared` is missing, which says where Redis is")
            .help("add shared: { redis: [\"redis://HOST\"] }, or remove this");
    }
}

fn upstreams(settings: &Settings, reader: &mut Reader<'_>) -> Vec<(String, UpstreamPlan)> {
    let entries = settings.upstreams.entries.iter();
    entries
        .filter_map(|(name, upstream)| {
            Some((name.value.clone(), UpstreamPlan::new(name, upstream.clone(), reader)?))
        })
        .collect()
}

fn check_all_names(settings: &Settings, reader: &mut Reader<'_>) {
    check_names("listener", &settings.listeners, reader);
    check_names("upstream", &settings.upstreams, reader);
    check_names("cache", &settings.caches, reader);
    check_names("app", &settings.apps, reader);
    check_names("chain", &settings.chains, reader);
    check_names("provider", &settings.identity, reader);
}

/// Names go into logs, metrics and URLs of the admin API: no spaces, no control characters.
fn check_names<T>(what: &str, named: &Named<T>, reader: &mut Reader<'_>) {
    for (name, _) in &named.entries {
        check_name(what, name, reader);
    }
}

fn check_name(what: &str, name: &Spanned<String>, reader: &mut Reader<'_>) {
    let odd = |c: char| c.is_control() || c.is_whitespace();
    if name.is_empty() || name.contains(odd) || name.chars().count() > NAME_CHARS {
        reader
            .error(name.span, format!("this cannot be the name of a {what}"))
            .help(format!("a name has 1 to {NAME_CHARS} characters and no spaces"));
    }
}

fn unused(
    settings: &Settings,
    chains: &Chains,
    identity: &IdentitySet,
    routes: &[routes::Compiled],
    used_elsewhere: &HashSet<String>,
    reader: &mut Reader<'_>,
) {
    let handlers = routes.iter().flat_map(|route| route.plan.handlers());
    let used: HashSet<&String> =
        handlers.filter_map(|handler| handler.upstream()).map(|name| &name.value).collect();
    for (name, _) in &settings.upstreams.entries {
        if !used.contains(&name.value) && !used_elsewhere.contains(&name.value) {
            reader.report().unused(name.span, "upstream", name);
        }
    }
    for (name, _) in &settings.caches.entries {
        let in_route = |route: &routes::Compiled| caches::uses(&route.plan.filters, name);
        if !routes.iter().any(in_route) && !chains.use_cache(name) {
            reader.report().unused(name.span, "cache", name);
        }
    }
    for (name, _) in &settings.apps.entries {
        let used = |route: &routes::Compiled| {
            route.plan.handlers().any(|handler| apps::named(&**handler) == Some(name))
        };
        if !routes.iter().any(used) {
            reader.report().unused(name.span, "app", name);
        }
    }
    for name in chains.unused() {
        reader.report().unused(name.span, "chain", name);
    }
    for name in identity.unused() {
        reader.report().unused(name.span, "provider", name);
    }
    for (name, _) in &settings.listeners.entries {
        let used = |route: &routes::Compiled| {
            route.listeners.is_empty() || route.listeners.contains(&name.value)
        };
        if !routes.is_empty() && !routes.iter().any(used) {
            reader.report().unused(name.span, "listener", name);
        }
    }
}

fn error_pages(settings: ErrorSettings) -> ErrorPages {
    let pages: BTreeMap<_, _> = settings
        .0
        .into_iter()
        .map(|(status, page)| {
            let content_type = page.content_type.into_boxed_str();
            (status, ErrorPage { content_type, body: page.body.into() })
        })
        .collect();
    ErrorPages::new(pages)
}
