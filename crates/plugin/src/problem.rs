//! The one place where a fault becomes a response.
//!
//! Error bodies are `application/problem+json` (RFC 9457), HTML or text, by Accept, or a page of
//! the configuration; a gRPC call gets a status without a body. They reveal no internals: the
//! detail is logged.

use std::collections::BTreeMap;

use bytes::Bytes;
use sfv::{ItemSerializer, StringRef, TokenRef, key_ref, token_ref};
use wire::Known;
use wire::h1::reason;

use crate::{Dispatch, Route};
use message::{Body, Fault, Headers, Request, Response, Side};

/// Pages of the configuration's `errors`, by status.
#[derive(Debug, Default)]
pub struct ErrorPages {
    pages: BTreeMap<u16, ErrorPage>,
}

/// One page.
#[derive(Clone, Debug)]
pub struct ErrorPage {
    pub content_type: Box<str>,
    pub body: Bytes,
}

impl ErrorPages {
    pub fn new(pages: BTreeMap<u16, ErrorPage>) -> ErrorPages {
        ErrorPages { pages }
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Form {
    Json,
    Html,
    Text,
}

/// The response to a fault of a request, changed as `route` says, or without one as the
/// configuration's `defaults` say.
pub fn respond(
    fault: &Fault,
    request: &Request,
    route: Option<&Route>,
    pages: &ErrorPages,
    dispatch: &dyn Dispatch,
) -> Response {
    let call = request.notes.grpc.as_deref();
    let mut response = call
        .and_then(|call| call.failed(fault))
        .unwrap_or_else(|| page(fault, Some(&request.headers), pages));
    append_fields(fault, &mut response);
    match route {
        Some(route) => route.on_generated(request, &mut response),
        None => dispatch.on_generated(request, &mut response),
    }
    response
}

/// The response to a fault; `headers` are the request's, where there is one.
pub fn render(fault: &Fault, headers: Option<&Headers>, pages: &ErrorPages) -> Response {
    let mut response = page(fault, headers, pages);
    append_fields(fault, &mut response);
    response
}

/// The configured page of a status, or the body that Accept asks for.
fn page(fault: &Fault, headers: Option<&Headers>, pages: &ErrorPages) -> Response {
    match pages.pages.get(&fault.status) {
        Some(page) => Response::with_body(fault.status, &page.content_type, page.body.clone()),
        None => negotiated(fault.status, headers),
    }
}

/// The header fields that a fault brings along.
fn append_fields(fault: &Fault, response: &mut Response) {
    let fields = &mut response.headers;
    if let Some(allow) = &fault.allow {
        fields.append(Known::Allow, &**allow);
    }
    if let Some(seconds) = fault.retry_after_s {
        fields.append(Known::RetryAfter, seconds.to_string());
    }
    for field in fault.fields.iter().flat_map(|more| more.iter()) {
        fields.append(field.name, field.value);
    }
    if fault.side() == Side::Upstream {
        // RFC 9209 2: the proxy that reports the error, and the registered error.
        let mut item = ItemSerializer::new().bare_item(token_ref("tidegate"));
        if let Ok(error) = TokenRef::from_str(fault.slug()) {
            item = item.parameter(key_ref("error"), error);
        }
        if let Some(Ok(next_hop)) = fault.next_hop.as_deref().map(StringRef::from_str) {
            item = item.parameter(key_ref("next-hop"), next_hop);
        }
        fields.append(Known::ProxyStatus, item.finish());
    }
}

/// The body that Accept asks for.
fn negotiated(status: u16, headers: Option<&Headers>) -> Response {
    let Some(headers) = headers else { return body(status, Form::Text) };
    let mut response = body(status, preferred_form(headers));
    // RFC 9110 12.5.5: a cache may keep a 404 or a 410, and the next may ask for another form.
    response.headers.append(Known::Vary, "Accept");
    response
}

fn body(status: u16, form: Form) -> Response {
    let title = match reason(status) {
        "" => "Error",
        title => title,
    };
    match form {
        Form::Json => Response::with_body(
            status,
            "application/problem+json",
            format!("{{\"type\":\"about:blank\",\"title\":\"{title}\",\"status\":{status}}}\n"),
        ),
        Form::Html => Response::with_body(
            status,
            "text/html; charset=utf-8",
            format!(
                "<!doctype html><html lang=\"en\"><title>{status} {title}</title>\
                 <h1>{status} {title}</h1></html>\n"
            ),
        ),
        Form::Text => Response::text(status, Body::from(format!("{status} {title}\n"))),
    }
}

/// The format that the client's Accept prefers; text without one.
fn preferred_form(headers: &Headers) -> Form {
    const FORMS: [(&str, Form); 4] = [
        ("text/plain", Form::Text),
        ("application/problem+json", Form::Json),
        // Programs that ask for JSON seldom name this kind of it; it can be read as what they ask.
        ("application/json", Form::Json),
        ("text/html", Form::Html),
    ];
    let offers = FORMS.map(|(media_type, _)| media_type);
    let chosen = wire::negotiate::choose_media_type(headers.get(Known::Accept), &offers);
    chosen.map_or(Form::Text, |index| FORMS[index].1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use message::FaultKind;

    fn rendered(fault: &Fault, accept: &str) -> Response {
        let mut headers = Headers::new();
        headers.append(Known::Accept, accept);
        render(fault, Some(&headers), &ErrorPages::default())
    }

    struct NoRoutes;

    impl Dispatch for NoRoutes {
        fn dispatch(&self, _: &mut Request) -> Result<std::rc::Rc<Route>, Fault> {
            Err(Fault::not_found())
        }
    }

    fn content_type(response: &Response) -> &str {
        response.headers.get_str(Known::ContentType).unwrap()
    }

    #[test]
    fn the_form_is_what_accept_requests() {
        let fault = Fault::not_found();
        assert_eq!(content_type(&rendered(&fault, "*/*")), "text/plain; charset=utf-8");
        let json = rendered(&fault, "application/problem+json");
        assert_eq!(content_type(&json), "application/problem+json");
        let plain_json = rendered(&fault, "application/json");
        assert_eq!(content_type(&plain_json), "application/problem+json");
        let html = rendered(&fault, "text/html,application/xhtml+xml,*/*;q=0.8");
        assert_eq!(content_type(&html), "text/html; charset=utf-8");
    }

    #[test]
    fn what_accept_chose_says_so() {
        let vary = |response: &Response| response.headers.get_str(Known::Vary).map(str::to_owned);
        let fault = Fault::not_found();
        assert_eq!(vary(&rendered(&fault, "text/html")).as_deref(), Some("Accept"));
        let none = ErrorPages::default();
        // No Accept is a choice too: the next request may have one.
        assert_eq!(vary(&render(&fault, Some(&Headers::new()), &none)).as_deref(), Some("Accept"));
        assert_eq!(vary(&render(&fault, None, &none)), None);
        let page = ErrorPage { content_type: "text/html".into(), body: "<p>gone".into() };
        let pages = ErrorPages::new(BTreeMap::from([(404, page)]));
        assert_eq!(vary(&render(&fault, Some(&Headers::new()), &pages)), None);
    }

    #[test]
    fn an_upstream_fault_says_so_and_keeps_its_detail() {
        let fault = Fault::new(FaultKind::ConnectionRefused, "10.0.0.1 secret");
        let response = rendered(&fault, "*/*");
        let status = response.headers.get_str(Known::ProxyStatus).unwrap();
        assert_eq!(status, "tidegate;error=connection_refused");
        let Body::Bytes(body) = &response.body else { panic!("a body") };
        assert_eq!(&body[..], b"502 Bad Gateway\n");
    }

    #[test]
    fn a_grpc_call_gets_its_status() {
        let routes = NoRoutes;
        let mut fields = Headers::new();
        fields.append(Known::ContentType, "application/grpc-web+proto");
        let target = message::Target::new("/a.B/C".into()).unwrap();
        let mut request = Request::made_up(wire::Method::Post, target, fields);
        message::GrpcCall::note(&mut request).unwrap();
        for (fault, status, text) in [
            (Fault::not_found(), "12", Some("Not Found")),
            (Fault::new(FaultKind::RateLimited, "secret"), "14", Some("Too Many Requests")),
            (Fault::deadline(), "4", Some("Deadline Exceeded")),
            (Fault::body_too_large(), "8", Some("Content Too Large")),
        ] {
            let response = respond(&fault, &request, None, &ErrorPages::default(), &routes);
            let header = |name: &str| response.headers.get_str(name);
            assert_eq!(response.status, 200);
            assert_eq!(content_type(&response), "application/grpc-web+proto");
            assert_eq!((header("grpc-status"), header("grpc-message")), (Some(status), text));
            assert!(response.body.is_empty());
        }
        let fault = Fault::new(FaultKind::ConnectionRefused, "");
        let response = respond(&fault, &request, None, &ErrorPages::default(), &routes);
        let proxy_status = response.headers.get_str(Known::ProxyStatus);
        assert_eq!(proxy_status, Some("tidegate;error=connection_refused"));
    }

    #[test]
    fn a_configured_page_wins() {
        let page = ErrorPage { content_type: "text/html".into(), body: "<p>sorry".into() };
        let pages = ErrorPages::new(BTreeMap::from([(502, page)]));
        let response = render(&Fault::internal(""), None, &pages);
        assert_eq!(response.status, 500);
        let fault = Fault::new(FaultKind::ConnectionRefused, "");
        assert_eq!(content_type(&render(&fault, None, &pages)), "text/html");
    }
}
