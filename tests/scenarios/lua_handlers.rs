//! Lua inside the server: handlers, filters and raw programs, and what they may not do to it.

use scenarios::{Connection, HttpResponse, Launch, Tidegate, eventually};
use std::time::Instant;

const HELLO: &str = "return function(request, response)
  response:json(200, { hello = request.query.name or 'world' })
end
";

/// A server whose `/x` is this handler.
fn handler(script: &str) -> Tidegate {
    Launch::new(&config("lua: x.lua", "")).file("x.lua", script).start()
}

fn config(handler: &str, more: &str) -> String {
    format!(
        r#"
workers: 1
listeners: {{ web: {{ bind: "127.0.0.1:0" }} }}
admin: {{ bind: "127.0.0.1:0" }}
routes:
  - {{ match: {{ path: "/x" }}, handler: {{ {handler} }} }}
  - {{ match: {{ path: "/y/{{*rest}}" }}, handler: {{ {handler} }} }}
{more}
"#
    )
}

fn get(server: &Tidegate, target: &str) -> HttpResponse {
    server.exchange("web", format!("GET {target} HTTP/1.1\r\nhost: a\r\n\r\n"))
}

#[test]
fn a_handler_sees_the_request_and_makes_the_response() {
    let server = handler(
        "return function(request, response)
           response.status = 201
           response.headers['X-Many'] = { 'a', 'b' }
           local many = request.headers['X-IN']
           response:json{
             method = request.method, path = request.path, rest = request.params.rest,
             one = request.query.one, two = request.query.two, ip = request.client_ip,
             many = many, host = request.headers.host, nothing = request.headers.nothing,
             body = request.body:json(),
           }
         end",
    );
    let response = server.exchange(
        "web",
        "POST /y/a%20b?one=1&two=2&two=%33 HTTP/1.1\r\nhost: a\r\nx-in: 1\r\nX-In: 2\r\n\
         content-length: 9\r\n\r\n{\"a\":[1]}",
    );
    assert_eq!(response.status, 201);
    assert_eq!(response.all("x-many"), ["a", "b"]);
    assert_eq!(response.header("content-type"), Some("application/json"));
    let said: serde_json::Value = serde_json::from_slice(&response.body).unwrap();
    let expected = serde_json::json!({
        "method": "POST", "path": "/y/a b", "rest": "a b", "one": "1", "two": ["2", "3"],
        "ip": "127.0.0.1", "many": ["1", "2"], "host": "a", "body": { "a": [1] },
    });
    assert_eq!(said, expected);
}

#[test]
fn a_waiting_handler_delays_no_other_request() {
    let server = handler(
        "local time = require 'tide.time'
         local waiting
         local task = require 'tide.task'
         return function(request, response)
           if request.query.first then
             waiting = task.running()
             response:text(task.wait())
           else
             response:text('second')
             task.wakeup(waiting, 'first')
           end
         end",
    );
    let mut first = server.connect("web");
    first.send("GET /x?first HTTP/1.1\r\nhost: a\r\n\r\n");
    // Until the first waits there is nothing to wake, which is an error.
    eventually("the first request waits", || get(&server, "/x").status == 200);
    assert_eq!(first.read_response().text(), "first");
}

#[test]
fn a_body_that_arrives_late_is_waited_for() {
    let server = handler(
        "return function(request, response)
           local body, why = request.body:read(10)
           response:text(body or why)
         end",
    );
    let head = "POST /x HTTP/1.1\r\nhost: a\r\ncontent-length: 4\r\n\r\n";
    let mut client = server.connect("web");
    client.send(head);
    client.send("ab");
    assert_eq!(get(&server, "/x").text(), "");
    client.send("cd");
    assert_eq!(client.read_response().text(), "abcd");
    client.send(format!("{head}efgh"));
    assert_eq!(client.read_response().text(), "efgh");
    client.send("POST /x HTTP/1.1\r\nhost: a\r\ncontent-length: 11\r\n\r\nabcdefghijk");
    assert_eq!(client.read_response().text(), "body too large");
}

#[test]
fn a_response_streams_as_it_is_written() {
    let server = handler(
        "local task = require 'tide.task'
         local writer
         return function(request, response)
           if request.query.go then
             task.wakeup(writer)
             return response:text('gone')
           end
           writer = task.running()
           response:stream()
           response:write('one')
           task.wait()
           response:write('two')
         end",
    );
    let mut client = server.connect("web");
    client.send("GET /x HTTP/1.1\r\nhost: a\r\n\r\n");
    client.read_until("one\r\n");
    assert_eq!(get(&server, "/x?go").text(), "gone");
    client.read_until("two\r\n0\r\n\r\n");
}

#[test]
fn a_client_that_goes_away_ends_its_handler() {
    let server = handler(
        "local time, shared = require 'tide.time', require 'tide.shared'
         return function(request, response)
           if request.query.count then
             return response:text(tostring(shared.get('closed')))
           end
           local guard <close> = setmetatable({}, { __close = function() shared.add('closed') end })
           shared.set('began', true)
           time.sleep(60000)
         end",
    );
    let mut client = server.connect("web");
    client.send("GET /x HTTP/1.1\r\nhost: a\r\n\r\n");
    // In order on one worker: answered after the first has begun.
    assert_eq!(get(&server, "/x?count").text(), "nil");
    drop(client);
    eventually("the handler is closed", || get(&server, "/x?count").text() == "1");
}

#[test]
fn an_error_is_a_500_without_its_text_and_a_traceback_in_the_log() {
    let server = handler("return function() error('the secret') end");
    let response = get(&server, "/x");
    assert_eq!(response.status, 500);
    assert!(!response.text().contains("secret"), "{}", response.text());
    let line = server.wait_for_log("the secret");
    assert!(line.contains("x.lua:1") && line.contains("traceback"), "{line}");
    assert_eq!(get(&server, "/x").status, 500);
}

#[test]
fn a_turn_over_its_budget_is_ended_and_the_worker_lives() {
    let script = "return function(request, response)
        local kind = request.query.kind
        if kind == 'loop' then while true do end end
        if kind == 'pcall' then
          while true do pcall(function() while true do end end) end
        end
        if kind == 'sort' then
          while true do pcall(table.sort, { 3, 1, 2 }, function() while true do end end) end
        end
        if kind == 'coroutine' then
          while true do coroutine.wrap(function() while true do end end)() end
        end
        local function loop() while true do end end
        if kind == 'wrapped' then coroutine.wrap(loop)() end
        if kind == 'resumed' then pcall(coroutine.resume, coroutine.create(loop)) end
        if kind == 'nested' then
          coroutine.wrap(function() coroutine.wrap(loop)() coroutine.yield() end)()
        end
        if kind == 'last' then
          response:text('cut off')
          return coroutine.wrap(loop)()
        end
        if kind == 'compared' then table.sort({ 3, 1, 2 }, loop) end
        if kind == 'sethook' then debug.sethook() end
        if kind == 'exit' then os.exit(1) end
        if kind == 'silly' then require('silly').exit(1) end
        response:text('fine')
      end";
    let config = config("lua: { file: x.lua, budget: 1M }", "");
    let server = Launch::new(&config).file("x.lua", script).start();
    let kinds = ["loop", "pcall", "sort", "coroutine", "sethook", "exit", "silly"];
    for kind in kinds.into_iter().chain(["wrapped", "resumed", "nested", "last", "compared"]) {
        let response = get(&server, &format!("/x?kind={kind}"));
        assert_eq!(response.status, 500, "{kind}");
        assert_eq!(get(&server, "/x").text(), "fine", "{kind}");
    }
    let line = server.wait_for_log("has used up its instructions");
    assert!(line.contains("x.lua:3"), "{line}");
    assert_eq!(server.metrics().sum("tidegate_lua_errors_total", &[]), 12.0);
}

#[test]
fn a_turn_that_lasts_is_counted() {
    let script = "local function loop() while true do end end
      return function(request, response)
        local kind = request.query.kind
        if kind == 'loop' then while true do pcall(loop) end end
        if kind == 'coroutine' then while true do coroutine.wrap(loop)() end end
        if kind == 'forked' then require('silly.task').fork(loop) end
        response:text('fine')
      end";
    let server = handler(script);
    for kind in ["loop", "coroutine"] {
        assert_eq!(get(&server, &format!("/x?kind={kind}")).status, 500, "{kind}");
        assert_eq!(get(&server, "/x").text(), "fine", "{kind}");
    }
    assert_eq!(get(&server, "/x?kind=forked").text(), "fine");
    assert_eq!(get(&server, "/x").text(), "fine");
    let over = |line: &String| line.contains("has used up its instructions");
    eventually("three turns are in the log", || {
        server.log().iter().filter(|l| over(l)).count() == 3
    });
}

#[test]
fn a_handler_that_blocks_its_worker_is_reported_while_it_does() {
    // Time within one function of C is not counted; this one lasts until it is let go.
    let server = handler(
        "return function(request, response)
           os.execute('until [ -e release ]; do sleep 0.05; done')
           response:text('let go')
         end",
    );
    let mut client = server.connect("web");
    client.send("GET /x HTTP/1.1\r\nhost: a\r\n\r\n");
    let line = server.wait_for_log("Lua turn has been running for more than a second");
    assert!(line.contains("vm=worker-0"), "{line}");
    server.write("release", "");
    assert_eq!(client.read_response().text(), "let go");
    // Once, however long it lasts.
    let told = server.log().iter().filter(|line| line.contains("Lua turn has")).count();
    assert_eq!(told, 1);
}

#[test]
fn errors_of_a_handler_are_logged_at_most_ten_times_a_second() {
    let server = handler("return function(request, response) error('no luck') end");
    let mut client = server.connect("web");
    let began = Instant::now();
    let failures = || {
        let of_script = |line: &String| line.contains("Lua error in a coroutine");
        server.log().into_iter().filter(of_script).collect::<Vec<_>>()
    };
    // One of the lines says how many were left out since the one before.
    eventually("a line says how many were suppressed", || {
        for _ in 0..20 {
            client.send("GET /x HTTP/1.1\r\nhost: a\r\n\r\n");
            assert_eq!(client.read_response().status, 500);
        }
        failures().iter().any(|line| line.contains("suppressed="))
    });
    let seconds = began.elapsed().as_secs() as usize + 2;
    assert!(failures().len() <= 10 * seconds, "{} lines in {seconds} s", failures().len());
}

#[test]
fn a_vm_that_holds_too_much_is_replaced() {
    let script = "local held, count = {}, 0
      return function(request, response)
        count = count + 1
        if request.query.hold then held[1] = { ('x'):rep(2500000), ('y'):rep(1000000) } end
        if request.query.hold then for i = 2, 9 do held[i] = ('z'):rep(200000) end end
        if request.query.grow then
          local t
          while true do t = { t } end
        end
        response:text(tostring(count))
      end";
    let config = config("lua: { file: x.lua, memory: 4MiB }", "");
    let server = Launch::new(&config).file("x.lua", script).start();
    assert_eq!(get(&server, "/x").text(), "1");
    assert_eq!(get(&server, "/x?hold").text(), "2");
    assert_eq!(get(&server, "/x").text(), "1");
    server.wait_for_log("exceeds its memory limit");
    let lua = |name: &str| server.metrics().sum(&format!("tidegate_lua_{name}"), &[]);
    // Also of the routes that have had no request since.
    eventually("the former VM has ended", || lua("vms") == 1.0);
    assert_eq!(get(&server, "/y/a").text(), "1");
    assert_eq!((lua("vms_replaced_total"), lua("memory_limit_bytes")), (1.0, 4_194_304.0));
    let used = lua("memory_bytes");
    assert!(used > 10_000.0 && used < 4_194_304.0, "{used}");
    assert_eq!(get(&server, "/x?grow").status, 500);
    server.wait_for_log("the VM has used up its memory");
    assert_eq!(get(&server, "/x").status, 200);
}

#[test]
fn what_one_operation_makes_is_bounded_too() {
    let script = "return function(request, response)
        local text = 'x'
        if request.query.kind == 'concat' then
          for _ = 1, 50 do text = text .. text end
        elseif request.query.kind == 'rep' then
          text = text:rep(1 << 40)
        elseif request.query.kind == 'caught' then
          local ok, why = pcall(function() for _ = 1, 50 do text = text .. text end end)
          text = tostring(ok) .. why
        end
        response:text(text)
      end";
    let config = config("lua: { file: x.lua, memory: 32MiB }", "");
    let server = Launch::new(&config).file("x.lua", script).start();
    for kind in ["concat", "rep"] {
        assert_eq!(get(&server, &format!("/x?kind={kind}")).status, 500, "{kind}");
        server.wait_for_log("not enough memory");
        assert_eq!(get(&server, "/x").text(), "x");
    }
    assert_eq!(get(&server, "/x?kind=caught").text(), "falsenot enough memory");
    let status = std::fs::read_to_string(format!("/proc/{}/status", server.id())).expect("it runs");
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).expect("a peak");
    let kibibytes: u64 = peak.trim().trim_end_matches(" kB").parse().expect("a number");
    // What the process takes besides is some twenty.
    assert!(kibibytes < 256 * 1024, "{kibibytes} KiB");
}

#[test]
fn a_changed_file_is_used_and_requests_in_flight_end_with_the_old_one() {
    let version = |version: u32| {
        format!(
            "local task, shared = require 'tide.task', require 'tide.shared'
             local time = require 'tide.time'
             return function(request, response)
               if request.query.wait then
                 while not shared.get('go') do time.sleep(1) end
               end
               if request.query.go then shared.set('go', true) end
               response:text('{version}')
             end"
        )
    };
    let server = handler(&version(1));
    let mut waiting = server.connect("web");
    waiting.send("GET /x?wait HTTP/1.1\r\nhost: a\r\n\r\n");
    assert_eq!(get(&server, "/x").text(), "1");
    server.write("x.lua", version(2));
    eventually("the new handler serves", || get(&server, "/x").text() == "2");
    assert_eq!(get(&server, "/x?go").text(), "2");
    assert_eq!(waiting.read_response().text(), "1");
    // One that is not Lua is refused whole.
    server.write("x.lua", "return function(");
    server.wait_for_log("configuration rejected");
    assert_eq!(get(&server, "/x").text(), "2");
}

#[test]
fn a_missing_file_and_a_syntax_error_are_errors_with_file_and_line() {
    let launch = Launch::new(&config("lua: x.lua", ""));
    let exit = launch.run(&["check", "tidegate.yaml"]);
    assert_eq!(exit.code, Some(2));
    assert!(
        exit.stderr.contains("cannot read") && exit.stderr.contains("x.lua"),
        "{}",
        exit.stderr
    );
    let launch = launch.file("x.lua", "return function()\n  oops oops\nend");
    let exit = launch.run(&["check", "tidegate.yaml"]);
    assert_eq!(exit.code, Some(2));
    assert!(exit.stderr.contains("x.lua:2:"), "{}", exit.stderr);
}

#[test]
fn a_filter_changes_requests_responses_and_content() {
    let filter = "return {
        request = function(request, response)
          request.state.user = 'me'
          request.headers['X-Added'] = 'yes'
          if request.query.deny then response:text(403, 'no') end
        end,
        response = function(request, response)
          response.headers['X-User'] = request.state.user
        end,
        body = function(piece) return piece and piece:upper() or '!' end,
      }";
    let handler = "return function(request, response)
        response:text((request.headers['x-added'] or 'nothing') .. ' ' .. request.state.user)
      end";
    let more = "  - { match: { path: /f }, filters: [{ lua: f.lua }], handler: { lua: x.lua } }";
    let launch = Launch::new(&config("respond: {}", more));
    let server = launch.file("x.lua", handler).file("f.lua", filter).start();
    let response = get(&server, "/f");
    assert_eq!((response.status, response.header("x-user")), (200, Some("me")));
    assert_eq!(response.text(), "YES ME!");
    let denied = get(&server, "/f?deny");
    assert_eq!((denied.status, denied.text().as_str()), (403, "no"));
}

#[test]
fn a_program_speaks_tcp_on_every_worker_and_over_reloads() {
    let program = |response: &str| {
        format!(
            "return function(connection, address)
               while connection:read('\\r\\n') do connection:write('+{response}\\r\\n') end
             end"
        )
    };
    let more = "programs: [{ bind: '127.0.0.1:0', lua: ping.lua }]";
    let launch = Launch::new(&config("respond: {}", more)).file("ping.lua", program("ONE"));
    let server = launch.start();
    let mut client: Connection = server.connect("program-1");
    client.send("ping\r\nping\r\n");
    client.expect("+ONE\r\n+ONE\r\n");
    server.write("ping.lua", program("TWO"));
    eventually("the new program serves", || {
        let mut other = server.connect("program-1");
        other.send("ping\r\n");
        other.read_until("\r\n") == b"+TWO\r\n"
    });
    client.send("ping\r\n");
    client.expect("+ONE\r\n");
    client.finish_sending();
    client.expect_closed();
}

#[test]
fn workers_share_what_tide_shared_holds() {
    let script = "local shared = require 'tide.shared'
      return function(request, response) response:text(tostring(shared.add('hits'))) end";
    let config = config("lua: x.lua", "").replace("workers: 1", "workers: 2");
    let server = Launch::new(&config).file("x.lua", script).start();
    for count in 1..=20 {
        assert_eq!(get(&server, "/x").text(), count.to_string());
    }
}

#[test]
fn modules_in_c_are_off_unless_requested() {
    let script = "return function(request, response)
        response:text(tostring(package.cpath == '') .. tostring(package.loadlib == nil))
      end";
    let server = handler(script);
    assert_eq!(get(&server, "/x").text(), "truetrue");
    let config = config("lua: x.lua", "lua: { native_modules: true }");
    let server = Launch::new(&config).file("x.lua", script).start();
    assert_eq!(get(&server, "/x").text(), "falsefalse");
}

#[test]
fn the_shortest_handler() {
    let server = handler(HELLO);
    assert_eq!(get(&server, "/x?name=you").text(), "{\"hello\":\"you\"}");
}
