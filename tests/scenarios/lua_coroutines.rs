//! Several coroutines of one Lua handler: which may read its body, which writes its response, and
//! what becomes of them when the request is over.

use scenarios::{Launch, Tidegate, eventually};

/// A server whose `/x` is this handler.
fn handler(script: &str) -> Tidegate {
    let config = r#"
workers: 1
listeners: { web: { bind: "127.0.0.1:0" } }
routes: [{ match: { path: "/x" }, handler: { lua: x.lua } }]
"#;
    Launch::new(config).file("x.lua", script).start()
}

/// Waits until `/x?told` says so.
fn wait_until(server: &Tidegate, told: &str) {
    eventually(&format!("/x?told says {told}"), || {
        server.exchange("web", "GET /x?told HTTP/1.1\r\nhost: a\r\n\r\n").text() == told
    });
}

const TELLING: &str = "local task, shared = require 'tide.task', require 'tide.shared'
  local function tell(what)
    shared.set('told', (shared.get('told') or '') .. tostring(what):match('[^:]*$') .. ';')
  end
";

#[test]
fn several_coroutines_write_a_response_and_none_is_forgotten() {
    let script = "local waitgroup = require 'tide.sync.waitgroup'
      return function(request, response)
        response:stream()
        local group = waitgroup.new()
        for _ = 1, 3 do
          group:fork(function() for _ = 1, 20 do response:write(('x'):rep(50000)) end end)
        end
        group:wait()
        response:finish('end')
      end";
    let server = handler(script);
    let response = server.exchange("web", "GET /x HTTP/1.1\r\nhost: a\r\n\r\n");
    assert_eq!(response.body.len(), 3 * 20 * 50_000 + 3);
    assert!(response.body.ends_with(b"xend"));
}

#[test]
fn one_coroutine_reads_a_body_at_a_time() {
    let script = format!(
        "{TELLING}
      return function(request, response)
        if request.query.told then return response:text(shared.get('told') or '') end
        task.fork(function()
          tell(select(2, pcall(request.body.read, request.body)))
        end)
        response:text(request.body:read())
      end"
    );
    let server = handler(&script);
    let mut client = server.connect("web");
    client.send("POST /x HTTP/1.1\r\nhost: a\r\ncontent-length: 4\r\n\r\n");
    wait_until(&server, "another task reads this body;");
    client.send("body");
    assert_eq!(client.read_response().text(), "body");
}

#[test]
fn a_coroutine_that_waits_when_the_request_is_over_gets_an_error() {
    let script = format!(
        "{TELLING}
      return function(request, response)
        if request.query.told then return response:text(shared.get('told') or '') end
        task.fork(function()
          tell(select(2, pcall(request.body.read, request.body)))
        end)
        local main = task.running()
        task.fork(function() task.wakeup(main) end)
        task.wait()
        response:finish('done')
        tell(select(2, pcall(request.body.read, request.body)))
      end"
    );
    let server = handler(&script);
    let mut client = server.connect("web");
    client.send("POST /x HTTP/1.1\r\nhost: a\r\ncontent-length: 4\r\n\r\n");
    assert_eq!(client.read_response().text(), "done");
    let own = "another task reads this body;";
    wait_until(&server, &format!("{own}this request is over;"));
}

#[test]
fn a_response_that_is_not_streamed_has_a_bound() {
    let script = "return function(request, response)
        local mebibyte = ('x'):rep(1 << 20)
        for _ = 1, 64 do response:write(mebibyte) end
        local ok, why = pcall(response.write, response, 'x')
        response:text(tostring(ok) .. why)
      end";
    let response = handler(script).exchange("web", "GET /x HTTP/1.1\r\nhost: a\r\n\r\n");
    assert!(response.text().ends_with("longer than 64 MiB: stream it"), "{}", response.text());
}
