//! Applications that run in processes of their own: how they are, and a new start of one.

use message::Response;
use serde_json::{Value as Json, json};

use crate::control::{AppFailure, AppStatus, AppWorkerStatus, Control};
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
        "failures": app.failures.iter().map(failure).collect::<Vec<_>>(),
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

fn failure(failure: &AppFailure) -> Json {
    json!({
        "at": time(failure.at_ms),
        "times": failure.times,
        "worker": failure.worker,
        "text": failure.text,
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
