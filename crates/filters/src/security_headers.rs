//! `security_headers`: the fields that tell browsers to be strict, with safe defaults.
//!
//! Promises that HSTS is sent over TLS only (RFC 6797 7.2), and that a field of the upstream wins
//! unless `replace` is set: an application may know better for one of its pages.

use std::rc::Rc;
use std::sync::Arc;

use message::{Headers, Request, Response, Scheme, SharedHeaders};
use plugin::{
    Filter, FilterKind, FilterPlan, HeaderName, MaybeFuture, Stage, Step, WorkerContext,
    remove_trailers,
};
use settings::{Duration, Node, Reader, Setting};
use wire::Known;

use crate::request_id::RandomIds;

pub(crate) const KIND: FilterKind =
    FilterKind { name: "security_headers", schema: SecurityHeaders::schema, read };

/// Adds the headers that enable protections of browsers.
///
/// Added where a response does not have the field, also to responses that this server generates. An
/// empty text sends no such field.
#[derive(Clone, Debug, PartialEq, Setting)]
#[setting(check = check)]
struct SecurityHeaders {
    /// `Strict-Transport-Security`; sent over TLS only. `max_age: 0s` tells browsers to forget it.
    #[setting(default = {})]
    hsts: Hsts,
    /// `X-Content-Type-Options: nosniff`: browsers do not guess media types.
    #[setting(default = true)]
    nosniff: bool,
    /// `X-Frame-Options`: which pages may frame this one.
    #[setting(default = "SAMEORIGIN")]
    frame_options: String,
    /// `Referrer-Policy`: what other sites learn about the page that links to them.
    #[setting(default = "strict-origin-when-cross-origin")]
    referrer_policy: String,
    /// `Content-Security-Policy`. In place of `{nonce}` stand 128 random bits, other ones for each
    /// request: a page with a nonce is not to be stored by caches.
    #[setting(
        default = "",
        example = "default-src 'self'; frame-ancestors 'none'",
        example = "script-src 'nonce-{nonce}' 'strict-dynamic'"
    )]
    content_security_policy: String,
    /// The header of the request in which the handler gets the nonce of `content_security_policy`,
    /// to write it into pages. One that the client sent is replaced.
    #[setting(default = "x-csp-nonce")]
    csp_nonce_header: HeaderName,
    /// Sends the policy as `Content-Security-Policy-Report-Only`: violations are only reported.
    #[setting(default = false)]
    csp_report_only: bool,
    /// `Permissions-Policy`: which browser features a page may use.
    #[setting(default = "", example = "camera=(), microphone=()")]
    permissions_policy: String,
    /// `Cross-Origin-Opener-Policy`.
    #[setting(default = "", example = "same-origin")]
    cross_origin_opener_policy: String,
    /// `Cross-Origin-Resource-Policy`.
    #[setting(default = "", example = "same-site")]
    cross_origin_resource_policy: String,
    /// Replaces fields that the response has.
    #[setting(default = false)]
    replace: bool,
}

/// Browsers then use only HTTPS for the host.
#[derive(Clone, Debug, PartialEq, Setting)]
struct Hsts {
    /// Sends the field.
    #[setting(default = true)]
    enabled: bool,
    /// How long browsers remember it.
    #[setting(default = "365d", range = "0s"..="3650d")]
    max_age: Duration,
    /// Also for all subdomains.
    #[setting(default = false)]
    include_subdomains: bool,
    /// Asks for inclusion in the lists of browsers; needs a year and all subdomains.
    #[setting(default = false)]
    preload: bool,
}

const YEAR_S: u64 = 365 * 24 * 60 * 60;
/// Where the nonce stands in a policy.
const NONCE: &str = "{nonce}";

fn check(settings: &SecurityHeaders, node: &Node, reader: &mut Reader<'_>) {
    let at = |key: &str| node.get(key).unwrap_or(node).span;
    let hsts = &settings.hsts;
    if hsts.preload && (!hsts.include_subdomains || hsts.max_age.get().as_secs() < YEAR_S) {
        reader.error(at("hsts"), "preload needs include_subdomains and a max_age of 365d or more");
    }
    if !["", "DENY", "SAMEORIGIN"].contains(&settings.frame_options.as_str()) {
        let help = "for single origins, use frame-ancestors in content_security_policy";
        reader.error(at("frame_options"), "frame_options is DENY or SAMEORIGIN").help(help);
    }
    if settings.csp_report_only && settings.content_security_policy.is_empty() {
        reader.error(at("csp_report_only"), "there is no content_security_policy to report");
    }
    let policy = &settings.content_security_policy;
    if policy.replace(NONCE, "").contains(['{', '}']) {
        let why = "the only variable of content_security_policy is {nonce}";
        reader.error(at("content_security_policy"), why);
    }
    if let Some(header) = node.get("csp_nonce_header")
        && !policy.contains(NONCE)
    {
        reader.error(header.span, "there is no {nonce} in content_security_policy");
    }
    for (key, value) in [
        ("referrer_policy", &settings.referrer_policy),
        ("content_security_policy", &settings.content_security_policy),
        ("permissions_policy", &settings.permissions_policy),
        ("cross_origin_opener_policy", &settings.cross_origin_opener_policy),
        ("cross_origin_resource_policy", &settings.cross_origin_resource_policy),
    ] {
        if value.bytes().any(|byte| byte.is_ascii_control()) {
            reader.error(at(key), "the value of a header has no control characters");
        }
    }
}

fn read(node: &Node, reader: &mut Reader<'_>) -> Option<Arc<dyn FilterPlan>> {
    let settings = SecurityHeaders::read(node, reader)?;
    Some(Arc::new(SecurityHeadersPlan(Arc::new(Fields::new(settings)))))
}

/// The fields to add.
struct Fields {
    always: SharedHeaders,
    /// The names of `always`.
    names: Vec<Known>,
    over_tls: SharedHeaders,
    policy: Option<NoncePolicy>,
    replace: bool,
}

/// A `Content-Security-Policy` with a nonce.
struct NoncePolicy {
    name: Known,
    /// What stands before, between and after the nonces.
    pieces: Vec<String>,
    /// The field of the request that has the nonce.
    header: HeaderName,
}

impl NoncePolicy {
    /// The policy for a request.
    fn fill(&self, request: &Request, ids: &RandomIds) -> String {
        // Before `on_request` the field is the client's, which must not extend the policy.
        let is_nonce =
            |text: &&str| text.len() == 32 && text.bytes().all(|b| b.is_ascii_hexdigit());
        match request.headers.get_str(&self.header).filter(is_nonce) {
            Some(nonce) => self.pieces.join(nonce),
            // No handler has seen the request, or a filter has removed the field.
            None => self.pieces.join(&ids.hex()),
        }
    }
}

impl Fields {
    fn new(settings: SecurityHeaders) -> Fields {
        let csp = match settings.csp_report_only {
            true => Known::ContentSecurityPolicyReportOnly,
            false => Known::ContentSecurityPolicy,
        };
        let (fixed_policy, policy) = match settings.content_security_policy {
            policy if policy.contains(NONCE) => {
                let pieces = policy.split(NONCE).map(str::to_owned).collect();
                let header = settings.csp_nonce_header;
                (String::new(), Some(NoncePolicy { name: csp, pieces, header }))
            }
            policy => (policy, None),
        };
        let nosniff = if settings.nosniff { "nosniff" } else { "" };
        let always = [
            (Known::XContentTypeOptions, nosniff.to_owned()),
            (Known::XFrameOptions, settings.frame_options),
            (Known::ReferrerPolicy, settings.referrer_policy),
            (csp, fixed_policy),
            (Known::PermissionsPolicy, settings.permissions_policy),
            (Known::CrossOriginOpenerPolicy, settings.cross_origin_opener_policy),
            (Known::CrossOriginResourcePolicy, settings.cross_origin_resource_policy),
        ];
        let given = always.iter().filter(|(_, value)| !value.is_empty());
        let names = given.clone().map(|(name, _)| *name).collect();
        let Hsts { enabled, max_age, include_subdomains, preload } = settings.hsts;
        let subdomains = if include_subdomains { "; includeSubDomains" } else { "" };
        let preload = if preload { "; preload" } else { "" };
        let hsts = format!("max-age={}{subdomains}{preload}", max_age.get().as_secs());
        let over_tls = enabled.then_some((Known::StrictTransportSecurity, hsts));
        Fields {
            always: shared(given),
            names,
            over_tls: shared(over_tls.iter()),
            policy,
            replace: settings.replace,
        }
    }

    fn add(&self, request: &Request, response: &mut Response, ids: &RandomIds) {
        if let Some(policy) = &self.policy
            && (self.replace || !response.headers.contains(policy.name))
        {
            response.headers.set(policy.name, policy.fill(request, ids));
        }
        self.add_all(&self.always, &self.names, &mut response.headers);
        if request.scheme == Scheme::Https {
            const NAMES: [Known; 1] = [Known::StrictTransportSecurity];
            self.add_all(&self.over_tls, &NAMES, &mut response.headers);
        }
    }

    fn add_all(&self, fields: &SharedHeaders, names: &[Known], headers: &mut Headers) {
        // Most responses have none of them.
        if !headers.contains_any(names) {
            return headers.append_all(fields);
        }
        for field in fields.headers().iter() {
            if self.replace {
                headers.set(field.name, field.value);
            } else if !headers.contains(field.name) {
                headers.append(field.name, field.value);
            }
        }
    }
}

/// These fields, as they are sent.
fn shared<'f>(fields: impl Iterator<Item = &'f (Known, String)>) -> SharedHeaders {
    let mut headers = Headers::new();
    fields.for_each(|(name, value)| headers.append(*name, value));
    SharedHeaders::from(&headers)
}

struct SecurityHeadersPlan(Arc<Fields>);

impl FilterPlan for SecurityHeadersPlan {
    fn name(&self) -> &'static str {
        KIND.name
    }

    fn build(&self, _: &WorkerContext) -> Stage {
        let nonce_header = self.0.policy.iter().map(|policy| policy.header.clone()).collect();
        let (fields, ids) = (self.0.clone(), RandomIds::default());
        Stage::Filter(Rc::new(SecurityHeadersFilter { fields, nonce_header, ids }))
    }

    fn describe(&self) -> String {
        let mut words: Vec<_> = self.0.names.iter().map(|name| name.as_str()).collect();
        words.extend(self.0.policy.as_ref().map(|policy| policy.name.as_str()));
        let over_tls = self.0.over_tls.headers();
        words.extend(over_tls.iter().filter_map(|field| Some(field.known?.as_str())));
        words.join(", ")
    }

    fn changes_generated(&self) -> bool {
        true
    }
}

struct SecurityHeadersFilter {
    fields: Arc<Fields>,
    /// The header of the nonce, if there is one.
    nonce_header: Rc<[HeaderName]>,
    ids: RandomIds,
}

impl Filter for SecurityHeadersFilter {
    fn name(&self) -> &'static str {
        KIND.name
    }

    fn is_instant(&self) -> bool {
        true
    }

    fn on_request<'a>(&'a self, request: &'a mut Request) -> MaybeFuture<'a, Step> {
        if let Some(policy) = &self.fields.policy {
            request.headers.set(&policy.header, &*self.ids.hex());
            remove_trailers(request, &self.nonce_header);
        }
        Step::Continue.into()
    }

    fn on_response<'a>(
        &'a self,
        request: &'a mut Request,
        response: &'a mut Response,
    ) -> MaybeFuture<'a, Step> {
        self.fields.add(request, response, &self.ids);
        Step::Continue.into()
    }

    fn on_generated(&self, request: &Request, response: &mut Response) {
        self.fields.add(request, response, &self.ids);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{body_with_trailers, errors, filter, get, passed, trailer_names};
    use settings::node;

    fn response(settings: &Node, scheme: Scheme, own: &[(&str, &str)]) -> Response {
        let filter = filter(&KIND, settings);
        let mut request = get("/", &[]);
        request.scheme = scheme;
        let mut response = Response::new(200);
        for (name, value) in own {
            response.headers.append(*name, *value);
        }
        passed(filter.on_response(&mut request, &mut response)).unwrap();
        let mut generated = Response::new(502);
        filter.on_generated(&request, &mut generated);
        assert_eq!(generated.headers.contains("x-frame-options"), own.is_empty());
        response
    }

    #[test]
    fn the_declaration_is_valid() {
        settings::verify::<SecurityHeaders>().unwrap();
    }

    #[test]
    fn defaults_are_safe_and_hsts_needs_tls() {
        let plain = response(&node!({}), Scheme::Http, &[]);
        let value = |response: &Response, name| response.headers.get_str(name).map(str::to_owned);
        assert_eq!(value(&plain, "x-content-type-options").as_deref(), Some("nosniff"));
        assert_eq!(value(&plain, "x-frame-options").as_deref(), Some("SAMEORIGIN"));
        assert!(value(&plain, "referrer-policy").is_some());
        assert_eq!(value(&plain, "strict-transport-security"), None);
        assert_eq!(value(&plain, "content-security-policy"), None);
        let secure = response(&node!({}), Scheme::Https, &[]);
        let hsts = value(&secure, "strict-transport-security");
        assert_eq!(hsts.as_deref(), Some("max-age=31536000"));
        let settings = node!({ "hsts": { "enabled": false } });
        assert!(
            value(&response(&settings, Scheme::Https, &[]), "strict-transport-security").is_none()
        );
    }

    #[test]
    fn fields_of_the_response_win_unless_replaced() {
        let own = [("referrer-policy", "no-referrer")];
        for (settings, wanted) in [
            (node!({ "frame_options": "" }), "no-referrer"),
            (node!({ "frame_options": "", "replace": true }), "strict-origin-when-cross-origin"),
        ] {
            let response = response(&settings, Scheme::Https, &own);
            let all: Vec<_> = response.headers.get_all("referrer-policy").collect();
            assert_eq!(all, [wanted.as_bytes()]);
        }
    }

    #[test]
    fn a_policy_may_only_report() {
        let settings = node!({
            "content_security_policy": "default-src 'self'", "csp_report_only": true,
        });
        let response = response(&settings, Scheme::Http, &[]);
        assert!(response.headers.contains("content-security-policy-report-only"));
        assert!(!response.headers.contains("content-security-policy"));
    }

    #[test]
    fn a_nonce_is_the_same_for_handler_and_browser_and_another_for_each_request() {
        let settings = node!({
            "content_security_policy": "script-src 'nonce-{nonce}'; style-src 'nonce-{nonce}'",
            "csp_nonce_header": "x-nonce",
        });
        let filter = filter(&KIND, &settings);
        let mut nonces = std::collections::HashSet::new();
        let policy = |response: &Response| {
            response.headers.get_str("content-security-policy").unwrap().to_owned()
        };
        for _ in 0..100 {
            let mut request = get("/", &[("x-nonce", "chosen-by-client")]);
            request.body = body_with_trailers(&["X-Nonce", "x-sum"]);
            passed(filter.on_request(&mut request)).unwrap();
            assert_eq!(request.headers.get_all("x-nonce").count(), 1);
            assert_eq!(trailer_names(std::mem::take(&mut request.body)), ["x-sum"]);
            let nonce = request.headers.get_str("x-nonce").unwrap().to_owned();
            assert!(nonce.len() == 32 && nonce.bytes().all(|byte| byte.is_ascii_hexdigit()));
            let mut response = Response::new(200);
            passed(filter.on_response(&mut request, &mut response)).unwrap();
            let wanted = format!("script-src 'nonce-{nonce}'; style-src 'nonce-{nonce}'");
            assert_eq!(policy(&response), wanted);
            assert!(nonces.insert(nonce));
            // No handler has got the nonce.
            for fields in [&[][..], &[("x-nonce", "'; script-src *")]] {
                let (mut generated, request) = (Response::new(502), get("/", fields));
                filter.on_generated(&request, &mut generated);
                let policy = policy(&generated);
                assert!(!policy.contains("''") && !policy.contains('*'), "{policy}");
                assert!(nonces.insert(policy));
            }
        }
        let mut own = Response::new(200);
        own.headers.append("content-security-policy", "default-src 'none'");
        passed(filter.on_response(&mut get("/", &[]), &mut own)).unwrap();
        assert_eq!(policy(&own), "default-src 'none'");
    }

    #[test]
    fn errors_are_named() {
        for (settings, why) in [
            (node!({ "frame_options": "ALLOW-FROM https://a" }), "DENY or SAMEORIGIN"),
            (node!({ "hsts": { "preload": true } }), "needs include_subdomains"),
            (node!({ "csp_report_only": true }), "no content_security_policy"),
            (node!({ "content_security_policy": "a {nonces}" }), "the only variable"),
            (node!({ "csp_nonce_header": "x-nonce" }), "there is no {nonce}"),
            (node!({ "permissions_policy": "a\nb" }), "control characters"),
        ] {
            let report = errors(&KIND, &settings);
            assert!(report.contains(why), "{report}\nwanted {why}");
        }
    }
}
