//! The settings of `rate_limit` and their checks.

use settings::{Key, Node, Rate, Reader, Setting, Variable};

use super::sliding;
use crate::cost::Cost;
use crate::limit_fields::check_name;
use crate::request_key::check_ipv6_prefix;

/// Most limits of one filter.
const LIMITS_MAX: usize = 8;

/// Limits the requests of each key over time.
///
/// Requests above the limit get 429 with `Retry-After`. Requests that come evenly pass at the rate;
/// after a pause a key may make `burst` requests at once. Limits with the same settings count
/// together wherever they are, also after a reload: a `name` separates them.
#[derive(Clone, Debug, PartialEq, Setting)]
#[setting(check = check)]
pub(super) struct RateLimit {
    /// How many requests a key may make over time; instead of `limits`.
    #[setting(example = "200/s", example = "10/m")]
    pub(super) rate: Option<Rate>,
    /// How many requests a key may make at once; without it as many as the rate allows in a
    /// second, at least one.
    #[setting(range = 1..=1000000, example = 50)]
    pub(super) burst: Option<u32>,
    /// How requests are counted over time.
    #[setting(default = "bucket")]
    pub(super) window: Window,
    /// Several limits at once, up to eight; instead of `rate`. A request passes if all of them
    /// allow it; one that any of them rejects counts for none.
    #[setting(
        default = [],
        example = [{ "rate": "10/s" }, { "rate": "1000/h", "window": "sliding" }]
    )]
    pub(super) limits: Vec<OneLimit>,
    /// The key by which requests are counted. Requests for which it is empty count as one.
    #[setting(default = "client_ip", example = "header.x-user", example = "{consumer}-{host}")]
    pub(super) key: Key,
    /// Costs other than 1: the first entry whose condition holds applies. A request that costs more
    /// than `burst` never passes.
    #[setting(default = [], example = [{ "when": { "query": "export" }, "cost": 10 }])]
    pub(super) cost: Vec<Cost>,
    /// Where the key is `client_ip`: how many bits of an IPv6 address count. A single customer
    /// usually has 64.
    #[setting(default = 64, range = 1..=128)]
    pub(super) ipv6_prefix: u8,
    /// Uses the rate and burst in the `limits` of the request's consumer, if its entry has them;
    /// `rate` and `burst` are for all others. The key contains the consumer.
    #[setting(default = false)]
    pub(super) consumer_limits: bool,
    /// The status of a rejection.
    #[setting(default = 429, range = 400..=599)]
    pub(super) status: u16,
    /// Sends the remaining requests to clients, in `RateLimit` and `RateLimit-Policy`. Of several
    /// limits these show the one with the fewest remaining requests.
    #[setting(default = true)]
    pub(super) headers: bool,
    /// The name of the limit: limits of the same name and key count together, and others do not.
    /// Clients see it.
    pub(super) name: Option<String>,
    /// Counts together with the servers that have a limit of the same name, through the Redis of
    /// `shared`. Each server decides by itself and exchanges counts with Redis some times in a
    /// second; without Redis it allows its share.
    #[setting(default = false)]
    pub(super) shared: bool,
    /// How many keys are stored for each limit. Beyond that, keys that were idle longest begin
    /// again with a full burst.
    #[setting(default = 65536, range = 1..=16777216)]
    pub(super) entries: u32,
}

/// One of several limits.
#[derive(Clone, Debug, PartialEq, Setting)]
pub(super) struct OneLimit {
    /// How many requests a key may make over time.
    #[setting(example = "10/s")]
    pub(super) rate: Rate,
    /// How many requests a key may make at once; as in the filter.
    #[setting(range = 1..=1000000, example = 50)]
    pub(super) burst: Option<u32>,
    /// How requests are counted over time.
    #[setting(default = "bucket")]
    pub(super) window: Window,
    /// What this limit counts by; without it the `key` of the filter.
    #[setting(example = "consumer")]
    pub(super) key: Option<Key>,
    /// Uses the rate and burst of the request's consumer; as in the filter.
    #[setting(default = false)]
    pub(super) consumer_limits: bool,
    /// The name of this limit; without it its rate.
    pub(super) name: Option<String>,
}

/// How requests are counted over time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Setting)]
pub(super) enum Window {
    /// A token bucket: `burst` requests at once, refilled at the rate (GCRA).
    Bucket,
    /// At most the number of the rate within a window of its unit (second, minute or hour) that
    /// slides. It has no `burst`. An estimate from two counters: it takes the requests of the
    /// window before as evenly spread.
    Sliding,
}

impl RateLimit {
    /// The limits, however they are written.
    pub(super) fn limits(&self) -> Vec<OneLimit> {
        let only = self.rate.map(|rate| OneLimit {
            rate,
            burst: self.burst,
            window: self.window,
            key: None,
            consumer_limits: self.consumer_limits,
            name: Some(self.name.clone().unwrap_or_else(|| "default".to_owned())),
        });
        only.into_iter().chain(self.limits.iter().cloned()).collect()
    }
}

impl OneLimit {
    /// How many requests may come at once.
    pub(super) fn burst(&self) -> u32 {
        window_burst(self.window, self.rate, self.burst)
    }

    pub(super) fn label(&self) -> String {
        self.name.clone().unwrap_or_else(|| self.rate.to_string())
    }
}

pub(super) fn window_burst(window: Window, rate: Rate, own: Option<u32>) -> u32 {
    match window {
        Window::Bucket => own.unwrap_or_else(|| burst(rate)),
        Window::Sliding => rate.count,
    }
}

/// The burst of a bucket without its own.
pub(crate) fn burst(rate: Rate) -> u32 {
    (rate.per_second() as u32).max(1)
}

fn check(settings: &RateLimit, node: &Node, reader: &mut Reader<'_>) {
    if settings.rate.is_some() != settings.limits.is_empty() {
        reader.error(node.span, "a rate limit needs either `rate` or `limits`");
        return;
    }
    if settings.shared {
        reader.uses_shared(node.get("shared").unwrap_or(node).span);
    }
    if settings.limits.len() > LIMITS_MAX {
        let span = node.get("limits").unwrap_or(node).span;
        reader.error(span, format!("a filter has at most {LIMITS_MAX} limits"));
    }
    if settings.rate.is_none() {
        for key in ["burst", "window", "consumer_limits", "name"] {
            if let Some(written) = node.get(key) {
                let why = format!("`{key}` belongs to an entry of `limits`");
                reader.error(written.span, why);
            }
        }
    }
    let limits = settings.limits();
    let keys = limits.iter().map(|limit| limit.key.as_ref().unwrap_or(&settings.key));
    check_ipv6_prefix(keys, node, reader);
    for (at, limit) in limits.iter().enumerate() {
        let written = node.get("limits").and_then(|list| list.list()?.get(at)).unwrap_or(node);
        check_limit(limit, settings, written, reader);
        let same = |other: &&OneLimit| other.label() == limit.label();
        if limits[..at].iter().any(|other| same(&other)) {
            let why = format!("two limits are called \"{}\"", limit.label());
            reader.error(written.span, why).help("give them different names");
        }
    }
}

fn check_limit(limit: &OneLimit, settings: &RateLimit, node: &Node, reader: &mut Reader<'_>) {
    let burst = limit.burst();
    if settings.cost.iter().any(|entry| entry.cost > burst) {
        let span = node.get("cost").unwrap_or(node).span;
        let why = format!("a cost above the burst of {burst} never passes");
        reader.error(span, why).help("raise `burst`");
    }
    if limit.window == Window::Sliding {
        if let Some(written) = node.get("burst") {
            reader.error(written.span, "a sliding window has no `burst`");
        }
        if limit.rate.count > sliding::LIMIT_MAX {
            let why = format!("a sliding window counts at most {}", sliding::LIMIT_MAX);
            reader.error(node.get("rate").unwrap_or(node).span, why);
        }
    }
    if settings.shared && limit.window == Window::Sliding {
        let why = "a sliding window counts on one server only";
        let span = node.get("window").unwrap_or(node).span;
        reader.error(span, why).help("write `window: bucket`, or remove `shared`");
    }
    if limit.consumer_limits {
        check_consumer_key(limit.key.as_ref().unwrap_or(&settings.key), node, reader);
    }
    if let Some(name) = &limit.name {
        check_name(name, node, reader);
    }
}

/// Reports a key under which consumers with limits of their own would count together.
pub(crate) fn check_consumer_key(key: &Key, node: &Node, reader: &mut Reader<'_>) {
    if !key.template().variables().any(|variable| *variable == Variable::Consumer) {
        let span = node.get("consumer_limits").unwrap_or(node).span;
        let why = "limits of consumers need a key with the consumer in it";
        reader.error(span, why).help("write `key: consumer`");
    }
}
