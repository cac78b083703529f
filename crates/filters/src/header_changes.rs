//! `request_headers` and `response_headers`: remove, set and add fields.
//!
//! Promises that no field which frames a message or belongs to one connection can be changed: the
//! serving loop owns those, and a wrong one splits a message in two. The value of a variable cannot
//! end a field (`Headers` rejects such values).

use std::rc::Rc;
use std::sync::Arc;

use message::{Body, Headers, Request, Response};
use plugin::{
    Filter, FilterKind, FilterPlan, HeaderName, MaybeFuture, Stage, Step, WorkerContext, variables,
};
use settings::{Named, Node, OneOrMany, Part, Reader, Setting, Span, Template};
use wire::Known;

pub(crate) const REQUEST: FilterKind =
    FilterKind { name: "request_headers", schema: RequestHeaders::schema, read: read_request };
pub(crate) const RESPONSE: FilterKind =
    FilterKind { name: "response_headers", schema: ResponseHeaders::schema, read: read_response };

/// In addition to hop-by-hop fields (RFC 9110 7.6.1): framing, and fields of the serving loop.
const OURS: [Known; 3] = [Known::ContentLength, Known::Trailer, Known::Expect];

/// Changes the headers of requests before they are forwarded.
///
/// First fields are removed, then set, then added. A value whose variables are all empty sets
/// nothing: the field is removed instead. `Host` may be set; headers of the connection and of
/// message framing may not. A client's `X_Client` is removed where `X-Client` is removed or set:
/// applications behind WSGI or CGI cannot distinguish the two.
#[derive(Clone, Debug, PartialEq, Setting)]
struct RequestHeaders {
    /// Fields to remove.
    #[setting(default = [], example = ["x-internal"])]
    remove: Vec<HeaderName>,
    /// Fields to set: existing ones are replaced.
    #[setting(default = {}, example = { "x-client": "{client_ip}" })]
    set: Named<Template>,
    /// Fields to add to the existing ones; one value or several.
    #[setting(default = {}, example = { "x-seen-by": ["edge", "{host}"] })]
    add: Named<OneOrMany<Template>>,
}

/// Changes the headers of responses before they are sent.
///
/// First fields are removed, then set, then added. Variables are those of the request. A value
/// whose variables are all empty sets nothing: the field is removed instead. Responses that this
/// server generates itself (404, 401, 429, 502, ...) are changed only with `always`.
#[derive(Clone, Debug, PartialEq, Setting)]
struct ResponseHeaders {
    /// Fields to remove.
    #[setting(default = [], example = ["server", "x-powered-by"])]
    remove: Vec<HeaderName>,
    /// Fields to set: existing ones are replaced.
    #[setting(default = {}, example = { "strict-transport-security": "max-age=31536000" })]
    set: Named<Template>,
    /// Fields to add to the existing ones; one value or several.
    #[setting(default = {}, example = { "link": "</style.css>; rel=preload" })]
    add: Named<OneOrMany<Template>>,
    /// Also changes responses that this server generates: errors of the route and of its upstream,
    /// and responses of filters before this one. Under `defaults` it also changes responses to
    /// requests without a route.
    #[setting(default = false)]
    always: bool,
}

fn read_request(node: &Node, reader: &mut Reader<'_>) -> Option<Arc<dyn FilterPlan>> {
    let before = reader.report().len();
    let RequestHeaders { remove, set, add } = RequestHeaders::read(node, reader)?;
    let changes = Changes::checked(remove, set, add, before, node, reader)?;
    Some(Arc::new(HeaderChangesPlan { kind: &REQUEST, changes: Arc::new(changes), always: false }))
}

fn read_response(node: &Node, reader: &mut Reader<'_>) -> Option<Arc<dyn FilterPlan>> {
    let before = reader.report().len();
    let ResponseHeaders { remove, set, add, always } = ResponseHeaders::read(node, reader)?;
    let changes = Changes::checked(remove, set, add, before, node, reader)?;
    Some(Arc::new(HeaderChangesPlan { kind: &RESPONSE, changes: Arc::new(changes), always }))
}

/// Changes of a header section, in order.
struct Changes(Vec<(HeaderName, Change)>);

enum Change {
    Remove,
    Set(Template),
    Add(Template),
}

impl Changes {
    /// True if fields of this name that the client sent are not forwarded.
    fn replaces(&self, field: &[u8]) -> bool {
        self.0.iter().any(|(name, change)| {
            !matches!(change, Change::Add(_)) && wire::alias::same(name.as_str().as_bytes(), field)
        })
    }

    /// True if any field of a client may be one of these.
    fn replaces_any(&self) -> bool {
        self.0.iter().any(|(_, change)| !matches!(change, Change::Add(_)))
    }

    /// `None` if the settings have an error, unlike `before` they were read.
    fn checked(
        remove: Vec<HeaderName>,
        set: Named<Template>,
        add: Named<OneOrMany<Template>>,
        before: usize,
        node: &Node,
        reader: &mut Reader<'_>,
    ) -> Option<Changes> {
        let mut changes = Vec::new();
        let at_remove = node.get("remove").unwrap_or(node).span;
        for name in remove {
            check_name(&name, at_remove, reader);
            changes.push((name, Change::Remove));
        }
        for (name, value) in set.entries {
            if let Some(header) = header_name(&name.value, name.span, reader) {
                check_value(&value, name.span, reader);
                changes.push((header, Change::Set(value)));
            }
        }
        for (name, values) in add.entries {
            let Some(header) = header_name(&name.value, name.span, reader) else { continue };
            for value in values.0 {
                check_value(&value, name.span, reader);
                changes.push((header.clone(), Change::Add(value)));
            }
        }
        if changes.is_empty() && reader.report().len() == before {
            reader.error(node.span, "this changes no header: give remove, set or add");
        }
        (reader.report().len() == before).then_some(Changes(changes))
    }

    fn need_authentication(&self) -> bool {
        self.0.iter().any(|(_, change)| match change {
            Change::Remove => false,
            Change::Set(value) | Change::Add(value) => value.needs_authentication(),
        })
    }

    fn has_variables(&self) -> bool {
        self.0.iter().any(|(_, change)| match change {
            Change::Remove => false,
            Change::Set(value) | Change::Add(value) => value.as_literal().is_none(),
        })
    }

    /// `headers` are taken out of the request if they are its own.
    fn apply(&self, request: &Request, headers: &mut Headers) {
        for (name, change) in &self.0 {
            match change {
                Change::Remove => {
                    headers.remove(name);
                }
                Change::Set(value) => match filled(value, request) {
                    Some(value) => headers.set(name, value),
                    None => {
                        headers.remove(name);
                    }
                },
                Change::Add(value) => {
                    if let Some(value) = filled(value, request) {
                        headers.append(name, value);
                    }
                }
            }
        }
    }
}

/// `None` if it consists of variables and all are empty.
fn filled<'a>(value: &'a Template, request: &'a Request) -> Option<variables::Text<'a>> {
    let text = variables::fill(value, request);
    (!text.is_empty() || value.as_literal().is_some()).then_some(text)
}

fn header_name(name: &str, span: Span, reader: &mut Reader<'_>) -> Option<HeaderName> {
    match name.parse::<HeaderName>() {
        Ok(header) => {
            check_name(&header, span, reader);
            Some(header)
        }
        Err(why) => {
            reader.error(span, format!("{name:?} {why}"));
            None
        }
    }
}

fn check_name(name: &HeaderName, span: Span, reader: &mut Reader<'_>) {
    let known = Known::from_bytes(name.as_str().as_bytes());
    if known.is_some_and(|known| known.is_hop_by_hop() || OURS.contains(&known)) {
        let why =
            "belongs to the connection or to the framing of a message, which is not for filters";
        reader.error(span, format!("{name} {why}"));
    }
}

fn check_value(value: &Template, span: Span, reader: &mut Reader<'_>) {
    let is_value = |part: &Part| match part {
        Part::Text(text) => text.bytes().all(|byte| byte == b'\t' || !byte.is_ascii_control()),
        Part::Var(_) => true,
    };
    if !value.parts.iter().all(is_value) {
        reader.error(span, "the value of a header has no control characters");
    }
}

struct HeaderChangesPlan {
    kind: &'static FilterKind,
    changes: Arc<Changes>,
    /// Generated responses are changed as well.
    always: bool,
}

impl FilterPlan for HeaderChangesPlan {
    fn name(&self) -> &'static str {
        self.kind.name
    }

    fn build(&self, _: &WorkerContext) -> Stage {
        let changes = self.changes.clone();
        Stage::Filter(match self.kind.name == REQUEST.name {
            true => Rc::new(OfRequest(changes)),
            false => Rc::new(OfResponse { changes, always: self.always }),
        })
    }

    fn needs_authentication(&self) -> bool {
        // When a response is there the request has been authenticated.
        self.kind.name == REQUEST.name && self.changes.need_authentication()
    }

    fn describe(&self) -> String {
        let changes = self.changes.0.iter().map(|(name, change)| match change {
            Change::Remove => format!("-{name}"),
            Change::Set(_) => format!("={name}"),
            Change::Add(_) => format!("+{name}"),
        });
        let mut words: Vec<String> = changes.collect();
        words.extend(self.always.then(|| "always".to_owned()));
        words.join(" ")
    }

    fn changes_generated(&self) -> bool {
        self.always
    }
}

struct OfRequest(Arc<Changes>);

impl Filter for OfRequest {
    fn name(&self) -> &'static str {
        REQUEST.name
    }

    fn is_instant(&self) -> bool {
        true
    }

    fn on_request<'a>(&'a self, request: &'a mut Request) -> MaybeFuture<'a, Step> {
        // Variables have the values that the request had before this filter changed it.
        let mut headers = match self.0.has_variables() {
            true => request.headers.clone(),
            false => std::mem::take(&mut request.headers),
        };
        self.0.apply(request, &mut headers);
        request.headers = headers;
        if self.0.replaces_any() && matches!(request.body, Body::Stream(_)) {
            let changes = self.0.clone();
            let body = std::mem::take(&mut request.body);
            request.body = body.without_trailers(move |field| changes.replaces(field.name));
        }
        Step::Continue.into()
    }
}

struct OfResponse {
    changes: Arc<Changes>,
    always: bool,
}

impl Filter for OfResponse {
    fn name(&self) -> &'static str {
        RESPONSE.name
    }

    fn is_instant(&self) -> bool {
        true
    }

    fn on_response<'a>(
        &'a self,
        request: &'a mut Request,
        response: &'a mut Response,
    ) -> MaybeFuture<'a, Step> {
        self.changes.apply(request, &mut response.headers);
        Step::Continue.into()
    }

    fn on_generated(&self, request: &Request, response: &mut Response) {
        if self.always {
            self.changes.apply(request, &mut response.headers);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{errors, filter, get, passed, plan};
    use settings::node;

    fn fields(headers: &Headers) -> Vec<String> {
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        headers.iter().map(|f| format!("{}: {}", text(f.name), text(f.value))).collect()
    }

    #[test]
    fn the_declarations_are_valid() {
        settings::verify::<RequestHeaders>().unwrap();
        settings::verify::<ResponseHeaders>().unwrap();
    }

    #[test]
    fn request_fields_are_removed_set_and_added() {
        let changes = filter(
            &REQUEST,
            &node!({
                "remove": ["x-internal", "X-Gone"],
                "set": { "Host": "backend", "x-user": "{header.x-user}!", "x-query": "{query.q}" },
                "add": { "x-seen": ["a", "{method}"], "x-none": "{header.none}" }
            }),
        );
        let mut request = get(
            "/?q=1",
            &[
                ("host", "front"),
                ("x-user", "ann"),
                ("x-internal", "1"),
                ("x-internal", "2"),
                ("x-seen", "0"),
            ],
        );
        passed(changes.on_request(&mut request)).unwrap();
        let mut seen = fields(&request.headers);
        for field in &mut seen {
            *field = field.to_lowercase();
        }
        assert_eq!(
            seen,
            [
                "x-seen: 0",
                "host: backend",
                "x-user: ann!",
                "x-query: 1",
                "x-seen: a",
                "x-seen: get"
            ]
        );
    }

    #[test]
    fn other_spellings_of_a_removed_field_are_removed() {
        let settings = node!({ "remove": ["x-internal"], "set": { "x-user": "{consumer}" } });
        let changes = filter(&REQUEST, &settings);
        let sent = [("X_Internal", "1"), ("x_user", "admin"), ("X-User", "root"), ("x_own", "1")];
        let mut request = get("/", &sent);
        passed(changes.on_request(&mut request)).unwrap();
        assert_eq!(fields(&request.headers), ["x_own: 1"]);
    }

    #[test]
    fn response_fields_use_variables_of_the_request() {
        let changes = filter(
            &RESPONSE,
            &node!({
                "remove": ["server"],
                "set": { "x-host": "{host}", "x-user": "{header.x-user}", "x-empty": "" },
                "add": { "set-cookie": ["a=1", "b=2"] }
            }),
        );
        let mut request = get("/", &[("host", "Shop.example")]);
        let mut response = Response::new(200);
        for (name, value) in [("server", "x"), ("x-user", "from upstream"), ("set-cookie", "c=3")] {
            response.headers.append(name, value);
        }
        passed(changes.on_request(&mut request)).unwrap();
        passed(changes.on_response(&mut request, &mut response)).unwrap();
        let cookies: Vec<_> = response.headers.get_all("set-cookie").collect();
        assert_eq!(cookies, [b"c=3", b"a=1", b"b=2"]);
        assert_eq!(response.headers.get_str("x-host"), Some("shop.example"));
        assert_eq!(response.headers.get_str("x-user"), None, "all its variables are empty");
        assert_eq!(response.headers.get_str("x-empty"), Some(""));
        assert!(!response.headers.contains("server"));
    }

    #[test]
    fn a_value_from_a_variable_cannot_make_another_field() {
        let changes = filter(&RESPONSE, &node!({ "set": { "x-q": "{query.q}" } }));
        let mut request = get("/?q=a%0D%0Aset-cookie:%20b", &[]);
        let mut response = Response::new(200);
        passed(changes.on_response(&mut request, &mut response)).unwrap();
        assert_eq!(fields(&response.headers).len(), 1);
        assert_eq!(response.headers.get_str("x-q"), Some("a  set-cookie: b"));
    }

    #[test]
    fn framing_and_connection_fields_are_rejected() {
        for name in [
            "Connection",
            "keep-alive",
            "proxy-connection",
            "te",
            "Trailer",
            "Transfer-Encoding",
            "upgrade",
            "content-length",
            "Expect",
        ] {
            for settings in
                [node!({ "remove": [name] }), node!({ "set": { "x-fine": "1" }, "remove": [name] })]
            {
                let report = errors(&REQUEST, &settings);
                assert!(report.contains("not for filters"), "{name}: {report}");
            }
            let report = errors(
                &RESPONSE,
                &Node::made(settings::Value::Map(vec![(
                    settings::MapKey { name: "add".into(), span: Span::NOWHERE },
                    Node::made(settings::Value::Map(vec![(
                        settings::MapKey { name: name.into(), span: Span::NOWHERE },
                        Node::plain("x"),
                    )])),
                )])),
            );
            assert!(report.contains("not for filters"), "{name}: {report}");
        }
    }

    #[test]
    fn errors_are_named() {
        for (settings, why) in [
            (node!({}), "changes no header"),
            (node!({ "set": { "a b": "x" } }), "is not a valid header name"),
            (node!({ "remove": ["a:"] }), "is not a valid header name"),
            (node!({ "set": { "x": "{hosst}" } }), "\"hosst\""),
            (node!({ "set": { "x": "a\nb" } }), "no control characters"),
            (node!({ "sett": { "x": "a" } }), "\"set\"?"),
        ] {
            let report = errors(&REQUEST, &settings);
            assert!(report.contains(why), "{report}\nwanted {why}");
            let empty = "changes no header";
            assert_eq!(report.contains(empty), why == empty, "said twice: {report}");
        }
        let settings = node!({ "remove": ["a"], "set": { "b": "1" }, "add": { "c": ["2", "3"] } });
        assert_eq!(plan(&RESPONSE, &settings).unwrap().describe(), "-a =b +c +c");
    }
}
