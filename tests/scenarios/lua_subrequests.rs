//! Requests that Lua handlers send themselves: to an upstream by its name, and through the routes.

mod page;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use scenarios::{HttpResponse, Launch, PATIENCE, Tidegate, Upstream, eventually};

const OK: &str = "HTTP/1.1 200 OK\r\ncontent-length: 2\r\nx-from: u\r\n\r\nok";

/// A server whose `/x` is this handler, with an upstream `u`.
fn server(script: &str, upstream: &str, more: &str) -> Tidegate {
    launch(script, upstream, more).start()
}

fn launch(script: &str, upstream: &str, more: &str) -> Launch {
    let config = format!(
        r#"
workers: 1
listeners: {{ web: {{ bind: "127.0.0.1:0" }} }}
upstreams:
  u: {{ servers: [{upstream}] }}
routes:
  - {{ name: x, match: {{ path: "/x" }}, handler: {{ lua: x.lua }} }}
  - {{ match: {{ path: "/u" }}, handler: {{ upstream: u }} }}
{more}
"#
    );
    Launch::new(&config).file("x.lua", script)
}

fn get(server: &Tidegate, target: &str) -> HttpResponse {
    server.exchange("web", format!("GET {target} HTTP/1.1\r\nhost: a\r\n\r\n"))
}

fn quoted(upstream: &Upstream) -> String {
    format!("{:?}", upstream.address().to_string())
}

#[test]
fn an_upstream_is_reached_by_its_name() {
    let upstream = Upstream::start(|peer| {
        while !peer.at_end() {
            let head = peer.read_head();
            let body =
                if head.contains("Content-Length: 4") { peer.read_exactly(4) } else { vec![] };
            let said = format!("{head}{}", String::from_utf8_lossy(&body));
            let length = said.len();
            let fields = format!("X-Two: 1\r\nx-two: 2\r\ncontent-length: {length}");
            peer.send(format!("HTTP/1.1 201 Made\r\n{fields}\r\n\r\n{said}"));
        }
    });
    let script = "local u = require 'tide'.upstream('u')
      return function(request, response)
        local answer
        if request.query.own then
          answer = u:request{ method = 'PUT', path = '/a b', query = { q = 1 }, body = 'body',
            headers = { ['X-Own'] = { 'a', 'b' } } }
        else
          answer = u:request(request, { path = '/other', headers = { ['x-gone'] = false } })
        end
        assert(answer.status == 201 and answer.headers['X-TWO'][2] == '2')
        response:text(answer.body:read() .. '|' .. answer.body:read())
      end";
    let server = server(script, &quoted(&upstream), "");
    let text = get(&server, "/x?own").text();
    let (first, second) = text.split_once('|').expect("both");
    assert_eq!(first, second);
    let lower = first.to_ascii_lowercase();
    assert!(lower.starts_with("put /a%20b?q=1 http/1.1\r\nhost: 127.0.0.1:"), "{first}");
    assert!(lower.contains("x-own: a\r\nx-own: b\r\n"), "{first}");
    assert!(!lower.contains("x-forwarded-for"), "{first}");
    assert!(lower.ends_with("\r\n\r\nbody"), "{first}");
    let response = server.exchange(
        "web",
        "POST /x?a=1 HTTP/1.1\r\nhost: a.example\r\nx-gone: 1\r\nx-kept: 2\r\n\
         content-length: 4\r\n\r\nsent",
    );
    let text = response.text().to_ascii_lowercase();
    assert!(text.starts_with("post /other?a=1 http/1.1\r\nhost: a.example\r\n"), "{text}");
    assert!(text.contains("x-kept: 2\r\n") && !text.contains("x-gone"), "{text}");
    assert!(text.contains("x-forwarded-for: 127.0.0.1\r\n"), "{text}");
    assert!(text.contains("\r\n\r\nsent|"), "{text}");
}

#[test]
fn the_upstream_tries_another_server_and_says_why_when_none_is_left() {
    let script = "local u = require 'tide'.upstream('u')
      return function(request, response)
        local answer, why, status = u:request{ path = '/' }
        if answer then return response:stream(answer) end
        response:text(status, why)
      end";
    let upstream = Upstream::responding(OK);
    // Port 1 has no listener.
    let both = format!("\"127.0.0.1:1\", {}", quoted(&upstream));
    let healthy = server(script, &both, "");
    for _ in 0..4 {
        let response = get(&healthy, "/x");
        assert_eq!((response.status, response.text().as_str()), (200, "ok"));
        assert_eq!(response.header("x-from"), Some("u"));
    }
    let dead = server(script, "\"127.0.0.1:1\"", "");
    let response = get(&dead, "/x");
    assert_eq!(response.status, 502);
    assert!(response.text().contains("refused"), "{}", response.text());
}

#[test]
fn a_request_takes_another_route_and_its_response_is_passed_on() {
    let script = "local tide = require 'tide'
      return function(request, response)
        local to = request.query.to
        response.headers['x-mine'] = 'yes'
        response:stream(tide.route(request, { target = to, timeout = 60000 }))
      end";
    let more = "
  - match: { path: /said }
    handler: { respond: { status: 202, body: said, headers: { x-mine: no } } }
  - { match: { path: '/{*rest}' }, handler: { files: { root: '.' } } }";
    let upstream = Upstream::responding(OK);
    let long = "0123456789".repeat(30_000);
    let server = launch(script, &quoted(&upstream), more).file("long.txt", &long).start();
    let said = get(&server, "/x?to=/said");
    assert_eq!((said.status, said.text().as_str(), said.all("x-mine")), (202, "said", vec!["yes"]));
    assert_eq!(get(&server, "/x?to=/u").text(), "ok");
    assert!(get(&server, "/x?to=/long.txt").text() == long);
    assert_eq!(get(&server, "/x?to=/short").status, 404);
}

#[test]
fn programs_and_handlers_use_the_caches_and_limits_of_routes() {
    let script = "local tide = require 'tide'
      return function(request, response)
        local answer = tide.route(request, { target = request.query.to })
        response:text(answer.status, answer.body:read())
      end";
    let program = r#"local tide = require "tide"
      return function(connection)
        while true do
          local path = connection:read("\n")
          if not path then return end
          local headers = { host = "shop.test" }
          local answer = assert(tide.route { path = path:sub(1, -2), headers = headers })
          connection:write(answer.status .. " " .. answer.body:read() .. "\n")
        end
      end"#;
    let requests = Arc::new(AtomicUsize::new(0));
    let counted = requests.clone();
    let upstream = Upstream::start(move |peer| {
        while !peer.at_end() {
            peer.read_head();
            let number = counted.fetch_add(1, Ordering::SeqCst) + 1;
            let head = "HTTP/1.1 200 OK\r\ncache-control: max-age=60\r\ncontent-length: 1";
            peer.send(format!("{head}\r\n\r\n{number}"));
        }
    });
    let more = "
  - match: { host: shop.test, path: /cached }
    filters: [{ cache: pages }]
    handler: { upstream: u }
  - match: { path: /limited }
    filters: [{ rate_limit: { rate: 1/h, burst: 2 } }]
    handler: { respond: { body: passed } }
caches: { pages: { memory: 8MiB } }
programs: [{ bind: '127.0.0.1:0', lua: program.lua }]";
    let server = launch(script, &quoted(&upstream), more).file("program.lua", program).start();
    let handler = |target: &str| {
        let head = format!("GET /x?to={target} HTTP/1.1\r\nhost: shop.test\r\n\r\n");
        let response = server.exchange("web", head);
        (response.status, response.text())
    };
    let mut client = server.connect("program-1");
    client.send("/cached\n/cached\n");
    client.expect("200 1\n200 1\n");
    assert_eq!(handler("/cached"), (200, "1".to_owned()), "both use one cache");
    assert_eq!(requests.load(Ordering::SeqCst), 1);
    client.send("/limited\n");
    client.expect("200 passed\n");
    assert_eq!(handler("/limited"), (200, "passed".to_owned()), "both use one limit");
    assert_eq!(handler("/limited").0, 429);
    client.send("/limited\n");
    client.expect("429 ");
}

#[test]
fn a_route_that_requests_itself_ends() {
    let script = "local tide = require 'tide'
      return function(request, response)
        local answer, why, status = tide.route(request)
        if answer then return response:stream(answer) end
        response:text(status, why)
      end";
    let upstream = Upstream::responding(OK);
    let response = get(&server(script, &quoted(&upstream), ""), "/x");
    assert_eq!(response.status, 508);
    assert!(response.text().contains("10 requests led to one another"), "{}", response.text());
}

#[test]
fn a_response_of_another_handler_is_let_go_of_in_the_middle_of_a_turn() {
    let script = "local tide, shared = require 'tide', require 'tide.shared'
      return function(request, response)
        if request.query.stream then
          local over <close> = setmetatable({}, { __close = function() shared.add('over') end })
          response:stream()
          while true do response:write(('x'):rep(100000)) end
        end
        if request.query.over then return response:text(tostring(shared.get('over'))) end
        local answer = tide.route(request, { query = { stream = 1 } })
        answer:close()
        response:text(tostring(answer.status))
      end";
    let upstream = Upstream::responding(OK);
    let server = server(script, &quoted(&upstream), "");
    assert_eq!(get(&server, "/x").text(), "200");
    eventually("the other handler is cancelled", || get(&server, "/x?over").text() == "1");
}

#[test]
fn content_is_read_within_bounds_whatever_it_is() {
    let script = "local tide = require 'tide'
      return function(request, response)
        local answer = tide.route(request, { target = request.query.to })
        local text, why = answer.body:read(tonumber(request.query.limit))
        local coding = answer.headers['content-encoding']
        response:text((text and #text or why) .. ' ' .. tostring(coding))
      end";
    let more = "
  - match: { path: '/{*rest}' }
    filters: [{ compress: {} }]
    handler: { files: { root: '.' } }";
    let upstream = Upstream::responding(OK);
    let long = "0123456789".repeat(30_000);
    let server = launch(script, &quoted(&upstream), more).file("long.txt", &long).start();
    assert_eq!(get(&server, "/x?to=/long.txt").text(), "300000 nil");
    assert_eq!(get(&server, "/x?to=/long.txt&limit=299999").text(), "body too large nil");
    let zipped = |limit: &str| {
        let request = format!(
            "GET /x?to=/long.txt{limit} HTTP/1.1\r\nhost: a\r\naccept-encoding: gzip\r\n\r\n"
        );
        server.exchange("web", request).text()
    };
    assert_eq!(zipped(""), "300000 gzip");
    assert!(zipped("&limit=200000").contains("larger than allowed"), "{}", zipped("&limit=200000"));
}

#[test]
fn a_client_that_goes_away_takes_its_request_with_it() {
    let script = "local u = require 'tide'.upstream('u')
      return function(request, response)
        response:stream(u:request{ path = '/' })
      end";
    let (told, gone) = std::sync::mpsc::channel();
    let upstream = Upstream::start(move |peer| {
        peer.read_head();
        told.send("asked").unwrap();
        // Without a response: the connection ends because it is no longer awaited.
        peer.read_until_gone();
        told.send("gone").unwrap();
    });
    let server = server(script, &quoted(&upstream), "");
    let mut client = server.connect("web");
    client.send("GET /x HTTP/1.1\r\nhost: a\r\n\r\n");
    assert_eq!(gone.recv_timeout(PATIENCE), Ok("asked"));
    drop(client);
    assert_eq!(gone.recv_timeout(PATIENCE), Ok("gone"));
}

#[test]
fn time_runs_out_and_what_is_wrong_is_reported() {
    let script = "local tide, errno = require 'tide', require 'tide.errno'
      local u = tide.upstream('u')
      return function(request, response)
        local answer, why, status = u:request{ timeout = 20 }
        assert(not answer and why == errno.TIMEDOUT and status == 504)
        local said = {}
        for _, wrong in ipairs {
          function() u:request{ haeders = {} } end,
          function() u:request{ method = 'A B' } end,
          function() u:request{ target = '/a b' } end,
          function() u:request{ path = 'a' } end,
          function() u:request(request, { body = 1 }) end,
          function() u:request{ headers = { ['a b'] = 'c' } } end,
          function() tide.route{} end,
          function() tide.upstream('n' .. '') end,
          function() response:stream(nil, 'the reason') end,
        } do
          local ok, why = pcall(wrong)
          assert(not ok)
          said[#said + 1] = why:match('^[^\\n]*')
        end
        response:text(table.concat(said, '\\n'))
      end";
    let upstream = Upstream::start(|peer| {
        peer.read_until_gone();
    });
    let server = server(script, &quoted(&upstream), "");
    let text = get(&server, "/x").text();
    let lines: Vec<&str> = text.lines().collect();
    for (line, expected) in lines.iter().zip([
        "unknown option 'haeders'",
        "method: not a method",
        "target: a path from / on",
        "path: a path from / on",
        "body: string expected, got number",
        "\"a b\" is not a field name",
        "bad argument #1 to 'route' (path or target expected)",
        "there is no upstream \"n\"",
        "a response of a subrequest expected, got nil: the reason",
    ]) {
        assert!(line.contains(expected), "{line}\nwanted {expected}");
    }
    assert_eq!(lines.len(), 9, "{text}");
}

#[test]
fn names_in_lua_files_are_checked_with_the_configuration() {
    let launch = |script: &str| {
        let config = r#"
listeners: { web: { bind: "127.0.0.1:0" } }
upstreams:
  catalog: { servers: ["127.0.0.1:1"] }
routes:
  - { match: { path: "/x" }, handler: { lua: x.lua } }
"#;
        Launch::new(config).file("x.lua", script).run(&["check", "tidegate.yaml"])
    };
    let used = "return function() require 'tide'.upstream(('cat'):upper() or 'catalog') end";
    assert_eq!(launch(used).code, Some(0), "{}", launch(used).stderr);
    let unused = launch("return function() end");
    assert!(unused.stderr.contains("upstream \"catalog\" is never used"), "{}", unused.stderr);
    let wrong = launch("local tide = require 'tide'\nlocal c = tide.upstream('catlog')\nreturn c");
    assert_eq!(wrong.code, Some(2));
    let said = "x.lua:2: there is no upstream \"catlog\", did you mean \"catalog\"?";
    assert!(wrong.stderr.contains(said), "{}", wrong.stderr);
}

#[test]
fn requests_in_flight_keep_their_routes_over_a_reload() {
    let script =
        "local tide, shared, time = require 'tide', require 'tide.shared', require 'tide.time'
      return function(request, response)
        if request.query.go then shared.set('go', true) return response:text('gone') end
        if request.query.waits then return response:text(tostring(shared.get('waits'))) end
        shared.set('waits', true)
        while not shared.get('go') do time.sleep(1) end
        response:stream(tide.route(request, { target = '/said' }))
      end";
    let said = |text: &str| {
        format!("  - {{ match: {{ path: /said }}, handler: {{ respond: {{ body: {text} }} }} }}")
    };
    let upstream = Upstream::responding(OK);
    let address = quoted(&upstream);
    let server = server(script, &address, &said("one"));
    let mut client = server.connect("web");
    client.send("GET /x HTTP/1.1\r\nhost: a\r\n\r\n");
    eventually("the request is in flight", || get(&server, "/x?waits").text() == "true");
    let config = std::fs::read_to_string(server.path("tidegate.yaml")).expect("the configuration");
    let config = config.replace("body: one", "body: two");
    server.write("tidegate.yaml", config);
    eventually("the new configuration serves", || get(&server, "/said").text() == "two");
    assert_eq!(get(&server, "/x?go").text(), "gone");
    assert_eq!(client.read_response().text(), "one");
}
