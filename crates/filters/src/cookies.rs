//! `cookies`: changes the cookies of requests, and the attributes of those that responses set.
//!
//! Promises that a value with variables cannot begin another cookie or attribute: bytes that RFC
//! 6265 4.1.1 does not allow in a value are percent-encoded.

use std::rc::Rc;
use std::sync::Arc;

use message::{Headers, Request, Response};
use plugin::{Filter, FilterKind, FilterPlan, MaybeFuture, Stage, Step, WorkerContext, variables};
use settings::{Duration, Named, Node, Reader, Setting, Template};
use wire::Known;

pub(crate) const KIND: FilterKind = FilterKind { name: "cookies", schema: Cookies::schema, read };

/// Changes the cookies of requests, and the attributes of cookies that responses set.
#[derive(Clone, Debug, PartialEq, Setting)]
#[setting(check = check)]
struct Cookies {
    /// Cookies of the request that are not forwarded.
    #[setting(default = [], example = ["_ga"])]
    remove: Vec<String>,
    /// Cookies of the request to set: existing ones are replaced. A value whose variables are all
    /// empty sets nothing: the cookie is removed instead.
    #[setting(default = {}, example = { "user": "{consumer}" })]
    set: Named<Template>,
    /// Attributes of cookies that responses set. The first entry with the cookie's name applies.
    #[setting(default = [], example = [{ "name": "session", "secure": true, "same_site": "lax" }])]
    response: Vec<Attributes>,
}

/// Attributes of one cookie. Attributes that are not set here are not changed.
#[derive(Clone, Debug, PartialEq, Setting)]
#[setting(check = check_attributes)]
struct Attributes {
    /// The name of the cookie; `*` for all.
    #[setting(example = "session")]
    name: String,
    /// Removes the cookie from the response.
    #[setting(default = false)]
    remove: bool,
    /// `Secure`: the cookie is sent over TLS only.
    secure: Option<bool>,
    /// `HttpOnly`: scripts cannot read it.
    http_only: Option<bool>,
    /// `SameSite`: whether requests from other sites carry it.
    same_site: Option<SameSite>,
    /// `Domain`; an empty text removes the attribute.
    #[setting(example = "example.com")]
    domain: Option<String>,
    /// `Path`.
    #[setting(example = "/shop")]
    path: Option<String>,
    /// `Max-Age`; `Expires` is removed.
    #[setting(example = "30d")]
    max_age: Option<Duration>,
}

/// Which requests carry a cookie.
#[derive(Clone, Debug, PartialEq, Setting)]
enum SameSite {
    /// Only those from pages of the same site.
    Strict,
    /// Also those that follow a link from another site.
    Lax,
    /// All; needs `secure`.
    None,
}

fn check(settings: &Cookies, node: &Node, reader: &mut Reader<'_>) {
    let Cookies { remove, set, response } = settings;
    if remove.is_empty() && set.entries.is_empty() && response.is_empty() {
        reader.error(node.span, "this changes no cookie: give remove, set or response");
    }
    for name in remove.iter().chain(set.entries.iter().map(|(name, _)| &name.value)) {
        check_name(name, node, reader);
    }
}

fn check_attributes(settings: &Attributes, node: &Node, reader: &mut Reader<'_>) {
    check_name(&settings.name, node, reader);
    if settings.same_site == Some(SameSite::None) && settings.secure != Some(true) {
        reader.error(node.span, "browsers reject SameSite=None without Secure: add secure: true");
    }
    for (key, value) in [("domain", &settings.domain), ("path", &settings.path)] {
        let is_bad = |byte: u8| byte == b';' || byte.is_ascii_control();
        if value.as_ref().is_some_and(|value| value.bytes().any(is_bad)) {
            reader.error(node.get(key).unwrap_or(node).span, "an attribute has no ; in it");
        }
    }
}

fn check_name(name: &str, node: &Node, reader: &mut Reader<'_>) {
    if !wire::token::is_token(name.as_bytes()) {
        reader.error(node.span, format!("{name:?} is not a valid name of a cookie"));
    }
}

fn read(node: &Node, reader: &mut Reader<'_>) -> Option<Arc<dyn FilterPlan>> {
    Some(Arc::new(CookiesPlan(Arc::new(Cookies::read(node, reader)?))))
}

struct CookiesPlan(Arc<Cookies>);

impl FilterPlan for CookiesPlan {
    fn name(&self) -> &'static str {
        KIND.name
    }

    fn build(&self, _: &WorkerContext) -> Stage {
        Stage::Filter(Rc::new(CookiesFilter(self.0.clone())))
    }

    fn needs_authentication(&self) -> bool {
        self.0.set.entries.iter().any(|(_, value)| value.needs_authentication())
    }

    fn describe(&self) -> String {
        let removed = self.0.remove.iter().map(|name| format!("-{name}"));
        let set = self.0.set.entries.iter().map(|(name, _)| format!("={}", name.value));
        let response = self.0.response.iter().map(|attributes| attributes.name.clone());
        removed.chain(set).chain(response).collect::<Vec<_>>().join(" ")
    }
}

struct CookiesFilter(Arc<Cookies>);

impl CookiesFilter {
    /// The new Cookie field.
    fn changed(&self, request: &Request) -> Vec<u8> {
        let Cookies { remove, set, .. } = &*self.0;
        let mut out = Vec::new();
        let fields = request.headers.get_all(Known::Cookie);
        for pair in fields.flat_map(|field| field.split(|byte| *byte == b';')) {
            let pair = pair.trim_ascii();
            let name = pair.split(|byte| *byte == b'=').next().unwrap_or_default().trim_ascii();
            let replaced = set.entries.iter().map(|(name, _)| &name.value);
            let is_gone = remove.iter().chain(replaced).any(|known| known.as_bytes() == name);
            if !pair.is_empty() && !is_gone {
                push_cookie(pair, &mut out);
            }
        }
        for (name, template) in &set.entries {
            let value = variables::fill(template, request);
            if !value.is_empty() || template.as_literal().is_some() {
                push_cookie(name.value.as_bytes(), &mut out);
                out.push(b'=');
                variables::percent_encode(&value, b"!#$&'()*+/:<=>?@[]^`{|}", &mut out);
            }
        }
        out
    }
}

fn push_cookie(pair: &[u8], out: &mut Vec<u8>) {
    if !out.is_empty() {
        out.extend_from_slice(b"; ");
    }
    out.extend_from_slice(pair);
}

impl Attributes {
    /// A Set-Cookie field with these attributes in place of its own.
    fn applied(&self, field: &[u8]) -> Vec<u8> {
        let mut parts = field.split(|byte| *byte == b';').map(<[u8]>::trim_ascii);
        let mut out = parts.next().unwrap_or_default().to_vec();
        for part in parts {
            let name = part.split(|byte| *byte == b'=').next().unwrap_or_default().trim_ascii();
            if !part.is_empty() && !self.replaces(name) {
                push_cookie(part, &mut out);
            }
        }
        let same_site = self.same_site.as_ref().map(|same_site| match same_site {
            SameSite::Strict => "Strict",
            SameSite::Lax => "Lax",
            SameSite::None => "None",
        });
        let domain = self.domain.as_deref().filter(|domain| !domain.is_empty());
        let max_age = self.max_age.map(|age| age.get().as_secs().to_string());
        for (name, value) in [
            ("Domain", domain),
            ("Path", self.path.as_deref()),
            ("Max-Age", max_age.as_deref()),
            ("SameSite", same_site),
        ] {
            if let Some(value) = value {
                push_cookie(format!("{name}={value}").as_bytes(), &mut out);
            }
        }
        for (name, flag) in [("Secure", self.secure), ("HttpOnly", self.http_only)] {
            if flag == Some(true) {
                push_cookie(name.as_bytes(), &mut out);
            }
        }
        out
    }

    fn replaces(&self, attribute: &[u8]) -> bool {
        [
            ("secure", self.secure.is_some()),
            ("httponly", self.http_only.is_some()),
            ("samesite", self.same_site.is_some()),
            ("domain", self.domain.is_some()),
            ("path", self.path.is_some()),
            ("max-age", self.max_age.is_some()),
            ("expires", self.max_age.is_some()),
        ]
        .iter()
        .any(|(name, given)| *given && attribute.eq_ignore_ascii_case(name.as_bytes()))
    }
}

impl Filter for CookiesFilter {
    fn name(&self) -> &'static str {
        KIND.name
    }

    fn is_instant(&self) -> bool {
        true
    }

    fn on_request<'a>(&'a self, request: &'a mut Request) -> MaybeFuture<'a, Step> {
        let Cookies { remove, set, .. } = &*self.0;
        let may_remove = !remove.is_empty() && request.headers.contains(Known::Cookie);
        if may_remove || !set.entries.is_empty() {
            match self.changed(request) {
                cookies if cookies.is_empty() => drop(request.headers.remove(Known::Cookie)),
                cookies => request.headers.set(Known::Cookie, cookies),
            }
        }
        Step::Continue.into()
    }

    fn on_response<'a>(
        &'a self,
        _: &'a mut Request,
        response: &'a mut Response,
    ) -> MaybeFuture<'a, Step> {
        if !self.0.response.is_empty() && response.headers.contains(Known::SetCookie) {
            change_set_cookie(&self.0.response, &mut response.headers);
        }
        Step::Continue.into()
    }
}

fn change_set_cookie(all: &[Attributes], headers: &mut Headers) {
    let fields: Vec<Vec<u8>> = headers.get_all(Known::SetCookie).map(<[u8]>::to_vec).collect();
    headers.remove(Known::SetCookie);
    for field in fields {
        let name = field.split(|byte| *byte == b'=').next().unwrap_or_default().trim_ascii();
        let known = |one: &&Attributes| one.name == "*" || one.name.as_bytes() == name;
        match all.iter().find(known) {
            Some(attributes) if attributes.remove => {}
            Some(attributes) => headers.append(Known::SetCookie, attributes.applied(&field)),
            None => headers.append(Known::SetCookie, field),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{errors, filter, get, passed};
    use settings::node;

    #[test]
    fn the_declaration_is_valid() {
        settings::verify::<Cookies>().unwrap();
    }

    #[test]
    fn cookies_of_the_request_are_removed_and_set() {
        let settings = node!({
            "remove": ["_ga"],
            "set": { "user": "{header.x-user}", "none": "{header.none}" },
        });
        let cookies = filter(&KIND, &settings);
        for (given, wanted) in [
            (&["_ga=1"][..], Some("user=a;b")),
            (&[], Some("user=a;b")),
            (&["a=\"x\"; _ga=1;user=evil", "none=1; b = 2 "], Some("a=\"x\"; b = 2; user=a;b")),
        ] {
            let mut request = get("/", &[("x-user", "a;b")]);
            given.iter().for_each(|field| request.headers.append("cookie", *field));
            passed(cookies.on_request(&mut request)).unwrap();
            let sent: Vec<_> = request.headers.get_all("cookie").collect();
            let wanted = wanted.map(|wanted| wanted.replace("a;b", "a%3Bb"));
            assert_eq!(sent, [wanted.unwrap().as_bytes()], "{given:?}");
        }
        let remove = filter(&KIND, &node!({ "remove": ["_ga"] }));
        let mut request = get("/", &[("cookie", "_ga=1")]);
        passed(remove.on_request(&mut request)).unwrap();
        assert!(request.headers.is_empty());
    }

    #[test]
    fn attributes_of_response_cookies_are_replaced() {
        let settings = node!({
            "response": [
                { "name": "gone", "remove": true },
                { "name": "a", "path": "/x", "max_age": "1h", "domain": "" },
                { "name": "*", "secure": true, "http_only": false, "same_site": "none" },
            ],
        });
        let cookies = filter(&KIND, &settings);
        let mut response = Response::new(200);
        for field in [
            "gone=1",
            "a=1; Expires=Wed, 21 Oct 2026 07:28:00 GMT; PATH=/; Domain=old.example; Secure",
            "b=x=y;httponly; samesite=strict;Path=/b",
        ] {
            response.headers.append("set-cookie", field);
        }
        passed(cookies.on_response(&mut get("/", &[]), &mut response)).unwrap();
        let set: Vec<_> = response.headers.get_all("set-cookie").collect();
        let wanted: [&[u8]; 2] =
            [b"a=1; Secure; Path=/x; Max-Age=3600", b"b=x=y; Path=/b; SameSite=None; Secure"];
        assert_eq!(set, wanted);
    }

    #[test]
    fn errors_are_named() {
        for (settings, why) in [
            (node!({}), "changes no cookie"),
            (node!({ "remove": ["a b"] }), "not a valid name of a cookie"),
            (node!({ "response": [{ "name": "a", "same_site": "none" }] }), "without Secure"),
            (node!({ "response": [{ "name": "a", "path": "/;x" }] }), "has no ; in it"),
        ] {
            let report = errors(&KIND, &settings);
            assert!(report.contains(why), "{report}\nwanted {why}");
        }
    }
}
