//! `redirect`: sends the client elsewhere (RFC 9110 15.4).

use std::rc::Rc;
use std::sync::Arc;

use settings::{Node, Part, Reader, Setting, Template, Variable};
use wire::Known;

use message::{HandlerResult, Request, Response};
use plugin::{Handler, HandlerKind, HandlerPlan, MaybeFuture, WorkerContext, variables};

pub(super) const KIND: HandlerKind =
    HandlerKind { name: "redirect", schema: Redirect::schema, read };

/// Redirects the client.
///
/// `handler: { redirect: { to: "/new/{path.id}", status: 308 } }`
#[derive(Clone, Debug, PartialEq, Setting)]
#[setting(short = to, check = check)]
struct Redirect {
    /// The target: a path from the root or a whole URL, so it begins with `/`, a scheme, `{path}`
    /// or `{scheme}:`. Values of variables are percent-encoded.
    #[setting(example = "https://{host}{path}")]
    to: Template,
    /// The status: 301 and 308 are remembered by clients, 302, 303 and 307 are not; 307 and 308
    /// keep the method.
    #[setting(default = 308, range = 301..=308)]
    status: u16,
    /// Appends the query of the request, unless `to` has one.
    #[setting(default = true)]
    keep_query: bool,
}

fn check(redirect: &Redirect, node: &Node, reader: &mut Reader<'_>) {
    if !matches!(redirect.status, 301 | 302 | 303 | 307 | 308) {
        let status = redirect.status;
        reader.error(node.span, format!("{status} is not a redirect: 301, 302, 303, 307 or 308"));
    }
    if !leads_somewhere(&redirect.to) {
        let at = node.get("to").unwrap_or(node).span;
        let why = "a redirect needs a path from the root or a whole URL: what begins otherwise \
                   leads to another place from each page";
        reader.error(at, why).help("begin with /, https:// or {path}");
    }
}

/// True if it is a URL with any values of the variables, and not relative to the current page.
fn leads_somewhere(to: &Template) -> bool {
    match to.parts.as_slice() {
        [Part::Text(text), ..] => text.starts_with('/') || begins_with_scheme(text),
        [Part::Var(Variable::Path), ..] => true,
        [Part::Var(Variable::Scheme), Part::Text(rest), ..] => rest.starts_with(':'),
        _ => false,
    }
}

/// The variable by which a client chooses the host: where the host ends with one and no domain is
/// written behind it. `{host}` is not meant: it is the host of the request.
fn host_of_client(to: &Template) -> Option<&Variable> {
    // Stands for each variable that a client fills in: a character that no URL has.
    const FILLED_IN: char = '\u{fffc}';
    let mut url = String::new();
    let mut variables = Vec::new();
    for part in &to.parts {
        match part {
            Part::Text(text) => url.push_str(text),
            Part::Var(Variable::Path) => url.push('/'),
            Part::Var(Variable::Host) => url.push_str("host.example"),
            Part::Var(
                variable @ (Variable::PathParam(_)
                | Variable::Query(_)
                | Variable::Header(_)
                | Variable::Cookie(_)),
            ) => {
                url.push(FILLED_IN);
                variables.push(variable);
            }
            Part::Var(_) => url.push('x'),
        }
    }
    let (scheme, rest) = url.split_once("//")?;
    let has_authority = scheme.is_empty() || scheme.ends_with(':') && !scheme.contains('/');
    let host = rest.split(['/', '?', '#', ':']).next().filter(|_| has_authority)?;
    let (start, end) = host.rsplit_once(FILLED_IN)?;
    let variable = *variables.get(start.matches(FILLED_IN).count())?;
    // A path parameter after a whole host begins the path: see `variables::fill_url`.
    let is_whole = start.contains('.') && start.ends_with(|c: char| c.is_ascii_alphanumeric());
    let begins_path = matches!(variable, Variable::PathParam(_)) && is_whole && end.is_empty();
    let has_domain = end.split_once('.').is_some_and(|(_, domain)| domain.contains('.'));
    (!begins_path && !has_domain).then_some(variable)
}

/// RFC 3986 3.1.
fn begins_with_scheme(text: &str) -> bool {
    let part = |c: char| c.is_ascii_alphanumeric() || matches!(c, '+' | '-' | '.');
    text.split_once(':').is_some_and(|(scheme, _)| {
        scheme.starts_with(|c: char| c.is_ascii_alphabetic()) && scheme.chars().all(part)
    })
}

fn read(node: &Node, reader: &mut Reader<'_>) -> Option<Arc<dyn HandlerPlan>> {
    Some(Arc::new(Redirect::read(node, reader)?))
}

impl HandlerPlan for Redirect {
    fn name(&self) -> &'static str {
        "redirect"
    }

    fn build(&self, _: &WorkerContext) -> Rc<dyn Handler> {
        Rc::new(self.clone())
    }

    fn describe(&self) -> String {
        format!("{} to {}", self.status, self.to)
    }

    fn note(&self) -> Option<String> {
        let variable = host_of_client(&self.to)?;
        Some(format!(
            "danger: the redirect to {} leads to any host that a client writes into \
             {{{variable}}}; write the domain, as in https://{{{variable}}}.example.com/",
            self.to
        ))
    }
}

impl Redirect {
    fn response(&self, request: &Request) -> Response {
        let mut location = variables::fill_url(&self.to, request);
        if self.keep_query
            && !location.contains(&b'?')
            && let Some(query) = request.target.query()
        {
            location.push(b'?');
            location.extend_from_slice(query);
        }
        let mut response = Response::new(self.status);
        response.headers.append(Known::Location, location);
        response
    }
}

impl Handler for Redirect {
    fn name(&self) -> &'static str {
        "redirect"
    }

    fn is_instant(&self) -> bool {
        true
    }

    fn handle<'a>(&'a self, request: &'a mut Request) -> MaybeFuture<'a, HandlerResult> {
        Ok(self.response(request)).into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use message::{Headers, Target};

    fn location(to: &str, target: &'static str) -> String {
        let redirect: Redirect = settings::read(&settings::node!({ "to": to })).unwrap();
        let target = Target::new(target.into()).unwrap();
        let request = Request::made_up(wire::Method::Get, target, Headers::new());
        redirect.response(&request).headers.get_str(Known::Location).unwrap().to_owned()
    }

    #[test]
    fn the_declaration_is_sound() {
        settings::verify::<Redirect>().unwrap();
    }

    #[test]
    fn the_query_goes_along_unless_the_new_place_has_one() {
        assert_eq!(location("/new{path}", "/a?b=c"), "/new/a?b=c");
        assert_eq!(location("/new?x=1", "/a?b=c"), "/new?x=1");
    }

    #[test]
    fn it_leads_to_a_path_from_the_root_or_a_whole_url() {
        let read = |to: &str| settings::read::<Redirect>(&settings::node!({ "to": to }));
        for good in [
            "/",
            "/a/{query.x}",
            "{path}/",
            "//cdn.example.com/",
            "https://{host}/",
            "{scheme}://{host}{path}",
            "mailto:ann@example.com",
        ] {
            assert!(read(good).is_ok(), "{good}");
        }
        for bad in [
            "",
            "new",
            "{host}/new",
            "{query.next}",
            "{scheme}/x",
            "{path.id}",
            "?a=b",
            "1http://x",
            ":x",
        ] {
            assert!(read(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_host_that_the_client_chooses_is_noted() {
        let note =
            |to: &str| settings::read::<Redirect>(&settings::node!({ "to": to })).unwrap().note();
        for (to, variable) in [
            ("https://{path.x}/", "{path.x}"),
            ("https://{path.x}", "{path.x}"),
            ("{scheme}://{query.to}/a", "{query.to}"),
            ("//{header.x-host}{path}", "{header.x-host}"),
            ("https://{cookie.site}:8443/", "{cookie.site}"),
            ("https://shop.{path.x}/", "{path.x}"),
            ("https://{path.x}.{path.tld}/", "{path.tld}"),
            ("https://{path.x}.com/", "{path.x}"),
            ("https://example.com{query.x}/", "{query.x}"),
        ] {
            let note = note(to).unwrap_or_else(|| panic!("{to}"));
            assert!(note.contains(&format!("writes into {variable};")), "{note}");
        }
        for to in [
            "https://{host}{path}",
            "https://{host}/{path.x}",
            "https://example.com{path}",
            "https://example.com{path.x}",
            "https://{path.x}.example.com/",
            "https://{path.x}-eu.example.com:8443{path}",
            "https://example.com/?to={query.to}",
            "/{path.x}//{query.y}",
            "mailto:{query.x}",
        ] {
            assert_eq!(note(to), None, "{to}");
        }
    }

    #[test]
    fn what_a_client_sent_cannot_leave_its_place() {
        assert_eq!(location("/q?x={query.y}", "/a?y=1%262%0d%0a"), "/q?x=1%262%0D%0A");
    }
}
