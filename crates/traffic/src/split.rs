//! `split`: requests go to one of several variants, each with its handler, by weight.
//!
//! The variant is a pure function of a point and of the weights at that time. The point is the next
//! of an even sequence, so that shares are exact ([`Spread`]), or that of the request's key, so
//! that a client keeps its variant. The variants lie on the range of points in the order written: a
//! ramp moves the boundaries and only the keys between their old and new places.

use std::rc::Rc;
use std::sync::Arc;

use message::{HandlerResult, Request, Scheme};
use plugin::{
    Condition, FilterKind, FilterPlan, Handler, HandlerSetting, MaybeFuture, Middleware, Next,
    RouteNames, Stage, WorkerContext, variables,
};
use settings::{Duration, Key, Node, Reader, Setting, Spanned, quote};
use telemetry::families::{self, CLASSES};
use telemetry::{CachePadded, Counter, Histogram, Telemetry, class_index};
use wire::Known;

use crate::share::{Spread, point_of};
use instant::Instant;

mod instant;

pub(crate) const KIND: FilterKind = FilterKind { name: "split", schema: Split::schema, read };

/// Most variants of a split.
const VARIANTS_MAX: usize = 32;
/// Longest name of a variant or a cookie: it is sent with responses.
const NAME_BYTES_MAX: usize = 64;

/// Distributes requests over several variants by weight: canary releases and A/B tests.
///
/// A variant without a handler continues with the filters and the handler of the route. Shares are
/// exact, not random. A weight of 0 stops a variant at the next reload, for clients that have its
/// cookie too.
#[derive(Clone, Debug, PartialEq, Setting)]
#[setting(check = check)]
struct Split {
    /// The variants.
    variants: Vec<Variant>,
    /// Keeps a client on its variant.
    sticky: Option<Sticky>,
    /// Only requests for which this holds; all others continue on the route.
    when: Option<Condition>,
    /// The name of the split, for metrics; without it that of the route.
    name: Option<String>,
}

/// One variant.
#[derive(Clone, Debug, PartialEq, Setting)]
struct Variant {
    /// The name, for metrics and cookies.
    #[setting(example = "canary")]
    name: Spanned<String>,
    /// The share of this variant, relative to the sum of all weights.
    #[setting(default = 1, range = 0..=1000000, example = 5)]
    weight: u32,
    /// Changes the weight over time.
    ramp: Option<Ramp>,
    /// The handler of this variant; without it the rest of the route.
    #[setting(example = { "upstream": "catalog_v2" })]
    handler: Option<HandlerSetting>,
    /// Requests for which this holds always go to this variant, whatever its weight.
    #[setting(example = { "header": "x-canary" })]
    when: Option<Condition>,
}

/// A weight that changes evenly from one time to another. It depends on the clock only: all
/// gateways agree, also after a restart.
#[derive(Clone, Debug, PartialEq, Setting)]
struct Ramp {
    /// When the weight begins to change (RFC 3339).
    #[setting(example = "2027-01-11T09:00:00Z")]
    start: Instant,
    /// How long it takes to reach `weight`; `0s` changes it at once.
    #[setting(default = "0s", example = "1h")]
    over: Duration,
    /// The weight afterwards.
    #[setting(range = 0..=1000000, example = 50)]
    weight: u32,
}

/// What keeps a client on its variant.
#[derive(Clone, Debug, PartialEq, Setting)]
enum Sticky {
    /// A cookie, which the response to the first request sets to the variant.
    Cookie(StickyCookie),
    /// The same variant for the same text, on every gateway: `client_ip`, `consumer`,
    /// `header.x-user`.
    Key(Key),
}

/// The cookie that keeps a client on its variant.
#[derive(Clone, Debug, PartialEq, Setting)]
#[setting(short = name)]
struct StickyCookie {
    /// The name.
    #[setting(example = "variant")]
    name: String,
    /// How long clients store it; unless set, until the browser is closed.
    #[setting(range = "1s"..="400d", example = "30d")]
    max_age: Option<Duration>,
}

fn check(settings: &Split, node: &Node, reader: &mut Reader<'_>) {
    let span = |key| node.get(key).unwrap_or(node).span;
    let count = settings.variants.len();
    if !(1..=VARIANTS_MAX).contains(&count) {
        reader.error(span("variants"), format!("a split has 1 to {VARIANTS_MAX} variants"));
    }
    let token = |text: &str| {
        !text.is_empty()
            && text.len() <= NAME_BYTES_MAX
            && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte))
    };
    for (at, variant) in settings.variants.iter().enumerate() {
        if !token(&variant.name) {
            let why = format!("the name is 1 to {NAME_BYTES_MAX} letters, digits and -_.");
            reader.error(variant.name.span, why);
        }
        if settings.variants[..at].iter().any(|other| other.name == variant.name) {
            let why = format!("another variant is named {}", quote(&variant.name));
            reader.error(variant.name.span, why);
        }
    }
    if count > 0 && settings.times().any(|unix_s| settings.total_at(unix_s) <= 0.0) {
        let why = "at some time no variant has a weight: requests would have nowhere to go";
        reader.error(span("variants"), why).help("give one variant a weight that stays above 0");
    }
    if let Some(Sticky::Cookie(StickyCookie { name, .. })) = &settings.sticky
        && !token(name)
    {
        let why = format!("a cookie has 1 to {NAME_BYTES_MAX} letters, digits and -_.");
        reader.error(span("sticky"), why);
    }
}

fn read(node: &Node, reader: &mut Reader<'_>) -> Option<Arc<dyn FilterPlan>> {
    Some(Arc::new(SplitPlan(Arc::new(Split::read(node, reader)?))))
}

struct SplitPlan(Arc<Split>);

impl FilterPlan for SplitPlan {
    fn name(&self) -> &'static str {
        KIND.name
    }

    fn build(&self, worker: &WorkerContext) -> Stage {
        self.build_on(RouteNames::default(), worker)
    }

    fn build_on(&self, route: RouteNames<'_>, worker: &WorkerContext) -> Stage {
        let name = self.0.name.as_deref().unwrap_or(route.shown);
        let variants = self.0.variants.iter().map(|variant| WorkerVariant {
            handler: variant.handler.as_ref().map(|handler| handler.build(worker)),
            metrics: VariantMetrics::new(&worker.telemetry, worker.index, name, &variant.name),
        });
        Stage::Middleware(Rc::new(SplitFilter {
            variants: variants.collect(),
            points: Spread::new(),
            settings: self.0.clone(),
        }))
    }

    fn handlers(&self) -> Vec<&HandlerSetting> {
        self.0.variants.iter().filter_map(|variant| variant.handler.as_ref()).collect()
    }

    fn needs_authentication(&self) -> bool {
        let by_key = match &self.0.sticky {
            Some(Sticky::Key(key)) => key.template().needs_authentication(),
            Some(Sticky::Cookie(_)) | None => false,
        };
        let by_condition =
            |variant: &Variant| variant.when.as_ref().is_some_and(Condition::needs_authentication);
        by_key
            || self.0.when.as_ref().is_some_and(Condition::needs_authentication)
            || self.0.variants.iter().any(by_condition)
    }

    fn describe(&self) -> String {
        let now_s = net::clock::wall_secs();
        let variant = |variant: &Variant| {
            let handler = variant.handler.as_ref().map(|handler| format!(" to {handler}"));
            let handler = handler.unwrap_or_default();
            format!("{} {:.0}{handler}", variant.name, variant.weight_at(now_s))
        };
        self.0.variants.iter().map(variant).collect::<Vec<_>>().join(", ")
    }
}

impl Variant {
    /// The weight at a time in seconds since 1970.
    fn weight_at(&self, unix_s: u64) -> f64 {
        let from = f64::from(self.weight);
        let Some(ramp) = &self.ramp else { return from };
        let passed = unix_s as f64 - ramp.start.unix_s() as f64;
        let over = ramp.over.get().as_secs_f64();
        let done = match passed >= 0.0 {
            true if passed < over => passed / over,
            true => 1.0,
            false => 0.0,
        };
        from + (f64::from(ramp.weight) - from) * done
    }
}

impl Split {
    /// The times between which all weights change evenly, if at all.
    fn times(&self) -> impl Iterator<Item = u64> {
        let ramps = self.variants.iter().filter_map(|variant| variant.ramp.as_ref());
        let around = |ramp: &Ramp| {
            let start = u64::try_from(ramp.start.unix_s()).unwrap_or(0);
            [start.saturating_sub(1), start, start + ramp.over.get().as_secs()]
        };
        ramps.flat_map(around).chain([0])
    }

    fn total_at(&self, unix_s: u64) -> f64 {
        self.variants.iter().map(|variant| variant.weight_at(unix_s)).sum()
    }

    /// The variant at a point of the range from 0 to 2^64.
    fn variant_at(&self, point: u64, unix_s: u64) -> usize {
        let at = point as f64 / 2f64.powi(64) * self.total_at(unix_s);
        let mut end = 0.0;
        let mut last = 0;
        for (index, variant) in self.variants.iter().enumerate() {
            let weight = variant.weight_at(unix_s);
            if weight > 0.0 {
                end += weight;
                last = index;
                if at < end {
                    return index;
                }
            }
        }
        // Rounding, at the very end of the range.
        last
    }

    /// The variant that a cookie names, unless its weight is 0.
    fn variant_named(&self, name: &[u8], unix_s: u64) -> Option<usize> {
        let is_it =
            |variant: &Variant| variant.name.as_bytes() == name && variant.weight_at(unix_s) > 0.0;
        self.variants.iter().position(is_it)
    }
}

struct WorkerVariant {
    handler: Option<Rc<dyn Handler>>,
    metrics: VariantMetrics,
}

struct VariantMetrics {
    responses: [Arc<CachePadded<Counter>>; CLASSES.len()],
    duration: Arc<Histogram>,
}

impl VariantMetrics {
    fn new(telemetry: &Telemetry, worker: usize, split: &str, variant: &str) -> VariantMetrics {
        let responses = CLASSES.map(|class| {
            telemetry.worker_counter(worker, &families::SPLIT_RESPONSES, &[split, variant, class])
        });
        let labels = [split, variant];
        let duration = telemetry.worker_histogram(worker, &families::SPLIT_DURATION, &labels);
        VariantMetrics { responses, duration }
    }

    fn record(&self, outcome: &HandlerResult, took_us: u64) {
        let status = match outcome {
            Ok(response) => response.status,
            Err(fault) => fault.status,
        };
        self.responses[class_index(status)].inc();
        self.duration.record_us(took_us);
    }
}

struct SplitFilter {
    settings: Arc<Split>,
    variants: Vec<WorkerVariant>,
    points: Spread,
}

/// A variant, and the cookie that the client has to be given.
struct Selection {
    variant: usize,
    set_cookie: bool,
}

impl SplitFilter {
    fn select(&self, request: &Request) -> Selection {
        let meant = |variant: &Variant| variant.when.as_ref().is_some_and(|w| w.holds(request));
        if let Some(variant) = self.settings.variants.iter().position(meant) {
            return Selection { variant, set_cookie: false };
        }
        let now_s = net::clock::wall_secs();
        let (point, set_cookie) = match &self.settings.sticky {
            None => (self.points.next(), false),
            Some(Sticky::Key(key)) => (point_of(&variables::key(key, request)), false),
            Some(Sticky::Cookie(StickyCookie { name, .. })) => {
                let named = |value| self.settings.variant_named(value, now_s);
                if let Some(variant) = variables::cookies(request, name).find_map(named) {
                    return Selection { variant, set_cookie: false };
                }
                (self.points.next(), true)
            }
        };
        Selection { variant: self.settings.variant_at(point, now_s), set_cookie }
    }

    /// Gives the client the cookie of its variant.
    fn set_cookie(&self, variant: usize, scheme: Scheme, outcome: &mut HandlerResult) {
        let Some(Sticky::Cookie(StickyCookie { name, max_age })) = &self.settings.sticky else {
            return;
        };
        let variant = &self.settings.variants[variant].name;
        let max_age = max_age.map(|age| format!("; Max-Age={}", age.get().as_secs()));
        let max_age = max_age.unwrap_or_default();
        let secure = if scheme == Scheme::Https { "; Secure" } else { "" };
        let cookie = format!("{name}={variant}; Path=/{max_age}; HttpOnly; SameSite=Lax{secure}");
        match outcome {
            Ok(response) => response.headers.append(Known::SetCookie, cookie),
            Err(fault) => {
                fault.fields.get_or_insert_default().append(Known::SetCookie, cookie);
            }
        }
    }
}

impl Middleware for SplitFilter {
    fn name(&self) -> &'static str {
        KIND.name
    }

    fn is_instant(&self) -> bool {
        true
    }

    fn call<'a>(
        self: Rc<Self>,
        request: &'a mut Request,
        next: Next,
    ) -> MaybeFuture<'a, HandlerResult> {
        if self.settings.when.as_ref().is_some_and(|when| !when.holds(request)) {
            return MaybeFuture::Future(next.run(request));
        }
        let Selection { variant, set_cookie } = self.select(request);
        MaybeFuture::of(async move {
            let began_us = net::clock::now_us();
            let to = &self.variants[variant];
            let mut outcome = match &to.handler {
                Some(handler) => {
                    let outcome = handler.handle(request).resolve().await;
                    next.skip(request, outcome)
                }
                None => next.run(request).await,
            };
            to.metrics.record(&outcome, net::clock::recent_us().saturating_sub(began_us));
            if set_cookie {
                self.set_cookie(variant, request.scheme, &mut outcome);
            }
            outcome
        })
    }
}

#[cfg(test)]
mod tests;
