//! `tide.shared` in a real Redis, which two servers share.

use std::path::Path;

use crate::shared_limits::Redis;
use crate::tools::has;
use scenarios::{Launch, Tidegate, eventually, temporary_directory};

const SCRIPT: &str = r#"
local shared = require "tide.shared"
local calls = {
  ["/add"] = function() return shared.add("hits") end,
  ["/more"] = function() return shared.add("some", 5, 60) end,
  ["/set"] = function()
    shared.set("text", "hello\0")
    shared.set("number", 1.5, 60)
    shared.set("truth", false)
    shared.set("digits", "7")
    shared.set("count", 7)
    shared.set("none", "x")
    shared.set("none", nil)
    return "set"
  end,
  ["/get"] = function()
    assert(shared.get("text") == "hello\0" and shared.get("number") == 1.5)
    assert(shared.get("truth") == false and shared.get("digits") == "7")
    assert(math.type(shared.get("count")) == "integer" and shared.get("none") == nil)
    return "equal"
  end,
  ["/delete"] = function() return shared.delete("text") end,
  ["/wrong"] = function()
    assert(not pcall(shared.set, "table", {}) and not pcall(shared.set, "k", 1, 0))
    assert(not pcall(shared.get, ("k"):rep(70000)))
    shared.set("word", "many")
    local ok, why = pcall(shared.add, "word")
    return tostring(ok) .. " " .. tostring(why):match("'add' needs a whole number")
  end,
  ["/short"] = function()
    shared.set("short", 1, 0.01)
    while shared.get("short") do end
    return "gone"
  end,
  ["/try"] = function()
    local ok, why = pcall(shared.add, "hits")
    return ok and "reached" or tostring(why)
  end,
}
return function(request, response) response:text(tostring(calls[request.path]())) end
"#;

fn server(redis: &Path) -> Tidegate {
    let config = format!(
        r#"
listeners: {{ web: {{ bind: "127.0.0.1:0" }} }}
admin: {{ bind: "127.0.0.1:0" }}
shared: {{ redis: ["unix:{}"], prefix: shop, timeout: 5s }}
lua: {{ shared: redis }}
routes:
  - match: {{ path: "/{{*rest}}" }}
    handler: {{ lua: x.lua }}
"#,
        redis.display()
    );
    Launch::new(&config).file("x.lua", SCRIPT).start()
}

fn get(server: &Tidegate, path: &str) -> String {
    let response = server.exchange("web", format!("GET {path} HTTP/1.1\r\nhost: a\r\n\r\n"));
    assert_eq!(response.status, 200, "{path}: {:?}", server.log());
    response.text()
}

#[test]
fn servers_share_the_entries_of_lua_programs() {
    if !has("redis-server") {
        return;
    }
    let directory = temporary_directory();
    let redis = Redis::on_socket(directory.path());
    let path = directory.path().join("redis.sock");
    let (first, second) = (server(&path), server(&path));
    for count in 1..=10 {
        let server = if count % 2 == 0 { &first } else { &second };
        assert_eq!(get(server, "/add"), count.to_string());
    }
    assert_eq!((get(&first, "/more"), get(&second, "/more")), ("5".to_owned(), "10".to_owned()));
    assert!(redis.ask(&["PTTL", "shop:lua:some"]).trim().parse::<i64>().expect("ms") > 0);
    assert_eq!(get(&first, "/set"), "set");
    assert_eq!(get(&second, "/get"), "equal");
    assert_eq!((get(&second, "/delete"), get(&first, "/delete")), ("true".into(), "false".into()));
    assert_eq!(get(&first, "/wrong"), "false 'add' needs a whole number");
    assert_eq!(get(&first, "/short"), "gone");
    // Without Redis a call fails, also one that stands still, and the server continues.
    redis.process.signal("STOP");
    let late = get(&first, "/try");
    assert!(late.contains("tide.shared: ") && late.contains("time-out"), "{late}");
    redis.process.signal("CONT");
    eventually("Redis is used again", || get(&first, "/try") == "reached");
    redis.kill();
    eventually("Redis is gone", || get(&second, "/try").contains("tide.shared: "));
    let _redis = Redis::on_socket(directory.path());
    eventually("another Redis is used", || get(&second, "/try") == "reached");
}
