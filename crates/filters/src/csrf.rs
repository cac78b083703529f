//! `csrf`: rejects requests that a page of another origin makes a browser send.
//!
//! Decides as `net/http`'s CrossOriginProtection of Go 1.25 does: safe methods pass, here unless
//! they begin a WebSocket; then Sec-Fetch-Site decides, which every current browser sends over TLS;
//! then Origin is compared with Host. Keeps no state and needs no token in the pages.

use std::rc::Rc;
use std::sync::Arc;

use message::{Fault, FaultKind, Request};
use plugin::{Condition, Filter, FilterKind, FilterPlan, MaybeFuture, Stage, Step, WorkerContext};
use settings::{Node, OneOrMany, Reader, Setting};
use telemetry::{CachePadded, Counter};
use wire::Known;

use crate::origin::OriginPattern;

pub(crate) const KIND: FilterKind = FilterKind { name: "csrf", schema: Csrf::schema, read };

/// Rejects requests that pages of other origins make a browser send (CSRF).
///
/// `GET`, `HEAD`, `OPTIONS` and `TRACE` pass unless they begin a WebSocket: they must not change
/// anything. Another request gets 403 if `Sec-Fetch-Site` reports that it comes from another site
/// or subdomain, or, where a browser does not send that, if `Origin` does not have the request's
/// host. Requests with neither field are not from a browser and pass.
#[derive(Clone, Debug, PartialEq, Setting)]
struct Csrf {
    /// Other origins whose pages may send such requests.
    #[setting(default = [], example = ["https://admin.example.com"])]
    trusted_origins: OneOrMany<OriginPattern>,
    /// Requests that are not checked, such as a webhook's.
    #[setting(example = { "header": "x-hub-signature-256" })]
    except: Option<Condition>,
    /// Also rejects requests that have neither `Sec-Fetch-Site` nor `Origin`.
    #[setting(default = false)]
    strict: bool,
}

fn read(node: &Node, reader: &mut Reader<'_>) -> Option<Arc<dyn FilterPlan>> {
    Some(Arc::new(CsrfPlan(Arc::new(Csrf::read(node, reader)?))))
}

struct CsrfPlan(Arc<Csrf>);

impl FilterPlan for CsrfPlan {
    fn name(&self) -> &'static str {
        KIND.name
    }

    fn build(&self, worker: &WorkerContext) -> Stage {
        let rejected = worker.policy_rejections(KIND.name, "cross_origin");
        Stage::Filter(Rc::new(CsrfFilter { settings: self.0.clone(), rejected }))
    }

    fn needs_authentication(&self) -> bool {
        self.0.except.as_ref().is_some_and(Condition::needs_authentication)
    }

    fn describe(&self) -> String {
        match self.0.trusted_origins.0.len() {
            0 => "same origin".to_owned(),
            trusted => format!("same origin and {trusted} trusted"),
        }
    }
}

struct CsrfFilter {
    settings: Arc<Csrf>,
    rejected: Arc<CachePadded<Counter>>,
}

impl CsrfFilter {
    fn allows(&self, request: &Request) -> bool {
        // A page of any origin may open a WebSocket with the cookies of the visitor, and read it.
        if request.method.is_safe() && !request.upgrade {
            return true;
        }
        let headers = &request.headers;
        let (mut origins, mut sites) =
            (headers.get_all(Known::Origin), headers.get_all(Known::SecFetchSite));
        let (origin, site) = (origins.next(), sites.next());
        if origins.next().is_some() || sites.next().is_some() {
            return false;
        }
        let is_trusted = || {
            let named = |pattern: &OriginPattern| origin.is_some_and(|o| pattern.matches(o));
            self.settings.trusted_origins.0.iter().any(named)
                || self.settings.except.as_ref().is_some_and(|except| except.holds(request))
        };
        match (site, origin) {
            (Some(b"same-origin" | b"none"), _) => true,
            (Some(_), _) => is_trusted(),
            (None, None) => !self.settings.strict || is_trusted(),
            (None, Some(origin)) => is_of_host(origin, request.authority()) || is_trusted(),
        }
    }
}

/// True if the origin has this host and port. The scheme is not compared: behind a proxy that ends
/// TLS the server may not know it.
fn is_of_host(origin: &[u8], authority: &[u8]) -> bool {
    let host = origin.windows(3).position(|part| part == b"://").map(|at| &origin[at + 3..]);
    host.is_some_and(|host| !host.is_empty() && host.eq_ignore_ascii_case(authority))
}

impl Filter for CsrfFilter {
    fn name(&self) -> &'static str {
        KIND.name
    }

    fn is_instant(&self) -> bool {
        true
    }

    fn on_request<'a>(&'a self, request: &'a mut Request) -> MaybeFuture<'a, Step> {
        if self.allows(request) {
            return Step::Continue.into();
        }
        self.rejected.add(1);
        let detail = "the request comes from a page of another origin";
        Step::Fail(Fault::new(FaultKind::Forbidden, detail)).into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{errors, filter, get, passed};
    use settings::node;
    use wire::Method;

    fn status(settings: &Node, method: Method, headers: &[(&str, &str)]) -> u16 {
        let csrf = filter(&KIND, settings);
        let mut request = get("/", headers);
        request.headers.append("host", "shop.example.com");
        request.method = method;
        passed(csrf.on_request(&mut request)).map_or_else(|fault| fault.status, |()| 200)
    }

    #[test]
    fn the_declaration_is_valid() {
        settings::verify::<Csrf>().unwrap();
    }

    #[test]
    fn browsers_of_other_origins_are_rejected() {
        let site = |value| ("sec-fetch-site", value);
        let origin = |value| ("origin", value);
        let table: [(&[(&str, &str)], u16); 15] = [
            (&[], 200),
            (&[site("same-origin")], 200),
            (&[site("none")], 200),
            (&[site("same-site")], 403),
            (&[site("cross-site")], 403),
            (&[site("Same-Origin")], 403),
            (&[site("")], 403),
            (&[site("same-origin"), site("cross-site")], 403),
            (&[site("cross-site"), origin("https://shop.example.com")], 403),
            (&[site("same-origin"), origin("https://evil.example")], 200),
            (&[origin("https://shop.example.com")], 200),
            (&[origin("https://Shop.Example.com")], 200),
            (&[origin("https://shop.example.com:8443")], 403),
            (&[origin("null")], 403),
            (&[origin("https://shop.example.com"), origin("https://evil.example")], 403),
        ];
        for (headers, wanted) in table {
            assert_eq!(status(&node!({}), Method::Post, headers), wanted, "{headers:?}");
            assert_eq!(status(&node!({}), Method::Get, headers), 200, "{headers:?}");
            let strict = if headers.is_empty() { 403 } else { wanted };
            assert_eq!(status(&node!({ "strict": true }), Method::Delete, headers), strict);
        }
    }

    #[test]
    fn a_websocket_is_not_safe_although_its_method_is() {
        let csrf = filter(&KIND, &node!({}));
        for (origin, wanted) in
            [("https://shop.example.com", true), ("https://evil.example", false)]
        {
            let mut request = get("/", &[("host", "shop.example.com"), ("origin", origin)]);
            request.upgrade = true;
            assert_eq!(passed(csrf.on_request(&mut request)).is_ok(), wanted, "{origin}");
        }
    }

    #[test]
    fn trusted_origins_and_exceptions_pass() {
        let settings = node!({
            "trusted_origins": ["https://*.example.com"],
            "except": { "header": "x-signature" },
        });
        let cross = ("sec-fetch-site", "cross-site");
        let post = |headers: &[_]| status(&settings, Method::Post, headers);
        assert_eq!(post(&[cross, ("origin", "https://admin.example.com")]), 200);
        assert_eq!(post(&[("origin", "https://admin.example.com")]), 200);
        assert_eq!(post(&[cross, ("origin", "https://admin.example.org")]), 403);
        assert_eq!(post(&[cross]), 403);
        assert_eq!(post(&[cross, ("x-signature", "abc")]), 200);
    }

    #[test]
    fn errors_are_named() {
        let report = errors(&KIND, &node!({ "trusted_origins": ["admin.example.com"] }));
        assert!(report.contains("is not an origin"), "{report}");
    }
}
