//! What is right in a configuration and may surprise all the same: for `check`.
//!
//! Promises that a note says what to write where it is not meant. Never refuses anything.

use std::fs::OpenOptions;
use std::io;
use std::path::Path;

use cache::CachePlan;
use cache::rules::SetCookie;
use net::Bind;
use settings::{Variable, quote};

use crate::plan::{Plan, RoutePlan};
use crate::records::{LogTarget, MetricsAccess};

/// Notes on a configuration without errors, a sentence each.
pub fn notes(plan: &Plan) -> Vec<String> {
    let of_routes = plan.routes.iter().flat_map(|route| caching(plan, route));
    admin(plan).into_iter().chain(of_routes).chain(access_log(plan)).collect()
}

/// An access log that this process could not open. The server may run on another machine, or as
/// another user.
fn access_log(plan: &Plan) -> Option<String> {
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
            net::unlinked_file(directory.unwrap_or(Path::new("."))).map(drop)
        }
    }
}

/// What the admin API shows to other machines.
fn admin(plan: &Plan) -> Option<String> {
    let beyond = matches!(&plan.admin.bind, Some(Bind::Tcp(at)) if !at.ip().is_loopback());
    (beyond && plan.admin.metrics == MetricsAccess::Open).then(|| {
        "admin.bind can be reached from other machines and /metrics needs no token; where that is \
         not meant, write admin: { metrics: token }"
            .to_owned()
    })
}

/// What a cache may give to those it was not meant for.
fn caching(plan: &Plan, route: &RoutePlan) -> Vec<String> {
    let is_cache = |filter: &_| CachePlan::of(filter).is_some();
    let Some(at) = route.filters.iter().position(|filter| is_cache(&**filter)) else {
        return Vec::new();
    };
    let Some(cache) = CachePlan::of(&*route.filters[at]) else { return Vec::new() };
    let policy = &cache.terms().policy;
    let mut notes = Vec::new();
    let mut note = |text: String| notes.push(format!("route {}: {text}", quote(&route.name)));
    let asks_for_keys = route.filters[..at].iter().any(|filter| filter.name() == "key_auth");
    if asks_for_keys && !cache.counts(&Variable::Consumer) {
        note(
            "all whom key_auth lets in get the same answers from the cache; where they may differ, \
             write cache: { key: { by: [consumer] } }"
                .to_owned(),
        );
    }
    let reflected = cache.reflected();
    if !reflected.is_empty() {
        let names: Vec<&str> = reflected.iter().map(|name| name.as_str()).collect();
        note(format!(
            "danger: the cache sends on {} though requests are not told apart by them; an origin \
             that builds answers from them gives one client's to everybody: list them in \
             fetch.drop_headers or in key.headers",
            names.join(", ")
        ));
    }
    let forwarded = Variable::Header("x-forwarded-host".to_owned());
    if !plan.trusted_proxies.is_empty() && !cache.counts(&forwarded) {
        note(
            "X-Forwarded-Host of trusted_proxies reaches the origin and requests are not told \
             apart by it; where the origin builds links from it, write \
             cache: { key: { headers: [x-forwarded-host] } }"
                .to_owned(),
        );
    }
    if policy.default_ttl_s > 0 {
        note(
            "answers that say nothing of caching are kept (ttl.default), also those made for one \
             user's cookies; the origin has to say private or Vary: Cookie for them"
                .to_owned(),
        );
    }
    if policy.set_cookie == SetCookie::Store {
        note("everybody gets the cookies that one client was given (set_cookie: keep)".to_owned());
    }
    notes
}

#[cfg(test)]
mod tests {
    use crate::{Kinds, TextSource, load};

    fn noted(top: &str, filters: &str) -> Vec<String> {
        let text = format!(
            "{top}
listeners: {{ web: {{ bind: ':80' }} }}
caches: {{ pages: {{}} }}
routes: [{{ name: all, filters: [{filters}], handler: {{ respond: {{}} }} }}]
"
        );
        let loaded = load(&TextSource::new("t", &text), &|_| None, &Kinds::all());
        super::notes(&loaded.unwrap_or_else(|report| panic!("{report}")).plan)
    }

    #[test]
    fn a_plain_cache_is_nothing_to_talk_about() {
        assert_eq!(noted("", "{ cache: pages }"), [""; 0]);
    }

    #[test]
    fn what_one_client_could_do_to_others_is_noted() {
        let key = "{ key_auth: { keys: [{ consumer: ann, key: k }] } }";
        for (top, filters, said) in [
            ("", format!("{key}, {{ cache: pages }}"), "by: [consumer]"),
            (
                "",
                "{ cache: { store: pages, fetch: { drop_headers: [x-host] } } }".to_owned(),
                "danger: the cache sends on x-original-url, ",
            ),
            ("trusted_proxies: [10.0.0.0/8]", "{ cache: pages }".to_owned(), "X-Forwarded-Host"),
            ("", "{ cache: { store: pages, ttl: { default: 1s } } }".to_owned(), "ttl.default"),
            ("", "{ cache: { store: pages, set_cookie: keep } }".to_owned(), "set_cookie: keep"),
        ] {
            let notes = noted(top, &filters);
            assert!(notes.len() == 1 && notes[0].contains(said), "{filters}: {notes:?}");
            assert!(notes[0].starts_with("route \"all\": "));
        }
    }

    #[test]
    fn open_metrics_beyond_this_machine_are_noted() {
        let admin = |text: &str| noted(&format!("admin: {text}"), "{ cache: pages }");
        let notes = admin("{ bind: \":9180\" }");
        assert!(notes.len() == 1 && notes[0].contains("metrics: token"), "{notes:?}");
        assert_eq!(admin("{ bind: \":9180\", token: word, metrics: token }"), [""; 0]);
        assert_eq!(admin("{ bind: \"127.0.0.1:9180\" }"), [""; 0]);
    }

    #[test]
    fn what_counts_is_no_danger() {
        let key = "{ key_auth: { keys: [{ consumer: ann, key: k }] } }";
        let cache =
            "{ cache: { store: pages, key: { by: [consumer], headers: [x-forwarded-host] } } }";
        assert_eq!(noted("trusted_proxies: [10.0.0.0/8]", &format!("{key}, {cache}")), [""; 0]);
    }
}
