//! The last errors of Lua code, the lag of its workers, and the restart of its VMs, over the admin
//! API and by `tidegate ctl`.

use std::process::Command;

use scenarios::{HttpResponse, Launch, Process, Tidegate, eventually_some, tidegate_binary};
use serde_json::Value;

const SCRIPT: &str = r#"
local calls = 0
local function fails(why) error("failed: " .. why) end
return function(request, response)
  calls = calls + 1
  local query = request.query
  if query.fail then fails(query.fail) end
  if query.busy then
    local began = os.time()
    while os.time() - began < 3 do end
  end
  if query.read then request.body:read() end
  response:text(tostring(calls))
end
"#;

const PING: &str = r#"return function(connection)
  connection:read("\r\n")
  error({ code = 7 })
end"#;

const CONFIG: &str = r#"
workers: 1
listeners: { web: { bind: "127.0.0.1:0" } }
admin:
  bind: "127.0.0.1:0"
  tokens:
    - { name: reader, role: read, token: only-looks }
    - { name: operator, role: write, token: may-write }
programs: [{ bind: "127.0.0.1:0", lua: ping.lua }]
routes: [{ name: page, match: { path: "/x" }, handler: { lua: { file: x.lua, budget: 100G } } }]
"#;

fn start() -> Tidegate {
    Launch::new(CONFIG).file("x.lua", SCRIPT).file("ping.lua", PING).start()
}

fn get(server: &Tidegate, query: &str) -> HttpResponse {
    server
        .exchange("web", format!("GET /x{query} HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n"))
}

fn api(server: &Tidegate, token: &str, line: &str) -> (u16, Value) {
    let response = server.exchange(
        "admin",
        format!(
            "{line} HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer {token}\r\n\
             content-length: 0\r\nconnection: close\r\n\r\n"
        ),
    );
    (response.status, serde_json::from_slice(&response.body).expect("JSON"))
}

/// Runs `tidegate ctl` and returns its output.
fn ctl(server: &Tidegate, token: &str, words: &[&str]) -> String {
    let admin = server.address_text("admin");
    let mut ctl = Command::new(tidegate_binary());
    ctl.args(["ctl", "--admin", &admin]).args(words).env("TIDEGATE_TOKEN", token);
    let exit = Process::run(&mut ctl);
    assert_eq!(exit.code, Some(0), "{}", exit.stderr);
    exit.stdout
}

fn lua(server: &Tidegate) -> Value {
    api(server, "only-looks", "GET /v1/lua").1
}

#[test]
fn errors_have_their_route_or_program_and_their_stack() {
    let server = start();
    assert_eq!(lua(&server)["errors"], serde_json::json!([]));
    for why in ["one", "two", "one"] {
        assert_eq!(get(&server, &format!("?fail={why}")).status, 500);
    }
    let mut client = server.connect("program-1");
    client.send("ping\r\n");
    client.expect_closed();
    let lua = lua(&server);
    let errors = lua["errors"].as_array().expect("errors");
    let shown: Vec<_> =
        errors.iter().map(|one| (&one["route"], &one["program"], &one["times"])).collect();
    let (page, program) = (Value::from("page"), Value::from("program-1"));
    let (once, twice) = (Value::from(1), Value::from(2));
    let nothing = Value::Null;
    let expected =
        [(&nothing, &program, &once), (&page, &nothing, &twice), (&page, &nothing, &once)];
    assert_eq!(shown, expected, "{lua:#}");
    let text = |at: usize, name: &str| errors[at][name].as_str().expect("a text");
    assert!(text(0, "file").ends_with("/ping.lua") && text(0, "message").starts_with("table: "));
    assert!(text(1, "file").ends_with("/x.lua"), "{lua:#}");
    assert!(text(1, "message").ends_with("x.lua:3: failed: one"), "{lua:#}");
    assert!(text(2, "message").ends_with("x.lua:3: failed: two"), "{lua:#}");
    let traceback = text(1, "traceback");
    assert!(traceback.starts_with("stack traceback:") && traceback.contains("x.lua:7:"), "{lua:#}");
    let files = lua["files"].as_array().expect("files").iter();
    let users: Vec<_> = files.map(|file| (&file["used_by"][0], &file["uses"])).collect();
    let route = Value::from("route page");
    assert_eq!(users, [(&program, &once), (&route, &once)]);
    assert_eq!(server.metrics().sum("tidegate_lua_errors_total", &[]), 4.0);
    let shown = ctl(&server, "only-looks", &["lua"]);
    for part in [
        "/x.lua     1     route page\n",
        " program-1, ",
        "/ping.lua, worker 0: table: ",
        "/x.lua, worker 0 (2 times): ",
        "x.lua:3: failed: one\n  stack traceback:\n    [C]: in global 'error'\n",
    ] {
        assert!(shown.contains(part), "{part:?} in {shown}");
    }
    let json = ctl(&server, "only-looks", &["lua", "--json"]);
    assert_eq!(serde_json::from_str::<Value>(&json).expect("JSON"), lua);
}

#[test]
fn a_restart_begins_new_vms_and_lets_requests_end_in_the_previous_one() {
    let server = start();
    assert_eq!(["1", "2"].map(|_| get(&server, "").text()), ["1", "2"]);
    let mut waiting = server.connect("web");
    waiting.send("POST /x?read=1 HTTP/1.1\r\nhost: a\r\ncontent-length: 2\r\n\r\n");
    server.wait_for_metric("tidegate_exchanges_in_flight", &[], 1.0);
    let restart = "POST /v1/lua/restart";
    assert_eq!(api(&server, "only-looks", restart).0, 403);
    assert_eq!(api(&server, "may-write", restart), (200, serde_json::json!({ "restarted": 1 })));
    assert_eq!(get(&server, "").text(), "1", "the file was loaded again");
    waiting.send("ab");
    assert_eq!(waiting.read_response().text(), "3");
    let metrics = server.metrics();
    assert_eq!(metrics.sum("tidegate_lua_vms_restarted_total", &[]), 1.0);
    assert_eq!(metrics.sum("tidegate_lua_vms_replaced_total", &[]), 0.0);
    let summary = api(&server, "only-looks", "GET /v1/summary").1;
    let marks = summary["marks"].as_array().expect("marks").iter();
    let texts: Vec<_> = marks.filter_map(|mark| mark["text"].as_str()).collect();
    assert_eq!(texts, ["the server has started", "the Lua programs were restarted"]);
    assert_eq!(ctl(&server, "may-write", &["reload", "--lua"]), "1 new Lua VMs\n");
    assert_eq!(get(&server, "").text(), "1");
}

#[test]
fn a_script_that_holds_its_worker_shows_as_lag_with_its_stack() {
    let server = start();
    std::thread::scope(|scope| {
        let busy = scope.spawn(|| get(&server, "?busy=1"));
        eventually_some("the worker is late", || {
            let workers = api(&server, "only-looks", "GET /v1/workers").1;
            workers["workers"][0]["lua"]["loop_lag_ms"].as_u64().filter(|ms| *ms >= 1000)
        });
        let labels = [("worker", "0")];
        assert!(server.metrics().sum("tidegate_lua_loop_lag_seconds", &labels) >= 1.0);
        assert_eq!(busy.join().expect("a response").status, 200);
    });
    let lua = lua(&server);
    let error = &lua["errors"][0];
    assert_eq!((&error["route"], &error["times"]), (&"page".into(), &1.into()), "{lua:#}");
    assert_eq!(error["message"], "Lua turn has been running for more than a second");
    assert!(error["traceback"].as_str().expect("a stack").contains("x.lua:10:"), "{lua:#}");
    assert_eq!(server.metrics().sum("tidegate_lua_errors_total", &[]), 0.0);
}
