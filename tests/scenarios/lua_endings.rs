//! Ends of Lua handlers that leave something to close, and of coroutines that a script closes.

use scenarios::{HttpResponse, Launch, Tidegate, eventually};

/// A server whose `/x` is this handler.
fn handler(script: &str) -> Tidegate {
    let config = r#"
workers: 1
listeners: { web: { bind: "127.0.0.1:0" } }
admin: { bind: "127.0.0.1:0" }
routes: [{ match: { path: "/x" }, handler: { lua: x.lua } }]
"#;
    Launch::new(config).file("x.lua", script).start()
}

fn get(server: &Tidegate, target: &str) -> HttpResponse {
    server.exchange("web", format!("GET {target} HTTP/1.1\r\nhost: a\r\n\r\n"))
}

#[test]
fn what_runs_while_a_coroutine_ends_is_counted() {
    let script = "local time = require 'tide.time'
      local function loop() while true do end end
      return function(request, response)
        local kind = request.query.kind
        if kind == 'handled' then table.sort({ 3, 1, 2 }, function() xpcall(loop, loop) end) end
        if not kind then return response:text('fine') end
        local guard <close> = setmetatable({}, { __close = loop })
        if kind == 'gone' then time.sleep(60000) end
        error('failed')
      end";
    let server = handler(script);
    for kind in ["failed", "handled"] {
        assert_eq!(get(&server, &format!("/x?kind={kind}")).status, 500, "{kind}");
        assert_eq!(get(&server, "/x").text(), "fine", "{kind}");
    }
    let mut client = server.connect("web");
    client.send("GET /x?kind=gone HTTP/1.1\r\nhost: a\r\n\r\n");
    assert_eq!(get(&server, "/x").text(), "fine");
    drop(client);
    // Of the comparison, and of what was closed in the two others.
    let over = |line: &String| line.contains("has used up its instructions");
    eventually("three turns are in the log", || {
        server.log().iter().filter(|l| over(l)).count() == 3
    });
    assert_eq!(get(&server, "/x").text(), "fine");
}

#[test]
fn errors_while_a_coroutine_is_closed_are_logged() {
    let script = "local time, task = require 'tide.time', require 'tide.task'
      return function(request, response)
        local kind = request.query.kind
        local guard <close> = setmetatable({}, { __close = function(_, why)
          if kind == 'waits' then time.sleep(1) end
          if kind == 'forks' then return task.fork(function() time.sleep(1) error('forked') end) end
          error(kind == 'again' and why or 'while closing ' .. kind, 0)
        end })
        if kind == 'gone' then time.sleep(60000) end
        error('failed', 0)
      end";
    let server = handler(script);
    for kind in ["fails", "waits", "forks", "again"] {
        assert_eq!(get(&server, &format!("/x?kind={kind}")).status, 500, "{kind}");
    }
    let mut client = server.connect("web");
    client.send("GET /x?kind=gone HTTP/1.1\r\nhost: a\r\n\r\n");
    assert_eq!(get(&server, "/x?kind=again").status, 500);
    drop(client);
    for why in ["while closing fails", "only a task may sleep", "forked", "while closing gone"] {
        server.wait_for_log(why);
    }
    let errors = || server.metrics().sum("tidegate_lua_errors_total", &[]);
    eventually("nine errors are counted", || errors() == 9.0);
}

#[test]
fn a_request_whose_handler_is_closed_by_another_gets_a_response() {
    let script = "local task, waiting = require 'tide.task', nil
      return function(request, response)
        if request.query.close then return response:text(tostring(coroutine.close(waiting))) end
        waiting = task.running()
        task.wait()
      end";
    let server = handler(script);
    let mut client = server.connect("web");
    client.send("GET /x HTTP/1.1\r\nhost: a\r\n\r\n");
    assert_eq!(get(&server, "/x?close").text(), "true");
    assert_eq!(client.read_response().status, 500);
    server.wait_for_log("task closed with coroutine.close");
}

#[test]
fn recursion_through_functions_of_the_server_ends_with_an_error() {
    let script = "local re = require 'tide.re'
      return function(request, response)
        local function deep() return (re.gsub('x', 'x', deep)) end
        local ok, why = pcall(deep)
        response:text(tostring(ok) .. why)
      end";
    let server = handler(script);
    let response = get(&server, "/x").text();
    assert!(response.starts_with("false") && response.contains("C stack overflow"), "{response}");
}
