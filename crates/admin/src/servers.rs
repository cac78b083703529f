//! `/v1/upstreams/{name}/servers`: draining and weights of servers, until the next reload.

use message::Request;
use serde_json::{Map, Value as Json, json};
use settings::nearest;
use telemetry::event;
use telemetry::log::Level;
use upstream::{ServerChange, WEIGHT_MAX};

use crate::control::{Control, UpstreamStatus};
use crate::limits::REQUEST_BYTES;
use crate::messages::{ApiResult, json_response, object};
use crate::problem::Problem;

const KEYS: [&str; 3] = ["server", "drain", "weight"];

pub(crate) async fn change(control: &dyn Control, name: &str, request: &mut Request) -> ApiResult {
    let members = object(request, REQUEST_BYTES, &KEYS).await?;
    let (typed, change) = read(&members)?;
    let upstreams = control.upstreams();
    let Some(upstream) = upstreams.iter().find(|upstream| upstream.name == name) else {
        let names = upstreams.iter().map(|upstream| &*upstream.name);
        return Err(missing(&format!("there is no upstream {name:?}"), nearest(name, names)));
    };
    if !names(upstream).any(|known| known == typed) || !control.change_server(name, typed, change) {
        let why = format!("the upstream {name:?} has no server {typed:?}");
        return Err(missing(&why, nearest(typed, names(upstream))));
    }
    let (drain, weight) = (change.drain, change.weight);
    event!(
        Level::Info,
        "a server was changed until the next reload",
        upstream = name,
        server = typed,
        drain = drain.map_or("unchanged", |drain| if drain { "yes" } else { "no" }),
        weight = weight.map_or("unchanged".to_owned(), |weight| weight.to_string()),
        by = "admin API"
    );
    Ok(json_response(200, &json!({ "server": typed, "until": "the next reload" })))
}

/// The names of servers: addresses, and entries of the configuration.
fn names(upstream: &UpstreamStatus) -> impl Iterator<Item = &str> {
    upstream.servers.iter().flat_map(|server| [&*server.address, &*server.server])
}

fn missing(why: &str, near: Option<&str>) -> Problem {
    let problem = Problem::new(404, why);
    match near {
        Some(near) => problem.advice(format!("did you mean {near:?}?")),
        None => problem.advice("GET /v1/upstreams lists upstreams and servers"),
    }
}

fn read(members: &Map<String, Json>) -> Result<(&str, ServerChange), Problem> {
    let Some(server) = members.get("server").and_then(Json::as_str) else {
        return Err(Problem::new(400, "the body has no text \"server\"")
            .advice("for example {\"server\": \"10.0.0.7:80\", \"drain\": true}"));
    };
    let drain = match members.get("drain") {
        None | Some(Json::Null) => None,
        Some(Json::Bool(drain)) => Some(*drain),
        Some(other) => {
            let detail = format!("\"drain\" must be true or false, not {other}");
            return Err(Problem::new(400, detail));
        }
    };
    let weight = match members.get("weight") {
        None | Some(Json::Null) => None,
        Some(other) => {
            let weight = other.as_u64().and_then(|weight| u32::try_from(weight).ok());
            let weight = weight.filter(|weight| (1..=WEIGHT_MAX).contains(weight));
            Some(weight.ok_or_else(|| {
                let detail = format!("\"weight\" must be 1 to {WEIGHT_MAX}, not {other}");
                Problem::new(400, detail).advice("a server with \"drain\": true gets no requests")
            })?)
        }
    };
    if drain.is_none() && weight.is_none() {
        return Err(Problem::new(400, "the body has neither \"drain\" nor \"weight\""));
    }
    Ok((server, ServerChange { drain, weight }))
}
