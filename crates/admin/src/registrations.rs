//! `/v1/upstreams/{name}/servers`: servers that register themselves with an upstream.
//!
//! A registration is renewed by repeating it, so that a server needs one request for both and a
//! restart of this process is repaired by the next heartbeat.

use message::{Request, Response};
use serde_json::{Value as Json, json};
use telemetry::event;
use telemetry::log::Level;
use upstream::{RegisteredServer, RegistrationError};
use wire::{Known, target};

use crate::control::Control;
use crate::limits::REQUEST_BYTES;
use crate::messages::{ApiResult, body_text, json_response};
use crate::problem::Problem;

pub(crate) fn all(control: &dyn Control, name: &str) -> ApiResult {
    let servers = control.upstream_registry().registered(name).map_err(|why| refused(name, why))?;
    let servers: Vec<Json> = servers.iter().map(view).collect();
    Ok(json_response(200, &json!({ "servers": servers })))
}

pub(crate) async fn put(control: &dyn Control, name: &str, request: &mut Request) -> ApiResult {
    let text = body_text(request, REQUEST_BYTES).await?;
    let registered = control.upstream_registry().register(name, &text);
    let server = registered.map_err(|why| refused(name, why))?;
    if server.is_new {
        let address = &server.address;
        event!(Level::Info, "server registered", upstream = name, server = address);
    }
    Ok(json_response(if server.is_new { 201 } else { 200 }, &view(&server)))
}

pub(crate) fn delete(control: &dyn Control, name: &str, query: Option<&[u8]>) -> ApiResult {
    let mut pairs = target::query_pairs(query.unwrap_or_default());
    let address = pairs.find(|(name, _)| &**name == b"address").ok_or_else(|| {
        Problem::new(400, "`address` is missing")
            .advice("name the server, as in ?address=10.0.0.7:9000")
    })?;
    let address = String::from_utf8_lossy(&address.1);
    let removed = control.upstream_registry().deregister(name, &address);
    if !removed.map_err(|why| refused(name, why))? {
        return Err(Problem::new(404, format!("{} is not registered", settings::quote(&address))));
    }
    event!(Level::Info, "server deregistered", upstream = name, server = address);
    Ok(Response::new(204))
}

fn view(server: &RegisteredServer) -> Json {
    json!({
        "address": server.address,
        "weight": server.weight,
        "backup": server.backup,
        "expires_in_s": server.expires_in.as_secs(),
    })
}

fn refused(name: &str, why: RegistrationError) -> Problem {
    let shown = settings::quote(name);
    match why {
        RegistrationError::NoUpstream { nearest } => {
            let problem = Problem::new(404, format!("there is no upstream {shown}"));
            match nearest {
                Some(near) => problem.advice(format!("did you mean {}?", settings::quote(&near))),
                None => problem,
            }
        }
        RegistrationError::NotAccepted => {
            Problem::new(409, format!("servers cannot register with the upstream {shown}"))
                .advice("write discover: { registration: {} } under the upstream")
        }
        RegistrationError::Invalid(why) => Problem::new(422, why)
            .advice("send an address, or {\"address\": \"10.0.0.7:9000\", \"weight\": 1}"),
        RegistrationError::TooMany => Problem::new(
            503,
            format!("the upstream {shown} has the most servers that may register"),
        )
        .field(Known::RetryAfter, "10"),
    }
}

#[cfg(test)]
mod tests {
    use std::rc::Rc;

    use settings::{Reader, Report, Span, Spanned, node};
    use upstream::{UpstreamPlan, UpstreamSettings};
    use wire::Method;

    use super::*;
    use crate::testing::{Api, FakeServer};

    fn server() -> Rc<FakeServer> {
        let server = Rc::new(FakeServer::new());
        let plan = |node| {
            let settings: UpstreamSettings = settings::read(&node).unwrap();
            let name = Spanned::new("api".to_owned(), Span::NOWHERE);
            UpstreamPlan::new(&name, settings, &mut Reader::new(&mut Report::new())).unwrap()
        };
        let registering = plan(node!({ "discover": { "registration": { "ttl": "9s" } } }));
        let fixed = plan(node!({ "servers": ["10.0.0.1:80"] }));
        let upstreams = [("api", &registering), ("fixed", &fixed)];
        server.upstreams.apply(upstreams, &server.telemetry);
        server
    }

    /// Status and body of the response.
    fn send(server: &Rc<FakeServer>, method: Method, path: &str, body: &str) -> (u16, String) {
        let (status, _, body) = Api(server.clone()).send(method, path, None, body);
        (status, body)
    }

    #[test]
    fn a_server_registers_renews_and_leaves() {
        let server = server();
        let path = "/v1/upstreams/api/servers";
        assert_eq!(send(&server, Method::Put, path, "10.0.0.7:80").0, 201);
        let (status, body) =
            send(&server, Method::Put, path, r#"{ "address": "10.0.0.7:80", "weight": 3 }"#);
        assert_eq!(status, 200);
        let expected = json!({
            "address": "10.0.0.7:80", "weight": 3, "backup": false, "expires_in_s": 9
        });
        assert_eq!(serde_json::from_str::<Json>(&body).unwrap(), expected);
        let (status, body) = send(&server, Method::Get, path, "");
        assert!(status == 200 && body.contains("10.0.0.7:80"), "{body}");
        let leaving = format!("{path}?address=10.0.0.7:80");
        assert_eq!(send(&server, Method::Delete, &leaving, "").0, 204);
        assert_eq!(send(&server, Method::Delete, &leaving, "").0, 404);
    }

    #[test]
    fn what_is_wrong_is_named() {
        let server = server();
        for (method, path, body, status, why) in [
            (Method::Put, "/v1/upstreams/apl/servers", "a:1", 404, "did you mean \\\"api\\\"?"),
            (Method::Put, "/v1/upstreams/fixed/servers", "a:1", 409, "discover: { registration"),
            (Method::Put, "/v1/upstreams/api/servers", "a", 422, "has no port: write a:80"),
            (
                Method::Put,
                "/v1/upstreams/api/servers",
                r#"{ "adress": "a:1" }"#,
                422,
                "did you mean \\\"address\\\"?",
            ),
            (Method::Put, "/v1/upstreams/api/servers", "unix:/run/x", 422, "a host and a port"),
            (Method::Delete, "/v1/upstreams/api/servers", "", 400, "`address` is missing"),
            (Method::Get, "/v1/upstreams/none/servers", "", 404, "there is no upstream"),
        ] {
            let (got, text) = send(&server, method, path, body);
            assert!(got == status && text.contains(why), "{path} {body}: {got} {text}");
        }
    }
}
