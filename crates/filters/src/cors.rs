//! `cors`: which web pages of other origins may read responses (WHATWG Fetch, section 3.3).
//!
//! Responds to preflights itself and sets the fields of all other responses, including those that
//! the server generates. Promises that no origin is allowed that the settings do not name, that
//! credentials are never combined with a wildcard, and that `Vary` lists the fields a response
//! depends on. The fields of an upstream are replaced: two policies in one response are an error to
//! browsers.

use std::rc::Rc;
use std::sync::Arc;

use message::{Fault, FaultKind, Headers, Request, Response};
use plugin::{Filter, FilterKind, FilterPlan, HeaderName, MaybeFuture, Stage, Step, WorkerContext};
use settings::{Duration, Node, OneOrMany, Reader, Regex, Setting};
use telemetry::{CachePadded, Counter};
use wire::{Known, Method};

use crate::origin::OriginPattern;
use crate::vary::vary_on;

pub(crate) const KIND: FilterKind = FilterKind { name: "cors", schema: Cors::schema, read };

/// Allows web pages of other origins to use the route (CORS).
///
/// Responds to preflight requests (`OPTIONS` with `Access-Control-Request-Method`): 204 if the
/// origin, the method and all headers are allowed, otherwise 403. All other requests pass, and the
/// CORS headers of their responses tell browsers whether the page may read them, also if this
/// server generated the response. The CORS fields of the upstream are replaced. A route with
/// `methods` needs `OPTIONS` among them.
#[derive(Clone, Debug, PartialEq, Setting)]
#[setting(check = check)]
struct Cors {
    /// The allowed origins: exact ones, all subdomains, or `*` alone for every origin.
    #[setting(default = [], example = ["https://shop.example.com", "https://*.example.org"])]
    origins: OneOrMany<Origin>,
    /// Further origins, as a regular expression over the whole origin. With `credentials` one that
    /// any origin or `null` matches is an error.
    #[setting(example = "https://pr-[0-9]+\\.preview\\.example\\.com")]
    origin_regex: Option<Regex>,
    /// The methods that pages may use.
    #[setting(default = ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE"])]
    methods: Vec<String>,
    /// The request headers that pages may set, except those that need no permission; `*` for all.
    #[setting(default = [], example = ["authorization", "content-type"])]
    headers: Vec<HeaderName>,
    /// The response headers that pages may read, except those that need no permission.
    #[setting(default = [], example = ["x-request-id"])]
    expose: Vec<HeaderName>,
    /// Allows requests with cookies, client certificates and HTTP authentication.
    #[setting(default = false)]
    credentials: bool,
    /// How long browsers may store the result of a preflight. Browsers have their own maxima.
    #[setting(default = "10m", range = "0s"..="1d")]
    max_age: Duration,
    /// Allows pages of public sites to reach this server in a private network.
    #[setting(default = false)]
    private_network: bool,
}

/// An entry of `origins`.
#[derive(Clone, Debug, PartialEq)]
enum Origin {
    Any,
    Pattern(OriginPattern),
}

impl std::str::FromStr for Origin {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        if text == "*" { Ok(Origin::Any) } else { text.parse().map(Origin::Pattern) }
    }
}

impl Setting for Origin {
    fn schema(_: &mut settings::SchemaBuilder) -> settings::Schema {
        settings::Schema::pattern("origin", r"^(\*|[a-z][a-z0-9-]*://(\*\.)?[^/*?#@]+)$")
    }

    fn read(node: &Node, reader: &mut Reader<'_>) -> Option<Self> {
        reader.parse(node, "an origin such as https://shop.example.com, or *")
    }
}

fn check(settings: &Cors, node: &Node, reader: &mut Reader<'_>) {
    let at = |key: &str| node.get(key).unwrap_or(node).span;
    let any = settings.origins.0.contains(&Origin::Any);
    if settings.origins.0.is_empty() && settings.origin_regex.is_none() {
        reader.error(node.span, "no origin is allowed: give origins or origin_regex");
    }
    if any && (settings.origins.0.len() > 1 || settings.origin_regex.is_some()) {
        reader.error(at("origins"), "* allows every origin: it stands alone");
    }
    if any && settings.credentials {
        let why = "credentials for every origin would let any page act as its visitor";
        reader.error(at("credentials"), why).help("name the origins");
    }
    if settings.credentials && settings.origin_regex.as_ref().is_some_and(allows_made_up_origin) {
        let why = "with credentials this expression would let any page act as its visitor";
        reader.error(at("origin_regex"), why).help("name the hosts, with escaped dots");
    }
    if settings.methods.is_empty() {
        reader.error(at("methods"), "no method is allowed");
    }
    for method in &settings.methods {
        if !matches!(Method::parse(method.as_bytes()), Some(known) if known.as_str() == method) {
            reader
                .error(at("methods"), format!("{method:?} is not a method: write GET, POST, ..."));
        }
    }
}

/// Origins that no author of an expression means: any site, and pages without an origin.
const MADE_UP_ORIGINS: [&str; 4] = [
    "https://made-up-by-tidegate.invalid",
    "http://made-up-by-tidegate.invalid",
    "https://made-up-by-tidegate.invalid:8443",
    "null",
];

fn allows_made_up_origin(regex: &Regex) -> bool {
    anchored(regex).is_ok_and(|regex| MADE_UP_ORIGINS.iter().any(|origin| regex.is_match(origin)))
}

/// An expression that matches a whole origin.
fn anchored(regex: &Regex) -> Result<Regex, String> {
    format!("^(?:{})$", regex.as_str()).parse()
}

fn read(node: &Node, reader: &mut Reader<'_>) -> Option<Arc<dyn FilterPlan>> {
    let settings = Cors::read(node, reader)?;
    let regex = match &settings.origin_regex {
        // The settings' expression is valid; anchoring makes it no larger than the limit allows.
        Some(regex) => match anchored(regex) {
            Ok(anchored) => Some(anchored),
            Err(why) => {
                reader.error(node.get("origin_regex").unwrap_or(node).span, why);
                return None;
            }
        },
        None => None,
    };
    Some(Arc::new(CorsPlan(Arc::new(Policy::new(settings, regex)))))
}

/// The settings, prepared for requests.
struct Policy {
    any: bool,
    patterns: Vec<OriginPattern>,
    regex: Option<Regex>,
    methods: Vec<String>,
    methods_value: String,
    /// In lower case.
    headers: Vec<String>,
    any_header: bool,
    expose: String,
    credentials: bool,
    max_age: String,
    private_network: bool,
}

impl Policy {
    fn new(settings: Cors, regex: Option<Regex>) -> Policy {
        let any = settings.origins.0.contains(&Origin::Any);
        let patterns = settings.origins.0.into_iter().filter_map(|origin| match origin {
            Origin::Any => None,
            Origin::Pattern(pattern) => Some(pattern),
        });
        let headers: Vec<_> =
            settings.headers.iter().map(|name| name.as_str().to_owned()).collect();
        let expose: Vec<_> = settings.expose.iter().map(HeaderName::as_str).collect();
        Policy {
            any,
            patterns: patterns.collect(),
            regex,
            methods_value: settings.methods.join(", "),
            methods: settings.methods,
            any_header: headers.iter().any(|name| name == "*"),
            headers,
            expose: expose.join(", "),
            credentials: settings.credentials,
            max_age: settings.max_age.get().as_secs().to_string(),
            private_network: settings.private_network,
        }
    }

    fn allows_origin(&self, origin: &[u8]) -> bool {
        self.any
            || self.patterns.iter().any(|pattern| pattern.matches(origin))
            || self.regex.as_ref().is_some_and(|regex| {
                std::str::from_utf8(origin).is_ok_and(|origin| regex.is_match(origin))
            })
    }

    /// Why a preflight is rejected: a word for the counter and the log.
    fn rejection(&self, request: &Request, origin: &[u8]) -> Option<&'static str> {
        let headers = &request.headers;
        let method = headers.get(Known::AccessControlRequestMethod).unwrap_or_default();
        // These need no permission (Fetch 2.2.1), whatever the settings name.
        let is_simple = [&b"GET"[..], b"HEAD", b"POST"].contains(&method);
        let allows_header = |name: &str| {
            self.any_header || self.headers.iter().any(|own| own.eq_ignore_ascii_case(name))
        };
        let mut requested = requested_headers(headers);
        if !self.allows_origin(origin) {
            Some("origin")
        } else if !is_simple && !self.methods.iter().any(|own| own.as_bytes() == method) {
            Some("method")
        } else if !requested.all(|name| name.is_some_and(allows_header)) {
            Some("headers")
        } else if requests_private_network(headers) && !self.private_network {
            Some("private_network")
        } else {
            None
        }
    }

    /// The response to an allowed preflight.
    fn preflight(&self, request: &Request, origin: &[u8]) -> Response {
        let mut response = Response::new(204);
        let fields = &mut response.headers;
        self.mark_origin(Some(origin), fields);
        fields.append(Known::AccessControlAllowMethods, &self.methods_value);
        let requested: Vec<&str> = requested_headers(&request.headers).flatten().collect();
        if !requested.is_empty() {
            // With credentials a `*` would be a name, not a wildcard.
            fields.append(Known::AccessControlAllowHeaders, requested.join(", "));
        }
        fields.append(Known::AccessControlMaxAge, &self.max_age);
        if requests_private_network(&request.headers) {
            fields.append("access-control-allow-private-network", "true");
        }
        vary_on_preflight(fields);
        response
    }

    /// Sets the fields of a response to any other request; those of an upstream are removed.
    fn mark(&self, request: &Request, fields: &mut Headers) {
        if fields.contains_any(&OURS) {
            for name in OURS {
                fields.remove(name);
            }
        }
        let origin = origin(&request.headers);
        if self.mark_origin(origin, fields) && !self.expose.is_empty() {
            fields.append(Known::AccessControlExposeHeaders, &self.expose);
        }
    }

    /// Sets the fields that allow an origin, if it is allowed.
    fn mark_origin(&self, origin: Option<&[u8]>, fields: &mut Headers) -> bool {
        if self.any {
            // The same for every request, with and without Origin: one stored response serves all.
            fields.append(Known::AccessControlAllowOrigin, "*");
            return true;
        }
        vary_on(fields, "Origin");
        let Some(origin) = origin.filter(|origin| self.allows_origin(origin)) else { return false };
        fields.append(Known::AccessControlAllowOrigin, origin);
        if self.credentials {
            fields.append(Known::AccessControlAllowCredentials, "true");
        }
        true
    }
}

/// The fields that a response to a request other than a preflight has from this filter only.
const OURS: [Known; 6] = [
    Known::AccessControlAllowOrigin,
    Known::AccessControlAllowCredentials,
    Known::AccessControlExposeHeaders,
    Known::AccessControlAllowMethods,
    Known::AccessControlAllowHeaders,
    Known::AccessControlMaxAge,
];

/// The request's origin; `None` if it has none or several.
fn origin(headers: &Headers) -> Option<&[u8]> {
    let mut all = headers.get_all(Known::Origin);
    let first = all.next()?;
    all.next().is_none().then_some(first)
}

/// The names in Access-Control-Request-Headers; `None` for what is not a name.
fn requested_headers(headers: &Headers) -> impl Iterator<Item = Option<&str>> {
    headers
        .get_all(Known::AccessControlRequestHeaders)
        .flat_map(|value| value.split(|byte| *byte == b','))
        .map(<[u8]>::trim_ascii)
        .filter(|name| !name.is_empty())
        .map(|name| std::str::from_utf8(name).ok().filter(|_| wire::token::is_token(name)))
}

fn requests_private_network(headers: &Headers) -> bool {
    headers.get("access-control-request-private-network") == Some(b"true")
}

fn is_preflight(request: &Request) -> bool {
    request.method == Method::Options
        && request.headers.contains(Known::Origin)
        && request.headers.contains(Known::AccessControlRequestMethod)
}

fn vary_on_preflight(fields: &mut Headers) {
    for name in [
        "Origin",
        "Access-Control-Request-Method",
        "Access-Control-Request-Headers",
        "Access-Control-Request-Private-Network",
    ] {
        vary_on(fields, name);
    }
}

struct CorsPlan(Arc<Policy>);

impl FilterPlan for CorsPlan {
    fn name(&self) -> &'static str {
        KIND.name
    }

    fn build(&self, worker: &WorkerContext) -> Stage {
        let rejected = REASONS.map(|reason| worker.policy_rejections(KIND.name, reason));
        Stage::Filter(Rc::new(CorsFilter { policy: self.0.clone(), rejected }))
    }

    fn describe(&self) -> String {
        let mut words: Vec<String> = self.0.patterns.iter().map(ToString::to_string).collect();
        words.extend(self.0.any.then(|| "*".to_owned()));
        words.extend(self.0.regex.as_ref().map(|regex| regex.to_string()));
        let credentials = if self.0.credentials { ", with credentials" } else { "" };
        format!("{}{credentials}", words.join(" "))
    }

    fn changes_generated(&self) -> bool {
        true
    }
}

/// Why preflights are rejected.
const REASONS: [&str; 4] = ["origin", "method", "headers", "private_network"];

struct CorsFilter {
    policy: Arc<Policy>,
    /// By [`REASONS`].
    rejected: [Arc<CachePadded<Counter>>; REASONS.len()],
}

impl Filter for CorsFilter {
    fn name(&self) -> &'static str {
        KIND.name
    }

    fn is_instant(&self) -> bool {
        self.policy.regex.is_none()
    }

    fn on_request<'a>(&'a self, request: &'a mut Request) -> MaybeFuture<'a, Step> {
        if !is_preflight(request) {
            return Step::Continue.into();
        }
        let origin = origin(&request.headers).unwrap_or_default();
        let Some(reason) = self.policy.rejection(request, origin) else {
            return Step::Respond(self.policy.preflight(request, origin)).into();
        };
        if let Some(at) = REASONS.iter().position(|known| *known == reason) {
            self.rejected[at].add(1);
        }
        let detail = format!("the CORS preflight is rejected: reason={reason}");
        Step::Fail(Fault::new(FaultKind::Forbidden, detail)).into()
    }

    fn on_response<'a>(
        &'a self,
        request: &'a mut Request,
        response: &'a mut Response,
    ) -> MaybeFuture<'a, Step> {
        // A response that switches protocols has no content for a page to read.
        if response.takeover.is_none() {
            self.policy.mark(request, &mut response.headers);
        }
        Step::Continue.into()
    }

    fn on_generated(&self, request: &Request, response: &mut Response) {
        self.policy.mark(request, &mut response.headers);
        if is_preflight(request) {
            vary_on_preflight(&mut response.headers);
        }
    }
}

#[cfg(test)]
mod tests;
