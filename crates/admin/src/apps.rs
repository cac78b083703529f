//! Applications that run in processes of their own: how they are, and a new start of one.

use message::Response;
use serde_json::{Value as Json, json};

use crate::control::{AppStatus, AppWorkerStatus, Control};
use crate::errors::errors;
use crate::messages::{ApiResult, json_response, time};
use crate::problem::Problem;

pub(crate) fn all(control: &dyn Control) -> Response {
    let rows: Vec<Json> = control.apps().iter().map(row).collect();
    json_response(200, &json!({ "apps": rows }))
}

/// Replaces its processes, one after the other.
pub(crate) async fn reload(control: &dyn Control, name: &str) -> ApiResult {
    if !control.apps().iter().any(|app| app.name == name) {
        return Err(Problem::new(404, format!("there is no app \"{name}\"")));
    }
    match control.reload_app(name).await {
        Ok(()) => Ok(json_response(200, &json!({ "reloaded": name }))),
        Err(why) => Err(Problem::new(500, why).advice("the previous processes continue to serve")),
    }
}

fn row(app: &AppStatus) -> Json {
    let workers: Vec<Json> = app.workers.iter().map(worker).collect();
    json!({
        "name": app.name,
        "target": app.target,
        "ready": app.ready,
        "leaving": app.leaving,
        "workers": workers,
        "failures": errors(&app.failures),
        "errors": errors(&app.errors),
        "preloader": app.preloader.as_ref().map(|one| json!({
            "state": if one.is_ready { "ready" } else { "ended" },
            "process": one.process,
            "rss_bytes": one.rss_bytes,
        })),
        "tasks": {
            "waiting": app.tasks.waiting,
            "running": app.tasks.running,
            "done": app.tasks.done,
            "failed": app.tasks.failed,
            "retried": app.tasks.retried,
        },
    })
}

fn worker(worker: &AppWorkerStatus) -> Json {
    let restarts: serde_json::Map<String, Json> =
        worker.restarts.iter().map(|(reason, n)| ((*reason).to_owned(), json!(n))).collect();
    json!({
        "index": worker.index,
        "state": worker.state,
        "process": worker.process,
        "generation": worker.generation,
        "started": worker.started_ms.map(time),
        "requests": worker.requests,
        "in_flight": worker.in_flight,
        "websockets": worker.websockets,
        "rss_bytes": worker.rss_bytes,
        "loop_lag_ms": worker.loop_lag_ms,
        "restarts": restarts,
        "last_failure": worker.last_failure,
    })
}

#[cfg(test)]
mod tests {
    use std::rc::Rc;

    use serde_json::{Value as Json, json};
    use telemetry::ErrorRecord;
    use wire::Method;

    use crate::control::AppStatus;
    use crate::testing::{Api, FakeServer};

    #[test]
    fn failures_of_processes_and_exceptions_of_requests_have_one_form() {
        let server = Rc::new(FakeServer::new());
        let record = |message: &str, request: Option<&str>| ErrorRecord {
            at_ms: 2_000,
            first_ms: 1_000,
            times: 2,
            worker: 1,
            request: request.map(str::to_owned),
            message: message.to_owned(),
            traceback: "Traceback".to_owned(),
            ..ErrorRecord::default()
        };
        server.apps.replace(vec![AppStatus {
            name: "shop".to_owned(),
            failures: vec![record("it was ended by signal 9", None)],
            errors: vec![record("KeyError: '<b>'", Some("GET /<b>"))],
            ..AppStatus::default()
        }]);
        let (status, _, body) = Api(server).send(Method::Get, "/v1/apps", None, "");
        let body: Json = serde_json::from_str(&body).unwrap();
        let app = &body["apps"][0];
        let expected = |message: &str, request: Json| {
            json!({
                "at": "1970-01-01T00:00:02.000Z", "first": "1970-01-01T00:00:01.000Z", "times": 2,
                "worker": 1, "route": null, "request": request, "file": null,
                "message": message, "traceback": "Traceback", "trace_id": null,
            })
        };
        assert_eq!((status, &app["name"]), (200, &"shop".into()));
        assert_eq!(app["failures"], json!([expected("it was ended by signal 9", Json::Null)]));
        assert_eq!(app["errors"], json!([expected("KeyError: '<b>'", "GET /<b>".into())]));
    }
}
