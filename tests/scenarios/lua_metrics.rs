//! What Lua handlers count stands in `/metrics`, added up over workers and across reloads.

use scenarios::{Connection, Launch, Tidegate, eventually, free_port};

const COUNTING: &str = r#"
local prometheus = require "tide.metrics.prometheus"
local requests = prometheus.counter("shop_requests_total", "Requests.", { "what" })
local took = prometheus.histogram("shop_seconds", "Time.", nil, { 0.5, 1 })
return function(request, response)
  requests:labels(request.query.what):inc()
  took:observe(0.75)
  response:text(200, "counted")
end
"#;

fn count(server: &Tidegate, what: &str) {
    let request = format!("GET /x?what={what} HTTP/1.1\r\nhost: a\r\n\r\n");
    assert_eq!(server.exchange("web", request).status, 200);
}

const LISTENING: &str = r#"
local http = require "tide.net.http"
local listener = assert(http.listen {
  addr = "127.0.0.1:0",
  handler = function(stream) stream:respond(418) stream:closewrite("tea") end,
})
return function(request, response)
  response:text(http.get("http://" .. listener.addr .. "/tea").body)
end
"#;

#[test]
fn requests_of_a_listener_of_a_script_are_counted_and_logged() {
    let config = r#"
workers: 1
listeners: { web: { bind: "127.0.0.1:0" } }
admin: { bind: "127.0.0.1:0" }
log: { access: { path: access.log } }
routes: [{ match: { path: "/x" }, handler: { lua: x.lua } }]
"#;
    let server = Launch::new(config).file("x.lua", LISTENING).start();
    count(&server, "tea");
    let class = [("route", "(lua listeners)"), ("class", "4xx")];
    server.wait_for_metric("tidegate_requests_total", &class, 1.0);
    let logged = || std::fs::read_to_string(server.path("access.log")).unwrap_or_default();
    scenarios::eventually("the request is in the access log", || logged().contains("\"/tea\""));
}

#[test]
fn what_a_handler_counts_stands_in_metrics() {
    let config = r#"
workers: 2
listeners: { web: { bind: "127.0.0.1:0" } }
admin: { bind: "127.0.0.1:0" }
routes: [{ match: { path: "/x" }, handler: { lua: x.lua } }]
"#;
    let server = Launch::new(config).file("x.lua", COUNTING).start();
    for what in ["tea", "tea", "a%22b", "tea"] {
        count(&server, what);
    }
    let metrics = server.metrics();
    assert_eq!(metrics.sum("shop_requests_total", &[("what", "tea")]), 3.0);
    assert_eq!(metrics.sum("shop_requests_total", &[]), 4.0);
    assert_eq!(metrics.sum("shop_seconds_bucket", &[("le", "0.5")]), 0.0);
    assert_eq!(metrics.sum("shop_seconds_bucket", &[("le", "1")]), 4.0);
    assert_eq!(metrics.sum("shop_seconds_bucket", &[("le", "+Inf")]), 4.0);
    assert!(metrics.has("tidegate_requests_total"));
}

#[test]
fn listeners_of_a_script_share_an_address_over_workers_and_reloads() {
    let address = format!("127.0.0.1:{}", free_port());
    let script = |version: u32| {
        format!(
            "local listener, why = require('tide.net.http').listen {{
               addr = '{address}',
               handler = function(stream) stream:respond(200) stream:closewrite('tea') end,
             }}
             return function(request, response) response:text('{version} ' .. tostring(why)) end"
        )
    };
    let config = r#"
workers: 2
listeners: { web: { bind: "127.0.0.1:0" } }
routes: [{ match: { path: "/x" }, handler: { lua: x.lua } }]
"#;
    let server = Launch::new(config).file("x.lua", script(1)).start();
    let get = || server.exchange("web", "GET /x HTTP/1.1\r\nhost: a\r\n\r\n").text();
    let tea = || {
        let mut client = Connection::to(address.parse().expect("an address"));
        client.send("GET / HTTP/1.1\r\nhost: a\r\n\r\n");
        assert_eq!(client.read_response().text(), "tea");
    };
    for _ in 0..20 {
        assert_eq!(get(), "1 nil");
        tea();
    }
    server.write("x.lua", script(2));
    eventually("the new script serves", || get().starts_with('2'));
    for _ in 0..20 {
        assert!(get().ends_with(" nil"), "{}", get());
    }
}
