//! `/v1/nodes`: the servers whose configuration is in etcd together with that of this one, as each
//! of them reports.

use serde_json::{Value as Json, json};

use crate::control::{Control, NodeReport, NodesWanted};
use crate::messages::{ApiResult, json_response, page_of, time};
use crate::problem::Problem;

impl NodeReport {
    fn to_json(&self) -> Json {
        let state = match (&self.refused, &self.canary) {
            (Some(_), _) => "refused",
            (None, Some(_)) => "canary",
            (None, None) => "ready",
        };
        let refused = self.refused.as_ref().map(|refused| {
            json!({
                "revision": refused.revision,
                "errors": refused.errors,
            })
        });
        let canary = self.canary.map(|canary| {
            json!({
                "requests": canary.requests,
                "errors": canary.errors,
            })
        });
        json!({
            "name": self.name,
            "state": state,
            "version": self.version,
            "revision": self.revision,
            "refused": refused,
            "canary": canary,
            "reported": time(self.at_ms),
            "build": self.build,
            "process": self.process,
        })
    }
}

pub(crate) async fn all(control: &dyn Control, query: Option<&[u8]>) -> ApiResult {
    let (after, limit) = page_of(query)?;
    let found = control.nodes(NodesWanted { after, limit }).await.map_err(|why| {
        Problem::new(503, format!("the nodes cannot be read: {why}"))
            .advice("this server serves the configuration that it received last")
    })?;
    let Some(fleet) = found else {
        return Ok(json_response(200, &json!({ "source": null, "node": null, "nodes": [] })));
    };
    let next = fleet.nodes.last().filter(|_| fleet.has_more).map(|node| node.name.clone());
    let nodes: Vec<Json> = fleet.nodes.iter().map(NodeReport::to_json).collect();
    let mut body = json!({ "source": fleet.source, "node": fleet.node, "nodes": nodes });
    if let Some(next) = next {
        body["next"] = json!(next);
    }
    Ok(json_response(200, &body))
}

#[cfg(test)]
mod tests {
    use std::rc::Rc;

    use wire::Method;

    use super::*;
    use crate::control::{CanaryResponses, FleetNodes, RefusedRevision};
    use crate::testing::{Api, FakeServer};

    fn get(api: &Api, path: &str) -> (u16, Json) {
        let (status, _, body) = api.send(Method::Get, path, None, "");
        (status, serde_json::from_str(&body).unwrap())
    }

    #[test]
    fn the_nodes_of_a_fleet_come_in_pages() {
        let api = Api(Rc::new(FakeServer::new()));
        let alone = json!({ "source": null, "node": null, "nodes": [] });
        assert_eq!(get(&api, "/v1/nodes"), (200, alone));
        let node = |name: &str| NodeReport {
            name: name.to_owned(),
            version: "5f0c".to_owned(),
            revision: 7,
            build: "0.1.0".to_owned(),
            process: 42,
            ..NodeReport::default()
        };
        let errors = vec!["a.yaml:1:2: unknown key".to_owned()];
        let refused = Some(RefusedRevision { revision: 8, errors });
        let canary = Some(CanaryResponses { requests: 9, errors: 1 });
        *api.0.fleet.borrow_mut() = Ok(Some(FleetNodes {
            source: "etcd://a/shop".to_owned(),
            node: "n2".to_owned(),
            nodes: vec![
                node("n1"),
                NodeReport { refused, ..node("n2") },
                NodeReport { canary, ..node("n3") },
            ],
            has_more: false,
        }));
        let (status, first) = get(&api, "/v1/nodes?limit=2");
        assert_eq!((status, &first["source"]), (200, &json!("etcd://a/shop")));
        assert_eq!(first["node"], "n2");
        assert_eq!(
            first["nodes"][0],
            json!({
                "name": "n1",
                "state": "ready",
                "version": "5f0c",
                "revision": 7,
                "refused": null,
                "canary": null,
                "reported": "1970-01-01T00:00:00.000Z",
                "build": "0.1.0",
                "process": 42,
            })
        );
        let refused = json!({ "revision": 8, "errors": ["a.yaml:1:2: unknown key"] });
        assert_eq!(first["nodes"][1]["state"], "refused");
        assert_eq!(first["nodes"][1]["refused"], refused);
        assert_eq!(first["next"], "n2");
        let (_, last) = get(&api, "/v1/nodes?limit=2&after=n2");
        assert_eq!((&last["nodes"][0]["state"], last.get("next")), (&json!("canary"), None));
        assert_eq!(last["nodes"][0]["canary"], json!({ "requests": 9, "errors": 1 }));
        assert_eq!(get(&api, "/v1/nodes?limit=x").0, 400);
        assert_eq!(get(&api, "/v1/nodes?before=x").0, 400);
        *api.0.fleet.borrow_mut() = Err("etcd: no response".to_owned());
        let (status, problem) = get(&api, "/v1/nodes");
        assert_eq!(status, 503);
        assert_eq!(problem["detail"], "the nodes cannot be read: etcd: no response");
    }
}
