//! `/v1/lua`: Lua files, the last errors of their code, and a restart of their VMs.

use message::Response;
use serde_json::{Value as Json, json};

use crate::control::{Control, LuaError};
use crate::errors::error;
use crate::lua_profile::no_program;
use crate::messages::{ApiResult, json_response};

pub(crate) fn all(control: &dyn Control) -> Response {
    let status = control.lua();
    let files: Vec<Json> = status
        .files
        .iter()
        .map(|file| json!({ "path": file.path, "used_by": file.used_by, "uses": file.uses }))
        .collect();
    let errors: Vec<Json> = status.errors.iter().map(lua_error).collect();
    json_response(200, &json!({ "files": files, "errors": errors }))
}

fn lua_error(found: &LuaError) -> Json {
    let mut row = error(&found.error);
    row["program"] = json!(found.program);
    row
}

/// Replaces the VMs of all workers.
pub(crate) async fn restart(control: &dyn Control) -> ApiResult {
    match control.restart_lua().await {
        0 => Err(no_program()),
        restarted => Ok(json_response(200, &json!({ "restarted": restarted }))),
    }
}

#[cfg(test)]
mod tests {
    use std::rc::Rc;

    use serde_json::{Value as Json, json};
    use wire::Method;

    use crate::testing::{Api, FakeServer};

    #[test]
    fn files_and_errors_are_shown_and_a_restart_counts_vms() {
        let server = Rc::new(FakeServer::new());
        let api = Api(server.clone());
        let send = |method, path: &str| {
            let (status, _, body) = api.send(method, path, None, "");
            (status, serde_json::from_str::<Json>(&body).unwrap())
        };
        let (status, problem) = send(Method::Post, "/v1/lua/restart");
        assert_eq!((status, &problem["detail"]), (404, &"this server runs no Lua code".into()));
        server.lua_vms.set(2);
        assert_eq!(send(Method::Post, "/v1/lua/restart"), (200, json!({ "restarted": 2 })));
        let (_, lua) = send(Method::Get, "/v1/lua");
        let file = json!({ "path": "/srv/page.lua", "used_by": ["route shop"], "uses": 3 });
        assert_eq!(lua["files"], json!([file]));
        let error = &lua["errors"][0];
        assert_eq!((&error["route"], &error["program"]), (&"shop".into(), &Json::Null));
        assert_eq!((&error["times"], &error["message"]), (&2.into(), &"page.lua:1: no".into()));
        assert_eq!((&error["at"], &error["first"]), (&time(2_000), &time(1_000)));
    }

    fn time(at_ms: u64) -> Json {
        crate::messages::time(at_ms).into()
    }
}
