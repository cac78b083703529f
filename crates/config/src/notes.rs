//! Notes of `check`: valid settings that may be surprising.
//!
//! A note says what to write if the setting is not intended. Nothing is rejected here.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::OpenOptions;
use std::io;
use std::path::Path;

use cache::CachePlan;
use cache::rules::SetCookie;
use net::Bind;
use plugin::{ConsumerLimit, FilterPlan};
use router::{Match, PathPattern, Segment};
use settings::{Variable, quote};

use crate::records::{EncodedSlashes, LogTarget, MetricsAccess};
use crate::server_plan::{ListenerPlan, RoutePlan, ServerPlan};

/// Notes on a configuration without errors, a sentence each.
pub fn notes(plan: &ServerPlan) -> Vec<String> {
    let slashes = plan.listeners.iter().flat_map(|listener| encoded_slashes(plan, listener));
    let of_routes = plan.routes.iter().flat_map(|route| {
        let own = handler(route).chain(filters(route));
        own.chain(caching(route)).chain(order(route)).chain(in_clear(route))
    });
    let keys = plan.identity.fetched_in_clear().map(|provider| {
        format!(
            "identity.{} (line {}): danger: jwks is fetched over plain HTTP: an attacker on the \
             network can replace the keys and sign tokens; write https://",
            provider.value, provider.span.line
        )
    });
    let all = admin(plan).chain(keys).chain(consumer_limits(plan)).chain(slashes);
    all.chain(of_routes).chain(access_log(plan)).collect()
}

/// Limits of consumers that no filter and no handler takes.
fn consumer_limits(plan: &ServerPlan) -> Vec<String> {
    let routes = || plan.routes.iter();
    let filters = routes().flat_map(|route| &route.filters);
    let taken: BTreeSet<ConsumerLimit> = (filters.flat_map(|filter| filter.consumer_limits()))
        .chain(
            routes()
                .flat_map(|route| route.handlers())
                .flat_map(|handler| handler.consumer_limits()),
        )
        .collect();
    // The first of their consumers by name, and how many there are.
    let mut without_effect: BTreeMap<ConsumerLimit, (&str, usize)> = BTreeMap::new();
    for (consumer, limits) in plan.consumers.limits() {
        let quotas = limits.quotas.keys().map(|name| ConsumerLimit::Quota(name.clone()));
        for limit in limits.rate.map(|_| ConsumerLimit::Rate).into_iter().chain(quotas) {
            if !taken.contains(&limit) {
                let (first, count) = without_effect.entry(limit).or_insert((consumer, 0));
                *first = consumer.min(*first);
                *count += 1;
            }
        }
    }
    let note = |(limit, (consumer, count)): (ConsumerLimit, (&str, usize))| {
        let of = match count {
            1 => quote(consumer),
            _ => format!("{} and {} more", quote(consumer), count - 1),
        };
        match limit {
            ConsumerLimit::Rate => format!(
                "consumers: `limits.rate` of {of} has no effect: no rate_limit has \
                 consumer_limits: true"
            ),
            ConsumerLimit::Quota(name) => {
                let known = taken.iter().filter_map(|limit| match limit {
                    ConsumerLimit::Quota(name) => Some(name.as_str()),
                    ConsumerLimit::Rate => None,
                });
                let near = settings::nearest(&name, known).map(quote);
                let near = near.map(|near| format!(", did you mean {near}?")).unwrap_or_default();
                format!(
                    "consumers: `limits.quotas.{name}` of {of} has no effect: no quota of this \
                     name has consumer_limits: true{near}"
                )
            }
        }
    };
    without_effect.into_iter().map(note).collect()
}

/// An access log that this process could not open. The server may run on another machine, or as
/// another user.
fn access_log(plan: &ServerPlan) -> Option<String> {
    let LogTarget::File(path) = &plan.log.access.as_ref()?.path else { return None };
    let why = writable(path).err()?;
    Some(format!(
        "log.access.path: {} cannot be written here ({why}); a server that cannot write it does \
         not start",
        path.display()
    ))
}

/// Tries without creating or changing anything.
fn writable(path: &Path) -> io::Result<()> {
    match path.metadata() {
        Ok(about) if about.is_file() => OpenOptions::new().append(true).open(path).map(drop),
        Ok(about) if about.is_dir() => Err(io::ErrorKind::IsADirectory.into()),
        // Opening a pipe or a terminal waits, or does something.
        Ok(_) => Ok(()),
        Err(_) => {
            let directory = path.parent().filter(|parent| !parent.as_os_str().is_empty());
            net::anonymous_file(directory.unwrap_or(Path::new("."))).map(drop)
        }
    }
}

/// Notes access to the admin API from other machines, and a console that nothing can log in to.
fn admin(plan: &ServerPlan) -> impl Iterator<Item = String> {
    let beyond = matches!(&plan.admin.bind, Some(Bind::Tcp(at)) if !at.ip().is_loopback());
    let open = beyond && plan.admin.metrics == MetricsAccess::Open;
    let locked = plan.admin.console && plan.admin.tokens.is_empty();
    let clear = beyond && plan.admin.console && plan.admin.tls.is_none();
    let notes = [
        (
            open,
            "admin.bind can be reached from other machines and /metrics needs no token; where that \
             is not meant, write admin: { metrics: token }",
        ),
        (locked, "admin.console needs a token to log in with: write admin: { token: … }"),
        (
            clear,
            "danger: admin.console is served in the clear to other machines, and so are the tokens \
             that it logs in with; write admin: { tls: … }",
        ),
    ];
    notes.into_iter().filter(|(applies, _)| *applies).map(|(_, note)| note.to_owned())
}

/// Protected prefixes that `%2F` leads around: an upstream that decodes `/private%2Fx` serves what
/// only the route for `/private/{*rest}` protects.
fn encoded_slashes(plan: &ServerPlan, listener: &ListenerPlan) -> Vec<String> {
    if listener.encoded_slashes != EncodedSlashes::Keep {
        return Vec::new();
    }
    let rules = plan.router.rules().iter().zip(&plan.routes);
    let here = rules.filter(|(rule, _)| {
        let named = &rule.matches.listener;
        named.is_empty() || named.iter().any(|name| name.value == listener.name)
    });
    let (protected, open): (Vec<_>, Vec<_>) = here.partition(|(_, route)| route.authenticates());
    let around = |(rule, route): &(&router::Rule, &RoutePlan)| {
        let (path, way) = rule.matches.path.iter().find_map(|pattern| {
            let path = with_encoded_slash(pattern)?;
            let leads = |(other, way): &&(&router::Rule, &RoutePlan)| {
                route.has_handler_of(way) && takes(&other.matches, &rule.matches, &path)
            };
            let (_, way) = open.iter().find(leads)?;
            Some((path, way))
        })?;
        let (name, listener) = (quote(&route.name), quote(&listener.name));
        Some(format!(
            "route {name}: danger: listener {listener} keeps encoded slashes, so {path} goes \
             through route {} to the same handler without authentication; set encoded_slashes: \
             refuse or decode, or authenticate on both routes",
            quote(&way.name)
        ))
    };
    protected.iter().filter_map(around).collect()
}

/// A path beneath a pattern's prefix with its last slash encoded; `None` where it begins with no
/// fixed segment.
fn with_encoded_slash(pattern: &PathPattern) -> Option<String> {
    let PathPattern::Segments(segments) = pattern else { return None };
    let literal = |segment: Segment<'_>| match segment {
        Segment::Literal(text) if !text.is_empty() => Some(text.into_owned()),
        _ => None,
    };
    let mut names: Vec<String> = segments.parts().map_while(literal).collect();
    if names.len() == segments.parts().count() && names.len() > 1 {
        let last = names.pop()?;
        return Some(format!("/{}%2F{last}", names.join("/")));
    }
    (!names.is_empty()).then(|| format!("/{}%2Fx", names.join("/")))
}

/// Returns true if a route matches a path on the hosts of another one.
fn takes(matches: &Match, other: &Match, path: &str) -> bool {
    let (hosts, others) = (&matches.host, &other.host);
    let shared = hosts.is_empty() || others.is_empty() || hosts.iter().any(|h| others.contains(h));
    shared && (matches.path.is_empty() || matches.path.iter().any(|pattern| pattern.covers(path)))
}

/// Returns the notes about the handler of a route.
fn handler(route: &RoutePlan) -> impl Iterator<Item = String> {
    let notes = route.handlers().filter_map(|handler| handler.note());
    notes.map(|note| format!("route {}: {note}", quote(&route.name)))
}

/// Returns the notes about the filters of a route.
fn filters(route: &RoutePlan) -> impl Iterator<Item = String> {
    let notes = route.filters.iter().flat_map(|filter| filter.notes());
    notes.map(|note| format!("route {}: {note}", quote(&route.name)))
}

/// Filters that send credentials over the network in clear text.
fn in_clear(route: &RoutePlan) -> Vec<String> {
    let filters = route.filters.iter().zip(&route.filter_spans);
    let note = |filter: &dyn FilterPlan, line: u32| {
        let server = auth::server_in_clear(filter)?;
        Some(format!(
            "route {}: danger: {} (line {line}) sends credentials to {server} over plain HTTP: an \
             attacker on the network can read them and allow any request; write https://",
            quote(&route.name),
            filter.name()
        ))
    };
    filters.filter_map(|(filter, span)| note(&**filter, span.line)).collect()
}

/// Filters in an order that is surely wrong. Authentication behind a cache is an error already.
fn order(route: &RoutePlan) -> Vec<String> {
    let line = |at: usize| route.filter_spans[at].line;
    let first = |is: &dyn Fn(&dyn FilterPlan) -> bool| {
        route.filters.iter().position(|filter| is(&**filter))
    };
    let named = |name: &'static str| first(&|filter| filter.name() == name);
    let authentication = first(&|filter| filter.authenticates());
    let cache = first(&|filter| CachePlan::of(filter).is_some());
    let mut notes = Vec::new();
    let mut note = |before: Option<usize>, behind: Option<usize>, why: &str| {
        if let (Some(before), Some(behind)) = (before, behind)
            && before < behind
        {
            let (first, second) = (route.filters[before].name(), route.filters[behind].name());
            notes.push(format!(
                "route {}: {second} (line {}) is behind {first} (line {}): {why}; put {second} \
                 before {first}",
                quote(&route.name),
                line(behind),
                line(before)
            ));
        }
    };
    note(named("rewrite"), authentication, "conditions of authentication see the rewritten path");
    note(authentication, named("cors"), "a preflight has no credentials and gets 401");
    note(
        first(&|filter| filter.needs_authentication()),
        authentication,
        "the consumer is not known yet: its name and claims are empty, and no rule on it applies",
    );
    note(named("mock"), authentication, "the mock responds to clients without credentials");
    note(
        first(&|filter| filter.name() == "split" && !filter.handlers().is_empty()),
        authentication,
        "danger: variants with a handler respond to clients without credentials",
    );
    // The cache compresses once for all clients; a filter before it compresses each response.
    if let (Some(compress), Some(cache)) = (named("compress"), cache)
        && compress < cache
    {
        notes.push(format!(
            "route {}: compress (line {}) is before cache (line {}): every response is compressed \
             again; remove compress, because the cache stores compressed variants",
            quote(&route.name),
            line(compress),
            line(cache)
        ));
    }
    notes
}

/// Notes caches that may send responses to unintended clients.
fn caching(route: &RoutePlan) -> Vec<String> {
    let is_cache = |filter: &_| CachePlan::of(filter).is_some();
    let Some(at) = route.filters.iter().position(|filter| is_cache(&**filter)) else {
        return Vec::new();
    };
    let Some(cache) = CachePlan::of(&*route.filters[at]) else { return Vec::new() };
    let policy = &cache.config().policy;
    let mut notes = Vec::new();
    let mut note = |text: String| notes.push(format!("route {}: {text}", quote(&route.name)));
    let authentication = route.filters[..at].iter().find(|filter| filter.authenticates());
    if let Some(filter) = authentication.filter(|_| !cache.is_keyed_by(&Variable::Consumer)) {
        note(format!(
            "all clients that {} allows get the same responses from the cache; where they may \
             differ, write cache: {{ key: {{ by: [consumer] }} }}",
            filter.name()
        ));
    }
    let reflected = cache.unkeyed_reflected_headers();
    if !reflected.is_empty() {
        let names: Vec<&str> = reflected.iter().map(|name| name.as_str()).collect();
        note(format!(
            "danger: the cache sends on {} though they are not part of the key; an origin \
             that builds responses from them has one client's served to all: list them in \
             fetch.drop_headers or in key.headers",
            names.join(", ")
        ));
    }
    if policy.default_ttl_s > 0 {
        note(
            "answers that say nothing of caching are kept (ttl.default), also those made for one \
             user's cookies; the origin has to say private or Vary: Cookie for them"
                .to_owned(),
        );
    }
    if policy.set_cookie == SetCookie::Store {
        note("all clients get the cookies that one client was given (set_cookie: keep)".to_owned());
    }
    notes
}

#[cfg(test)]
mod tests;
