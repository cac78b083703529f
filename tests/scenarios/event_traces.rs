//! Events about a request that is traced have its `trace_id`, those of its Lua handler included.

use scenarios::Launch;

const TRACE: &str = "4bf92f3577b34da6a3ce929d0e0e4736";

const CONFIG: &str = r#"
workers: 1
listeners: { web: { bind: "127.0.0.1:0" } }
admin: { bind: "127.0.0.1:0" }
upstreams: { gone: { servers: ["127.0.0.1:1"] } }
routes:
  - { match: { path: /gone }, handler: { upstream: gone } }
  - { match: { path: /lua }, handler: { lua: handler.lua } }
  - match: { path: /waf }
    filters: [{ waf: { log_only: true } }]
    handler: { respond: {} }
"#;

const HANDLER: &str = r#"
local logger = require "silly.logger"
return function()
  logger.info "seen"
  error "broken"
end
"#;

/// Sends a request to each route, and returns the events about them.
fn logged(more: &str) -> Vec<String> {
    let launch = Launch::new(&format!("{CONFIG}{more}")).file("handler.lua", HANDLER);
    let server = launch.start();
    for path in ["/gone", "/lua", "/waf?a=%3Cscript%3Ealert(1)%3C/script%3E"] {
        server.exchange(
            "web",
            format!(
                "GET {path} HTTP/1.1\r\nhost: a\r\n\
                 traceparent: 00-{TRACE}-00f067aa0ba902b7-00\r\n\r\n"
            ),
        );
    }
    ["an upstream failed", "seen", "Lua error in a coroutine", "a request failed", "an attack"]
        .map(|text| server.wait_for_log(text))
        .into()
}

#[test]
fn events_about_a_traced_request_have_its_trace_id() {
    let field = format!(" trace_id={TRACE}");
    for line in logged("traces: { sample: 0 }\n") {
        assert!(line.contains(&field), "{line}");
    }
    for line in logged("log: { format: json }\ntraces: { sample: 0 }\n") {
        assert!(line.contains(&format!(r#","trace_id":"{TRACE}""#)), "{line}");
    }
}

#[test]
fn without_traces_events_have_none() {
    for line in logged("") {
        assert!(!line.contains("trace_id"), "{line}");
    }
}
