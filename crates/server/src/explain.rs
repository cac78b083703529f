//! Explains how a request would be handled under a plan: `tidegate explain` and `POST /v1/explain`.
//!
//! The router explains the choice of the route; this module adds its filters and handler. The
//! request is constructed from the question: nothing is sent.

use std::borrow::Cow;
use std::fmt::Write;
use std::net::SocketAddr;
use std::rc::Rc;

use admin::{Explanation, Question};
use bytes::Bytes;
use config::{EncodedSlashes, ListenerPlan, RoutePlan, ServerPlan, UnknownHost};
use message::{ConnectionFacts, Headers, Request, Scheme, Target};
use net::{Bind, Peer};
use router::{Candidate, Input, RuleVerdict};
use serde_json::{Value, json};
use wire::{Known, Method};

/// Explains a request; the error describes what is wrong with the question.
pub fn explain(plan: &ServerPlan, question: &Question) -> Result<Explanation, String> {
    let mut request = request(plan, question)?;
    let slashes = slashes(plan, &mut request);
    if let Some(Slashes { refused: true, said }) = slashes {
        return Ok(refused(&request, &said));
    }
    let routed = plan.router.explain(&Input::from(&request));
    let chosen = match &routed.verdict {
        RuleVerdict::Route(chosen) => Some((chosen, plan.route(chosen.route))),
        RuleVerdict::MethodNotAllowed(_) | RuleVerdict::NotFound => None,
    };
    let mut text = routed.to_string();
    let received = String::from_utf8_lossy(request.target.received_path());
    let forwarded = String::from_utf8_lossy(request.target.raw_path());
    if received != forwarded {
        let _ = write!(text, "\nreceived as {received:?}, forwarded as {forwarded:?}");
    }
    let consumers = chosen.and_then(|(_, route)| ConsumerSources::of(plan, route));
    if let Some((_, route)) = chosen {
        describe(&mut text, route);
    }
    if let Some(sources) = &consumers {
        let _ = write!(text, "\n{}", sources.text());
    }
    let unknown_host = match &routed.verdict {
        RuleVerdict::NotFound => unknown_host(plan, &request),
        RuleVerdict::Route(_) | RuleVerdict::MethodNotAllowed(_) => None,
    };
    if let Some((_, said)) = &unknown_host {
        text = text.replacen("no route: 404", said, 1);
    }
    if let Some(Slashes { said, .. }) = &slashes {
        let _ = write!(text, "\n{said}");
    }
    let verdict = match &routed.verdict {
        RuleVerdict::Route(_) => json!({ "status": "routed" }),
        RuleVerdict::MethodNotAllowed(allow) => json!({ "status": 405, "allow": allow }),
        RuleVerdict::NotFound => {
            unknown_host.map_or(json!({ "status": 404 }), |(verdict, _)| verdict)
        }
    };
    let json = json!({
        "method": routed.method,
        "host": routed.host,
        "path": routed.path,
        "received_path": received,
        "forwarded_path": forwarded,
        "listener": routed.listener,
        "verdict": verdict,
        "route": chosen.map(|(chosen, route)| json!({
            "name": chosen.name,
            "matched": chosen.matched,
            "params": chosen.params.iter().cloned().collect::<std::collections::BTreeMap<_, _>>(),
            "when": chosen.when,
            "filters": route.filters.iter()
                .map(|filter| json!({ "name": filter.name(), "is": filter.describe() }))
                .collect::<Vec<_>>(),
            "handler": { "name": route.handler.name(), "is": route.handler.describe() },
            "consumers": consumers.map(|sources| sources.json()),
        })),
        "others": routed.others.iter().map(other).collect::<Vec<_>>(),
        "left_out": routed.left_out,
        "encoded_slashes": slashes.map(|slashes| slashes.said),
    });
    Ok(Explanation { text, json })
}

fn other(other: &Candidate) -> Value {
    json!({
        "route": other.name,
        "matched": other.matched,
        "reason": other.why.slug(),
        "why": other.why.to_string(),
    })
}

/// Returns what the listener does if the host is unknown: for programs and as text.
fn unknown_host(plan: &ServerPlan, request: &Request) -> Option<(Value, String)> {
    let listener = plan.listener(&request.facts.listener)?;
    if plan.router.names_host(&Input::from(request)) {
        return None;
    }
    let (verdict, word, what) = match listener.unknown_host {
        UnknownHost::NotFound => return None,
        UnknownHost::Misdirected => {
            (json!({ "status": 421 }), "misdirected", "the response is 421")
        }
        UnknownHost::Close => {
            (json!({ "status": "closed" }), "close", "the connection is closed without a response")
        }
    };
    let name = &listener.name;
    let said = format!(
        "no route, and none names the host: {what} (unknown_host: {word} of listener {name})"
    );
    Some((verdict, said))
}

/// The result of applying `encoded_slashes` to a path.
struct Slashes {
    refused: bool,
    said: String,
}

/// Applies the listener's rule to the path; `None` if the path has no encoded slash.
fn slashes(plan: &ServerPlan, request: &mut Request) -> Option<Slashes> {
    if !request.target.has_encoded_slash() {
        return None;
    }
    let listener = plan.listener(&request.facts.listener)?;
    let rule = listener.encoded_slashes;
    let before = String::from_utf8_lossy(request.target.received_path()).into_owned();
    let refused = crate::slashes::apply(rule, &mut request.target).is_err();
    let (word, what) = match rule {
        EncodedSlashes::Keep => {
            ("keep", "is matched as received: an encoded slash separates no segments")
        }
        EncodedSlashes::Decode => ("decode", "is read with slashes"),
        EncodedSlashes::Refuse => ("refuse", "gets the response 400"),
    };
    let name = &listener.name;
    let said = format!("{before:?} {what} (encoded_slashes: {word} of listener {name})");
    Some(Slashes { refused, said })
}

fn refused(request: &Request, said: &str) -> Explanation {
    let text = format!("{} {said}", request.method.as_str());
    let json = json!({
        "method": request.method.as_str(),
        "host": String::from_utf8_lossy(request.host()),
        "path": request.target.path(),
        "listener": &*request.facts.listener,
        "verdict": { "status": 400 },
        "route": null,
        "others": [],
        "left_out": 0,
        "encoded_slashes": said,
    });
    Explanation { text, json }
}

fn describe(text: &mut String, route: &RoutePlan) {
    // Writing to a string cannot fail.
    if route.filters.is_empty() {
        text.push_str("\nfilters: none");
    } else {
        text.push_str("\nfilters, in this order:");
    }
    for filter in &route.filters {
        let _ = write!(text, "\n  {} {}", filter.name(), filter.describe());
    }
    let _ = write!(text, "\nhandler: {} {}", route.handler.name(), route.handler.describe());
}

/// Where the consumers come from that a route with authentication knows.
struct ConsumerSources {
    configured: usize,
    /// `admin.consumer_changes`.
    changes: Option<String>,
}

impl ConsumerSources {
    /// `None` if the route does not authenticate, or if there are no consumers.
    fn of(plan: &ServerPlan, route: &RoutePlan) -> Option<ConsumerSources> {
        let authenticates = route.filters.iter().any(|filter| filter.authenticates());
        let configured = plan.consumers.len();
        let changes = plan.admin.consumer_changes.as_ref().map(ToString::to_string);
        let has_any = configured > 0 || changes.is_some();
        (authenticates && has_any).then_some(ConsumerSources { configured, changes })
    }

    fn text(&self) -> String {
        let configured = format!("consumers: {} of the configuration", self.configured);
        match &self.changes {
            None => configured,
            Some(file) => format!(
                "{configured}, unless the admin API has changed them, and those that it has \
                 added (admin.consumer_changes: {file})"
            ),
        }
    }

    fn json(&self) -> Value {
        json!({ "configured": self.configured, "changes": self.changes })
    }
}

/// Constructs the request.
pub(crate) fn request(plan: &ServerPlan, question: &Question) -> Result<Request, String> {
    let method = Method::parse(question.method.as_bytes())
        .ok_or_else(|| format!("{:?} is not a method", question.method))?;
    let (scheme, authority, path) = split(&question.url)?;
    let target = Target::new(Bytes::from(path.into_owned()))
        .map_err(|fault| format!("{:?} gets the response 400: {fault}", question.url))?;
    let mut headers = Headers::new();
    let port = authority
        .and_then(|authority| wire::authority::Authority::parse(authority.as_bytes()))
        .and_then(|authority| authority.port);
    if let Some(authority) = authority {
        if !wire::authority::is_valid(authority.as_bytes()) {
            return Err(format!("{authority:?} is not a host"));
        }
        headers.append(Known::Host, authority);
    }
    for (name, value) in &question.headers {
        if !wire::token::is_token(name.as_bytes()) {
            return Err(format!("{name:?} is not a valid header name"));
        }
        if authority.is_some() && name.eq_ignore_ascii_case("host") {
            headers.set(Known::Host, value);
        } else {
            headers.append(name, value);
        }
    }
    let mut request = Request::made_up(method, target, headers);
    let mut facts = ConnectionFacts::internal();
    facts.listener = Rc::from(listener(plan, question, port)?);
    if let Some(ip) = question.client_ip {
        facts.peer = Peer::Tcp(SocketAddr::new(ip, 0));
        request.client_ip = ip;
    }
    request.countries = plan.countries();
    request.facts = Rc::new(facts);
    request.scheme = scheme;
    Ok(request)
}

/// Returns the listener for that URL: the one on its port, else the first.
fn listener_of(plan: &ServerPlan, port: Option<u16>) -> Option<&ListenerPlan> {
    let on_port = |listener: &&ListenerPlan| match &listener.bind {
        Bind::Tcp(address) => Some(address.port()) == port,
        Bind::Unix(_) => false,
    };
    plan.listeners.iter().find(on_port).or(plan.listeners.first())
}

fn listener<'p>(
    plan: &'p ServerPlan,
    question: &'p Question,
    port: Option<u16>,
) -> Result<&'p str, String> {
    match &question.listener {
        None => Ok(listener_of(plan, port).map_or("", |listener| &listener.name)),
        Some(name) if plan.listener(name).is_some() => Ok(name),
        Some(name) => {
            let names: Vec<&str> = plan.listeners.iter().map(|one| &*one.name).collect();
            let nearest = settings::nearest(name, names.iter().copied());
            let hint = nearest.map(|near| format!(", did you mean {near:?}?")).unwrap_or_default();
            Err(format!("there is no listener {name:?}{hint} (there are {})", names.join(", ")))
        }
    }
}

/// Splits a URL, or a path alone, into scheme, authority and target. The fragment is not part of a
/// request (RFC 9110 7.1).
fn split(url: &str) -> Result<(Scheme, Option<&str>, Cow<'_, str>), String> {
    let url = url.split('#').next().unwrap_or(url);
    let (scheme, rest) = if let Some(rest) = url.strip_prefix("http://") {
        (Scheme::Http, rest)
    } else if let Some(rest) = url.strip_prefix("https://") {
        (Scheme::Https, rest)
    } else if url.starts_with('/') {
        return Ok((Scheme::Http, None, url.into()));
    } else {
        return Err(format!("{url:?} is neither a path nor an http URL"));
    };
    let end = rest.find(['/', '?']).unwrap_or(rest.len());
    let path = &rest[end..];
    let path = match path.starts_with('/') {
        true => path.into(),
        // An empty path is `/` in a request (RFC 9112 3.2.1).
        false => format!("/{path}").into(),
    };
    Ok((scheme, Some(&rest[..end]), path))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::changes::plan_of;

    const PLAN: &str = "
listeners: { web: { bind: \"127.0.0.1:0\" } }
routes:
  - name: item
    match: { host: shop.example, path: \"/item/{id}\", methods: [GET] }
    handler: { respond: { body: item } }
  - name: rest
    match: { path: \"/{*rest}\" }
    handler: { respond: { body: rest } }
";

    fn ask(method: &str, url: &str) -> Result<Explanation, String> {
        let question = Question {
            method: method.to_owned(),
            url: url.to_owned(),
            headers: Vec::new(),
            client_ip: None,
            listener: None,
        };
        explain(&plan_of(PLAN), &question)
    }

    #[test]
    fn the_route_its_parameters_and_its_handler_are_named() {
        let explanation = ask("GET", "http://shop.example/item/7").unwrap();
        assert_eq!(explanation.json["route"]["name"], "item");
        assert_eq!(explanation.json["route"]["params"]["id"], "7");
        assert!(explanation.text.contains("handler: respond"), "{}", explanation.text);
        assert!(explanation.text.contains("rest"), "{}", explanation.text);
    }

    #[test]
    fn the_sources_of_consumers_are_named_where_they_authenticate() {
        let plan = |admin: &str| {
            plan_of(&format!(
                "
{admin}
listeners: {{ web: {{ bind: \"127.0.0.1:0\" }} }}
consumers: [{{ name: ann, keys: [{{ key: sesame }}] }}]
routes:
  - {{ match: {{ path: /in }}, filters: [{{ key_auth: {{}} }}], handler: {{ respond: {{}} }} }}
  - {{ match: {{ path: /open }}, handler: {{ respond: {{}} }} }}
"
            ))
        };
        let ask = |plan: &ServerPlan, url: &str| {
            let (method, url) = ("GET".to_owned(), url.to_owned());
            let question =
                Question { method, url, headers: Vec::new(), client_ip: None, listener: None };
            explain(plan, &question).unwrap()
        };
        let without = plan("");
        let explanation = ask(&without, "/in");
        let text = &explanation.text;
        assert!(text.ends_with("\nconsumers: 1 of the configuration"), "{text}");
        let stored = plan("admin: { bind: \"127.0.0.1:0\", consumer_changes: /a/b.changes }");
        let explanation = ask(&stored, "/in");
        assert!(explanation.text.contains("(admin.consumer_changes: /a/b.changes)"));
        let json = &explanation.json["route"]["consumers"];
        assert_eq!((&json["configured"], &json["changes"]), (&json!(1), &json!("/a/b.changes")));
        let open = ask(&stored, "/open");
        assert!(open.json["route"]["consumers"].is_null() && !open.text.contains("consumers"));
    }

    #[test]
    fn a_url_is_what_a_client_would_send() {
        for (url, path) in
            [("http://a?b=/c", "/"), ("http://a#b", "/"), ("http://a/b#c/d", "/b"), ("/b#c", "/b")]
        {
            assert_eq!(ask("GET", url).unwrap().json["path"], path, "{url}");
        }
    }

    #[test]
    fn the_received_and_the_forwarded_path_are_shown() {
        let Explanation { text, json } = ask("GET", "http://a/x//../%61%2b?q=//").unwrap();
        assert!(text.contains("received as \"/x//../%61%2b\", forwarded as \"/x/a%2B\""), "{text}");
        assert_eq!((&json["path"], &json["forwarded_path"]), (&json!("/x/a+"), &json!("/x/a%2B")));
        assert!(!ask("GET", "/item/7").unwrap().text.contains("forwarded"));
        let refused = ask("GET", "/a%5Cb").err().unwrap();
        assert!(refused.contains("response 400: the path has a backslash"), "{refused}");
    }

    #[test]
    fn encoded_slashes_are_read_as_the_listener_reads_them() {
        let asked = |rule: &str| {
            let listener = format!("bind: \"127.0.0.1:0\", encoded_slashes: {rule}");
            let plan = plan_of(&PLAN.replace("bind: \"127.0.0.1:0\"", &listener));
            let question = Question {
                method: "GET".to_owned(),
                url: "http://shop.example/item%2F7".to_owned(),
                headers: Vec::new(),
                client_ip: None,
                listener: None,
            };
            explain(&plan, &question).unwrap()
        };
        for (rule, route, said) in [
            ("keep", json!("rest"), "\"/item%2F7\" is matched as received"),
            ("decode", json!("item"), "\"/item%2F7\" is read with slashes"),
            ("refuse", Value::Null, "\"/item%2F7\" gets the response 400"),
        ] {
            let Explanation { text, json } = asked(rule);
            assert_eq!(json["route"].get("name").cloned().unwrap_or_default(), route, "{rule}");
            assert!(text.contains(said), "{text}");
            assert!(json["encoded_slashes"].as_str().unwrap().contains(rule));
        }
        assert!(ask("GET", "/item/7").unwrap().json["encoded_slashes"].is_null());
    }

    #[test]
    fn an_unknown_host_is_treated_as_the_listener_says() {
        let asked = |rule: &str, url: &str| {
            let listener = format!("bind: \"127.0.0.1:0\", unknown_host: {rule}");
            let text = PLAN.replace("bind: \"127.0.0.1:0\"", &listener);
            let text = text.replace("path: \"/{*rest}\"", "path: /any");
            let question = Question {
                method: "GET".to_owned(),
                url: url.to_owned(),
                headers: Vec::new(),
                client_ip: None,
                listener: None,
            };
            explain(&plan_of(&text), &question).unwrap()
        };
        for (rule, url, status) in [
            ("not_found", "http://other.example/x", json!(404)),
            ("misdirected", "http://other.example/x", json!(421)),
            ("close", "http://other.example/x", json!("closed")),
            // The host is known, or a route for every host takes the path.
            ("close", "http://shop.example/x", json!(404)),
            ("close", "http://other.example/any", json!("routed")),
        ] {
            let Explanation { text, json } = asked(rule, url);
            assert_eq!(json["verdict"]["status"], status, "{rule} {url}");
            let said = text.contains("none names the host");
            assert_eq!(said, status == 421 || status == "closed", "{text}");
        }
    }

    #[test]
    fn a_question_that_makes_no_sense_is_named() {
        assert!(ask("G T", "/").err().unwrap().contains("not a method"));
        assert!(ask("GET", "shop.example").err().unwrap().contains("neither a path"));
    }
}
