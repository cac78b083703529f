//! The plan of a `cache:` entry, from which workers build their filters.
//!
//! Converts settings to [`FilterConfig`] and [`KeyRules`].

use std::any::Any;
use std::rc::Rc;
use std::sync::Arc;

use plugin::{
    FilterKind, FilterPlan, HandlerSetting, HeaderName, RouteNames, Stage, WorkerContext,
};
use settings::{Key, Node, Reader, Setting, Spanned, Variable};

use crate::Caches;
use crate::filter_config::{FetchConfig, FilterConfig, NAME};
use crate::key::{KeyPath, KeyQuery, KeyRules, SignificantParams};
use crate::owners::OwnersPlan;
use crate::rules::{Heuristic, Policy, SetCookie, StatusCeiling};
use crate::settings::{FetchSettings, FilterSettings, PathMode, QueryMode, SetCookieMode};
use crate::worker_filter::CacheFilter;

/// `filters: [{ cache: … }]`.
pub static FILTER: FilterKind = FilterKind { name: NAME, schema: FilterSettings::schema, read };

/// Request fields that describe or announce content (RFC 9110 8, 10.1.4; RFC 9530). A GET without
/// content has no use for them, but some origins answer by them, above all with errors.
const CONTENT_FIELDS: [&str; 13] = [
    "content-type",
    "content-encoding",
    "content-language",
    "content-location",
    "content-disposition",
    "content-range",
    "content-digest",
    "content-md5",
    "repr-digest",
    "digest",
    "te",
    "trailer",
    "max-forwards",
];

/// The plan of one entry.
pub struct CachePlan {
    store: Spanned<String>,
    config: Arc<FilterConfig>,
    path: KeyPath,
    query: KeyQuery,
    keys: Vec<Key>,
    owners: Option<OwnersPlan>,
    description: String,
}

fn read(node: &Node, reader: &mut Reader<'_>) -> Option<Arc<dyn FilterPlan>> {
    let settings = FilterSettings::read(node, reader)?;
    Some(Arc::new(CachePlan::new(settings)))
}

impl CachePlan {
    pub(crate) fn new(settings: FilterSettings) -> CachePlan {
        let named = |family: &str, name: &str| format!("{family}.{name}").parse::<Key>().ok();
        let key = &settings.key;
        let headers = key.headers.iter().filter_map(|name| named("header", name.as_str()));
        let cookies = key.cookies.iter().filter_map(|name| named("cookie", name));
        CachePlan {
            path: match key.path {
                PathMode::Normal => KeyPath::Normal,
                PathMode::Raw => KeyPath::Raw,
            },
            query: query(&key.query),
            keys: headers.chain(cookies).chain(key.by.iter().cloned()).collect(),
            owners: settings.owners.as_ref().and_then(OwnersPlan::new),
            description: describe_settings(&settings),
            config: Arc::new(config(&settings)),
            store: settings.store,
        }
    }

    /// The plan of a filter, if it is a cache.
    pub fn of(filter: &dyn FilterPlan) -> Option<&CachePlan> {
        filter.as_any()?.downcast_ref()
    }

    /// The cache that it names, with the position of the name.
    pub fn store(&self) -> &Spanned<String> {
        &self.store
    }

    pub fn config(&self) -> &FilterConfig {
        &self.config
    }

    /// True if the key contains this variable.
    pub fn is_keyed_by(&self, variable: &Variable) -> bool {
        self.keys.iter().any(|key| key.template().variables().any(|own| own == variable))
    }

    /// Fields that are not in the key, reach the origin, and select its response on known origins
    /// without being listed in Vary.
    pub fn unkeyed_reflected_headers(&self) -> Vec<HeaderName> {
        let known = FetchSettings::default().drop_headers.into_iter();
        let dropped = &self.config.fetch.drop;
        known
            .filter(|name| !dropped.contains(name))
            .filter(|name| !self.is_keyed_by(&Variable::Header(name.as_str().to_owned())))
            .collect()
    }

    /// Builds the filter as a worker runs it on a route.
    pub(crate) fn filter(&self, route: &str, worker: &WorkerContext) -> CacheFilter {
        // `config` has checked the name and `server` has applied the caches of this plan.
        let cache = Caches::of(&worker.shared).get_or_make(&self.store, &worker.telemetry);
        let (config, rules) = (self.config.clone(), self.key_rules(route));
        CacheFilter::new(cache, config, rules, self.owners.as_ref(), worker)
    }

    /// The key rules on a route.
    pub(crate) fn key_rules(&self, route: &str) -> KeyRules {
        KeyRules::new(route, self.path, self.query.clone(), &self.keys)
    }

    /// The upstream whose servers own the URLs.
    pub(crate) fn owners(&self) -> Option<&str> {
        let upstream = self.owners.as_ref()?.upstream.plan()?.upstream()?;
        Some(&upstream.value)
    }

    /// An absolute URL in the form that keys of a route begin with; `None` if no key can.
    pub fn url(&self, route: &str, url: &str) -> Option<Box<[u8]>> {
        self.key_rules(route).normalised_url(url.as_bytes())
    }
}

impl FilterPlan for CachePlan {
    fn name(&self) -> &'static str {
        FILTER.name
    }

    fn build(&self, worker: &WorkerContext) -> Stage {
        self.build_on(RouteNames::default(), worker)
    }

    fn build_on(&self, route: RouteNames<'_>, worker: &WorkerContext) -> Stage {
        Stage::Middleware(Rc::new(self.filter(route.identity, worker)))
    }

    fn as_any(&self) -> Option<&dyn Any> {
        Some(self)
    }

    fn handlers(&self) -> Vec<&HandlerSetting> {
        self.owners.iter().map(|owners| &owners.upstream).collect()
    }

    fn describe(&self) -> String {
        self.description.clone()
    }
}

fn query(word: &QueryMode) -> KeyQuery {
    let names = |names: &[String]| names.iter().map(|name| name.as_bytes().into()).collect();
    match word {
        QueryMode::All => KeyQuery::default(),
        QueryMode::Sorted => KeyQuery { sorted: true, significant: SignificantParams::All },
        QueryMode::Allow(allowed) => {
            KeyQuery { sorted: true, significant: SignificantParams::Only(names(allowed)) }
        }
        QueryMode::Deny(denied) => {
            KeyQuery { sorted: true, significant: SignificantParams::Except(names(denied)) }
        }
        QueryMode::None => {
            KeyQuery { sorted: true, significant: SignificantParams::Only(Box::default()) }
        }
    }
}

fn config(settings: &FilterSettings) -> FilterConfig {
    let fetch = &settings.fetch;
    let keyed = |name: &HeaderName| settings.key.headers.contains(name);
    let origin: Vec<_> = settings.codings.origin.iter().map(|word| word.coding().token()).collect();
    FilterConfig {
        policy: policy(settings),
        fetch: FetchConfig {
            wait: fetch.wait.get(),
            outlive: fetch.outlive.get(),
            outlive_bytes: fetch.outlive_size.bytes(),
            drop: fetch.drop_headers.iter().filter(|name| !keyed(name)).cloned().collect(),
            drop_content: (CONTENT_FIELDS.iter())
                .filter_map(|name| name.parse().ok())
                .filter(|name| !keyed(name))
                .collect(),
            accept_encoding: (!origin.is_empty()).then(|| origin.join(", ").into()),
        },
        codings: settings.codings.clone(),
        body_bytes_max: settings.max_size.bytes(),
        hit_for_miss_s: seconds(settings.hit_for_miss),
        purge: settings.purge.allow.clone(),
        x_status: settings.x_status,
    }
}

fn policy(settings: &FilterSettings) -> Policy {
    let ttl = &settings.ttl;
    let lower = |text: &String| text.to_ascii_lowercase().into();
    // Statuses before classes: the first that matches counts.
    let (classes, statuses): (Vec<_>, Vec<_>) =
        ttl.statuses.iter().partition(|(status, _)| *status < 10);
    let ceiling = |first, last, time| StatusCeiling { first, last, ttl_max_s: seconds(time) };
    Policy {
        default_ttl_s: seconds(ttl.default),
        ttl_min_s: seconds(ttl.min),
        ttl_max_s: seconds(ttl.max),
        status_ceilings: (statuses.iter().map(|(status, time)| ceiling(*status, *status, *time)))
            .chain(
                classes.iter().map(|(class, time)| ceiling(class * 100, class * 100 + 99, *time)),
            )
            .collect(),
        heuristic: ttl.heuristic.as_ref().map(|guess| Heuristic {
            percent: (guess.fraction.fraction() * 100.0).round() as u32,
            ttl_max_s: seconds(guess.max),
        }),
        while_revalidate_s: seconds(settings.stale.while_revalidate),
        if_error_s: seconds(settings.stale.if_error),
        honour_request: settings.honour_request,
        set_cookie: match settings.set_cookie {
            SetCookieMode::Refuse => SetCookie::Refuse,
            SetCookieMode::Strip => SetCookie::Strip,
            SetCookieMode::Keep => SetCookie::Store,
        },
        targeted: settings.targeted.iter().map(|name| name.as_str().into()).collect(),
        surrogate_control: settings.surrogate_control,
        no_vary_search: settings.no_vary_search,
        variants_max: settings.variants as usize,
        languages: settings.languages.iter().map(lower).collect(),
    }
}

/// Rounds up to seconds.
fn seconds(time: settings::Duration) -> u32 {
    let ms = time.as_millis_u64();
    u32::try_from(ms.div_ceil(1000)).unwrap_or(u32::MAX)
}

/// Describes the settings in one line for `explain`.
fn describe_settings(settings: &FilterSettings) -> String {
    let mut summary = format!("in {}", settings.store.value);
    let query = match &settings.key.query {
        QueryMode::All => String::new(),
        QueryMode::Sorted => "sorted query".to_owned(),
        QueryMode::Allow(names) => format!("query parameters {}", names.join(", ")),
        QueryMode::Deny(names) => format!("query without {}", names.join(", ")),
        QueryMode::None => "no query".to_owned(),
    };
    let headers = settings.key.headers.iter().map(|name| format!("header {name}"));
    let cookies = settings.key.cookies.iter().map(|name| format!("cookie {name}"));
    let others = settings.key.by.iter().map(ToString::to_string);
    let counts: Vec<String> = [query]
        .into_iter()
        .filter(|text| !text.is_empty())
        .chain(headers)
        .chain(cookies)
        .chain(others)
        .collect();
    if !counts.is_empty() {
        summary.push_str(&format!(", keyed by {}", counts.join(", ")));
    }
    if settings.ttl.default != settings::Duration::ZERO {
        summary.push_str(&format!(", {} for responses without a lifetime", settings.ttl.default));
    }
    if let Some(owners) = &settings.owners {
        summary.push_str(&format!(", owned by the servers of {}", owners.upstream.value));
    }
    let codings: Vec<_> = settings.codings.offer.iter().map(|word| word.coding().token()).collect();
    if !codings.is_empty() {
        summary.push_str(&format!(", compressed as {}", codings.join(", ")));
    }
    summary
}

#[cfg(test)]
mod tests;
