//! `/v1/upstreams/{name}/history`: changes of the health of servers.

use serde_json::{Value as Json, json};
use settings::nearest;

use crate::control::Control;
use crate::messages::{ApiResult, json_response};
use crate::problem::Problem;
use crate::views::health_change;

pub(crate) fn all(control: &dyn Control, name: &str) -> ApiResult {
    let Some(changes) = control.upstream_registry().health_changes(name) else {
        let problem = Problem::new(404, format!("there is no upstream {}", settings::quote(name)));
        let upstreams = control.upstreams();
        let names = upstreams.iter().map(|upstream| &*upstream.name);
        return Err(match nearest(name, names) {
            Some(near) => problem.advice(format!("did you mean {}?", settings::quote(near))),
            None => problem.advice("GET /v1/upstreams lists upstreams"),
        });
    };
    let rows: Vec<Json> = changes
        .iter()
        .map(|(server, change)| {
            let mut row = health_change(change);
            row["server"] = json!(**server);
            row
        })
        .collect();
    Ok(json_response(200, &json!({ "changes": rows })))
}

#[cfg(test)]
mod tests {
    use std::rc::Rc;

    use settings::{Reader, Report, Span, Spanned, node};
    use upstream::{ServerChange, UpstreamPlan, UpstreamSettings};
    use wire::Method;

    use super::*;
    use crate::testing::{Api, FakeServer};

    #[test]
    fn changes_of_an_upstream_are_listed() {
        let server = Rc::new(FakeServer::new());
        let servers = node!({ "servers": ["10.0.0.1:80", "10.0.0.2:80"] });
        let settings: UpstreamSettings = settings::read(&servers).unwrap();
        let name = Spanned::new("catalog".to_owned(), Span::NOWHERE);
        let mut report = Report::new();
        let plan = UpstreamPlan::new(&name, settings, &mut Reader::new(&mut report)).unwrap();
        server.upstreams.apply([("catalog", &plan)], &server.telemetry);
        let api = Api(server.clone());
        let get = |path: &str| {
            let (status, _, body) = api.send(Method::Get, path, None, "");
            (status, serde_json::from_str::<Json>(&body).unwrap())
        };
        let path = "/v1/upstreams/catalog/history";
        assert_eq!(get(path), (200, json!({ "changes": [] })));
        let drain = ServerChange { drain: Some(true), weight: None };
        assert!(server.upstreams.change_server("catalog", "10.0.0.2:80", drain));
        let (_, listed) = get(path);
        let change = &listed["changes"][0];
        assert_eq!(
            (&change["server"], &change["state"]),
            (&"10.0.0.2:80".into(), &"draining".into())
        );
        assert!(change["at"].as_str().unwrap().starts_with("20") && change["why"].is_string());
        let (status, problem) = get("/v1/upstreams/catalgo/history");
        assert_eq!((status, &problem["advice"]), (404, &"did you mean \"catalog\"?".into()));
    }
}
