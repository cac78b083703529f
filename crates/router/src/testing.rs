//! Builders of tables and requests for the tests of this crate.

use message::{Headers, Request, Target};
use settings::{Node, Span};
use wire::Method;

use crate::{Input, RouteError, RouteLookup, Router, Rule};

/// Rules called `r0`, `r1`, … with the given `match`.
pub(crate) fn rules(matches: &[Node]) -> Vec<Rule> {
    let rule = |(at, node): (usize, &Node)| Rule {
        name: format!("r{at}"),
        span: Span::NOWHERE,
        matches: settings::read(node).unwrap_or_else(|out| panic!("{out}")),
    };
    matches.iter().enumerate().map(rule).collect()
}

pub(crate) fn router(matches: &[Node]) -> Router {
    Router::compile(rules(matches)).unwrap_or_else(|errors| panic!("{errors:?}"))
}

pub(crate) fn errors(matches: &[Node]) -> Vec<RouteError> {
    Router::compile(rules(matches)).err().unwrap_or_default()
}

/// `GET host/path` with header fields.
pub(crate) fn request(method: &str, url: &str, fields: &[(&str, &str)]) -> Request {
    let (host, path) = url.split_at(url.find('/').unwrap());
    let mut headers = Headers::new();
    headers.append("host", host);
    for (name, value) in fields {
        headers.append(*name, value);
    }
    let target = Target::new(path.to_owned().into()).unwrap();
    Request::made_up(Method::from_bytes(method.as_bytes()), target, headers)
}

/// `r1 id=7` for a route with its parameters, `405 GET, HEAD`, or `404`.
pub(crate) fn find(router: &Router, request: &Request) -> String {
    match router.find(&Input::from(request)) {
        RouteLookup::Route(id, params) => {
            let path = request.target.path();
            let mut out = router.rules()[id.index()].name.clone();
            for name in params.names() {
                out += &format!(" {name}={}", params.get(path, name).unwrap());
            }
            out
        }
        RouteLookup::MethodNotAllowed(allow) => format!("405 {allow}"),
        RouteLookup::NotFound => "404".to_owned(),
    }
}
